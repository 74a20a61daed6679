"""Rows that go from node to node, against slow twins."""

import numpy as np
import pytest
import scipy.sparse as sp

from reference import tree_rows as reference
from skbnp.distributions.von_mises_fisher import (
    bessel_ratio,
    expansion,
    log_normaliser,
)
from skbnp.kernels._directions import bessel_slopes, log_constants
from skbnp.kernels._tree_rows import allocate, collect, move_rows

DIMENSIONS = [2, 3, 9, 40, 400, 20_000]
BETA = 3.0


def rows_of(n, dimension, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, dimension)) * (rng.random((n, dimension)) < 0.7)
    X[:, 0] += 0.5
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    sparse = sp.csr_array(X)
    arrays = sparse.indptr.astype(np.int32), sparse.indices.astype(np.int32)
    return X.astype(np.float64), (*arrays, sparse.data)


def normalisers(table):
    squares = (table**2).sum(axis=1)
    own = np.empty(len(table))
    log_constants(squares, own, *expansion(table.shape[1]))
    return squares, own


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_normalisers_and_slopes_are_those_of_the_distribution(dimension):
    k = np.array([0.0, 1e-3, 0.5, 3.0, 50.0, 1e3, 1e5, 1e7])
    found, slopes = np.empty(len(k)), np.empty(len(k))
    log_constants(k * k, found, *expansion(dimension))
    expected = log_normaliser(k, dimension) - log_normaliser(0.0, dimension)
    scale = np.abs(log_normaliser(k, dimension)) + k + 1.0
    assert (np.abs(found - expected) <= 1e-14 * scale).all()
    bessel_slopes(k * k, slopes, *expansion(dimension))
    ratios = bessel_ratio(k[1:], dimension)
    np.testing.assert_allclose(slopes[1:] * k[1:], ratios, rtol=1e-13)
    assert slopes[0] == pytest.approx(1.0 / dimension, rel=1e-13)


def test_collected_rows_are_sums_by_node():
    X, arrays = rows_of(9, 5, 0)
    place = np.array([2, 0, 0, 1, 2, 2, 0, 1, 2])
    order = np.argsort(place, kind="stable").astype(np.int32)
    limits = np.array([0, 3, 5, 9], dtype=np.int32)
    table = np.ones((3, 5))
    collect(*arrays, order, limits, np.array([0, 2], dtype=np.int32), 2.0, table)
    for node in (0, 2):
        expected = 1.0 + 2.0 * X[place == node].sum(axis=0)
        np.testing.assert_allclose(table[node], expected, rtol=1e-12)
    assert (table[1] == 1.0).all()


def moved(X, arrays, place, table, drawn, log_weights, log_slices, rows, **more):
    """Let rows move; returns how many, and what has become of the arrays."""
    table, place = table.copy(), place.astype(np.int32)
    squares, own = normalisers(table)
    n = len(table)
    keeper = more.get("keeper", np.full(n, -1, dtype=np.int32))
    kept = more.get("kept", np.zeros(n, dtype=np.int32))
    number = move_rows(
        *arrays,
        np.array(rows, dtype=np.int32),
        log_slices,
        place,
        more.get("members", np.arange(n, dtype=np.int32)),
        log_weights,
        drawn.view(np.uint8),
        keeper,
        kept,
        table,
        squares,
        own,
        BETA,
        np.empty(n),
        *expansion(X.shape[1]),
        np.random.PCG64(more.get("seed", 0)),
    )
    return number, place, table, squares, own, kept


@pytest.mark.parametrize("dimension", [3, 60])
def test_rows_go_with_the_probabilities_of_the_twin(dimension):
    X, arrays = rows_of(6, dimension, 1)
    rng = np.random.default_rng(2)
    place = np.array([0, 1, 2, 0, 1, 2])
    drawn = np.array([False, True, False, False])
    table = rng.standard_normal((4, dimension))
    table[drawn] /= np.linalg.norm(table[drawn], axis=1, keepdims=True)
    for node in np.flatnonzero(~drawn):
        table[node] += BETA * X[place == node].sum(axis=0)
    log_weights = np.array([-1.0, -1.5, -2.0, -3.0])
    log_slices = np.array([-5.0, -5.0, -2.5, -5.0, -5.0, -5.0])
    fixed = (X, arrays, place, table, drawn, log_weights, log_slices)
    for row in (0, 1, 2):
        expected = reference.probabilities(
            X[row], table, drawn, BETA, log_weights, log_slices[row], place[row]
        )
        found = np.zeros(4)
        for seed in range(1500):
            _, after, *_ = moved(*fixed, [row], seed=seed)
            found[after[row]] += 1 / 1500
        assert np.abs(found - expected).max() < 4 * np.sqrt(0.25 / 1500)
    assert expected[3] == 0.0  # below the slice of row 2


