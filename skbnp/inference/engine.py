"""The loop of all variational learning: local steps, updates of the globals, moves.

A round updates the local parameters of parts of a corpus with the globals fixed, then
the globals. The statistics cache decides how the statistics of documents enter the
totals, the schedule the order of parts, and the moves what changes components.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Self, TypeVar

from skbnp.components.word_topics import Weighting
from skbnp.inference import protocols
from skbnp.inference.executor import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Merge, Posterior, apply
from skbnp.inference.schedules import Round, Schedule

PosteriorT = TypeVar("PosteriorT", bound=Posterior)
CorpusT = TypeVar("CorpusT", bound=protocols.Corpus)
LocalStepT = TypeVar("LocalStepT", bound=protocols.LocalStep)
StatisticsCacheT = TypeVar("StatisticsCacheT", bound=protocols.StatisticsCache)
T = TypeVar("T")
#: Work that can be put aside: yields before each step what it costs; returns a result.
Steps = Generator[float, None, T]


def completed(steps: Steps[T]) -> T:
    """Take all remaining steps of a generator; return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class PassLearner(ABC, Generic[PosteriorT]):
    """Base of what makes passes: a learner, or trials of several learners."""

    posterior: PosteriorT

    @property
    def has_ended(self) -> bool:
        """Whether learning has ended, even if the bound still changes."""
        return False

    def check(self, posterior: PosteriorT) -> None:
        """Raise ValueError unless what a file has of this learns a posterior."""
        if self.posterior is not posterior:
            raise ValueError("The saved learner is damaged: of another posterior.")

    @property
    @abstractmethod
    def n_updates(self) -> int:
        """Number of updates made; step sizes decrease with it."""

    @abstractmethod
    def steps(self, monitor: Monitor) -> Steps[bool]:
        """Make one pass in steps; return whether to test convergence."""

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; return whether to test convergence."""
        return completed(self.steps(monitor))


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

    def steps(self, monitor: Monitor) -> Steps[bool]:
        """Make one pass, a step for each round; return whether it was exact.

        Yields the number of documents of each round before they are learned from.
        """
        if self.corpus.n_docs == 0:
            self.n_passes += 1
            return True
        is_exact = self.cache.is_complete and not self.is_warming_up
        self.moves.begin_pass(self)
        for round in self.schedule.one_pass(self.n_passes):
            yield round.n_docs
            self.learn_round(round, monitor)
        self.n_passes += 1
        self.cache.end_pass(self.posterior)
        n_logged = len(self.posterior.lineage)
        exchanged = self.posterior.give_known_priors()
        if exchanged and self.moves.joins_known and not self.cache.holds_corpus:
            apply(Merge(exchanged), self.posterior)
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
    *,
    n_passes: int,
    begin_pass: Callable[[], None] = lambda: None,
    end_pass: Callable[[], bool] = lambda: False,
    save: Callable[[bool, bool], None] = lambda has_ended, has_converged: None,
) -> bool:
    """Make `n_passes` passes, or fewer once the bound has converged.

    `begin_pass` and `end_pass` are called around each pass; the latter may stop it.
    `save` is called last, with whether learning ends before its time, and whether
    because the bound has converged, which is returned.
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
        has_ended = end_pass() or converged
        save(has_ended, converged)
        if has_ended:
            return converged
    return False
