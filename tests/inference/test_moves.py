"""Differences of the bound that moves are judged by, against full objectives."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import psi

from reference import hdp_direct as reference
from skbnp.inference.batch import Batch
from skbnp.inference.edits import Lineage
from skbnp.inference.engine import LocalStop, Posterior
from skbnp.inference.executor import Executor
from skbnp.inference.moves import hdp_merge, hdp_split
from skbnp.inference.moves.split_merge import SplitMerge, merge_and_prune, split
from skbnp.models.hdp_direct import DirectHDP, HDPState
from skbnp.models.statistics import WordTopics

EXACT = LocalStop(50, 1e-9)
SCALES = pytest.mark.parametrize("scale", [1.0, 7.5])


def visited(rng, n_topics=4, n_docs=10, n_words=12, stale=1.0):
    """A posterior, a visit of random documents under it, and their counts."""
    counts = rng.poisson(1.2, size=(n_docs, n_words)).astype(float)
    counts[:, 0] += counts.sum(axis=1) == 0
    state = HDPState(
        weights=rng.dirichlet(np.full(n_topics + 1, 2.0)),
        doc_concentration=rng.gamma(2.0) + 0.1,
        corpus_concentration=1.3,
        topic_word_prior=float(rng.choice([0.05, 0.5])),
    )
    model = DirectHDP(learn_concentrations=False, learn_topic_prior=False)
    topics = WordTopics(stale * rng.gamma(0.6, 3.0, size=(n_words, n_topics)))
    posterior = Posterior(
        model, state, model.start(state, topics), np.arange(n_topics), []
    )
    X = sp.csr_array(counts)
    with Executor(1) as executor:
        visit = posterior.look(X, Batch.from_counts(X), EXACT, executor)
    return posterior, visit, counts


def dense_responsibilities(visit, counts):
    """r of each document, (n_docs, n_words, K)."""
    r = np.zeros((*counts.shape, visit.doc_topic.shape[1]))
    for k in range(visit.doc_topic.shape[1]):
        r[visit.row, visit.words[visit.counts.indices], k] = visit.responsibilities(k)
    return r


def profile(counts, r, state, weights, scale):
    """Bound of `scale` copies of the documents, theta and lambda at their optimum."""
    terms = reference.profile_terms(
        counts,
        list(r),
        weights,
        state.doc_concentration,
        state.corpus_concentration,
        state.topic_word_prior,
    )
    # Copies multiply documents and entropy; the words see scaled sums.
    sums = scale * np.einsum("jw,jwk->kw", counts, r)
    words = reference.topic_part(sums, state.topic_word_prior)
    return scale * (terms["assignments"] + terms["entropy"]) + words + terms["weights"]


# Visit --------------------------------------------------------------------------------


def test_factors_of_a_visit_are_responsibilities(seed):
    _, visit, counts = visited(np.random.default_rng(seed))
    r = dense_responsibilities(visit, counts)
    assert_allclose(r.sum(axis=2)[counts > 0], 1.0, rtol=1e-12)
    assert_allclose(visit.doc_topic, np.einsum("jw,jwk->jk", counts, r), rtol=1e-10)
    sums = np.einsum("jw,jwk->wk", counts, r)[visit.words]
    assert_allclose(visit.sums, sums, rtol=1e-10)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_r = np.where(r > 0, np.log(r), 0.0)
    entropy = -np.einsum("jw,jwk,jwk->k", counts, r, log_r)
    assert_allclose(visit.entropy, entropy, rtol=1e-9, atol=1e-9)


def test_merged_visit_is_that_of_the_sum(seed):
    _, visit, counts = visited(np.random.default_rng(seed))
    r = dense_responsibilities(visit, counts)
    joint = r[..., 1] + r[..., 3]
    merged = visit.merged(3, 1).without([3])
    assert_allclose(merged.doc_topic[:, 1], (counts * joint).sum(axis=1))
    assert_allclose(merged.sums[:, 1], (counts * joint).sum(axis=0)[visit.words])
    log_joint = np.log(np.where(joint > 0, joint, 1.0))
    assert_allclose(merged.entropy[1], -(counts * joint * log_joint).sum())
    assert merged.doc_topic.shape[1] == 3


# Merge --------------------------------------------------------------------------------


def exact_merge(posterior, visit, counts, one, other, scale):
    state, r = posterior.state, dense_responsibilities(visit, counts)
    joined = r.copy()
    joined[..., one] += joined[..., other]
    weights = state.weights.copy()
    weights[one] += weights[other]
    return profile(
        counts,
        np.delete(joined, other, axis=2),
        state,
        np.delete(weights, other),
        scale,
    ) - profile(counts, r, state, state.weights, scale)


def check_difference(got, exact, size):
    assert abs(got - exact) <= 1e-8 * max(abs(exact), size), f"{got} is not {exact}"


@SCALES
@pytest.mark.parametrize("case", range(10))
def test_gain_of_a_merge_is_the_difference_of_two_objectives(case, scale, seed):
    posterior, visit, counts = visited(np.random.default_rng([seed, case]))
    for one, other in ((0, 1), (2, 0), (1, 3)):
        got = hdp_merge.gain(posterior.state, visit, one, other, 12, scale)
        exact = exact_merge(posterior, visit, counts, one, other, scale)
        check_difference(got, exact, 1.0)


@pytest.mark.parametrize("term", ["entropy", "doc_topic", "sums"])
def test_the_comparison_of_merges_tells_a_wrong_term(term, seed):
    posterior, visit, counts = visited(np.random.default_rng(seed))
    wrong = replace(visit, **{term: 1.001 * getattr(visit, term)})
    got = hdp_merge.gain(posterior.state, wrong, 0, 1, 12, 1.0)
    with pytest.raises(AssertionError, match="is not"):
        check_difference(got, exact_merge(posterior, visit, counts, 0, 1, 1.0), 1.0)


def test_copies_of_a_topic_merge_and_a_lone_one_does_not(seed):
    """Two topics on the same words, one on others."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((40, 12))
    counts[:20, :6] = rng.poisson(5.0, (20, 6))
    counts[20:, 6:] = rng.poisson(5.0, (20, 6))
    topics = np.zeros((12, 3))
    topics[:6, :2] = 50.0
    topics[6:, 2] = 100.0
    model = DirectHDP(learn_concentrations=False, learn_topic_prior=False)
    state = HDPState(np.array([0.25, 0.25, 0.4, 0.1]), 1.0, 1.0, 0.1)
    totals = model.start(state, WordTopics(topics))
    posterior = Posterior(model, state, totals, np.arange(3), [])
    X = sp.csr_array(counts)
    with Executor(1) as executor:
        visit = posterior.look(X, Batch.from_counts(X), EXACT, executor)
    assert hdp_merge.propose(state, visit, 12, 1.0) == [(0, 1)]