def test_parameters_follow_the_rows_and_others_stay():
    X, arrays = rows_of(40, 12, 3)
    rng = np.random.default_rng(4)
    place = rng.integers(0, 5, 40)
    drawn = np.array([False, False, True, False, False])
    prior = rng.standard_normal((5, 12))
    table = prior.copy()
    for node in np.flatnonzero(~drawn):
        table[node] += BETA * X[place == node].sum(axis=0)
    members = np.array([0, 2, 3], dtype=np.int32)
    rows = np.flatnonzero(np.isin(place, members))
    number, after, new, squares, own, _ = moved(
        X,
        arrays,
        place,
        table,
        drawn,
        np.zeros(5),
        np.full(40, -1.0),
        rows,
        members=members,
    )
    assert number > 0
    assert np.isin(after[rows], members).all()
    others = np.setdiff1d(np.arange(40), rows)
    assert (after[others] == place[others]).all()
    for node in np.flatnonzero(~drawn):
        expected = prior[node] + BETA * X[after == node].sum(axis=0)
        np.testing.assert_allclose(new[node], expected, rtol=1e-9, atol=1e-12)
    assert (new[drawn] == table[drawn]).all()
    exact = normalisers(new)
    free = ~drawn
    np.testing.assert_allclose(squares[free], exact[0][free], rtol=1e-9)
    np.testing.assert_allclose(own[free], exact[1][free], atol=1e-9)


def test_the_last_row_of_a_set_stays():
    X, arrays = rows_of(12, 4, 5)
    place = np.zeros(12, dtype=int)
    table = np.zeros((2, 4))
    table[0] = BETA * X.sum(axis=0)
    keeper = np.array([0, -1], dtype=np.int32)
    for seed in range(30):
        _, after, *_, kept = moved(
            X,
            arrays,
            place,
            table,
            np.zeros(2, dtype=bool),
            np.array([-30.0, 0.0]),
            np.full(12, -40.0),
            np.tile(np.arange(12), 4),
            keeper=keeper,
            kept=np.array([12, 0], dtype=np.int32),
            seed=seed,
        )
        assert kept[0] == (after == 0).sum() >= 1


@pytest.mark.parametrize("dimension", [3, 60])
@pytest.mark.parametrize("is_forced", [True, False])
def test_allocation_has_the_probability_of_the_twin(is_forced, dimension):
    X, arrays = rows_of(15, dimension, 6)
    rng = np.random.default_rng(7)
    naturals = rng.standard_normal((2, dimension))
    table, queue = naturals.copy(), rng.permutation(15).astype(np.int32)
    side = rng.integers(0, 2, 15).astype(np.int8)
    before = side.copy()
    counts = np.ones(2)
    log_probability = allocate(
        *arrays,
        queue,
        side,
        is_forced,
        table,
        *normalisers(table),
        counts,
        BETA,
        *expansion(dimension),
        np.random.PCG64(0),
    )
    expected, parameters = reference.allocation(X[queue], side, naturals, BETA)
    assert log_probability == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(table, parameters, rtol=1e-9)
    assert counts.sum() == 17
    assert (side == before).all() == is_forced


def test_shares_of_an_allocation_are_those_of_the_twin():
    X, arrays = rows_of(1, 5, 8)
    naturals = np.random.default_rng(9).standard_normal((2, 5))
    expected = np.exp(reference.allocation(X, [1], naturals, BETA)[0])
    found = 0
    bits = np.random.PCG64(0)
    for _ in range(4000):
        side, table = np.zeros(1, dtype=np.int8), naturals.copy()
        allocate(
            *arrays,
            np.zeros(1, dtype=np.int32),
            side,
            False,
            table,
            *normalisers(table),
            np.ones(2),
            BETA,
            *expansion(5),
            bits,
        )
        found += int(side[0])
    assert found / 4000 == pytest.approx(expected, abs=4 * np.sqrt(0.25 / 4000))
