"""Units of dependent trees in which moves are independent, section 4 of [1].

Pure functions of the tree: every copy has the same units.

[1] Hu, Ho, Dubey and Xing, "Large-scale distributed dependent nonparametric trees",
ICML 2015.
"""

import numpy as np
from numpy.typing import NDArray

from skbnp.trees import Tree

__all__ = ["birth_units", "merge_units"]

Ints = NDArray[np.intp]


def birth_units(tree: Tree, n_units: int) -> Ints:
    """Unit of each node as a target of births: a function of its id alone."""
    return tree.ids % n_units


def merge_units(tree: Tree, parity: int) -> Ints:
    """Unit of each node in odd (1) or even (0) merges: the position of its owner.

    A node at a depth of this parity owns its children and grandchildren. Nodes without
    an owner above, the root and in odd merges its children, are one more unit, -1. So
    units are disjoint, contain whole lists of siblings, and nodes of a depth of this
    parity together with their parents: merges with siblings or with those parents stay
    in a unit. Merges that odd units lack are in even ones.
    """
    if parity not in (0, 1):
        raise ValueError(f"parity must be 0 or 1, got {parity!r}.")
    parent, depth = tree.parent, tree.depth
    owner = np.where((depth - 1) % 2 == parity, parent, parent[parent])
    owner[depth == 0] = -1
    if parity == 1:
        owner[depth == 1] = -1
    return owner
