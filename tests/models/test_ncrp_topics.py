"""The globals of the variational nested CRP: transcriptions, bounds, enumeration."""

from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import logsumexp, psi

from checks.long import daily
from reference import ncrp_topics as reference
from reference import nested_crp as collapsed
from skbnp.components.tree_sticks import (
    LevelPriors,
    log_path_evidence,
    log_stick_evidence,
    log_stub_priors,
    stick_parameters,
    stub_nodes,
)
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import LocalStop
from skbnp.models.nested_crp import local
from skbnp.models.nested_crp.local import update_paths
from skbnp.models.nested_crp.model import (
    PathStats,
    TopicTree,
    collapsed_bound,
    elbo_terms,
    log_topic_evidence,
    path_globals,
    update_globals,
)
from skbnp.trees import Tree

#: 0 above 1, 2, 3; 1 above 4, 5; 2 above 6; nothing below 3. Siblings 5, 4.
TREE = Tree([0, 1, 5, 4, 2, 6, 3], [0, 1, 2, 2, 1, 2, 1])
PRIORS = LevelPriors(0.7, np.array([3.0, 2.0, 1.0]), np.array([1.0, 0.5, 0.25]))
N_WORDS = 12


def names_of(tree):
    """Nodes as tuples of ids from the root, and the children of each, in order."""
    names = [tuple(tree.path_to(node).tolist()) for node in tree.ids]
    children = {}
    for name in names[1:]:
        children.setdefault(name[:-1], []).append(name)
    return names, children


def random_topics(rng, tree=TREE, n_words=N_WORDS):
    masses = rng.gamma(0.5, 4.0, size=len(tree))
    return TopicTree(tree, rng.gamma(0.3, 9.0, size=(len(tree), n_words)), masses)


def priors_of(topics, priors):
    """What the document step needs to know."""
    given = path_globals(topics, priors)
    log_topics = given.log_topics(np.arange(topics.word_counts.shape[1]))
    rest = given.stub_nodes, given.log_prior, given.level_prior
    return log_topics, given.off_tree, *rest


def local_step(topics, priors, counts, starts=None, *, family="conditional", **options):
    """Statistics of a dense corpus, and what its documents say."""
    X = sp.csr_array(counts)
    stop = LocalStop(options.pop("max_iter", 500), options.pop("tol", 1e-10))
    with patch.object(local, "PRUNE", options.pop("prune", np.inf)):
        result = update_paths(
            path_globals(topics, priors),
            X,
            stop,
            Executor(1),
            family=family,
            starts=starts,
            **options,
        )
    none = PathStats.zero(len(topics.tree), X.shape[1], priors.n_levels)
    stats = result.add_to(none, X, stub_nodes(topics.tree, priors.n_levels))
    assert_allclose(
        elbo_terms(topics, priors, stats)["documents"], result.bounds.sum(), rtol=1e-10
    )
    return stats, result


def elbo(*args):
    return sum(elbo_terms(*args).values())


def best_elbo(tree, priors, stats):
    """ELBO once the globals have taken over the statistics."""
    return elbo(TopicTree(tree, stats.word_counts, stats.stub_masses), priors, stats)


def corpus(rng, n_docs=25, n_words=N_WORDS):
    topics = rng.dirichlet(np.full(n_words, 0.2), size=4)
    counts = np.array(
        [rng.multinomial(15, topics[rng.integers(4)]) for _ in range(n_docs)]
    )
    counts[3] = 0
    return counts.astype(float)


