"""Clusters on the sphere, and the trees that start from them."""

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

from skbnp.distributions import draw
from skbnp.models.dependent_trees.state import TreePriors
from skbnp.models.dependent_trees.updates import spherical_kmeans, start_tree

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
