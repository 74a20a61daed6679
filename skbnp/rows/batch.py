"""Batches of documents, cut into blocks of work for the local step, and their sums.

Blocks depend on the data alone, never on the number of threads: their results are
added in their order, so the sums have the same bits on any thread.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.utils.arrays import csr, rows_of
from skbnp.utils.typing import Array, Ints, Ints32

#: A block holds about this many stored counts and rows...
BLOCK_SIZE = 16384
#: ...or fewer, so that their number times that of topics stays below this (an interrupt
#: waits for the blocks that have begun, typically below 0.5 s)...
BLOCK_WORK = 1 << 21
#: ...or fewer, so that a small batch still feeds several threads evenly...
BLOCKS_PER_BATCH = 8
#: ...but for those where less would be done than it takes to hand a block over.
LEAST_WORK = 1 << 18
#: Ranges of words that are summed side by side, at most.
RANGES_PER_BATCH = 8


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive documents of a batch."""

    rows: slice  # of the batch
    words: Ints  # (n_words,) of the batch, columns of the matrix
    indptr: Ints32  # (n_docs + 1,)
    indices: Ints32  # (nnz,) positions in `words`
    counts: Array  # (nnz,)
    n_tokens: Array  # (n_docs,)

    @property
    def arrays(self) -> tuple[Ints32, Ints32, Array]:
        """Limits, words and counts of documents, as kernels read them."""
        return self.indptr, self.indices, self.counts


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents whose local step reads the same globals."""

    n_docs: int
    words: Ints  # (n_words,) increasing, columns of the matrix
    indptr: NDArray[np.int64]  # (n_docs + 1,)
    indices: Ints32  # (nnz,) positions in `words`
    counts: Array  # (nnz,)
    n_tokens: Array  # (n_docs,)
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
        # A sum of nothing is one of integers.
        sums = np.bincount(rows_of(indptr), X.data, n_docs)
        blocks, n_tokens = [], sums.astype(np.float64, copy=False)
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
        return cls(n_docs, words, indptr, local, X.data, n_tokens, blocks)

    def parts(self, size: int) -> Iterator["Batch"]:
        """Yield batches of adjacent blocks, of about `size` stored counts each."""
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
                self.n_tokens[first:last],
                blocks,
            )
            blocks, n_counts = [], 0

    def by_word(self) -> sp.csc_array:
        """Position of each stored count, word by word: (n_docs, n_words)."""
        shape = (self.n_docs, len(self.words))
        places = np.arange(len(self.indices))
        return csr(places, self.indices, self.indptr, shape).tocsc()


def _compact(numbers: NDArray, size: int) -> tuple[Ints, Ints32]:
    """Distinct numbers below `size`, increasing, and the position of each."""
    present = np.zeros(size, dtype=bool)
    present[numbers] = True
    distinct = np.flatnonzero(present)
    position = np.empty(size, dtype=np.int32)
    position[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, position[numbers]


def densest(X: sp.csr_array, words: Array, n_rows: int) -> list[tuple[Array, Ints]]:
    """Find the documents in which sets of words are densest.

    Parameters
    ----------
    X : csr_array of shape (n_docs, n_words)
    words : (n_words, n_sets)
        Weights of the words of each set.
    n_rows : int
        Documents for each set, at most.

    Returns
    -------
    found : list of (densities, rows)
        For each set: decreasing tokens per square root of the length, and the rows;
        those without a word of the set are left out.
    """
    length = np.sqrt(np.maximum(np.asarray(X.sum(axis=1)).ravel(), 1.0))
    density = (X @ words) / length[:, None]
    best = np.argsort(-density, axis=0, kind="stable")[:n_rows]
    columns = zip(density.T, best.T, strict=True)
    return [(of[rows][of[rows] > 0.0], rows[of[rows] > 0.0]) for of, rows in columns]


def joined_limits(parts: list[NDArray]) -> Ints:
    """Concatenate the limits of blocks: each begins where the last one ends."""
    if len(parts) == 1:
        return parts[0].astype(np.intp)
    before = np.cumsum([0, *(part[-1] for part in parts)])
    moved = [part[1:] + n for part, n in zip(parts, before[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.intp), *moved])


def joined(parts: Iterable[object], name: str, dtype: type = np.float64) -> NDArray:
    """Concatenate arrays of blocks, by attribute name."""
    arrays = (getattr(part, name) for part in parts)
    return np.concatenate([np.zeros(0, dtype), *arrays])


def sum_word_ranges(
    function: Callable[..., Sequence[NDArray]],
    by_word: sp.csc_array,
    *arguments: object,
    n_topics: int,
    n_ranges: int,
    run: Callable[..., Iterable],
) -> tuple[sp.csr_array, list[Any]]:
    """Sum over the counts of each word, range by range of about equal counts.

    `function` gets a range, the limits of the counts of words, `arguments` and
    `n_topics`; it returns numbers of topics, topics and sums of words, and possibly
    more. Only where the sum of a word does not depend on its range may the number of
    threads decide how many ranges there are. Returns the sums, (n_words, n_topics), and
    the result of each range.
    """
    limits, n_words = by_word.indptr.astype(np.int32), by_word.shape[1]
    edges = np.array([0, n_words])
    if n_ranges > 1 or n_words == 0:
        edges = np.linspace(0, limits[-1], min(n_ranges, RANGES_PER_BATCH) + 1)
        # The last words may have no counts.
        edges = np.unique([*np.searchsorted(limits, edges), n_words])
    given = limits, *arguments, n_topics
    parts = list(run(lambda ends: function(*ends, *given), pairwise(edges.tolist())))
    n_used = np.concatenate([np.zeros(1, np.int32), *(part[0] for part in parts)])
    if len(parts) == 1:
        _, topics, sums = parts[0][:3]
    else:
        topics = np.concatenate([np.zeros(0, np.int32), *(part[1] for part in parts)])
        sums = np.concatenate([np.zeros(0), *(part[2] for part in parts)])
    ends = n_used.cumsum(dtype=np.int32)
    return csr(sums, topics, ends, (n_words, n_topics)), parts


# Documents as lists of tokens, for samplers.


#: Largest count of tokens, documents or tables: what 32 bits hold.
MOST_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Tokens:
    """A corpus token by token: the word of each, and the limits of documents."""

    words: Ints32  # (n_tokens,) by document, equal words side by side
    begin: NDArray[np.int64]  # (n_docs + 1,) limits of the documents
    n_words: int

    @classmethod
    def from_counts(cls, counts: sp.csr_array) -> "Tokens":
        """Return the tokens of whole counts in canonical order."""
        times = counts.data.astype(np.int64)
        ends = np.concatenate([[0], np.cumsum(times)])
        words = np.repeat(counts.indices.astype(np.int32), times)
        return cls(words, ends[counts.indptr], counts.shape[1])

    def take(self, docs: Ints) -> "Tokens":
        """Return the tokens of some documents, in increasing order."""
        lengths = np.diff(self.begin)
        is_taken = np.zeros(len(lengths), dtype=bool)
        is_taken[docs] = True
        begin = np.concatenate([[0], np.cumsum(lengths[docs])]).astype(np.int64)
        return Tokens(self.words[is_taken[self.doc]], begin, self.n_words)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def doc(self) -> Ints:
        """Document of each token."""
        return rows_of(self.begin)

    def runs(self) -> tuple[Ints, Ints]:
        """Begins of the runs of equal words in each document, and their lengths."""
        is_first = np.diff(self.words, prepend=-1) != 0
        is_first[self.begin[:-1][np.diff(self.begin) > 0]] = True
        starts = np.flatnonzero(is_first)
        return starts, np.diff(starts, append=len(self))

    def check_after(self, n_before: int) -> None:
        """Raise ValueError if counts overflow when added to `n_before`.

        No document, and no table, is without a token: counts of tokens are largest.
        """
        total = int(n_before) + len(self)
        if total > MOST_COUNT:
            raise ValueError(
                f"X has {len(self)} tokens, earlier calls had {n_before}: a sampler "
                f"counts up to {MOST_COUNT}. Fit a new one."
            )
