"""Dirichlet distributions: normalisers, expectations, the inverse of digamma."""

import numpy as np
from scipy.special import gammaln, psi, zeta

from skbnp.utils.typing import Array


def inverse_digamma(value: Array) -> Array:
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
    at, value = x[newton], value[newton]
    for _ in range(6):
        step = (psi(at) - value) / zeta(2.0, at)
        at = at - step
        if (np.abs(step) <= 1e-9 * at).all():  # the next would be lost in rounding
            break
    x[newton] = at
    return x


def log_growth(prior: float | Array, count: Array) -> Array:
    """Log of the rising factorial, lnG(prior + count) - lnG(prior)."""
    return gammaln(prior + count) - gammaln(prior)
