"""Words that documents have shown, and tables of topic counts of words."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Annotated, Any, Self
from weakref import WeakSet

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import psi

from skbnp.components.known_topics import NOTHING_KNOWN, TopicPriors, best_columns
from skbnp.kernels._hdp_local import LANES, word_weights
from skbnp.kernels._word_topics import add_rows, growth, mix_topics
from skbnp.utils.arrays import column_sums, kernel_arrays, row_parts
from skbnp.utils.ranges import LeastAmount, Sized
from skbnp.utils.typing import Array, Flags, Ints, Ints32


@dataclass(frozen=True)
class SeenWords:
    """Words that documents have shown, in the order of their rows.

    All others are alike: no topic holds them, so that a table needs no row for them.
    """

    words: Annotated[Ints, Sized("n_seen")]  # of the vocabulary, one for each row
    n_vocabulary: int  # V

    @classmethod
    def all(cls, n_vocabulary: int) -> "SeenWords":
        """Return all words of a vocabulary, in its order."""
        return cls(np.arange(n_vocabulary), n_vocabulary)

    @classmethod
    def of(cls, counts: Array) -> "SeenWords":
        """Return the words with positive counts, (V,)."""
        return cls(np.flatnonzero(counts), len(counts))

    def __len__(self) -> int:
        return len(self.words)

    @property
    def is_whole(self) -> bool:
        """Whether all words have a row, in their order."""
        return self._rows is None

    @property
    def n_unseen(self) -> int:
        """Number of words without a row."""
        return self.n_vocabulary - len(self.words)

    @cached_property
    def _rows(self) -> Ints32 | None:
        """Row of each word of the vocabulary, (V,); None if it is the word itself."""
        n = len(self.words)
        if not self.n_unseen and np.array_equal(self.words, np.arange(n)):
            return None
        rows = np.full(self.n_vocabulary, n, dtype=np.int32)
        rows[self.words] = np.arange(n, dtype=np.int32)
        return rows

    def rows_of(self, words: Ints) -> Ints:
        """Rows of words; unseen words share the row after the last."""
        return words if self._rows is None else self._rows[words].astype(np.intp)

    def among(self, words: Ints) -> Ints:
        """Return those of some words that are seen."""
        return words[self.rows_of(words) < len(self)] if self.n_unseen else words

    def compact(self, X: sp.csr_array) -> sp.csr_array:
        """Return counts whose columns are rows of the table.

        Unseen words share a last column, if there are any in `X`; a row may have
        several entries there.
        """
        if self._rows is None:
            return X
        rows = self.rows_of(X.indices)
        n_columns = max(len(self), int(rows.max(initial=-1)) + 1)
        parts = X.data.copy(), rows.astype(X.indices.dtype), X.indptr
        compact = sp.csr_array(parts, (X.shape[0], n_columns))
        compact.sort_indices()
        return compact

    def spread(self, rows: sp.csr_array) -> sp.csr_array:
        """Return rows by words of the vocabulary, given by the first words here."""
        if self.is_whole:
            return rows
        words = self.words[rows.indices].astype(rows.indices.dtype)
        shape = rows.shape[0], self.n_vocabulary
        result = sp.csr_array((rows.data, words, rows.indptr), shape)
        result.sort_indices()
        return result

    def with_words(self, words: Ints) -> "SeenWords":
        """Append further words that are not seen yet, in their order."""
        if not self.n_unseen:
            return self
        new = words[self.rows_of(words) == len(self)]
        if len(new) == 0:
            return self
        return SeenWords(np.concatenate([self.words, new]), self.n_vocabulary)


#: The lazy scale is multiplied into the array before digits or range are lost.
SMALLEST_SCALE = 1e-6
#: Entries of a table that are filled at a time.
ENTRIES_PER_PART = 1 << 17
#: Columns and rows in reserve grow with their number, so that many splits and new words
#: copy the table once; twice as many columns are given back.
RESERVE = 0.125


@dataclass(slots=True)
class WordRows:
    """Topic counts of some words of the vocabulary."""

    words: Ints  # (n_words,) increasing
    values: sp.csr_array  # (n_words, n_topics)

    @property
    def total(self) -> Array:
        """Counts by topic, (n_topics,)."""
        columns, data = self.values.indices, self.values.data
        return np.bincount(columns, data, self.values.shape[1]).astype(np.float64)

    @property
    def tokens(self) -> Array:
        """Counts by topic, (n_topics,): of documents alone, as here always."""
        return self.total

    def plus(self, other: "WordRows") -> "WordRows":
        """Add the counts of other documents; words are the union."""
        words = np.union1d(self.words, other.words)
        values = _spread(self, words) + _spread(other, words)
        return WordRows(words, sp.csr_array(values))


def _spread(rows: WordRows, words: Ints) -> sp.csr_array:
    """Counts by more words, with zeros for new ones."""
    n_stored, stored = np.zeros(len(words) + 1, np.int64), rows.values
    n_stored[1 + np.searchsorted(words, rows.words)] = np.diff(stored.indptr)
    shape = (len(words), stored.shape[1])
    return sp.csr_array((stored.data, stored.indices, np.cumsum(n_stored)), shape)


def remaining(n_topics: int, gone: Sequence[int]) -> Ints:
    """Columns that remain when some end, in new order: the last fill the gaps."""
    n_left = n_topics - len(gone)
    order = np.arange(n_left)
    is_gone = np.zeros(n_topics, dtype=bool)
    is_gone[list(gone)] = True
    order[is_gone[:n_left]] = n_left + np.flatnonzero(~is_gone[n_left:])
    return order


class Weighting(Enum):
    """Whether a topic weighs a word by exp E[log phi] or by E[phi]."""

    EXPECTED_LOG = "expected log"  # exp E[log phi_kw]
    MEAN = "mean"  # E[phi_kw]


class WordTopics:
    """Topic counts of the whole vocabulary, word by word, with a lazy scale.

    One word is one contiguous row. `decay` multiplies one number, `add` touches the
    entries it names: an online step costs the words of its minibatch, not the
    vocabulary. Words have rows once something is added to them; all others share one
    of zeros, behind the last. Changes of topics touch the columns concerned; some
    are in reserve. A copy shares the table until either changes.

    `values`, (n_rows, n_topics), are counts to start from: kept, not copied where
    the whole vocabulary is seen. `seen` are the words of the rows, None for the
    whole vocabulary, in its order. `total`, (n_topics,), are counts summed over the
    vocabulary. Topics that are `known` before any document have the boosts of their
    words added, whose words are seen; fixed ones have these alone.
    """

    _values: Annotated[Array, Sized("n_rows", "width")]
    seen: SeenWords
    known: TopicPriors  # replaced, never changed
    _scale: LeastAmount
    total: Annotated[Array, Sized("n_components")]
    #: Factors of the table, one after the other, before `scale`; of a copy.
    _factors: tuple[float, ...] = ()
    #: All that share the table, this one included; None if it is not shared.
    _sharing: WeakSet[Any] | None = None

    def __init__(
        self,
        values: Array,
        seen: SeenWords | None = None,
        known: TopicPriors = NOTHING_KNOWN,
    ):
        """Make a table of counts of the words seen, by default all."""
        if len(known):
            values = np.array(values, dtype=np.float64)
            values[:, known.fixed] = 0.0
        self._values = np.ascontiguousarray(values)
        self.seen = SeenWords.all(len(values)) if seen is None else seen
        self.known, self._scale = known, 1.0
        self.total = self._values.sum(axis=0)
        self._see(known.words)
        if len(known):
            self._boost(known.boosts)
            self.total = self._values[:, : len(self.total)].sum(axis=0)

    def __getstate__(self) -> dict[str, object]:
        """Return what is saved, with an unshared table."""
        is_own = not self._factors and len(self._sharing or ()) < 2
        own = object.__new__(type(self))
        vars(own).update(vars(self))
        vars(own).pop("_sharing", None)
        if not is_own:
            own._values, own._factors = self._own_table(), ()
        return vars(own)

    @property
    def scale(self) -> float:
        """Factor of the array; with `total` it identifies the counts."""
        return self._scale

    @property
    def shape(self) -> tuple[int, int]:
        """Size of the vocabulary, number of topics."""
        return self.seen.n_vocabulary, len(self.total)

    @property
    def _seen_rows(self) -> Array:
        """Rows of the array of words that have been seen."""
        return self._values[: len(self.seen)]

    def rows(self, words: Ints | slice) -> Array:
        """Counts of the named words, (n_words, n_topics)."""
        if isinstance(words, slice):
            words = np.arange(self.shape[0])[words]
        return self._scaled(self._values[self.seen.rows_of(words), : len(self.total)])

    def seen_counts(self) -> Array:
        """Counts of the words that have been seen, (n_seen, n_topics)."""
        return self._scaled(self._seen_rows[:, : len(self.total)])

    def parts(self, size: int = ENTRIES_PER_PART) -> Iterator[Array]:
        """Yield the counts of the words seen, some words at a time."""
        stored = self._seen_rows[:, : len(self.total)]
        return (self._scaled(stored[rows]) for rows in row_parts(stored.shape, size))

    def column(self, topic: int) -> Array:
        """Counts of one topic, of the words that have been seen, (n_seen,)."""
        return self._scaled(self._seen_rows[:, topic])

    def mixed(
        self, shares: Array, X: sp.csr_array, eta: float | Array, norm: Array
    ) -> Array:
        """Mix (eta_k + S_wk) / norm_k by the shares of documents, (n_docs, n_topics).

        Returns a number for each stored entry (document, word) of `X`, (nnz,).
        """
        mixed = np.empty(X.nnz)
        mix_topics(
            self._values,
            math.prod((*self._factors, self._scale)),
            np.full(norm.shape, eta),
            norm,
            shares,
            X.indptr.astype(np.int64),
            self.seen.rows_of(X.indices.astype(np.intp)),
            mixed,
        )
        return mixed

    def _scaled(self, values: Array) -> Array:
        """Multiply values of the array by the scale."""
        first, *others = (*self._factors, self._scale)
        values = values * first
        for factor in others:
            values *= factor
        return values

    def growth(self, eta: float) -> tuple[Array, Array]:
        """Sums of lnG(eta + S) - lnG(eta) and S psi(eta + S) by topic."""
        if self._factors:
            self._own()
        growths, moments = np.zeros_like(self.total), np.zeros_like(self.total)
        growth(self._seen_rows, self._scale, eta, growths, moments)
        return growths, moments

    def entries(self, rows: WordRows) -> Array:
        """Counts at the stored entries of some rows, (n,)."""
        n_stored = np.diff(rows.values.indptr)
        place = np.repeat(self.seen.rows_of(rows.words), n_stored)
        return self._scaled(self._values[place, rows.values.indices])

    def dense(self) -> Array:
        """Counts of all words, (n_words, n_topics)."""
        return self.rows(slice(None))

    def weights(
        self,
        words: Ints,
        norm: Array,
        eta: float,
        weighting: Weighting,
        *,
        run: Callable[..., Iterable[None]] = map,
        fill_rows: Callable[..., None] = word_weights,
        tops: Array | None = None,
        stays_shared: bool = False,
    ) -> NDArray[np.float32]:
        """Table of the topics' weights for some words, filled by `fill_rows`.

        (n_words, stride): rows are padded to whole vectors.
        `run` maps over parts of them, where there are many. The largest means of the
        words go to `tops`, (n_words,). A copy reads the table that it shares if
        `stays_shared`, else it gets one of its own, and rounds as that.
        """
        if self._factors and not stays_shared:
            self._own()
        # Rows begin at whole vectors.
        n_words, stride = len(words), -(-len(self.total) // LANES) * LANES
        room = np.empty(n_words * stride + 16, dtype=np.float32)
        begin = -(room.__array_interface__["data"][0] // 4) % 16
        table = room[begin : begin + n_words * stride].reshape(n_words, stride)
        scale = math.prod((*self._factors, self._scale))
        places = self.seen.rows_of(words)

        def fill(part: slice) -> None:
            more = () if tops is None else (tops[part],)
            fill_rows(
                self._values,
                scale,
                places[part],
                norm,
                eta,
                weighting is Weighting.MEAN,
                table[part],
                *more,
            )

        step = max(1, ENTRIES_PER_PART // table.shape[1])
        parts = [slice(begin, begin + step) for begin in range(0, len(words), step)]
        deque(run(fill, parts), maxlen=0)
        return table

    def incremental_update(self, old: WordRows, new: WordRows) -> None:
        """Subtract rows of some words, and add others of the same words, in place."""
        # What was added and subtracted leaves rounding errors, of either sign: nothing
        # is below its boost.
        known, change = self.known, sp.csr_array(new.values - old.values)
        self.add(WordRows(new.words, change), lowest=-np.inf if len(known) else 0.0)
        if len(known):
            rows = self.seen.rows_of(new.words)
            least = np.zeros((len(rows), self._values.shape[1]))
            _, of, here = np.intersect1d(known.words, new.words, return_indices=True)
            least[here[:, None], known.columns] = known.boosts[of] / self._scale
            self._values[rows] = np.maximum(self._values[rows], least)

    def add(self, rows: WordRows, gain: float = 1.0, lowest: float = -np.inf) -> None:
        """Add `gain` times the rows of some words in place; no entry below `lowest`.

        Counts of fixed topics do not enter the table, but the sums `fixed_stats`.
        """
        if len(self.known.fixed):
            rows = self._fix(rows, gain)
        self._own()
        total, values = np.zeros_like(self.total), rows.values
        self._see(rows.words)
        add_rows(
            self._values,
            self.seen.rows_of(rows.words),
            *kernel_arrays(values),
            gain / self._scale,
            lowest,
            total,
        )
        self.total += gain * total

    def decay(self, keep: float) -> None:
        """Multiply counts of documents by `keep` in place, by the lazy scale."""
        self._scale *= keep
        self.total = self.total * keep
        if keep == 0.0:
            self._own()
            self._values.fill(0.0)
            self.total.fill(0.0)
            self._scale = 1.0
        elif self._scale < SMALLEST_SCALE:
            self.apply_scale()
        if len(self.known):
            self._own()
            self._boost_more(self.known.boosts, 1.0 - keep)
            fixed_stats = keep * self.known.fixed_stats
            self.known = replace(self.known, fixed_stats=fixed_stats)

    def apply_scale(self) -> None:
        """Multiply the scale into the array and recompute the totals, in place."""
        self._own()
        self._values *= self._scale
        self._scale = 1.0
        self.total = self._values[:, : len(self.total)].sum(axis=0)

    # -- topics that are known before any document ------------------------------------

    @property
    def tokens(self) -> Array:
        """Counts of documents alone, summed over the vocabulary, (n_topics,)."""
        if not len(self.known):
            return self.total
        known, tokens = self.known, self.total.copy()
        tokens[known.columns] -= known.boosts.sum(axis=0)
        tokens[known.fixed] = known.fixed_stats[0, known.is_fixed]
        return np.maximum(tokens, 0.0)

    @property
    def is_known(self) -> Flags:
        """Whether topics are known before any document, (n_topics,)."""
        return self._among(self.known.columns)

    @property
    def is_fixed(self) -> Flags:
        """Whether the words of topics are fixed, (n_topics,)."""
        return self._among(self.known.fixed)

    def _among(self, columns: Ints) -> Flags:
        flags = np.zeros(len(self.total), dtype=bool)
        flags[columns] = True
        return flags

    @property
    def follows_prior(self) -> Flags:
        """Whether the priors of topics change with eta, (n_topics,)."""
        return ~(self.is_known & self.known.is_whole)

    @property
    def table_prior(self) -> float | None:
        """Topic prior that the counts depend on; None if they depend on none."""
        return self.known.eta if self.known.is_whole else None

    def priors(self) -> Array:
        """Dirichlet parameters of the priors of all topics, (n_words, n_topics).

        Of fixed topics, their words.
        """
        known = self.known
        priors = np.full(self.shape, known.eta)
        priors[known.words[:, None], known.columns] = known.parameters
        self.put_given(priors)
        return priors

    def put_given(self, topics: Array) -> None:
        """Write the words of fixed topics in place, columns of (n_words, n_topics)."""
        known = self.known
        topics[known.words[:, None], known.fixed] = known.values[:, known.is_fixed]

    def best_columns(self) -> Ints:
        """Columns of the topics that documents gave the words of known ones, (G,)."""
        known = self.known
        counts = self.rows(known.words)
        counts[:, known.columns] -= known.boosts
        smoothing = self.shape[0] * known.eta
        return best_columns(known, counts, self.tokens, smoothing)

    def give_priors(self, columns: Ints) -> None:
        """Make other columns, (G,), those of the known topics, in place.

        Documents keep their columns.
        """
        self._own()
        known, boosts = self.known, self.known.boosts
        moved = columns != known.columns
        more = np.where(moved, boosts, 0.0)
        rows = self.seen.rows_of(known.words)[:, None]
        for sign, at in ((-1.0, known.columns[moved]), (1.0, columns[moved])):
            self._values[rows, at] += sign * more[:, moved] / self._scale
            self.total[at] += sign * more[:, moved].sum(axis=0)
        self.known = replace(known, columns=columns)

    def boost_words(self, words: Ints, values: Array) -> None:
        """Boost further words in place, (n, G)."""
        self._own()
        self._see(words)
        rows = self.seen.rows_of(words)[:, None]
        self._values[rows, self.known.columns] += values / self._scale
        self.total[self.known.columns] += values.sum(axis=0)
        self.known = self.known.boosted(words, values)

    def rebase(self, eta: float) -> None:
        """Rewrite the boosts in place for a new eta; total priors are unchanged."""
        if not len(self.known):
            return
        before, self.known = self.known.boosts, replace(self.known, eta=eta)
        if self.known.is_whole:
            self._own()
            self._boost_more(self.known.boosts - before)

    def _boost_more(self, boosts: Array, factor: float = 1.0) -> None:
        """Add a factor times boosts, (n, G), to counts and totals in place."""
        known = self.known
        self._boost(factor * boosts)
        self.total[known.columns] += factor * boosts.sum(axis=0)
        self.total[known.fixed] = known.boosts.sum(axis=0)[known.is_fixed]

    def _boost(self, values: Array) -> None:
        """Add boosts in place, (n, G); fixed topics get their words again."""
        known = self.known
        rows, fixed = self.seen.rows_of(known.words)[:, None], known.fixed
        self._values[rows, known.columns] += values / self._scale
        self._values[:, fixed] = 0.0
        self._values[rows, fixed] = known.boosts[:, known.is_fixed] / self._scale

    def _fix(self, rows: WordRows, gain: float) -> WordRows:
        """Add counts of fixed topics to their sums; return the rows without them."""
        known, values = self.known, rows.values
        place = np.full(self.shape[1], -1)
        place[known.fixed] = np.flatnonzero(known.is_fixed)
        at = np.flatnonzero(place[values.indices] >= 0)
        word = np.repeat(rows.words, np.diff(values.indptr))[at]
        parameters = known.parameters
        logs = psi(parameters) - psi(parameters.sum(axis=0))
        row, column = np.searchsorted(known.words, word), place[values.indices[at]]
        result, n = known.fixed_stats.copy(), len(known)
        data = gain * values.data[at]
        result[0] += np.bincount(column, data, n)
        result[1] += np.bincount(column, data * logs[row, column], n)
        self.known = replace(known, fixed_stats=result)
        left = values.data.copy()
        left[at] = 0.0
        parts = (left, values.indices, values.indptr)
        return WordRows(rows.words, sp.csr_array(parts, values.shape))

    # -- changes of topics, in place --------------------------------------------------

    def part(self, topic: int, first: Array, second: Array) -> None:
        """Replace a topic by two in place: at its column, and at the end.

        `first` and `second` are as `column` returns them.
        """
        self.append(second)
        self.put(topic, first)

    def put(self, topic: int, column: Array) -> None:
        """Replace the counts of a topic in place, (n_seen,)."""
        self._own()
        self._seen_rows[:, topic] = column / self._scale
        self.total[topic] = column.sum()

    def append(self, column: Array) -> None:
        """Append a topic in place, (n_seen,)."""
        self._own()
        n_topics = len(self.total)
        if n_topics == self._values.shape[1]:
            wide = n_topics + 1 + int(RESERVE * n_topics)
            values = np.zeros((self._values.shape[0], wide))
            values[:, :n_topics] = self._values
            self._values = values
        self._seen_rows[:, n_topics] = column / self._scale
        self.total = np.append(self.total, column.sum())

    def merge(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Add the counts of sources to targets in place, and remove the sources.

        `pairs` are (source, target), disjoint.
        """
        self._own()
        for source, target in pairs:
            self._values[:, target] += self._values[:, source]
            self.total[target] += self.total[source]
        self.drop([source for source, _ in pairs])

    def drop(self, gone: Sequence[int]) -> None:
        """Remove topics in place; the order of others is that of `remaining`."""
        self._own()
        order = remaining(len(self.total), gone)
        for place, column in enumerate(order.tolist()):
            if place != column:
                self._values[:, place] = self._values[:, column]
        self.total, self.known = self.total[order], self.known.taken(order)
        if self._values.shape[1] > (1.0 + 2.0 * RESERVE) * len(order):
            self.trim()

    # -- the table, and the copies that share it --------------------------------------

    def _see(self, words: Ints) -> None:
        """Enlarge the array so that each seen word, and all unseen, have a row.

        `words` are seen, too.
        """
        self.seen = self.seen.with_words(words)
        n_rows, n_columns = self._values.shape
        needed = len(self.seen) + (self.seen.n_unseen > 0)
        if n_rows < needed:
            needed = min(needed + int(RESERVE * needed), self.seen.n_vocabulary)
            values = np.zeros((needed, n_columns))
            values[:n_rows] = self._values
            self._values = values

    def trim(self) -> None:
        """Shrink the array to the columns in use."""
        n_topics = max(len(self.total), 1)
        if n_topics < self._values.shape[1]:
            self._own()  # which may be all that it takes
        if n_topics == self._values.shape[1]:
            return
        flat, shape = self._values.reshape(-1), (self._values.shape[0], n_topics)
        for rows in row_parts(self._values.shape):
            part = self._values[rows, :n_topics].copy()
            flat[rows.start * n_topics : rows.stop * n_topics] = part.ravel()
        del flat
        try:  # in the same memory if no other array uses it
            self._values.resize(shape)
        except ValueError:
            flat = self._values.reshape(-1)[: shape[0] * n_topics]
            self._values = flat.copy().reshape(shape)

    def _own_table(self) -> Array:
        """Return an unshared array, which `scale` still multiplies."""
        values = self._values[:, : len(self.total)].copy()
        for factor in self._factors:
            values *= factor
        return values

    def _own(self) -> None:
        """Copy the array if it is shared or read-only, as memory maps are."""
        if len(self._sharing or ()) > 1 or not self._values.flags.writeable:
            self._values, self.total = self._own_table(), self.total.copy()
        else:
            for factor in self._factors:
                self._values *= factor
        if self._sharing is not None:
            self._sharing.discard(self)
        for name in ("_sharing", "_factors"):
            vars(self).pop(name, None)

    def copy(self) -> "WordTopics":
        """Return an independent copy; the array is copied at the first change."""
        other = self.frozen()
        other.total = column_sums(other.parts(), len(self.total))
        return other

    def emptied(self) -> "WordTopics":
        """Return an empty table of the same words and topics."""
        zeros = np.zeros((len(self.seen), len(self.total)))
        return WordTopics(zeros, self.seen, self.known.without_documents())

    def remade(self, values: Array, seen: SeenWords, kept: Ints) -> "WordTopics":
        """Return a table whose first topics are those of the columns `kept`."""
        return WordTopics(values, seen, self.known.taken(kept).without_documents())

    def widen(self, n_vocabulary: int) -> None:
        """Append words to the vocabulary in place; topics have no counts of them."""
        self._own()
        n_before, self.seen = (
            self.shape[0],
            replace(self.seen, n_vocabulary=n_vocabulary),
        )
        known = self.known.widened(n_before, n_vocabulary)
        self._see(known.words)
        if known.is_whole:
            self.known, new = known, known.boosts
            new[known.words < n_before] = 0.0
            self._boost(new)
            self.total = self._values[:, : len(self.total)].sum(axis=0) * self._scale

    def frozen(self) -> Self:
        """Return a copy-on-write view of the table; `total` is copied bit for bit."""
        other = type(self).__new__(type(self))
        other._values, other.seen, other._scale = self._values, self.seen, 1.0
        other.known = self.known
        other.total = self.total.copy()
        other._factors = (*self._factors, self._scale)
        if self._sharing is None:
            self._sharing = WeakSet([self])
        self._sharing.add(other)
        other._sharing = self._sharing
        return other
