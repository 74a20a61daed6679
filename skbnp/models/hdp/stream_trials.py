"""Trials of numbers of topics of an HDP on the sample of a stream, over many calls."""

import sys
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import scipy.sparse as sp

from skbnp.components.known_topics import KnownWordTopics
from skbnp.components.statistics import multiply
from skbnp.inference.engine import Steps
from skbnp.inference.executor import commit
from skbnp.inference.monitor import Monitor, discarding
from skbnp.models.hdp.held_out import HeldOut
from skbnp.models.hdp.held_out_trials import HeldOutTrials, OnlineLearner, Trial
from skbnp.models.hdp.model import HDPState
from skbnp.models.hdp.moves.settings import SplitMerge
from skbnp.models.hdp.posterior import HDPPosterior
from skbnp.utils.arrays import with_columns

#: Visits of learning that it takes as long as to begin, and to judge a pass, for each
#: row that judges.
BEGIN_COST, PASS_JUDGE_COST = 24.0, 8.0
#: The same of a step of judgement, and of each row in it.
JUDGE_COST, ROW_COST = 500.0, 0.25
#: Visits of trials for each document of a call, at least, more for each document that
#: comes with it, and at most. Trials over a whole stream are some hundred visits of
#: each document.
LEAST_VISITS, MORE_VISITS, MOST_VISITS = 112.0, 2.9, 400.0
#: Nats per held-out token that first births must gain for a stream to have them before
#: trials end. Births of text gain .06 to .27, those beside planted topics .01 to .02.
CLEAR_GAIN = 0.05
#: Share of these visits in which a call learns documents that trials have missed.
MISSED_SHARE = 0.25


def n_visits_of(n_docs: int, n_call: int) -> float:
    """Local steps of documents that trials make after `n_docs` documents of a call."""
    return n_docs * min(LEAST_VISITS + MORE_VISITS * n_call, MOST_VISITS)


def is_large(n_call: int) -> bool:
    """Whether a call of `n_call` documents continues trials by whole passes."""
    return n_visits_of(1, n_call) >= MOST_VISITS


