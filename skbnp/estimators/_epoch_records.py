"""Records of epochs of dependent trees for users, and checks of their saved states."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from skbnp.estimators._saved import check_number, check_places, check_sizes
from skbnp.models.dependent_trees.state import EpochState
from skbnp.trees import TreeView

#: Share of the length of a direction below which entries are not shown.
SHOWN = 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class EpochRecord:
    """What was learned of one epoch: tree, directions, weights.

    Attributes
    ----------
    tree : TreeView
        The tree at the end of the epoch.
    components : csr_array of shape (n_nodes, n_features)
        Mean directions, rows of `tree`; entries below 1e-4 are left out.
    component_ids : ndarray of int of shape (n_nodes,)
        Ids of the nodes: a topic keeps its id over the epochs.
    masses : ndarray of shape (n_nodes,)
        Expected rows at each node itself.
    n_samples : int
        Non-zero rows of the epoch.
    first_step : int
        Updates before the epoch: the `step` of its records in `lineage_` is not lower.
    n_records : int
        Records of `lineage_` up to the end of the epoch: these lead to `component_ids`.
    """

    tree: TreeView
    components: sp.csr_array
    component_ids: np.ndarray
    masses: np.ndarray
    n_samples: int
    first_step: int
    n_records: int

    def __repr__(self) -> str:
        return f"EpochRecord(n_samples={self.n_samples}, tree={self.tree!r})"


def directions_of(state: EpochState) -> np.ndarray:
    lengths = np.linalg.norm(state.means, axis=1, keepdims=True)
    return state.means / np.maximum(lengths, 1e-300)


def view_of(state: EpochState) -> TreeView:
    """Return the tree for users, with the share of rows at or below each node."""
    tree, total = state.tree, float(state.masses.sum())
    through = tree.accumulate(state.masses)
    weight = through / through[0] if total > 0.0 else np.eye(1, len(tree))[0]
    in_use = through >= max(1.0, 1e-4 * total)
    return TreeView(tree.parent, weight, tree.ids, in_use, by_id=True)


def check_state(state: EpochState, n_features: int, n_seen: int) -> None:
    """Raise if a saved epoch is unfit for compiled code; it has `n_seen` columns."""
    sizes = {"n_nodes": len(state.tree)}
    check_sizes(state, sizes)
    width = n_features - state.n_unseen
    check_number("n_unseen", width, least=0, most=n_seen)
    check_number("means", sizes["n_seen"], least=width, most=width)
    check_places("past", state.past, sizes["n_before"], least=-1)
