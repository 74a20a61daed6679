"""What the loop of learning asks of documents, models, memories and moves."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.statistics import StateT, StatsT, Weighting
from skbnp.inference.local import Look
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior
from skbnp.inference.schedules import Part, Round

__all__ = [
    "NO_MOVES",
    "Corpus",
    "CountingMoves",
    "Found",
    "Memory",
    "Model",
    "Moves",
    "Visitor",
]

LearnerT = TypeVar("LearnerT")


class Model(Protocol[StateT, StatsT]):
    """A variational model: hyperparameters in force, and how its globals follow.

    A state holds the small globals; totals are the additive statistics of what the
    globals know, components' counts included. Totals may change in place.
    """

    criterion: str  # what a fit is followed by
    has_bound: bool  # whether that is a bound of the evidence
    parts_name: str  # what messages call components
    unit: str  # of the data, for which the criterion is told

    def absorb(
        self, state: StateT, totals: StatsT, stats: StatsT, step: float, scale: float
    ) -> tuple[StateT, StatsT]:
        """Move globals by a step towards their optimum for scaled statistics."""

    def exchange(
        self, state: StateT, totals: StatsT, old: StatsT, new: StatsT
    ) -> tuple[StateT, StatsT]:
        """Put new statistics in the place of old ones, and let globals follow."""

    def learn_priors(self, state: StateT, totals: StatsT) -> tuple[Self, StateT]:
        """Learn the hyperparameters that are learned once in a pass."""

    def objective(self, state: StateT, totals: StatsT) -> dict[str, float]:
        """Named terms of the criterion, in nats."""


class Found(Protocol):
    """What the documents of a part say under one set of globals."""

    stats: Any  # additive
    seen: list[Any]  # by a look at blocks; None if there was none
    memory: object  # what the documents may start from the next time


class Visitor(Protocol):
    """Visits documents: how, when their iteration ends, on which threads."""

    def visit(
        self,
        posterior: Posterior,
        X: sp.csr_array,
        *,
        weighting: Weighting,
        remembered: Any,
        look: Look | None,
    ) -> Any:
        """Return what documents say under the globals of a posterior, see `Found`.

        `weighting` says by what components weigh words; `remembered` is what the memory
        recalls, and `look` sees blocks while responsibilities are at hand.
        """


class Corpus:
    """Documents by part: rows of a matrix of canonical counts, none of them empty."""

    def __init__(self, X: sp.csr_array):
        self.X = X

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        """Size of the vocabulary."""
        return self.X.shape[1]

    @property
    def n_tokens(self) -> float:
        """Counts of all documents together."""
        return self.X.sum()

    def word_counts(self) -> NDArray[np.float64]:
        """Return the counts of all documents by word, (n_words,)."""
        return np.asarray(self.X.sum(axis=0)).ravel()

    def fetch(self, numbers: NDArray[np.intp]) -> sp.csr_array:
        """Return some documents, by their numbers from 0."""
        return self.X[numbers]

    def documents(self, part: Part) -> sp.csr_array:
        """Rows of a part; dense ones that stand together, and all, are not copied."""
        rows = part.rows
        if len(rows) == 0 or not (np.diff(rows) == 1).all():
            return self.X[rows]
        if len(rows) == self.n_docs:
            return self.X
        return self.X[rows[0] : rows[-1] + 1]

    def visit(
        self,
        visitor: Visitor,
        posterior: Posterior,
        round: Round,
        *,
        weighting: Weighting,
        remembered: Sequence[object],
        look: Look | None,
    ) -> list[Any]:
        """Let a visitor visit the parts of a round, in their order.

        The learner asks for nothing else of documents, wherever they are.
        """
        return [
            visitor.visit(
                posterior,
                self.documents(part),
                weighting=weighting,
                remembered=memory,
                look=look,
            )
            for part, memory in zip(round.parts, remembered, strict=True)
        ]


class Memory(ABC):
    """What parts are remembered by, and how totals take in what they say."""

    holds_corpus: ClassVar[bool] = True  # complete totals count each document once

    @property
    def is_complete(self) -> bool:
        """Whether no part is missing."""
        return True

    @abstractmethod
    def recall(self, part: Part) -> object:
        """Return what a visit of a part starts from."""

    def prepare(self, posterior: Posterior, round: Round, found: Sequence[Any]) -> Any:
        """Return what `absorb` needs of a round, by default all; writes nothing."""
        return found

    @abstractmethod
    def absorb(self, posterior: Posterior, round: Round, change: Any) -> None:
        """Change totals and globals after a round."""

    @abstractmethod
    def end_pass(self, posterior: Posterior) -> None:
        """Make totals exact where they can be, and learn priors."""


class Moves(Generic[LearnerT]):
    """What changes the components between visits; as it stands, nothing."""

    def begin_pass(self, learner: LearnerT) -> None:
        """Change components before a pass."""

    def look(self, posterior: Any) -> Look | None:
        """Return what to look at while blocks are visited, if anything."""
        return None

    def end_round(self, learner: LearnerT, round: Round, found: Sequence[Any]) -> None:
        """Change components after a round."""

    def end_pass(self, learner: LearnerT, monitor: Monitor) -> bool:
        """Change components after a pass; whether the bound can settle."""
        return True


NO_MOVES: Moves = Moves()


class CountingMoves(Moves[LearnerT]):
    """Moves that know for how many documents those of a pass stand in the totals."""

    _held = 0.0

    def begin_pass(self, learner: LearnerT) -> None:
        """Count documents afresh."""
        self._held = 0.0

    def end_round(self, learner: LearnerT, round: Round, found: Sequence[Any]) -> None:
        """Count as the totals take documents in."""
        keep, gain = 1.0 - round.step, round.step * round.scale
        self._held = keep * self._held + gain * round.n_docs
