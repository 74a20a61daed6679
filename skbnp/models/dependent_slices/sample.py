"""What prediction needs of a state of the sampler: an epoch of `DependentTrees`.

Given the nodes of all rows, directions have the posterior of the variational model,
whose statistics are counts. So samples and variational fits predict by the same
equations, and differ in the trees alone.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skbnp.models.dependent_slices.model import SlicedTree
from skbnp.models.dependent_trees.directions import bessel_slope, log_normaliser_gain
from skbnp.models.dependent_trees.epoch import ClosedEpoch
from skbnp.models.dependent_trees.model import (
    EpochState,
    EpochStats,
    no_past,
    sort_siblings,
    update_means,
)

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
    n_nodes, masses, is_old = len(world.tree), world.masses, world.is_old
    previous = no_past(n_nodes, world.dimension)
    if is_old.any():
        previous = np.where(is_old[:, None], world.previous[world.past], 0.0)
    state = EpochState(
        world.tree,
        masses,
        world.history,
        directions,
        np.zeros(n_nodes),
        previous,
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
    state, stats = epoch_of(world, world.directions)
    for _ in range(N_UPDATES):
        state = update_means(state, stats, world.priors)
    return replace(state, previous=no_past(*state.means.shape))


def log_joint_of(world: SlicedTree) -> float:
    """Log probability of rows and their nodes, in nats per row.

    Weights are integrated out exactly, and directions from the leaves up: given its
    parent, that of a node is integrated out in closed form where the logarithms of what
    its children make of it are replaced by their tangents at the direction that is
    drawn. The logarithms bend so little over the places where a direction may be that
    this is within a nat for each node. Densities are with respect to the uniform
    one.
    """
    tree, k0 = world.tree, world.prior_concentration
    n_rows = float(world.masses.sum())
    k1, k2 = world.priors.parent_weight, world.priors.past_weight
    both = log_normaliser_gain(np.array([world.concentration**2]), world.dimension)
    total = n_rows * float(both[0])
    total += world.log_prior()
    naturals = world.concentration * world.sums.toarray()
    nothing = np.zeros(world.dimension)  # above the root
    for at in range(len(tree) - 1, -1, -1):
        natural = naturals[at]
        above = world.directions[tree.parent[at]] if at else nothing
        past = np.zeros(1)
        if world.past[at] >= 0:
            past = k2 * world.previous[world.past[at]]
            natural += k0 * past
        product = k1 * float((above * past).sum())
        cosine, size = k1 * float(above @ natural), k1**2 * float(above @ above)
        given = k0**2 * (size + float(past @ past) + 2.0 * product)
        here = k0**2 * size + float(natural @ natural) + 2.0 * k0 * cosine
        squares = np.maximum([given, here], 0.0)
        prior, posterior = log_normaliser_gain(squares, world.dimension)
        total += prior - posterior
        if at:
            # Of log C_V(k) in theta'g: -kappa0 k1 A_V(k) / k.
            slopes = k0 * bessel_slope(squares, world.dimension)
            total -= slopes[1] * cosine - slopes[0] * k0 * product
            naturals[tree.parent[at]] += slopes[1] * k1 * natural
            naturals[tree.parent[at]] -= slopes[0] * k0 * k1 * past
    return float(total) / max(n_rows, 1.0)
