"""Seating of the Chinese restaurant franchise: the state of a Gibbs sampler of the HDP.

Tokens of a document sit at tables, alpha weighs a new one; each table serves a dish (a
topic) that all documents share, gamma weighs a new one. Topics and weights are
integrated out, so that seating and concentrations are the whole state. If documents
repeat words (`repeats`), only the tokens that open a table of a word are seated.

Documents may have groups, a third level between these and the corpus (Teh, Jordan, Beal
and Blei, 2006, section 6). Tables of a document are then customers of the restaurant of
its group, whose tables are customers of the corpus; so are tables of documents without
a group. Weights of groups are integrated out, too, and those of the corpus are drawn.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from skbnp import distributions as draws
from skbnp.distributions import GammaPrior, log_rising
from skbnp.inference.chains import ChainState, pieces_of
from skbnp.kernels import _seating as kernel
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.rows.batch import Tokens
from skbnp.utils.arrays import rows_of
from skbnp.utils.ranges import Log, Positive, Sized, Steps, TokenCounts
from skbnp.utils.typing import Array, Flags, Ints, Ints32

# Repeated words of a seating: a Pitman-Yor process of words in each document.
#
# The model is that of `skbnp.models.hdp.burstiness`, with the papers, G_j ~ PYP(d, c,
# H_j). The tokens of a word sit at tables of the word; the first one of each is drawn
# from H_j and seated by the topics, the others repeat it. Of N_j tokens at T_j tables
# of words, of sizes s, with (c | d)_T = c (c + d) ... (c + [T - 1] d),
#
#     p(tables of words) = prod_j (c | d)_{T_j} / (c | 1)_{N_j} prod_s (1 - d | 1)_{s -
#     1}


#: Discount and concentration of no repeats, and those that learning starts from.
NONE, START = (0.0, np.inf), (0.5, 100.0)
#: Range of the discount, which is uniform there. Near one the kernel draws many
#: tables of a word before it accepts one; near zero nothing depends on it.
DISCOUNTS = 1e-6, 0.98
#: Prior of the concentration, shape and rate: flat, so that where documents show no
#: repeats of their own there are hardly any.
VAGUE: GammaPrior = (1.0, 1e-8)
#: Numbers up to this are counted by a table.
COMMON = 4096
#: Width of the steps of a slice of the discount.
WIDTH = 0.1

#: Values, and how often each occurs.
Counted = tuple[Array, Ints]


@dataclass(frozen=True, slots=True)
class Repeats:
    """Statistics of the tables of words, for their discount and concentration."""

    sizes: Counted  # of tables of two tokens and more
    n_tables: Counted  # of each document
    n_tokens: Counted  # likewise

    @classmethod
    def of(cls, word_size: NDArray, n_tables: NDArray, n_tokens: NDArray) -> Self:
        """Count the sizes of tables, and the tables and tokens of documents."""
        return cls(
            _counted(word_size[word_size > 1]),
            _counted(n_tables[n_tables > 0]),
            _counted(n_tokens[n_tokens > 0]),
        )

    def log_probability(self, discount: float, concentration: float) -> float:
        """Log p(tables of words), nats."""
        return (
            self._log_openings(discount, concentration)
            + self._log_sizes(discount)
            - self._log_tokens(concentration)
        )

    def draw(
        self,
        discount: float,
        concentration: float,
        prior: GammaPrior,
        rng: np.random.Generator,
    ) -> tuple[float, float]:
        """Draw the concentration and then the discount, given all else."""
        c = draws.draw_by_slice(
            concentration,
            lambda c: self._log_openings(discount, c) - self._log_tokens(c),
            prior,
            rng,
        )
        d = draws.draw_in_range(
            discount,
            lambda d: self._log_openings(d, c) + self._log_sizes(d),
            DISCOUNTS,
            WIDTH,
            rng,
        )
        return d, c

    def _log_openings(self, discount: float, concentration: float) -> float:
        """Log (c | d)_T summed over documents: probability of all new tables."""
        n, times = self.n_tables
        logs = draws.log_rising(concentration / discount, n) + n * np.log(discount)
        return float((times * logs).sum())

    def _log_sizes(self, discount: float) -> float:
        n, times = self.sizes
        return float((times * draws.log_rising(1.0 - discount, n - 1.0)).sum())

    def _log_tokens(self, concentration: float) -> float:
        n, times = self.n_tokens
        return float((times * draws.log_rising(concentration, n)).sum())


def _counted(values: NDArray) -> Counted:
    """Values that occur, and their frequencies; zeros are left out."""
    if values.max(initial=0) < COMMON:
        all_times = np.bincount(values)
        result = np.flatnonzero(all_times)
        times = all_times[result]
    else:
        result, times = np.unique(values, return_counts=True)
    return result.astype(np.float64), times


#: Places beyond those that the longest document may need.
SPARE_PLACES = 64
#: Tokens of documents that are put to tables at a time, about.
TOKENS_PER_PART = 1 << 17
#: Products of ratios (n + eta) / eta stay below the exponential of this.
MOST_NATS = 600.0


@dataclass(frozen=True, slots=True)
class TableAssignments:
    """Tables of tokens and dishes of tables: a seating without its counts."""

    table: NDArray  # (n_tokens,) number of its table in the document; 0 of a repeat
    n_tables: Ints32  # (n_docs,)
    size: Ints32  # (all tables,) by document
    dish: Ints32  # (all tables,)
    #: (n_tokens,) tokens at the table of the word that each has opened, 0: a repeat.
    word_size: NDArray | None = None

    @classmethod
    def one_per_dish(
        cls, tokens: Tokens, dish: NDArray
    ) -> "tuple[TableAssignments, Ints]":
        """Put all tokens of a document that have the same dish at one table.

        Returns also the dishes that occur; in the tables they are numbered without
        gaps.
        """
        served, begin, parts = np.unique(dish), tokens.begin, []
        for first, last in pieces_of(begin, TOKENS_PER_PART):
            number = np.searchsorted(served, dish[begin[first] : begin[last]])
            doc = rows_of(begin[first : last + 1])
            _, at, table, size = np.unique(
                doc * len(served) + number,
                return_index=True,
                return_inverse=True,
                return_counts=True,
            )
            order = np.argsort(at)  # tables in the order of their first tokens
            n_tables = np.bincount(doc[at], minlength=last - first)
            before = np.cumsum(n_tables) - n_tables
            table = np.argsort(order)[table] - before[doc]
            of_part = (
                table.astype(_smallest_type(n_tables)),
                n_tables.astype(np.int32),
                size[order].astype(np.int32),
                number[at[order]].astype(np.int32),
            )
            parts.append(of_part)
        return cls(*map(np.concatenate, zip(*parts, strict=True))), served


def _smallest_type(counts: NDArray) -> np.dtype:
    """Smallest integer type for the largest of some counts."""
    return np.min_scalar_type(int(counts.max(initial=0)))


@dataclass(frozen=True, slots=True)
class Concentrations:
    """Hyperparameters of a seating."""

    corpus_concentration: Positive  # gamma
    doc_concentration: Positive  # alpha
    topic_word_prior: Positive  # eta
    word_discount: float = NONE[0]  # d
    word_concentration: float = NONE[1]  # c; infinite: no document repeats a word
    group_concentration: Positive = 1.0  # of groups of documents, if there are any

    @property
    def has_repeats(self) -> bool:
        """Whether documents repeat words by tables of words."""
        return bool(np.isfinite(self.word_concentration))


#: Customers of the corpus by dish, and weights of dishes and of all others.
Corpus = tuple[Ints32, Array]


@dataclass(frozen=True, slots=True)
class Places:
    """Counts of dishes by documents or a prior before any token of a seating."""

    counts: sp.csr_array  # (n_dishes, n_words)
    tables: Ints32  # (n_dishes,)
    is_prior: bool = False  # whether of a prior, not of documents
    group_tables: Ints32 | None = None  # see `FranchiseSample`


class Seating:
    """Tables of tokens and dishes of tables, with all counts of these.

    The kernels change the arrays. Between sweeps `tidy` puts them into an order that
    depends on the seating alone, so that a chain goes on alike from a copy of
    `TableAssignments`.

    Parameters
    ----------
    tokens : Tokens
    concentrations : Concentrations
    tables : TableAssignments or None
        Where tokens sit; None: nobody does.
    before : Places or None
        Tables of documents that are gone, first dishes first.
    group_limits : ndarray of int of shape (n_groups + 2,) or None
        Documents come by groups, those without a group last: the first one of each, and
        the number of all. None: there are no groups.
    """

    # Of groups of documents
    n_own_tables, scale, is_counted = 0, 1.0, False
    rest = 1.0  # the weight of all dishes that nobody has
    corpus_tables: Ints32 | None = None  # customers of the corpus, (n_dishes,)
    n_group_tables = 0

    def __init__(
        self,
        tokens: Tokens,
        concentrations: Concentrations,
        tables: TableAssignments | None = None,
        before: Places | None = None,
        group_limits: Ints | None = None,
    ):
        """Allocate the arrays that kernels read and write, and count the tables."""
        n_docs, n_tokens = len(tokens.begin) - 1, len(tokens)
        limits = np.zeros(1, np.intp) if group_limits is None else group_limits
        self.has_groups, self.group_limits = group_limits is not None, limits
        self.n_groups = len(limits) - 2
        group = np.arange(len(limits) - 1, dtype=np.int32)
        self.group = np.repeat(group, np.diff(limits))
        self.tokens, self.before = tokens, before
        self.words, self.begin = tokens.words, tokens.begin
        self.longest = int(np.diff(tokens.begin).max(initial=0))
        self.table = np.full(n_tokens, -1, dtype=np.int32)
        self.size = np.zeros(n_tokens, dtype=np.int32)
        self.dish = np.zeros(n_tokens, dtype=np.int32)
        self.n_tables = np.zeros(n_docs, dtype=np.int32)
        self.concentrations = concentrations
        capacity = np.bincount(tokens.words, minlength=tokens.n_words)
        self._tokens_before = np.zeros(0, np.int64)
        if before is not None:
            capacity += np.diff(before.counts.tocsc().indptr)
            self._tokens_before = before.counts.sum(axis=1, dtype=np.int64)
            n_tables = before.tables.sum(dtype=np.int64)
            tokens.check_after(max(self._tokens_before.sum(), n_tables))
            self._counted_before = np.unique(before.counts.data, return_counts=True)
        self.room = np.concatenate([[0], np.cumsum(capacity)]).astype(np.int64)
        self.n_entries = np.zeros(tokens.n_words, dtype=np.int32)
        self.entry_dish = np.zeros(self.room[-1], dtype=np.int32)
        self.entry_count = np.zeros(self.room[-1], dtype=np.int32)
        self.restore(tables)

    # -- what kernels read ------------------------------------------------------------

    @property
    def concentrations(self) -> Concentrations:
        """Hyperparameters; rates of dishes follow at the next `tidy`."""
        return Concentrations(
            self.corpus_concentration,
            self.doc_concentration,
            self.topic_word_prior,
            self.word_discount,
            self.word_concentration,
            self.group_concentration,
        )

    @concentrations.setter
    def concentrations(self, value: Concentrations) -> None:
        self.corpus_concentration = value.corpus_concentration
        self.doc_concentration = value.doc_concentration
        self.topic_word_prior = value.topic_word_prior
        self.word_discount = value.word_discount
        self.word_concentration = value.word_concentration
        self.group_concentration = value.group_concentration
        #: (n_tokens,), see `TableAssignments`; None: documents repeat no word.
        self.word_size = None
        if value.has_repeats:
            self.word_size = np.ones(len(self.table), dtype=np.int32)

    @property
    def meal_part(self) -> int:
        """Number of tokens of a table that propose its dish, limited against overflow.

        It depends on eta and the number of tokens alone, as a proposal must not depend
        on the seating.
        """
        most = len(self.words) + self._tokens_before.sum() + 1.0
        nats = np.log1p(most / self.topic_word_prior) + np.log(most)
        return int(np.clip(MOST_NATS / nats, 1, kernel.MEAL_PART))

    # -- going back and forth ---------------------------------------------------------

    def tables(self) -> TableAssignments:
        """Return a copy of the tables of tokens and the dishes of tables."""
        at, table, word_size = self.live(), self.table, self.word_size
        if word_size is not None:
            table = np.maximum(table, 0)
            word_size = word_size.astype(_smallest_type(word_size))
        return TableAssignments(
            table.astype(_smallest_type(self.n_tables)),
            self.n_tables.copy(),
            self.size[at],
            self.dish[at],
            word_size,
        )

    def live(self) -> Ints:
        """Return the entries of `size` and `dish` that are tables in use."""
        return _filled(self.begin, self.n_tables)

    def restore(self, tables: TableAssignments | None) -> None:
        """Seat tokens at given tables, in place, and count."""
        if tables is not None:
            self.table[:], self.n_tables[:] = tables.table, tables.n_tables
            at = self.live()
            self.size[at], self.dish[at] = tables.size, tables.dish
            if self.word_size is not None and tables.word_size is not None:
                self.word_size[:] = tables.word_size
                self.table[self.word_size == 0] = -1
        live, before = self.dish[self.live()], self.before
        n_before = 0 if before is None else len(before.tables)
        n_dishes = max(n_before, int(live.max(initial=-1)) + 1)
        n_tables, n_tokens = np.zeros((2, n_dishes), dtype=np.int32)
        self.n_entries[:] = 0
        if before is not None:
            stored = before.counts.tocsc()
            self.n_entries[:] = np.diff(stored.indptr)
            entries = self._entries()
            self.entry_dish[entries] = stored.indices
            self.entry_count[entries] = stored.data
            n_tables[:n_before] = before.tables
            n_tokens[:n_before] = self._tokens_before
        self._place(n_tables, n_tokens)
        kernel.count(self, self.workspace)
        kernel.tidy(self, self.workspace, np.arange(n_dishes, dtype=np.int32))

    def _entries(self) -> Ints:
        """Return the entries of counts in use, word by word."""
        return _filled(self.room, self.n_entries)

    def _place(self, tables: Ints32, tokens: Ints32) -> None:
        """Allocate the arrays over dishes, with room for more dishes."""
        n, n_places = len(tables), len(tables) + self.longest + SPARE_PLACES
        self.n_served, self.n_free = n, 0
        self.dish_tables = np.zeros(n_places, dtype=np.int32)
        self.dish_tokens = np.zeros(n_places, dtype=np.int32)
        self.dish_tables[:n], self.dish_tokens[:n] = tables, tokens
        self.is_new = np.zeros(n_places, dtype=np.int32)
        self.free_places = np.zeros(n_places, dtype=np.int32)
        self.n_all_tables = int(tables.sum())
        self.inverse = np.zeros(n_places, dtype=np.float32)
        self.rate = np.zeros(n_places, dtype=np.float32)
        self.rate_sum = 0.0
        self.workspace = kernel.Workspace(n_places, self.longest)
        self.corpus_weights = np.zeros(n_places * self.has_groups)
        self.own_tables = np.zeros(n_places * self.has_groups, dtype=np.int32)

    def set_rates(self) -> None:
        """Recompute the rates of dishes in place, for a new topic prior."""
        kernel.rate(self, self.workspace)

    def make_places(self) -> None:
        """Enlarge the arrays over dishes, so that new dishes of any document fit."""
        n_more = self.longest + SPARE_PLACES + len(self.dish_tables) // 4
        names = ["dish_tables", "dish_tokens", "is_new", "free_places"]
        names += ["corpus_weights", "own_tables"] * self.has_groups
        for name in names:
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros(n_more, old.dtype)]))
        more = np.zeros(n_more, np.float32)
        self.inverse = np.concatenate([self.inverse, more])
        self.rate = np.concatenate([self.rate, more])
        self.workspace = kernel.Workspace(len(self.dish_tables), self.longest)

    def tidy(self) -> tuple[Ints, Flags]:
        """Renumber dishes in use in place; return former numbers, and which are new."""
        places = np.flatnonzero(self.dish_tables[: self.n_served] > 0)
        is_new = self.is_new[places].astype(bool)
        renamed = np.zeros(max(self.n_served, 1), dtype=np.int32)
        renamed[places] = np.arange(len(places))
        tables, tokens = self.dish_tables[places], self.dish_tokens[places]
        weights = self.corpus_weights
        kernel.tidy(self, self.workspace, renamed)
        n, n_places = len(places), len(self.dish_tables)
        fits = n_places - n >= self.longest + 1
        if fits and n_places <= 4 * (n + self.longest + SPARE_PLACES):
            for array in (self.dish_tables, self.dish_tokens, self.is_new):
                array[: self.n_served] = 0
            self.inverse[: self.n_served] = self.rate[: self.n_served] = 0.0
            self.dish_tables[:n], self.dish_tokens[:n] = tables, tokens
            self.n_served, self.n_free = n, 0
        else:
            self._place(tables, tokens)
        if self.has_groups:
            self.set_weights(np.append(weights[places], self.rest))
        self.set_rates()
        return places, is_new

    # -- groups of documents ----------------------------------------------------------

    @property
    def weights(self) -> Array:
        """Corpus weights of the dishes of a tidy seating, the last of all others."""
        return np.append(self.corpus_weights[: self.n_served], self.rest)

    @property
    def corpus(self) -> Corpus | None:
        """Customers and weights of the corpus, if there are groups."""
        tables = self.corpus_tables
        return None if tables is None else (tables, self.weights)

    @corpus.setter
    def corpus(self, value: Corpus | None) -> None:
        if value is not None:
            self.corpus_tables = value[0]
            self.set_weights(value[1])

    def set_weights(self, weights: Array) -> None:
        """Set the corpus weights, the last of all others; no group is at hand."""
        self.corpus_weights[:], self.rest = 0.0, float(weights[-1])
        self.corpus_weights[: len(weights) - 1] = weights[:-1]
        self.own_tables[:], self.is_counted = 0, False

    def draw_weights(self, rng: np.random.Generator | None = None) -> None:
        """Draw the corpus weights given the customers of the corpus, or take means."""
        if self.corpus_tables is not None:
            weights = np.append(self.corpus_tables, self.corpus_concentration)
            if rng is not None and len(weights) > 1:
                weights = rng.dirichlet(weights)
            self.set_weights(weights / weights.sum())

    def parts(self, begin: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield documents of one group each, which is at hand then."""
        if not self.has_groups:
            yield begin, stop
            return
        for group in np.unique(self.group[begin:stop]).tolist():
            first, last = self.group_limits[group : group + 2].tolist()
            self._enter(group, first, last)
            yield max(begin, first), min(stop, last)

    def _enter(self, group: int, first: int, last: int) -> None:
        """Compute masses of dishes for new tables of a group."""
        self.own_tables[:], self.scale = 0, 1.0
        self.is_counted = group < self.n_groups
        if self.is_counted:
            self.scale = self.group_concentration
            at = _filled(self.begin[first : last + 1], self.n_tables[first:last])
            n = len(self.own_tables)
            self.own_tables[:] = np.bincount(self.dish[at], minlength=n)
        self.n_own_tables = int(self.own_tables.sum())
        self.set_rates()

    def group_tables(self) -> Ints32:
        """Count tables m_gk of a tidy seating, (n_groups + 1, n_dishes).

        The last row are customers of the corpus: tables of documents without a group,
        and those of known topics.
        """
        n = self.n_served
        at = np.repeat(self.group, self.n_tables) * np.int64(n)
        at += self.dish[self.live()]
        shape = self.n_groups + 1, n
        counted = np.bincount(at, minlength=shape[0] * n)
        tables: Ints32 = counted.reshape(shape).astype(np.int32)
        if self.before is not None:
            others, last = self.before.group_tables, self.before.tables
            if others is not None:
                tables[:, : len(last)] += others
            else:
                tables[-1, : len(last)] += last
        return tables

    def seat_groups(self, rng: np.random.Generator | None = None) -> None:
        """Draw which tables of documents open tables of their groups, and count these.

        By urns, given the corpus weights; without `rng` there is one of each dish.
        """
        if not self.has_groups:
            return
        tables = self.group_tables()
        own, n_dishes = tables[:-1].ravel(), tables.shape[1]
        dish = np.repeat(np.arange(len(own)), own) % max(n_dishes, 1)
        place = np.arange(len(dish)) - np.repeat(np.cumsum(own) - own, own)
        opens = place == 0
        if rng is not None:
            mass = self.group_concentration * self.corpus_weights[dish]
            opens |= rng.random(len(dish)) * (mass + place) < mass
        opened = np.bincount(dish[opens], minlength=n_dishes)
        self.n_group_tables = int(opens.sum())
        self.corpus_tables = (opened + tables[-1]).astype(np.int32)

    # -- what it says -----------------------------------------------------------------

    @property
    def n_dishes(self) -> int:
        """Number of dishes with a table."""
        return self.n_served - self.n_free

    @property
    def customers(self) -> Ints32:
        """Customers of the corpus by dish of a tidy seating: tables, or of groups."""
        if self.corpus_tables is not None:
            return self.corpus_tables
        return self.dish_tables[: self.n_served]

    @property
    def n_seated(self) -> NDArray[np.int64]:
        """Seated tokens of each document, (n_docs,)."""
        if self.word_size is None:
            return np.diff(self.begin)
        seated = np.concatenate(
            [[0], np.cumsum(self.size[self.live()], dtype=np.int64)]
        )
        return np.diff(seated[np.concatenate([[0], np.cumsum(self.n_tables)])])

    def repeats(self) -> Repeats | None:
        """Count the tables of words; None if documents repeat no words."""
        if self.word_size is None:
            return None
        return Repeats.of(self.word_size, self.n_seated, np.diff(self.begin))

    def dish_counts(self) -> sp.csr_array:
        """Counts n_kw of a tidy seating, (n_dishes, n_words)."""
        entries = self._entries()
        indptr = np.concatenate([[0], np.cumsum(self.n_entries)])
        stored = sp.csc_array(
            (self.entry_count[entries], self.entry_dish[entries], indptr),
            (self.n_served, self.tokens.n_words),
        )
        return stored.tocsr()

    def log_joint(self) -> float:
        """Log p(seating) + log p(words | seating) of present documents, in nats.

        The seating includes tables of words. Partitions are unordered; tables from
        before are given. With groups the seating is tidy, and the corpus weights are
        in it, as the density of their log ratios to the weight of all others.
        """
        n_dishes = self.dish_tables > 0
        total = log_prior_of_tables(
            self.size[self.live()], self.n_seated, self.doc_concentration
        )
        if self.has_groups:
            total += self._log_prior_in_groups()
        else:
            total += log_prior_of_dishes(
                self.dish_tables[n_dishes], self.corpus_concentration
            )
        repeats = self.repeats()
        if repeats is not None:
            total += repeats.log_probability(
                self.word_discount, self.word_concentration
            )
        total += self.log_evidence(self.topic_word_prior)
        if self.before is not None:
            joint = log_prior_of_dishes(self.before.tables, self.corpus_concentration)
            if not self.before.is_prior:
                joint += self._log_evidence_before(self.topic_word_prior)
            total -= joint
        return total

    def _log_prior_in_groups(self) -> float:
        """Log p(dishes of tables, log ratios of corpus weights)."""
        tables, weights, a = self.group_tables(), self.weights, self.group_concentration
        gamma, logs = self.corpus_concentration, np.log(np.maximum(weights, 1e-300))
        (group, dish), sums = np.nonzero(tables[:-1]), tables[:-1].sum(axis=1)
        total = log_rising(a * weights[dish], tables[group, dish]).sum()
        total -= log_rising(a, sums[sums > 0]).sum()
        total += (len(weights) - 1) * np.log(gamma) + gamma * logs[-1]
        return float(total + tables[-1] @ logs[:-1])

    def log_evidence(
        self, eta: float, counted: tuple[NDArray, NDArray] | None = None
    ) -> float:
        """Log p(words | seating) under a topic prior, topics integrated out, nats."""
        dish_tokens = self.dish_tokens[self.dish_tables > 0].astype(np.float64)
        evidence = _log_evidence(
            eta, self.tokens.n_words, counted or self.count_of_counts(), dish_tokens
        )
        if self.before is not None and self.before.is_prior:
            evidence -= self._log_evidence_before(eta)
        return evidence

    def _log_evidence_before(self, eta: float) -> float:
        """Log probability of the words from before, given their dishes, in nats."""
        return _log_evidence(
            eta, self.tokens.n_words, self._counted_before, self._tokens_before
        )

    def count_of_counts(self) -> tuple[Array, NDArray]:
        """Values of counts n_kw that occur, and their frequencies."""
        return _counted(self.entry_count[_filled(self.room, self.n_entries)])


