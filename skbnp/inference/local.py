"""Local steps: visits of documents by block, sums of their words by range."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.executor import Executor
from skbnp.rows.batch import Batch

__all__ = [
    "Collected",
    "DocumentVisitor",
    "LocalStop",
    "Look",
    "joined_limits",
    "stacked",
    "word_ranges",
]

#: Ranges of words that are summed side by side, at the most.
RANGES_PER_BATCH = 8

#: Looks at what a block says while its responsibilities are at hand, on its thread.
Look = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class LocalStop:
    """When the iteration of a document ends."""

    max_iter: int
    tol: float


@dataclass(slots=True)
class Collected:
    """What the documents of a batch say under one set of globals."""

    stats: Any  # with WordRows
    n_tokens: NDArray[np.float64]  # (n_docs,)
    seen: list[Any]  # by the look, block by block; None if there was none
    doc_topic: Any = None  # (n_docs, K) N of a direct assignment, csr
    memory: Any = None  # what the documents may start from the next time


@dataclass(frozen=True, slots=True)
class DocumentVisitor:
    """Visits documents: when their iteration ends, on which threads, and how."""

    stop: LocalStop
    executor: Executor
    step: Any  # the kind of document step

    def visit(
        self,
        posterior: Any,
        X: sp.csr_array,
        *,
        mean: bool = False,
        remembered: Any = None,
        look: Look | None = None,
    ) -> Collected:
        """Visit documents under the present globals of a posterior."""
        batch = Batch.from_counts(X, posterior.state.n_components)
        step = self.step.prepare(
            posterior, batch, self.stop, self.executor, mean=mean, remembered=remembered
        )
        found = step.collect(posterior, batch, self.executor, look)
        if mean:  # mean weights do not climb the bound that a start would keep
            found.memory = None
        return found


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


def stacked(parts: list[Any], shape: tuple[int, int]) -> sp.csr_array:
    """Put ranges of words together: numbers of topics, topics and sums of each."""
    n_used = np.concatenate([np.zeros(1, np.int32), *(part[0] for part in parts)])
    topics = np.concatenate([np.zeros(0, np.int32), *(part[1] for part in parts)])
    sums = np.concatenate([np.zeros(0), *(part[2] for part in parts)])
    return sp.csr_array((sums, topics, np.cumsum(n_used, dtype=np.int32)), shape)
