"""Rows of one local step, cut into blocks of work.

Blocks depend on the data alone, never on the number of threads: their results are
added in their order, so the sums have the same bits on any thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.rows.word_sums import joined, rows_of
from skbnp.utils.sparse import csr

__all__ = ["Batch", "Block"]

#: A block holds about this many stored counts and rows...
BLOCK_SIZE = 16384
#: ...or fewer, so that their number times that of topics stays below this (an interrupt
#: waits for the blocks that have begun, typically below 0.5 s)...
BLOCK_WORK = 1 << 21
#: ...or fewer, so that a small batch still feeds several threads evenly...
BLOCKS_PER_BATCH = 8
#: ...but for those where less would be done than it takes to hand a block over.
LEAST_WORK = 1 << 18


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive documents of a batch."""

    rows: slice  # of the batch
    words: NDArray[np.intp]  # (n_words,) of the batch, columns of the matrix
    indptr: NDArray[np.int32]  # (n_docs + 1,)
    indices: NDArray[np.int32]  # (nnz,) positions in `words`
    counts: NDArray[np.float64]  # (nnz,)
    n_tokens: NDArray[np.float64]  # (n_docs,)


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents whose local step reads the same globals."""

    n_docs: int
    words: NDArray[np.intp]  # (n_words,) increasing, columns of the matrix
    indptr: NDArray[np.int64]  # (n_docs + 1,)
    indices: NDArray[np.int32]  # (nnz,) positions in `words`
    counts: NDArray[np.float64]  # (nnz,)
    blocks: list[Block]

    @classmethod
    def from_counts(cls, X: sp.csr_array, n_topics: int = 1) -> "Batch":
        """Cut a canonical CSR matrix into blocks for a model of `n_topics` topics."""
        n_docs, n_features = X.shape
        words, local = _compact(X.indices, n_features)
        indptr = X.indptr.astype(np.int64)
        work = indptr + np.arange(n_docs + 1)
        even = max(-(-work[-1] // BLOCKS_PER_BATCH), LEAST_WORK // n_topics)
        size = min(BLOCK_SIZE, BLOCK_WORK // n_topics, even)
        edges = np.arange(min(n_docs, 1) + 1) * n_docs  # one block, if there is any
        if work[-1] > size:
            edges = np.searchsorted(work, np.arange(size, work[-1], max(size, 1)))
            edges = np.unique(np.concatenate([[0], edges, [n_docs]]))
        blocks, n_tokens = [], _row_sums(X.data, indptr)
        for begin, end in pairwise(edges):
            first, last = indptr[begin], indptr[end]
            starts = indptr[begin : end + 1] - first
            blocks.append(
                Block(
                    rows=slice(int(begin), int(end)),
                    words=words,
                    indptr=starts.astype(np.int32),
                    indices=local[first:last],
                    counts=np.ascontiguousarray(X.data[first:last]),
                    n_tokens=n_tokens[begin:end],
                )
            )
        return cls(n_docs, words, indptr, local, X.data, blocks)

    @property
    def n_tokens(self) -> NDArray[np.float64]:
        """Tokens of each document, (n_docs,)."""
        return joined(self.blocks, "n_tokens")

    def parts(self, size: int) -> Iterator["Batch"]:
        """Yield ranges of blocks, of about `size` stored counts each."""
        blocks, n_counts = list[Block](), 0
        for block in self.blocks:
            blocks.append(block)
            n_counts += len(block.counts)
            if n_counts < size and block is not self.blocks[-1]:
                continue
            first, last = blocks[0].rows.start, block.rows.stop
            indptr = self.indptr[first : last + 1]
            counts = slice(indptr[0], indptr[-1])
            yield Batch(
                last - first,
                self.words,
                indptr - indptr[0],
                self.indices[counts],
                self.counts[counts],
                blocks,
            )
            blocks, n_counts = [], 0

    def by_word(self) -> sp.csc_array:
        """Position of each stored count, word by word: (n_docs, n_words)."""
        shape = (self.n_docs, len(self.words))
        places = np.arange(len(self.indices))
        return csr(places, self.indices, self.indptr, shape).tocsc()


def _compact(numbers: NDArray, size: int) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """The distinct numbers below `size`, increasing, and the position of each."""
    present = np.zeros(size, dtype=bool)
    present[numbers] = True
    distinct = np.flatnonzero(present)
    position = np.empty(size, dtype=np.int32)
    position[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, position[numbers]


def _row_sums(
    counts: NDArray[np.float64], indptr: NDArray[np.int64]
) -> NDArray[np.float64]:
    sums = np.bincount(rows_of(indptr), counts, len(indptr) - 1)
    return sums.astype(np.float64, copy=False)  # integers where there is nothing
