"""Pairs of rows: of topics of two fits by their cosines, and of any with a gain."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from skbnp.utils.typing import Array, Ints


def matched(similarity: Array, least: float) -> tuple[Ints, Ints]:
    """Match rows and columns of at least `least` similarity, with the largest sum."""
    gain = np.where(similarity >= least, similarity + 1.0, 0.0)
    rows, columns = linear_sum_assignment(gain, maximize=True)
    good = similarity[rows, columns] >= least
    return rows[good], columns[good]


def best_disjoint(
    pairs: Sequence[Sequence[int]], gains: Sequence[float] | Array
) -> Ints:
    """Positions of pairs with positive gain, best first, that share no member."""
    chosen: list[int] = []
    taken: set[int] = set()
    for index in np.argsort(-np.asarray(gains), kind="stable").tolist():
        if gains[index] <= 0.0:
            break
        if taken.isdisjoint(pairs[index]):
            taken |= set(pairs[index])
            chosen.append(index)
    return np.array(chosen, dtype=np.intp)


def most_similar(similarity: Array, least: float) -> tuple[Ints, Ints]:
    """Match rows and columns of at least `least` similarity, the largest first."""
    rows, columns = np.nonzero(similarity >= least)
    pairs = np.column_stack([rows, len(similarity) + columns])
    chosen = best_disjoint(pairs.tolist(), similarity[rows, columns])
    return rows[chosen], columns[chosen]


def unit_rows(rows: Array) -> Array:
    """Scale rows to length one; those without mass stay zero."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)


def cosines(a: Array, b: Array) -> Array:
    """Compute the cosines of rows, 0 of rows without mass."""
    return np.clip(unit_rows(a) @ unit_rows(b).T, -1.0, 1.0)
