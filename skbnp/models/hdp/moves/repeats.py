"""Burstiness of an HDP, learned during a fit from the training documents themselves.

Each token is predicted from all others of its document, whose own tokens are subtracted
from the topics. If held-out documents judge trials, burstiness is learned from these
instead, see `held_out_trials`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skbnp.inference.engine import Learner
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import (
    Collected,
    Corpus,
    LocalStop,
    Moves,
    StepInput,
    Visit,
)
from skbnp.inference.schedules import Round
from skbnp.models.hdp.burstiness import N_DOCS, evenly, learn_burstiness
from skbnp.models.hdp.collapsed_local import MAX_ITER, TOL, CollapsedStep
from skbnp.rows.batch import Batch

#: Passes over tokens before topics explain tables: from a cold start these are slower.
PLAIN_PASSES = 15
#: Passes between two searches of the parameters.
SPACING = 3


def suit_burstiness_to(
    corpus: Corpus, posterior: Posterior, executor: Executor
) -> None:
    """Set in place the burstiness of documents that totals contain once."""
    X = corpus.fetch(evenly(corpus.n_docs, N_DOCS))
    batch = Batch.from_counts(X, posterior.state.n_components)
    stop, doc_weights = LocalStop(MAX_ITER, TOL), np.ones(batch.n_docs)
    given = StepInput(posterior, batch, stop, executor, Visit(remembered=doc_weights))
    step = CollapsedStep.prepare(given)
    burstiness = learn_burstiness(
        X, lambda b: step.seat(b, batch, executor), posterior.state.burstiness
    )
    posterior.set_state(burstiness=burstiness)


@dataclass(eq=False)
class LearnBurstiness(Moves):
    """Moves that learn burstiness, then let topics explain tables."""

    moves: Moves  # those that end topics, or none

    def end_round(
        self, learner: Learner, round: Round, results: Sequence[Collected]
    ) -> None:
        """End topics without tokens after a round."""
        self.moves.end_round(learner, round, results)

    def end_pass(self, learner: Learner, monitor: Monitor) -> bool:
        """Learn burstiness if it is due; return whether to test convergence."""
        has_stayed = self.moves.end_pass(learner, monitor)
        posterior, n_passes = learner.posterior, learner.n_passes
        if n_passes == 1 or n_passes % SPACING == 0:
            suit_burstiness_to(learner.corpus, posterior, learner.local_step.executor)
            posterior.set_state(by_tables=n_passes >= PLAIN_PASSES)
        is_due = posterior.state.burstiness is None or n_passes > PLAIN_PASSES
        return has_stayed and is_due
