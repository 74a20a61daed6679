"""Sums over the documents of blocks: limits put together, words summed in ranges."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.utils.sparse import csr

__all__ = ["densest", "joined", "joined_limits", "rows_of", "stacked", "sum_ranges"]

T = TypeVar("T")

#: Ranges of words that are summed side by side, at most.
RANGES_PER_BATCH = 8


def rows_of(limits: NDArray) -> NDArray[np.intp]:
    """Row of each entry, given the limits of rows."""
    return np.arange(len(limits) - 1).repeat(limits[1:] - limits[:-1])


def densest(
    X: sp.csr_array, words: NDArray[np.float64], n_rows: int
) -> list[tuple[NDArray[np.float64], NDArray[np.intp]]]:
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


def joined_limits(parts: list[NDArray]) -> NDArray[np.intp]:
    """Limits of what blocks hold, put together: each begins where the last one ends."""
    if len(parts) == 1:
        return parts[0].astype(np.intp)
    before = np.cumsum([0, *(part[-1] for part in parts)])
    moved = [part[1:] + n for part, n in zip(parts, before[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.intp), *moved])


def joined(parts: Iterable[object], name: str, dtype: type = np.float64) -> NDArray:
    """Arrays of what blocks hold, by name, one behind the other."""
    arrays = (getattr(part, name) for part in parts)
    return np.concatenate([np.zeros(0, dtype), *arrays])


def sum_ranges(
    function: Callable[..., T],
    columns: NDArray[np.int32],
    *arguments: object,
    n_ranges: int,
    run: Callable[..., Iterable],
) -> list[T]:
    """Call a function for ranges of words of as many counts each, side by side.

    It is given the range, `columns`, which delimits the counts of words, and all else.
    Only where the sum of a word does not depend on its range may the number of threads
    decide how many ranges there are.
    """
    task = partial(_on_range, function, (columns, *arguments))
    if n_ranges == 1 and len(columns) > 1:
        return list(run(task, [(0, len(columns) - 1)]))
    edges = np.linspace(0, columns[-1], min(n_ranges, RANGES_PER_BATCH) + 1)
    # The last words may have no counts.
    edges = np.unique([*np.searchsorted(columns, edges), len(columns) - 1])
    return list(run(task, pairwise(edges.tolist())))


def _on_range(
    function: Callable[..., T], arguments: tuple[object, ...], words: tuple[int, int]
) -> T:
    return function(*words, *arguments)


def stacked(parts: Sequence[Sequence[NDArray]], shape: tuple[int, int]) -> sp.csr_array:
    """Put ranges of words together: numbers of topics, topics and sums of each."""
    n_used = np.concatenate([np.zeros(1, np.int32), *(part[0] for part in parts)])
    if len(parts) == 1:
        _, topics, sums = parts[0][:3]
        return csr(sums, topics, n_used.cumsum(dtype=np.int32), shape)
    topics = np.concatenate([np.zeros(0, np.int32), *(part[1] for part in parts)])
    sums = np.concatenate([np.zeros(0), *(part[2] for part in parts)])
    return csr(sums, topics, n_used.cumsum(dtype=np.int32), shape)
