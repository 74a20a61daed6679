"""Additive statistics, and the operations that learning performs on them.

A model declares its statistics as a dataclass whose fields are numbers, arrays with
one entry per component, and one field with an entry per (component, word). Statistics
of some documents and the totals of a corpus are two instances of the same
dataclass; only the (component, word) field differs: `WordRows` of documents,
`WordTopics` for the totals.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass, fields, replace
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from skbnp.components.word_topics import WordRows, WordTopics


class Record(Protocol):
    """Any dataclass of statistics."""

    __dataclass_fields__: ClassVar[dict[str, Field]]


class State(Record, Protocol):
    """Protocol: globals of a model."""

    @property
    def n_components(self) -> int:
        """Number of components."""


class Stats(Record, Protocol):
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

    def plus(self, other: Self) -> Self:
        """Return the statistics of the documents of both."""
        sums = {}
        for item in fields(self):
            first, second = getattr(self, item.name), getattr(other, item.name)
            is_rows = isinstance(first, WordRows)
            sums[item.name] = first.plus(second) if is_rows else first + second
        return type(self)(**sums)


def incremental_update(global_stats: Record, old: Record, new: Record) -> None:
    """Set totals to totals - old + new, in place, field by field."""
    for item in fields(global_stats):
        stored = getattr(global_stats, item.name)
        out, into = getattr(old, item.name), getattr(new, item.name)
        if isinstance(stored, WordTopics):
            stored.incremental_update(out, into)
        else:
            setattr(global_stats, item.name, stored - out + into)


def stochastic_update(
    global_stats: Record, fresh: Record, *, keep: float, gain: float
) -> None:
    """Set totals to keep * totals + gain * fresh, in place, field by field."""
    for item in fields(global_stats):
        old, new = getattr(global_stats, item.name), getattr(fresh, item.name)
        if isinstance(old, WordTopics):
            old.decay(keep)
            old.add(new, gain)
        else:
            setattr(global_stats, item.name, keep * old + gain * new)


def multiply(global_stats: Record, factor: float) -> None:
    """Multiply totals by a positive number, in place, field by field."""
    for item in fields(global_stats):
        value = getattr(global_stats, item.name)
        if isinstance(value, WordTopics):
            value.decay(factor)
        else:
            setattr(global_stats, item.name, factor * value)
