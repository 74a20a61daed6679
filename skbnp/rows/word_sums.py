"""Sums over the documents of blocks: limits put together, words summed in ranges."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["joined_limits", "stacked", "word_ranges"]

#: Ranges of words that are summed side by side, at the most.
RANGES_PER_BATCH = 8


def joined_limits(parts: list[NDArray]) -> NDArray[np.intp]:
    """Limits of what blocks hold, put together: each begins where the last one ends."""
    before = np.cumsum([0, *(part[-1] for part in parts)])
    moved = [part[1:] + n for part, n in zip(parts, before[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.intp), *moved])


def word_ranges(columns: NDArray[np.int32], n_blocks: int) -> list[tuple[int, int]]:
    """Cut all words into ranges of as many counts; `columns` delimits the words'."""
    edges = np.linspace(0, columns[-1], min(n_blocks, RANGES_PER_BATCH) + 1)
    # The last words may have no counts.
    edges = np.unique([*np.searchsorted(columns, edges), len(columns) - 1])
    return list(pairwise(edges.tolist()))


def stacked(parts: Sequence[Sequence[NDArray]], shape: tuple[int, int]) -> sp.csr_array:
    """Put ranges of words together: numbers of topics, topics and sums of each."""
    n_used = np.concatenate([np.zeros(1, np.int32), *(part[0] for part in parts)])
    topics = np.concatenate([np.zeros(0, np.int32), *(part[1] for part in parts)])
    sums = np.concatenate([np.zeros(0), *(part[2] for part in parts)])
    return sp.csr_array((sums, topics, np.cumsum(n_used, dtype=np.int32)), shape)
