"""Trials on the exact bound of a corpus: change topics, learn on, keep what is better.

Two kinds take turns. A birth adds topics for documents that are explained badly and
drops some of the present ones, then learns like a fit: passes with mean weights, then
exact ones. A death ends the lightest topics and lets their documents find others.
"""

import numpy as np
import scipy.sparse as sp

from skbnp.inference.memoized import Memoized
from skbnp.inference.memory import doc_topic
from skbnp.inference.monitor import Monitor, discarding
from skbnp.inference.moves import hdp_birth
from skbnp.inference.moves.split_merge import SplitMerge
from skbnp.inference.posterior import Posterior
from skbnp.utils.random import Purpose, stream

__all__ = ["Trials"]

#: A pass that raises the bound by less, relatively, leaves room for a trial.
SETTLED = 2e-3
#: Relative gain of the bound that is more than rounding.
LEAST_GAIN = 1e-6
#: Topics of a smaller share of the tokens end together.
LIGHT = 1e-4


class Trials:
    """Passes with memory; between them, passes of rivals that may take over.

    Parameters
    ----------
    learner : Memoized
    moves : SplitMerge
    n_passes : int
        Passes at hand; no trial begins that could not be completed.
    """

    has_ended = False

    def __init__(self, learner: Memoized, moves: SplitMerge, n_passes: int):
        self.learner, self.moves, self.passes_left = learner, moves, n_passes
        self.posterior = learner.posterior
        self.rival: Memoized | None = None
        self.rival_passes = 0
        self.n_trials = self.n_rejected = 0

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; whether nothing is left but to converge."""
        self.passes_left -= 1
        if self.rival is None:
            exact = self.learner.one_pass(monitor)
        else:
            exact = False
            self._trial_pass(self.rival, monitor)
        if self.rival is None and self._is_settled():
            self._propose()
        return exact and self.rival is None

    def _trial_pass(self, rival: Memoized, monitor: Monitor) -> None:
        rival.one_pass(discarding())
        self.rival_passes -= 1
        if self.rival_passes <= 0:
            self._decide(rival, monitor)

    def _is_settled(self) -> bool:
        learner = self.learner
        return len(learner.memos) > 0 and learner.rise < SETTLED * abs(learner.bound)

    def _propose(self) -> None:
        """Begin a trial, if it can come to its end."""
        moves, is_death = self.moves, self.n_trials % 2 == 1 or not self.moves.births
        n_mean = 0 if is_death else moves.trial_warm_up
        n_passes = 1 if is_death else moves.trial_warm_up + moves.trial_passes
        if self.n_rejected >= moves.max_rejections or n_passes > self.passes_left:
            return
        rival = self._death() if is_death else self._birth(n_mean)
        self.rival, self.rival_passes = rival, n_passes
        self.n_trials += 1

    def _birth(self, warm_up: int) -> Memoized:
        learner, n_docs = self.learner, self.learner.X.shape[0]
        rows = np.concatenate([round.rows for round in learner.schedule.one_pass(0)])
        counts = sp.csr_array(doc_topic(learner.memos))[np.argsort(rows)]
        n_topics = self.posterior.state.n_components
        plan = hdp_birth.plan(self.n_trials // 2, n_topics)
        place = (self.posterior.n_steps, self.n_trials)
        rng = stream(self.posterior.entropy, Purpose.MOVE, *place)
        posterior = hdp_birth.propose(
            self.posterior, learner.X, counts, plan, n_docs, rng
        )
        return self._learner(posterior, warm_up)

    def _death(self) -> Memoized:
        posterior, mass = self.posterior, self.posterior.totals.topic_words.total
        rival = self._learner(posterior.copy(), 0)
        rival.n_passes, rival.memos = rival.n_forgetful, list(self.learner.memos)
        rival.prune(mass <= max(mass.min(), LIGHT * mass.sum()))
        return rival

    def _learner(self, posterior: Posterior, warm_up: int) -> Memoized:
        old = self.learner
        return Memoized(
            posterior,
            old.X,
            old.schedule.afresh(),
            old.visitor,
            warm_up=warm_up,
            moves=self.moves,
        )

    def _decide(self, rival: Memoized, monitor: Monitor) -> None:
        """Keep the rival if its bound is higher, else forget it."""
        self.rival = None
        gain = rival.bound - self.learner.bound
        if gain > LEAST_GAIN * abs(self.learner.bound):
            self.posterior.adopt(rival.posterior)
            self.posterior.record(monitor)
            rival.posterior = self.posterior
            self.learner = rival
            rival.rise, self.n_rejected = np.inf, 0
        else:
            self.n_rejected += 1
