"""Online learning of a topic tree: one update per minibatch, and moves."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from skbnp.inference.edits import Lineage
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor, discarding
from skbnp.inference.moves.tree_moves import TreeMoves
from skbnp.inference.posterior import Posterior
from skbnp.inference.schedules import OnlineSchedule, Round
from skbnp.inference.tree_corpus import PathVisitor, TreeCorpus, some_rows, sums_of
from skbnp.inference.tree_learning import LEAST_MASS, TreeLearner
from skbnp.models.ncrp_topics import PathStats, settle
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, stream

__all__ = ["OnlineTree", "advance_tree", "restructure"]

#: The tree changes by so many documents at least, in so many passes at the most.
LEAST_DOCS, MOST_PASSES = 20, 3
#: Documents by which the tree changes, at the most.
MOST_DOCS = 2000
#: Documents behind each of them where moves are judged: a branch grows if it would pay
#: for itself among so many times as many. With 1, branches of a few documents per call
#: hardly ever grow; with 3, noise does.
AHEAD = 2.0


class OnlineTree:
    """Passes over a corpus in minibatches of random documents.

    Parameters
    ----------
    posterior : Posterior
        Learned in place; consistent at any moment at which an exception can arrive.
    X : csr_array
        Canonical counts, no empty rows.
    schedule : OnlineSchedule
    visitor : PathVisitor
    moves : TreeMoves or None
    """

    has_ended = False

    def __init__(
        self,
        posterior: Posterior,
        X: sp.csr_array,
        schedule: OnlineSchedule,
        visitor: PathVisitor,
        moves: TreeMoves | None,
    ):
        self.posterior, self.X, self.schedule = posterior, X, schedule
        self.visitor, self.moves = visitor, moves
        self.n_passes = 0

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; whether the tree stayed, so that the bound can settle.

        The tree may change after passes 1, 2, 4, 8, ..
        """
        posterior = self.posterior
        rounds = self.schedule.one_pass(self.n_passes)
        held = advance_tree(
            posterior, self.X, rounds, self.visitor, monitor, are_new=False
        )
        self.n_passes += 1
        before = len(posterior.lineage)
        if self.n_passes & (self.n_passes - 1) == 0:
            restructure(posterior, self.X, self.visitor, self.moves, monitor, held)
        return len(posterior.lineage) == before


def advance_tree(
    posterior: Posterior,
    X: sp.csr_array,
    rounds: Iterable[Round],
    visitor: PathVisitor,
    monitor: Monitor,
    *,
    are_new: bool,
) -> float:
    """Visit minibatches of a corpus, and absorb what they say.

    Return the number of documents for which they stand in the totals then.
    """
    held = 0.0
    for round in rounds:
        rows, model = X[round.rows], posterior.model
        found = visitor.visit(posterior.state, model.priors, rows)
        tree = posterior.state.tree
        fresh = sums_of(found, rows, tree, model.priors.n_levels)
        keep, gain = 1.0 - round.step, round.step * round.scale
        stats = posterior.totals.blended(fresh, keep, gain)
        with commit():
            posterior.state, posterior.totals = settle(tree, stats)
            posterior.ids = posterior.state.tree.ids
            posterior.n_steps += 1
            posterior.n_seen += rows.shape[0] if are_new else 0
            if round.ends_pass:
                posterior.model = model.learned(posterior.state.tree, posterior.totals)
            posterior.record(monitor)
        held = keep * held + gain * rows.shape[0]
    return held


def restructure(
    posterior: Posterior,
    X: sp.csr_array,
    visitor: PathVisitor,
    moves: TreeMoves | None,
    monitor: Monitor,
    held: float,
) -> None:
    """Change the tree by some documents, which have been learned from.

    Moves are judged by what these documents and all others say: they take the place of
    as many that the topics know of. Others cannot be visited. What a move changes is
    changed in the totals for as many documents as stand there for these, `held`.
    """
    if moves is None or X.shape[0] < LEAST_DOCS:
        return
    before = len(posterior.lineage)
    rng = stream(posterior.entropy, Purpose.SOME_DOCS, posterior.n_steps)
    _learn(posterior, some_rows(X, MOST_DOCS, rng), visitor, moves, held)
    _end_idle(posterior)
    if len(posterior.lineage) > before:
        with commit():
            posterior.record(monitor)


def _learn(
    posterior: Posterior,
    X: sp.csr_array,
    visitor: PathVisitor,
    moves: TreeMoves,
    held: float,
) -> None:
    """Let moves change the tree."""
    mass = float(posterior.totals.stub_masses.sum())
    known = max(mass / X.shape[0], 1.0)
    ahead, others = min(AHEAD, known), None
    if known > ahead:
        others = posterior.totals.times(1.0 - ahead / known)
    chunk, corpus = replace(posterior, lineage=[]), TreeCorpus(X, scale=ahead)
    learner = TreeLearner(
        chunk, corpus, visitor, memoized=False, moves=None, others=others
    )
    n_levels, quiet = posterior.model.priors.n_levels, discarding()
    learner.one_pass(quiet)
    old = chunk.state.tree
    said = corpus.sums(old, n_levels)
    learner.moves = moves
    for _ in range(MOST_PASSES):
        if learner.one_pass(quiet):
            break
    if not chunk.lineage:
        return
    new = chunk.state.tree
    heirs = {
        entry.parents[1]: entry.parents[0]
        for entry in chunk.lineage
        if entry.kind == "merge"
    }
    change = corpus.sums(new, n_levels).plus(said.follow(old, new, heirs), -1.0)
    stats = posterior.totals.follow(posterior.state.tree, new, heirs)
    stats = stats.plus(change, held / (ahead * X.shape[0])).clipped()
    stats = stats.times(mass / stats.stub_masses.sum())
    log = [entry._replace(step=posterior.n_steps) for entry in chunk.lineage]
    _adopt(posterior, new, stats, log)


def _end_idle(posterior: Posterior) -> None:
    """End leaves that hardly any document visits any more."""
    new = tree = posterior.state.tree
    for leaf in posterior.state.idle_leaves(LEAST_MASS):
        new = new.remove(leaf, upwards=True)
    if new is not tree:
        gone = tuple(np.setdiff1d(tree.ids, new.ids).tolist())
        stats = posterior.totals.follow(tree, new)
        _adopt(posterior, new, stats, [Lineage(posterior.n_steps, "prune", gone, ())])


def _adopt(
    posterior: Posterior, tree: Tree, stats: PathStats, log: list[Lineage]
) -> None:
    topics, stats = settle(tree, stats)
    with commit():
        posterior.state, posterior.totals = topics, stats
        posterior.ids = topics.tree.ids
        posterior.lineage = [*posterior.lineage, *log]
