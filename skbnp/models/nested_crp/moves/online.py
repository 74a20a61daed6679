"""Moves of a topic tree that learns online, judged by the documents available."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from skbnp.components.tree_moves import TreeMoves
from skbnp.inference.engine import Learner
from skbnp.inference.interrupts import commit
from skbnp.inference.memory import RunningAverage
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import Corpus, CountingMoves
from skbnp.inference.trials import adopt, idle_leaves, learn_by_moves
from skbnp.models.nested_crp.memory import PathCache, PathLocalStep, TreeCorpus
from skbnp.models.nested_crp.model import update_globals
from skbnp.models.nested_crp.moves.structure import LEAST_MASS, TreeEdits
from skbnp.utils.random import Purpose, some_rows, stream

#: The tree changes by so many documents at least, in so many passes at most.
LEAST_DOCS, MOST_PASSES = 20, 3
#: Documents by which the tree changes, at most.
MOST_DOCS = 2000
#: Documents behind each of them where moves are judged: a branch grows if it would pay
#: for itself among so many times as many. With 1, branches of a few documents per call
#: hardly ever grow; with 3, noise does.
AHEAD = 2.0


OnlineTreeLearner = Learner[Posterior, Corpus, PathLocalStep, RunningAverage]


class OnlineTreeEdits(CountingMoves):
    """Moves of a nested CRP after passes 1, 2, 4, .. of a stream, or after a chunk.

    Some documents that were learned from judge them. These stand for those that the
    pass has in the totals; the statistics of all others are fixed. Changes of their
    statistics are scaled to that number in the totals.
    """

    moves: TreeMoves

    def __init__(self, moves: TreeMoves):
        self.moves, self._n_counted = moves, 0.0

    def end_pass(self, learner: OnlineTreeLearner, monitor: Monitor) -> bool:
        """Try moves if they are due; return whether the tree is unchanged."""
        posterior, X, n_passes = learner.posterior, learner.corpus.X, learner.n_passes
        if n_passes & (n_passes - 1) or X.shape[0] < LEAST_DOCS:
            return True
        n_logged = len(posterior.lineage)
        rng = stream(posterior.seed_entropy, Purpose.SOME_DOCS, posterior.n_steps)
        X = X[some_rows(np.arange(X.shape[0]), rng, MOST_DOCS)]
        self._learn(posterior, X, learner.local_step)
        _end_idle(posterior)
        if len(posterior.lineage) == n_logged:
            return True
        with commit():
            monitor.record(posterior)
        return False

    def _learn(
        self, posterior: Posterior, X: sp.csr_array, local_step: PathLocalStep
    ) -> None:
        """Learn documents with moves, and adopt the tree if moves changed it."""
        mass = float(posterior.global_stats.stub_masses.sum())
        known = max(mass / X.shape[0], 1.0)
        ahead, others = min(AHEAD, known), None
        if known > ahead:
            others = posterior.global_stats.times(1.0 - ahead / known)
        chunk, corpus = replace(posterior, lineage=[]), TreeCorpus(X, scale=ahead)
        cache, schedule = PathCache(corpus, others), corpus.schedule()
        learner = Learner(chunk, corpus, schedule, local_step, cache)
        n_levels = posterior.model.n_levels
        learn_by_moves(learner, 1)
        old = chunk.state.tree
        old_stats = corpus.sums(old, n_levels)
        learner.moves = TreeEdits(self.moves)
        learn_by_moves(learner, MOST_PASSES)
        if not chunk.lineage:
            return
        new = chunk.state.tree
        merged_into = {
            ends: stays
            for entry in chunk.lineage
            if entry.kind == "merge"
            for stays, ends in zip(entry.parents[::2], entry.parents[1::2], strict=True)
        }
        change = corpus.sums(new, n_levels).plus(
            old_stats.reindex_to(old, new, merged_into), -1.0
        )
        stats = posterior.global_stats.reindex_to(
            posterior.state.tree, new, merged_into
        )
        stats = stats.plus(change, self._n_counted / (ahead * X.shape[0])).clipped()
        stats = stats.times(mass / stats.stub_masses.sum())
        adopt(posterior, *update_globals(new, stats), chunk.lineage)


def _end_idle(posterior: Posterior) -> None:
    """Remove leaves with hardly a document in the totals, in place."""
    new = tree = posterior.state.tree
    for leaf in idle_leaves(posterior, LEAST_MASS):
        new = new.remove_upwards(leaf)
    if new is not tree:
        gone = tuple(np.setdiff1d(tree.ids, new.ids).tolist())
        stats = posterior.global_stats.reindex_to(tree, new)
        log = [Lineage(posterior.n_steps, "prune", gone, ())]
        adopt(posterior, *update_globals(new, stats), log)
