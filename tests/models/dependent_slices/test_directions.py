"""Directions that trees share against arrays in the order of the tree."""

import numpy as np
import pytest
import scipy.sparse as sp

from skbnp.inference.executor import Executor
from skbnp.models.dependent_slices import model as module
from skbnp.models.dependent_slices.model import Directions


@pytest.mark.parametrize("n_spare", [0, 2])
def test_new_nodes_get_rows_that_no_other_has(n_spare):
    table = np.arange(15.0).reshape(5, 3)
    directions = Directions(
        np.concatenate([table, np.full((n_spare, 3), np.nan)]), np.arange(5)[::-1]
    )
    kept = np.array([0, 2, 0, 3, 0])
    is_there = np.array([True, True, False, True, False])
    edited = directions.taken(kept, is_there)
    expected = table[::-1][kept]
    for place in np.flatnonzero(~is_there):
        expected[place] = edited[int(place)] = -np.arange(3.0) - place
    np.testing.assert_array_equal(edited.gathered(), expected)
    assert len(np.unique(edited.row)) == len(edited) == 5
    assert len(edited.drawn) <= 5 + n_spare  # rows of nodes that ended are taken


def test_products_are_those_of_an_array(seed):
    rng = np.random.default_rng(seed)
    directions = Directions(rng.normal(size=(6, 4)), np.array([4, 0, 5]))
    array = directions.gathered()
    np.testing.assert_array_equal(array, directions[np.arange(3)])
    vector, sums = rng.normal(size=4), rng.poisson(0.6, size=(3, 4)).astype(float)
    np.testing.assert_allclose(directions @ vector, array @ vector)
    result = directions.products(sp.csr_array(sums))
    np.testing.assert_allclose(result, (array * sums).sum())


def test_threads_gather_what_one_gathers(seed, monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", 8)
    rng = np.random.default_rng(seed)
    directions = Directions(rng.normal(size=(9, 4)), rng.permutation(9)[:7])
    with Executor(2) as executor:
        result = directions.gathered(executor.run)
    np.testing.assert_array_equal(result, directions.drawn[directions.row])
