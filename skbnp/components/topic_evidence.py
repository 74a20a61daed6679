"""Evidence for groups of topics, from documents' expected counts of topics.

Symbols: N_jk expected tokens of topic k in document j, N_j all of the document, N_jg
those of the topics of group g; b_k weights of topics, b_g their sum in a group. Given a
partition, the tokens of a document fall on groups by a Dirichlet distribution, and
those of a group on its topics by another,

    Dir(A0 b_1, A0 b_2, ...),    Dir(A1 b_k / b_g: k in g).

The logarithm of a rising factorial of an expected count is taken as if the count were
Poisson, zero with probability 1 - P, and at its mean otherwise,

    r(x, N) = P [lnG(x + N / P) - lnG(x)],    P = 1 - exp(-N),

so that the log evidence of all documents is

    F = sum_j { sum_g r(A0 b_g, N_jg) - r(A0, N_j)
                + sum_g [ sum_(k in g) r(A1 b_k / b_g, N_jk) - r(A1, N_jg) ] }.

A group of one topic adds nothing to the second line. One group with A1 = A, and a group
for each topic with A0 = A, are the same model, no groups at all; weights b_k are those
for which that has the most evidence.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import psi

from skbnp.kernels._special import log_gamma
from skbnp.kernels._topic_groups import rising_sums
from skbnp.utils.typing import Array, Ints32

#: Where concentrations are looked for, and the error of their logarithms.
LOWEST, HIGHEST, LOG_TOL = 1e-3, 1e4, 1e-6
#: Rounds in which weights of topics are found, and their change at the end.
MAX_FLAT_ROUNDS, WEIGHT_TOL = 50, 1e-5


class Moments(NamedTuple):
    """Mean of a Poisson count given that it is positive, and that probability."""

    means: Array  # N / P
    some: Array  # P

    @classmethod
    def of(cls, tokens: Array) -> "Moments":
        """Return the moments for expected tokens > 0."""
        some = -np.expm1(-tokens)
        return cls(tokens / some, some)


@dataclass(frozen=True, slots=True)
class TopicCounts:
    """Expected tokens of topics in documents, each topic with some; topic weights."""

    by_doc: sp.csr_array  # (n_docs, K) N, entries > 0
    by_topic: sp.csc_array  # the same, documents ascending
    weights: Array  # (K,) b

    @classmethod
    def of(cls, counts: sp.csr_array) -> "TopicCounts":
        """Return the counts N, with the weights of the most evidence for no groups.

        As in the fixed point of `CollapsedHDP`, b_k is proportional to expected tables.
        """
        counts = sp.csr_array(counts, dtype=np.float64)
        indices, indptr = (
            a.astype(np.int32, copy=False) for a in (counts.indices, counts.indptr)
        )
        counts = sp.csr_array((counts.data, indices, indptr), counts.shape)
        means, some = Moments.of(counts.data)
        totals = Moments.of(_row_sums(counts))
        weights = np.asarray(counts.sum(axis=0)).ravel()
        weights, alpha = weights / weights.sum(), 1.0
        for _ in range(MAX_FLAT_ROUNDS):
            before, at = weights, alpha * weights[counts.indices]
            # psi(x) is about -1/x where x is small: psi(x) = psi(x + 1) - 1 / x.
            high, low = np.split(_digamma(np.concatenate([at + means, at + 1.0])), 2)
            tables = some * (1.0 + at * (high - low))
            growth = totals.some @ (psi(alpha + totals.means) - psi(alpha))
            alpha = np.clip(tables.sum() / growth, LOWEST, HIGHEST)
            weights = np.bincount(counts.indices, tables, counts.shape[1])
            weights = weights / weights.sum()
            if np.abs(weights - before).sum() < WEIGHT_TOL:
                break
        by_topic = sp.csc_array(counts)
        by_topic.sort_indices()
        return cls(counts, by_topic, weights)

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return self.by_doc.shape[0]

    @property
    def n_topics(self) -> int:
        """Number of topics."""
        return len(self.weights)

    def of_topic(self, k: int) -> tuple[Ints32, Array]:
        """Return the documents with tokens of a topic, and N_jk."""
        part = slice(*self.by_topic.indptr[k : k + 2])
        return self.by_topic.indices[part], self.by_topic.data[part]


def _row_sums(counts: sp.csr_array) -> Array:
    sums = np.asarray(counts.sum(axis=1)).ravel()
    return sums[sums > 0.0]


def _digamma(x: Array) -> Array:
    """Digamma function of an array, as kernels compute it."""
    values = np.empty_like(x)
    log_gamma(x, np.empty_like(x), values)
    return values


@dataclass(frozen=True, slots=True)
class Evidence:
    """Log evidence F of a partition of topics at its best concentrations."""

    labels: Ints32  # (K,) groups, without gaps
    outer: float  # A0
    inner: float  # A1; that of all topics where no group has two
    value: float  # F, nats

    @classmethod
    def of(cls, counts: TopicCounts, labels: NDArray) -> "Evidence":
        """Maximise F over A0 and A1, of which it is a sum of separate functions."""
        labels = np.unique(labels, return_inverse=True)[1].astype(np.int32)
        sizes = np.bincount(labels)
        shares = np.bincount(labels, counts.weights)
        tokens, topics = counts.by_doc.data, counts.by_doc.indices
        at = counts.by_doc.indptr
        groups = sp.csr_array((tokens, labels[topics], at), (counts.n_docs, len(sizes)))
        groups = groups.copy()
        groups.sum_duplicates()
        whole = Concentration.of(
            shares[groups.indices], groups.data, _row_sums(counts.by_doc)
        )
        outer, value = whole.best()
        many, more = sizes[labels[topics]] > 1, 0.0
        inner = outer
        if many.any():
            ratios = (counts.weights / shares[labels])[topics[many]]
            of_groups = groups.data[sizes[groups.indices] > 1]
            inner, more = Concentration.of(ratios, tokens[many], of_groups).best()
        return cls(labels, outer, inner, value + more)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.labels.max()) + 1


@dataclass(frozen=True, slots=True)
class Concentration:
    """sum_i r(A s_i, n_i) - sum_i r(A, m_i), a function of A."""

    shares: Array  # s
    tokens: Moments  # n
    totals: Moments  # m

    @classmethod
    def of(cls, shares: Array, tokens: Array, totals: Array) -> "Concentration":
        """Return the function of A for expected tokens."""
        return cls(shares, Moments.of(tokens), Moments.of(totals))

    def __call__(self, concentration: float) -> float:
        """Value of the function at a concentration, in nats."""
        bases, sums = concentration * self.shares, np.zeros(1)
        rising_sums(*self.totals, np.array([concentration]), sums)
        x = np.concatenate([bases + self.tokens.means, bases])
        log_gammas = np.empty_like(x)
        log_gamma(x, log_gammas, np.empty_like(x))
        high, low = np.split(log_gammas, 2)
        return float(self.tokens.some @ (high - low) - sums[0])

    def best(self) -> tuple[float, float]:
        """Return the best concentration A, and the value there in nats."""
        result = minimize_scalar(
            lambda log_a: -self(np.exp(log_a)),
            bounds=np.log([LOWEST, HIGHEST]),
            method="bounded",
            options={"xatol": LOG_TOL},
        )
        return float(np.exp(result.x)), float(-result.fun)
