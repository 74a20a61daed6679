"""In which order documents are visited, and how the totals absorb a visit.

A round visits rows under one set of globals and ends with

    totals = (1 - step) * totals + step * scale * statistics of the rows,

and with globals moved by the same step towards their optimum for the scaled statistics.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skbnp.utils.random import Purpose, stream

__all__ = ["BatchSchedule", "OnlineSchedule", "Round", "Schedule"]


@dataclass(frozen=True, slots=True)
class Round:
    """Rows visited together, and what their statistics count for."""

    rows: NDArray[np.intp]
    step: float  # rho
    scale: float  # documents of the corpus over documents of the round
    ends_pass: bool


class Schedule(Protocol):
    """Yields the rounds of a pass over the data; none if there are no rows."""

    def one_pass(self, number: int) -> Iterator[Round]:
        """Yield the rounds of one pass over the data."""

    def n_updates(self, n_passes: int) -> int:
        """Updates by which steps have decreased after so many passes."""

    def afresh(self) -> "Schedule":
        """Return the same for a posterior that has made no updates."""


@dataclass(frozen=True, slots=True)
class BatchSchedule:
    """All documents, then one update (Eq. (5) of Bryant and Sudderth 2012)."""

    n_rows: int

    def one_pass(self, number: int) -> Iterator[Round]:
        """Yield the rounds of one pass over the data."""
        if self.n_rows:
            rows = np.arange(self.n_rows)
            yield Round(rows, step=1.0, scale=1.0, ends_pass=True)

    def n_updates(self, n_passes: int) -> int:
        """Updates that passes stand for: each for one."""
        return n_passes

    def afresh(self) -> "BatchSchedule":
        """Return the same for a posterior that has made no updates."""
        return self


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
        Names the random order of documents; None keeps the order of the rows.
    first_step : int
        Updates made so far; the next one has t = first_step + 1.
    total_samples : float or None
        Documents of the corpus; None means those seen by then, or more:
    least_samples : float
        Documents that a corpus of unknown size stands for, at the least.
    n_seen : int
        Documents seen before.
    reshuffle : bool
        Whether the random order is new in every pass.
    """

    n_rows: int
    batch_size: int
    offset: float
    decay: float
    entropy: int | None
    first_step: int = 0
    total_samples: float | None = None
    least_samples: float = 0.0
    n_seen: int = 0
    reshuffle: bool = True

    @property
    def n_batches(self) -> int:
        """Minibatches of a pass."""
        return -(-self.n_rows // self.batch_size)

    def one_pass(self, number: int) -> Iterator[Round]:
        """Yield the rounds of one pass over the data."""
        order = np.arange(self.n_rows)
        if self.entropy is not None:
            place = number if self.reshuffle else 0
            order = stream(self.entropy, Purpose.ORDER, place).permutation(order)
        n_batches = self.n_batches
        # Of equal size, give or take a document: a last minibatch of a few would stand
        # for as much of the corpus as the others do.
        edges = np.arange(n_batches + 1) * self.n_rows // max(n_batches, 1)
        for position, (begin, end) in enumerate(pairwise(edges)):
            t = self.first_step + number * n_batches + position + 1
            seen = max(float(self.n_seen + end), self.least_samples)
            total = self.total_samples or seen
            yield Round(
                rows=order[begin:end],
                step=(self.offset + t) ** -self.decay,
                scale=total / (end - begin),
                ends_pass=end == self.n_rows,
            )

    def n_updates(self, n_passes: int) -> int:
        """Updates by which steps have decreased after so many passes."""
        return self.first_step + n_passes * self.n_batches

    def afresh(self) -> "OnlineSchedule":
        """Return the same for a posterior that has made no updates."""
        return replace(self, first_step=0)
