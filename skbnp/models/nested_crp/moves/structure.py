"""Moves of the topic tree of a nested CRP, judged by the collapsed bound of the corpus.

The totals contain each document once, with the paths of its last local step. A move
runs the local step under the edited tree for the documents that it touches; all others
keep their paths. The edit is accepted if the collapsed bound of the corpus rises.
"""

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.tree_moves import TreeMoves
from skbnp.inference.engine import Learner
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior
from skbnp.inference.trials import (
    LEAST_GAIN,
    ROUNDING,
    EditMoves,
    Ids,
    Kind,
    accept,
    run_rounds,
)
from skbnp.models.nested_crp.local import DocPaths
from skbnp.models.nested_crp.memory import PathCache, PathLocalStep, TreeCorpus
from skbnp.models.nested_crp.model import (
    NestedModel,
    PathStats,
    TopicTree,
    update_globals,
)
from skbnp.models.nested_crp.moves.proposals import (
    Context,
    Proposal,
    kinds_of,
    propose_prune,
)
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, stream

__all__ = ["LEAST_MASS", "TreeEdits", "TreeLearner"]

TreeLearner = Learner[Posterior, TreeCorpus, PathLocalStep, PathCache]

#: Accepted moves of other kinds after which a tree does not grow, too.
SHRINKING = 5
#: Documents below which a leaf that has stayed may end at once.
LEAST_MASS = 0.1
#: The same in the end, and nats that this may cost then.
TIDY_MASS, TIDY_COST = 0.5, 1.0


class TreeEdits(EditMoves[Context, Proposal]):
    """Moves of a nested CRP after each pass, judged by the collapsed bound.

    Parameters
    ----------
    moves : TreeMoves
    ends_idle : bool
        Whether leaves with hardly a document are removed after passes without moves.
    """

    ends_idle: bool
    #: The last bound, and of what: rejected moves leave it.
    _bound: tuple[NestedModel, PathStats, float] | None = None

    def __init__(self, moves: TreeMoves, *, ends_idle: bool = False):
        super().__init__(moves)
        self.ends_idle = ends_idle and moves.prune == "elbo"

    def end_pass(self, learner: TreeLearner, monitor: Monitor) -> bool:
        """Try moves; return whether none was accepted, so the fit may converge."""
        posterior = learner.posterior
        rng = stream(posterior.seed_entropy, Purpose.MOVE, posterior.n_steps)
        context = Context(posterior, rng, learner.corpus)
        n_accepted = self._try_kinds(learner, context, monitor)
        if n_accepted == 0 and self.ends_idle:
            n_accepted = self._end_idle(learner, context)
        self._bound = None  # frees its statistics
        if n_accepted:
            with commit():
                monitor.record(posterior)
        return n_accepted == 0

    def _try_kinds(
        self, learner: TreeLearner, context: Context, monitor: Monitor
    ) -> int:
        """Try moves of each kind; return the number of accepted ones."""
        for leaf in learner.posterior.state.idle_leaves(LEAST_MASS):
            for key in (("prune",), ("prune", leaf)):
                self.rejections.forget(key)
        n_accepted = 0
        for kind in kinds_of(self.moves):
            if kind.grows and n_accepted >= SHRINKING:
                continue  # there are too many nodes as it is
            for proposal in self.try_kind(learner, kind, context, monitor):
                n_accepted += not (proposal.ignores_bound and proposal.kind == "birth")
        return n_accepted

    def try_kind(
        self,
        learner: TreeLearner,
        kind: Kind[Context, Proposal],
        context: Context,
        monitor: Monitor,
    ) -> list[Proposal]:
        """Try the candidates of a kind; it waits if all of them are rejected.

        Once a tree has converged, trials at each pass would take ten times its time.
        """
        key, now = (kind.name,), learner.n_passes
        if not self.rejections.is_over(key, now):
            return []
        accepted = super().try_kind(learner, kind, context, monitor)
        if accepted:
            self.rejections.forget(key)
        elif not kind.ignores_bound:
            self.rejections.add(key, now)
        return accepted

    def _end_idle(self, learner: TreeLearner, context: Context) -> int:
        """Remove leaves of less than half a document; return their number."""
        n_ended = 0
        for leaf in learner.posterior.state.idle_leaves(TIDY_MASS):
            proposal = propose_prune(context, leaf)
            if proposal is not None:
                n_ended += self.attempt(learner, proposal, -TIDY_COST)
        return n_ended

    def attempt(
        self, learner: TreeLearner, proposal: Proposal, least: float | None = None
    ) -> bool:
        """Run the local step of touched documents; accept if the bound rises.

        The least rise is `least` nats.
        """
        posterior, corpus, cache = learner.posterior, learner.corpus, learner.cache
        old, new = posterior.state.tree, proposal.tree
        X, memo = corpus.take(proposal.rows)
        if cache.others is not None and X.shape[0] == 0:
            return False  # no document here could judge it
        bound = self._present_bound(posterior)
        if least is None:
            is_safe = len(new) < len(old)
            is_safe |= len(new) == len(old) and cache.others is None
            least = -ROUNDING * abs(bound) if is_safe else LEAST_GAIN
        rounds = _update_touched(learner, proposal, X, memo)
        value, result = run_rounds(rounds, bound, least, self.moves.max_rounds)
        if not (proposal.ignores_bound or value > bound + least):
            return False
        topics, stats, memo = result
        memos = corpus.put(proposal.rows, memo)

        def remember() -> None:
            corpus.memos = memos
            cache.reindex_to(old, topics.tree, proposal.merged_into)

        accept(posterior, proposal, topics, stats, remember)
        return True

    def _present_bound(self, posterior: Posterior) -> float:
        """Return the collapsed bound of the corpus."""
        last, model, stats = self._bound, posterior.model, posterior.global_stats
        if last is None or last[0] is not model or last[1] is not stats:
            bound = model.collapsed_bound(posterior.state.tree, stats)
            last = self._bound = model, stats, bound
        return last[2]


def _update_touched(
    learner: TreeLearner, proposal: Proposal, X: sp.csr_array, memo: DocPaths
) -> Iterator[tuple[float, tuple[TopicTree, PathStats, DocPaths]]]:
    """Run local steps of the documents that a move touches, under the edited tree.

    Topics are updated after each step; yields the collapsed bound, and the result.
    """
    posterior, corpus, topics = learner.posterior, learner.corpus, proposal.topics
    model, old = posterior.model, posterior.state.tree
    n_levels = model.priors.n_levels
    old_stats = corpus.sum_part(memo, X, old, n_levels)
    rest = posterior.global_stats.plus(old_stats, -1.0).clipped()
    rest, tree = rest.reindex_to(old, topics.tree, proposal.merged_into), topics.tree
    # Documents that a node has lost may go anywhere, others to what the move changes.
    open_to = _below(tree, proposal.children) if proposal.children else None
    while True:
        memo = learner.local_step.update_paths(topics, model.priors, X, memo, open_to)
        open_to = _below(tree, proposal.children)
        if not np.array_equal(topics.tree.ids, tree.ids):
            rest, tree = rest.reindex_to(tree, topics.tree), topics.tree
        stats = corpus.sum_part(memo, X, tree, n_levels).plus(rest)
        topics, stats = update_globals(tree, stats)
        yield model.collapsed_bound(topics.tree, stats), (topics, stats, memo)


def _below(tree: Tree, nodes: Ids) -> NDArray[np.intp]:
    """Ids of some nodes, and of all nodes below them."""
    return np.concatenate([np.empty(0, np.intp), *map(tree.subtree_of, nodes)])