# Prune ------------------------------------------------------------------------------


def with_idle_topic(rng):
    """A visit in which topic 2 holds a hundredth of a token."""
    posterior, visit, _ = visited(rng)
    doc_topic = visit.doc_topic.copy()
    doc_topic[:, 2] *= 0.01 / doc_topic[:, 2].sum()
    posterior.lineage = [Lineage(0, "init", (), (0, 1, 2, 3))]
    return posterior, replace(visit, doc_topic=doc_topic)


def test_an_idle_topic_ends_when_patience_does(seed, monkeypatch):
    monkeypatch.setattr(hdp_merge, "propose", lambda *arguments: [])
    posterior, visit = with_idle_topic(np.random.default_rng(seed))
    moves, old = SplitMerge(prune_patience=3), posterior.state.weights
    for _ in range(2):
        left = merge_and_prune(moves, posterior, visit, 1.0)
        assert left.doc_topic.shape[1] == 4
    left = merge_and_prune(moves, posterior, visit, 1.0)
    assert posterior.ids.tolist() == [0, 1, 3]
    assert posterior.lineage[-1][1:] == ("prune", (2,), ())
    assert_allclose(left.doc_topic, visit.doc_topic[:, [0, 1, 3]])
    assert_allclose(posterior.state.weights[-1], old[-1] + old[2])


def test_use_in_between_resets_patience(seed, monkeypatch):
    monkeypatch.setattr(hdp_merge, "propose", lambda *arguments: [])
    posterior, idle = with_idle_topic(np.random.default_rng(seed))
    busy = replace(idle, doc_topic=idle.doc_topic + 1.0)
    for visit in (idle, idle, busy, idle, idle):
        merge_and_prune(SplitMerge(prune_patience=3), posterior, visit, 1.0)
    assert len(posterior.ids) == 4


def test_the_last_topic_never_ends(seed, monkeypatch):
    monkeypatch.setattr(hdp_merge, "propose", lambda *arguments: [])
    posterior, visit, _ = visited(np.random.default_rng(seed))
    posterior.lineage = [Lineage(0, "init", (), (0, 1, 2, 3))]
    nothing = replace(visit, doc_topic=0.0 * visit.doc_topic)
    merge_and_prune(SplitMerge(prune_patience=1), posterior, nothing, 1.0)
    assert len(posterior.ids) == 1