# Paths and sticks ---------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.25, 1.0, 3.0])
def test_stub_priors_sum_over_all_their_paths(gamma, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.gamma(2.0, 2.0, size=(2, len(TREE))) + 0.1
    names, children = names_of(TREE)
    sticks = dict(zip(names, zip(a, b, strict=True), strict=True))
    expected = [
        reference.stub_expansion(sticks, children, name, 3, gamma, int(36 * gamma) + 9)
        for name in names
    ]
    got = log_stub_priors(TREE, a, b, gamma, 3)
    assert_allclose(got, expected, rtol=1e-12)
    with pytest.raises(AssertionError):
        assert_allclose(log_stub_priors(TREE, a, b, 1.01 * gamma, 3), expected)


def test_sticks_count_what_passes_by(seed):
    rng = np.random.default_rng(seed)
    masses = rng.gamma(1.0, size=len(TREE))
    a, b = stick_parameters(TREE, masses, 0.7)
    names, children = names_of(TREE)
    for i, name in enumerate(names[1:], start=1):
        siblings = children[name[:-1]]
        later = siblings[siblings.index(name) + 1 :]
        stays = sum(
            m for m, k in zip(masses, names, strict=True) if name == k[: len(name)]
        )
        leaves = sum(
            m
            for m, k in zip(masses, names, strict=True)
            if k == name[:-1] or k[: len(name)] in later
        )
        assert_allclose([a[i], b[i]], [1.0 + stays, 0.7 + leaves], rtol=1e-12)


# Bounds -------------------------------------------------------------------------------


def test_terms_equal_their_transcriptions(seed):
    rng = np.random.default_rng(seed)
    topics, counts = random_topics(rng), corpus(rng, n_docs=6)
    stats, _ = local_step(topics, PRIORS, counts)
    terms = elbo_terms(topics, PRIORS, stats)
    eta = PRIORS.topic_prior[topics.tree.depth]
    a, b = stick_parameters(TREE, topics.stub_masses, PRIORS.concentration)
    given = priors_of(topics, PRIORS)
    result = [reference.conditional_step(row, *given, 500, 1e-10)[:3] for row in counts]
    expected = {
        "topics": reference.topics_term(topics.word_counts, eta),
        "sticks": reference.sticks_term(zip(a[1:], b[1:], strict=True), 0.7),
        "documents": reference.documents_term(counts, *given, result),
    }
    assert terms.keys() == expected.keys()
    for name, value in expected.items():
        assert_allclose(terms[name], value, rtol=1e-9)


@pytest.mark.parametrize("eta", [1e-3, 0.1, 1.0])
def test_collapsed_bound_equals_its_transcription(eta, seed):
    rng = np.random.default_rng(seed)
    priors = replace(PRIORS, topic_prior=eta * PRIORS.topic_prior)
    topics = random_topics(rng)
    stats, _ = local_step(topics, priors, corpus(rng))
    tree = topics.tree
    topic_priors = priors.topic_prior[tree.depth]
    evidence = log_topic_evidence(stats.word_counts, topic_priors).sum()
    expected = best_elbo(tree, priors, stats) - evidence
    expected -= log_stick_evidence(tree, stats.stub_masses, priors)
    expected += reference.collapsed_terms(tree, priors, stats)
    got = collapsed_bound(tree, priors, stats)
    assert_allclose(got, expected, rtol=1e-8)
    half = replace(stats, word_variances=0.5 * stats.word_variances)
    assert abs(collapsed_bound(tree, priors, half) - expected) > 1e-3
    none = replace(stats, word_variances=0.0 * stats.word_variances)
    certain = best_elbo(tree, priors, none)
    certain -= log_stick_evidence(tree, stats.stub_masses, priors)
    masses, variances = stats.stub_masses, stats.stub_variances
    certain += log_path_evidence(tree, masses, variances, priors)
    assert_allclose(collapsed_bound(tree, priors, none), certain, rtol=1e-11)


@pytest.mark.parametrize("gamma", [0.3, 1.0, 4.0])
def test_path_evidence_is_that_of_seating_documents_one_by_one(gamma, seed):
    """Where all paths are certain; children may be empty."""
    rng = np.random.default_rng(seed)
    masses = np.zeros(len(TREE))
    masses[TREE.leaves] = rng.integers(5, size=len(TREE.leaves))
    masses[[0, 1]] = 3.0, 2.0  # these leave the tree
    through = TREE.accumulate(masses)
    expected = 0.0
    for node in np.flatnonzero(TREE.depth < 2):
        tables = [*through[1:][TREE.parent[1:] == node], *np.ones(int(masses[node]))]
        seated = 0
        for size in tables:
            for there in range(round(size)):
                weight = there if there else gamma
                expected += np.log(weight / (seated + gamma))
                seated += 1
    priors = replace(PRIORS, concentration=gamma)
    certain = np.zeros(len(TREE))
    got = log_path_evidence(TREE, masses, certain, priors)
    assert_allclose(got, expected, rtol=1e-12)
    wrong = log_path_evidence(TREE, masses + 1e-3, certain, priors)
    assert abs(wrong - expected) > 1e-3
    wrong = log_path_evidence(TREE, masses, 0.5 * masses, priors)
    assert abs(wrong - expected) > 1e-3


def test_statistics_of_ended_nodes_go_to_heirs_or_leave_the_tree(seed):
    rng = np.random.default_rng(seed)
    stats, _ = local_step(random_topics(rng), PRIORS, corpus(rng))
    new = TREE.merge(5, 4).remove_upwards(6).add(0)
    moved = stats.reindex_to(TREE, new, {5: 4})
    old, at = stats.word_counts, {node: TREE.positions(node) for node in range(7)}
    expected = {node: old[at[node]] for node in (0, 1, 3)}
    expected |= {4: old[at[4]] + old[at[5]], 7: 0.0 * old[0]}
    for node, words in expected.items():
        assert_allclose(moved.word_counts[new.positions(node)], words)
    lost = np.array([0.0, old[at[2]].sum(), old[at[6]].sum()])
    assert_allclose(moved.off_tree_tokens, stats.off_tree_tokens + lost)
    masses = stats.stub_masses
    gone = masses[at[0]] + masses[at[2]] + masses[at[6]]
    assert_allclose(moved.stub_masses[new.positions(0)], gone)
    assert_allclose(moved.stub_masses.sum(), masses.sum())
    assert_allclose(moved.stub_variances.sum(), stats.stub_variances.sum())
    assert_allclose(moved.n_tokens, stats.n_tokens)
    assert moved.entropy == stats.entropy
    assert_allclose(stats.reindex_to(TREE, new, {5: 6, 6: 4}).n_tokens, stats.n_tokens)


def trace(topics, priors, counts, n_rounds, *, update_topics=True, **options):
    """ELBO after each update of a part, documents first."""
    values, starts = [], None
    for _ in range(n_rounds):
        stats, result = local_step(topics, priors, counts, starts, **options)
        values.append(("documents", elbo(topics, priors, stats)))
        if update_topics:
            topics = replace(topics, word_counts=stats.word_counts)
        else:  # what a lost count would do
            topics = replace(topics, word_counts=0.5 * stats.word_counts)
        values.append(("topics", elbo(topics, priors, stats)))
        topics = replace(topics, stub_masses=stats.stub_masses)
        values.append(("sticks", elbo(topics, priors, stats)))
        old = topics.tree
        topics, stats = update_globals(old, stats)
        values.append(("order", elbo(topics, priors, stats)))
        if update_topics:
            tree, eta = topics.tree, priors.topic_prior
            evidence = log_topic_evidence(stats.word_counts, eta[tree.depth]).sum()
            evidence += log_stick_evidence(tree, stats.stub_masses, priors)
            off_tree = psi(eta) - psi(counts.shape[1] * eta)
            evidence += stats.off_tree_tokens @ off_tree + stats.entropy
            assert_allclose(evidence, values[-1][1], rtol=1e-11)
        starts = result.starts(topics.tree.positions(old.ids)[result.stubs])
    return values, topics


def check_monotone(values):
    for (_, before), (name, after) in pairwise(values):
        assert after >= before - 1e-9 * abs(before), name


@pytest.mark.parametrize("options", [{}, {"prune": 20.0, "tol": 1e-3, "max_iter": 5}])
@pytest.mark.parametrize("family", ["conditional", "factorised"])
def test_elbo_does_not_decrease_under_any_update(family, options, seed):
    rng = np.random.default_rng(seed)
    topics, counts = random_topics(rng), corpus(rng)
    values, _ = trace(topics, PRIORS, counts, 12, family=family, **options)
    check_monotone(values)
    assert values[-1][1] > values[0][1] + 1.0
    wrong, _ = trace(topics, PRIORS, counts, 12, update_topics=False)
    with pytest.raises(AssertionError):
        check_monotone(wrong)


#: Documents and levels: 640 and 2916 states.
CORPORA = {
    "two-levels": ([[0, 0], [0, 1, 2], [1, 2]], 2),
    "three-levels": ([[0, 0], [0, 1], [2]], 3),
}


def check_below_evidence(value, docs, priors):
    states = collapsed.states([len(doc) for doc in docs], priors.n_levels)
    rest = priors.concentration, priors.level_prior, priors.topic_prior, 3
    evidence = logsumexp([collapsed.log_joint(state, docs, *rest) for state in states])
    assert value < evidence
    assert value > evidence - 6.0  # Jensen on sticks, and symmetry: a few nats


@pytest.mark.parametrize("family", ["conditional", "factorised"])
@pytest.mark.parametrize("n_leaves", daily(1, [1, 0, 3]))
@pytest.mark.parametrize("name", CORPORA)
def test_elbo_is_below_the_evidence(name, n_leaves, family, seed):
    docs, n_levels = CORPORA[name]
    priors = LevelPriors(
        0.8, np.array([2.0, 1.0, 0.5][:n_levels]), np.array([1.0, 0.5, 0.2][:n_levels])
    )
    counts = np.array([np.bincount(doc, minlength=3) for doc in docs], dtype=float)
    tree = Tree()
    for _ in range(n_leaves):
        tree = tree.add(0, depth=n_levels - 1)
    topics = random_topics(np.random.default_rng(seed), tree, 3)
    values, topics = trace(topics, priors, counts, 30, family=family)
    check_below_evidence(values[-1][1], docs, priors)
    lost, _ = trace(topics, priors, counts[:1], 30, family=family)
    with pytest.raises(AssertionError):
        check_below_evidence(lost[-1][1], docs, priors)
