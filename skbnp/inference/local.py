"""Local step of documents: its stopping rule, its result, and the step of a kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.statistics import StatsT
from skbnp.components.word_topics import Weighting
from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Posterior
from skbnp.rows.batch import Batch

__all__ = ["BlockHook", "Collected", "DocumentLocalStep", "LocalStop", "Step"]

#: Reads a block while its responsibilities are in memory, on the thread of the block.
BlockHook = Callable[..., object]


@dataclass(frozen=True, slots=True)
class LocalStop:
    """Stopping rule of the iterations of a document."""

    max_iter: int
    tol: float


@dataclass(slots=True)
class Collected(Generic[StatsT]):
    """Result of a local step: statistics of the documents of a batch."""

    stats: StatsT  # with WordRows
    n_tokens: NDArray[np.float64]  # (n_docs,)
    seen: list  # by the look, block by block; None if there was none
    doc_topic: sp.csr_array | None = None  # (n_docs, K) N of a direct assignment
    cache: object = None  # what the documents may start from the next time


class Step(Protocol):
    """Protocol: what the local step of documents reads, and its stopping rule."""

    prepare: Callable[..., "Step"]  # for a batch, under the globals of a posterior

    def collect(
        self,
        posterior: Posterior,
        batch: Batch,
        executor: Executor,
        block_hook: BlockHook | None,
    ) -> Collected:
        """Run the local step of a batch."""


@dataclass(frozen=True, slots=True)
class DocumentLocalStep:
    """Local step of documents with its kernel, stopping rule and executor."""

    stop: LocalStop
    executor: Executor
    step: type[Step]

    def update_local(
        self,
        posterior: Posterior,
        X: sp.csr_array,
        *,
        weighting: Weighting = Weighting.EXPECTED_LOG,
        remembered: object = None,
        block_hook: BlockHook | None = None,
    ) -> Collected:
        """Run the local step under the present globals of a posterior."""
        batch = Batch.from_counts(X, posterior.state.n_components)
        step = self.step.prepare(
            posterior,
            batch,
            self.stop,
            self.executor,
            weighting=weighting,
            remembered=remembered,
        )
        result = step.collect(posterior, batch, self.executor, block_hook)
        if weighting is Weighting.MEAN:
            result.cache = None  # a later start would have to climb the bound
        return result
