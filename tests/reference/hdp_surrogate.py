"""Slow references for the surrogate bound of the HDP [HKS15], and the exact evidence.

Transcriptions of formulas, as in ``hdp_direct``, whose letters are used. Sticks have
q(v_k) = Beta(a_k, b_k), ``a`` and ``b`` (K,), in the order of the topics;
beta_k = v_k prod_{l<k} (1 - v_l), and beta_{K+1} is what is left.

References
----------
[HKS15] M. C. Hughes, D. I. Kim and E. B. Sudderth. Reliable and scalable variational
inference for the hierarchical Dirichlet process. AISTATS 2015.
[TJBB06] Y. W. Teh, M. I. Jordan, M. J. Beal and D. M. Blei. Hierarchical Dirichlet
processes. Journal of the American Statistical Association 101, 2006.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from reference import hdp_direct

Array = NDArray[np.float64]


def weights_of_sticks(sticks: Array) -> Array:
    """beta of v, (K,) -> (K + 1,)."""
    weights, rest = [], 1.0
    for stick in sticks:
        weights.append(stick * rest)
        rest *= 1.0 - stick
    return np.array([*weights, rest])


def expected_weights(a: Array, b: Array) -> Array:
    """E[beta], (K + 1,): sticks are independent."""
    return weights_of_sticks(a / (a + b))


def expected_log_weights(a: Array, b: Array) -> Array:
    """E[log beta], (K + 1,)."""
    values, rest = [], 0.0
    for first, second in zip(a, b, strict=True):
        values.append(rest + psi(first) - psi(first + second))
        rest += psi(second) - psi(first + second)
    return np.array([*values, rest])


def surrogate_terms(
    counts: Array,
    resp: Sequence[Array],
    theta: Array,
    lam: Array,
    a: Array,
    b: Array,
    alpha: float,
    gamma: float,
    eta: float,
) -> dict[str, float]:
    """Surrogate of the evidence lower bound term by term, for any q.

    Arguments as of ``hdp_direct.elbo_terms``, with sticks in place of weights. "z" and
    "phi" are its terms; "pi" has the surrogate in place of the normaliser of the prior
    of pi_j; "v" is E[log p(v) - log q(v)].
    """
    weights = expected_weights(a, b)
    plain = hdp_direct.elbo_terms(counts, resp, theta, lam, weights, alpha, gamma, eta)
    log_weights = expected_log_weights(a, b)
    value_pi = 0.0
    for row in theta:
        log_pi = psi(row) - psi(row.sum())
        value_pi += len(a) * np.log(alpha) + log_weights.sum()
        value_pi -= gammaln(row.sum())
        for topic in range(row.size):
            value_pi += (alpha * weights[topic] - 1) * log_pi[topic]
            value_pi -= (row[topic] - 1) * log_pi[topic]
            value_pi += gammaln(row[topic])
    value_v = 0.0
    for first, second in zip(a, b, strict=True):
        log_v = psi(first) - psi(first + second)
        log_rest = psi(second) - psi(first + second)
        value_v += np.log(gamma) + (gamma - 1) * log_rest
        value_v -= gammaln(first + second) - gammaln(first) - gammaln(second)
        value_v -= (first - 1) * log_v + (second - 1) * log_rest
    return {
        "z": plain["z"],
        "pi": float(value_pi),
        "phi": plain["phi"],
        "v": float(value_v),
    }


# Evidence ---------------------------------------------------------------------------


def partitions(size: int) -> Iterator[list[int]]:
    """All partitions of so many tokens, as the number of each token's part."""

    def grow(labels: list[int]) -> Iterator[list[int]]:
        if len(labels) == size:
            yield labels
            return
        for label in range(max(labels, default=-1) + 2):
            yield from grow([*labels, label])

    return grow([])


def tables(n_tokens: int) -> Array:
    """Unsigned Stirling numbers of the first kind s(n, m), m = 0 .. n."""
    row = np.array([1.0])
    for number in range(n_tokens):
        row = np.append(0.0, row) + number * np.append(row, 0.0)
    return row


def evidence(
    docs: Sequence[Sequence[int]],
    alpha: float,
    gamma: float,
    eta: float,
    n_features: int,
) -> float:
    """Exact p(w | alpha, gamma, eta) of the HDP with infinitely many topics.

    The sum over all partitions of the tokens into topics, and over the numbers of
    tables m_jk of each topic in each document [TJBB06]:

        prod_j 1 / (alpha)_{N_j} sum_m prod_jk s(n_jk, m_jk) alpha^m_jk
        gamma^K prod_k Gamma(m_k) / (gamma)_{m} prod_k DirMult(words of topic k | eta).
    """
    doc_of = np.array([doc for doc, tokens in enumerate(docs) for _ in tokens], int)
    word_of = np.array([word for tokens in docs for word in tokens], int)

    def rising(base: float, number: float) -> float:
        return float(np.exp(gammaln(base + number) - gammaln(base)))

    total = 0.0
    for labels in partitions(word_of.size):
        part_of = np.array(labels, int)
        n_topics = part_of.max(initial=-1) + 1
        words = 1.0
        by_tables = np.array([1.0])  # coefficient of m tables in all
        for topic in range(n_topics):
            held = np.bincount(word_of[part_of == topic], minlength=n_features)
            words *= np.prod([rising(eta, number) for number in held])
            words /= rising(n_features * eta, held.sum())
            of_topic = np.array([1.0])  # coefficient of m_k tables
            for doc in range(len(docs)):
                number = int(((part_of == topic) & (doc_of == doc)).sum())
                ways = tables(number) * alpha ** np.arange(number + 1.0)
                of_topic = np.convolve(of_topic, ways)
            served = np.exp(gammaln(np.arange(1.0, of_topic.size)))  # Gamma(m_k)
            of_topic[1:] *= served
            by_tables = np.convolve(by_tables, of_topic)
        seats = sum(
            ways / rising(gamma, number) for number, ways in enumerate(by_tables)
        )
        total += words * gamma**n_topics * seats
    for tokens in docs:
        total /= rising(alpha, len(tokens))
    return float(total)
