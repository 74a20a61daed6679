"""Schedules of a pass: order of the documents, step size and scale of each round.

A round updates parts of a corpus with the globals fixed and ends with

    totals = (1 - step) * totals + step * scale * statistics of the parts,

and with globals moved by the same step towards their optimum for the scaled statistics;
where parts are remembered, with new statistics in the place of their old ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Ints


@dataclass(frozen=True, slots=True)
class Part:
    """Documents of one local step, whose statistics are cached together."""

    number: int  # in a pass
    # None: parts are distinguished by number.
    rows: Ints = field(default_factory=lambda: np.empty(0, np.intp), compare=False)

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Round:
    """Parts updated with the same globals, and the weight of their statistics."""

    parts: tuple[Part, ...]
    step: float  # rho
    scale: float  # documents of the corpus over documents of the round

    @property
    def n_docs(self) -> int:
        """Number of documents of all parts."""
        return sum(part.n_docs for part in self.parts)

    @property
    def rows(self) -> Ints:
        """Rows of all parts."""
        return np.concatenate([part.rows for part in self.parts])


class Schedule(ABC):
    """Base of schedules, which yield the rounds of a pass; none if there are no rows.

    As it stands, a pass is as good as one update, and no step depends on those before.
    """

    __slots__ = ()

    @abstractmethod
    def one_pass(self, number: int) -> Iterator[Round]:
        """Yield the rounds of one pass over the data."""

    def n_updates(self, n_passes: int) -> int:
        """Number of updates in `n_passes` passes, with which step sizes decrease."""
        return n_passes

    def reset(self) -> "Schedule":
        """Return the schedule of a posterior without updates."""
        return self


@dataclass(frozen=True, slots=True)
class BatchSchedule(Schedule):
    """All parts, then one update (Eq. (5) of Bryant and Sudderth 2012).

    Parameters
    ----------
    parts : tuple of Part
    scale : float
        Documents behind each.
    n_joint : float
        First passes after which the globals are updated once; in later ones they are
        after each `n_together` parts.
    n_together : int
    """

    parts: tuple[Part, ...]
    scale: float = 1.0
    n_joint: float = np.inf
    n_together: int = 1

    @classmethod
    def of_rows(
        cls, n_rows: int, n_parts: int = 1, scale: float = 1.0, n_joint: float = np.inf
    ) -> "BatchSchedule":
        """Return the schedule of parts of consecutive rows, of about equal number."""
        limits = pairwise(even_limits(n_rows, n_parts if n_rows else 0))
        parts = (Part(at, np.arange(*ends)) for at, ends in enumerate(limits))
        return cls(tuple(parts), scale, n_joint)

    @property
    def n_rounds(self) -> int:
        """Number of updates of a pass, except the first ones."""
        return -(-len(self.parts) // self.n_together)

    def one_pass(self, number: int) -> Iterator[Round]:
        """Yield the rounds of one pass over the data."""
        n_parts = len(self.parts)
        size = self.n_together if number >= self.n_joint else max(n_parts, 1)
        for begin in range(0, n_parts, size):
            yield Round(self.parts[begin : begin + size], 1.0, self.scale)


@dataclass(frozen=True, slots=True)
class OnlineSchedule(Schedule):
    """Minibatches and step sizes rho_t = (offset + t)^-decay (Eqs. (6), (7), ibid.).

    Parameters
    ----------
    n_rows, batch_size : int
        Number of documents, and at most how many are in a minibatch.
    offset, decay : float
        tau and kappa.
    seed_entropy : int or None
        Names the random order of documents; None keeps the order of the rows.
    first_step : float
        Updates made so far; the next one has t = first_step + 1.
    total_samples : float or None
        Documents of the corpus; None means those seen by then, or more:
    least_samples : float
        Documents that a corpus of unknown size stands for, at least.
    n_seen : int
        Documents seen before.
    reshuffle : bool
        Whether the random order is new in every pass.
    n_forgetting : float
        Passes after which nothing is forgotten any more: steps are then those of a mean
        over all minibatches from there on, with as many before as the step implies.
    full_size : int
        Documents of a minibatch whose step is rho_t; smaller ones have their share of
        it.
    """

    n_rows: int
    batch_size: int
    offset: float
    decay: float
    seed_entropy: int | None
    first_step: float = 0
    total_samples: float | None = None
    least_samples: float = 0.0
    n_seen: int = 0
    reshuffle: bool = True
    n_forgetting: float = np.inf
    full_size: int = 1

    @property
    def n_batches(self) -> int:
        """Number of minibatches of a pass."""
        return -(-self.n_rows // self.batch_size)

    def one_pass(self, number: int) -> Iterator[Round]:
        """Yield the rounds of one pass over the data."""
        order = np.arange(self.n_rows)
        if self.seed_entropy is not None:
            place = number if self.reshuffle else 0
            order = stream(self.seed_entropy, Purpose.ORDER, place).permutation(order)
        n_batches = self.n_batches
        for position, (begin, end) in enumerate(
            pairwise(even_limits(self.n_rows, n_batches))
        ):
            t = self.first_step + number * n_batches + position + 1
            seen = max(float(self.n_seen + end), self.least_samples)
            total = self.total_samples or seen
            yield Round(
                (Part(position, order[begin:end]),),
                step=self.step_size(t) * min((end - begin) / self.full_size, 1.0),
                scale=total / (end - begin),
            )

    def step_size(self, t: float) -> float:
        """Size of the step of update t."""
        last = self.first_step + self.n_forgetting * self.n_batches
        step = (self.offset + min(t, last)) ** -self.decay
        return step / (1.0 + step * max(t - last, 0.0))

    def remembering(self, share: float) -> "OnlineSchedule":
        """Return a schedule whose steps are those after more updates.

        The last step that forgets, rho, is then at most that of a mean over this share
        of a pass, 1 / rho minibatches. The schedule itself if all steps forget.
        """
        if np.isinf(self.n_forgetting):
            return self
        least = (share * self.n_batches) ** (1.0 / self.decay) - self.offset
        n_more = int(np.ceil(least - self.n_forgetting * self.n_batches))
        return replace(self, first_step=max(n_more, self.first_step))

    def n_updates(self, n_passes: int) -> int:
        """Number of updates in `n_passes` passes, with which step sizes decrease."""
        return int(self.first_step) + n_passes * self.n_batches

    def reset(self) -> "OnlineSchedule":
        """Return the schedule of a posterior without updates."""
        return replace(self, first_step=0)


def even_limits(n_rows: int, n_parts: int) -> Ints:
    """Limits of parts of equal size, up to one row, (n_parts + 1,).

    A small last minibatch would otherwise stand for as much of the corpus as the
    others.
    """
    return np.arange(n_parts + 1) * n_rows // max(n_parts, 1)
