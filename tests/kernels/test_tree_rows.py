"""Rows that go from node to node, against slow twins."""

import numpy as np
import pytest
import scipy.sparse as sp

from reference import tree_rows as reference
from skbnp.distributions import bessel_ratio, expansion, log_normaliser
from skbnp.kernels._directions import bessel_slopes, log_constants
from skbnp.kernels._tree_rows import allocate, fill_parameters, move_rows
from skbnp.trees import Tree

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
    log_constants(squares, own, expansion(table.shape[1]))
    return squares, own


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_normalisers_and_slopes_are_those_of_the_distribution(dimension):
    k = np.array([0.0, 1e-3, 0.5, 3.0, 50.0, 1e3, 1e5, 1e7])
    result, slopes = np.empty(len(k)), np.empty(len(k))
    log_constants(k * k, result, expansion(dimension))
    expected = log_normaliser(k, dimension) - log_normaliser(0.0, dimension)
    scale = np.abs(log_normaliser(k, dimension)) + k + 1.0
    assert (np.abs(result - expected) <= 1e-14 * scale).all()
    bessel_slopes(k * k, slopes, expansion(dimension))
    ratios = bessel_ratio(k[1:], dimension)
    np.testing.assert_allclose(slopes[1:] * k[1:], ratios, rtol=1e-13)
    assert slopes[0] == pytest.approx(1.0 / dimension, rel=1e-13)


@pytest.mark.parametrize("dimension", [2, 3, 40])
def test_parameters_are_those_of_the_twin(dimension, seed):
    X, arrays = rows_of(20, dimension, seed)
    rng = np.random.default_rng(seed)
    tree = Tree.from_parents([-1, 0, 1, 1, 0, 4])
    n = len(tree)
    place = rng.integers(0, n - 1, 20)  # the last node has none
    order = np.argsort(place, kind="stable").astype(np.int32)
    limits = np.append(0, np.cumsum(np.bincount(place, minlength=n))).astype(np.int32)
    directions = rng.standard_normal((9, dimension))
    which = rng.permutation(9)[:n]
    previous = rng.standard_normal((2, dimension))
    past = np.array([1, -1, 0, -1, -1, -1])
    gone = rng.poisson(0.2, (n, dimension)).astype(float)
    sums = sp.csr_array(gone)
    is_drawn = np.array([False, True, False, False, True, False])
    strengths = 3.0, 1.5, 0.7
    table = np.full((n + 2, dimension), np.nan)
    squares, own = np.zeros(n + 2), np.zeros(n + 2)
    nodes = np.array([0, 1, 2, 4, 5], dtype=np.int32)
    fill_parameters(
        nodes,
        is_drawn.view(np.uint8),
        directions,
        which,
        tree.parent,
        *tree.child_lists,
        previous,
        past,
        sums.indptr,
        sums.indices,
        sums.data,
        *arrays,
        order,
        limits,
        *strengths,
        table,
        squares,
        own,
        expansion(dimension),
    )
    result = {at: previous[one] for at, one in enumerate(past.tolist()) if one >= 0}
    given = X, place, tree, directions[which], result, gone, strengths
    for node in nodes.tolist():
        if is_drawn[node]:
            assert (table[node] == directions[which[node]]).all()
            continue
        natural = reference.natural_parameter(node, *given)
        np.testing.assert_allclose(table[node], natural, rtol=1e-12, atol=1e-12)
        exact = [one[0] for one in normalisers(natural[None])]
        np.testing.assert_allclose([squares[node], own[node]], exact, rtol=1e-10)
    assert np.isnan(table[[3, 6, 7]]).all()  # nobody asked
    wrong = [
        reference.natural_parameter(0, *given[:4], {}, *given[5:]),
        reference.natural_parameter(0, *given[:5], 0.0 * gone, strengths),
    ]
    for natural in wrong:
        assert not np.allclose(table[0], natural)


