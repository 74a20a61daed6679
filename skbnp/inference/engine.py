"""The loop of all variational learning: local steps, updates of the globals, moves.

A round updates the local parameters of parts of a corpus with the globals fixed, then
the globals. The statistics cache decides how the statistics of documents enter the
totals, the schedule the order of parts, and the moves what changes components.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from skbnp.components.word_topics import Weighting
from skbnp.inference import protocols
from skbnp.inference.executor import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import LocalResult, Part, Round, Schedule
from skbnp.utils.typing import Array, Ints

PosteriorT = TypeVar("PosteriorT", bound=Posterior)
CorpusT = TypeVar("CorpusT", bound=protocols.Corpus)
LocalStepT = TypeVar("LocalStepT", bound=protocols.LocalStep)
StatisticsCacheT = TypeVar("StatisticsCacheT", bound=protocols.StatisticsCache)


class PassLearner(ABC, Generic[PosteriorT]):
    """Base of what makes passes: a learner, or a search over several learners."""

    posterior: PosteriorT
    #: Whether learning has ended, even if the bound still changes.
    has_ended: bool = False
    #: Whether a file can have it; else a fit begins it again from the posterior.
    is_saved: ClassVar[bool] = True

    def check(self, posterior: PosteriorT) -> None:
        """Raise ValueError unless what a file has of this learns a posterior."""
        if self.posterior is not posterior:
            raise ValueError("The saved learner is damaged: of another posterior.")

    @abstractmethod
    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; return whether to test convergence."""


class MadePass(NamedTuple):
    """Whether a pass was exact, and whether learning has ended with it."""

    is_exact: bool = False
    has_ended: bool = False


ResultT = TypeVar("ResultT")
#: What makes passes: each `yield` has the last one, and waits for the monitor of the
#: next.
Passes = Generator[MadePass, Monitor, ResultT]


