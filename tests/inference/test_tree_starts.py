"""Where trees start: a sampler, document by document, given topics."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from skbnp.components.tree_sticks import LevelPriors
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import LocalStop
from skbnp.models.nested_crp import start as starts
from skbnp.models.nested_crp.local import PathLocalStep, sum_documents
from skbnp.models.nested_crp.model import NestedModel, TopicTree, elbo_terms
from skbnp.models.nested_crp.moves import excess
from skbnp.models.nested_crp.start import (
    by_gibbs,
    choose_start,
    one_by_one,
    start_posterior,
    topics_of_paths,
)
from skbnp.models.nested_crp_walks import NestedPriors
from skbnp.trees import Tree

MODEL = NestedModel(LevelPriors(1.0, np.full(3, 4.0), np.full(3, 0.1)))
BLOCK = 5


def local_step():
    return PathLocalStep(LocalStop(100, 1e-3), Executor(1))


def planted(rng, n_docs=60):
    """Documents of six leaves in three groups; words of each node are its own."""
    leaf = rng.permutation(np.arange(n_docs) % 6)
    group = leaf // 2
    counts = np.zeros((n_docs, 10 * BLOCK))
    for row, blocks in enumerate(zip(0 * leaf, 1 + group, 4 + leaf, strict=True)):
        for block in blocks:
            words = rng.integers(BLOCK * block, BLOCK * (block + 1), size=12)
            np.add.at(counts[row], words, 1.0)
    return sp.csr_array(counts), group, leaf


def ends_of(topics, X, model=MODEL):
    """Place of the node where each document ends."""
    result = local_step().update_paths(topics, model.priors, X)
    return topics.tree.positions(result.stubs[result.best])


def bound_of(topics, X):
    """Bound once the documents, and then the topics, have followed."""
    tree, n_levels = topics.tree, MODEL.priors.n_levels
    stats = sum_documents(
        local_step().update_paths(topics, MODEL.priors, X), X, tree, n_levels
    )
    after = TopicTree(tree, stats.word_counts, stats.stub_masses)
    return sum(elbo_terms(after, MODEL.priors, stats).values())


def is_finer(left, right):
    """Whether each part of one partition is within one of the other."""
    pairs = set(zip(left.tolist(), right.tolist(), strict=True))
    return len(pairs) == len(set(left.tolist()))


def check_start(topics, X, n_levels=3):
    """Documents end at the last level, and their words are somewhere on the tree."""
    topics.tree.check()
    leaves = topics.tree.depth == n_levels - 1
    assert_array_equal(np.flatnonzero(leaves), topics.tree.leaves)
    assert_allclose(topics.stub_masses.sum(), X.shape[0], rtol=1e-12)
    assert (topics.stub_masses[~leaves] == 0.0).all()
    assert_allclose(topics.word_counts.sum(axis=0), X.sum(axis=0), rtol=1e-9)


def test_excess_weighs_words_by_how_much_more_frequent_they_are(seed):
    rng = np.random.default_rng(seed)
    above = rng.poisson(30.0, size=20) + 1.0
    counts = np.floor(above * rng.random(20))
    counts[0], above[1], counts[1] = 0.0, 50.0, 1.0
    got = excess(counts, above)
    for word, count in enumerate(counts):
        ratio = (count / counts.sum()) / (above[word] / above.sum())
        assert_allclose(got[word], count / 3 * min(ratio, 5.0), rtol=1e-12)
    assert_array_equal(excess(np.zeros(3), np.zeros(3)), np.zeros(3))
    # At most five times.
    rare = excess(np.array([0.0, 9.0]), np.array([999.0, 9.0]))
    assert_allclose(rare, [0.0, 15.0])


#: What the sampler does not learn.
NOTHING = NestedPriors(False, False)


# A sampler, and one by one ------------------------------------------------------------


def test_state_of_the_sampler_holds_all_documents(seed):
    rng = np.random.default_rng(seed)
    X, _, leaf = planted(rng)
    topics, priors = by_gibbs(X, MODEL.priors, NOTHING, rng)
    assert priors == MODEL.priors
    check_start(topics, X)
    assert_array_equal(topics.word_counts, np.round(topics.word_counts))
    assert is_finer(ends_of(topics, X), leaf)


def test_documents_one_by_one_open_branches_for_their_like(seed):
    rng = np.random.default_rng(seed)
    X, *_ = planted(rng)
    topics = one_by_one(X, MODEL, local_step(), rng)
    check_start(topics, X)
    assert 2 <= len(topics.tree.leaves) < 60
    words = np.tile(X.sum(axis=0) / 3, (3, 1))
    alone = topics_of_paths(np.arange(3), words, np.full(3, 60))
    assert bound_of(topics, X) > bound_of(alone, X) + 100.0


# Posteriors at the start --------------------------------------------------------------


def root(X):
    return TopicTree(Tree(), np.zeros((1, X.shape[1])), np.zeros(1))


def chosen(X, init):
    posterior = start_posterior(MODEL, root(X), 0)
    choose_start(posterior, X, local_step(), init)
    return posterior


def check_chosen(posterior, n_docs):
    tree = posterior.state.tree
    tree.check()
    names = list(range(len(tree)))
    assert sorted(tree.ids.tolist()) == names
    assert posterior.lineage == [(0, "init", (), tuple(tree.ids.tolist()))]
    assert_array_equal(posterior.ids, tree.ids)
    assert_array_equal(posterior.global_stats.stub_masses, posterior.state.stub_masses)
    assert_allclose(posterior.global_stats.stub_masses.sum(), n_docs, rtol=1e-9)
    assert posterior.n_steps == 0


@pytest.mark.parametrize("init", ["gibbs", "sequential"])
def test_each_start_has_new_ids_and_all_documents(init, seed):
    rng = np.random.default_rng(seed)
    X, *_ = planted(rng, n_docs=24)
    check_chosen(chosen(X, init), 24)


def test_given_topics_are_taken_as_they_are(seed, monkeypatch):
    monkeypatch.setattr(starts, "MOST_DOCS", 20)
    rng = np.random.default_rng(seed)
    X, *_ = planted(rng)
    words = rng.gamma(1.0, size=(3, X.shape[1]))
    given = topics_of_paths(np.arange(3), words, np.array([7, 7, 7]))
    posterior = chosen(X, given)
    assert_array_equal(posterior.state.word_counts, words)
    assert_array_equal(posterior.state.stub_masses, [0.0, 0.0, 7.0])


def test_no_documents_leave_the_root():
    X = sp.csr_array((0, 4))
    posterior = chosen(X, "gibbs")
    assert_array_equal(posterior.ids, [0])
    assert len(posterior.lineage) == 1
