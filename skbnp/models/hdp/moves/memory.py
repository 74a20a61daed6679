"""What moves remember between minibatches."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["CREDIT", "Evidence", "MoveRecords", "Pair"]

Pair = tuple[int, int]

#: Visits of a whole minibatch that splits may spend at once; an accepted one pays for
#: all. So the cost of splits that nobody needs is small.
CREDIT = 4.0


@dataclass(slots=True)
class Evidence:
    """What some documents say about a merge."""

    n_docs: int = 0
    gain: float = 0.0
    square: float = 0.0
    check_at: int = 1  # documents at which to look next

    def add(self, n_docs: int, sums: NDArray[np.float64]) -> None:
        """Add the sums over further documents."""
        self.n_docs += n_docs
        self.gain += sums[1]
        self.square += sums[2]

    @property
    def is_due(self) -> bool:
        """Whether it has doubled since the last look."""
        return self.n_docs >= self.check_at

    def of_corpus(self, n_docs: float) -> tuple[float, float]:
        """Gain of a corpus of such documents, and its standard error."""
        mean = self.gain / self.n_docs
        variance = max(self.square / self.n_docs - mean**2, 0.0)
        return n_docs * mean, n_docs * np.sqrt(variance / self.n_docs)


@dataclass(slots=True)
class MoveRecords:
    """What moves remember between minibatches; all by ids."""

    # Minibatches, and documents in them, since a topic was last in use.
    idle: dict[int, tuple[int, int]] = field(default_factory=dict)
    pairs: dict[Pair, Evidence] = field(default_factory=dict)
    pairs_on_hold: dict[Pair, int] = field(
        default_factory=dict
    )  # not compared before a step
    waits: dict[int, tuple[int, int]] = field(default_factory=dict)  # (until, length)
    credit: float = CREDIT  # for splits

    def forget(self, gone: set[int]) -> None:
        """Drop what is remembered about ids that have changed or ended."""
        self.pairs = {p: e for p, e in self.pairs.items() if gone.isdisjoint(p)}
        self.pairs_on_hold = {
            p: u for p, u in self.pairs_on_hold.items() if gone.isdisjoint(p)
        }
        self.waits = {n: w for n, w in self.waits.items() if n not in gone}
        self.idle = {n: t for n, t in self.idle.items() if n not in gone}

    def renamed(self, names: NDArray[np.intp]) -> "MoveRecords":
        """Return the same of ids that have other names."""

        def pair(ids: Pair) -> Pair:
            return int(names[ids[0]]), int(names[ids[1]])

        return MoveRecords(
            idle={int(names[n]): t for n, t in self.idle.items()},
            pairs={pair(p): e for p, e in self.pairs.items()},
            pairs_on_hold={pair(p): u for p, u in self.pairs_on_hold.items()},
            waits={int(names[n]): w for n, w in self.waits.items()},
            credit=self.credit,
        )
