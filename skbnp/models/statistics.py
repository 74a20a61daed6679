"""Additive statistics, and the one operation that learning performs on them.

A model declares its statistics as a dataclass whose fields are numbers, arrays with
one entry per component, and one field with an entry per (component, word). What a visit
of some documents gives, and the totals of a corpus, are two instances of the same
dataclass; only the (component, word) field differs: `WordRows` for a visit,
`WordTopics` for the totals.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["WordRows", "WordTopics", "absorb", "exchange"]

#: The lazy scale is multiplied into the array before digits or range are lost.
SMALLEST_SCALE = 1e-6


@dataclass(slots=True)
class WordRows:
    """Topic counts of some words of the vocabulary."""

    words: NDArray[np.intp]  # (n_words,) increasing
    values: Any  # (n_words, n_topics), ndarray; csr_array where they are kept

    def dense(self) -> NDArray[np.float64]:
        """Counts as an ndarray."""
        return self.values.toarray() if sp.issparse(self.values) else self.values


class WordTopics:
    """Topic counts of the whole vocabulary, word by word, with a lazy scale.

    One word is one contiguous row. `decay` multiplies one number, `add` touches the
    rows it names: an online step costs the words of its minibatch, not the vocabulary.

    Parameters
    ----------
    values : (n_words, n_topics)
        Counts to start from; kept, not copied.

    Attributes
    ----------
    total : (n_topics,)
        Counts summed over the vocabulary.
    """

    def __init__(self, values: NDArray[np.float64]):
        self._values = np.ascontiguousarray(values)
        self._scale = 1.0
        self.total = self._values.sum(axis=0)

    @classmethod
    def from_rows(cls, rows: WordRows, n_words: int) -> "WordTopics":
        """Counts that are zero but for some words."""
        values = np.zeros((n_words, rows.values.shape[1]))
        values[rows.words] = rows.values
        return cls(values)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of words, number of topics."""
        return self._values.shape

    def rows(self, words: NDArray[np.intp] | slice) -> NDArray[np.float64]:
        """Counts of the named words, (n_words, n_topics)."""
        return self._values[words] * self._scale

    def column(self, topic: int) -> NDArray[np.float64]:
        """Counts of one topic, (n_words,)."""
        return self._values[:, topic] * self._scale

    def parted(
        self, topic: int, first: NDArray[np.float64], second: NDArray[np.float64]
    ) -> "WordTopics":
        """Return a copy with two topics for one: in its place, and at the end."""
        values = np.column_stack([self.dense(), second])
        values[:, topic] = first
        return WordTopics(values)

    def dense(self) -> NDArray[np.float64]:
        """Counts of all words, (n_words, n_topics)."""
        return self._values * self._scale

    def add(self, rows: WordRows, gain: float = 1.0) -> None:
        """Add `gain` times the rows of some words."""
        self._own()
        values = rows.dense()
        self._values[rows.words] += values * (gain / self._scale)
        self.total += gain * values.sum(axis=0)

    def exchange(self, old: WordRows, new: WordRows) -> None:
        """Take the rows of some words away, and add others of the same words."""
        self._own()
        change = new.dense() - old.dense()
        rows = self._values[new.words] + change / self._scale
        # What was added and taken away leaves rounding errors, of either sign.
        self._values[new.words] = np.maximum(rows, 0.0)
        self.total += change.sum(axis=0)

    def decay(self, keep: float) -> None:
        """Multiply all counts by `keep`."""
        self._own()
        self._scale *= keep
        self.total *= keep
        if keep == 0.0:
            self._values.fill(0.0)
            self.total.fill(0.0)
            self._scale = 1.0
        elif self._scale < SMALLEST_SCALE:
            self.settle()

    def without(self, columns: Any) -> "WordTopics":
        """Return a copy that lacks some topics."""
        return WordTopics(np.delete(self.dense(), columns, axis=1))

    def merged(self, pairs: Any) -> "WordTopics":
        """Return a copy in which targets hold the counts of their sources too.

        `pairs` are (source, target), disjoint.
        """
        sources, targets = np.transpose(pairs)
        values = self.dense()
        values[:, targets] += values[:, sources]
        return WordTopics(np.delete(values, sources, axis=1))

    def settle(self) -> None:
        """Multiply the scale into the array and sum the totals afresh."""
        self._values *= self._scale
        self._scale = 1.0
        self.total = self._values.sum(axis=0)

    def _own(self) -> None:
        """Make arrays writeable that were loaded as memory maps."""
        if not self._values.flags.writeable:
            self._values, self.total = self._values.copy(), self.total.copy()

    def copy(self) -> "WordTopics":
        """Return an independent copy."""
        return WordTopics(self.dense())


def exchange(totals: Any, old: Any, new: Any) -> None:
    """Let totals = totals - old + new, in place, field by field."""
    for item in fields(totals):
        held = getattr(totals, item.name)
        out, into = getattr(old, item.name), getattr(new, item.name)
        if isinstance(held, WordTopics):
            held.exchange(out, into)
        else:
            setattr(totals, item.name, held - out + into)


def absorb(totals: Any, fresh: Any, *, keep: float, gain: float) -> None:
    """Let totals = keep * totals + gain * fresh, in place, field by field."""
    for item in fields(totals):
        old, new = getattr(totals, item.name), getattr(fresh, item.name)
        if isinstance(old, WordTopics):
            old.decay(keep)
            old.add(new, gain)
        else:
            setattr(totals, item.name, keep * old + gain * new)
