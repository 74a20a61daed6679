"""Moves of a topic tree: what they touch is visited under the edited tree.

A document is counted once, with what it said when it was last visited, so that bounds
are those of the whole corpus. A move is judged on the documents that it touches: all
others keep what they said, and the edit is kept if the collapsed bound of the corpus
rises.
"""

import numpy as np

from skbnp.inference.edits import Lineage
from skbnp.inference.engine import Learner
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.protocols import Moves
from skbnp.models.nested_crp.memory import PathMemory, PathVisitor, TreeCorpus
from skbnp.models.nested_crp.model import update_globals
from skbnp.models.nested_crp.moves.proposals import (
    Context,
    Proposal,
    kinds_of,
    propose_prune,
)
from skbnp.models.nested_crp.moves.settings import TreeMoves
from skbnp.utils.random import Purpose, stream

__all__ = ["LEAST_GAIN", "LEAST_MASS", "TreeEdits", "TreeLearner"]

TreeLearner = Learner[TreeCorpus, PathVisitor, PathMemory]

#: Nats by which a move must raise the bound that adds nodes, or that gives them other
#: parents where most documents cannot answer.
LEAST_GAIN = 1.0
#: Relative rounding errors of a bound: one that removes nodes may lose so much.
ROUNDING = 1e-10
#: Accepted moves of other kinds after which a tree does not grow, too.
SHRINKING = 5
#: A trial ends when a round makes up for less than this part of what is missing.
LEAST_RISE = 0.1
#: Documents below which a leaf that has stayed may end at once.
LEAST_MASS = 0.1
#: The same in the end, and nats that this may cost then.
TIDY_MASS, TIDY_COST = 0.5, 1.0
#: Passes until a rejected move is tried again, doubled with each rejection.
WAIT = 4


class TreeEdits(Moves):
    """Moves after each pass, judged by the collapsed bound.

    Parameters
    ----------
    moves : TreeMoves
    ends_idle : bool
        End leaves that hardly any document visits, after passes without other moves.
    """

    def __init__(self, moves: TreeMoves, *, ends_idle: bool = False):
        self.moves, self.ends_idle = moves, ends_idle
        self.rests: dict[tuple, tuple[int, int]] = {}  # pass to wait for, and how long

    def end_pass(self, learner: TreeLearner, monitor: Monitor) -> bool:
        """Try moves; whether none was accepted, so that the bound can settle."""
        posterior = learner.posterior
        rng = stream(posterior.entropy, Purpose.MOVE, posterior.n_steps)
        context = Context(posterior, learner.corpus, rng)
        n_accepted = self._try_kinds(learner, context, monitor)
        if n_accepted == 0 and self.ends_idle:
            n_accepted = self._end_idle(learner, context)
        if n_accepted:
            with commit():
                posterior.record(monitor)
        return n_accepted == 0

    def _try_kinds(
        self, learner: TreeLearner, context: Context, monitor: Monitor
    ) -> int:
        """Try moves of each kind; return how many were accepted."""
        for leaf in learner.posterior.state.idle_leaves(LEAST_MASS):
            self.rests.pop(("prune", leaf), None)
        n_accepted, n_passes, moves = 0, learner.n_passes - 1, self.moves
        for kind in kinds_of(moves):
            if kind.grows and n_accepted >= SHRINKING:
                continue  # there are too many nodes as it is
            n_tries = 0
            for ids in kind.candidates(context):
                key = (kind.name, *ids)
                until, wait = self.rests.get(key, (0, 0))
                if until > n_passes or n_tries == moves.max_tries:
                    continue
                proposal = kind.make(context, *ids)
                if proposal is None or not context.has_room(proposal):
                    continue
                n_tries += 1
                monitor.remind(f"pass {learner.n_passes}: tries moves ({kind.name})")
                if self._try(learner, proposal, moves.max_rounds):
                    n_accepted += not (proposal.by_rule and proposal.kind == "birth")
                else:
                    wait = max(2 * wait, WAIT)
                    self.rests[key] = n_passes + wait, wait
        return n_accepted

    def _end_idle(self, learner: TreeLearner, context: Context) -> int:
        """End leaves that nobody would miss; return how many."""
        n_ended, n_rounds = 0, self.moves.max_rounds
        for leaf in learner.posterior.state.idle_leaves(TIDY_MASS):
            proposal = propose_prune(context, leaf)
            if proposal is not None:
                n_ended += self._try(learner, proposal, n_rounds, -TIDY_COST)
        return n_ended

    def _try(
        self,
        learner: TreeLearner,
        proposal: Proposal,
        n_rounds: int,
        least: float | None = None,
    ) -> bool:
        """Visit the documents that a move touches; keep it if their bound rises.

        Or by so many nats at least.
        """
        posterior, corpus, rows = learner.posterior, learner.corpus, proposal.rows
        memory, n_levels = learner.memory, posterior.model.priors.n_levels
        model, old, topics = posterior.model, posterior.state.tree, proposal.topics
        X, memo = corpus.take(rows)
        if memory.others is not None and X.shape[0] == 0:
            return False  # no document here could judge it
        said = corpus.sums(old, n_levels, rows)
        rest = posterior.totals.plus(said, -1.0).clipped()
        bound, best = model.collapsed_bound(old, posterior.totals), -np.inf
        for _ in range(n_rounds):
            memo = learner.visitor.visit_paths(topics, model.priors, X, memo)
            tree = topics.tree
            stats = corpus.sum_part(memo, X, tree, n_levels)
            stats = stats.plus(rest.follow(old, tree, proposal.heirs))
            topics, stats = update_globals(tree, stats)
            value, before = model.collapsed_bound(topics.tree, stats), best
            best = value
            if value - before < LEAST_RISE * (bound - value):
                break
        if least is None:
            more = len(topics.tree) - len(old)
            is_safe = more < 0 or (more == 0 and memory.others is None)
            least = -ROUNDING * abs(bound) if is_safe else LEAST_GAIN
        if not (proposal.by_rule or best > bound + least):
            return False
        entry = Lineage(
            posterior.n_steps, proposal.kind, proposal.parents, proposal.children
        )
        memos = corpus.put(rows, memo)
        with commit():
            corpus.memos = memos
            memory.follow(old, topics.tree, proposal.heirs)
            posterior.replace_globals(topics, stats)
            posterior.lineage = [*posterior.lineage, entry]
        return True
