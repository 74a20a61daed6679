"""Moves of a tree of components: what they touch is visited under the edited tree.

A row is counted once, with what it said when it was last visited, so that the bound is
that of all rows. Moves are judged on the rows that they touch: these are visited under
the edited tree, all others keep what they said, and the edit is kept if the bound
rises. The tree grows past the size that it needs, then shrinks, in turns.
"""

import numpy as np
from numpy.typing import NDArray

from skbnp.inference.edits import Lineage
from skbnp.inference.engine import Learner
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus, Moves
from skbnp.models.hca.memory import RowMemory, RowVisitor
from skbnp.models.hca.model import Stats, expand, settle
from skbnp.models.hca.moves.proposals import Kind, Proposal, Scene, kinds_of
from skbnp.models.nested_crp.moves.settings import TreeMoves
from skbnp.utils.random import Purpose, stream

__all__ = ["ROUNDING", "ComponentEdits", "bound_of", "said_by_others", "scene_of"]

ComponentLearner = Learner[Corpus, RowVisitor, RowMemory]
Rows = NDArray[np.intp]

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
#: Part of the bound by which another turn of growing and shrinking must have raised it.
TURN = 1e-4
#: Passes until a rejected move is tried again, doubled with each rejection.
WAIT = 4


class ComponentEdits(Moves):
    """Moves after each pass, judged by the bound.

    Growing and shrinking take turns until nothing is gained.

    Parameters
    ----------
    moves : TreeMoves
    tol : float
        Splits that raise the bound by less, relatively, are refused.
    """

    def __init__(self, moves: TreeMoves, tol: float):
        self.moves, self.tol = moves, tol
        self.grows, self.has_grown, self.n_refused = True, False, 0
        self.has_ended = False
        self.best = -np.inf  # bound where the last turn ended
        self.rests: dict[tuple, tuple[int, int]] = {}  # pass to wait for, and how long

    def end_pass(self, learner: ComponentLearner, monitor: Monitor) -> bool:
        """Try moves; whether they have ended, so that the bound can settle."""
        posterior = learner.posterior
        before = len(posterior.lineage)
        if self.has_ended:
            return True
        rng = stream(posterior.entropy, Purpose.MOVE, posterior.n_steps)
        if self.grows:
            self._grow(learner, monitor, rng)
            self.has_grown |= len(posterior.lineage) > before
        else:
            self._shrink(learner, monitor, rng)
            if len(posterior.lineage) == before:
                self._turn(bound_of(posterior))
        if len(posterior.lineage) > before:
            with commit():
                posterior.record(monitor)
        return False

    def _turn(self, bound: float) -> None:
        """Grow again if that has paid since the last time."""
        gain = bound - self.best
        self.has_ended = not self.has_grown or gain < max(LEAST_GAIN, TURN * abs(bound))
        self.grows, self.has_grown = True, False
        self.best, self.n_refused = bound, 0

    def _grow(
        self, learner: ComponentLearner, monitor: Monitor, rng: np.random.Generator
    ) -> None:
        """Try to add nodes; what was refused several times on end is not wanted."""
        kinds = kinds_of(self.moves, grows=True)
        for kind in kinds:
            for _ in range(self.moves.max_tries):
                proposal = _first(kind, scene_of(learner, rng), learner.posterior)
                if proposal is None:
                    self.n_refused = PATIENCE
                    break
                monitor.remind(f"pass {learner.n_passes}: tries moves ({kind.name})")
                accepted = self.attempt(learner, proposal)
                self.n_refused = 0 if accepted else self.n_refused + 1
                if self.n_refused == PATIENCE:
                    break
        self.grows = bool(kinds) and self.n_refused < PATIENCE

    def _shrink(
        self, learner: ComponentLearner, monitor: Monitor, rng: np.random.Generator
    ) -> None:
        """Try moves that add no nodes."""
        for kind in kinds_of(self.moves, grows=False):
            scene, n_tries = scene_of(learner, rng), 0
            for ids in kind.candidates(scene):
                key = (kind.name, *ids)
                until, wait = self.rests.get(key, (0, 0))
                if until > learner.n_passes or n_tries == self.moves.max_tries:
                    continue
                proposal = kind.make(scene, *ids)
                if proposal is None:
                    continue
                n_tries += 1
                monitor.remind(f"pass {learner.n_passes}: tries moves ({kind.name})")
                if self.attempt(learner, proposal):
                    scene = scene_of(learner, rng)
                else:
                    wait = max(2 * wait, WAIT)
                    self.rests[key] = learner.n_passes + wait, wait

    def attempt(self, learner: ComponentLearner, proposal: Proposal) -> bool:
        """Visit the rows that a move touches; keep it if the bound rises."""
        posterior, visitor = learner.posterior, learner.visitor
        model, rows = posterior.model, proposal.rows
        old, state, X = posterior.state.tree, proposal.state, learner.corpus.X[rows]
        bound, n_rounds = bound_of(posterior), self.moves.max_rounds
        least = -ROUNDING * abs(bound)
        if len(state.tree) > len(old):
            least = max(LEAST_GAIN, self.tol * abs(bound))
        memory, rest = (
            learner.memory,
            proposal.told(said_by_others(learner, rows, X), old),
        )
        # Others cannot say what they would with other coordinates.
        top = proposal.top if memory.others is None else proposal.fresh
        value, tree = -np.inf, state.tree
        for n_done in range(1, OVERTIME * n_rounds + 1):
            memo, stats = visitor.visit_rows(model, state, X)
            stats = stats.times(memory.scale).plus(rest.follow(tree, state.tree))
            state, stats = settle(model, state, stats)
            before, value = value, model.bound(state, stats)
            if value - before < LEAST_RISE * (bound + least - value):
                break  # hopeless
            if n_done >= n_rounds and value > bound + least:
                break
            if top is not None and n_done < OVERTIME * n_rounds:
                # What is kept in the end is what rows have said last.
                state = expand(model, state, stats, top)
        if not value > bound + least:
            return False
        entry = Lineage(
            posterior.n_steps, proposal.kind, proposal.parents, proposal.children
        )
        assert memory.memo is not None
        joined = memory.memo.replaced(rows, memo)
        with commit():
            memory.keep(joined, old, state.tree, proposal)
            posterior.replace_globals(state, stats)
            posterior.lineage = [*posterior.lineage, entry]
        return True


