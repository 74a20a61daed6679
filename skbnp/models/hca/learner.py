"""Learning a tree of subspaces from rows that remember their paths, with moves.

A row is counted once, with what it said when it was last visited, so that the bound is
that of all rows. Moves are judged on the rows that they touch: these are visited under
the edited tree, all others keep what they said, and the edit is kept if the bound rises.
The tree grows past the size that it needs, then shrinks, in turns.
"""

import numpy as np
from numpy.typing import NDArray

from skbnp.inference.edits import Lineage
from skbnp.inference.executor import Executor
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.moves.tree_moves import TreeMoves
from skbnp.inference.posterior import Posterior
from skbnp.models.hca.local import Memo, sums, visit
from skbnp.models.hca.model import Model, State, Stats, expand, paths, settle
from skbnp.models.hca.moves import Kind, Proposal, Scene, kinds_of
from skbnp.trees import Tree
from skbnp.utils.blas import one_blas_thread
from skbnp.utils.random import Purpose, stream

__all__ = ["SubspaceLearner"]

#: Nats by which a move must raise the bound that adds nodes.
LEAST_GAIN = 1.0
#: Relative rounding errors of a bound: a move that adds none may lose so much.
ROUNDING = 1e-10
#: A trial ends when a round makes up for less than this part of what is missing.
LEAST_RISE = 0.1
#: One that still makes up for more goes on for so many times its rounds.
OVERTIME = 5
#: Splits refused one after the other that end the growth.
PATIENCE = 5
#: Passes until a rejected move is tried again, doubled with each rejection.
WAIT = 4


