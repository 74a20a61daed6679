"""Laws of the cut of a matrix into blocks."""

import numpy as np
import pytest
import scipy.sparse as sp

from skbnp.rows import batch
from skbnp.rows.batch import BLOCK_SIZE, BLOCKS_PER_BATCH, Batch


def sparse_counts(n_docs, n_features, density=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.poisson(3.0, size=(n_docs, n_features)) + 0.25
    return sp.csr_array(X * (rng.random((n_docs, n_features)) < density))


def one_huge_row():
    X = sparse_counts(40, 3 * BLOCK_SIZE, density=0.0005).tolil()
    X[17] = np.arange(1.0, X.shape[1] + 1)
    return sp.csr_array(X)


MATRICES = {
    "ordinary": sparse_counts(200, 50),
    "one row": sparse_counts(1, 50),
    "one column": sparse_counts(30, 1, density=0.7),
    "fewer rows than blocks": sparse_counts(3, 50),
    "larger than a block": sparse_counts(2000, 300),
    "no rows": sp.csr_array((0, 7)),
    "no columns used": sp.csr_array((30, 7)),
    "empty rows first and last": sp.vstack(
        [sp.csr_array((20, 50)), sparse_counts(5, 50), sp.csr_array((20, 50))],
        format="csr",
    ),
    "one huge row": one_huge_row(),
}
matrices = pytest.mark.parametrize("X", MATRICES.values(), ids=MATRICES)


@matrices
def test_blocks_hold_the_rows_in_order(X):
    batch, n_before, result = Batch.from_counts(X), 0, np.zeros(X.shape)
    for block in batch.blocks:
        docs = np.arange(batch.n_docs)[block.rows]
        np.testing.assert_array_equal(docs, n_before + np.arange(len(docs)))
        assert len(docs) > 0
        n_before += len(docs)
        words = block.words[block.indices]
        result[np.repeat(docs, np.diff(block.indptr)), words] = block.counts
    np.testing.assert_array_equal(result, X.toarray())


@matrices
def test_counts_are_found_word_by_word(X):
    batch = Batch.from_counts(X)
    np.testing.assert_array_equal(batch.words, np.unique(X.indices))
    result = batch.by_word()
    result.data = batch.counts[result.data]
    np.testing.assert_array_equal(result.toarray(), X.toarray()[:, batch.words])


@matrices
def test_no_block_exceeds_the_target_by_more_than_a_document(X):
    """Work of a document: its stored counts and one."""
    work = np.diff(X.indptr) + 1
    target = min(BLOCK_SIZE, -(-work.sum() // BLOCKS_PER_BATCH))
    for block in Batch.from_counts(X).blocks:
        assert work[block.rows][:-1].sum() < target


def test_small_batch_still_feeds_several_threads():
    n_blocks = len(Batch.from_counts(MATRICES["ordinary"]).blocks)
    assert BLOCKS_PER_BATCH - 1 <= n_blocks <= BLOCKS_PER_BATCH + 1


@pytest.mark.parametrize(("n_topics", "n_blocks"), [(1, 1), (20, 2), (500, 8)])
def test_blocks_of_little_work_are_larger(n_topics, n_blocks, monkeypatch):
    monkeypatch.setattr(batch, "LEAST_WORK", 20 * 5000)
    monkeypatch.setattr(batch, "BLOCKS_PER_BATCH", 8)
    X = sparse_counts(1000, 50)
    work = X.nnz + X.shape[0]
    assert 5000 < work < 10000
    result = len(Batch.from_counts(X, n_topics).blocks)
    assert n_blocks <= result <= n_blocks + (n_blocks > 2)