class SearchLearner(PassLearner[PosteriorT]):
    """Passes that a function makes, which learn a posterior."""

    is_saved = False

    def __init__(self, posterior: PosteriorT, passes: Passes[None]):
        self.posterior, self._passes = posterior, passes
        next(passes)

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; return whether to test convergence."""
        is_exact, self.has_ended = self._passes.send(monitor)
        return is_exact


@dataclass(eq=False, repr=False)
class Learner(
    PassLearner[PosteriorT], Generic[PosteriorT, CorpusT, LocalStepT, StatisticsCacheT]
):
    """Passes over a corpus: rounds of local steps, updates of globals, and moves.

    The posterior is learned in place, and consistent whenever an exception can arrive.
    """

    posterior: PosteriorT
    corpus: CorpusT  # documents by part
    schedule: Schedule
    local_step: LocalStepT
    cache: StatisticsCacheT  # of parts; how totals take in the statistics of a round
    moves: protocols.Moves = protocols.NO_MOVES
    warm_up: float = 0.0  # documents, of all passes, whose local step has mean weights
    n_passes: int = 0  # made
    is_stream: ClassVar[bool] = False  # whether the posterior counts documents seen

    def check(self, posterior: PosteriorT) -> None:
        """Raise ValueError unless what a file has of this learns a posterior."""
        super().check(posterior)
        if self.local_step is None:
            raise ValueError("The saved learner is damaged: it has no local step.")

    def fork(
        self, posterior: PosteriorT, cache: StatisticsCacheT, *, restarts: bool = False
    ) -> Self:
        """Return a learner of copies; if it `restarts`, without passes or updates."""
        other = replace(self, posterior=posterior, cache=cache)
        if restarts:
            other.schedule, other.n_passes = self.schedule.reset(), 0
        return other

    @property
    def n_updates(self) -> int:
        """Number of updates made; step sizes decrease with it."""
        return self.schedule.n_updates(self.n_passes)

    @property
    def is_warming_up(self) -> bool:
        """Whether the local step uses mean weights."""
        return self.n_passes * self.corpus.n_docs < self.warm_up

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; return whether it was exact."""
        if self.corpus.n_docs == 0:
            self.n_passes += 1
            return True
        is_exact = self.cache.is_complete and not self.is_warming_up
        self.moves.begin_pass(self)
        for round in self.schedule.one_pass(self.n_passes):
            self.learn_round(round, monitor)
        self.n_passes += 1
        self.cache.end_pass(self.posterior)
        n_logged = len(self.posterior.lineage)
        exchanged = self.posterior.give_known_priors()
        if exchanged and self.moves.joins_known and not self.cache.holds_corpus:
            self.posterior.merge(exchanged)
        has_stayed = self.moves.end_pass(self, monitor) and not exchanged
        monitor.recount(self.posterior, n_logged)
        return is_exact and has_stayed

    def learn_round(self, round: Round, monitor: Monitor) -> None:
        """Run the local step of a round, then update totals and globals in place.

        All local steps end before the first change, which is one commit; moves are
        commits by themselves.
        """
        posterior, mean_weight_fraction = self.posterior, 0.0
        if self.is_warming_up:
            visit = protocols.Visit(Weighting.MEAN)
            mean_weight_fraction = round.step
        else:
            visit = protocols.Visit(block_hook=self.moves.block_hook(self))
        result = self.update_local(round, visit)
        result = self.moves.end_local_step(self, round, result)
        change = self.cache.prepare(posterior, round, result)
        with commit():
            self.cache.stochastic_update(posterior, round, change)
            posterior.init_fraction = (
                1.0 - round.step
            ) * posterior.init_fraction + mean_weight_fraction
            posterior.n_steps += 1
            if self.is_stream:
                posterior.n_seen += round.n_docs
            monitor.record(posterior)
        n_logged = len(posterior.lineage)
        self.moves.end_round(self, round, result)
        monitor.recount(posterior, n_logged)

    def update_local(
        self, round: Round, visit: protocols.Visit
    ) -> protocols.LocalResults:
        """Run the local step on the documents of a round; return results by part."""
        visits = [
            replace(visit, remembered=self.cache.initial_local(part))
            for part in round.parts
        ]
        return self.corpus.update_local(self.local_step, self.posterior, round, visits)


class StreamLearner(Learner[PosteriorT, CorpusT, LocalStepT, StatisticsCacheT]):
    """One pass over documents that are seen for the first time."""

    is_stream = True

    @property
    def is_warming_up(self) -> bool:
        """Whether the local step uses mean weights."""
        return self.posterior.n_seen < self.warm_up


def learn(
    learner: PassLearner,
    monitor: Monitor,
    n_passes: int,
    *,
    begin_pass: Callable[[], None] = lambda: None,
    end_pass: Callable[[bool], bool] = lambda has_converged: has_converged,
) -> bool:
    """Make `n_passes` passes, or fewer; return whether the bound has converged.

    `begin_pass` and `end_pass` are called around each pass, the latter with whether the
    bound has converged; it returns whether learning ends.
    """
    for _ in range(n_passes):
        begin_pass()
        is_exact_pass = learner.one_pass(monitor)
        if not monitor.history["step"]:  # no round to record
            monitor.record(learner.posterior)
        value = sum(learner.posterior.objective().values())
        converged = monitor.end_pass(
            value, is_exact_pass=is_exact_pass, has_ended=learner.has_ended
        )
        if end_pass(converged):
            return converged
    return False


# Caches of running averages.


class DocumentCache:
    """Starts of the local step of documents in running averages: none here."""

    def initial_local(self, part: Part) -> object:
        """Return what the local step of a part starts from."""
        return None

    def keep(self, round: Round, results: Sequence[LocalResult]) -> None:
        """Record the local parameters of a part for its next local step."""

    def empty(self) -> "DocumentCache":
        """Return an empty cache."""
        return self

    def copy(self) -> Self:
        """Return an independent copy."""
        return deepcopy(self)


