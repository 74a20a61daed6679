"""Trials of other numbers of topics over what is kept of a stream, call by call."""

import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import scipy.sparse as sp

from skbnp.components.statistics import multiply
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor, discarding
from skbnp.models.hdp.held_out import HeldOut, Prediction
from skbnp.models.hdp.held_out_priors import suited_prediction
from skbnp.models.hdp.held_out_trials import HeldOutTrials, OnlineLearner, Trial
from skbnp.models.hdp.moves.settings import SplitMerge
from skbnp.models.hdp.posterior import HDPPosterior

__all__ = ["StreamTrials", "begin_on_sample", "end_on_sample"]

#: Visits of learning that take as long as a document takes to judge, for each part.
JUDGE_COST = 8.0


@dataclass(eq=False, repr=False)
class StreamTrials(HeldOutTrials):
    """Trials over what is kept of a stream, beginning with the model as it is.

    The learner is that of a copy of the stream's posterior.
    """

    # Documents that the stream has learned meanwhile.
    missed: list[sp.csr_array] = field(default_factory=list)
    #: The copy is read when all trials are over: it need not hold what is as good.
    is_unseen: ClassVar[bool] = True

    def _after_births(self) -> Trial | None:
        """Reduce: the stream itself goes on."""
        if self.learns_burstiness:
            self._judge_anew(self.model)
        return self._first_reduction()

    def begin(self, result: Prediction) -> None:
        """Begin the first trial, if there is one, from a prediction by the model."""
        start, length = self.model, self.length
        start.n_passes = length
        self._record(start, result)
        start.logs[(length + 1) // 2] = start.logs[length]
        self._decide(self.model, discarding())

    def advance(self, n_visits: float) -> bool:
        """Make passes that cost so many visits of documents, or one.

        Returns whether all have been made.
        """
        beside = discarding()
        n_spent = 0.0
        while not self.are_over:
            cost = self._cost_of_pass
            if n_spent and n_spent + cost > n_visits:
                break
            n_spent += cost
            self.one_pass(beside)
        return self.are_over

    @property
    def _cost_of_pass(self) -> float:
        """Visits of documents that the next pass takes as long as."""
        n_made, length = self.run.n_passes + 1, self.length
        is_judged = self.final is None and n_made in ((length + 1) // 2, length)
        n_judges = JUDGE_COST * len(self.held_out.docs) if is_judged else 0.0
        return self.held_out.train.n_docs + n_judges

    @property
    def are_over(self) -> bool:
        """Whether no pass is left."""
        return self.final is not None and (not self.n_accepted or self.has_ended)

    def resumed(self, local_step: Any) -> "StreamTrials":
        """Return a copy that goes on by another local step; documents are shared."""
        rows = self.held_out, self.held_out.train, self.held_out.train.X
        other = deepcopy(self, {id(each): each for each in rows})
        other.attach(local_step)
        return other

    def attach(self, local_step: Any) -> None:
        """Let learners visit documents by another step; None between calls."""
        for learner in (self.model.learner, self.run.learner):
            learner.local_step = local_step


def begin_on_sample(
    posterior: HDPPosterior,
    make_learner: Callable[[HDPPosterior], OnlineLearner],
    held_out: HeldOut,
    moves: SplitMerge,
    **priors: Any,
) -> StreamTrials:
    """Begin trials over a sample of a stream, of which totals then stand for it alone.

    They learn a copy of the posterior. `priors` are what `HeldOutTrials` learn of them.
    """
    learner = make_learner(posterior)
    executor = learner.local_step.executor
    suited_prediction(held_out, posterior, executor, priors["learns_burstiness"])
    copy = learner.posterior = posterior.copy()
    copy.reservoir = copy.surprises = None
    trials = StreamTrials(
        learner,
        held_out,
        moves,
        passes_left=sys.maxsize,
        finish=None,
        n_final_passes=moves.trial_passes,  # the stream goes on
        **priors,
        length=2 * moves.trial_passes,  # the model knows more documents
    )
    result = held_out.predict(copy, executor)
    n_tokens = posterior.global_stats.topic_words.tokens.sum()
    multiply(copy.global_stats, held_out.train.n_tokens / max(n_tokens, 1e-300))
    trials.begin(result)
    return trials


def end_on_sample(
    trials: StreamTrials, posterior: HDPPosterior, n_docs: float, monitor: Monitor
) -> int:
    """Let a stream of `n_docs` have what trials over a sample of it have found.

    Documents that these topics have missed count as not learned. Returns the number of
    trials that were accepted.
    """
    if not trials.n_accepted:
        return 0
    copy = trials.posterior
    multiply(copy.global_stats, n_docs / trials.held_out.train.n_docs)
    copy.global_stats.topic_words.trim()
    n_words = posterior.global_stats.topic_words.shape[0]
    if n_words > copy.global_stats.topic_words.shape[0]:  # new terms came meanwhile
        copy.global_stats.topic_words.widen(n_words)
    with commit():
        posterior.adopt(copy, monitor)
        posterior.alike = min(trials.alike), max(trials.alike)
        posterior.step_origin = posterior.n_steps - trials.model.learner.n_updates
        posterior.n_seen -= sum(rows.shape[0] for rows in trials.missed)
    return trials.n_accepted
