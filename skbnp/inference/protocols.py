"""Protocols of variational learning: corpus, local step, cache, moves; predictors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp

from skbnp.components.statistics import Stats, StatsT
from skbnp.components.word_topics import Weighting
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior
from skbnp.rows.batch import Batch, densest
from skbnp.utils.arrays import take_rows
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Array, Ints

# Schedules of a pass: order of the documents, step size and scale of each round.
#
# A round updates parts of a corpus with the globals fixed and ends with
#
#     totals = (1 - step) * totals + step * scale * statistics of the parts,
#
# and with globals moved by the same step towards their optimum for the scaled
# statistics; where parts are remembered, with new statistics in the place of their old
# ones.


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


LearnerT = TypeVar("LearnerT")
#: Statistics of the parts of a round, a `LocalResult` of the model.
LocalResults = Sequence[Any]
#: Reads a block while its responsibilities are in memory, on the thread of the block.
BlockHook = Callable[..., object]


class LocalResult(Protocol):
    """Protocol: statistics of the documents of a part, given the globals."""

    @property
    def stats(self) -> Stats:
        """Sums over the documents."""

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


class LocalStop(NamedTuple):
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

    X: Any  # csr_array of counts, or an array of rows

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
