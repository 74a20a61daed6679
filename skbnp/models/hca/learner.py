"""Learning a tree of components from rows that remember their paths, with moves.

A row is counted once, with what it said when it was last visited, so that the bound is
that of all rows. Moves are judged on the rows that they touch: these are visited under
the edited tree, all others keep what they said, and the edit is kept if the bound
rises. The tree grows past the size that it needs, then shrinks, in turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skbnp.inference.edits import Lineage
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Executor
from skbnp.inference.interrupts import commit
from skbnp.inference.memory import RunningAverage, learn_priors
from skbnp.inference.monitor import Monitor, discarding
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus, Moves
from skbnp.inference.schedules import BatchSchedule, Part, Round
from skbnp.models.hca.local import Memo, sums, visit
from skbnp.models.hca.model import Model, State, Stats, convert, expand, paths, settle
from skbnp.models.hca.moves import Kind, Proposal, Scene, kinds_of
from skbnp.models.hca.start import some_rows
from skbnp.models.nested_crp.moves.settings import TreeMoves
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, stream

__all__ = [
    "ComponentEdits",
    "FoundRows",
    "RowCorpus",
    "RowMemory",
    "RowVisitor",
    "StreamEdits",
    "bound_of",
]

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
#: Rows of a chunk by which the tree changes, at the least, and passes at the most.
LEAST_ROWS, MOST_PASSES = 20, 100
#: Passes until a rejected move is tried again, doubled with each rejection.
WAIT = 4


class RowCorpus(Corpus):
    """Rows by part, without a copy where they stand together."""

    def documents(self, part: Part) -> Any:
        """Rows of a part."""
        rows = part.rows
        if (
            len(rows)
            and rows[-1] - rows[0] == len(rows) - 1
            and (np.diff(rows) > 0).all()
        ):
            return self.X[rows[0] : rows[-1] + 1]
        return self.X[rows]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """What the rows of a part say, and of which globals."""

    stats: Stats
    memory: Memo
    state: State
    seen: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RowVisitor:
    """Visits rows, on which threads."""

    executor: Executor

    def visit(
        self,
        posterior: Posterior,
        X: NDArray,
        *,
        mean: bool = False,
        remembered: Memo | None = None,
        look: None = None,
    ) -> FoundRows:
        """Visit rows under the present globals of a posterior.

        If the totals are what they remember, other coordinates may be better: see
        `expand`.
        """
        del mean, look  # there is no warm-up, and no moves look at blocks
        model, state = posterior.model, posterior.state
        if remembered is not None:
            state = expand(model, state, posterior.totals)
        memo, stats = self.visit_rows(model, state, X)
        return FoundRows(stats, memo, state)

    def visit_rows(self, model: Model, state: State, X: NDArray) -> tuple[Memo, Stats]:
        """Visit rows under given globals; return what they say, and its sums."""
        memo = visit(paths(model, state), state.tree, X, model.shift, self.executor)
        return memo, self.sums(memo, X, state.tree, model)

    def sums(self, memo: Memo, X: NDArray, tree: Tree, model: Model) -> Stats:
        """Sum what rows said."""
        return sums(memo, X, tree, model.shift, self.executor)


class RowMemory:
    """Totals hold each row once, with what it said at its last visit.

    Parameters
    ----------
    scale : float
        Rows behind each.
    others : Stats or None
        What rows said that are not visited again, by the present tree.
    """

    holds_corpus = is_complete = True

    def __init__(self, scale: float = 1.0, others: Stats | None = None):
        self.scale, self.others = scale, others
        self.memo: Memo | None = None

    def recall(self, part: Part) -> Memo | None:
        """Return what all rows said, if there are no others."""
        return self.memo if self.others is None else None

    def absorb(
        self, posterior: Posterior, round: Round, found: Sequence[FoundRows]
    ) -> None:
        """Let the totals be what all rows say now."""
        (said,) = found
        stats = said.stats.times(self.scale)
        if self.others is not None:
            stats = stats.plus(self.others)
        model, memo = posterior.model, said.memory
        state, stats = settle(model, said.state, stats)
        self.keep(memo, said.state.tree, state.tree)
        if self.others is not None:  # who cannot be visited with other coordinates
            state, stats, change = convert(model, state, stats)
            self.others = self.others.changed(state.tree, change)
            self.memo = memo.changed(state.tree, change)
        posterior.replace_globals(state, stats)

    def keep(
        self, memo: Memo, old: Tree, new: Tree, proposal: Proposal | None = None
    ) -> None:
        """Remember what rows say, and let what others said go by another tree."""
        self.memo = memo
        if self.others is not None:
            if proposal is not None:
                self.others = proposal.told(self.others, old)
                old = proposal.state.tree
            self.others = self.others.follow(old, new)

    def end_pass(self, posterior: Posterior) -> None:
        """Learn priors."""
        learn_priors(posterior)


ComponentLearner = Learner[RowCorpus, RowVisitor, RowMemory]
StreamOfRows = Learner[RowCorpus, RowVisitor, RunningAverage]


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


class StreamEdits(Moves):
    """Moves after a chunk of a stream, judged by its rows and by what others said.

    Parameters
    ----------
    moves : TreeMoves
    tol : float
        See `ComponentEdits`.
    """

    def __init__(self, moves: TreeMoves, tol: float):
        self.moves, self.tol, self._held = moves, tol, 0.0

    def end_round(
        self,
        learner: StreamOfRows,
        round: Round,
        documents: Sequence[NDArray],
        found: Sequence[FoundRows],
    ) -> None:
        """Note for how many rows those of the chunk stand in the totals."""
        n_rows = sum(len(X) for X in documents)
        keep, gain = 1.0 - round.step, round.step * round.scale
        self._held = keep * self._held + gain * n_rows

    def end_pass(self, learner: StreamOfRows, monitor: Monitor) -> bool:
        """Change the tree; whether it has stayed."""
        posterior, X = learner.posterior, learner.corpus.X
        if len(X) < LEAST_ROWS:
            return True
        before, mass = len(posterior.lineage), posterior.totals.n_rows
        rng = stream(posterior.entropy, Purpose.SOME_DOCS, posterior.n_steps)
        X = X[some_rows(np.arange(len(X)), rng)]
        held, others = self._held / len(X), None
        if self._held < (1.0 - ROUNDING) * mass:
            others = posterior.totals.times(1.0 - self._held / mass)
        chunk, edits = replace(posterior), ComponentEdits(self.moves, self.tol)
        rows, schedule = RowCorpus(X), BatchSchedule(len(X))
        memory = RowMemory(held, others)
        inner = Learner(chunk, rows, schedule, learner.visitor, memory, edits)
        quiet = discarding()
        for _ in range(MOST_PASSES):
            if inner.one_pass(quiet):
                break
        with commit():
            posterior.replace_globals(chunk.state, chunk.totals)
            log = [entry._replace(step=posterior.n_steps) for entry in chunk.lineage]
            posterior.lineage = posterior.lineage + log[before:]
        return len(posterior.lineage) == before


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
