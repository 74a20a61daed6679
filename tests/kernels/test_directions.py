"""Directions of nodes: natural parameters, updates and inner products."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from checks.epochs import PRIORS, TREE, pasts_of, unit
from reference import dependent_trees as reference
from skbnp.distributions import expansion, log_normaliser
from skbnp.kernels import _directions as kernels
from skbnp.models.dependent_trees.state import (
    EpochState,
    EpochStats,
    inner_products,
    lengths_and_spreads,
    natural_lengths,
    no_past,
)
from skbnp.models.dependent_trees.state import row_fits as fits
from skbnp.models.dependent_trees.updates import natural_of, update_nodes


def random_epoch(seed, dimension, past):
    """Three of the nodes have no past, none if there is none at all."""
    rng = np.random.default_rng(seed)
    n = len(TREE)
    pasts = no_past(n, dimension)
    if past:
        at = np.array([3, 0, -1, 1, 2, -1, -1])
        pasts = unit(rng.standard_normal((4, dimension))), at
    means = rng.uniform(0.1, 0.95, size=(n, 1)) * unit(
        rng.standard_normal((n, dimension))
    )
    sums = rng.gamma(1.0, 1.0, size=(n, dimension)) * (rng.random((n, dimension)) < 0.6)
    sums[3] = 0.0
    state = EpochState(
        TREE,
        rng.gamma(1.0, 5.0, size=n),
        np.zeros(n),
        means,
        natural_lengths(np.linalg.norm(means, axis=1), 0.0, dimension),
        *pasts,
        0.5 * unit(rng.standard_normal(dimension)) * past,
        unit(rng.random(dimension)),
        2.0 * dimension,
        1.5 * dimension,
    )
    return state, EpochStats(state.masses, sp.csr_array(sums), np.zeros(n))


def given_to_twins(state, stats):
    return (
        state.tree.parent,
        state.means,
        pasts_of(state),
        state.above,
        state.centroid,
        stats.sums.toarray(),
        state.concentration,
        state.prior_concentration,
        PRIORS.parent_weight,
        PRIORS.past_weight,
    )


def twin(state, stats, node):
    return reference.natural_parameter(node, *given_to_twins(state, stats))


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("dimension", [2, 7, 60])
def test_natural_parameters_are_those_of_the_twin(dimension, past, seed):
    state, stats = random_epoch(seed, dimension, past)
    for node in range(len(TREE)):
        wanted = twin(state, stats, node)
        result = natural_of(state, stats, PRIORS, node)
        assert_allclose(result, wanted, rtol=1e-9, atol=1e-9 * dimension)
        wrong = wanted - state.prior_concentration * PRIORS.parent_weight * (
            state.means[TREE.parent[node]] if node else state.above
        )
        if node or past:
            assert not np.allclose(result, wrong, rtol=1e-3)


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("dimension", [2, 7, 60])
def test_updates_are_one_after_the_other(dimension, past, seed):
    """Those above first; others stay as they are."""
    state, stats = random_epoch(seed, dimension, past)
    given = state.means.copy()
    ids = TREE.ids[[0, 1, 2, 4]]
    result = update_nodes(state, stats, PRIORS, ids)
    assert_array_equal(state.means, given)
    means = given.copy()
    for node in (0, 1, 4, 2):
        before = replace(state, means=means)
        natural = twin(before, stats, node)
        _, length = reference.best_worth(
            np.linalg.norm(natural),
            lengths_and_spreads(before, PRIORS)[1][node],
            np.linalg.norm(means[TREE.parent == node], axis=1),
            state.prior_concentration * PRIORS.parent_weight,
            dimension,
        )
        means = means.copy()
        means[node] = length * natural / np.linalg.norm(natural)
    assert_allclose(result.means, means, rtol=1e-6, atol=1e-7)
    lengths = np.linalg.norm(means[[0, 1, 2, 4]], axis=1)
    eta = natural_lengths(lengths, 0.0, dimension)
    assert_allclose(result.concentrations[[0, 1, 2, 4]], eta, rtol=1e-5)
    assert_array_equal(result.means[[3, 5, 6]], given[[3, 5, 6]])
    assert not np.allclose(result.means[2], given[2], rtol=1e-3)


@pytest.mark.parametrize("past", [False, True])
def test_inner_products_and_fits_are_those_of_numpy(past, seed):
    state, stats = random_epoch(seed, 9, past)
    rows = np.array([4, 0, 6])
    up = state.means[TREE.parent[rows]]
    up[1] = state.above
    own, mu = state.means[rows], pasts_of(state)[rows]
    wanted = [
        (own * own).sum(axis=1),
        (up * up).sum(axis=1),
        (up * own).sum(axis=1),
        (mu * own).sum(axis=1),
        (up * mu).sum(axis=1),
        mu.any(axis=1),
    ]
    assert_allclose(inner_products(state, rows), wanted, rtol=1e-12, atol=1e-14)
    wanted = (stats.sums.toarray()[rows] * own).sum(axis=1)
    assert_allclose(fits(state, stats)[rows], wanted, rtol=1e-12, atol=1e-14)
    assert not np.allclose(fits(state, stats)[rows[::-1]], wanted, rtol=1e-3)


@pytest.mark.parametrize("dimension", [2, 7, 60])
def test_slope_of_prior_concentration_is_that_of_the_twin(dimension, seed):
    rng = np.random.default_rng(seed)
    lengths, products = rng.uniform(0.5, 1.5, size=(2, 5))
    mean_lengths = rng.uniform(0.1, 0.95, size=5)
    spreads = rng.uniform(0.1, 1.0, size=5)
    spreads[1] = 0.0
    given = lengths, products, mean_lengths, spreads
    for kappa in (0.3 * dimension, 4.0 * dimension):
        wanted = reference.prior_slope(kappa, *given, dimension)
        result = kernels.prior_slope(kappa, *given, expansion(dimension))
        assert_allclose(result, wanted, rtol=1e-8, atol=1e-9)
        given_directions = *given[:3], np.zeros(5)
        other = reference.prior_slope(kappa, *given_directions, dimension)
        assert abs(result - other) > 1e-3


@pytest.mark.parametrize("dimension", [4, 60])
def test_best_worths_are_those_of_the_twin(dimension, seed):
    """Of nodes with two children, with none, and with three."""
    rng = np.random.default_rng(seed)
    limits = np.array([0, 2, 2, 5])
    naturals = rng.uniform(0.5, 3.0, size=3) * dimension
    below = rng.uniform(0.1, 0.9, size=5)
    pull = 1.3 * dimension
    spreads = pull**2 * rng.uniform(0.1, 0.9, size=3)
    result, best = np.empty(3), np.empty(3)
    given = naturals, spreads, below, limits, pull, best, result
    kernels.best_worths(*given, expansion(dimension))
    uniform = float(log_normaliser(0.0, dimension))
    for i in range(3):
        own = below[limits[i] : limits[i + 1]]
        given = naturals[i], spreads[i]
        wanted, length = reference.best_worth(*given, own, pull, dimension)
        assert_allclose(result[i], wanted + (1 + len(own)) * uniform, rtol=1e-6)
        assert_allclose(best[i], length, rtol=1e-5)
        if len(own):
            fewer, _ = reference.best_worth(*given, own[1:], pull, dimension)
            assert abs(result[i] - fewer - len(own) * uniform) > 1e-3
