"""Directions of a tree that are drawn, against slow twins."""

import numpy as np
import pytest
import scipy.sparse as sp

from reference import tree_directions as reference
from skbnp.distributions import expansion
from skbnp.kernels._tree_directions import integrate_out, prior_products
from skbnp.trees import Tree

#: A leaf, a chain, nodes with and without rows below one that is old, and one alone.
TREE = Tree.from_parents([-1, 0, 0, 2, 3, 0, 5, 5, 7, 0])
PASTS = {"first": [], "later": [0, 5, 6]}
STRENGTHS = 3.0, 2.0, 1.2


def on_sphere(rng, n, dimension):
    x = rng.standard_normal((n, dimension))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def drawn(seed, dimension, epoch):
    """Directions, the rows that they have in a larger array, and what is old."""
    rng, n = np.random.default_rng(seed), len(TREE)
    directions, row = on_sphere(rng, n + 3, dimension), rng.permutation(n + 3)[:n]
    old = PASTS[epoch]
    previous = on_sphere(rng, len(old), dimension)
    past = np.full(n, -1)
    past[old] = np.arange(len(old))
    return rng, directions, row, previous, past, dict(zip(old, previous, strict=True))


@pytest.mark.parametrize("epoch", PASTS)
def test_products_of_neighbours_are_those_of_the_twin(epoch, seed):
    _, directions, row, previous, past, m = drawn(seed, 7, epoch)
    n = len(TREE)
    result = np.full((n, 4), np.nan)
    for nodes in np.arange(n)[:4], np.arange(n)[4:]:
        given = directions, row, TREE.parent, previous, past
        prior_products(nodes, *given, result)
    theta = directions[row]
    expected = [reference.prior_products(TREE, theta, m, at) for at in range(n)]
    np.testing.assert_allclose(result, expected, atol=1e-14)


def integrated(dimension, epoch, seed, limits):
    """Log of what subtrees between limits make of rows, then the root; and the twin."""
    rng, directions, row, previous, past, m = drawn(seed, dimension, epoch)
    n = len(TREE)
    sums = rng.standard_normal((n, dimension)) * (rng.random((n, dimension)) < 0.5)
    sums[3] = 0.0
    sparse = sp.csr_array(sums)
    arrays = sparse.indptr.astype(np.int32), sparse.indices.astype(np.int32)
    given = TREE.depth, TREE.parent, directions, row, previous, past, *arrays
    total, below = 0.0, np.zeros((TREE.max_depth + 2, dimension))
    for begin, end in limits:
        total += integrate_out(
            begin, end, *given, sparse.data, *STRENGTHS, below, expansion(dimension)
        )
    assert not below[1:].any()
    expected, _ = reference.integrated_out(TREE, 0, directions[row], sums, m, STRENGTHS)
    return total, expected


@pytest.mark.parametrize("epoch", PASTS)
@pytest.mark.parametrize("dimension", [2, 3, 40])
def test_directions_are_integrated_out_as_by_the_twin(dimension, epoch, seed):
    result, expected = integrated(dimension, epoch, seed, [(5, 10), (1, 5), (0, 1)])
    assert result == pytest.approx(expected, rel=1e-9, abs=1e-7)
    at_once, _ = integrated(dimension, epoch, seed, [(0, 10)])
    assert at_once == pytest.approx(result, rel=1e-12)
