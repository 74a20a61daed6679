"""Moves of a tree of components that learns online, judged by the rows at hand."""

from dataclasses import replace

import numpy as np

from skbnp.components.tree_moves import TreeMoves
from skbnp.inference.engine import Learner
from skbnp.inference.interrupts import commit
from skbnp.inference.memory import RunningAverage
from skbnp.inference.monitor import Monitor, discarding
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus, CountingMoves
from skbnp.inference.schedules import BatchSchedule
from skbnp.inference.trials import ROUNDING
from skbnp.models.hca.memory import RowMemory, RowVisitor
from skbnp.models.hca.model import settle
from skbnp.models.hca.moves.structure import ComponentEdits
from skbnp.models.hca.start import some_rows
from skbnp.utils.random import Purpose, stream

__all__ = ["StreamEdits"]

StreamOfRows = Learner[Posterior, Corpus, RowVisitor, RunningAverage]

#: Rows of a chunk by which the tree changes, at the least, and passes at the most.
LEAST_ROWS, MOST_PASSES = 20, 100


class StreamEdits(CountingMoves):
    """Moves after a chunk of a stream, judged by its rows and by what others said.

    A row counts once at the most, for however many it stands in the totals: else the
    first rows of a long stream would ask for a tree of their noise.

    Parameters
    ----------
    moves : TreeMoves
    tol : float
        See `ComponentEdits`.
    """

    def __init__(self, moves: TreeMoves, tol: float):
        self.moves, self.tol = moves, tol

    def end_pass(self, learner: StreamOfRows, monitor: Monitor) -> bool:
        """Change the tree; whether it has stayed."""
        posterior, X = learner.posterior, learner.corpus.X
        if len(X) < LEAST_ROWS:
            return True
        before, mass = len(posterior.lineage), posterior.totals.n_rows
        rng = stream(posterior.entropy, Purpose.SOME_DOCS, posterior.n_steps)
        X = X[some_rows(np.arange(len(X)), rng)]
        held, others = self._held / len(X), None
        share = min(1.0, 1.0 / held)  # by which all count where moves are judged
        if self._held < (1.0 - ROUNDING) * mass:
            others = posterior.totals.times(share * (1.0 - self._held / mass))
        chunk, edits = replace(posterior), ComponentEdits(self.moves, self.tol)
        rows, schedule = Corpus(X), BatchSchedule(len(X))
        memory = RowMemory(share * held, others)
        inner = Learner(chunk, rows, schedule, learner.visitor, memory, edits)
        quiet = discarding()
        for _ in range(MOST_PASSES):
            if inner.one_pass(quiet):
                break
        state, totals = chunk.state, chunk.totals
        if share < 1.0:
            state, totals = settle(chunk.model, state, totals.times(1.0 / share))
        with commit():
            posterior.replace_globals(state, totals)
            log = [entry._replace(step=posterior.n_steps) for entry in chunk.lineage]
            posterior.lineage = posterior.lineage + log[before:]
        return len(posterior.lineage) == before
