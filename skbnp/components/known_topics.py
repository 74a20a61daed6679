"""Known topics: priors over words that are given before any document.

A known topic k has the prior phi_k ~ Dir(eta + b_k), b_kw the boost of word w; all
other topics have Dir(eta). Its column in the table of counts is b_k + S_k, so that eta
plus the column is lambda_k, as for any topic: weights of words, documents and
prediction are those of the symmetric prior. Factors of totals do not apply to boosts
(`WordTopics.decay`), and terms of the bound are those of the prior with them
(`topics.known_terms`).

The words phi_k of a fixed topic are given: eta plus its column is always `EXACT` phi_k,
which is as good as exact. For the bound, the tokens that documents assign to it, and
their log probability, are summed outside the table; its divergence is zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy.optimize import linear_sum_assignment

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

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def fixed(self) -> Ints:
        """Columns of the fixed topics."""
        return self.columns[self.is_fixed]

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


#: Of a table without known topics.
NOTHING_KNOWN = TopicPriors(
    columns=np.arange(0),
    words=np.arange(0),
    values=np.zeros((0, 0)),
    is_fixed=np.zeros(0, dtype=bool),
    is_whole=False,
    eta=0.0,
    fixed_stats=np.zeros((2, 0)),
)


def best_columns(
    known: TopicPriors, counts: Array, tokens: Array, smoothing: float, n_kept: int = 0
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
