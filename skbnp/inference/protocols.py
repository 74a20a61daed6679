"""What the loop of learning asks of documents, models, memories and moves."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.statistics import Stats, Weighting
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
    "Moves",
    "Summed",
    "Visitor",
]

LearnerT = TypeVar("LearnerT")
#: What the parts of a round say, see `Found`, as it is of a model.
AllFound = Sequence[Any]


class Summed(Protocol):
    """What documents say, as far as totals take it in."""

    @property
    def stats(self) -> Stats:
        """Sums over the documents."""


class Found(Summed, Protocol):
    """What the documents of a part say under one set of globals."""

    @property
    def memory(self) -> object:
        """What the documents may start from the next time."""


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
    ) -> Found:
        """Return what documents say under the globals of a posterior, see `Found`.

        `weighting` says by what components weigh words; `remembered` is what the memory
        recalls, and `look` sees blocks while responsibilities are at hand.
        """


class Corpus:
    """Documents by part: rows of a matrix of canonical counts, none of them empty."""

    X: sp.csr_array

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
    ) -> AllFound:
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

    def prepare(self, posterior: Posterior, round: Round, found: AllFound) -> Any:
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

    def look(self, learner: LearnerT) -> Look | None:
        """Return what to look at while blocks are visited, if anything."""
        return None

    def end_visit(self, learner: LearnerT, round: Round, found: AllFound) -> AllFound:
        """Change components before the update, and what is found of them."""
        return found

    def end_round(self, learner: LearnerT, round: Round, found: AllFound) -> None:
        """Change components after a round."""

    def end_pass(self, learner: LearnerT, monitor: Monitor) -> bool:
        """Change components after a pass; whether the bound can settle."""
        return True


NO_MOVES: Moves = Moves()


class CountingMoves(Moves[LearnerT]):
    """Moves that know for how many documents those of a pass stand in the totals."""

    _held: float

    def begin_pass(self, learner: LearnerT) -> None:
        """Count documents afresh."""
        self._held = 0.0

    def end_round(self, learner: LearnerT, round: Round, found: AllFound) -> None:
        """Count as the totals take documents in."""
        keep, gain = 1.0 - round.step, round.step * round.scale
        self._held = keep * self._held + gain * round.n_docs
