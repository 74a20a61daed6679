"""Moves of the topic tree of a nested CRP, judged by the collapsed bound of the corpus.

The totals contain each document once, with the paths of its last local step. A move
runs the local step under the edited tree for the documents that it touches; all others
keep their paths. The edit is accepted if the collapsed bound of the corpus rises.
"""

from typing import Any

import numpy as np

from skbnp.components.tree_moves import TreeMoves
from skbnp.inference import trials
from skbnp.inference.engine import Learner
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior
from skbnp.models.nested_crp.local import DocPaths
from skbnp.models.nested_crp.memory import PathCache, PathLocalStep, TreeCorpus
from skbnp.models.nested_crp.model import PathStats, TopicTree, update_globals
from skbnp.models.nested_crp.moves.proposals import Context, kinds_of
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, stream

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
