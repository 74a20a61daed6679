"""Expected weights of a broken stick.

Piece t is a share v_t ~ Beta(a_t, b_t) of what is left, the last one all of it.
"""

import numpy as np
from scipy.special import psi

from skbnp.utils.typing import Array


def mean_weights(a: Array, b: Array) -> Array:
    """E[v_t prod_{s<t} (1 - v_s)], products of means; (..., T - 1) to (..., T)."""
    one = np.ones((*a.shape[:-1], 1))
    taken = np.concatenate([a / (a + b), one], axis=-1)
    left = np.concatenate([one, np.cumprod(b / (a + b), axis=-1)], axis=-1)
    return taken * left


def log_weights(a: Array, b: Array) -> Array:
    """Expected logarithms of the weights; (..., T - 1) to (..., T)."""
    nothing, whole = np.zeros((*a.shape[:-1], 1)), psi(a + b)
    taken = np.concatenate([psi(a) - whole, nothing], axis=-1)
    left = np.concatenate([nothing, np.cumsum(psi(b) - whole, axis=-1)], axis=-1)
    return taken + left
