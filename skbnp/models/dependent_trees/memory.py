"""Cache of dependent trees: rows by shard, their local step and statistics."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any
from weakref import ref

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.word_topics import SeenWords
from skbnp.inference.engine import Learner, learn_priors
from skbnp.inference.executor import Run
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus, Round, StatisticsCache, Visit
from skbnp.inference.shards import Broadcast, Shard, Shards, SumT, Task, first_rows
from skbnp.models.dependent_trees import moves as kinds
from skbnp.models.dependent_trees.epoch import EpochPosterior, coordinate_ascent
from skbnp.models.dependent_trees.local import Memo, NodeTable, sum_rows, update_local
from skbnp.models.dependent_trees.moves import Collected, Joined
from skbnp.models.dependent_trees.records import Record, merged_into_of, replay_memo
from skbnp.models.dependent_trees.state import EpochState, EpochStats
from skbnp.rows.survey import WordUses
from skbnp.trees import Tree
from skbnp.utils.typing import Ints

# Tasks of dependent trees on shards of rows, and what shards cache.
#
# A shard caches the nodes of its rows at their last local step, and applies the moves
# since. That is a function of its rows, of the broadcast of that step and of moves: so
# a shard whose cache is lost repeats the step, with the same bits.


@dataclass(frozen=True, slots=True)
class EpochGlobals:
    """Broadcast: what the local step of rows reads."""

    table: NodeTable
    seen: SeenWords | None = None  # columns of the table; None: those of the rows


@dataclass(frozen=True, slots=True)
class Edit:
    """Moves after a local step: assignments of some rows change, then nodes merge."""

    merged_into: Mapping[int, int]
    rows: Ints  # numbers in the epoch, increasing
    assignments: Memo  # by these rows

    def made(self, memo: Memo, first_row: int) -> Memo:
        """Return the assignments of a shard after these moves."""
        begin, end = np.searchsorted(
            self.rows, [first_row, first_row + len(memo.nodes)]
        )
        if end > begin:
            own = slice(begin, end)
            memo = memo.replaced(
                self.rows[own] - first_row, self.assignments.taken(own)
            )
        return replay_memo(memo, self.merged_into)


Edits = tuple[Edit, ...]


def _rows_of(shard: Shard, broadcast: Broadcast) -> sp.csr_array:
    """Rows of a shard in the columns of the table."""
    if "rows" not in shard.cache:
        seen = broadcast.content.seen
        shard.cache["rows"] = shard.X if seen is None else seen.compact(shard.X)
    return shard.cache["rows"]


def _visited(shard: Shard, broadcast: Broadcast) -> tuple[Memo, EpochStats]:
    """Run the local step of the rows of a shard."""
    X = _rows_of(shard, broadcast)
    return update_local(broadcast.content.table, X, run=shard.run)


def remembered(shard: Shard, broadcast: Broadcast, edits: Edits) -> Memo:
    """Return the assignments of rows, from the local step and the moves since."""
    name, n_made, memo = shard.cache.get("memo", (None, 0, None))
    if name != broadcast.name or n_made > len(edits):
        n_made, (memo, _) = 0, _visited(shard, broadcast)
    for edit in edits[n_made:]:
        memo = edit.made(memo, shard.first_row)
    shard.cache["memo"] = broadcast.name, len(edits), memo
    return memo


# Tasks --------------------------------------------------------------------------------


def update_rows(shard: Shard, broadcast: Broadcast, argument: None) -> EpochStats:
    """Task: run the local step, cache its memo, and sum statistics."""
    memo, stats = _visited(shard, broadcast)
    shard.cache["memo"] = broadcast.name, 0, memo
    return stats


def sum_shard_rows(
    shard: Shard, broadcast: Broadcast, argument: tuple[Edits, Tree]
) -> EpochStats:
    """Task: sum the statistics of rows by the nodes of a tree."""
    edits, tree = argument
    memo = remembered(shard, broadcast, edits)
    return sum_rows(tree, memo, _rows_of(shard, broadcast), run=shard.run)


def sum_losses(
    shard: Shard, broadcast: Broadcast, argument: tuple[Edits]
) -> kinds.EntropyLosses:
    """Task: sum the entropy that rows lose by merges of two of their nodes."""
    (edits,) = argument
    return kinds.EntropyLosses.of_rows(remembered(shard, broadcast, edits))


@dataclass(frozen=True, slots=True)
class TargetRows:
    """Reply: rows of the smallest keys for each target of a birth."""

    result: tuple[tuple[Ints, NDArray[np.uint64]], ...]  # rows and keys, by target
    most: int

    def plus(self, other: "TargetRows") -> "TargetRows":
        """Return the rows of the smallest keys of both."""
        both = []
        for (rows, keys), (more, further) in zip(
            self.result, other.result, strict=True
        ):
            keys = np.concatenate([keys, further])
            order = np.argsort(keys, kind="stable")[: self.most]
            both.append((np.concatenate([rows, more])[order], keys[order]))
        return TargetRows(tuple(both), self.most)


def collect_rows(
    shard: Shard,
    broadcast: Broadcast,
    argument: tuple[Edits, Sequence[int], int, int, int],
) -> TargetRows:
    """Task: find rows of some targets, `most` of each, see `collect`."""
    edits, targets, n_nodes, step, most = argument
    memo = remembered(shard, broadcast, edits)
    result = kinds.collect(memo, targets, n_nodes, step, shard.first_row, most)
    return TargetRows(tuple(result), most)


@dataclass(frozen=True, slots=True)
class RowSample:
    """Reply: some rows in the order of their numbers, and their assignments."""

    X: sp.csr_array
    memo: Memo


def take_rows(
    shard: Shard, broadcast: Broadcast, argument: tuple[Edits, Ints]
) -> RowSample:
    """Task: return rows of the shard, by their numbers in the epoch."""
    edits, rows = argument
    begin, end = np.searchsorted(
        rows, [shard.first_row, shard.first_row + shard.X.shape[0]]
    )
    own = rows[begin:end] - shard.first_row
    memo = remembered(shard, broadcast, edits)
    return RowSample(_rows_of(shard, broadcast)[own], memo.taken(own))


def seen_columns(shard: Shard, broadcast: None, argument: None) -> WordUses:
    """Task: count the rows of the shard that have a value in each column."""
    return WordUses.of(shard.X)


class ShardCorpus(Corpus):
    """Rows of an epoch in shards, where their local step runs."""

    def __init__(self, shards: Shards):
        self.shards = shards

    @property
    def n_docs(self) -> int:
        """Number of rows."""
        return int(self.shards.n_rows.sum())


@dataclass(frozen=True, slots=True)
class RowResult:
    """Statistics of the rows of a round, and those before it."""

    stats: EpochStats
    broadcast: Broadcast  # of their local step
    before: EpochStats | None = None  # None where the round is all rows


class RowLocalStep:
    """Local step of rows on their shards, with what was broadcast last.

    `seen` are the columns of the state, if rows of the shards have others too.
    """

    shards: Shards
    seen: SeenWords | None
    _last: Broadcast | None
    _state: ref[EpochState] | None = None  # of the last broadcast

    def __init__(self, shards: Shards, seen: SeenWords | None = None):
        self.shards, self.seen, self._last = shards, seen, None

    def update_local(
        self,
        posterior: Posterior,
        numbers: Sequence[int],
        before: EpochStats | None = None,
    ) -> RowResult:
        """Run the local step of shards under the present globals."""
        broadcast = self.broadcast(posterior)
        stats = self.shards.total(update_rows, numbers, broadcast)
        return RowResult(stats, broadcast, before)

    def broadcast(self, posterior: Posterior) -> Broadcast:
        """Return what the local step reads; the same state is broadcast once."""
        state, last = posterior.state, self._last
        if last is None or self._state is None or self._state() is not state:
            table = NodeTable.of(state, posterior.model.priors)
            last = Broadcast(EpochGlobals(table, self.seen))
            self._last, self._state = last, ref(state)
        return last


@dataclass(frozen=True, eq=False, slots=True)
class LastBroadcast:
    """Broadcast of the last local step of shards, and the moves since."""

    broadcast: Broadcast
    edits: tuple[Edit, ...] = ()


class EpochCache(StatisticsCache):
    """Cache of an epoch: totals contain each row once, as of its last local step.

    The first pass updates all rows under the globals of the start.

    `others` are statistics of rows of the epoch from earlier calls, by the present
    tree; `run` maps over work that needs no rows, in order.
    """

    shards: Shards
    others: EpochStats
    run: Run
    last_broadcasts: list[LastBroadcast]  # of each shard
    _is_fresh: bool  # totals are the sum over all rows at their last step

    def __init__(self, shards: Shards, others: EpochStats, run: Run = map):
        self.shards, self.others, self.run = shards, others, run
        self.last_broadcasts, self._is_fresh = [], False

    def stochastic_update(
        self, posterior: Posterior, round: Round, change: Sequence[RowResult]
    ) -> None:
        """Put the new statistics into the totals, in place; update the globals."""
        model, state, (result,) = posterior.model, posterior.state, change
        numbers = [part.number for part in round.parts]
        broadcast = (
            result.broadcast.emptied() if self.shards.is_lasting else result.broadcast
        )
        sent = LastBroadcast(broadcast)
        if result.before is None:
            new = coordinate_ascent(model, state, self.others.plus(result.stats))
            self.last_broadcasts = [sent] * len(numbers)
        else:
            global_stats = posterior.global_stats
            new = model.incremental_update(
                state, global_stats, result.before, result.stats
            )
            for number in numbers:
                self.last_broadcasts[number] = sent
        self._is_fresh = result.before is None
        self.others = self.others.reindexed(state.tree, new[0].tree)
        posterior.replace_globals(*new)

    def end_pass(self, posterior: Posterior) -> None:
        """Sum all statistics again if parts were exchanged, and learn priors."""
        if not self._is_fresh:
            global_stats = self.global_stats(posterior.state.tree)
            posterior.replace_globals(posterior.state, global_stats)
        posterior.init_fraction = 0.0  # nothing is left of the start
        learn_priors(posterior)

    def keep(
        self, posterior: Posterior, records: Sequence[Record], joined: Joined
    ) -> None:
        """Record moves, and the assignments of `joined` rows by births, in place."""
        new = tree = posterior.state.tree
        for record in records:
            new = record.edit(new)
        merged_into, (rows, assignments) = merged_into_of(records), joined
        self.others = self.others.reindexed(tree, new, merged_into)
        if merged_into or len(rows):
            edit = Edit(merged_into, rows, assignments)
            followed_by = {
                sent: replace(sent, edits=(*sent.edits, edit))
                for sent in self._groups(range(len(self.last_broadcasts)))
            }
            self.last_broadcasts = [followed_by[sent] for sent in self.last_broadcasts]

    # Sums over rows -------------------------------------------------------------------

    def global_stats(self, tree: Tree) -> EpochStats:
        """Sum the statistics of all rows."""
        return self.others.plus(self.sum_cached(range(len(self.last_broadcasts)), tree))

    def sum_cached(self, numbers: Iterable[int], tree: Tree) -> EpochStats:
        """Sum the statistics of the rows of some shards, as they are cached."""
        return self._total(sum_shard_rows, numbers, tree)

    def losses(self) -> kinds.EntropyLosses:
        """Entropy that rows lose by merges of any two of their nodes."""
        losses = self._total(sum_losses, range(len(self.last_broadcasts)))
        return replace(losses, has_others=bool(self.others.masses.any()))

    def gather(
        self, targets: Sequence[int], n_nodes: int, step: int, most: int
    ) -> list[Collected]:
        """Collect rows of targets; one that several want goes to the first."""
        if not targets:
            return []
        numbers = range(len(self.last_broadcasts))
        result = self._total(collect_rows, numbers, targets, n_nodes, step, most)
        n_rows = int(self.shards.n_rows.sum())
        lists = kinds.shared_out([rows for rows, _ in result.result], n_rows)
        taken = np.sort(np.concatenate(lists))
        sample = self._taken(taken)
        gathered = []
        for target, rows in zip(targets, lists, strict=True):
            at = np.searchsorted(taken, rows)
            memo = sample.memo.taken(at)
            gathered.append(Collected(target, rows, sample.X[at], memo))
        return gathered

    def _taken(self, rows: Ints) -> RowSample:
        """Return rows by their numbers in the epoch, increasing."""
        limits = [*first_rows(self.shards.n_rows), int(self.shards.n_rows.sum())]
        counts = np.diff(np.searchsorted(rows, limits))
        result: dict[int, RowSample] = {}
        for sent, numbers in self._groups(np.flatnonzero(counts)).items():
            argument = sent.edits, rows
            parts = self.shards.map(take_rows, numbers, sent.broadcast, argument)
            result.update(zip(numbers, parts, strict=True))
        parts = [result[number] for number in sorted(result)]
        none = sp.csr_array((0, self.others.sums.shape[1]), dtype=np.float32)
        return RowSample(
            sp.csr_array(sp.vstack([none, *(part.X for part in parts)], format="csr")),
            Memo.joined([part.memo for part in parts]),
        )

    def _total(self, task: Task[SumT], numbers: Iterable[int], *given: object) -> SumT:
        parts = [
            self.shards.total(task, group, sent.broadcast, (sent.edits, *given))
            for sent, group in self._groups(numbers).items()
        ]
        return reduce(lambda one, other: one.plus(other), parts)

    def _groups(self, numbers: Iterable[int]) -> dict[LastBroadcast, list[int]]:
        """Group shards by their last broadcast."""
        groups: dict[LastBroadcast, list[int]] = {}
        for number in numbers:
            groups.setdefault(self.last_broadcasts[number], []).append(int(number))
        return groups


class EpochLearner(Learner[EpochPosterior, ShardCorpus, Any, EpochCache]):
    """Learner of an epoch: its rounds run the local step on shards."""

    def update_local(self, round: Round, visit: Visit) -> list[RowResult]:
        """Run the local step on all shards of a round in one call.

        If these are not all, their cached statistics are to be replaced.
        """
        numbers, before = [part.number for part in round.parts], None
        if len(numbers) < len(self.cache.shards.n_rows):
            tree = self.posterior.state.tree
            before = self.cache.sum_cached(numbers, tree)
        return [self.local_step.update_local(self.posterior, numbers, before)]
