"""Moves of a component analysis after passes, judged by local steps of touched rows.

A row counts once, with its statistics at its last local step, so that the bound is that
of all rows. Moves are judged on the rows that they touch: these get local steps under
the edited tree, all others keep their statistics, and the edit is kept if the bound
rises. The tree grows past the size that it needs, then shrinks, in turns.

Moves of a component analysis that learns online, judged by the latest rows.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skbnp.components.tree_moves import TreeMoves
from skbnp.inference import trials
from skbnp.inference.engine import Learner
from skbnp.inference.executor import commit
from skbnp.inference.memory import RunningAverage
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import Corpus, CountingMoves
from skbnp.inference.schedules import BatchSchedule
from skbnp.inference.trials import ROUNDING, adopt, bound_of, learn_by_moves
from skbnp.models.hca.bound import white_noise
from skbnp.models.hca.local import Memo, sums
from skbnp.models.hca.memory import RowCache, RowLocalStep
from skbnp.models.hca.moves.groups import SIZES, propose_groups
from skbnp.models.hca.moves.proposals import Context, Proposal, kinds_of
from skbnp.models.hca.start import path_of_directions
from skbnp.models.hca.state import State, Stats
from skbnp.models.hca.updates import coordinate_ascent, expand
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, some_rows, stream
from skbnp.utils.ranges import Mass, Sized, Steps
from skbnp.utils.typing import Array, Ints

ComponentLearner = Learner[Posterior, Corpus, RowLocalStep, RowCache]

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
    """An alternative start by groups, put off, and the posterior it belongs to."""

    posterior: Posterior
    memo: Memo | None
    others: Stats | None
    proposal: Proposal
    result: trials.Result


class ComponentEdits(trials.EditMoves):
    """Moves of a component analysis after each pass, judged by the bound.

    Growing and shrinking take turns until nothing is gained.

    Splits that raise the bound by less than `tol`, in parts of the nats of white
    noise, are refused. With `groups_only`, a single path learns only if groups have
    a higher bound, from these.
    """

    overtime: ClassVar[int] = 5

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
        """Try moves; return whether they have ended, so the fit may converge."""
        posterior = learner.posterior
        before = len(posterior.lineage)
        if self.has_ended:
            return True
        rng = stream(posterior.seed_entropy, Purpose.MOVE, posterior.n_steps)
        context = Context(posterior, rng, learner.cache, learner.corpus.X)
        if not self.has_begun:
            self.has_begun, self.rival = True, self._propose_rival(learner, context)
            if self.groups_only and self.rival is None:
                self.has_ended = True
                return True
        if self.groups_only and self.rival is not None:
            self._learn_rival(learner, monitor)
        elif self.grows:
            self._grow(learner, context, monitor)
            self.has_grown |= len(posterior.lineage) > before
        else:
            for leaf in trials.idle_leaves(posterior, EMPTY):  # whether refused or not
                self.rejections.forget(("prune", leaf))
            for kind in kinds_of(self.moves):
                if not kind.grows:
                    self.try_kind(learner, kind, context, monitor)
            if len(posterior.lineage) == before:
                self._end_turn(self.bound(posterior), nats_of(posterior))
                if self.has_ended and self.rival is not None:
                    self._learn_rival(learner, monitor)
        self._present = None  # frees its statistics
        if len(posterior.lineage) > before:
            with commit():
                monitor.record(posterior)
        return False

    def _end_turn(self, bound: float, nats: float) -> None:
        """Decide whether to grow again: if the bound has gained since last time."""
        gain = bound - self.best
        least = max(trials.LEAST_GAIN, TURN * nats)
        self.has_ended = not self.has_grown or gain < least
        self.grows, self.has_grown = True, False
        self.best, self.n_refused = bound, 0

    def _propose_rival(
        self, learner: ComponentLearner, context: Context
    ) -> "Rival | None":
        """Propose groups with separate means for a single path, as many as are best.

        Directions that one path shares hide groups that lie along them, so that no
        branch at a time leads there from the path.
        """
        best, rival = 0.0, None
        if not self.moves.split or len(context.tree.leaves) > 1:
            return None
        posterior, cache = learner.posterior, learner.cache
        for size in SIZES:
            proposal = propose_groups(context, size)
            if proposal is not None and context.has_room(proposal.tree):
                gain, result = self.judge(learner, proposal)
                if gain > best:
                    best = gain
                    rival = Rival(
                        replace(posterior), cache.memo, cache.others, proposal, result
                    )
        return rival

    def _learn_rival(self, learner: ComponentLearner, monitor: Monitor) -> None:
        """Learn from the groups, and adopt them if their bound is higher in the end.

        They learn in as many passes as the path, and grow and shrink by moves of their
        own, so that both trees are equally refined when they are compared.
        """
        rival, posterior = self.rival, learner.posterior
        assert rival is not None
        self.rival = None
        cache = RowCache(learner.cache.scale, rival.others)
        cache.memo = rival.memo
        inner = learner.fork(replace(rival.posterior), cache)
        inner.moves = edits = ComponentEdits(self.moves, self.tol)
        edits.has_begun = True
        edits.make(inner, rival.proposal, rival.result)
        text = f"pass {learner.n_passes}: tries groups that differ by mean"
        trials.learn_by_moves(inner, learner.n_passes, partial(monitor.remind, text))
        learned, n_before = inner.posterior, len(rival.posterior.lineage)
        if not trials.bound_of(learned) > self.bound(posterior):
            return
        with commit():
            posterior.model, posterior.lineage = learned.model, rival.posterior.lineage
            log = learned.lineage[n_before:]
            trials.adopt(posterior, learned.state, learned.global_stats, log)
            learner.cache.memo, learner.cache.others = cache.memo, cache.others
            monitor.record(posterior)
        self.has_ended, self.has_grown, self.best = False, False, -np.inf

    def _grow(
        self, learner: ComponentLearner, context: Context, monitor: Monitor
    ) -> None:
        """Try moves that add nodes; end growing after several refusals."""

        def fits(proposal: trials.Proposal | None) -> bool:
            """Whether a tree has room, and at most as many leaves as rows."""
            if proposal is None or not context.has_room(proposal.tree):
                return False
            return len(proposal.tree.leaves) <= context.memo.n_rows

        kinds = [kind for kind in kinds_of(self.moves) if kind.grows]
        for kind in kinds:
            for _ in range(self.moves.max_tries):
                candidates = kind.candidates(context)
                made = (kind.make(context, *ids) for ids in candidates)
                proposal = next(filter(fits, made), None)
                if proposal is None:
                    self.n_refused = PATIENCE
                    break
                monitor.remind(f"pass {learner.n_passes}: tries moves ({kind.name})")
                accepted = self.attempt(learner, proposal)
                self.n_refused = 0 if accepted else self.n_refused + 1
                if self.n_refused == PATIENCE:
                    break
        self.grows = bool(kinds) and self.n_refused < PATIENCE

    def least_gain(self, learner: ComponentLearner, new: Tree) -> float:
        """Nats by which the bound must rise for a tree in the place of the present."""
        posterior, size = learner.posterior, len(learner.posterior.state.tree)
        bound, nats = self.bound(posterior), nats_of(posterior)
        if len(new) > size:
            return max(trials.LEAST_GAIN, self.tol * nats)
        least = -trials.ROUNDING * (abs(bound) + nats)
        return min(least, -AS_GOOD) if len(new) < size else least

    def prepare(
        self, learner: ComponentLearner, proposal: Proposal
    ) -> tuple[Stats, trials.LocalUpdate]:
        """Statistics of the rows that a move does not touch; the step of the others.

        The globals are updated after each step. The statistics that are kept in the end
        are those of the last step, so that coordinates change between steps.
        """
        cache, model = learner.cache, learner.posterior.model
        X = learner.corpus.X[proposal.rows]
        # Rows of earlier calls cannot be updated with other coordinates.
        top = proposal.top if cache.others is None else proposal.fresh

        def update(
            state: State, last: Stats | None, memo: Memo | None, rest: Stats
        ) -> trials.Result:
            if last is not None and top is not None:
                state = expand(model, state, last, top)
            memo, stats = learner.local_step.update_rows(model, state, X)
            stats = stats.times(cache.scale).plus(rest)
            return *coordinate_ascent(model, state, stats), memo

        return stats_of_others(learner, proposal.rows, X), update


def nats_of(posterior: Posterior) -> float:
    """Unit of changes of the bound: white noise of all rows, in nats."""
    global_stats = posterior.global_stats
    return white_noise(global_stats.n_rows, len(global_stats.total))


def stats_of_others(learner: ComponentLearner, rows: Ints, X: NDArray) -> Stats:
    """Statistics of all rows of HCA but those that a move touches."""
    posterior, cache = learner.posterior, learner.cache
    model, tree, memo = posterior.model, posterior.state.tree, cache.memo
    assert memo is not None
    if len(rows) == memo.n_rows and cache.others is None:
        return Stats.zero(len(tree), model.n_levels, X.shape[1])
    executor = learner.local_step.executor
    old_stats = sums(memo.take(rows), X, tree, model.frame, executor)
    return posterior.global_stats.plus(old_stats, -cache.scale).clipped()


StreamOfRows = Learner[Posterior, Corpus, RowLocalStep, RunningAverage]

#: Rows by which the tree changes, at least, and passes at most.
LEAST_ROWS, MOST_PASSES = 20, 100
#: Rows that are kept from chunk to chunk, at most, and entries of these.
MOST_ROWS, MOST_ENTRIES = 1024, 1 << 22


@dataclass(frozen=True, slots=True)
class RecentRows:
    """Latest rows of a stream, which judge branches: one chunk may be too few."""

    rows: Annotated[Array, Sized("n_recent", "n_features")] = field(
        default_factory=lambda: np.zeros((0, 0))
    )
    mass: Mass = 0.0  # rows of the totals for which they stand
    n_new: Steps = 0  # of them, since the tree has changed by them
    n_last: Steps = 0  # rows by which it changed then

    @property
    def is_due(self) -> bool:
        """Whether as many rows are new as there were when the tree last changed."""
        return self.n_new >= max(LEAST_ROWS, min(self.n_last, len(self.rows)))

    def add(self, X: NDArray) -> "RecentRows":
        """Append a chunk, and drop the oldest rows if there are too many."""
        most, rows = _most_rows(X), X
        n_old = min(len(self.rows), max(most - len(X), 0))
        if len(X) < most:  # a large chunk is due at once, and not kept as a whole
            old = self.rows[len(self.rows) - n_old :] if n_old else X[:0]
            rows = np.concatenate([old, X], dtype=np.float64)
        mass = self.mass * (n_old / max(len(self.rows), 1))
        return RecentRows(rows, mass, self.n_new + len(X), self.n_last)

    def tried(self) -> "RecentRows":
        """Return the record after moves; of a large chunk, its last rows."""
        rows = self.rows[-_most_rows(self.rows) :].astype(np.float64)
        mass = self.mass * (len(rows) / len(self.rows))
        return RecentRows(rows, mass, 0, len(rows))


def _most_rows(X: NDArray[Any]) -> int:
    return min(MOST_ROWS, max(MOST_ENTRIES // X.shape[1], LEAST_ROWS))


class StreamEdits(CountingMoves):
    """Moves of a stream, judged by its latest rows and the statistics of others.

    A row counts at most once, however many it stands for in the totals: else the first
    rows of a long stream would make a tree of their noise.

    `recent` are the rows of the chunks before, then those for the next one.
    """

    def __init__(self, moves: TreeMoves, tol: float, recent: RecentRows):
        self.moves, self.tol, self.recent = moves, tol, recent

    def begin_pass(self, learner: StreamOfRows) -> None:
        """Add the rows of the chunk to the latest ones."""
        self.recent = self.recent.add(learner.corpus.X)
        self._n_counted = self.recent.mass

    def end_pass(self, learner: StreamOfRows, monitor: Monitor) -> bool:
        """Change the tree if moves are due; return whether it is unchanged."""
        posterior = learner.posterior
        self.recent = replace(self.recent, mass=self._n_counted)
        if not self.recent.is_due:
            return True
        X, is_first = self.recent.rows, self.recent.n_last == 0
        before, mass = len(posterior.lineage), posterior.global_stats.n_rows
        rng = stream(posterior.seed_entropy, Purpose.SOME_DOCS, posterior.n_steps)
        X = X[some_rows(np.arange(len(X)), rng)]
        docs_per_row, others = self._n_counted / len(X), None
        share = min(1.0, 1.0 / docs_per_row)  # of a row, where moves are judged
        if self._n_counted < (1.0 - ROUNDING) * mass:
            kept = share * (1.0 - self._n_counted / mass)
            others = posterior.global_stats.times(kept)
        start, edits = replace(posterior), ComponentEdits(self.moves, self.tol)
        learned = self._learn(learner, start, edits, X, share * docs_per_row, others)
        if others is None and not is_first and len(learned.state.tree.leaves) > 1:
            start = _restarted(learned, X, rng)
            edits = ComponentEdits(self.moves, self.tol, groups_only=True)
            restarted = self._learn(learner, start, edits, X, share * docs_per_row)
            learned = max(learned, restarted, key=bound_of)
        state, global_stats = learned.state, learned.global_stats
        if share < 1.0:
            state, global_stats = coordinate_ascent(
                learned.model, state, global_stats.times(1.0 / share)
            )
        with commit():
            adopt(posterior, state, global_stats, learned.lineage[before:])
            self.recent = self.recent.tried()
        return len(posterior.lineage) == before

    def _learn(
        self,
        learner: StreamOfRows,
        posterior: Posterior,
        edits: ComponentEdits,
        X: NDArray,
        scale: float,
        others: Stats | None = None,
    ) -> Posterior:
        """Learn a tree from the given rows, as `fit` does; return its posterior."""
        rows, schedule = Corpus(X), BatchSchedule.of_rows(len(X))
        cache = RowCache(scale, others)
        inner = Learner(posterior, rows, schedule, learner.local_step, cache, edits)
        learn_by_moves(inner, MOST_PASSES)
        return posterior


def _restarted(posterior: Posterior, X: NDArray, rng: np.random.Generator) -> Posterior:
    """Return an HCA posterior of one path: a tree of few rows may not suit more."""
    model, old = posterior.model, posterior.state.tree
    first, ended = old.next_id, tuple(old.ids[1:].tolist())
    names = np.arange(first, first + model.n_levels - 1)
    ids = np.append(old.ids[:1], names)
    tree = Tree(ids, np.arange(model.n_levels), first + len(names))
    state = replace(path_of_directions(model, X, rng), tree=tree)
    global_stats = Stats.zero(len(ids), model.n_levels, X.shape[1])
    root = int(ids[0])
    log = [
        Lineage(posterior.n_steps, "split", (root,), (root, *names.tolist())),
        Lineage(posterior.n_steps, "prune", ended, ()),
    ]
    return replace(
        posterior,
        state=state,
        global_stats=global_stats,
        ids=ids,
        lineage=[*posterior.lineage, *log],
    )
