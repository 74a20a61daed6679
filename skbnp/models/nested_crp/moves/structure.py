"""Moves of the topic tree of a nested CRP, judged by the collapsed bound of the corpus.

The totals contain each document once, with the paths of its last local step. A move
runs the local step under the edited tree for the documents that it touches; all others
keep their paths. The edit is accepted if the collapsed bound of the corpus rises.

Moves of a topic tree that learns online, judged by the documents available.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from skbnp.components.tree_moves import TreeMoves
from skbnp.inference import trials
from skbnp.inference.engine import Learner
from skbnp.inference.executor import commit
from skbnp.inference.memory import RunningAverage
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import Corpus, CountingMoves
from skbnp.inference.trials import adopt, idle_leaves, learn_by_moves
from skbnp.models.nested_crp.local import DocPaths
from skbnp.models.nested_crp.memory import PathCache, PathLocalStep, TreeCorpus
from skbnp.models.nested_crp.model import PathStats, TopicTree, update_globals
from skbnp.models.nested_crp.moves.proposals import Context, kinds_of
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, some_rows, stream

TreeLearner = Learner[Posterior, TreeCorpus, PathLocalStep, PathCache]

#: Accepted moves of other kinds after which a tree does not grow, too.
SHRINKING = 5
#: Documents below which a leaf that has stayed may end at once.
LEAST_MASS = 0.1
#: The same in the end, and nats that this may cost then.
TIDY_MASS, TIDY_COST = 0.5, 1.0


class TreeEdits(trials.EditMoves):
    """Moves of a nested CRP after each pass, judged by the collapsed bound.

    With `ends_idle`, leaves with hardly a document are removed after passes without
    moves.
    """

    ends_idle: bool

    def __init__(self, moves: TreeMoves, *, ends_idle: bool = False):
        super().__init__(moves)
        self.ends_idle = ends_idle and moves.algorithm == "default"

    def end_pass(self, learner: TreeLearner, monitor: Monitor) -> bool:
        """Try moves; return whether none was accepted, so the fit may converge."""
        posterior = learner.posterior
        rng = stream(posterior.seed_entropy, Purpose.MOVE, posterior.n_steps)
        context = Context(posterior, rng, learner.corpus)
        n_accepted = self._try_kinds(learner, context, monitor)
        if n_accepted == 0 and self.ends_idle:
            n_accepted = self._end_idle(learner, context)
        self._present = None  # frees its statistics
        if n_accepted:
            with commit():
                monitor.record(posterior)
        return n_accepted == 0

    def _try_kinds(
        self, learner: TreeLearner, context: Context, monitor: Monitor
    ) -> int:
        """Try moves of each kind; return the number of accepted ones."""
        for leaf in trials.idle_leaves(learner.posterior, LEAST_MASS):
            for key in (("prune",), ("prune", leaf)):
                self.rejections.forget(key)
        n_accepted = 0
        for kind in kinds_of(self.moves):
            if kind.grows and n_accepted >= SHRINKING:
                continue  # there are too many nodes as it is
            n_made = self.try_kind(learner, kind, context, monitor)
            n_accepted += n_made * (not (kind.ignores_bound and kind.name == "grow"))
        return n_accepted

    def try_kind(
        self, learner: Learner, kind: trials.Kind, context: Context, monitor: Monitor
    ) -> int:
        """Try the candidates of a kind; it waits if all of them are rejected.

        Once a tree has converged, trials at each pass would take ten times its time.
        """
        key, now = (kind.name,), learner.n_passes
        if not self.rejections.is_over(key, now):
            return 0
        n_accepted = super().try_kind(learner, kind, context, monitor)
        if n_accepted:
            self.rejections.forget(key)
        elif not kind.ignores_bound:
            self.rejections.add(key, now)
        return n_accepted

    def _end_idle(self, learner: TreeLearner, context: Context) -> int:
        """Remove leaves of less than half a document; return their number."""
        n_ended = 0
        for leaf in trials.idle_leaves(learner.posterior, TIDY_MASS):
            proposal = trials.propose_prune(context, leaf)
            if proposal is not None:
                n_ended += self.attempt(learner, proposal, least=-TIDY_COST)
        return n_ended

    def attempt(
        self, learner: TreeLearner, proposal: trials.Proposal, **settings: Any
    ) -> bool:
        """Try a proposal, unless it touches no document that could judge it."""
        is_judged = learner.cache.others is None or any(map(len, proposal.rows))
        return is_judged and super().attempt(learner, proposal, **settings)

    def least_gain(self, learner: TreeLearner, new: Tree) -> float:
        """Nats by which the bound must rise for a tree in the place of the present."""
        n_more = len(new) - len(learner.posterior.state.tree)
        if n_more < 0 or (n_more == 0 and learner.cache.others is None):
            return -trials.ROUNDING * abs(self.bound(learner.posterior))
        return trials.LEAST_GAIN

    def prepare(
        self, learner: TreeLearner, proposal: trials.Proposal
    ) -> tuple[PathStats, trials.LocalUpdate]:
        """Statistics of documents that a move does not touch; the step of others."""
        posterior, corpus = learner.posterior, learner.corpus
        priors, local_step = posterior.model.priors, learner.local_step
        X, paths = corpus.take(proposal.rows)
        old_stats = corpus.sum_part(paths, X, posterior.state.tree, priors.n_levels)

        def update(
            topics: TopicTree, last: PathStats | None, memo: DocPaths, rest: PathStats
        ) -> trials.Result:
            # Documents that a node has lost may go anywhere, others to what changes.
            is_first, tree, open_to = last is None, topics.tree, None
            if proposal.children or not is_first:
                below = map(tree.subtree_of, proposal.children)
                open_to = np.concatenate([tree.ids[:0], *below])
            memo = paths if is_first else memo
            memo = local_step.update_paths(topics, priors, X, memo, open_to)
            stats = corpus.sum_part(memo, X, tree, priors.n_levels).plus(rest)
            return *update_globals(tree, stats), memo

        return posterior.global_stats.plus(old_stats, -1.0).clipped(), update


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
