"""Moves of a tree of components: what they touch is visited under the edited tree.

A row is counted once, with what it said when it was last visited, so that the bound is
that of all rows. Moves are judged on the rows that they touch: these are visited under
the edited tree, all others keep what they said, and the edit is kept if the bound
rises. The tree grows past the size that it needs, then shrinks, in turns.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skbnp.components.tree_moves import TreeMoves
from skbnp.inference.engine import Learner
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor, discarding
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus
from skbnp.inference.trials import (
    LEAST_GAIN,
    ROUNDING,
    EditMoves,
    Kind,
    accept,
    follow,
)
from skbnp.models.hca.local import Memo
from skbnp.models.hca.memory import RowMemory, RowVisitor
from skbnp.models.hca.model import State, Stats, expand, settle, white_noise
from skbnp.models.hca.moves.groups import SIZES, propose_groups
from skbnp.models.hca.moves.proposals import Context, Proposal, kinds_of
from skbnp.utils.random import Purpose, stream

__all__ = ["ComponentEdits", "bound_of", "context_of", "said_by_others"]

ComponentLearner = Learner[Posterior, Corpus, RowVisitor, RowMemory]
Rows = NDArray[np.intp]
#: Globals, statistics of all rows, and what the rows that a move touches say.
Found = tuple[State, Stats, Memo]

#: One that still makes up for more goes on for so many times its rounds.
OVERTIME = 5
#: Splits refused one after the other that end the growth.
PATIENCE = 5
#: Rows of a leaf that has none, and nats by which a smaller tree may be behind: leaves
#: that rows have left keep shares of them that are worth less.
EMPTY, AS_GOOD = 0.5, 1e-6
#: Another turn of growing and shrinking must raise the bound by this part of the nats
#: of white noise.
TURN = 1e-4


@dataclass(frozen=True, slots=True)
class Rival:
    """An edit that was put off, and what it was made of."""

    posterior: Posterior
    memo: Memo | None
    others: Stats | None
    proposal: Proposal
    found: Found


class ComponentEdits(EditMoves[Context, Proposal]):
    """Moves after each pass, judged by the bound.

    Growing and shrinking take turns until nothing is gained.

    Parameters
    ----------
    moves : TreeMoves
    tol : float
        Splits that raise the bound by less are refused, in parts of the nats of white
        noise.
    groups_only : bool
        Whether a single path learns only if groups have a higher bound, from these.
    """

    groups_only: bool
    tol: float
    grows: bool
    has_grown: bool
    n_refused: int
    has_ended: bool
    best: float  # bound where the last turn ended
    has_begun: bool
    rival: Rival | None

    def __init__(self, moves: TreeMoves, tol: float, *, groups_only: bool = False):
        super().__init__(moves)
        self.groups_only, self.tol = groups_only, tol
        self.grows, self.has_grown, self.n_refused = True, False, 0
        self.has_ended, self.best = False, -np.inf
        self.has_begun, self.rival = False, None

    def end_pass(self, learner: ComponentLearner, monitor: Monitor) -> bool:
        """Try moves; whether they have ended, so that the bound can settle."""
        posterior = learner.posterior
        before = len(posterior.lineage)
        if self.has_ended:
            return True
        rng = stream(posterior.entropy, Purpose.MOVE, posterior.n_steps)
        context = context_of(learner, rng)
        if not self.has_begun:
            self.has_begun, self.rival = True, self._find_rival(learner, context)
            if self.groups_only and self.rival is None:
                self.has_ended = True
                return True
        if self.groups_only and self.rival is not None:
            self._let_rival_win(learner, monitor)
        elif self.grows:
            self._grow(learner, context, monitor)
            self.has_grown |= len(posterior.lineage) > before
        else:
            for leaf in _empty_leaves(context):  # not those that were refused
                self.rejections.forget(("prune", leaf))
            for kind in kinds_of(self.moves):
                if not kind.grows:
                    self.try_kind(learner, kind, context, monitor)
            if len(posterior.lineage) == before:
                self._turn(bound_of(posterior), nats_of(posterior))
                if self.has_ended and self.rival is not None:
                    self._let_rival_win(learner, monitor)
        if len(posterior.lineage) > before:
            with commit():
                posterior.record(monitor)
        return False

    def _turn(self, bound: float, nats: float) -> None:
        """Grow again if that has paid since the last time."""
        gain = bound - self.best
        least = max(LEAST_GAIN, TURN * nats)
        self.has_ended = not self.has_grown or gain < least
        self.grows, self.has_grown = True, False
        self.best, self.n_refused = bound, 0

    def _find_rival(
        self, learner: ComponentLearner, context: Context
    ) -> "Rival | None":
        """Let a single path be groups with means of their own, as many as are best.

        Directions that one path shares hide groups that lie along them, so that no
        branch at a time leads there from the path.
        """
        best, rival = 0.0, None
        if not self.moves.split or len(context.tree.leaves) > 1:
            return None
        held, memory = learner.posterior, learner.memory
        for size in SIZES:
            proposal = propose_groups(context, size)
            if proposal is not None and context.has_room(proposal.tree):
                gain, found = self._tried(learner, proposal)
                if gain > best:
                    best = gain
                    rival = Rival(
                        replace(held), memory.memo, memory.others, proposal, found
                    )
        return rival

    def _let_rival_win(self, learner: ComponentLearner, monitor: Monitor) -> None:
        """Go on from the groups by means if these have the higher bound in the end.

        They learn as the path has learned, in as many passes, and grow and shrink by
        moves of their own: groups that are not refined are compared with a tree that
        is.
        """
        rival, posterior = self.rival, learner.posterior
        assert rival is not None
        self.rival = None
        memory = RowMemory(learner.memory.scale, rival.others)
        memory.memo = rival.memo
        inner = learner.fork(replace(rival.posterior), memory)
        inner.moves = edits = ComponentEdits(self.moves, self.tol)
        edits.has_begun = True
        _keep(inner, rival.proposal, rival.found)
        quiet = discarding()
        for _ in range(learner.n_passes):
            monitor.remind(f"pass {learner.n_passes}: tries groups that differ by mean")
            if inner.one_pass(quiet):
                break
        found = inner.posterior
        if not bound_of(found) > bound_of(posterior):
            return
        n_before, step = len(rival.posterior.lineage), posterior.n_steps
        log = [entry._replace(step=step) for entry in found.lineage[n_before:]]
        with commit():
            posterior.model = found.model
            posterior.replace_globals(found.state, found.totals)
            posterior.lineage = [*rival.posterior.lineage, *log]
            learner.memory.memo, learner.memory.others = memory.memo, memory.others
            posterior.record(monitor)
        self.has_ended, self.has_grown, self.best = False, False, -np.inf

    def _grow(
        self, learner: ComponentLearner, context: Context, monitor: Monitor
    ) -> None:
        """Try to add nodes; what was refused several times on end is not wanted."""
        kinds = [kind for kind in kinds_of(self.moves) if kind.grows]
        for kind in kinds:
            for _ in range(self.moves.max_tries):
                proposal = _first(kind, context)
                if proposal is None:
                    self.n_refused = PATIENCE
                    break
                monitor.remind(f"pass {learner.n_passes}: tries moves ({kind.name})")
                accepted = self.attempt(learner, proposal)
                self.n_refused = 0 if accepted else self.n_refused + 1
                if self.n_refused == PATIENCE:
                    break
        self.grows = bool(kinds) and self.n_refused < PATIENCE

    def attempt(self, learner: ComponentLearner, proposal: Proposal) -> bool:
        """Visit the rows that a move touches; keep it if the bound rises."""
        gain, found = self._tried(learner, proposal)
        if gain > 0.0:
            _keep(learner, proposal, found)
        return gain > 0.0

    def _tried(
        self, learner: ComponentLearner, proposal: Proposal
    ) -> tuple[float, Found]:
        """By how much a move raises the bound above what it must, and what it finds."""
        posterior = learner.posterior
        bound, nats = bound_of(posterior), nats_of(posterior)
        least, n_rounds = -ROUNDING * (abs(bound) + nats), self.moves.max_rounds
        size = len(posterior.state.tree)
        if len(proposal.tree) > size:
            least = max(LEAST_GAIN, self.tol * nats)
        elif len(proposal.tree) < size:
            least = min(least, -AS_GOOD)
        rounds = _visit_touched(learner, proposal)
        value, found = follow(rounds, bound, least, n_rounds, OVERTIME * n_rounds)
        return value - bound - least, found


def _keep(learner: ComponentLearner, proposal: Proposal, found: Found) -> None:
    """Let an edit be part of what is learned."""
    state, stats, memo = found
    memory, old = learner.memory, learner.posterior.state.tree
    assert memory.memo is not None
    joined, others = memory.memo.replaced(proposal.rows, memo), memory.others
    if others is not None:
        others = proposal.told(others, old).follow(proposal.tree, state.tree)

    def remember() -> None:
        memory.memo, memory.others = joined, others

    accept(learner.posterior, proposal, state, stats, remember)


def _visit_touched(
    learner: ComponentLearner, proposal: Proposal
) -> Iterator[tuple[float, Found]]:
    """Visit the rows that a move touches, under the edited tree.

    The globals follow after each visit; the bound, and what was found. What is kept in
    the end is what rows have said last, so that coordinates change between visits.
    """
    memory, rows, state = learner.memory, proposal.rows, proposal.state
    model, X = learner.posterior.model, learner.corpus.X[proposal.rows]
    rest = proposal.told(said_by_others(learner, rows, X), learner.posterior.state.tree)
    # Others cannot say what they would with other coordinates.
    top, tree = proposal.top if memory.others is None else proposal.fresh, state.tree
    while True:
        memo, stats = learner.visitor.visit_rows(model, state, X)
        stats = stats.times(memory.scale).plus(rest.follow(tree, state.tree))
        state, stats = settle(model, state, stats)
        yield model.bound(state, stats), (state, stats, memo)
        if top is not None:
            state = expand(model, state, stats, top)


def bound_of(posterior: Posterior) -> float:
    """Bound of all rows."""
    return posterior.model.bound(posterior.state, posterior.totals)


def nats_of(posterior: Posterior) -> float:
    """What changes of the bound of all rows are compared with."""
    totals = posterior.totals
    return white_noise(totals.n_rows, len(totals.total))


def context_of(learner: ComponentLearner, rng: np.random.Generator) -> Context:
    """What proposals are made from."""
    return Context(learner.posterior, rng, learner.memory, learner.corpus.X)


def said_by_others(learner: ComponentLearner, rows: Rows, X: NDArray) -> Stats:
    """What all other rows said."""
    posterior, memory = learner.posterior, learner.memory
    model, tree, memo = posterior.model, posterior.state.tree, memory.memo
    assert memo is not None
    if len(rows) == memo.n_rows and memory.others is None:
        return Stats.zero(len(tree), model.n_levels, X.shape[1])
    said = learner.visitor.sums(memo.take(rows), X, tree, model)
    return posterior.totals.plus(said, -memory.scale).clipped()


def _empty_leaves(context: Context) -> list[int]:
    """Leaves that rows have left since."""
    tree = context.tree
    leaves = tree.leaves[context.stats.stub_masses[tree.leaves] < EMPTY]
    return [int(name) for name in tree.ids[leaves]]


def _first(kind: Kind[Context, Proposal], context: Context) -> Proposal | None:
    """Return the first proposal for which there is room.

    There is none for more leaves than rows.
    """
    for ids in kind.candidates(context):
        proposal = kind.make(context, *ids)
        if proposal is None or not context.has_room(proposal.tree):
            continue
        if len(proposal.tree.leaves) <= context.memo.n_rows:
            return proposal
    return None
