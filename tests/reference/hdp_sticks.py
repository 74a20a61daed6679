"""The HDP with sticks in every document, word by word: Wang, Paisley and Blei (2011).

Slow and plain: one document at a time, loops where the paper has sums. Symbols of the
paper: K topics with sticks u, v; T tables with sticks a, b in each document, phi (here
`phi`, varphi in the paper) the topics of tables, zeta the tables of words, n counts.
Equation numbers are the paper's. The last stick of the corpus and that of each document
are one: the bound is that of the truncated model.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln, psi

Array = NDArray[np.float64]


def log_sticks(a: Array, b: Array) -> tuple[Array, Array]:
    """E log of sticks, and of what each leaves; parameters of all but the last."""
    return psi(a) - psi(a + b), psi(b) - psi(a + b)


def log_weights(a: Array, b: Array) -> Array:
    """E log of stick-breaking weights; the last one takes what is left."""
    taken, left = log_sticks(a, b)
    return np.append(taken, 0.0) + np.concatenate([[0.0], np.cumsum(left)])


def later(values: Array) -> Array:
    """Sum of the entries behind each, but for the last."""
    return np.array([values[t + 1 :].sum() for t in range(len(values) - 1)])


def softmax(logits: Array, axis: int) -> Array:
    """Normalised exponentials along an axis."""
    weights = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def doc_sticks(counts: Array, zeta: Array, alpha: float) -> tuple[Array, Array]:
    """Eqs. (15) and (16), (T - 1,) each; zeta is (n_words, T)."""
    tokens = counts @ zeta
    return 1.0 + tokens[:-1], alpha + later(tokens)


def table_topics(counts: Array, zeta: Array, logs: Array, log_beta: Array) -> Array:
    """Eq. (17), (T, K); `logs` is E log phi_kw of the words, (n_words, K)."""
    return softmax((counts[:, None] * zeta).T @ logs + log_beta, axis=1)


def word_tables(phi: Array, logs: Array, log_pi: Array) -> Array:
    """Eq. (18), (n_words, T)."""
    return softmax(logs @ phi.T + log_pi, axis=1)


def fixed_point(
    counts: Array,
    logs: Array,
    log_beta: Array,
    alpha: float,
    zeta: Array,
    n_sweeps: int,
    sort_every: float = 5,
) -> tuple[Array, Array]:
    """phi and zeta after sweeps through Eqs. (15) to (18), tables in falling order."""
    for sweep in range(1, n_sweeps + 1):
        if sweep % sort_every == 0:
            zeta = zeta[:, np.argsort(-(counts @ zeta), kind="stable")]
        a, b = doc_sticks(counts, zeta, alpha)
        phi = table_topics(counts, zeta, logs, log_beta)
        zeta = word_tables(phi, logs, log_weights(a, b))
    return phi, zeta


def entropy_of_beta(a: Array, b: Array) -> float:
    """Entropy of independent Beta distributions, in nats."""
    taken, left = log_sticks(a, b)
    return float((betaln(a, b) - (a - 1.0) * taken - (b - 1.0) * left).sum())


def plogp(p: Array) -> float:
    """Sum of p log p, 0 log 0 = 0."""
    used = p[p > 0.0]
    return float((used * np.log(used)).sum())


def document_terms(
    counts: Array,
    logs: Array,
    log_beta: Array,
    alpha: float,
    phi: Array,
    zeta: Array,
    a: Array,
    b: Array,
) -> dict[str, float]:
    """A document's part of the bound, any q; every term of a token has its count."""
    _, left = log_sticks(a, b)
    log_pi = log_weights(a, b)
    return {
        "words": float((counts[:, None] * zeta * (logs @ phi.T)).sum()),
        "tables": float((phi @ log_beta).sum()) - plogp(phi),
        "assignments": float((counts @ zeta) @ log_pi),
        "entropy": -float(
            sum(n * plogp(row) for n, row in zip(counts, zeta, strict=True))
        ),
        "sticks": float((np.log(alpha) + (alpha - 1.0) * left).sum())
        + entropy_of_beta(a, b),
    }


def corpus_sticks(tables: Array, gamma: float) -> tuple[Array, Array]:
    """Eqs. (19) and (20), (K - 1,) each, given the expected tables of each topic."""
    return 1.0 + tables[:-1], gamma + later(tables)


def corpus_stick_terms(gamma: float, u: Array, v: Array) -> float:
    """E log p(beta') + entropy of q(beta'), in nats."""
    _, left = log_sticks(u, v)
    return float((np.log(gamma) + (gamma - 1.0) * left).sum()) + entropy_of_beta(u, v)


def topic_terms(eta: float, topics: Array) -> float:
    """-KL(q(phi) || p(phi)) of Dirichlet parameters, (K, V)."""
    total = 0.0
    for row in topics:
        log_phi = psi(row) - psi(row.sum())
        total += gammaln(len(row) * eta) - len(row) * gammaln(eta)
        total -= gammaln(row.sum()) - gammaln(row).sum()
        total += ((eta - row) * log_phi).sum()
    return float(total)


def topic_counts(corpus: Array, zetas: Sequence[Array], phis: Sequence[Array]) -> Array:
    """Sum over documents of n_jw zeta_jwt phi_jtk, (K, V); `corpus` is (D, V)."""
    total = np.zeros((phis[0].shape[1], corpus.shape[1]))
    for counts, zeta, phi in zip(corpus, zetas, phis, strict=True):
        for w in range(len(counts)):
            for t in range(zeta.shape[1]):
                total[:, w] += counts[w] * zeta[w, t] * phi[t]
    return total
