"""Samples of the sampler of dependent trees, which prediction reads as a fitted epoch.

Given the nodes of all rows, directions have the posterior of the variational model,
whose statistics are counts. So samples and variational fits predict by the same
equations, and differ in the trees alone.
"""

from dataclasses import dataclass

import numpy as np

from skbnp.inference.executor import RunTasks, run_in_turn
from skbnp.models.dependent_slices.model import SlicedTree
from skbnp.models.dependent_trees.epoch import ClosedEpoch
from skbnp.models.dependent_trees.state import EpochState, EpochStats
from skbnp.models.dependent_trees.updates import update_own_means
from skbnp.utils.labels import Label
from skbnp.utils.ranges import Log, Steps
from skbnp.utils.typing import Array, Ints

#: Updates of the posterior of directions, each down the tree and up again.
N_UPDATES = 3


@dataclass(frozen=True, slots=True)
class TreeSample:
    """Tree, rows and directions of a sample; siblings by decreasing rows."""

    epoch: ClosedEpoch
    log_joint: Log  # nats per row
    chain: Steps
    step: Steps  # sweeps made
    past_weight: float

    @property
    def label(self) -> Label:
        """Label of the epoch."""
        return self.epoch.label

    @property
    def component_ids(self) -> Ints:
        """Ids of the nodes."""
        return self.epoch.state.tree.ids

    @property
    def masses(self) -> Array:
        """Rows at each node, (n_nodes,)."""
        return self.epoch.state.masses


def with_sorted_siblings(state: SlicedTree) -> SlicedTree:
    """Return the state with siblings by decreasing rows, old ones before new."""
    through = state.tree.accumulate(state.masses + state.history)
    tree = state.tree.sort_siblings(-through)
    place = tree.positions(state.tree.ids)[state.place].astype(np.int32)
    return state.edited(tree, place)


def variational_state_of(
    sampler_state: SlicedTree, run: RunTasks = run_in_turn
) -> EpochState:
    """Return the variational posterior of directions given the nodes of rows.

    It is updated a few times from the directions that are drawn. Columns that no row
    has are left out: means are zero there.
    """
    width, masses = sampler_state.previous.shape[1], sampler_state.masses
    directions, none = sampler_state.directions.gathered(run), np.zeros(len(masses))
    state = EpochState(
        sampler_state.tree,
        masses,
        sampler_state.history,
        np.ascontiguousarray(directions[:, :width]),
        none.copy(),  # follows
        sampler_state.previous,
        sampler_state.past,
        np.zeros(width),
        np.zeros(width),
        sampler_state.concentration,
        sampler_state.prior_concentration,
        n_unseen=sampler_state.dimension - width,
    )
    stats = EpochStats(masses, sampler_state.sums, none)
    for _ in range(N_UPDATES):
        state = update_own_means(state, stats, sampler_state.priors, run)
    return state.without_past()
