"""Online learning of a topic tree: one update per minibatch, and moves."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from skbnp.inference.edits import Lineage
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor, new_history
from skbnp.inference.moves.tree_moves import TreeMoves
from skbnp.inference.posterior import Posterior
from skbnp.inference.schedules import OnlineSchedule, Round
from skbnp.inference.tree_corpus import PathVisitor, TreeCorpus, some_rows, sums_of
from skbnp.inference.tree_learning import LEAST_MASS, TreeLearner
from skbnp.models.ncrp_topics import PathStats, settle
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, stream

__all__ = ["OnlineTree", "advance_tree", "restructure"]

#: Moves that more documents would favour, too, and those that they might oppose.
GROWTH, GROUPING = ("split", "split_leaf", "grow"), ("merge", "reattach")
#: The tree changes by so many documents at least, in so many passes at the most.
LEAST_DOCS, MOST_PASSES = 20, 3
#: Documents by which the tree changes, at the most.
MOST_DOCS = 2000


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
        for round in self.schedule.one_pass(self.n_passes):
            rows = self.X[round.rows]
            advance_tree(posterior, rows, round, self.visitor, monitor, self.moves)
        self.n_passes += 1
        before = len(posterior.lineage)
        if self.n_passes & (self.n_passes - 1) == 0:
            n_docs = self.X.shape[0]
            restructure(posterior, self.X, self.visitor, self.moves, n_docs)
        return len(posterior.lineage) == before


def advance_tree(
    posterior: Posterior,
    X: sp.csr_array,
    round: Round,
    visitor: PathVisitor,
    monitor: Monitor,
    moves: TreeMoves | None,
    n_new: int = 0,
) -> None:
    """Visit a minibatch, absorb what it says, and change the tree where that helps."""
    model, tree = posterior.model, posterior.state.tree
    found = visitor.visit(posterior.state, model.priors, X)
    fresh = sums_of(found, X, tree, model.priors.n_levels)
    stats = posterior.totals.blended(fresh, 1.0 - round.step, round.step * round.scale)
    with commit():
        posterior.state, posterior.totals = settle(tree, stats)
        posterior.ids = posterior.state.tree.ids
        posterior.n_steps += 1
        posterior.n_seen += n_new
        if round.ends_pass:
            posterior.model = model.learned(posterior.state.tree, posterior.totals)
        posterior.record(monitor)
    if moves is not None:
        _end_idle(posterior)


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


def restructure(
    posterior: Posterior,
    X: sp.csr_array,
    visitor: PathVisitor,
    moves: TreeMoves | None,
    total: float,
) -> None:
    """Change the tree by many documents, which stand for `total`.

    Some of them, if there are more than enough, are learned from like a corpus:
    branches grow if these documents alone pay for them, and are grouped by what all
    that they stand for would say.
    """
    n_docs = X.shape[0]
    if moves is None or n_docs < LEAST_DOCS:
        return
    rng = stream(posterior.entropy, Purpose.SOME_DOCS, posterior.n_steps)
    X = some_rows(X, MOST_DOCS, rng)
    scale = total / X.shape[0]
    _learn(posterior, X, visitor, moves, GROWTH, 1.0, scale)
    _learn(posterior, X, visitor, moves, GROUPING, scale, 1.0)


def _learn(
    posterior: Posterior,
    X: sp.csr_array,
    visitor: PathVisitor,
    moves: TreeMoves,
    kinds: tuple[str, ...],
    scale: float,
    gain: float,
) -> None:
    """Let moves of some kinds change the tree.

    What the present topics know of other documents stays, but for the nodes of accepted
    moves: these hold `gain` times what the documents say.
    """
    chunk = replace(posterior, lineage=[])
    corpus = TreeCorpus(X, scale=scale)
    learner = TreeLearner(
        chunk, corpus, visitor, memoized=False, moves=moves, kinds=kinds
    )
    for _ in range(MOST_PASSES):
        if learner.one_pass(Monitor(new_history())):
            break
    if not chunk.lineage:
        return
    old, new = posterior.state.tree, chunk.state.tree
    changed = {name for entry in chunk.lineage for name in entry.parents}
    changed |= {name for entry in chunk.lineage for name in entry.children}
    changed.discard(int(new.ids[0]))
    below = [tree.subtree_of(n) for tree in (old, new) for n in changed if n in tree]
    fresh = np.isin(new.ids, np.concatenate(below))
    stats = posterior.totals.follow(old, new)
    stats.word_counts[fresh] = gain * chunk.totals.word_counts[fresh]
    stats.word_variances[fresh] = gain * chunk.totals.word_variances[fresh]
    stats.stub_masses[fresh] = gain * chunk.totals.stub_masses[fresh]
    log = [entry._replace(step=posterior.n_steps) for entry in chunk.lineage]
    _adopt(posterior, new, stats, log)
