"""Deterministic order of values and of topics, the same on any machine."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skbnp.utils.typing import Array, Ints


def largest(values: NDArray, n: int) -> Ints:
    """Return the indices of the `n` largest values, largest first, ties by index."""
    n = min(n, len(values))
    if n == 0:
        return np.zeros(0, dtype=np.intp)
    candidates = np.flatnonzero(values >= np.partition(values, -n)[-n])
    return candidates[np.argsort(-values[candidates], kind="stable")][:n]


def rows_by_id(ids: Ints) -> Ints:
    """Return the position in `ids` of the topic in each row of user-facing arrays.

    A topic whose id is below the number of topics takes the row of that number; the
    others fill the remaining rows, in order of their ids. So a row number is never the
    id of another topic.
    """
    n = len(ids)
    order = np.full(n, -1, dtype=np.intp)
    has_row = ids < n
    order[ids[has_row]] = np.flatnonzero(has_row)
    others = np.flatnonzero(~has_row)
    order[order < 0] = others[np.argsort(ids[others])]
    return order


def names_by_weight(ids: Ints, weights: Array, n_named: int, n_fixed: int = 0) -> Ints:
    """Return new ids of a fit that has ended: topics by weight, heaviest first.

    The first `n_fixed` ids stay. Those of topics that have ended follow the others, in
    their order. Returns the new id of each of the `n_named` ids.
    """
    order = np.lexsort([ids, -weights])
    living = ids[order][ids[order] >= n_fixed]
    ended = np.setdiff1d(np.arange(n_fixed, n_named), living)
    names = np.arange(n_named)
    names[np.concatenate([living, ended])] = np.arange(n_fixed, n_named)
    return names


def evenly_spaced(samples: Sequence[Any], n: int) -> list[Any]:
    """Return at most `n` of some samples, evenly spaced."""
    places = np.linspace(0, len(samples) - 1, min(n, len(samples)))
    return [samples[place] for place in places.astype(np.intp)]
