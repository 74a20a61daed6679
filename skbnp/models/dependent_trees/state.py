"""State and statistics of an epoch of dependent trees, and the step to the next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
import scipy.sparse as sp

from skbnp.components.statistics import NodeState, NodeStatistics
from skbnp.models.dependent_trees.sticks import Sticks, TreePriors
from skbnp.trees import Tree
from skbnp.utils.arrays import members, padded, with_columns
from skbnp.utils.ranges import LeastAmount, Sized
from skbnp.utils.typing import Array, Ints, Ints32

NO_IDS: Ints = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class EpochState(NodeState):
    """Globals of an epoch; arrays go by position in the tree."""

    tree: Tree
    masses: Annotated[Array, Sized("n_nodes", least=0)]  # M
    # hX, masses of the epochs in the window
    history: Annotated[Array, Sized("n_nodes", least=0)]
    # E, zero in all columns that no row has shown
    means: Annotated[Array, Sized("n_nodes", "n_seen")]
    # eta with A_V(eta) = |E|
    concentrations: Annotated[Array, Sized("n_nodes", least=0)]
    # mu of the newest epoch that had the node
    previous: Annotated[Array, Sized("n_before", "n_seen")]
    # rows there, -1 of new nodes; see `no_past`
    past: Annotated[Ints, Sized("n_nodes", least=-1)]
    # mean of the parent of the root, zero where there is none
    above: Annotated[Array, Sized("n_seen")]
    # counts as a row at the root, zero where there is none
    centroid: Annotated[Array, Sized("n_seen")]
    concentration: LeastAmount  # beta
    prior_concentration: LeastAmount  # kappa0
    past_ids: Ints = field(  # (n_before,) whose previous directions are
        default_factory=NO_IDS.copy
    )
    n_unseen: int = 0  # columns of the rows that arrays leave out, all zero

    @property
    def width(self) -> int:
        """Columns that are stored, n_seen."""
        return self.means.shape[1]

    @property
    def dimension(self) -> int:
        """Number of features V."""
        return self.width + self.n_unseen

    @property
    def n_columns(self) -> int:
        """Number of columns of scores: the seen ones, and one for all unseen."""
        return self.width + (self.n_unseen > 0)

    def with_columns(self, width: int) -> "EpochState":
        """Append columns of zeros, `width` in all."""
        return replace(
            self,
            means=padded(self.means, width),
            previous=padded(self.previous, width),
            above=padded(self.above, width),
            centroid=padded(self.centroid, width),
            n_unseen=self.dimension - width,
        )

    @property
    def places(self) -> Ints:
        """Positions of all nodes."""
        return np.arange(len(self.tree))

    @property
    def places_with_past(self) -> Ints:
        """Positions of nodes that were in the epoch before."""
        return np.flatnonzero(self.past >= 0)

    @property
    def ended(self) -> Ints:
        """Rows of previous directions whose nodes have ended, but may be revived."""
        return np.flatnonzero(~np.isin(self.past_ids, self.tree.ids))

    def without_past(self) -> "EpochState":
        """Return the state without the epoch before."""
        previous, past = no_past(len(self.tree), self.width)
        return replace(self, previous=previous, past=past, past_ids=NO_IDS)

    def reordered(self, tree: Tree, places: Ints) -> "EpochState":
        """Return the state by the nodes of `tree`, which are at `places` of this."""
        names = ("masses", "history", "means", "concentrations", "past")
        return replace(self, tree=tree, **{n: getattr(self, n)[places] for n in names})

    def resized(self, tree: Tree) -> "EpochState":
        """Re-index the state to another tree; new nodes have zeros."""
        is_there, places = self.tree.find(tree.ids)
        new = self.reordered(tree, np.where(is_there, places, 0))
        for values in (new.masses, new.history, new.means, new.concentrations):
            values[~is_there] = 0.0
        new.past[~is_there] = -1
        return new

    def parents(self, rows: Ints) -> Array:
        """Means of the parents of some nodes, (n_rows, n_seen)."""
        parents = self.means[self.tree.parent[rows]]
        parents[rows == 0] = self.above
        return parents

    def parent_weights(self, rows: Ints, priors: TreePriors) -> Array:
        """Return k1 of some nodes, zero of a root without a parent."""
        weights = np.full(len(rows), priors.parent_weight)
        if not self.above.any():
            weights[rows == 0] = 0.0
        return weights

    def sticks(self, priors: TreePriors) -> Sticks:
        """Posterior of the sticks."""
        return Sticks.given(self.tree, self.masses + self.history, priors)

    def log_weights(self, priors: TreePriors) -> Array:
        """E log pi of each node, (n_nodes,)."""
        return self.sticks(priors).log_weights(self.tree)


@dataclass(frozen=True, slots=True)
class EpochStats(NodeStatistics):
    """Sums over rows, additive; nodes go by position in a tree."""

    masses: Annotated[Array, Sized("n_nodes", least=0)]  # M
    sums: Annotated[sp.csr_array, Sized("n_nodes", "n_seen")]  # s
    entropies: Annotated[Array, Sized("n_nodes")]  # H, of the rows' nodes

    def __post_init__(self) -> None:
        """Convert sparse indices to int32, which kernels read: once, not at each call.

        Raises OverflowError if there are more entries than int32 counts.
        """
        sums = self.sums
        if sums.indices.dtype != np.int32 or sums.indptr.dtype != np.int32:
            if sums.nnz > np.iinfo(np.int32).max:
                raise OverflowError(
                    f"Sums have {sums.nnz} entries, too many for int32."
                )
            indices = sums.indices.astype(np.int32), sums.indptr.astype(np.int32)
            sums = sp.csr_array((sums.data, *indices), shape=sums.shape)
            object.__setattr__(self, "sums", sums)

    @property
    def arrays(self) -> tuple[Ints32, Ints32, Array]:
        """Arrays of the sums s as a CSR matrix."""
        return self.sums.indptr, self.sums.indices, self.sums.data

    @property
    def n_tokens(self) -> float:
        """Number of rows with words, the unit of bounds."""
        return float(self.masses.sum())

    @classmethod
    def zero(cls, n_nodes: int, width: int) -> "EpochStats":
        """Return the statistics of no rows."""
        empty = sp.csr_array((n_nodes, width), dtype=np.float64)
        return cls(np.zeros(n_nodes), empty, np.zeros(n_nodes))

    def with_columns(self, width: int) -> "EpochStats":
        """Append columns without sums, `width` in all."""
        return replace(self, sums=with_columns(self.sums, width))

    def spread(self, places: Ints, n_nodes: int) -> "EpochStats":
        """Add up nodes at `places` of another tree; -1 for those that are left out."""
        onto = members(places, n_nodes)
        sums = sp.csr_array(onto @ self.sums)
        return EpochStats(onto @ self.masses, sums, onto @ self.entropies)

    def reindexed(
        self, old: Tree, new: Tree, merged_into: Mapping[int, int] | None = None
    ) -> "EpochStats":
        """Re-index to another tree; rows of ended nodes go to targets, or none: -1."""
        moved = merged_into or {}
        names = np.array([moved.get(node, node) for node in old.ids.tolist()])
        names[names >= 0] = new.positions(names[names >= 0])
        return self.spread(names, len(new))

    def taken(self, places: Ints) -> "EpochStats":
        """Take some nodes, or all in another order."""
        return EpochStats(
            self.masses[places], self.sums[places], self.entropies[places]
        )


def no_past(n_nodes: int, width: int) -> tuple[Array, Ints]:
    """Return previous directions, and their rows, of nodes without a past."""
    return np.zeros((0, width)), np.full(n_nodes, -1, dtype=np.intp)


def sort_siblings(
    state: EpochState, stats: EpochStats
) -> tuple[EpochState, EpochStats]:
    """Sort siblings as in `sorted_tree`; arrays by node are copies in any case."""
    tree = sorted_tree(state, stats)
    places = state.tree.positions(tree.ids)
    return state.reordered(tree, places), stats.taken(places)


def sorted_tree(state: EpochState, stats: EpochStats) -> Tree:
    """Return the tree with siblings sorted by the rows at and below each node.

    In a first epoch no other order has a larger bound. Later the prior depends on the
    order: there it belongs to the beginning of the epoch (`next_epoch`).
    """
    through = state.tree.accumulate(stats.masses + state.history)
    return state.tree.sort_siblings(-through)


def windowed(tree: Tree, past: Sequence[tuple[Ints, Array]]) -> Array:
    """Sum the masses of past epochs, each with the ids of its nodes, by position.

    Nodes that are not in the tree are left out.
    """
    sums = np.zeros(len(tree))
    for ids, masses in past:
        there = np.isin(ids, tree.ids)
        sums[tree.positions(ids[there])] += masses[there]
    return sums


def next_epoch(
    state: EpochState, history: Array, returning: Ints = NO_IDS
) -> EpochState:
    """Return the state of the next epoch, whose past are the present mean directions.

    `history` are the masses in the window that ends with this epoch. Siblings are
    sorted by them, once; nodes born in the next epoch come after. Nodes that have ended
    may be revived with their last direction, if they are among those `returning`.
    """
    lengths = np.linalg.norm(state.means, axis=1, keepdims=True)
    ended = state.ended[np.isin(state.past_ids[state.ended], returning)]
    ended = ended[state.previous[ended].any(axis=1)]
    previous = state.means / np.maximum(lengths, 1e-300)
    if len(ended):
        previous = np.vstack([previous, state.previous[ended]])
    state = replace(
        state,
        masses=np.zeros(len(state.tree)),
        history=history,
        previous=previous,
        past=np.where(lengths.ravel() > 0.0, state.places, -1),
        centroid=np.zeros(state.width),
        past_ids=np.concatenate([state.tree.ids, state.past_ids[ended]]),
    )
    tree = state.tree.sort_siblings(-state.tree.accumulate(history))
    return state.reordered(tree, state.tree.positions(tree.ids))
