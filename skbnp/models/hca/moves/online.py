"""Moves of a component analysis that learns online, judged by the latest rows."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skbnp.components.tree_moves import TreeMoves
from skbnp.inference.engine import Learner
from skbnp.inference.interrupts import commit
from skbnp.inference.memory import RunningAverage
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import Corpus, CountingMoves
from skbnp.inference.schedules import BatchSchedule
from skbnp.inference.trials import ROUNDING, adopt, bound_of, learn_by_moves
from skbnp.models.hca.memory import RowCache, RowLocalStep
from skbnp.models.hca.moves.structure import ComponentEdits
from skbnp.models.hca.start import path_of_directions
from skbnp.models.hca.state import Stats
from skbnp.models.hca.updates import coordinate_ascent
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, some_rows, stream
from skbnp.utils.typing import Array

StreamOfRows = Learner[Posterior, Corpus, RowLocalStep, RunningAverage]

#: Rows by which the tree changes, at least, and passes at most.
LEAST_ROWS, MOST_PASSES = 20, 100
#: Rows that are kept from chunk to chunk, at most, and entries of these.
MOST_ROWS, MOST_ENTRIES = 1024, 1 << 22


@dataclass(frozen=True, slots=True)
class RecentRows:
    """Latest rows of a stream, which judge branches: one chunk may be too few."""

    rows: Array = field(default_factory=lambda: np.zeros((0, 0)))
    mass: float = 0.0  # rows of the totals for which they stand
    n_new: int = 0  # of them, since the tree has changed by them
    n_last: int = 0  # rows by which it changed then

    @property
    def is_due(self) -> bool:
        """Whether as many rows are new as there were when the tree last changed."""
        return self.n_new >= max(LEAST_ROWS, min(self.n_last, len(self.rows)))

    def add(self, X: NDArray) -> "RecentRows":
        """Append a chunk, and drop the oldest rows if there are too many."""
        most, rows = _most_rows(X), X
        n_old = min(len(self.rows), max(most - len(X), 0))
        if len(X) < most:  # a large chunk is due at once, and not kept as a whole
            old = self.rows[len(self.rows) - n_old :] if n_old else X[:0]
            rows = np.concatenate([old, X], dtype=np.float64)
        mass = self.mass * (n_old / max(len(self.rows), 1))
        return RecentRows(rows, mass, self.n_new + len(X), self.n_last)

    def tried(self) -> "RecentRows":
        """Return the record after moves; of a large chunk, its last rows."""
        rows = self.rows[-_most_rows(self.rows) :].astype(np.float64)
        mass = self.mass * (len(rows) / len(self.rows))
        return RecentRows(rows, mass, 0, len(rows))


def _most_rows(X: NDArray[Any]) -> int:
    return min(MOST_ROWS, max(MOST_ENTRIES // X.shape[1], LEAST_ROWS))


class StreamEdits(CountingMoves):
    """Moves of a stream, judged by its latest rows and the statistics of others.

    A row counts at most once, however many it stands for in the totals: else the first
    rows of a long stream would make a tree of their noise.

    `recent` are the rows of the chunks before, then those for the next one.
    """

    def __init__(self, moves: TreeMoves, tol: float, recent: RecentRows):
        self.moves, self.tol, self.recent = moves, tol, recent

    def begin_pass(self, learner: StreamOfRows) -> None:
        """Add the rows of the chunk to the latest ones."""
        self.recent = self.recent.add(learner.corpus.X)
        self._n_counted = self.recent.mass

    def end_pass(self, learner: StreamOfRows, monitor: Monitor) -> bool:
        """Change the tree if moves are due; return whether it is unchanged."""
        posterior = learner.posterior
        self.recent = replace(self.recent, mass=self._n_counted)
        if not self.recent.is_due:
            return True
        X, is_first = self.recent.rows, self.recent.n_last == 0
        before, mass = len(posterior.lineage), posterior.global_stats.n_rows
        rng = stream(posterior.seed_entropy, Purpose.SOME_DOCS, posterior.n_steps)
        X = X[some_rows(np.arange(len(X)), rng)]
        docs_per_row, others = self._n_counted / len(X), None
        share = min(1.0, 1.0 / docs_per_row)  # of a row, where moves are judged
        if self._n_counted < (1.0 - ROUNDING) * mass:
            kept = share * (1.0 - self._n_counted / mass)
            others = posterior.global_stats.times(kept)
        start, edits = replace(posterior), ComponentEdits(self.moves, self.tol)
        learned = self._learn(learner, start, edits, X, share * docs_per_row, others)
        if others is None and not is_first and len(learned.state.tree.leaves) > 1:
            start = _restarted(learned, X, rng)
            edits = ComponentEdits(self.moves, self.tol, groups_only=True)
            restarted = self._learn(learner, start, edits, X, share * docs_per_row)
            learned = max(learned, restarted, key=bound_of)
        state, global_stats = learned.state, learned.global_stats
        if share < 1.0:
            state, global_stats = coordinate_ascent(
                learned.model, state, global_stats.times(1.0 / share)
            )
        with commit():
            adopt(posterior, state, global_stats, learned.lineage[before:])
            self.recent = self.recent.tried()
        return len(posterior.lineage) == before

    def _learn(
        self,
        learner: StreamOfRows,
        posterior: Posterior,
        edits: ComponentEdits,
        X: NDArray,
        scale: float,
        others: Stats | None = None,
    ) -> Posterior:
        """Learn a tree from the given rows, as `fit` does; return its posterior."""
        rows, schedule = Corpus(X), BatchSchedule(len(X))
        cache = RowCache(scale, others)
        inner = Learner(posterior, rows, schedule, learner.local_step, cache, edits)
        learn_by_moves(inner, MOST_PASSES)
        return posterior


def _restarted(posterior: Posterior, X: NDArray, rng: np.random.Generator) -> Posterior:
    """Return an HCA posterior of one path: a tree of few rows may not suit more."""
    model, old = posterior.model, posterior.state.tree
    first, ended = old.next_id, tuple(old.ids[1:].tolist())
    names = np.arange(first, first + model.n_levels - 1)
    ids = np.append(old.ids[:1], names)
    tree = Tree(ids, np.arange(model.n_levels), first + len(names))
    state = replace(path_of_directions(model, X, rng), tree=tree)
    global_stats = Stats.zero(len(ids), model.n_levels, X.shape[1])
    root = int(ids[0])
    log = [
        Lineage(posterior.n_steps, "split", (root,), (root, *names.tolist())),
        Lineage(posterior.n_steps, "prune", ended, ()),
    ]
    return replace(
        posterior,
        state=state,
        global_stats=global_stats,
        ids=ids,
        lineage=[*posterior.lineage, *log],
    )
