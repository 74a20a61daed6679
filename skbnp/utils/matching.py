"""Matching of topics of two fits: cosines, and pairs with the largest sum."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from skbnp.utils.typing import Array, Ints


def matched(similarity: Array, least: float) -> tuple[Ints, Ints]:
    """Match rows and columns of at least `least` similarity, with the largest sum."""
    gain = np.where(similarity >= least, similarity + 1.0, 0.0)
    rows, columns = linear_sum_assignment(gain, maximize=True)
    good = similarity[rows, columns] >= least
    return rows[good], columns[good]


def cosines(a: Array, b: Array) -> Array:
    """Compute the cosines of rows, 0 of rows without mass."""

    def unit(rows):
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(length > 0.0, length, 1.0)

    return np.clip(unit(a) @ unit(b).T, -1.0, 1.0)
