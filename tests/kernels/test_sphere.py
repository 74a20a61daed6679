"""The score kernel: its twin, ties, looks for interrupts."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from kernels.test_interrupts import check_is_interrupted
from reference.sphere import best_nodes, score_table
from skbnp.kernels._sphere import TILE, score_rows

N_WORDS = 50


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-300)


def random_rows(rng, n_rows, n_words=N_WORDS, density=0.2):
    """Sparse rows on the sphere; the first has no word, the second one alone."""
    dense = rng.random((n_rows, n_words)) * (rng.random((n_rows, n_words)) < density)
    dense[0] = 0.0
    dense[1] = np.arange(n_words) == 3
    return sp.csr_array(unit(dense).astype(np.float32))


def random_directions(rng, n_nodes, n_words=N_WORDS):
    sharp = rng.random((n_nodes, n_words)) ** 4
    return 0.9 * unit(sharp).astype(np.float32)


def tiles(directions, prior):
    """Table and prior as the kernel takes them."""
    n_nodes, n_words = directions.shape
    n_tiles = -(-n_nodes // TILE)
    padded = np.zeros((n_tiles * TILE, n_words), dtype=np.float32)
    padded[:n_nodes] = directions
    table = padded.reshape(n_tiles, TILE, n_words).transpose(0, 2, 1)
    wide = np.full(n_tiles * TILE, -np.inf)
    wide[:n_nodes] = prior
    return np.ascontiguousarray(table), wide


def score(X, directions, prior, strength, n_best):
    """Nodes and scores of each row."""
    nodes = np.full((X.shape[0], n_best), 7, dtype=np.int32)
    scores = np.full(nodes.shape, 7.0)
    score_rows(
        X.indptr.astype(np.int32),
        X.indices.astype(np.int32),
        X.data,
        *tiles(directions, prior),
        strength,
        nodes,
        scores,
    )
    return nodes, scores


def check_twin(X, directions, prior, strength, n_best):
    nodes, scores = score(X, directions, prior, strength, n_best)
    wanted = score_table(X.toarray().astype(float), directions, prior, strength)
    best = best_nodes(wanted, n_best)[1]
    tol = {"rtol": 1e-6, "atol": 1e-6 * strength}
    assert_allclose(scores, best, **tol)
    there = nodes >= 0
    assert_array_equal(there, np.isfinite(best))
    rows = np.nonzero(there)[0]
    assert_allclose(wanted[rows, nodes[there]], scores[there], **tol)
    for row in nodes:
        assert len(set(row[row >= 0])) == (row >= 0).sum()


@pytest.mark.parametrize("n_best", [1, 3, 8])
@pytest.mark.parametrize("n_nodes", [1, 2, 31, 32, 33, 100])
def test_best_nodes_are_those_of_the_reference(n_nodes, n_best, seed):
    rng = np.random.default_rng(seed)
    X, directions = random_rows(rng, 40), random_directions(rng, n_nodes)
    prior = np.log(rng.dirichlet(np.ones(n_nodes)))
    prior[rng.random(n_nodes) < 0.1] = -np.inf
    check_twin(X, directions, prior, 200.0, n_best)


@pytest.mark.parametrize("fault", ["prior"])
def test_the_twin_tells_another_score(fault):
    rng = np.random.default_rng(0)
    X, directions = random_rows(rng, 40), random_directions(rng, 40)
    prior = np.log(rng.dirichlet(np.ones(40)))
    given = {"directions": directions, "prior": prior, "strength": 200.0}
    result = score(X, **given, n_best=4)
    given[fault] = given[fault] * 1.01
    wanted = score_table(X.toarray().astype(float), **given)
    assert not np.allclose(result[1], best_nodes(wanted, 4)[1], rtol=1e-6, atol=2e-4)


def test_equal_scores_go_by_number():
    rng = np.random.default_rng(0)
    X, one = random_rows(rng, 10), random_directions(rng, 1)
    directions = np.repeat(one, 100, axis=0)
    prior = np.zeros(100)
    prior[[90, 40, 70]] = 1.0
    nodes, _ = score(X, directions, prior, 50.0, 5)
    assert_array_equal(nodes, np.tile([40, 70, 90, 0, 1], (10, 1)))


# What is refused, and interrupts ------------------------------------------------------


def test_scoring_looks_for_interrupts():
    rng = np.random.default_rng(0)
    X, directions = random_rows(rng, 4000, 200, 0.5), random_directions(rng, 64, 200)
    check_is_interrupted(lambda: score(X, directions, np.zeros(64), 1.0, 2))
