"""The door to scikit-learn's layout of trees, which `sklearn.tree.plot_tree` uses.

scikit-learn keeps it private; it is imported here and nowhere else.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.tree._reingold_tilford import Tree, buchheim

__all__ = ["DEEPEST", "tidy"]

#: The layout goes down level by level on Python's stack.
DEEPEST = 200


def tidy(parent: ArrayLike) -> NDArray[np.float64]:
    """Place the nodes of each level of a tree, by Buchheim, Jünger and Leipert (2002).

    `parent` has the row of each node's parent, a row before; siblings are in order. A
    node stands amid its children, 1 or more from its neighbours in the level, the first
    of all at 0.
    """
    nodes = [Tree("", i) for i in range(np.size(parent))]
    for node, above in list(zip(nodes, np.asarray(parent), strict=True))[1:]:
        nodes[above].children.append(node)
    place, stack = np.zeros(len(nodes)), [buchheim(nodes[0])]
    while stack:
        drawn = stack.pop()
        place[drawn.tree.node_id] = drawn.x
        stack.extend(drawn.children)
    return place - place.min()