def _filled(limits: NDArray, n: NDArray) -> Ints:
    """Entries in use, if room i begins at limits[i] and has n[i] of them."""
    entries = np.repeat(limits[:-1] - (np.cumsum(n) - n), n)
    entries += np.arange(len(entries))
    return entries


def _log_evidence(
    eta: float, n_words: int, counted: tuple[NDArray, NDArray], dish_tokens: NDArray
) -> float:
    """Log p(words | dishes of tokens), from counts n_kw, their frequencies, and n_k."""
    counts, times = counted
    words = (times * log_rising(eta, counts)).sum()
    return float(words - log_rising(n_words * eta, dish_tokens).sum())


def log_prior_of_tables(size: Ints32, lengths: NDArray, alpha: float) -> float:
    """Log p(tables of documents), given the number of tokens of each document."""
    docs = log_rising(alpha, lengths[lengths > 0]).sum()
    return float(len(size) * np.log(alpha) + gammaln(size).sum() - docs)


def log_prior_of_dishes(tables: Ints32, gamma: float) -> float:
    """Log p(dishes of tables)."""
    if len(tables) == 0:
        return 0.0
    dishes = len(tables) * np.log(gamma) + gammaln(tables).sum()
    return float(dishes - log_rising(gamma, tables.sum()))


