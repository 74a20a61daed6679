"""Cache of dependent trees: rows by shard, their local step and statistics."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any
from weakref import ref

import numpy as np
import scipy.sparse as sp

from skbnp.components.word_topics import SeenWords
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Run
from skbnp.inference.memory import learn_priors
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus, StatisticsCache, Visit
from skbnp.inference.schedules import Round
from skbnp.inference.shards import Broadcast, Shards, SumT, Task, first_rows
from skbnp.models.dependent_trees import shard_tasks
from skbnp.models.dependent_trees.epoch import EpochPosterior, coordinate_ascent
from skbnp.models.dependent_trees.local import Memo
from skbnp.models.dependent_trees.moves.births import Collected, Joined, shared_out
from skbnp.models.dependent_trees.moves.merges import EntropyLosses
from skbnp.models.dependent_trees.moves.records import Record, merged_into_of
from skbnp.models.dependent_trees.node_table import Drift, NodeTable
from skbnp.models.dependent_trees.state import EpochState, EpochStats
from skbnp.trees import Tree
from skbnp.utils.typing import Ints


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

    At most `n_rounds` rounds are between two local steps of a shard; `seen` are the
    columns of the state, if rows of the shards have others too.
    """

    shards: Shards
    n_rounds: int
    seen: SeenWords | None
    _last: Broadcast | None
    _state: ref[EpochState] | None = None  # of the last broadcast

    def __init__(self, shards: Shards, n_rounds: int, seen: SeenWords | None = None):
        self.shards, self.n_rounds, self.seen = shards, n_rounds, seen
        self._last = None

    def update_local(
        self,
        posterior: Posterior,
        numbers: Sequence[int],
        before: EpochStats | None = None,
    ) -> RowResult:
        """Run the local step of shards under the present globals."""
        broadcast = self.broadcast(posterior)
        stats = self.shards.total(shard_tasks.update_rows, numbers, broadcast)
        return RowResult(stats, broadcast, before)

    def broadcast(self, posterior: Posterior) -> Broadcast:
        """Return what the local step reads; the same state is broadcast once."""
        state, last = posterior.state, self._last
        if last is None or self._state is None or self._state() is not state:
            table = NodeTable.of(state, posterior.model.priors)
            drift, before = Drift(), None
            if last is not None:
                drift, before = last.content.drift, last.content.table
            drift = drift.followed_by(table, before).latest(self.n_rounds + 1)
            last = Broadcast(shard_tasks.EpochGlobals(table, drift, self.seen))
            self._last, self._state = last, ref(state)
        return last


@dataclass(frozen=True, eq=False, slots=True)
class LastBroadcast:
    """Broadcast of the last local step of shards, and the moves since."""

    broadcast: Broadcast
    edits: tuple[shard_tasks.Edit, ...] = ()


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
        self.others = self.others.reindexed(tree, new, merged_into_of(records))
        edit = shard_tasks.Edit.of(records, *joined)
        if edit is not None:
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
        return self._total(shard_tasks.sum_shard_rows, numbers, tree)

    def losses(self) -> EntropyLosses:
        """Entropy that rows lose by merges of any two of their nodes."""
        losses = self._total(shard_tasks.sum_losses, range(len(self.last_broadcasts)))
        return replace(losses, has_others=bool(self.others.masses.any()))

    def gather(
        self, targets: Sequence[int], n_nodes: int, step: int, most: int
    ) -> list[Collected]:
        """Collect rows of targets; one that several want goes to the first."""
        if not targets:
            return []
        numbers = range(len(self.last_broadcasts))
        result = self._total(
            shard_tasks.collect_rows, numbers, targets, n_nodes, step, most
        )
        n_rows = int(self.shards.n_rows.sum())
        lists = shared_out([rows for rows, _ in result.result], n_rows)
        taken = np.sort(np.concatenate(lists))
        sample = self._taken(taken)
        gathered = []
        for target, rows in zip(targets, lists, strict=True):
            at = np.searchsorted(taken, rows)
            memo = sample.memo.taken(at)
            gathered.append(Collected(target, rows, sample.X[at], memo))
        return gathered

    def _taken(self, rows: Ints) -> shard_tasks.RowSample:
        """Return rows by their numbers in the epoch, increasing."""
        limits = [*first_rows(self.shards.n_rows), int(self.shards.n_rows.sum())]
        counts = np.diff(np.searchsorted(rows, limits))
        result: dict[int, shard_tasks.RowSample] = {}
        for sent, numbers in self._groups(np.flatnonzero(counts)).items():
            argument = sent.edits, rows
            parts = self.shards.map(
                shard_tasks.take_rows, numbers, sent.broadcast, argument
            )
            result.update(zip(numbers, parts, strict=True))
        parts = [result[number] for number in sorted(result)]
        none = sp.csr_array((0, self.others.sums.shape[1]), dtype=np.float32)
        return shard_tasks.RowSample(
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
