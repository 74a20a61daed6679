"""Dirichlet distributions: normalisers, expectations, the inverse of digamma."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, polygamma, psi

__all__ = ["inverse_digamma", "log_growth", "log_marginal_gain"]

#: Entries handled at a time where an expression would copy a whole (word, topic) table.
CHUNK = 1 << 18


def inverse_digamma(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return x > 0 with psi(x) = value, to full precision, element by element.

    Newton's method in x from the start of Minka (2000), appendix C; it converges from
    there for every value below 700, beyond which x overflows.
    """
    value = np.asarray(value, dtype=np.float64)
    with np.errstate(over="ignore", divide="ignore"):
        x = np.where(
            value >= -2.22, np.exp(value) + 0.5, -1.0 / (value + np.euler_gamma)
        )
    # Further down psi(x) = -1/x - euler_gamma + O(x): the start is the answer.
    newton = value > -1e8
    for _ in range(6):
        old = x[newton]
        x[newton] = old - (psi(old) - value[newton]) / polygamma(1, old)
    return x


def log_growth(
    prior: float | NDArray[np.float64], count: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log of the rising factorial, lnG(prior + count) - lnG(prior)."""
    return gammaln(prior + count) - gammaln(prior)


def log_marginal_gain(
    prior: float, counts: NDArray[np.float64], total: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log marginal of the counts of each topic under a symmetric Dirichlet.

    Parameters
    ----------
    prior : float
        Parameter of each word.
    counts : (n_words, n_topics)
        Counts, one row per word of the vocabulary.
    total : (n_topics,)
        Column sums of `counts`.

    Returns
    -------
    gain : (n_topics,)
        logB(prior + counts_k) - logB(prior), in nats.
    """
    n_words, n_topics = counts.shape
    gain = -log_growth(n_words * prior, total)
    step = max(1, CHUNK // max(n_topics, 1))
    for begin in range(0, n_words, step):
        gain += log_growth(prior, counts[begin : begin + step]).sum(axis=0)
    return gain