# Samples of the franchise: what prediction reads of a seating.


@dataclass(frozen=True, slots=True, kw_only=True)
class FranchiseSample(Concentrations):
    """What prediction reads of a seating; topics are not aligned between samples."""

    # int32
    topic_word_counts: Annotated[
        sp.csr_array, TokenCounts("n_components", "n_features")
    ]
    table_counts: Annotated[Ints32, Sized("n_components", least=1)]
    component_ids: Annotated[Ints, Sized("n_components")]
    log_joint: Log  # nats per token
    chain: Steps
    step: Steps  # sweeps made
    #: Tables of documents of each group, and at last customers of the corpus that come
    #: from no group; `table_counts` are all of these.
    group_tables: Annotated[Ints32, Sized("n_group_rows", "n_components")] | None = None

    @classmethod
    def of(cls, seating: Seating, state: ChainState) -> "FranchiseSample":
        """Copy topics of a seating, most tables first; one empty topic if none."""
        counts, tables = seating.dish_counts(), seating.customers
        order, group_tables = np.argsort(-tables, kind="stable"), None
        if seating.has_groups:
            group_tables = np.ascontiguousarray(seating.group_tables()[:, order])
        if len(order):
            counts, tables, ids = counts[order], tables[order], state.ids[order]
        else:
            counts = sp.csr_array((1, seating.tokens.n_words), dtype=np.int32)
            tables, ids = np.ones(1, np.int32), np.array([state.next_id - 1])
            group_tables = None
        return cls(
            topic_word_counts=counts,
            table_counts=tables,
            component_ids=ids,
            log_joint=state.log_joint,
            chain=state.number,
            step=state.step,
            group_tables=group_tables,
            **asdict(seating.concentrations),
        )

    @classmethod
    def of_prior(
        cls, counts: sp.csr_array, ids: Ints, concentrations: Concentrations
    ) -> "FranchiseSample":
        """Return topics with prior tokens `counts`, each with one table."""
        return cls(
            concentrations.corpus_concentration,
            concentrations.doc_concentration,
            concentrations.topic_word_prior,
            topic_word_counts=counts,
            table_counts=np.ones(len(ids), np.int32),
            component_ids=ids,
            log_joint=0.0,
            chain=0,
            step=0,
        )

    @property
    def burstiness(self) -> Burstiness | None:
        """How documents repeat words, or None."""
        burstiness = Burstiness(self.word_discount, self.word_concentration)
        return burstiness if self.has_repeats else None

    @property
    def n_tokens(self) -> NDArray:
        """Tokens of each topic without repeats, (K,)."""
        return np.asarray(self.topic_word_counts.sum(axis=1)).ravel()

    @property
    def topic_weights(self) -> Array:
        """Expected corpus-level weights, m_k / (m + gamma)."""
        return self.table_counts / (self.table_counts.sum() + self.corpus_concentration)

    @property
    def _all_weights(self) -> Array:
        """Expected corpus-level weights, the last of all other topics."""
        total = self.table_counts.sum() + self.corpus_concentration
        return np.append(self.topic_weights, self.corpus_concentration / total)

    @property
    def doc_prior(self) -> Array:
        """Dirichlet parameters of a document; the last is of all other topics.

        Where documents have groups, those of one of a new group: proportions have the
        mean and the variances that they have if its weights are drawn, too.
        """
        return self.flat_concentration * self._all_weights

    @property
    def flat_concentration(self) -> float:
        """Concentration of documents without a label."""
        alpha, a = self.doc_concentration, self.group_concentration
        return alpha if self.group_tables is None else alpha * a / (alpha + a + 1.0)

    @property
    def group_weights(self) -> Array:
        """Expected weights of groups, the last of all other topics, (G, K + 1)."""
        assert self.group_tables is not None
        own = self.group_tables[:-1]
        weights = np.tile(self.group_concentration * self._all_weights, (len(own), 1))
        weights[:, :-1] += own
        return weights / weights.sum(axis=1, keepdims=True)

    def word_topic(self, words: NDArray | slice = slice(None)) -> Array:
        """E[phi_kw] = (n_kw + eta) / (n_k + V eta) of some words, (n_words, K)."""
        eta, n_words = self.topic_word_prior, self.topic_word_counts.shape[1]
        stored = self.topic_word_counts[:, words].T.toarray().astype(np.float64)
        stored += eta
        stored /= self.n_tokens + n_words * eta
        return stored

    def places(self) -> Places:
        """Return tables and counts, from which a seating of new documents starts."""
        used, groups = np.flatnonzero(self.n_tokens > 0), self.group_tables
        tables = self.table_counts[used]
        if groups is not None:
            groups = np.ascontiguousarray(groups[:, used])
            tables = groups.sum(axis=0, dtype=np.int32)
        return Places(self.topic_word_counts[used], tables, group_tables=groups)
