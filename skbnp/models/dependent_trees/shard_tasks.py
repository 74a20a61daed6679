"""Tasks of dependent trees on shards of rows, and what shards cache.

A shard caches the nodes of its rows at their last local step, and applies the moves
since. That is a function of its rows, of the broadcast of that step and of moves: so
a shard whose cache is lost repeats the step, with the same bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.word_topics import SeenWords
from skbnp.inference.shards import Broadcast, Shard
from skbnp.models.dependent_trees.local import Memo, sum_rows, update_local
from skbnp.models.dependent_trees.moves.births import collect
from skbnp.models.dependent_trees.moves.merges import EntropyLosses
from skbnp.models.dependent_trees.moves.records import Record, replay_memo
from skbnp.models.dependent_trees.node_table import Drift, NodeTable
from skbnp.models.dependent_trees.state import EpochStats
from skbnp.trees import Tree
from skbnp.utils.typing import Flags, Ints


@dataclass(frozen=True, slots=True)
class EpochGlobals:
    """Broadcast: what the local step of rows reads."""

    table: NodeTable
    drift: Drift
    seen: SeenWords | None = None  # columns of the table; None: those of the rows


@dataclass(frozen=True, slots=True)
class Edit:
    """Moves after a local step: assignments of some rows change, then nodes merge."""

    records: tuple[Record, ...]
    rows: Ints  # numbers in the epoch, increasing
    assignments: Memo  # by these rows

    @classmethod
    def of(
        cls, records: Sequence[Record], rows: Ints, assignments: Memo
    ) -> "Edit | None":
        """Return what changes memos; None if nothing does."""
        ends = tuple(record for record in records if record.merged_into)
        return cls(ends, rows, assignments) if ends or len(rows) else None

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
        return replay_memo(memo, self.records)


Edits = tuple[Edit, ...]


def _rows_of(shard: Shard, broadcast: Broadcast) -> sp.csr_array:
    """Rows of a shard in the columns of the table."""
    if "rows" not in shard.cache:
        seen = broadcast.content.seen
        shard.cache["rows"] = shard.X if seen is None else seen.compact(shard.X)
    return shard.cache["rows"]


def _visited(
    shard: Shard, broadcast: Broadcast, before: Memo | None = None
) -> tuple[Memo, EpochStats]:
    """Run the local step; former assignments save scores, with the same result."""
    content: EpochGlobals = broadcast.content
    drift = None if before is None else content.drift.since(before.step, content.table)
    X = _rows_of(shard, broadcast)
    memo, stats = update_local(content.table, X, before, drift, run=shard.run)
    return replace(memo, step=content.drift.step), stats


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
    _, _, before = shard.cache.get("memo", (None, 0, None))
    memo, stats = _visited(shard, broadcast, before)
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
) -> EntropyLosses:
    """Task: sum the entropy that rows lose by merges of two of their nodes."""
    (edits,) = argument
    return EntropyLosses.of_rows(remembered(shard, broadcast, edits))


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
    result = collect(memo, targets, n_nodes, step, shard.first_row, most)
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


@dataclass(frozen=True, slots=True)
class SeenColumns:
    """Reply: columns in which some row has a value."""

    mask: Flags

    def plus(self, other: "SeenColumns") -> "SeenColumns":
        """Return the columns of both."""
        return SeenColumns(self.mask | other.mask)


def seen_columns(shard: Shard, broadcast: None, argument: None) -> SeenColumns:
    """Task: mark the columns in which rows of the shard have values."""
    n_features = shard.X.shape[1]
    return SeenColumns(np.bincount(shard.X.indices, minlength=n_features) > 0)