class SubspaceLearner:
    """Passes over rows, and moves after each.

    Parameters
    ----------
    posterior : Posterior
        Learned in place; consistent at any moment at which an exception can arrive.
    X : ndarray of shape (n_rows, n_features)
    executor : Executor
    moves : TreeMoves or None
    tol : float
        The tree stops growing where splits raise the bound by less, relatively.
    """

    def __init__(
        self,
        posterior: Posterior,
        X: NDArray,
        executor: Executor,
        *,
        moves: TreeMoves | None,
        tol: float,
    ):
        self.posterior, self.X, self.executor = posterior, X, executor
        self.moves, self.tol, self.n_passes = moves, tol, 0
        self.memo: Memo | None = None
        self.grows, self.has_grown, self.n_refused = True, False, 0
        self.best = -np.inf  # bound where the last turn of growing and shrinking ended
        self.rests: dict[tuple, tuple[int, int]] = {}  # pass to wait for, and how long

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left to do."""
        return False

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; whether moves have ended, so that the bound can settle."""
        with one_blas_thread():
            self._visit(monitor)
            if self.moves is not None:
                self._move(self.moves, monitor)
        self.n_passes += 1
        return self.moves is None

    def _visit(self, monitor: Monitor) -> None:
        """Visit all rows, and let the globals follow."""
        posterior, model = self.posterior, self.posterior.model
        state = posterior.state
        if self.memo is not None:
            state = expand(model, state, posterior.totals)
        memo, stats = self._said(model, state, self.X)
        state, stats = settle(model, state, stats)
        with commit():
            self._adopt(state, stats, memo)
            posterior.model = model.learned(state, stats)
            posterior.n_steps += 1
            posterior.record(monitor)

    def _said(self, model: Model, state: State, X: NDArray) -> tuple[Memo, Stats]:
        """What rows say of a state, and its sums."""
        tree, shift = state.tree, model.shift
        memo = visit(paths(model, state), tree, X, shift, self.executor)
        return memo, sums(memo, X, tree, shift, self.executor)

    def _adopt(self, state: State, stats: Stats, memo: Memo) -> None:
        posterior = self.posterior
        self.memo = memo
        posterior.state, posterior.totals = state, stats
        posterior.ids = state.tree.ids

    # -- moves ------------------------------------------------------------------------

    def _bound(self) -> float:
        posterior = self.posterior
        return posterior.model.bound(posterior.state, posterior.totals)

    def _move(self, moves: TreeMoves, monitor: Monitor) -> None:
        """Try moves; growing and shrinking take turns until nothing is gained."""
        before = len(self.posterior.lineage)
        rng = stream(self.posterior.entropy, Purpose.MOVE, self.posterior.n_steps)
        if self.grows:
            self._grow(moves, monitor, rng)
            self.has_grown |= len(self.posterior.lineage) > before
        else:
            self._shrink(moves, monitor, rng)
            if len(self.posterior.lineage) == before:
                bound = self._bound()
                if not self.has_grown or bound - self.best < self.tol * abs(bound):
                    self.moves = None
                self.grows, self.has_grown = True, False
                self.best, self.n_refused = bound, 0
        if len(self.posterior.lineage) > before:
            with commit():
                self.posterior.record(monitor)

    def _scene(self, rng: np.random.Generator) -> Scene:
        assert self.memo is not None
        posterior = self.posterior
        held = posterior.model, posterior.state, posterior.totals
        return Scene(*held, self.memo, self.X, rng)

    def _grow(
        self, moves: TreeMoves, monitor: Monitor, rng: np.random.Generator
    ) -> None:
        """Try to add nodes; what was refused several times on end is not wanted."""
        for kind in kinds_of(moves, grows=True):
            for _ in range(moves.max_tries):
                scene = self._scene(rng)
                proposal = self._first(kind, scene)
                if proposal is None:
                    self.n_refused = PATIENCE
                    break
                monitor.remind(f"pass {self.n_passes + 1}: tries moves ({kind.name})")
                accepted = self._try(proposal, moves.max_rounds)
                self.n_refused = 0 if accepted else self.n_refused + 1
                if self.n_refused == PATIENCE:
                    break
        if self.n_refused >= PATIENCE or not moves.split:
            self.grows = False

    def _first(self, kind: Kind, scene: Scene) -> Proposal | None:
        """Return the first proposal for which there is room."""
        for ids in kind.candidates(scene):
            proposal = kind.make(scene, *ids)
            if proposal is not None and self._has_room(proposal):
                return proposal
        return None

    def _has_room(self, proposal: Proposal) -> bool:
        n_nodes = len(proposal.state.tree)
        now = len(self.posterior.state.tree)
        return n_nodes <= max(now, self.posterior.max_components)

    def _shrink(
        self, moves: TreeMoves, monitor: Monitor, rng: np.random.Generator
    ) -> None:
        """Try moves that add no nodes."""
        for kind in kinds_of(moves, grows=False):
            scene, n_tries = self._scene(rng), 0
            for ids in kind.candidates(scene):
                key = (kind.name, *ids)
                until, wait = self.rests.get(key, (0, 0))
                if until > self.n_passes or n_tries == moves.max_tries:
                    continue
                proposal = kind.make(scene, *ids)
                if proposal is None:
                    continue
                n_tries += 1
                monitor.remind(f"pass {self.n_passes + 1}: tries moves ({kind.name})")
                if self._try(proposal, moves.max_rounds):
                    scene = self._scene(rng)
                else:
                    wait = max(2 * wait, WAIT)
                    self.rests[key] = self.n_passes + wait, wait

    def _try(self, proposal: Proposal, n_rounds: int) -> bool:
        """Visit the rows that a move touches; keep it if the bound rises."""
        assert self.memo is not None
        posterior, model, rows = self.posterior, self.posterior.model, proposal.rows
        old, state, X = posterior.state.tree, proposal.state, self.X[rows]
        bound = self._bound()
        adds = len(state.tree) > len(old)
        least = max(LEAST_GAIN, self.tol * abs(bound)) if adds else 0.0
        least -= ROUNDING * abs(bound)
        rest = self._others(rows, X, old)
        value = -np.inf
        for n_done in range(1, OVERTIME * n_rounds + 1):
            memo, stats = self._said(model, state, X)
            stats = stats.plus(rest.follow(old, state.tree, proposal.heirs))
            state, stats = settle(model, state, stats)
            before, value = value, model.bound(state, stats)
            if value - before < LEAST_RISE * (bound + least - value):
                break  # hopeless
            if n_done >= n_rounds and value > bound + least:
                break
            if proposal.top is not None and n_done < OVERTIME * n_rounds:
                # The last visit is of a state that follows from what rows have said.
                state = expand(model, state, stats, proposal.top)
        if not value > bound + least:
            return False
        entry = Lineage(
            posterior.n_steps, proposal.kind, proposal.parents, proposal.children
        )
        joined = self.memo.replaced(rows, memo)
        with commit():
            self._adopt(state, stats, joined)
            posterior.lineage = [*posterior.lineage, entry]
        return True

    def _others(self, rows: NDArray[np.intp], X: NDArray, tree: Tree) -> Stats:
        """What all other rows said."""
        assert self.memo is not None
        posterior = self.posterior
        if len(rows) == self.memo.n_rows:
            return Stats.zero(len(tree), posterior.model.n_levels, X.shape[1])
        shift = posterior.model.shift
        said = sums(self.memo.take(rows), X, tree, shift, self.executor)
        return posterior.totals.plus(said, -1.0).clipped()
