"""Protocols of variational learning: corpus, local step, cache, moves; predictors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp

from skbnp.components.statistics import Stats, StatsT
from skbnp.components.word_topics import Weighting
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior
from skbnp.inference.schedules import Part, Round
from skbnp.rows.batch import Batch, densest
from skbnp.utils.arrays import take_rows
from skbnp.utils.typing import Array, Ints

LearnerT = TypeVar("LearnerT")
#: Statistics of the parts of a round, a `LocalResult` of the model.
LocalResults = Sequence[Any]
#: Reads a block while its responsibilities are in memory, on the thread of the block.
BlockHook = Callable[..., object]


class Summed(Protocol):
    """Protocol: statistics that totals add."""

    @property
    def stats(self) -> Stats:
        """Sums over the documents."""


class LocalResult(Summed, Protocol):
    """Protocol: statistics of the documents of a part, given the globals."""

    @property
    def cache(self) -> object:
        """Start of the next local step of the documents."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What a local step may read beside documents and globals; a model reads its own.

    `weighting` is how components weigh words, `remembered` what the cache has of the
    documents, and `block_hook` reads blocks while responsibilities are in memory.
    """

    weighting: Weighting = Weighting.EXPECTED_LOG
    remembered: Any = None
    block_hook: BlockHook | None = None


#: Of documents that nothing is known of.
FIRST_VISIT = Visit()


class LocalStep(Protocol):
    """Protocol: local step of documents, with kernel, stopping rule and threads."""

    def update_local(
        self, posterior: Posterior, X: sp.csr_array, visit: Visit
    ) -> LocalResult:
        """Run the local step of documents under a posterior."""


@dataclass(frozen=True, slots=True)
class LocalStop:
    """Stopping rule of the iterations of a document."""

    max_iter: int
    tol: float


@dataclass(slots=True)
class Collected(Generic[StatsT]):
    """Result of a local step: statistics of the documents of a batch."""

    stats: StatsT  # with WordRows
    n_tokens: Array  # (n_docs,)
    seen: list  # by the look, block by block; None if there was none
    doc_topic: sp.csr_array | None = None  # (n_docs, K) N of a direct assignment
    cache: object = None  # what the documents may start from the next time


@dataclass(frozen=True, slots=True)
class StepInput:
    """A batch for the local step, with the globals, the stopping rule and threads."""

    posterior: Posterior
    batch: Batch
    stop: LocalStop
    executor: Executor
    visit: Visit = FIRST_VISIT

    @property
    def to_start_from(self) -> Any:
        """What documents start from; nothing where topics weigh words by their means.

        Mean weights do not climb the bound that such a start would keep.
        """
        is_mean = self.visit.weighting is Weighting.MEAN
        return None if is_mean else self.visit.remembered


class Step(Protocol):
    """Protocol: what the local step of documents reads, and its stopping rule."""

    prepare: Callable[[StepInput], "Step"]

    def collect(self, given: StepInput) -> Collected:
        """Run the local step of a batch."""


@dataclass(frozen=True, slots=True)
class DocumentLocalStep:
    """Local step of documents with its kernel, stopping rule and executor."""

    stop: LocalStop
    executor: Executor
    step: type[Step]

    def update_local(
        self, posterior: Posterior, X: sp.csr_array, visit: Visit = FIRST_VISIT
    ) -> Collected:
        """Run the local step under the present globals of a posterior."""
        batch, stop = Batch.from_counts(X, posterior.state.n_components), self.stop
        given = StepInput(posterior, batch, stop, self.executor, visit)
        result = self.step.prepare(given).collect(given)
        if visit.weighting is Weighting.MEAN:
            result.cache = None  # a later start would have to climb the bound
        return result


@dataclass(eq=False, repr=False)
class Corpus:
    """Documents by part: rows of a matrix of canonical counts, none of them empty."""

    X: sp.csr_array

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
        """Sum of all counts."""
        return self.X.sum()

    def word_counts(self) -> Array:
        """Return the counts of all documents by word, (n_words,)."""
        return np.asarray(self.X.sum(axis=0)).ravel()

    def fetch(self, numbers: Ints) -> sp.csr_array:
        """Return some documents, by their numbers from 0."""
        return self.X[numbers]

    def densest(self, words: Array, n_docs: int) -> list[Ints]:
        """Numbers of the documents in which sets of words are densest, for each set.

        `words` are weights, (n_words, n_sets); the densest first, at most `n_docs`
        documents.
        """
        return [rows for _, rows in densest(self.X, words, n_docs)]

    def documents(self, part: Part) -> sp.csr_array:
        """Rows of a part; adjacent rows, or all, share the memory of the corpus."""
        rows = part.rows
        if len(rows) == 0 or not (np.diff(rows) == 1).all():
            return take_rows(self.X, rows)
        if len(rows) == self.n_docs:
            return self.X
        return take_rows(self.X, slice(rows[0], rows[-1] + 1))

    def update_local(
        self,
        local_step: LocalStep,
        posterior: Posterior,
        round: Round,
        visits: Sequence[Visit],
    ) -> LocalResults:
        """Run the local step on the parts of a round, in their order.

        The learner reads documents by this method alone, wherever they are.
        """
        return [
            local_step.update_local(posterior, self.documents(part), visit)
            for part, visit in zip(round.parts, visits, strict=True)
        ]


class StatisticsCache(ABC):
    """Statistics of parts, and the rule by which those of a round enter the totals."""

    holds_corpus: ClassVar[bool] = True  # complete totals count each document once

    @property
    def is_complete(self) -> bool:
        """Whether the statistics of every part are cached."""
        return True

    def initial_local(self, part: Part) -> object:
        """Return what the local step of a part starts from, by default nothing."""
        return None

    def prepare(self, posterior: Posterior, round: Round, results: LocalResults) -> Any:
        """Return what `stochastic_update` needs of a round, by default all results."""
        return results

    @abstractmethod
    def stochastic_update(
        self, posterior: Posterior, round: Round, change: Any
    ) -> None:
        """Change totals and globals after a round, in place."""

    @abstractmethod
    def end_pass(self, posterior: Posterior) -> None:
        """Recompute exact totals if possible, and learn priors, in place."""


class Moves(Generic[LearnerT]):
    """Changes of the components between local steps; none by default."""

    #: Whether what a known topic was joins the topic that has its words.
    joins_known: ClassVar[bool] = False

    def begin_pass(self, learner: LearnerT) -> None:
        """Change components before a pass."""

    def block_hook(self, learner: LearnerT) -> BlockHook | None:
        """Return a hook that reads blocks during the local step, if any."""
        return None

    def end_local_step(
        self, learner: LearnerT, round: Round, results: LocalResults
    ) -> LocalResults:
        """Change components, and their statistics, before the update."""
        return results

    def end_round(self, learner: LearnerT, round: Round, results: LocalResults) -> None:
        """Change components after a round."""

    def end_pass(self, learner: LearnerT, monitor: Monitor) -> bool:
        """Change components after a pass; return whether to test convergence."""
        return True


NO_MOVES: Moves = Moves()


class CountingMoves(Moves[LearnerT]):
    """Moves that count the documents for which a pass stands in the totals."""

    _n_counted: float

    def begin_pass(self, learner: LearnerT) -> None:
        """Reset the count of documents."""
        self._n_counted = 0.0

    def end_round(self, learner: LearnerT, round: Round, results: LocalResults) -> None:
        """Update the count by the step and scale of a round."""
        keep, gain = 1.0 - round.step, round.step * round.scale
        self._n_counted = keep * self._n_counted + gain * round.n_docs


class Predictor(Protocol):
    """Protocol: predict tokens of documents from others, with fixed globals.

    A predictor contains what prediction reads of a fitted model, perhaps several
    samples of a posterior. Estimators make one; `transform`, `score` and metrics call
    it.
    """

    @property
    def repeats(self) -> bool:
        """Whether a document predicts its own words; paths of trees never do."""

    @property
    def learns(self) -> bool:
        """Whether how much is learned from documents where the model has not."""

    def log_likelihood(
        self, X_observed: sp.csr_array, X_held: sp.csr_array, executor: Executor
    ) -> float:
        """Log probability in nats of all held-out tokens, given the observed ones."""