def test_merges_of_a_visit_are_applied_to_state_and_visit(seed, monkeypatch):
    pairs = [(0, 3), (2, 1)]
    monkeypatch.setattr(hdp_merge, "propose", lambda *arguments: pairs)
    posterior, visit, _ = visited(np.random.default_rng(seed))
    posterior.lineage = [Lineage(0, "init", (), (0, 1, 2, 3))]
    old = posterior.state.weights
    left = merge_and_prune(SplitMerge(), posterior, visit, 1.0)
    assert posterior.ids.tolist() == [0, 2]
    assert_allclose(posterior.state.weights, [old[0] + old[3], old[1] + old[2], old[4]])
    both = visit.doc_topic[:, [0, 2]] + visit.doc_topic[:, [3, 1]]
    assert_allclose(left.doc_topic, both)


@pytest.mark.parametrize("step", ["merge", "split"])
def test_a_rejected_move_writes_nothing(step, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    posterior, visit, _ = visited(rng)
    posterior.lineage = [Lineage(0, "init", (), (0, 1, 2, 3))]
    before = pickle.dumps((posterior, visit))
    module = hdp_merge if step == "merge" else hdp_split
    refusal = -1.0 if step == "merge" else (1.0, 1.0)
    monkeypatch.setattr(module, "gain", lambda *arguments: refusal)
    if step == "merge":
        merge_and_prune(SplitMerge(prune_tokens=0.0), posterior, visit, 1.0)
    else:
        split(SplitMerge(), posterior, visit, 10.0, rng)
    assert pickle.dumps((posterior, visit)) == before


# Split --------------------------------------------------------------------------------


def exact_split(posterior, visit, counts, column, children, chosen, scale):
    """Difference of two full bounds, topics held fixed, on the chosen documents."""
    state, r = posterior.state, dense_responsibilities(visit, counts)[chosen]
    parent = parent_of(posterior, visit, column, chosen, scale * chosen.sum())
    share, _, _ = hdp_split._assign(
        parent, children, state.topic_word_prior, learn_shares=False
    )
    parted = np.concatenate([r, r[..., [column]]], axis=2)
    place = np.cumsum(chosen) - 1
    at = (place[parent.rows], parent.words)
    parted[(*at, column)] *= share[0]
    parted[(*at, parted.shape[2] - 1)] *= share[1]
    weights = np.insert(
        state.weights,
        len(state.weights) - 1,
        state.weights[column] * children.shares[1],
    )
    weights[column] *= children.shares[0]
    topics = posterior.totals.topic_words.dense().T
    split_topics = np.vstack([topics, children.topics[1]])
    split_topics[column] = children.topics[0]

    def bound(r, weights, topics):
        lam = topics + state.topic_word_prior
        x = state.doc_concentration * weights
        tokens, _ = reference.sufficient_statistics(counts[chosen], list(r))
        theta = np.column_stack([tokens, np.zeros(len(tokens))]) + x
        terms = reference.elbo_terms(
            counts[chosen],
            list(r),
            theta,
            lam,
            weights,
            state.doc_concentration,
            state.corpus_concentration,
            state.topic_word_prior,
        )
        return scale * (terms["z"] + terms["pi"]) + terms["phi"] + terms["beta"]

    return bound(parted, weights, split_topics) - bound(r, state.weights, topics)


def parent_of(posterior, visit, column, chosen, n_docs):
    topic = posterior.totals.topic_words.column(column)
    return hdp_split.Parent.of(posterior.state, topic, visit, column, chosen, n_docs)


def children_of(posterior, visit, column, rng):
    everyone = np.ones(len(visit.doc_topic), dtype=bool)
    parent = parent_of(posterior, visit, column, everyone, len(everyone))
    for _ in range(20):
        children = hdp_split.start(parent, rng)
        if children is not None:
            eta = posterior.state.topic_word_prior
            return hdp_split.fit_children(parent, children, eta)
    raise AssertionError("no start broke the symmetry")


@SCALES
@pytest.mark.parametrize("case", range(10))
def test_gain_of_a_split_is_the_difference_of_two_objectives(case, scale, seed):
    """For stale topics too, on documents that the children were not fitted to."""
    rng = np.random.default_rng([seed, case])
    posterior, visit, counts = visited(rng, stale=2.0)
    column = int(np.argmax(visit.doc_topic.sum(axis=0)))
    children = children_of(posterior, visit, column, rng)
    chosen = np.arange(10) % 2 == 0
    judge = parent_of(posterior, visit, column, chosen, scale * chosen.sum())
    got, _ = hdp_split.gain(judge, children, posterior.state.topic_word_prior, 0.0)
    exact = exact_split(posterior, visit, counts, column, children, chosen, scale)
    check_difference(got, exact, 1.0)


def test_error_of_a_split_is_the_spread_of_its_documents(seed):
    """A document's gain by itself is its contribution and a constant."""
    rng = np.random.default_rng(seed)
    posterior, visit, _ = visited(rng, n_docs=30)
    children, eta = children_of(posterior, visit, 0, rng), 0.05
    alone = [
        hdp_split.gain(
            parent_of(posterior, visit, 0, np.arange(30) == j, 1.0), children, eta, -1.0
        )[0]
        for j in range(30)
    ]
    everyone = np.ones(30, dtype=bool)
    judge = parent_of(posterior, visit, 0, everyone, 3.0 * 30)
    _, error = hdp_split.gain(judge, children, eta, 0.0)
    assert_allclose(error, 3.0 * np.sqrt(30) * np.std(alone), rtol=1e-6)


def test_the_comparison_of_splits_tells_a_wrong_scale(seed):
    rng = np.random.default_rng(seed)
    posterior, visit, counts = visited(rng)
    children = children_of(posterior, visit, 0, rng)
    chosen = np.ones(10, dtype=bool)
    judge = parent_of(posterior, visit, 0, chosen, 10.01)
    got, _ = hdp_split.gain(judge, children, posterior.state.topic_word_prior, 0.0)
    exact = exact_split(posterior, visit, counts, 0, children, chosen, 1.0)
    with pytest.raises(AssertionError, match="is not"):
        check_difference(got, exact, 1.0)


@pytest.mark.parametrize("case", range(10))
def test_restricted_iteration_raises_the_bound_it_ascends(case, seed, monkeypatch):
    """More updates of the children never end lower on the documents they fit."""
    rng = np.random.default_rng([seed, case])
    posterior, visit, _ = visited(rng)
    everyone = np.ones(10, dtype=bool)
    parent = parent_of(posterior, visit, 1, everyone, 10)
    begin = hdp_split.start(parent, rng)
    eta, trace = posterior.state.topic_word_prior, []
    monkeypatch.setattr(hdp_split, "N_INNER", 200)
    for n_outer in range(1, 8):
        monkeypatch.setattr(hdp_split, "N_OUTER", n_outer)
        children = hdp_split.fit_children(parent, begin, eta)
        trace.append(hdp_split.gain(parent, children, eta, 0.0)[0])
    assert np.diff(trace).min() > -1e-7 * max(np.abs(trace))


def test_children_without_tokens_are_refused(seed):
    rng = np.random.default_rng(seed)
    posterior, visit, _ = visited(rng)
    children = children_of(posterior, visit, 0, rng)
    everyone = np.ones(10, dtype=bool)
    parent = parent_of(posterior, visit, 0, everyone, 10)
    eta = posterior.state.topic_word_prior
    assert np.isfinite(hdp_split.gain(parent, children, eta, 0.0)[0])
    too_many = parent.mass.sum()
    assert hdp_split.gain(parent, children, eta, too_many)[0] == -np.inf


def test_a_child_of_nothing_gains_nothing(seed):
    """Everything to one child, nothing to the other: never better than the parent."""
    rng = np.random.default_rng(seed)
    posterior, visit, _ = visited(rng)
    everyone = np.ones(10, dtype=bool)
    parent = parent_of(posterior, visit, 0, everyone, 10)
    topics = np.stack([parent.topic, np.zeros_like(parent.topic)])
    children = hdp_split.Children(topics, np.array([1 - 1e-6, 1e-6]))
    eta = posterior.state.topic_word_prior
    assert hdp_split.gain(parent, children, eta, 0.0)[0] < 1e-3


def test_words_term_at_its_own_sums_is_the_marginal(seed):
    rng = np.random.default_rng(seed)
    topics = rng.gamma(0.5, 4.0, size=(3, 9))
    got = hdp_split.words_term(0.2, topics, topics).sum()
    assert_allclose(got, reference.topic_part(topics, 0.2), rtol=1e-10)


def test_words_term_is_expected_likelihood_less_divergence(seed):
    rng = np.random.default_rng(seed)
    topics, sums = rng.gamma(0.5, 4.0, size=(2, 1, 9))
    lam, eta = 0.2 + topics, 0.2
    log_phi = psi(lam) - psi(lam.sum())
    divergence = -reference.log_multivariate_beta(lam[0])
    divergence += reference.log_multivariate_beta(np.full(9, eta))
    divergence += ((lam - eta) * log_phi).sum()
    expected = (sums * log_phi).sum() - divergence
    assert_allclose(hdp_split.words_term(eta, topics, sums), [expected], rtol=1e-10)
