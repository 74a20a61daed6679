"""Directions that hang on those of their parents: lengths, rows left out, visits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from checks.epochs import (
    DIMENSION,
    PRIORS,
    pasts_of,
    random_rows,
    random_state,
    stats_of,
    unit,
)
from reference import dependent_trees as reference
from skbnp.distributions import inverse_bessel_ratio, log_normaliser
from skbnp.models.dependent_trees.local import Naturals, NodeTable, update_local
from skbnp.models.dependent_trees.state import (
    bessel_slope,
    conjugate,
    log_normaliser_gain,
    natural_lengths,
    row_gains,
)
from skbnp.models.dependent_trees.updates import natural_of, update_means
from skbnp.trees import Tree

# Lengths ------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [2, 3, 8, 60, 400])
def test_normaliser_and_slope_are_those_of_the_reference(dimension):
    k = dimension * np.logspace(-1, 3, 60)
    uniform = float(log_normaliser(0.0, dimension))
    wanted = reference.log_normaliser(k, dimension)
    assert_allclose(log_normaliser_gain(k**2, dimension) + uniform, wanted, rtol=1e-12)
    slopes = reference.bessel_ratio(k, dimension) / k
    assert_allclose(bessel_slope(k**2, dimension), slopes, rtol=1e-11)
    assert_allclose(bessel_slope(0.0, dimension), 1.0 / dimension, rtol=1e-14)
    assert_allclose(log_normaliser_gain(0.0, dimension), 0.0, atol=1e-14)
    assert not np.allclose(bessel_slope(k, dimension), slopes, rtol=1e-2)


@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0, 1e2])
@pytest.mark.parametrize("dimension", [2, 8, 400, 20000])
def test_natural_lengths_give_the_lengths_of_means(dimension, spread):
    """The spread in units of V."""
    nearest = 1e-6 if dimension <= 400 else 1e-5
    near = 1.0 - np.logspace(-0.3, np.log10(nearest), 15)
    e, v = np.append(np.logspace(-6, -0.5, 15), near), spread * dimension

    def errors(y):
        """As large as relative ones in y or in 1 - e."""
        return np.abs(bessel_slope(y * y + v, dimension) * y - e) / np.minimum(e, 1 - e)

    assert errors(natural_lengths(e, v, dimension)).max() < 1e-8
    if spread < 1.0:  # the start of Banerjee et al. (2005)
        start = e * (dimension - e * e) / ((1.0 - e) * (1.0 + e))
        assert errors(start).max() > 1e-6
    else:
        independent = inverse_bessel_ratio(e, dimension)
        assert errors(independent).max() > 1e-5


@pytest.mark.parametrize("dimension", [2, 3, 8, 60])
def test_conjugate_is_the_maximum(dimension):
    for spread in dimension * np.array([0.0, 0.1, 1.0, 30.0]):
        for e in (0.05, 0.3, 0.7, 0.95, 0.999):
            result = float(conjugate(e, spread, dimension))
            wanted = reference.conjugate(e, spread, dimension)
            uniform = float(log_normaliser(0.0, dimension))
            assert_allclose(result + uniform, wanted, rtol=1e-9, atol=1e-9)
            y = inverse_bessel_ratio(e, dimension)
            value = y * e - reference.spread_normaliser(y, spread, dimension)
            assert value <= wanted + 1e-9
            if spread >= dimension and 0.1 < e < 0.9:
                assert value < wanted - 1e-4


# Rows left out ------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [3, 8, 60, 400])
def test_row_gains_are_those_of_vectors(dimension, seed):
    rng = np.random.default_rng(seed)
    beta, n = 2.0 * dimension, 20
    rows = unit(rng.standard_normal((n, dimension)))
    naturals = beta * (0.8 * rows + unit(rng.standard_normal((n, dimension))))
    own, spreads = rng.random(n), dimension**2 * rng.random(n)
    squares, along = (naturals**2).sum(axis=1), (naturals * rows).sum(axis=1)
    left = naturals - beta * own[:, None] * rows

    def h(vectors, share, spreads):
        lengths = share * np.linalg.norm(vectors, axis=1)
        return reference.spread_normaliser(lengths, spreads, dimension)

    for share, spread in (
        (1.0, 0.0),
        (1.0, spreads),
        (rng.uniform(0.2, 1, n), spreads),
    ):
        result = row_gains(squares, along, own, beta, share, spread, dimension)
        wanted = (h(left + beta * rows, share, spread) - h(left, share, spread)) / share
        assert_allclose(result, wanted, rtol=1e-9, atol=1e-9)
        kept = h(naturals + beta * rows, share, spread) - h(naturals, share, spread)
        assert not np.allclose(result, kept / share, rtol=1e-2)
        whole = h(left + beta * rows, 1.0, spread) - h(left, 1.0, spread)
        assert np.allclose(result, whole, rtol=1e-3) == (np.ndim(share) == 0)


@pytest.mark.parametrize("past", [False, True])
def test_naturals_are_those_of_the_last_update(past, seed):
    rng = np.random.default_rng(seed)
    tree = Tree([0, 3, 1, 2], [0, 1, 1, 1])
    state, X = random_state(rng, tree, past=past), random_rows(rng, 10)
    stats = stats_of(rng.dirichlet(np.full(4, 0.3), size=X.shape[0]), X.toarray())
    for _ in range(100):
        state = update_means(state, stats, PRIORS)
    result = Naturals.of(state, PRIORS).by_position(tree)
    naturals = result.lengths[:, None] * unit(state.means)
    for leaf in (1, 2, 3):
        wanted = 12.0 * 1.1 * state.means[0] + 12.0 * 0.8 * pasts_of(state)[leaf]
        wanted += 30.0 * stats.sums.toarray()[leaf]
        assert_allclose(naturals[leaf], wanted, rtol=1e-6, atol=1e-6)
    assert_allclose(result.shares[1:], 1.0)
    assert_allclose(naturals[0], natural_of(state, stats, PRIORS, 0), rtol=1e-6)
    length = np.linalg.norm(state.means[0])
    y = reference.natural_length(length, result.spreads[0], DIMENSION)
    whole = np.linalg.norm(natural_of(state, stats, PRIORS, 0))
    assert_allclose(result.shares[0], y / whole, rtol=1e-6)
    assert result.shares[0] < 0.99
    lengths = np.linalg.norm(state.means, axis=1)
    independent = inverse_bessel_ratio(lengths, DIMENSION)
    assert not np.allclose(independent[1:], result.lengths[1:], rtol=1e-3)


# Visits -------------------------------------------------------------------------------


def dense_naturals(state, priors):
    """Natural parameters, shares and spreads of nodes, by the formulas."""
    pull = state.prior_concentration * priors.parent_weight
    parent, spreads, y, slopes = state.tree.parent, [], [], []
    for node, mean in enumerate(state.means):
        around = state.above if parent[node] < 0 else state.means[parent[node]]
        spreads.append(pull**2 * max(1.0 - around @ around, 0.0))
        length = np.linalg.norm(mean)
        y.append(reference.natural_length(length, spreads[-1], DIMENSION))
        slopes.append(length / y[-1])
    shares = np.array(
        [
            1.0 / (1.0 + slopes[node] * pull**2 * sum(slopes[c] for c in below))
            for node, below in enumerate(reference.children_of(parent.tolist()))
        ]
    )
    naturals = (np.array(y) / shares)[:, None] * unit(state.means)
    return naturals, shares, np.array(spreads)


def test_collapsed_visit_is_that_of_the_reference(seed):
    rng = np.random.default_rng(seed)
    state, X = random_state(rng), random_rows(rng)
    memo, stats = update_local(NodeTable.collapsed(state, PRIORS), X)
    naturals, shares, spreads = dense_naturals(state, PRIORS)
    logs, rows = state.log_weights(PRIORS), X.toarray().astype(float)

    def q(shares, spreads, naturals=naturals):
        rest = (naturals, shares, spreads, state.concentration)
        return reference.collapsed_step(rows, logs, state.means, *rest)

    wanted = stats_of(q(shares, spreads), rows)
    assert_allclose(stats.masses, wanted.masses, rtol=1e-4, atol=1e-5)
    assert_allclose(stats.sums.toarray(), wanted.sums.toarray(), atol=1e-3)
    assert_allclose(stats.entropies, wanted.entropies, atol=1e-3)
    assert (memo.weights[0] == 0.0).all()
    _, independent = update_local(NodeTable.of(state, PRIORS), X)
    for other in (
        independent.masses,
        q(np.ones(7), spreads).sum(axis=0),
        q(shares, np.zeros(7)).sum(axis=0),
    ):
        assert not np.allclose(stats.masses, other, rtol=1e-3, atol=1e-3)