def bound_of(posterior: Posterior) -> float:
    """Bound of all rows."""
    return posterior.model.bound(posterior.state, posterior.totals)


def scene_of(learner: ComponentLearner, rng: np.random.Generator) -> Scene:
    """What proposals see."""
    posterior, memo = learner.posterior, learner.memory.memo
    assert memo is not None
    held = posterior.model, posterior.state, posterior.totals
    return Scene(*held, memo, learner.corpus.X, rng)


def said_by_others(learner: ComponentLearner, rows: Rows, X: NDArray) -> Stats:
    """What all other rows said."""
    posterior, memory = learner.posterior, learner.memory
    model, tree, memo = posterior.model, posterior.state.tree, memory.memo
    assert memo is not None
    if len(rows) == memo.n_rows and memory.others is None:
        return Stats.zero(len(tree), model.n_levels, X.shape[1])
    said = learner.visitor.sums(memo.take(rows), X, tree, model)
    return posterior.totals.plus(said, -memory.scale).clipped()


def _first(kind: Kind, scene: Scene, posterior: Posterior) -> Proposal | None:
    """Return the first proposal for which there is room."""
    limit = max(len(posterior.state.tree), posterior.max_components)
    for ids in kind.candidates(scene):
        proposal = kind.make(scene, *ids)
        if proposal is not None and len(proposal.state.tree) <= limit:
            return proposal
    return None
