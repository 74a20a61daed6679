"""Log joint probability of dependent trees: rows and their nodes, by subtree.

Weights are integrated out exactly, and directions from the leaves up: given its parent,
the direction of a node is integrated out in closed form, with the log factors of its
children replaced by their tangents at the drawn direction. They bend so little over the
plausible directions that the error is below one nat for each node. Densities are with
respect to the uniform one.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from skbnp.distributions.von_mises_fisher import expansion
from skbnp.kernels._tree_directions import integrate_out
from skbnp.models.dependent_slices.model import SlicedTree
from skbnp.models.dependent_trees.directions import log_normaliser_gain
from skbnp.trees import Tree
from skbnp.utils.typing import Array

#: Nodes of the subtrees of one task, about.
NODES_PER_TASK = 64


class LogJoint:
    """Log joint probability of rows and nodes, nats per row, as parallel tasks.

    `sums` are those of the rows at each node, (n_nodes, n_seen).
    """

    def __init__(self, state: SlicedTree, sums: sp.csr_array):
        """Prepare the sums over subtrees of a state."""
        self._state, self._sums = state, sums
        self._parts = _subtrees(state.tree)
        self._log_integrals = np.zeros(len(self._parts))
        self._slopes = np.zeros((len(self._parts), state.width))

    def tasks(self) -> Sequence[Callable[[], object]]:
        """List tasks: groups of subtrees below the root, and the nodes of rows."""
        parts = [partial(self._add_up, part) for part in range(len(self._parts))]
        return [self._state.log_prior, *parts]  # which is kept

    def _add_up(self, part: int) -> None:
        """Sum the terms of one group of subtrees."""
        begin, end = self._parts[part]
        n_levels = int(self._state.tree.depth[begin:end].max()) + 1
        below = np.zeros((n_levels + 1, self._state.width))
        self._log_integrals[part] = self._integrate_out(begin, end, below)
        self._slopes[part] = below[1]

    def value(self) -> float:
        """Return the log joint, nats per row, once all tasks have run."""
        state = self._state
        below = np.stack([np.zeros(state.width), self._slopes.sum(axis=0)])
        total = self._log_integrals.sum() + self._integrate_out(0, 1, below)
        n_rows = float(state.masses.sum())
        rows = log_normaliser_gain(state.concentration**2, state.dimension)
        total += n_rows * float(rows) + state.log_prior()
        return float(total) / max(n_rows, 1.0)

    def _integrate_out(self, begin: int, end: int, below: Array) -> float:
        state, sums = self._state, self._sums
        return integrate_out(
            begin,
            end,
            state.tree.depth,
            state.tree.parent,
            state.directions.drawn,
            state.directions.row,
            state.wide_previous,
            state.past,
            sums.indptr.astype(np.int32, copy=False),
            sums.indices.astype(np.int32, copy=False),
            sums.data,
            state.concentration,
            state.pull,
            state.pull_of_past,
            below,
            expansion(state.dimension),
        )


def log_joint_of(state: SlicedTree) -> float:
    """Log probability of rows and their nodes, in nats per row."""
    joint = LogJoint(state, state.sums)
    for task in joint.tasks():
        task()
    return joint.value()


def _subtrees(tree: Tree) -> list[tuple[int, int]]:
    """Limits of groups of subtrees below the root."""
    begins = np.append(np.flatnonzero(tree.depth == 1), len(tree))
    part = (begins - 1) // NODES_PER_TASK
    limits = begins[np.flatnonzero(np.diff(part, prepend=-1))]
    if limits[-1] < len(tree):
        limits = np.append(limits, len(tree))
    return list(pairwise(limits.tolist()))
