"""What prediction needs of a state of the sampler: an epoch of `DependentTrees`.

Given the nodes of all rows, directions have the posterior of the variational model,
whose statistics are counts. So samples and variational fits predict by the same
equations, and differ in the trees alone.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.models.dependent_slices.model import SlicedTree
from skbnp.models.dependent_trees.directions import bessel_slope, log_normaliser_gain
from skbnp.models.dependent_trees.epoch import ClosedEpoch
from skbnp.models.dependent_trees.model import (
    EpochState,
    EpochStats,
    sort_siblings,
    update_own_means,
    with_own_means,
)
from skbnp.trees import Tree

__all__ = ["TreeSample", "epoch_of", "log_joint_of", "reading_of"]

Array = NDArray[np.float64]

#: Updates of the posterior of directions, each down the tree and up again.
N_UPDATES = 3


@dataclass(frozen=True, slots=True)
class TreeSample:
    """A tree and its rows; siblings stand by decreasing rows."""

    epoch: ClosedEpoch
    log_joint: float  # nats per row
    chain: int
    step: int  # sweeps made

    @property
    def label(self) -> Any:
        """Of the epoch."""
        return self.epoch.label

    @property
    def component_ids(self) -> NDArray[np.intp]:
        """Names of the nodes."""
        return self.epoch.state.tree.ids

    @property
    def masses(self) -> Array:
        """Rows at each node, (n_nodes,)."""
        return self.epoch.state.masses

    @classmethod
    def of(
        cls, epoch: ClosedEpoch, *, log_joint: float, chain: int, step: int
    ) -> "TreeSample":
        """Copy an epoch, and sort siblings."""
        state = epoch.state
        nothing = EpochStats.zero(len(state.tree), state.dimension)
        state, _ = sort_siblings(state, replace(nothing, masses=state.masses))
        return cls(replace(epoch, state=state), log_joint, chain, step)


def epoch_of(world: SlicedTree, directions: Array) -> tuple[EpochState, EpochStats]:
    """Read a state as one of the variational model, with given directions."""
    n_nodes, masses = len(world.tree), world.masses
    state = EpochState(
        world.tree,
        masses,
        world.history,
        directions,
        np.zeros(n_nodes),
        world.previous,
        world.past,
        np.zeros(world.dimension),
        np.zeros(world.dimension),
        world.concentration,
        world.prior_concentration,
    )
    return state, EpochStats(masses, world.sums, np.zeros(n_nodes))


def reading_of(world: SlicedTree) -> EpochState:
    """Return the variational posterior of directions given the nodes of rows.

    It has had some updates from the directions that are drawn.
    """
    state, stats = epoch_of(world, world.directions.gathered())
    state = with_own_means(state)
    for _ in range(N_UPDATES):
        state = update_own_means(state, stats, world.priors)
    return state.without_past()


def log_joint_of(world: SlicedTree, sums: sp.csr_array | None = None) -> float:
    """Log probability of rows and their nodes, in nats per row.

    Weights are integrated out exactly, and directions from the leaves up: given its
    parent, that of a node is integrated out in closed form where the logarithms of what
    its children make of it are replaced by their tangents at the direction that is
    drawn. The logarithms bend so little over the places where a direction may be that
    this is within a nat for each node. Densities are with respect to the uniform
    one.

    Parameters
    ----------
    sums : csr_array of shape (n_nodes, V), optional
        Those of the rows at each node, if they are known.
    """
    tree, k0, beta = world.tree, world.prior_concentration, world.concentration
    sums = world.sums if sums is None else sums
    n_rows = float(world.masses.sum())
    k1, k2 = world.priors.parent_weight, world.priors.past_weight
    both = log_normaliser_gain(np.array([beta**2]), world.dimension)
    total = n_rows * float(both[0])
    total += world.log_prior()
    below: dict[int, Array] = {}  # what children make of a node, (V,)
    for level in _from_leaves(tree):
        naturals = [_natural(world, sums, at, below.pop(at, None)) for at in level]
        # Squares of kappa0 (k1 theta_parent + k2 mu^(t-1)), and with g of the rows and
        # children; products of theta_parent with mu^(t-1) and g.
        given, here, products, cosines = np.zeros((4, len(level)))
        for number, (at, natural) in enumerate(zip(level, naturals, strict=True)):
            here[number] = natural.square
            parent = world.directions[int(tree.parent[at])]
            if at:
                cosines[number] = k1 * float(parent[natural.words] @ natural.values)
                given[number] = (k0 * k1) ** 2  # directions have length one
            if world.past[at] >= 0:
                past = k2 * world.previous[world.past[at]]
                given[number] += k0**2 * float(past @ past)
                products[number] = k1 * float(parent @ past) if at else 0.0
        here += (k0 * k1) ** 2 * (np.array(level) > 0) + 2.0 * k0 * cosines
        given += 2.0 * k0**2 * products
        squares = np.maximum([given, here], 0.0)
        prior, posterior = log_normaliser_gain(squares, world.dimension)
        total += float((prior - posterior).sum())
        if level == [0]:
            break
        # Of log C_V(k) in theta'g: -kappa0 k1 A_V(k) / k.
        of_past, of_all = k0 * bessel_slope(squares, world.dimension)
        total -= float((of_all * cosines - of_past * k0 * products).sum())
        for number, (at, natural) in enumerate(zip(level, naturals, strict=True)):
            parent = below.setdefault(int(tree.parent[at]), np.zeros(world.dimension))
            parent[natural.words] += of_all[number] * k1 * natural.values
            if world.past[at] >= 0:
                past = k2 * world.previous[world.past[at]]
                parent -= of_past[number] * k0 * k1 * past
    return float(total) / max(n_rows, 1.0)


class _Natural(NamedTuple):
    """A natural parameter: some words, or all, none of them twice."""

    words: NDArray[np.int32] | slice
    values: Array

    @property
    def square(self) -> float:
        """Of its length."""
        return float(self.values @ self.values)


def _natural(
    world: SlicedTree, sums: sp.csr_array, at: int, below: Array | None
) -> _Natural:
    """What rows, children and the past say in the direction of a node."""
    mine = slice(sums.indptr[at], sums.indptr[at + 1])
    words, values = sums.indices[mine], world.concentration * sums.data[mine]
    if below is None and world.past[at] < 0:
        return _Natural(words, values)
    dense = np.zeros(world.dimension) if below is None else below
    dense[words] += values
    if world.past[at] >= 0:
        pull = world.prior_concentration * world.priors.past_weight
        dense += pull * world.previous[world.past[at]]
    return _Natural(slice(None), dense)


def _from_leaves(tree: Tree) -> list[list[int]]:
    """Nodes by how far the farthest leaf below them is, leaves first, the root last."""
    height = np.zeros(len(tree), dtype=np.intp)
    for at in range(len(tree) - 1, 0, -1):
        above = tree.parent[at]
        height[above] = max(height[above], height[at] + 1)
    return [np.flatnonzero(height == level).tolist() for level in range(height[0] + 1)]
