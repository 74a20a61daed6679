"""Known topics: priors over words that are given before any document, and their tables.

A known topic k has the prior phi_k ~ Dir(eta + b_k), b_kw the boost of word w; all
other topics have Dir(eta). Its column in the table of counts is b_k + S_k, so that eta
plus the column is lambda_k, as for any topic: weights of words, documents and
prediction are those of the symmetric prior. Only this file treats boosts separately:
factors of totals do not apply to them, and terms of the bound are those of the prior
with them.

The words phi_k of a fixed topic are given: eta plus its column is always `EXACT` phi_k,
which is as good as exact. For the bound, the tokens that documents assign to it, and
their log probability, are summed outside the table; its divergence is zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, psi

from skbnp.components.word_topics import SeenWords, WordRows, WordTopics, remaining
from skbnp.utils.ranges import Sized
from skbnp.utils.typing import Array, Flags, Ints

#: Sum of the Dirichlet parameters of a fixed topic, each of which is at least one: no
#: word is less probable than 1e-12.
EXACT = 1e12
#: Smallest Dirichlet parameter of a given prior, in units of eta.
SMALLEST_SHARE = 1e-9
#: Of a known topic that another topic has at least to become it, see `best_columns`: a
#: tenth of the tokens of its words, which are e times as probable there.
LEAST_PART = 0.1


@dataclass(frozen=True, slots=True)
class TopicPriors:
    """Boosts and fixed words of the known topics, and their columns.

    Boosts of some words are given; or, if `is_whole`, the whole prior eta + b_k of all
    words, which does not change with eta.
    """

    columns: Annotated[Ints, Sized("n_known")]  # of the table
    # of the vocabulary, increasing: those that have boosts
    words: Annotated[Ints, Sized("n_words")]
    # boosts, Dirichlet parameters, or words of fixed topics
    values: Annotated[Array, Sized("n_words", "n_known", least=0)]
    is_fixed: Annotated[Flags, Sized("n_known")]
    is_whole: bool
    eta: float  # of all other topics
    # tokens of fixed topics, and their log probability
    fixed_stats: Annotated[Array, Sized(2, "n_known")]

    @property
    def parameters(self) -> Array:
        """Dirichlet parameters of the priors for the boosted words, (n, G)."""
        if not self.is_whole:
            return self.eta + self.values
        sums = self.values.sum(axis=0)
        exact = np.maximum(self.values * (EXACT / sums), 1.0)
        least = np.maximum(self.values, SMALLEST_SHARE * self.eta)
        return np.where(self.is_fixed, exact, least)

    @property
    def boosts(self) -> Array:
        """Dirichlet parameters of the priors minus eta, (n, G)."""
        return self.values if not self.is_whole else self.parameters - self.eta

    def taken(self, order: Ints) -> "TopicPriors":
        """Return the priors of a table whose columns are `order` of the present."""
        at = np.full(
            int(max(order.max(initial=-1), self.columns.max(initial=-1))) + 1, -1
        )
        at[order] = np.arange(len(order))
        left = self.among(self.columns[at[self.columns] >= 0].tolist())
        return replace(left, columns=at[left.columns])

    def among(self, columns: Sequence[int]) -> "TopicPriors":
        """Return the priors of some columns, which keep their positions."""
        kept = np.isin(self.columns, list(columns))
        return replace(
            self,
            columns=self.columns[kept],
            values=np.ascontiguousarray(self.values[:, kept]),
            is_fixed=self.is_fixed[kept],
            fixed_stats=np.ascontiguousarray(self.fixed_stats[:, kept]),
        )

    def without_documents(self) -> "TopicPriors":
        """Return the priors with the sums of documents at zero."""
        return replace(self, fixed_stats=np.zeros_like(self.fixed_stats))

    def widened(self, n_before: int, n_words: int) -> "TopicPriors":
        """Append words without boosts to the vocabulary.

        Fixed topics have no tokens of them.
        """
        if not self.is_whole:
            return self
        new = np.arange(n_before, n_words)
        values = np.full((len(new), len(self.columns)), self.eta)
        values[:, self.is_fixed] = 0.0
        return replace(
            self,
            words=np.concatenate([self.words, new]),
            values=np.concatenate([self.values, values]),
        )

    def boosted(self, words: Ints, values: Array) -> "TopicPriors":
        """Return the priors with boosts of further words, (n, G)."""
        order = np.argsort(np.concatenate([self.words, words]), kind="stable")
        return replace(
            self,
            words=np.concatenate([self.words, words])[order],
            values=np.concatenate([self.values, values])[order],
        )


class KnownWordTopics(WordTopics):
    """Table of topic counts, in which known topics have the boosts of their words.

    `values`, (n_rows, n_topics), are counts to start from, without boosts; `seen`
    are the words of the rows, to which those of boosts are added.
    """

    known: TopicPriors

    def __init__(self, values: Array, seen: SeenWords, known: TopicPriors):
        """Put the boosts of known topics into the table."""
        values = np.array(values, dtype=np.float64)
        values[:, known.columns[known.is_fixed]] = 0.0
        self.known = known
        super().__init__(values, seen.with_words(known.words))
        self._boost(known.boosts)
        self.total = self._values[:, : values.shape[1]].sum(axis=0)

    # -- what is known ----------------------------------------------------------------

    @property
    def is_known(self) -> Flags:
        """Whether topics are known before any document, (n_topics,)."""
        return self._marked(self.known.columns)

    @property
    def is_fixed(self) -> Flags:
        """Whether the words of topics are fixed, (n_topics,)."""
        return self._marked(self.known.columns[self.known.is_fixed])

    @property
    def follows_prior(self) -> Flags:
        """Whether the priors of topics change with eta, (n_topics,)."""
        return ~self.is_known if self.known.is_whole else np.ones(self.shape[1], bool)

    @property
    def table_prior(self) -> float | None:  # type: ignore[override]
        """Topic prior that the counts depend on; None if they depend on none."""
        return self.known.eta if self.known.is_whole else None

    @property
    def tokens(self) -> Array:
        """Counts of documents alone, summed over the vocabulary, (n_topics,)."""
        known, tokens = self.known, self.total.copy()
        tokens[known.columns] -= known.boosts.sum(axis=0)
        fixed = known.is_fixed
        tokens[known.columns[fixed]] = known.fixed_stats[0, fixed]
        return np.maximum(tokens, 0.0)

    def _marked(self, columns: Ints) -> Flags:
        """Mask of some topics, (n_topics,)."""
        marked = np.zeros(self.shape[1], dtype=bool)
        marked[columns] = True
        return marked

    def prior(self, topic: int) -> Array:
        """Dirichlet parameters of the prior of a known topic, (n_words,)."""
        place = int(np.flatnonzero(self.known.columns == topic)[0])
        prior = np.full(self.shape[0], self.known.eta)
        prior[self.known.words] = self.known.parameters[:, place]
        return prior

    def _posterior(self, topic: int) -> Array:
        """Dirichlet parameters of a topic, (n_words,)."""
        parameters = np.full(self.shape[0], self.known.eta)
        parameters[self.seen.words] += self.column(topic)
        return np.maximum(parameters, SMALLEST_SHARE**2 * self.known.eta)

    def priors(self) -> Array:
        """Dirichlet parameters of the priors of all topics, (n_words, n_topics)."""
        priors = np.full(self.shape, self.known.eta)
        for topic in self.known.columns.tolist():
            priors[:, topic] = self.prior(topic)
        self.put_given(priors)
        return priors

    def put_given(self, topics: Array) -> None:
        """Write the words of fixed topics in place, columns of (n_words, n_topics)."""
        known = self.known
        for place in np.flatnonzero(known.is_fixed).tolist():
            topics[known.words, known.columns[place]] = known.values[:, place]

    # -- terms of the bound -----------------------------------------------------------

    def known_log_marginals(self) -> Array:
        """logB(prior + S_k) - logB(prior) of the known topics, (G,), in nats.

        Of fixed ones, the log probability of their tokens.
        """
        known, result = self.known, np.zeros(len(self.known.columns))
        for place, topic in enumerate(known.columns.tolist()):
            if known.is_fixed[place]:
                result[place] = known.fixed_stats[1, place]
                continue
            prior, posterior = self.prior(topic), self._posterior(topic)
            result[place] = (gammaln(posterior) - gammaln(prior)).sum()
            result[place] -= gammaln(posterior.sum()) - gammaln(prior.sum())
        return result

    def known_divergences(self) -> Array:
        """KL(q(phi) || p(phi)) of the known topics, (G,), in nats."""
        known, result = self.known, np.zeros(len(self.known.columns))
        for place, topic in enumerate(known.columns.tolist()):
            if known.is_fixed[place]:
                continue
            prior, posterior = self.prior(topic), self._posterior(topic)
            expected = psi(posterior) - psi(posterior.sum())
            result[place] = ((posterior - prior) * expected).sum()
            result[place] -= (gammaln(posterior) - gammaln(prior)).sum()
            result[place] += gammaln(posterior.sum()) - gammaln(prior.sum())
        return result

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

    # -- changes of counts ------------------------------------------------------------

    def _boost(self, values: Array) -> None:
        """Add boosts in place, (n, G); fixed topics get their words again."""
        known = self.known
        rows, columns = self.seen.rows_of(known.words)[:, None], known.columns
        self._values[rows, columns] += values / self._scale
        fixed = known.is_fixed
        if fixed.any():
            exact = known.boosts[:, fixed]
            self._values[:, columns[fixed]] = 0.0
            self._values[rows, columns[fixed]] = exact / self._scale

    def decay(self, keep: float) -> None:
        """Multiply the counts of documents by `keep` in place; boosts are kept."""
        super().decay(keep)
        self._own()
        boosts = self.known.boosts
        self._boost((1.0 - keep) * boosts)
        sums, known = boosts.sum(axis=0), self.known
        self.total[known.columns] += (1.0 - keep) * sums
        self.total[known.columns[known.is_fixed]] = sums[known.is_fixed]
        self.known = replace(known, fixed_stats=keep * known.fixed_stats)

    def incremental_update(self, old: WordRows, new: WordRows) -> None:
        """Subtract rows of some words, and add others of the same words, in place."""
        change = sp.csr_array(new.values - old.values)
        self.add(WordRows(new.words, change))
        # Rounding errors of either sign are left: nothing is below its boost.
        rows, known = self.seen.rows_of(new.words), self.known
        least = np.zeros((len(rows), self._values.shape[1]))
        _, boosted, here = np.intersect1d(known.words, new.words, return_indices=True)
        least[here[:, None], known.columns] = known.boosts[boosted] / self._scale
        self._values[rows] = np.maximum(self._values[rows], least)

    def add(self, rows: WordRows, gain: float = 1.0, lowest: float = -np.inf) -> None:
        """Add `gain` times the rows of some words in place.

        Counts of fixed topics do not enter the table, but the sums `fixed_stats`. No
        entry of others falls below `lowest`.
        """
        known, values = self.known, rows.values
        fixed = known.columns[known.is_fixed]
        if len(fixed):
            topics = values.indices
            place = np.full(self.shape[1], -1)
            place[fixed] = np.flatnonzero(known.is_fixed)
            at = np.flatnonzero(place[topics] >= 0)
            word = np.repeat(rows.words, np.diff(values.indptr))[at]
            parameters = known.parameters
            logs = psi(parameters) - psi(parameters.sum(axis=0))
            row, column = np.searchsorted(known.words, word), place[topics[at]]
            result, n = known.fixed_stats.copy(), len(known.columns)
            data = gain * values.data[at]
            result[0] += np.bincount(column, data, n)
            result[1] += np.bincount(column, data * logs[row, column], n)
            self.known = replace(known, fixed_stats=result)
            left = values.data.copy()
            left[at] = 0.0
            parts = (left, values.indices, values.indptr)
            rows = WordRows(rows.words, sp.csr_array(parts, values.shape))
        super().add(rows, gain, lowest)

    def rebase(self, eta: float) -> None:
        """Rewrite the boosts in place for a new eta; total priors are unchanged."""
        known = replace(self.known, eta=eta)
        if known.is_whole:
            self._own()
            more = known.boosts - self.known.boosts
            self.known = known
            self._boost(more)
            self.total[known.columns] += more.sum(axis=0)
            sums, fixed = known.boosts.sum(axis=0), known.is_fixed
            self.total[known.columns[fixed]] = sums[fixed]
        self.known = known

    # -- changes of topics and words --------------------------------------------------

    def drop(self, gone) -> None:
        """Remove topics in place; the order of others is that of `remaining`."""
        known, n_topics = self.known, len(self.total)
        super().drop(gone)
        self.known = known.taken(remaining(n_topics, gone))

    def remade(self, values: Array, seen: SeenWords, kept: Ints) -> WordTopics:
        """Return a table whose first topics are those of the columns `kept`."""
        known = self.known.taken(kept).without_documents()
        return KnownWordTopics(values, seen, known)

    def emptied(self) -> WordTopics:
        """Return a table of the same words and topics, with boosts alone."""
        zeros = np.zeros((len(self.seen), len(self.total)))
        return KnownWordTopics(zeros, self.seen, self.known.without_documents())

    def widen(self, n_vocabulary: int) -> None:
        """Append words to the vocabulary in place."""
        n_before = self.shape[0]
        super().widen(n_vocabulary)
        known = self.known.widened(n_before, n_vocabulary)
        if known.is_whole:
            self._own()
            self.seen = self.seen.with_words(known.words)
            self._make_room()
            self.known = known
            new = known.boosts
            new[: len(self.known.words) - (n_vocabulary - n_before)] = 0.0
            self._boost(new)
            self.total = self._values[:, : len(self.total)].sum(axis=0) * self._scale

    def boost_words(self, words: Ints, values: Array) -> None:
        """Boost further words in place, (n, G)."""
        self._own()
        self.seen = self.seen.with_words(words)
        self._make_room()
        rows = self.seen.rows_of(words)[:, None]
        self._values[rows, self.known.columns] += values / self._scale
        self.total[self.known.columns] += values.sum(axis=0)
        self.known = self.known.boosted(words, values)

    def frozen(self) -> Self:
        """Return a copy-on-write view of the table; `total` is copied bit for bit."""
        other = super().frozen()
        other.known = self.known  # replaced, never changed
        return other


def best_columns(
    known: TopicPriors,
    counts: Array,
    tokens: Array,
    smoothing: float,
    n_kept: int = 0,
) -> Ints:
    """Columns of the topics that documents gave the words of known topics, (G,).

    `counts` are of the words that have priors, (n, K), and `tokens` of all, (K,), both
    without priors. A topic has so much of a known one: the mean over its words, each
    counted alike, of the share of the word's tokens that are in the topic, times log
    p(word | topic) / p(word), nats. A known topic that is not fixed goes to the topic,
    not known, that has most, if that is twice what it has itself, and `LEAST_PART`; it
    has nothing while documents gave it fewer tokens than its prior has. Probabilities
    are smoothed by so many tokens of the corpus. The first `n_kept` topics stay.
    """
    counts = np.maximum(counts, 0.0)
    totals = np.maximum(counts.sum(axis=1), 1.0)[:, None]
    frequency = totals / max(tokens.sum(), 1.0)
    lift = np.log((counts / frequency + smoothing) / (tokens + smoothing))
    boosts = np.maximum(known.boosts, 0.0)
    weights = boosts / totals
    weights /= np.maximum(weights.sum(axis=0), 1e-300)
    parts = weights.T @ (counts / totals * lift)  # (G, K)
    own = parts[np.arange(len(known.columns)), known.columns]
    own = np.where(tokens[known.columns] > boosts.sum(axis=0), own, 0.0)
    parts[known.is_fixed], parts[:, known.columns], parts[:, :n_kept] = 0.0, 0.0, 0.0
    may_be = parts > np.maximum(2.0 * own, LEAST_PART)[:, None]
    gains = np.where(may_be, parts, 0.0)
    places, columns = linear_sum_assignment(gains, maximize=True)
    return np.where(gains[places, columns] > 0.0, columns, known.columns)
