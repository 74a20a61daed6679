"""Rows drawn from a tree of directions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skbnp.datasets import make_subspace_tree


@pytest.fixture(scope="module")
def drawn():
    return make_subspace_tree(4000, n_features=12, branching=(2, 3), random_state=0)


def test_paths_are_those_of_the_tree(drawn):
    assert "\n9 nodes, 6 of them leaves" in drawn.DESCR
    assert_array_equal(drawn.tree.parent, [-1, 0, 1, 1, 1, 0, 5, 5, 5])
    assert_array_equal(drawn.tree.parent[drawn.path[:, 1:]], drawn.path[:, :-1])
    assert_array_equal(drawn.path[:, -1], drawn.target)
    assert_array_equal(np.unique(drawn.target), drawn.tree.leaves)
    passes = np.bincount(drawn.path.ravel(), minlength=9) / 4000
    assert_allclose(drawn.tree.weight, passes)


def residuals(drawn, coordinates):
    fit = np.einsum("il,ilj->ij", coordinates, drawn.components[drawn.path])
    return drawn.data - drawn.mean - fit


def test_rows_are_their_coordinates_on_the_path_and_noise(drawn):
    rest = residuals(drawn, drawn.coordinates)
    # 48,000 values: five standard errors of their standard deviation.
    assert abs(rest.std() - 0.5) < 5 * 0.5 / np.sqrt(2 * rest.size)
    assert abs(rest.mean()) < 5 * 0.5 / np.sqrt(rest.size)
    assert residuals(drawn, drawn.coordinates[:, ::-1]).std() > 2.0


def test_coordinates_are_standard_normal(drawn):
    n = drawn.coordinates.size
    assert abs(drawn.coordinates.mean()) < 5 / np.sqrt(n)
    assert abs(drawn.coordinates.std() - 1.0) < 5 / np.sqrt(2 * n)
