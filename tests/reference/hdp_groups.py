"""Slow references for groups of documents in the HDP, by loops over all pairs.

Everything here is a transcription of formulas, and nothing is shared with the package.

Letters: ``beta`` are the corpus weights (K + 1,), the last entry that of all topics not
represented; ``n`` (D, K) expected tokens; ``groups`` (D, F) the group of each document
in each factor, groups of all factors numbered on, or None. ``a`` (F,) concentrations of
group weights, ``w`` (F + 1,) the shares of corpus and factors, ``a0`` the concentration
of documents.

References
----------
[TJBB06] Y. W. Teh, M. I. Jordan, M. J. Beal and D. M. Blei. Hierarchical Dirichlet
processes. JASA, 2006.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

Array = NDArray[np.float64]


def tables(mass: float, n: float) -> float:
    """Expected tables of a Poisson number of tokens of mean n, given a base mass."""
    if n <= 0.0:
        return 0.0
    some = 1.0 - np.exp(-n)
    return some * mass * (digamma(mass + n / some) - digamma(mass))


@dataclass
class Fit:
    """What the fixed point has after its rounds."""

    m: Array  # (G, K) tables of documents in groups
    amounts: Array  # (F + 1,)
    a: Array
    a0: float
    alpha: float  # of documents without groups
    n_tables: float  # of all documents, in the last round

    @property
    def w(self) -> Array:
        return (1.0 + self.amounts) / (1.0 + self.amounts).sum()

    def weights(self, beta: Array, factor: Sequence[int]) -> Array:
        """beta_fg (G, K + 1)."""
        rows = []
        for g, f in enumerate(factor):
            prior = self.a[f] * beta
            rows.append(
                (prior + np.append(self.m[g], 0.0))
                / (1.0 * prior.sum() + self.m[g].sum())
            )
        return np.array(rows)


def learn(
    n: Array,
    groups: Sequence[Sequence[int | None]],
    factor: Sequence[int],
    beta: Array,
    alpha: float,
    n_rounds: int,
    *,
    forgets_shares: bool = False,
) -> Fit:
    """Iterate the fixed point from concentrations of 5 and weights beta.

    With `forgets_shares`, a planted error: groups get all tables of their documents.
    """
    (n_docs, n_topics), n_factors = n.shape, 1 + max(factor)
    fit = Fit(
        np.zeros((len(factor), n_topics)),
        np.zeros(n_factors + 1),
        np.full(n_factors, 5.0),
        alpha,
        alpha,
        0.0,
    )
    w = np.full(n_factors + 1, 1.0 / (n_factors + 1))
    for _ in range(n_rounds):
        own = fit.weights(beta, factor)
        m, amounts, of_flat = np.zeros_like(fit.m), np.zeros_like(fit.amounts), 0.0
        slope, flat_slope, n_tables = 0.0, 0.0, 0.0
        for j, k in itertools.product(range(n_docs), range(n_topics)):
            parts = [w[0] * beta[k]]
            for f in range(n_factors):
                g = groups[j][f]
                parts.append(w[f + 1] * (beta[k] if g is None else own[g, k]))
            t = tables(fit.a0 * sum(parts), n[j, k])
            n_tables += t
            of_flat += tables(fit.alpha * beta[k], n[j, k])
            for f, part in enumerate(parts):
                share = part / sum(parts)
                amounts[f] += t * share
                if f > 0 and groups[j][f - 1] is not None:
                    m[groups[j][f - 1], k] += t * (1.0 if forgets_shares else share)
        for length in n.sum(axis=1):
            slope += digamma(fit.a0 + length) - digamma(fit.a0)
            flat_slope += digamma(fit.alpha + length) - digamma(fit.alpha)
        a = np.zeros(n_factors)
        for f in range(n_factors):
            dishes, growth = 0.0, 0.0
            for g in np.flatnonzero(np.array(factor) == f):
                dishes += sum(
                    tables(fit.a[f] * beta[k], m[g, k]) for k in range(n_topics)
                )
                growth += digamma(fit.a[f] + m[g].sum()) - digamma(fit.a[f])
            a[f] = (1.0 + dishes) / (1.0 + growth)
        a0, flat = (
            (1.0 + amounts.sum()) / (1.0 + slope),
            (1.0 + of_flat) / (1.0 + flat_slope),
        )
        fit = Fit(m, amounts, a, a0, flat, n_tables)
        w = fit.w
    return fit


def label_probabilities(
    n: Array, base: Array, own: Array, n_docs: Array, concentration: float
) -> Array:
    """Probability of the group of a document with tokens n (K,).

    `base` (K,) is that without a label, `own` that of each group, (G, K).
    """
    logs = np.log(1.0 + n_docs)
    for g, k in itertools.product(range(len(own)), range(len(n))):
        at = concentration * n[k] / n.sum()
        logs[g] += tables(at, n[k]) * np.log(own[g, k] / base[k])
    return np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()


def log_probability(n: NDArray, base: Array, concentration: float) -> float:
    """Log probability of whole tokens (K,) given the base, but for constants."""
    some = concentration * base
    return float((gammaln(some + n) - gammaln(some)).sum())


def stirling(n: int) -> Array:
    """Unsigned Stirling numbers of the first kind, s(i, j) for i, j <= n."""
    s = np.zeros((n + 1, n + 1))
    s[0, 0] = 1.0
    for i, j in itertools.product(range(n), range(1, n + 1)):
        s[i + 1, j] = s[i, j - 1] + i * s[i, j]
    return s


def exact_tables(n: NDArray, beta: Array, a0: float, a: float, w: Array) -> Array:
    """Posterior mean of the tables M_0k, M_1k of documents of one group, (2, K).

    By enumeration of the Chinese restaurant franchise of three levels [TJBB06] with a
    choice at each table, corpus or group: the number of tables t_jk of each document,
    how many of these are the group's, and how many tables at the corpus these have.
    """
    n_topics, s = n.shape[1], stirling(int(n.sum()) + 1)
    total, result = 0.0, np.zeros((2, n_topics))
    ranges = [range(min(1, m), m + 1) for m in n.ravel()]
    for t in itertools.product(*ranges):
        seats = np.array(t).reshape(n.shape)
        log = sum(np.log(s[n[j, k], seats[j, k]]) for j, k in np.ndindex(*n.shape))
        log += seats.sum() * np.log(a0)
        of_topic = seats.sum(axis=0)
        for u in itertools.product(*(range(m + 1) for m in of_topic)):
            ways = 0.0
            for k in range(n_topics):
                ways += gammaln(of_topic[k] + 1) - gammaln(u[k] + 1)
                ways -= gammaln(of_topic[k] - u[k] + 1)
                ways += (of_topic[k] - u[k]) * np.log(w[0] * beta[k])
                ways += u[k] * np.log(w[1])
                # Tables of the group at the corpus.
                sums = [s[u[k], v] * (a * beta[k]) ** v for v in range(u[k] + 1)]
                ways += np.log(sum(sums))
            ways += gammaln(a) - gammaln(a + sum(u))
            weight = np.exp(log + ways)
            total += weight
            result += weight * np.array([of_topic - np.array(u), u])
    return result / total
