"""Positions of the nodes of a tree in a figure."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skbnp.utils.typing import Array

#: Levels of a tree that is drawn: more would be illegible.
DEEPEST = 200


def tidy(parent: ArrayLike) -> Array:
    """Place the nodes of each level of a tree, as Reingold and Tilford (1981).

    `parent` is the row of each node's parent, an earlier row; siblings are in order. A
    node is at the middle of its children, at least 1 from its neighbours in the level,
    the first of all at 0. Each subtree is placed once, as near to those before it as
    the outlines allow; time is proportional to nodes times levels.
    """
    above = np.asarray(parent)
    n = len(above)
    shift = np.zeros(n)  # of each node, against its parent
    children: list[list[int]] = [[] for _ in range(n)]
    for node in range(1, n):
        children[above[node]].append(node)
    # First and last place of each level of a subtree, against its root.
    outlines: dict[int, tuple[NDArray, NDArray]] = {}
    for node in range(n - 1, -1, -1):
        low = high = np.zeros(0)
        for child in children[node]:
            left, right = outlines.pop(child)
            shared = min(len(high), len(left))
            gap = np.max(high[:shared] - left[:shared] + 1.0, initial=-np.inf)
            shift[child] = gap if shared else 0.0
            left, right = left + shift[child], right + shift[child]
            low = np.append(low, left[len(low) :])
            high = np.append(right, high[len(right) :])
        if children[node]:
            middle = (shift[children[node][0]] + shift[children[node][-1]]) / 2
            shift[children[node]] -= middle
            low, high = low - middle, high - middle
        outlines[node] = np.append(0.0, low), np.append(0.0, high)
    place = np.zeros(n)
    for node in range(1, n):
        place[node] = place[above[node]] + shift[node]
    return place - place.min()
