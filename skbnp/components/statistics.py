"""Additive statistics, and the operations that learning performs on them.

A model declares its statistics as a dataclass whose fields are numbers, arrays with
one entry per component, and one field with an entry per (component, word). Statistics
of some documents and the totals of a corpus are two instances of the same
dataclass; only the (component, word) field differs: `WordRows` of documents,
`WordTopics` for the totals.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from skbnp.components.word_topics import WordRows, WordTopics
from skbnp.trees import Tree
from skbnp.utils.arrays import entries_of, limits_of, rows_of
from skbnp.utils.typing import Array, Ints


class State(Protocol):
    """Protocol: globals of a model, a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field]]

    @property
    def n_components(self) -> int:
        """Number of components."""


class Stats(Protocol):
    """Protocol: additive statistics of a model."""

    @property
    def n_tokens(self) -> float:
        """Tokens, or rows, of the documents."""

    def plus(self, other: Self) -> Self:
        """Add the statistics of other documents."""


StateT = TypeVar("StateT", bound=State)

StatsT = TypeVar("StatsT", bound=Stats)

WordsT = TypeVar("WordsT", WordRows, WordTopics)  # of documents, of totals


@dataclass(slots=True)
class WordStats(Generic[WordsT]):
    """Base of statistics whose first field is the words of topics."""

    topic_words: WordsT  # S, (word, topic)

    #: Fields with an entry per topic, but for the words.
    columns: ClassVar[tuple[str, ...]]

    def with_columns(self, change: Callable) -> Self:
        """Apply `change` to all fields with an entry per topic, except words."""
        columns = {name: change(getattr(self, name)) for name in self.columns}
        return replace(self, **columns)

    @property
    def sums(self) -> dict[str, Any]:
        """All fields but the words, by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)[1:]}

    def plus(self, other: Self) -> Self:
        """Return the statistics of the documents of both."""
        rows: Any = self.topic_words
        words, more = rows.plus(other.topic_words), other.sums
        sums = {name: value + more[name] for name, value in self.sums.items()}
        return replace(self, topic_words=words, **sums)

    def decay(self, keep: float) -> None:
        """Multiply totals by a number, in place."""
        words: Any = self.topic_words
        words.decay(keep)
        for name, value in self.sums.items():
            setattr(self, name, keep * value)

    def add(self, fresh: "WordStats", gain: float) -> None:
        """Add `gain` times the statistics of documents to totals, in place."""
        words: Any = self.topic_words
        words.add(fresh.topic_words, gain)
        more = fresh.sums
        for name, value in self.sums.items():
            setattr(self, name, value + gain * more[name])

    def exchange(self, old: "WordStats", new: "WordStats") -> None:
        """Subtract old statistics of documents from totals, and add new ones."""
        words: Any = self.topic_words
        words.incremental_update(old.topic_words, new.topic_words)
        out, into = old.sums, new.sums
        for name, value in self.sums.items():
            setattr(self, name, value - out[name] + into[name])


# Trees: arrays that are re-indexed when the tree changes ------------------------------


class NodeState:
    """Globals that are arrays by position in a tree."""

    __slots__ = ()
    tree: Tree

    @property
    def n_components(self) -> int:
        """Number of nodes."""
        return len(self.tree)

    @property
    def ids(self) -> Ints:
        """Ids of the nodes, by position."""
        return self.tree.ids


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    """Sums over rows; fields are numbers and arrays, some with an axis over nodes."""

    #: Fields whose first axis goes by position in the tree.
    per_node: ClassVar[tuple[str, ...]]

    def times(self, gain: float) -> Self:
        """Multiply the sums by `gain`."""
        return self.blended(self, 0.0, gain)

    def plus(self, other: Self, gain: float = 1.0) -> Self:
        """Add `gain` times `other`."""
        return self.blended(other, 1.0, gain)

    def blended(self, fresh: Self, keep: float, gain: float) -> Self:
        """Return `keep` times the sums plus `gain` times others."""
        sums = {}
        for item in fields(self):
            value, change = getattr(self, item.name), getattr(fresh, item.name)
            value = value if keep == 1.0 else keep * value
            change = change if gain == 1.0 else gain * change
            sums[item.name] = value + change
        return type(self)(**sums)

    def take_nodes(self, old: Tree, new: Tree) -> Self:
        """Take the sums of nodes that stay; new nodes have zeros."""
        stays = np.isin(old.ids, new.ids)
        at = new.positions(old.ids[stays])
        moved: dict[str, np.ndarray] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in self.per_node:
                moved[item.name] = np.zeros((len(new), *value.shape[1:]))
                moved[item.name][at] = value[stays]
            elif isinstance(value, np.ndarray):
                moved[item.name] = value.copy()
        return replace(self, **moved)


class Supports:
    """Local parameters of rows over the stubs that they may take: ragged arrays.

    `stubs` and `shares` are by entry of the support of rows, whose limits are `limits`.
    """

    __slots__ = ()
    #: Fields by row, and those of each ragged axis, by the name of its limits.
    per_row: ClassVar[tuple[str, ...]] = ("entropies", "bounds")
    ragged: ClassVar[dict[str, tuple[str, ...]]]
    limits: Ints  # (n_rows + 1,)
    stubs: NDArray
    shares: Array
    bounds: Array  # (n_rows,)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.bounds)

    @property
    def row(self) -> Ints:
        """Row of each entry of the support."""
        return rows_of(self.limits)

    @property
    def best(self) -> Ints:
        """Entry of the most probable stub of each row; of equal ones the first."""
        return np.lexsort((-self.shares, self.row))[self.limits[:-1]]

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the local parameters of several sets of rows, at least one."""
        moved = {}
        for limits, names in cls.ragged.items():
            moved[limits] = limits_of([np.diff(getattr(one, limits)) for one in parts])
            for name in names:
                moved[name] = np.concatenate([getattr(one, name) for one in parts])
        for name in cls.per_row:
            moved[name] = np.concatenate([getattr(one, name) for one in parts])
        return cls(**moved)

    def take(self, rows: Ints) -> Self:
        """Return the local parameters of some rows."""
        moved = {name: getattr(self, name)[rows] for name in self.per_row}
        for limits, names in self.ragged.items():
            entries, moved[limits] = entries_of(getattr(self, limits), rows)
            moved |= {name: getattr(self, name)[entries] for name in names}
        return type(self)(**moved)

    def replaced(self, rows: Ints, new: Self) -> Self:
        """Replace the local parameters of some rows, in increasing order."""
        order = np.arange(self.n_rows)
        order[rows] = self.n_rows + np.arange(len(rows))
        return self.joined([self, new]).take(order)

    def touching(self, stubs: Ints) -> Ints:
        """Rows with one of some stubs in their support."""
        return np.unique(self.row[np.isin(self.stubs, stubs)])

    def renamed(self, stubs: NDArray) -> Self:
        """Return the local parameters with other names of the stubs, (n_support,)."""
        names = stubs.astype(self.stubs.dtype, copy=False)
        return replace(self, stubs=names)  # type: ignore[type-var]


def ended_nodes(
    old: Tree, new: Tree, merged_into: Mapping[int, int] | None = None
) -> Iterator[tuple[int, int, bool]]:
    """Yield (old position, new position, whether merged) of each node that ended.

    Without a target in the new tree, the new position is that of the last node above
    that remains. Positions are those in the old tree, and in the new one.
    """
    for place in np.flatnonzero(~np.isin(old.ids, new.ids)).tolist():
        target: int | None = int(old.ids[place])
        while target is not None and target not in new:
            target = (merged_into or {}).get(target)
        is_heir = target is not None
        if target is None:
            above = old.path_to(int(old.ids[place]))
            target = int(above[np.isin(above, new.ids)][-1])
        yield place, int(new.positions(target)), is_heir
