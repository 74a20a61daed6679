"""Depths, levels and the depth-first order of a list of parents."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skbnp.utils.typing import Ints


def read_only(values: ArrayLike) -> Ints:
    """Copy integers into an array that cannot be written to."""
    given = np.asarray(values)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(f"A tree is made of lists of integers, got {values!r}.")
    array = np.array(given, dtype=np.intp)
    array.setflags(write=False)
    return array


def depths(parent: Ints) -> Ints:
    """Count the edges above each node, in steps of doubling length."""
    n = len(parent)
    if n == 0 or parent.min() < -1 or parent.max() >= n or (parent == -1).sum() != 1:
        raise ValueError("A tree has one root, of parent -1, and parents within it.")
    above = parent.copy()
    depth = (above >= 0).astype(np.intp)
    for _ in range(n.bit_length()):
        depth += np.where(above >= 0, depth[above], 0)
        above = np.where(above >= 0, above[above], -1)
    if (above >= 0).any():
        raise ValueError(f"Node {np.argmax(above >= 0)} is below itself.")
    return depth


def by_level(depth: Ints) -> list[Ints]:
    """List the nodes of each depth, in order."""
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.cumsum(np.bincount(depth))[:-1])


def depth_first(parent: Ints, depth: Ints, key: NDArray) -> Ints:
    """Order nodes depth first, siblings by key; ties keep their order."""
    levels = by_level(depth)
    size = np.ones(len(parent), dtype=np.intp)
    for rows in levels[:0:-1]:
        np.add.at(size, parent[rows], size[rows])
    place = np.zeros(len(parent), dtype=np.intp)
    for rows in levels[1:]:
        rows = rows[np.lexsort((key[rows], parent[rows]))]
        above = parent[rows]
        before = np.cumsum(size[rows]) - size[rows]
        # The first sibling comes right after the parent.
        place[rows] = place[above] + 1 + before - before[np.searchsorted(above, above)]
    return np.argsort(place)
