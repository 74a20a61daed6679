"""Trials of other numbers of topics of an HDP, judged by the exact bound of a corpus.

Two kinds of trials alternate. A birth adds topics for documents of low probability and
drops some of the present topics; its candidate learns like a fit: passes with mean
weights, then exact ones. A death removes the lightest topics, and their documents
choose others. The candidate replaces the model if its bound is higher.
"""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from skbnp.inference.engine import PassLearner, Steps
from skbnp.inference.monitor import Monitor, discarding
from skbnp.models.hdp.memory import MeanFieldCache, doc_topic
from skbnp.models.hdp.moves import birth as hdp_birth
from skbnp.models.hdp.moves.held_out import prune
from skbnp.models.hdp.moves.settings import SplitMerge
from skbnp.models.hdp.moves.structure import ExactLearner, ExactMoves
from skbnp.models.hdp.posterior import HDPPosterior
from skbnp.utils.random import Purpose, stream

#: A pass that raises the bound by less, relatively, leaves room for a trial.
SETTLED = 2e-3
#: Relative gain of the bound that is more than rounding.
LEAST_GAIN = 1e-6
#: Topics of a smaller share of the tokens end together.
LIGHT = 1e-4


@dataclass(slots=True)
class Run:
    """A learner that caches all documents, and its bound after the last exact pass."""

    learner: ExactLearner
    bound: float = -np.inf  # of the corpus after the last pass, nats per token
    rise: float = np.inf  # by how much the last pass raised it


@dataclass(eq=False, repr=False)
class BoundTrials(PassLearner[HDPPosterior]):
    """Passes of an HDP with its exact bound, and passes of candidates between them."""

    run: Run
    moves: SplitMerge
    passes_left: int  # no trial begins that could not be completed
    posterior: HDPPosterior = field(init=False)
    candidate: Run | None = None
    candidate_passes: int = 0
    n_trials: int = 0
    n_rejected: int = 0

    def __post_init__(self) -> None:
        self.posterior = self.run.learner.posterior

    @property
    def learner(self) -> ExactLearner:
        """The learner of the present model."""
        return self.run.learner

    @property
    def n_updates(self) -> int:
        """Number of updates made; step sizes decrease with it."""
        return self.learner.n_updates

    def steps(self, monitor: Monitor) -> Steps[bool]:
        """Make a pass of model or candidate; return whether to test convergence."""
        self.passes_left -= 1
        run, is_exact = self.candidate or self.run, False
        if run is self.run:
            is_exact = yield from run.learner.steps(monitor)
        else:
            run.learner.one_pass(discarding())
        if run.learner.cache.is_complete:
            bound = sum(run.learner.posterior.objective().values())
            run.bound, run.rise = bound, bound - run.bound
        if run is self.candidate:
            self.candidate_passes -= 1
            if self.candidate_passes <= 0:
                self._decide(run, monitor)
        if self.candidate is None and self.run.rise < SETTLED * abs(self.run.bound):
            self._propose()
        return is_exact and self.candidate is None

    def _propose(self) -> None:
        """Begin a birth or a death in turn, if passes and rejections are left."""
        moves, is_death = self.moves, self.n_trials % 2 == 1 or not self.moves.births
        n_mean = 0 if is_death else moves.trial_warm_up
        n_passes = 1 if is_death else moves.trial_warm_up + moves.trial_passes
        if self.n_rejected >= moves.max_rejections or n_passes > self.passes_left:
            return
        learner = self._death() if is_death else self._birth(n_mean)
        self.candidate, self.candidate_passes = Run(learner), n_passes
        self.n_trials += 1

    def _birth(self, n_mean: int) -> ExactLearner:
        """Return a learner of new and old topics, with `n_mean` warm-up passes."""
        learner, X = self.learner, self.learner.corpus.X
        rows = np.concatenate([round.rows for round in learner.schedule.one_pass(0)])
        counts = sp.csr_array(doc_topic(learner.cache.memos))[np.argsort(rows)]
        n_topics = self.posterior.state.n_components
        share = hdp_birth.share_kept(self.n_trials // 2, n_topics)
        place = (self.posterior.n_steps, self.n_trials)
        rng = stream(self.posterior.seed_entropy, Purpose.MOVE, *place)
        posterior = hdp_birth.propose(self.posterior, X, counts, share, X.shape[0], rng)
        return self._restarted(posterior, MeanFieldCache(max(n_mean, 1)), n_mean)

    def _death(self) -> ExactLearner:
        """Return a learner of a copy of the model without its lightest topics."""
        posterior, mass = self.posterior, self.posterior.global_stats.topic_words.tokens
        cache = self.learner.cache.copy()
        learner = self._restarted(posterior.copy(), cache, 0)
        learner.n_passes = cache.n_passes
        prune(learner, mass <= max(mass.min(), LIGHT * mass.sum()))
        return learner

    def _restarted(
        self, posterior: HDPPosterior, cache: MeanFieldCache, n_mean: int
    ) -> ExactLearner:
        """Return a learner of another posterior, with `n_mean` warm-up passes."""
        learner = self.learner.fork(posterior, cache, restarts=True)
        learner.moves = ExactMoves(self.moves)
        learner.warm_up = n_mean * learner.corpus.n_docs
        return learner

    def _decide(self, candidate: Run, monitor: Monitor) -> None:
        """Replace the model by the candidate if its bound is higher."""
        self.candidate = None
        if candidate.bound - self.run.bound > LEAST_GAIN * abs(self.run.bound):
            self.posterior.adopt(candidate.learner.posterior, monitor)
            candidate.learner.posterior = self.posterior
            self.run, candidate.rise = candidate, np.inf
            self.n_rejected = 0
        else:
            self.n_rejected += 1
