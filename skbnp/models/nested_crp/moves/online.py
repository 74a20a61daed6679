"""Moves of a topic tree that learns online, judged by the documents available."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from skbnp.components.tree_moves import TreeMoves
from skbnp.inference.engine import Learner
from skbnp.inference.interrupts import commit
from skbnp.inference.memory import RunningAverage
from skbnp.inference.monitor import Monitor, discarding
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import Corpus, CountingMoves
from skbnp.models.nested_crp.memory import (
    PathCache,
    PathLocalStep,
    TreeCorpus,
    some_rows,
)
from skbnp.models.nested_crp.model import PathStats, update_globals
from skbnp.models.nested_crp.moves.structure import LEAST_MASS, TreeEdits
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, stream

__all__ = ["OnlineTreeEdits", "restructure"]

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

    Parameters
    ----------
    moves : TreeMoves
    """

    moves: TreeMoves

    def __init__(self, moves: TreeMoves):
        self.moves, self._n_counted = moves, 0.0

    def end_pass(self, learner: OnlineTreeLearner, monitor: Monitor) -> bool:
        """Try moves if they are due; return whether the tree is unchanged."""
        posterior = learner.posterior
        n_logged = len(posterior.lineage)
        if learner.n_passes & (learner.n_passes - 1) == 0:
            X, local_step = learner.corpus.X, learner.local_step
            restructure(posterior, X, local_step, self.moves, monitor, self._n_counted)
        return len(posterior.lineage) == n_logged


def restructure(
    posterior: Posterior,
    X: sp.csr_array,
    local_step: PathLocalStep,
    moves: TreeMoves,
    monitor: Monitor,
    counts: float,
) -> None:
    """Try moves of the tree in place, judged by documents that were learned from.

    These documents stand for the `counts` documents that the totals contain; the
    statistics of all others are fixed. Changes of the statistics of these documents are
    scaled to `counts` in the totals.
    """
    if X.shape[0] < LEAST_DOCS:
        return
    before = len(posterior.lineage)
    rng = stream(posterior.seed_entropy, Purpose.SOME_DOCS, posterior.n_steps)
    _learn(posterior, some_rows(X, MOST_DOCS, rng), local_step, moves, counts)
    _end_idle(posterior)
    if len(posterior.lineage) > before:
        with commit():
            monitor.record(posterior)


def _learn(
    posterior: Posterior,
    X: sp.csr_array,
    local_step: PathLocalStep,
    moves: TreeMoves,
    counts: float,
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
    n_levels, quiet = posterior.model.priors.n_levels, discarding()
    learner.one_pass(quiet)
    old = chunk.state.tree
    old_stats = corpus.sums(old, n_levels)
    learner.moves = TreeEdits(moves)
    for _ in range(MOST_PASSES):
        if learner.one_pass(quiet):
            break
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
    stats = posterior.global_stats.reindex_to(posterior.state.tree, new, merged_into)
    stats = stats.plus(change, counts / (ahead * X.shape[0])).clipped()
    stats = stats.times(mass / stats.stub_masses.sum())
    log = [entry._replace(step=posterior.n_steps) for entry in chunk.lineage]
    _adopt(posterior, new, stats, log)


def _end_idle(posterior: Posterior) -> None:
    """Remove leaves with hardly a document in the totals, in place."""
    new = tree = posterior.state.tree
    for leaf in posterior.state.idle_leaves(LEAST_MASS):
        new = new.remove_upwards(leaf)
    if new is not tree:
        gone = tuple(np.setdiff1d(tree.ids, new.ids).tolist())
        stats = posterior.global_stats.reindex_to(tree, new)
        _adopt(posterior, new, stats, [Lineage(posterior.n_steps, "prune", gone, ())])


def _adopt(
    posterior: Posterior, tree: Tree, stats: PathStats, log: list[Lineage]
) -> None:
    """Replace tree, totals and ids of a posterior in place, in one commit."""
    topics, stats = update_globals(tree, stats)
    with commit():
        posterior.replace_globals(topics, stats)
        posterior.lineage = [*posterior.lineage, *log]