NOTHING = DocumentCache()


@dataclass(eq=False)
class DocumentStarts(DocumentCache):
    """Starts of the local step: documents start from their last result, if better."""

    _starts: dict[int, object] = field(default_factory=dict)

    def initial_local(self, part: Part) -> object:
        """Return what the local step of a part starts from."""
        return self._starts.get(part.number)

    def keep(self, round: Round, results: Sequence[LocalResult]) -> None:
        """Record the local parameters of a part for its next local step."""
        for part, result in zip(round.parts, results, strict=True):
            self._starts[part.number] = result.cache

    def change(self, changed: Callable[[Any], object]) -> None:
        """Replace the start of each part, if any, by what a function returns of it."""
        for part, start in self._starts.items():
            self._starts[part] = None if start is None else changed(start)


class DocumentWeights(DocumentCache):
    """Effective count of each document in the totals; all decay by one lazy scale.

    An update with step rho by a minibatch that stands for `scale` times its documents
    multiplies all weights by 1 - rho and adds rho * scale to those of the minibatch.
    """

    _values: Array
    _scale: float

    def __init__(self, n_docs: int, start: float = 0.0):
        self._values, self._scale = np.full(n_docs, start), 1.0

    def empty(self) -> "DocumentWeights":
        """Return weights for totals without any of the documents."""
        return DocumentWeights(len(self._values))

    def spread(self, rows: Ints, n_docs: int) -> "DocumentWeights":
        """Return the weights of `n_docs` documents; these are those of `rows`."""
        other = DocumentWeights(n_docs)
        other._values[rows], other._scale = self._values, self._scale
        return other

    def initial_local(self, part: Part) -> Array:
        """Effective counts of the documents of a part, (n_docs,)."""
        return self._values[part.rows] * self._scale

    def keep(self, round: Round, results: Sequence[object]) -> None:
        """Update the effective counts in place after a round."""
        self.decay_and_add(
            round.rows, keep=1.0 - round.step, gain=round.step * round.scale
        )

    def decay_and_add(self, rows: Ints, *, keep: float, gain: float) -> None:
        """Multiply all weights by `keep` in place, and add `gain` to `rows`."""
        self._scale *= keep
        if self._scale < 1e-100:
            self._values *= self._scale
            self._scale = 1.0
        self._values[rows] += gain / self._scale


@dataclass(eq=False)
class RunningAverage(protocols.StatisticsCache):
    """Cache of online learning: totals are running averages of statistics."""

    documents: DocumentCache = NOTHING
    holds_corpus = False

    def initial_local(self, part: Part) -> object:
        """Return what the local step of a part starts from."""
        return self.documents.initial_local(part)

    def stochastic_update(
        self, posterior: Posterior, round: Round, change: Sequence[LocalResult]
    ) -> None:
        """Step totals and globals in place towards the statistics of the round."""
        blend(posterior, round, change)
        self.documents.keep(round, change)

    def end_pass(self, posterior: Posterior) -> None:
        """Learn the hyperparameters, in place."""
        learn_priors(posterior)


def blend(posterior: Posterior, round: Round, results: Sequence[LocalResult]) -> None:
    """Step totals and globals in place, Eqs. (6) and (7) of Bryant and Sudderth."""
    stats = reduce(
        lambda one, other: one.plus(other), (result.stats for result in results)
    )
    posterior.replace_globals(
        *posterior.model.stochastic_update(
            posterior.state, posterior.global_stats, stats, round.step, round.scale
        )
    )


def learn_priors(posterior: Posterior) -> None:
    """Update the learned hyperparameters of a posterior, in place."""
    model, state = posterior.model.learn_priors(posterior.state, posterior.global_stats)
    with commit():
        posterior.model, posterior.state = model, state
        posterior.follow_prior()
