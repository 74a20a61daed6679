"""Rows by shard: who has them visited, and what is known of what they say."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any
from weakref import ref

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.seen_words import SeenWords
from skbnp.components.statistics import Weighting
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Run
from skbnp.inference.local import Look
from skbnp.inference.memory import learn_priors
from skbnp.inference.monitor import Account
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus, Memory
from skbnp.inference.schedules import Part, Round
from skbnp.inference.shards import Shards, SumT, Task, World, first_rows
from skbnp.models.dependent_trees.epoch import EpochPosterior, settle
from skbnp.models.dependent_trees.local import Drift, Memo, NodeTable
from skbnp.models.dependent_trees.model import EpochState, EpochStats
from skbnp.models.dependent_trees.moves.births import Collected, shared_out
from skbnp.models.dependent_trees.moves.merges import PairLosses
from skbnp.models.dependent_trees.moves.records import Record, followed, heirs_of
from skbnp.models.dependent_trees.shard_tasks import (
    Edit,
    RowSample,
    Sight,
    collect_rows,
    recall_rows,
    sum_losses,
    take_rows,
    visit_rows,
)
from skbnp.trees import Tree

__all__ = [
    "EpochLearner",
    "EpochMemory",
    "FoundRows",
    "LastVisit",
    "RowVisitor",
    "ShardCorpus",
]

Ints = NDArray[np.intp]


class ShardCorpus(Corpus):
    """Rows that are visited where they are."""

    def __init__(self, shards: Shards):
        self.shards = shards

    @property
    def n_docs(self) -> int:
        """Number of rows."""
        return int(self.shards.n_rows.sum())


@dataclass(frozen=True, slots=True)
class FoundRows:
    """What the rows of a round say, and what they said before."""

    stats: EpochStats
    world: World  # in which they were visited
    before: EpochStats | None = None  # None where the round is all rows


class RowVisitor:
    """Has shards visited.

    Parameters
    ----------
    shards : Shards
    n_rounds : int
        Visits of other shards, at the most, before a shard is visited again.
    seen : SeenWords or None
        Columns of the state, if rows of the shards have others too.
    """

    def __init__(self, shards: Shards, n_rounds: int, seen: SeenWords | None = None):
        self.shards, self.n_rounds, self.seen = shards, n_rounds, seen
        self._last: tuple[ref[EpochState] | None, World] | None = None

    def visit(
        self,
        posterior: Posterior,
        numbers: Sequence[int],
        before: EpochStats | None = None,
    ) -> FoundRows:
        """Visit shards under the present globals of a posterior."""
        world = self.world(posterior)
        stats = self.shards.total(visit_rows, numbers, world)
        return FoundRows(stats, world, before)

    def resume(self, memory: "EpochMemory") -> None:
        """Go on after the newest visit that a memory has."""
        worlds = [visit.world for visit in memory.visits]
        newest = max(worlds, key=lambda world: world.content.drift.step)
        self._last = None, newest

    def world(self, posterior: Posterior) -> World:
        """Return what rows see; equal states are one world."""
        state, last = posterior.state, self._last
        if last is None or last[0] is None or last[0]() is not state:
            before: Sight | None = None if last is None else last[1].content
            table = NodeTable.of(state, posterior.model.priors)
            drift = Drift() if before is None else before.drift
            drift = drift.followed_by(table, None if before is None else before.table)
            sight = Sight(table, drift.latest(self.n_rounds + 1), self.seen)
            world = World(sight)
            self._last = last = ref(state), world
        return last[1]


@dataclass(frozen=True, eq=False, slots=True)
class LastVisit:
    """When shards were visited, and which moves they have followed since."""

    world: World
    edits: tuple[Edit, ...] = ()


class EpochMemory(Memory):
    """Totals hold each row once, with what it said at its last visit.

    The first pass visits all rows under the globals of the start.

    Parameters
    ----------
    shards : Shards
        Rows of the epoch.
    others : EpochStats
        What rows of the epoch said that are not at hand any more, by the present tree.
    run : callable
        Maps over work that needs no rows, in order.
    """

    def __init__(self, shards: Shards, others: EpochStats, run: Run = map):
        self.shards, self.others, self.run = shards, others, run
        self.visits: list[LastVisit] = []  # of each shard
        self._is_fresh = False  # totals are the sum over all rows at their last visit

    @property
    def is_complete(self) -> bool:
        """Whether every shard has been visited."""
        return bool(self.visits)

    @property
    def has_others(self) -> bool:
        """Whether there are rows that are not at hand."""
        return bool(self.others.masses.any())

    def recall(self, part: Part) -> None:
        """Return nothing: shards remember."""

    def absorb(
        self, posterior: Posterior, round: Round, change: Sequence[FoundRows]
    ) -> None:
        """Let rows say something else, and the globals follow."""
        model, state, (found,) = posterior.model, posterior.state, change
        numbers = [part.number for part in round.parts]
        world = found.world.emptied() if self.shards.is_lasting else found.world
        visit = LastVisit(world)
        if found.before is None:
            new = settle(model, state, self.others.plus(found.stats))
            self.visits = [visit] * len(numbers)
        else:
            totals = posterior.totals
            new = model.exchange(state, totals, found.before, found.stats)
            for number in numbers:
                self.visits[number] = visit
        self._is_fresh = found.before is None
        self._follow(state.tree, new[0].tree)
        posterior.replace_globals(*new)

    def end_pass(self, posterior: Posterior) -> None:
        """Sum the totals afresh, where rounding errors may be in them; learn priors."""
        if not self._is_fresh:
            totals = self.totals(posterior.state.tree)
            posterior.replace_globals(posterior.state, totals)
        posterior.stale = 0.0  # nothing is left of the start
        learn_priors(posterior)

    def keep(
        self, posterior: Posterior, records: Sequence[Record], rows: Ints, said: Memo
    ) -> None:
        """Follow moves, by which some rows say something else."""
        tree = posterior.state.tree
        new = tree
        for record in records:
            new = record.edit(new)
        self._follow(tree, new, heirs_of(records))
        edit = Edit.of(records, rows, said)
        if edit is not None:
            followed_by = {
                visit: replace(visit, edits=(*visit.edits, edit))
                for visit in self._groups(range(len(self.visits)))
            }
            self.visits = [followed_by[visit] for visit in self.visits]

    def account(self) -> dict[str, object]:
        """Return what another memory of the same rows needs to go on alike."""
        return {
            "visits": self.visits,
            "others": self.others,
            "is_fresh": self._is_fresh,
        }

    def resume(self, account: Account) -> None:
        """Go on where another memory was."""
        self.visits, self.others = account["visits"], account["others"]
        self._is_fresh = account["is_fresh"]

    # What rows are asked --------------------------------------------------------------

    def totals(self, tree: Tree) -> EpochStats:
        """Sum what all rows say."""
        return self.others.plus(self.recalled(range(len(self.visits)), tree))

    def recalled(self, numbers: Iterable[int], tree: Tree) -> EpochStats:
        """Sum what the rows of some shards say."""
        return self._total(recall_rows, numbers, tree)

    def losses(self) -> PairLosses:
        """Entropy that rows lose if two of their nodes are one."""
        losses = self._total(sum_losses, range(len(self.visits)))
        return replace(losses, has_others=self.has_others)

    def gather(
        self, targets: Sequence[int], n_nodes: int, step: int, most: int
    ) -> list[Collected]:
        """Collect rows of targets; one that several want is that of the first."""
        if not targets:
            return []
        numbers = range(len(self.visits))
        found = self._total(collect_rows, numbers, targets, n_nodes, step, most)
        n_rows = int(self.shards.n_rows.sum())
        lists = shared_out([rows for rows, _ in found.found], n_rows)
        taken = np.sort(np.concatenate(lists))
        sample = self._taken(taken)
        gathered = []
        for target, rows in zip(targets, lists, strict=True):
            at = np.searchsorted(taken, rows)
            memo = sample.memo.taken(at)
            gathered.append(Collected(target, rows, sample.X[at], memo))
        return gathered

    def _taken(self, rows: Ints) -> RowSample:
        """Return rows by number, increasing."""
        limits = [*first_rows(self.shards.n_rows), int(self.shards.n_rows.sum())]
        counts = np.diff(np.searchsorted(rows, limits))
        found: dict[int, RowSample] = {}
        for visit, numbers in self._groups(np.flatnonzero(counts)).items():
            argument = visit.edits, rows
            parts = self.shards.map(take_rows, numbers, visit.world, argument)
            found.update(zip(numbers, parts, strict=True))
        parts = [found[number] for number in sorted(found)]
        none = sp.csr_array((0, self.others.sums.shape[1]), dtype=np.float32)
        return RowSample(
            sp.csr_array(sp.vstack([none, *(part.X for part in parts)], format="csr")),
            Memo.joined([part.memo for part in parts]),
        )

    def _total(self, task: Task[SumT], numbers: Iterable[int], *given: object) -> SumT:
        parts = [
            self.shards.total(task, group, visit.world, (visit.edits, *given))
            for visit, group in self._groups(numbers).items()
        ]
        return reduce(lambda one, other: one.plus(other), parts)

    def _groups(self, numbers: Iterable[int]) -> dict[LastVisit, list[int]]:
        """Shards by their last visit."""
        groups: dict[LastVisit, list[int]] = {}
        for number in numbers:
            groups.setdefault(self.visits[number], []).append(int(number))
        return groups

    def _follow(self, old: Tree, new: Tree, heirs: dict[int, int] | None = None):
        self.others = followed(self.others, old, new, heirs or {})


class EpochLearner(Learner[EpochPosterior, ShardCorpus, Any, EpochMemory]):
    """Passes over the shards of an epoch."""

    def visit(
        self, round: Round, weighting: Weighting, look: Look | None
    ) -> list[FoundRows]:
        """Visit the shards of a round together."""
        numbers, before = [part.number for part in round.parts], None
        if len(numbers) < len(self.memory.shards.n_rows):
            tree = self.posterior.state.tree
            before = self.memory.recalled(numbers, tree)
        return [self.visitor.visit(self.posterior, numbers, before)]
