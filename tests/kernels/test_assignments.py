"""Rows that choose their nodes one by one, against a slow twin."""

from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from kernels.test_directions import unit
from kernels.test_interrupts import check_is_interrupted
from reference import tree_assignments as reference
from skbnp.distributions import expansion
from skbnp.kernels._assignments import assign_rows

PARENT = [-1, 0, 1, 1, 0, 4]


def nodes_with_rows(seed, dimension, n_rows=30, n_new=8):
    """Nodes, rows near some and near directions where there is none, and who is where.

    A row in five is at no node yet; nodes 3 and 5 have one row or none.
    """
    rng, n = np.random.default_rng(seed), len(PARENT)
    strength, pull = 1.5 * dimension, 1.0 * dimension
    centres = unit(rng.standard_normal((n + 3, dimension)))
    rows = 3.0 * centres[rng.integers(n + 3, size=n_rows)]
    rows += unit(rng.standard_normal((n_rows, dimension)))
    rows[:, 1:][rng.random((n_rows, dimension - 1)) < 0.3] = 0.0
    rows = unit(rows).astype(np.float32)
    places = rng.choice([0, 1, 2, 4], size=n_rows)
    places[rng.random(n_rows) < 0.2] = -1
    places[3] = 3
    history = np.array([0.0, 2.0, 0.0, 0.0, 1.5, 0.0])
    masses = history + np.bincount(places[places >= 0], minlength=n)
    naturals = pull * 0.5 * centres[:n]
    for row, place in zip(rows.astype(float), places, strict=True):
        if place >= 0:
            naturals[place] += strength * row
    nodes = reference.Nodes(
        list(naturals),
        [0.8, 0.9, 1.0, 1.0, 0.9, 1.0],
        list(rng.uniform(0.1, 0.5, n) * pull**2),
        list(np.log(rng.dirichlet(np.ones(n)))),
        list(np.log(rng.dirichlet(np.ones(n))) - 2.0),
        list(masses),
        [False, True, False, False, True, False],
        list(PARENT),
        strength,
        pull,
        0.3,
        n + n_new,
    )
    return nodes, rows, places, rng.permutation(n_rows)


def assign(nodes, rows, places, sequence):
    """Let rows choose by the kernel; return nodes, places, and how many nodes."""
    X, n, capacity = sp.csr_array(rows), len(nodes.parent), nodes.capacity
    table = np.zeros((rows.shape[1], capacity))
    table[:, :n] = np.array(nodes.naturals).T

    def filled(values, rest=0.0, dtype=np.float64):
        result = np.full(capacity, rest, dtype=dtype)
        result[:n] = values
        return result

    squares, masses = filled((table[:, :n] ** 2).sum(axis=0)), filled(nodes.masses)
    parent, result = filled(nodes.parent, -1, np.intp), places.astype(np.intp)
    n_found = assign_rows(
        X.indptr.astype(np.int32),
        X.indices.astype(np.int32),
        X.data,
        sequence.astype(np.intp),
        table,
        squares,
        filled(nodes.shares),
        filled(nodes.spreads),
        filled(nodes.log_weights, -np.inf),
        filled(nodes.log_weights_below, -np.inf),
        masses,
        filled(nodes.lasting, 0, np.uint8),
        parent,
        result,
        n,
        nodes.strength,
        nodes.pull,
        nodes.least,
        expansion(rows.shape[1]),
    )
    assert_allclose(squares, (table**2).sum(axis=0), rtol=1e-9)
    return table.T[:n_found], masses[:n_found], parent[:n_found], result


def assign_by_twin(nodes, rows, places, sequence):
    nodes, places = deepcopy(nodes), places.copy()
    for row in sequence.tolist():
        vector = rows[row].astype(float)
        places[row] = reference.choose(nodes, int(places[row]), vector)
    return np.array(nodes.naturals), nodes.masses, nodes.parent, places


@pytest.mark.parametrize("dimension", [5, 40])
def test_rows_choose_as_by_the_twin(dimension, seed):
    given = nodes_with_rows(seed, dimension)
    result, wanted = assign(*given), assign_by_twin(*given)
    assert_array_equal(result[-1], wanted[-1])
    assert_array_equal(result[2], wanted[2])
    assert_allclose(result[0], wanted[0], rtol=1e-7, atol=1e-6)
    assert_allclose(result[1], wanted[1])


def test_some_nodes_open_and_some_close():
    """In the draws of the test before: else it would say less."""
    opened, closed = 0, 0
    for seed in range(6):
        nodes, *given = nodes_with_rows(seed, 40)
        _, masses, parent, _ = assign(nodes, *given)
        opened += len(parent) - len(PARENT)
        closed += int((masses[len(PARENT) :] < 0.5).sum()) + int(masses[3] < 0.5)
    assert opened > 3
    assert closed > 0


def test_a_twin_whose_rows_stay_in_their_nodes_chooses_otherwise(monkeypatch):
    whole = reference.without
    monkeypatch.setattr(reference, "without", lambda n, own, row: whole(n, -1, row))
    cases = [nodes_with_rows(seed, 40) for seed in range(12)]
    same = [np.array_equal(assign(*c)[-1], assign_by_twin(*c)[-1]) for c in cases]
    assert not all(same)


def test_many_rows_look_for_interrupts():
    given = nodes_with_rows(0, 200, n_rows=8000, n_new=40)
    check_is_interrupted(lambda: assign(*given))
