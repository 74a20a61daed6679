"""In which order documents are visited, and how the totals absorb a visit.

A round visits rows under one set of globals and ends with

    totals = (1 - step) * totals + step * scale * statistics of the rows,

and with globals moved by the same step towards their optimum for the scaled statistics.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from skbnp.utils.random import Purpose, stream

__all__ = ["BatchSchedule", "OnlineSchedule", "Round"]


@dataclass(frozen=True, slots=True)
class Round:
    """Rows visited together, and what their statistics count for."""

    rows: NDArray[np.intp] | None  # None: all of them
    step: float  # rho
    scale: float  # documents of the corpus over documents of the round
    ends_pass: bool


@dataclass(frozen=True, slots=True)
class BatchSchedule:
    """All documents, then one update (Eq. (5) of Bryant and Sudderth 2012)."""

    #: Documents keep their expected counts from visit to visit, and start from them.
    remembers = True

    def one_pass(self, number: int) -> Iterator[Round]:
        """Yield the rounds of one pass over the data."""
        yield Round(rows=None, step=1.0, scale=1.0, ends_pass=True)


@dataclass(frozen=True, slots=True)
class OnlineSchedule:
    """Minibatches and step sizes rho_t = (offset + t)^-decay (Eqs. (6), (7), ibid.).

    Parameters
    ----------
    n_rows, batch_size : int
        Documents at hand; documents of a minibatch at the most.
    offset, decay : float
        tau and kappa.
    entropy : int or None
        Names the random order of documents, new in every pass; None keeps their order.
    first_step : int
        Updates made so far; the next one has t = first_step + 1.
    """

    n_rows: int
    batch_size: int
    offset: float
    decay: float
    entropy: int | None
    first_step: int = 0
    total_samples: float | None = None
    n_seen: int = 0

    remembers = False

    def one_pass(self, number: int) -> Iterator[Round]:
        """Yield the rounds of one pass over the data."""
        order = np.arange(self.n_rows)
        if self.entropy is not None:
            order = stream(self.entropy, Purpose.ORDER, number).permutation(order)
        n_batches = -(-self.n_rows // self.batch_size)
        # Of equal size, give or take a document: a last minibatch of a few would stand
        # for as much of the corpus as the others do.
        edges = np.arange(n_batches + 1) * self.n_rows // max(n_batches, 1)
        for position, (begin, end) in enumerate(pairwise(edges)):
            t = self.first_step + number * n_batches + position + 1
            total = self.total_samples or self.n_seen + end
            yield Round(
                rows=order[begin:end],
                step=(self.offset + t) ** -self.decay,
                scale=total / (end - begin),
                ends_pass=end == self.n_rows,
            )