@dataclass(eq=False, repr=False)
class StreamTrials(HeldOutTrials):
    """Trials on the documents kept of a stream, judged by held-out ones.

    The learner is that of a copy of the stream's posterior.
    """

    # Documents that the stream has learned meanwhile.
    missed: list[sp.csr_array] = field(default_factory=list)
    #: State of the stream, with priors that suit once trials have begun.
    suited: HDPState | None = None
    n_shared: int = 0  # accepted trials whose topics the stream has
    n_logged: int = field(init=False)  # entries of its log that the stream knows
    #: The copy is read when all trials are over: it need not hold what is as good.
    is_unseen: ClassVar[bool] = True

    def __post_init__(self, learner: OnlineLearner) -> None:
        super().__post_init__(learner)
        self.n_logged = len(self.posterior.lineage)

    @property
    def have_news(self) -> bool:
        """Whether trials that continue have accepted topics that the stream lacks.

        Those of reductions, and those of first births if documents gain `CLEAR_GAIN`.
        Of other births most topics end in reductions.
        """
        model, is_new = self.model, self.n_accepted > self.n_shared
        is_clear = self.n_accepted == 1 and model.gain > CLEAR_GAIN
        is_kept = model.kind == "reduction" or (model.kind == "births" and is_clear)
        return is_new and is_kept and self.final is None and self.run is not model

    def _after_births(self) -> Steps[Trial | None]:
        """Return the first reduction: the stream itself learns on."""
        if self.learns_burstiness:
            yield from self._judge_anew(self.model)
        return (yield from self._first_reduction())

    @property
    def have_begun(self) -> bool:
        """Whether the first trial has begun."""
        return bool(self.model.logs)

    def steps(self, monitor: Monitor) -> Steps[bool]:
        """Make one pass; before the first, begin the first trial, if any."""
        if self.have_begun:
            return (yield from super().steps(monitor))
        start, length, posterior = self.model, self.length, self.posterior
        state = posterior.state
        if self.suited is not None:  # the priors of the stream
            posterior.state = self.suited
            yield from self._suited_prediction(start, self.learns_burstiness)
            self.suited, posterior.state = posterior.state, state
        yield self.judge_cost
        result = self.held_out.predict(posterior, start.executor)
        n_tokens = posterior.global_stats.topic_words.tokens.sum()
        scale = self.held_out.train.n_tokens / max(n_tokens, 1e-300)
        multiply(posterior.global_stats, scale)
        start.n_passes = length
        self._record(start, result)
        start.logs[(length + 1) // 2] = start.logs[length]
        yield from self._decide(start, discarding())
        return False

    @property
    def cost_of_pass(self) -> float:
        """Cost of the next pass, in local steps of documents."""
        if not self.have_begun:
            return BEGIN_COST * len(self.held_out.docs)
        n_made, length = self.run.n_passes + 1, self.length
        is_judged = self.final is None and n_made in ((length + 1) // 2, length)
        n_judges = PASS_JUDGE_COST * len(self.held_out.docs) if is_judged else 0.0
        return self.held_out.train.n_docs + n_judges

    @property
    def are_over(self) -> bool:
        """Whether no pass is left."""
        return self.final is not None and (not self.n_accepted or self.has_ended)

    def attach(self, local_step: Any) -> None:
        """Set the local step of all learners in place; None between calls."""
        self.judge_cost = JUDGE_COST + ROW_COST * len(self.held_out.docs)
        for learner in (self.model.learner, self.run.learner):
            learner.local_step = local_step

    def copied(self) -> "StreamTrials":
        """Return independent trials; what no pass changes is shared.

        Shared are documents, and the topics of the model beside a candidate.
        """
        rows = self.held_out, self.held_out.train, self.held_out.train.X
        shared: list[Any] = [*rows, self.folds, *self.missed]
        if self.run is not self.model:
            for posterior in (self.posterior, self.model.posterior):
                topic_words = posterior.global_stats.topic_words
                if not isinstance(topic_words, KnownWordTopics):  # these follow priors
                    shared.append(topic_words)
        local_step = self.model.learner.local_step
        self.attach(None)
        other = deepcopy(self, {id(each): each for each in shared})
        self.attach(local_step)
        return other


class PausedTrials:
    """Trials that calls continue, pass by pass or step by step.

    Saved are their state when the pass under way began, and the number of its steps
    since then: a copy, or trials read from a file, take the same steps again.
    """

    trials: StreamTrials
    n_steps: int

    def __init__(
        self, trials: StreamTrials, n_steps: int = 0, live: StreamTrials | None = None
    ) -> None:
        self.trials, self.n_steps = trials, n_steps
        self.live = live  # in memory, after these steps
        self._steps: Steps[bool] | None = None  # of the pass under way
        self._cost = 0.0  # of the next step

    def __reduce__(self) -> tuple[Any, ...]:
        return PausedTrials, (self.trials, self.n_steps)

    def resumed(self, local_step: Any) -> "PausedTrials":
        """Return trials that continue by a local step in one call; these are kept."""
        live = self.live or self.trials.copied()
        other = PausedTrials(self.trials, self.n_steps, live)
        other._steps, other._cost = self._steps, self._cost
        self.live = self._steps = None  # for one call alone
        live.attach(local_step)
        if self.n_steps and other._steps is None:
            other._begin_pass()
            for _ in range(self.n_steps):
                if other._steps is None:
                    raise ValueError(
                        "The saved trials are damaged: a pass has fewer than "
                        f"{self.n_steps} steps."
                    )
                other._step()
        live.missed = list(self.trials.missed)  # which calls extend
        return other

    def advance(self, n_visits: float) -> bool:
        """Make passes of `n_visits` local steps; return whether none is left."""
        trials, n_spent = self._live, 0.0
        while self._steps is not None:
            self._step()
        if not trials.have_begun:
            n_visits -= trials.cost_of_pass
            trials.one_pass(discarding())
            if n_visits <= 0.0:
                return trials.are_over
        while not trials.are_over:
            cost = trials.cost_of_pass
            if n_spent and n_spent + cost > n_visits:
                break
            n_spent += cost
            trials.one_pass(discarding())
        return trials.are_over

    def advance_by_steps(self, n_visits: float) -> bool:
        """Take steps that cost `n_visits` local steps of documents.

        At least one if `n_visits` is positive. Returns whether no step is left.
        """
        n_spent = 0.0
        while n_visits > 0.0 and not self._live.are_over:
            if self._steps is None:
                self._begin_pass()
            if n_spent and n_spent + self._cost > n_visits:
                break
            n_spent += self._cost
            self._step()
        return self._live.are_over

    @property
    def _live(self) -> StreamTrials:
        assert self.live is not None
        return self.live

    def _begin_pass(self) -> None:
        """Keep a copy of the trials, and begin the steps of a pass."""
        self.trials, self.n_steps = self._live.copied(), -1
        self._steps = self._live.steps(discarding())
        self._step()

    def _step(self) -> None:
        """Take a step, and record the cost of the next one."""
        assert self._steps is not None
        try:
            self._cost = next(self._steps)
            self.n_steps += 1
        except StopIteration:
            self.trials, self.n_steps, self._steps = self._live, 0, None

    def paused(self) -> "PausedTrials":
        """Return the trials to keep until a later call."""
        self._live.attach(None)
        if self._steps is None:
            return PausedTrials(self._live)
        self.trials = copy(self.trials)
        for name in ("missed", "n_shared", "n_logged"):  # of no pass
            setattr(self.trials, name, getattr(self._live, name))
        return self


def begin_on_sample(
    posterior: HDPPosterior,
    make_learner: Callable[[HDPPosterior], OnlineLearner],
    held_out: HeldOut,
    moves: SplitMerge,
    **priors: Any,
) -> StreamTrials:
    """Return trials on the sample of a stream, as a copy of the posterior.

    The totals of the copy stand for the sample alone. `priors` are the settings by
    which `HeldOutTrials` learn priors.
    """
    learner = make_learner(posterior)
    beside = learner.posterior = posterior.copy()
    beside.reservoir = beside.outliers = None
    return StreamTrials(
        learner,
        held_out,
        moves,
        passes_left=sys.maxsize,
        finish=None,
        n_final_passes=moves.trial_passes,  # the stream goes on
        **priors,
        length=2 * moves.trial_passes,  # the model knows more documents
        suited=posterior.state,
    )


def share(
    trials: StreamTrials,
    posterior: HDPPosterior,
    n_docs: float,
    monitor: Monitor,
) -> None:
    """Give a stream of `n_docs` documents the topics that trials accepted, in place.

    Documents that these topics have missed are to be learned again. As long as trials
    continue, they keep their topics, and the stream its burstiness.
    """
    goes_on = trials.final is None
    result = trials.posterior.copy() if goes_on else trials.posterior
    multiply(result.global_stats, n_docs / trials.held_out.train.n_docs)
    result.global_stats.topic_words.trim()
    n_words = posterior.global_stats.topic_words.shape[0]
    if n_words > result.global_stats.topic_words.shape[0]:  # new terms came meanwhile
        result.global_stats.topic_words.widen(n_words)
    state = posterior.state if goes_on else result.state
    result.state = replace(
        result.state,
        burstiness=state.burstiness,
        by_tables=state.burstiness is not None,
    )
    n_before = posterior.n_missed
    missed = [with_columns(X, n_words) for X in trials.missed if X.shape[0]]
    with commit():
        posterior.adopt(result, monitor, trials.n_logged)
        posterior.alike = min(trials.alike), max(trials.alike)
        posterior.gains = tuple(trials.gains)
        posterior.step_origin = posterior.n_steps - trials.model.learner.n_updates
        posterior.missed = sp.vstack(missed, format="csr") if missed else None
        posterior.n_seen -= sum(X.shape[0] for X in missed) - n_before
    trials.n_shared, trials.n_logged = trials.n_accepted, len(result.lineage)