def moved(X, arrays, place, table, drawn, log_weights, log_slices, rows, **more):
    """Let rows move; returns how many, and what has become of the arrays."""
    table, place = table.copy(), place.astype(np.int32)
    squares, own = (one.copy() for one in more.get("normalisers", normalisers(table)))
    n = len(table)
    members = more.get("members", np.arange(n, dtype=np.int32))
    keeper = more.get("keeper", np.full(n, -1, dtype=np.int32))
    kept = more.get("kept", np.zeros(n, dtype=np.int32))
    number = move_rows(
        *arrays,
        np.array(rows, dtype=np.int32),
        log_slices,
        place,
        more.get("group", np.zeros(n, dtype=np.int32)),
        members,
        more.get("limits", np.array([0, len(members)], dtype=np.int32)),
        log_weights,
        drawn.view(np.uint8),
        keeper,
        kept,
        more.get("source", np.arange(n, dtype=np.int32)),
        more.get("n_filled", n),
        more.get("n_filled", n),
        more.get("pull", 0.0),
        table,
        squares,
        own,
        BETA,
        np.empty(n),
        expansion(X.shape[1]),
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
        result = np.zeros(4)
        for seed in range(1500):
            _, after, *_ = moved(*fixed, [row], seed=seed)
            result[after[row]] += 1 / 1500
        assert np.abs(result - expected).max() < 4 * np.sqrt(0.25 / 1500)
    assert expected[3] == 0.0  # below the slice of row 2


def test_parameters_follow_the_rows_and_others_stay():
    X, arrays = rows_of(40, 12, 3)
    rng = np.random.default_rng(4)
    place = rng.integers(0, 6, 40)
    drawn = np.array([False, False, True, False, False, False])
    prior = rng.standard_normal((6, 12))
    table = prior.copy()
    for node in np.flatnonzero(~drawn):
        table[node] += BETA * X[place == node].sum(axis=0)
    group = np.array([0, 0, 0, 0, 1, 1], dtype=np.int32)
    members = np.array([0, 2, 3, 4, 5], dtype=np.int32)
    rows = np.flatnonzero(np.isin(place, members))
    number, after, new, squares, own, _ = moved(
        X,
        arrays,
        place,
        table,
        drawn,
        np.zeros(6),
        np.full(40, -1.0),
        rows,
        group=group,
        members=members,
        limits=np.array([0, 3, 5], dtype=np.int32),
    )
    assert number > 0
    assert np.isin(after[rows], members).all()
    assert (group[after] == group[place]).all()
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


def test_nodes_without_rows_share_the_parameter_of_another_one(seed):
    dimension = 12
    X, arrays = rows_of(30, dimension, seed)
    rng = np.random.default_rng(seed)
    place, pull = np.tile([0, 1], 15), 2.5
    table = np.full((5, dimension), np.nan)
    table[0] = BETA * X[place == 0].sum(axis=0)
    table[1] = rng.standard_normal(dimension)
    filled = table.copy()
    filled[2:] = pull * table[1]
    drawn = np.array([False, True, False, False, False])
    more = {"pull": pull, "seed": seed}
    source = np.array([0, 1, 1, 1, 1], dtype=np.int32)
    fixed = drawn, np.zeros(5), np.full(30, -1.0), np.tile(np.arange(30), 2)
    _, after, separate, _, own, _ = moved(X, arrays, place, filled, *fixed, **more)
    table[2:] = 0.0
    given = X, arrays, place, table, *fixed
    more |= {"n_filled": 2, "normalisers": normalisers(filled)}
    _, other, shared, _, others, _ = moved(*given, **more, source=source)
    assert (other == after).all()
    has_rows = np.isin(np.arange(5), after)
    assert has_rows[2:].any()
    # Rows of the table are taken one after the other.
    assert set(source[2:]) - {1} == set(range(2, 2 + (source[2:] != 1).sum()))
    assert (source[has_rows & (np.arange(5) >= 2)] != 1).all()
    np.testing.assert_allclose(shared[source[has_rows]], separate[has_rows], rtol=1e-12)
    np.testing.assert_allclose(others, own, rtol=1e-10)
    # Without `pull` they would be nowhere.
    source[2:] = 1
    _, wrong, *_ = moved(*given, **{**more, "pull": 0.0}, source=source)
    assert (wrong != after).any()


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
        expansion(dimension),
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
    result = 0
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
            expansion(5),
            bits,
        )
        result += int(side[0])
    assert result / 4000 == pytest.approx(expected, abs=4 * np.sqrt(0.25 / 4000))
