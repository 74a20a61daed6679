"""Learning a tree of topics from documents that remember their paths, with moves.

A document is counted once, with what it said when it was last visited, so that bounds
are those of the whole corpus. Moves are judged on the documents that they touch: these
are visited under the edited tree, all others keep what they said, and the edit is kept
if the collapsed bound of the corpus rises.
"""

from collections.abc import Mapping

import numpy as np

from skbnp.inference.edits import Lineage
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.moves.tree_moves import TreeMoves
from skbnp.inference.moves.tree_proposals import Proposal, Scene, kinds_of, prune
from skbnp.inference.paths import DocPaths
from skbnp.inference.posterior import Posterior
from skbnp.inference.tree_corpus import PathVisitor, TreeCorpus
from skbnp.models.ncrp_topics import PathStats, TopicTree, settle
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, stream

__all__ = ["LEAST_GAIN", "LEAST_MASS", "TreeLearner"]

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


class TreeLearner:
    """Passes over a corpus, and moves after each.

    Parameters
    ----------
    posterior : Posterior
        Learned in place; consistent at any moment at which an exception can arrive.
    corpus : TreeCorpus
    visitor : PathVisitor
    memoized : bool
        Update the globals after each part of the corpus instead of after all.
    moves : TreeMoves or None
    tidy : bool
        End leaves that hardly any document visits, after passes without other moves.
    others : PathStats or None
        What documents said that are not visited again, by the present tree.
    """

    has_ended = False

    def __init__(
        self,
        posterior: Posterior,
        corpus: TreeCorpus,
        visitor: PathVisitor,
        *,
        memoized: bool,
        moves: TreeMoves | None,
        tidy: bool = False,
        others: PathStats | None = None,
    ):
        self.posterior, self.corpus, self.visitor = posterior, corpus, visitor
        self.memoized, self.moves = memoized, moves
        self.tidy, self.others, self.n_passes = tidy, others, 0
        self.rests: dict[tuple, tuple[int, int]] = {}  # pass to wait for, and how long

    @property
    def _n_levels(self) -> int:
        return self.posterior.model.priors.n_levels

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; whether no move was accepted, so that the bound can settle."""
        n_accepted = 0
        if self.corpus.n_docs:
            self._visit(monitor)
            if self.moves is not None:
                n_accepted = self._move(self.moves, monitor)
        self.n_passes += 1
        return n_accepted == 0

    def _visit(self, monitor: Monitor) -> None:
        """Visit all documents, and let the globals follow."""
        posterior, corpus = self.posterior, self.corpus
        if self.memoized and corpus.memos:
            for place in range(len(corpus.parts)):
                self._visit_part(place, monitor)
            stats = corpus.sums(posterior.state.tree, self._n_levels)
            with commit():  # rounding errors of the exchanges are gone
                self._settle(stats)
            return
        memos = [self._found(place) for place in range(len(corpus.parts))]
        before, corpus.memos = corpus.memos, memos
        stats = corpus.sums(posterior.state.tree, self._n_levels)
        corpus.memos = before
        if self.others is not None:
            stats = stats.plus(self.others)
        with commit():
            corpus.memos = memos
            self._settle(stats, learn=True)
            posterior.n_steps += 1
            posterior.record(monitor)

    def _found(self, place: int) -> DocPaths:
        posterior, corpus = self.posterior, self.corpus
        return self.visitor.visit(
            posterior.state,
            posterior.model.priors,
            corpus.parts[place],
            corpus.memos[place] if corpus.memos else None,
        )

    def _visit_part(self, place: int, monitor: Monitor) -> None:
        """Exchange what the documents of a part said."""
        posterior, corpus = self.posterior, self.corpus
        found, tree = self._found(place), posterior.state.tree
        X, n_levels = corpus.parts[place], self._n_levels
        old = corpus.sums_of(corpus.memos[place], X, tree, n_levels)
        new = corpus.sums_of(found, X, tree, n_levels)
        stats = posterior.totals.plus(old, -1.0).clipped().plus(new)
        with commit():
            corpus.memos = [*corpus.memos]
            corpus.memos[place] = found
            self._settle(stats, learn=place == len(corpus.parts) - 1)
            posterior.n_steps += 1
            posterior.record(monitor)

    def _settle(self, stats: PathStats, learn: bool = False) -> None:
        posterior = self.posterior
        self._adopt(posterior.state.tree, *settle(posterior.state.tree, stats))
        if learn:
            tree, totals = posterior.state.tree, posterior.totals
            posterior.model = posterior.model.learned(tree, totals)

    def _adopt(
        self,
        old: Tree,
        topics: TopicTree,
        stats: PathStats,
        heirs: Mapping[int, int] | None = None,
    ) -> None:
        posterior = self.posterior
        if self.others is not None:
            self.others = self.others.follow(old, topics.tree, heirs)
        posterior.state, posterior.totals = topics, stats
        posterior.ids = topics.tree.ids

    # -- moves ------------------------------------------------------------------------

    def _move(self, moves: TreeMoves, monitor: Monitor) -> int:
        """Try moves; return how many were accepted."""
        posterior = self.posterior
        rng = stream(posterior.entropy, Purpose.MOVE, posterior.n_steps)
        scene = Scene(posterior, self.corpus, rng)
        n_accepted = self._try_kinds(scene, moves, monitor)
        if n_accepted == 0 and self.tidy:
            n_accepted = self._end_idle(scene, moves)
        if n_accepted:
            with commit():
                posterior.record(monitor)
        return n_accepted

    def _try_kinds(self, scene: Scene, moves: TreeMoves, monitor: Monitor) -> int:
        """Try moves of each kind; return how many were accepted."""
        for leaf in self.posterior.state.idle_leaves(LEAST_MASS):
            self.rests.pop(("prune", leaf), None)
        n_accepted = 0
        for kind in kinds_of(moves):
            if kind.grows and n_accepted >= SHRINKING:
                continue  # there are too many nodes as it is
            n_tries = 0
            for ids in kind.candidates(scene):
                key = (kind.name, *ids)
                until, wait = self.rests.get(key, (0, 0))
                if until > self.n_passes or n_tries == moves.max_tries:
                    continue
                proposal = kind.make(scene, *ids)
                if proposal is None or not scene.has_room(proposal):
                    continue
                n_tries += 1
                monitor.remind(f"pass {self.n_passes + 1}: tries moves ({kind.name})")
                if self._try(proposal, moves.max_rounds):
                    n_accepted += not (proposal.by_rule and proposal.kind == "birth")
                else:
                    wait = max(2 * wait, WAIT)
                    self.rests[key] = self.n_passes + wait, wait
        return n_accepted

    def _end_idle(self, scene: Scene, moves: TreeMoves) -> int:
        """End leaves that nobody would miss; return how many."""
        n_ended = 0
        for leaf in self.posterior.state.idle_leaves(TIDY_MASS):
            proposal = prune(scene, leaf)
            if proposal is not None:
                n_ended += self._try(proposal, moves.max_rounds, -TIDY_COST)
        return n_ended

    def _try(
        self, proposal: Proposal, n_rounds: int, least: float | None = None
    ) -> bool:
        """Visit the documents that a move touches; keep it if their bound rises.

        Or by so many nats at least.
        """
        posterior, corpus, rows = self.posterior, self.corpus, proposal.rows
        model, old, topics = posterior.model, posterior.state.tree, proposal.topics
        X, memo = corpus.take(rows)
        if self.others is not None and X.shape[0] == 0:
            return False  # nobody is here to tell
        said = corpus.sums(old, self._n_levels, rows)
        rest = posterior.totals.plus(said, -1.0).clipped()
        bound, best = model.collapsed_bound(old, posterior.totals), -np.inf
        for _ in range(n_rounds):
            memo = self.visitor.visit(topics, model.priors, X, memo)
            tree = topics.tree
            stats = corpus.sums_of(memo, X, tree, self._n_levels)
            stats = stats.plus(rest.follow(old, tree, proposal.heirs))
            topics, stats = settle(tree, stats)
            value, before = model.collapsed_bound(topics.tree, stats), best
            best = value
            if value - before < LEAST_RISE * (bound - value):
                break
        if least is None:
            more = len(topics.tree) - len(old)
            is_safe = more < 0 or (more == 0 and self.others is None)
            least = -ROUNDING * abs(bound) if is_safe else LEAST_GAIN
        if not (proposal.by_rule or best > bound + least):
            return False
        entry = Lineage(
            posterior.n_steps, proposal.kind, proposal.parents, proposal.children
        )
        memos = corpus.put(rows, memo)
        with commit():
            corpus.memos = memos
            self._adopt(old, topics, stats, proposal.heirs)
            posterior.lineage = [*posterior.lineage, entry]
        return True
