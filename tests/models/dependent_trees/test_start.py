"""Clusters on the sphere, and the trees that start from them."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

from skbnp.datasets import make_dependent_trees
from skbnp.distributions.von_mises_fisher import draw
from skbnp.models.dependent_trees.bound import objective
from skbnp.models.dependent_trees.local import update_local
from skbnp.models.dependent_trees.moves.merges import merge_gain, merged
from skbnp.models.dependent_trees.node_table import NodeTable
from skbnp.models.dependent_trees.start import (
    spherical_kmeans,
    start_tree,
)
from skbnp.models.dependent_trees.state import TreePriors, sort_siblings
from skbnp.models.dependent_trees.updates import (
    learn_concentration,
    learn_prior_concentration,
    update_means,
    update_sticks,
)

PRIORS = TreePriors()


def planted(rng, n_topics=6, n_rows=300, dimension=20, strength=200.0):
    topics = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0][:n_topics]
    target = rng.integers(n_topics, size=n_rows)
    rows = np.vstack([draw(topics[k], strength, 1, rng) for k in target])
    return sp.csr_array(rows.astype(np.float32)), target


def test_clusters_are_those_that_were_planted(seed):
    """Drawn starts may share a cluster: the best of five."""
    rng = np.random.default_rng(seed)
    X, target = planted(rng)
    scores = [
        adjusted_rand_score(target, spherical_kmeans(X, 6, rng)) for _ in range(5)
    ]
    assert max(scores) > 0.99
    assert adjusted_rand_score(target, rng.permutation(target)) < 0.5


def test_equal_rows_are_one_cluster_and_empty_ones_none():
    row = np.zeros((1, 5), dtype=np.float32)
    row[0, 2] = 1.0
    X = sp.csr_array(np.vstack([row, 0 * row, row, row]))
    labels = spherical_kmeans(X, 3, np.random.default_rng(0))
    assert_array_equal(labels, [0, -1, 0, 0])
    nothing = sp.csr_array((3, 5), dtype=np.float32)
    assert_array_equal(spherical_kmeans(nothing, 2, np.random.default_rng(0)), [-1] * 3)
    assert len(spherical_kmeans(nothing[:0], 2, np.random.default_rng(0))) == 0


def test_start_has_the_clusters_below_the_root(seed):
    rng = np.random.default_rng(seed)
    X, target = planted(rng)
    state, stats = start_tree(X, target, PRIORS)
    assert_array_equal(state.tree.depth, [0, 1, 1, 1, 1, 1, 1])
    assert_allclose(stats.masses[1:], np.sort(np.bincount(target))[::-1])
    assert_array_equal(state.masses, stats.masses)
    # Rows have a concentration of 200; 1 / sqrt(n V / 2) of it is its error.
    assert abs(state.concentration - 200.0) < 5 * 200.0 / np.sqrt(300 * 10)
    assert state.prior_concentration == 20.0


def coordinate_ascent(state, X, n_rounds):
    for _ in range(n_rounds):
        _, stats = update_local(NodeTable.of(state, PRIORS), X)
        state = update_means(update_sticks(state, stats), stats, PRIORS)
        state = learn_prior_concentration(learn_concentration(state, stats), PRIORS)
        state, stats = sort_siblings(state, stats)
    return state, stats


def merge_safely(state, stats):
    """Merge siblings while it raises the bound for certain."""
    ids = state.tree.ids[1:].tolist()
    for source in ids:
        for target in [*state.tree.ids[1:].tolist(), 0]:
            if source not in state.tree or source == target:
                continue
            rise = merge_gain(state, stats, PRIORS, source, target)
            if rise.gain > rise.most_lost:
                state, stats = merged(state, stats, PRIORS, source, target)
    return state, stats


@pytest.mark.long
@pytest.mark.parametrize("n_features", [40, 400])
def test_safe_merges_leave_the_planted_clusters(n_features, seed):
    """Root + 3 + 6 nodes; concentrations in proportion to the dimension."""
    corpus = make_dependent_trees(
        400,
        n_features=n_features,
        concentration=3.0 * n_features,
        prior_concentration=2.5 * n_features,
        random_state=seed,
    )
    X = sp.csr_array(corpus.data.astype(np.float32))
    ends = []
    # Three clusters for a node: with fewer, two of them may share one for ever.
    for labels in (
        corpus.target,
        spherical_kmeans(X, 30, np.random.default_rng(seed)),
    ):
        state, stats = coordinate_ascent(start_tree(X, labels, PRIORS)[0], X, 3)
        before = sum(objective(state, stats, PRIORS).values())
        for _ in range(3):
            state, stats = coordinate_ascent(merge_safely(state, stats)[0], X, 3)
        ends.append(sum(objective(state, stats, PRIORS).values()))
        assert ends[-1] >= before
    memo, _ = update_local(NodeTable.of(state, PRIORS), X)
    assert adjusted_rand_score(corpus.target, memo.nodes[:, 0]) >= 0.95
    assert len(state.tree) in (10, 11)
    # That of the truth, but for a node at another place; one too few costs 100 nats.
    assert ends[1] >= ends[0] - 75.0
