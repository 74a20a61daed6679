"""Hyperparameters, state and statistics of hierarchical component analysis."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from skbnp.components.statistics import NodeState, NodeStatistics, ended_nodes
from skbnp.components.tree_sticks import stub_nodes
from skbnp.models.hca.frame import Frame
from skbnp.trees import Tree
from skbnp.utils.ranges import (
    LARGE_SQUARE,
    LEAST_MASS,
    SignedSquare,
    Sized,
    Square,
)
from skbnp.utils.typing import Array

#: Part of sum |t|^2 below which the residual is rounding error.
ROUNDING = 1e-13


@dataclass(frozen=True, slots=True)
class State(NodeState, NodeStatistics):
    """Globals of component analysis; arrays go by position in the tree."""

    tree: Tree
    loadings: Annotated[Array, Sized("n_nodes", "n_features")]  # m_i
    # s_i
    loading_variances: Annotated[
        Array, Sized("n_nodes", least=1e-300, most=LARGE_SQUARE)
    ]
    # sum of q(c), of the sticks
    stub_masses: Annotated[Array, Sized("n_nodes", least=LEAST_MASS)]
    centres: Annotated[Array, Sized("n_nodes")]  # c_i, 0 at the root
    centre_variances: Annotated[Array, Sized("n_nodes", least=0)]  # r_i, 0 at the root
    mean: Annotated[Array, Sized("n_features")]  # m
    mean_variance: Square  # s_mu
    noise_shape: Square  # a
    noise_rate: Square  # b

    per_node: ClassVar[tuple[str, ...]] = (
        "loadings",
        "loading_variances",
        "stub_masses",
        "centres",
        "centre_variances",
    )

    @property
    def precision(self) -> float:
        """E tau."""
        return self.noise_shape / self.noise_rate

    def reindex_to(self, new: Tree) -> "State":
        """Re-index the state to another tree; new nodes have zero loadings."""
        return replace(self.take_nodes(self.tree, new), tree=new)


@dataclass(frozen=True, slots=True)
class Stats(NodeStatistics):
    """Sums over rows, additive; stubs go by position in a tree.

    t is a row in the frame, m and E[xx'] are its coordinates' moments given a stub of
    which it has the share q. Entries of levels below a stub are those of the prior's
    loadings: their coordinates have mean zero.
    """

    stub_masses: Annotated[Array, Sized("n_nodes", least=LEAST_MASS)]  # sum q
    # E: sum q E[xx']
    moments: Annotated[
        Array, Sized("n_nodes", "n_levels", "n_levels", most=LARGE_SQUARE)
    ]
    coordinates: Annotated[Array, Sized("n_nodes", "n_levels")]  # g: sum q m
    # F: sum q m t'
    products: Annotated[
        Array, Sized("n_nodes", "n_levels", "n_features", most=LARGE_SQUARE)
    ]
    total: Annotated[Array, Sized("n_features")]  # sum t
    square: SignedSquare  # sum |t|^2
    n_rows: SignedSquare
    entropy: SignedSquare  # sum q (-log q + 1/2 log |C|) + n L / 2, at their last step

    per_node: ClassVar[tuple[str, ...]] = (
        "stub_masses",
        "moments",
        "coordinates",
        "products",
    )

    @classmethod
    def zero(cls, n_nodes: int, n_levels: int, n_features: int) -> "Stats":
        """Return the statistics of no rows."""
        shapes = (), (n_levels, n_levels), (n_levels,), (n_levels, n_features)
        masses, moments, means, products = (np.zeros((n_nodes, *s)) for s in shapes)
        total = np.zeros(n_features)
        return cls(masses, moments, means, products, total, 0.0, 0.0, 0.0)

    @property
    def n_tokens(self) -> float:
        """Number of rows, the unit of bounds."""
        return self.n_rows

    def clipped(self) -> "Stats":
        """Return the statistics with negative masses of differences set to zero."""
        return replace(self, stub_masses=np.maximum(self.stub_masses, 0.0))

    def flip_sign(self, tree: Tree, node: int) -> "Stats":
        """Change the sign of the coordinates of a node."""
        level, stubs = tree.depth_of(node), tree.positions(tree.subtree_of(node))
        signs = np.ones(self.coordinates.shape)
        signs[stubs, level] = -1.0
        return replace(
            self,
            moments=self.moments * signs[:, :, None] * signs[:, None, :],
            coordinates=self.coordinates * signs,
            products=self.products * signs[:, :, None],
        )

    def changed(self, tree: Tree, change: Array) -> "Stats":
        """Apply a linear change to the coordinates of rows, see `change_on_paths`."""
        on_paths = change_on_paths(tree, change, self.coordinates.shape[1])
        flipped = on_paths.transpose(0, 2, 1)
        log_dets = np.linalg.slogdet(on_paths)[1]
        return replace(
            self,
            moments=on_paths @ self.moments @ flipped,
            coordinates=np.einsum("klm,km->kl", on_paths, self.coordinates),
            products=on_paths @ self.products,
            entropy=self.entropy + float(self.stub_masses @ log_dets),
        )

    def reindex_to(
        self, old: Tree, new: Tree, merged_into: Mapping[int, int] | None = None
    ) -> "Stats":
        """Re-index the statistics to the stubs of another tree.

        Rows of a stub that has ended go to the target of its merge, if any, or to the
        nearest node above that remains. Of levels below, whose loadings are not in the
        tree any more, only squares of coordinates stay.
        """
        moved = self.take_nodes(old, new)
        for place, to, is_heir in ended_nodes(old, new, merged_into):
            known = 1 + (old.depth[place] if is_heir else new.depth[to])
            moved.stub_masses[to] += self.stub_masses[place]
            diagonal = np.diag(np.diag(self.moments[place]))
            diagonal[:known, :known] = self.moments[place, :known, :known]
            moved.moments[to] += diagonal
            moved.coordinates[to, :known] += self.coordinates[place, :known]
            moved.products[to, :known] += self.products[place, :known]
        return moved


@dataclass(frozen=True, slots=True)
class Priors:
    """Hyperparameters of component analysis, and the frame of rows."""

    n_levels: int  # L
    concentration: Square  # gamma
    loading_variance: Square  # s0
    frame: Frame  # in which rows enter: all below is in its units
    noise_shape: Square = 1e-3  # a0
    noise_rate: Square = 1e-3  # b0
    centre_variance: Square = 10.0  # r0
    learn_loading_variance: bool = False


@dataclass(frozen=True, slots=True)
class Equations:
    """Statistics by node, the mean last as a loading of coordinate one.

    The expected squared residual of all rows is quadratic in the loadings z of nodes
    and mean: square - 2 <right, z> + <left, z z' + D diag(s)>, and D s0 unknown.
    """

    left: Array  # (n_nodes + 1, n_nodes + 1) sum E[x_i x_j]
    right: Array  # (n_nodes + 1, n_features) sum E[x_i] t'
    square: float
    unknown: float  # sum E[x^2] of coordinates whose loading is the prior's
    through: Array  # (n_nodes,) rows whose paths pass
    missing: float  # levels off the tree, all rows together

    def residual(
        self, means: Array, variances: Array, loading_variance: float
    ) -> float:
        """Sum E |t - sum_l w_l x_l - mu|^2 over all rows."""
        n_features = means.shape[1]
        gram = means @ means.T
        fitted = np.vdot(self.left, gram) - 2.0 * np.vdot(self.right, means)
        spread = np.diag(self.left) @ variances + loading_variance * self.unknown
        fit = max(self.square + float(fitted), ROUNDING * self.square)
        return fit + n_features * float(spread)


def equations(tree: Tree, stats: Stats) -> Equations:
    """Add up the statistics of stubs by the nodes on their paths."""
    n, n_levels = len(tree), stats.coordinates.shape[1]
    nodes = stub_nodes(tree, n_levels)
    nodes = np.where(nodes < 0, n + 1, nodes)  # off the tree: left out in the end
    pairs = (n + 2) * nodes[:, :, None] + nodes[:, None, :]
    moments = np.bincount(pairs.ravel(), stats.moments.ravel(), (n + 2) ** 2)
    left = np.asarray(moments, dtype=np.float64).reshape(n + 2, n + 2)[:-1, :-1]
    means = np.bincount(nodes.ravel(), stats.coordinates.ravel(), n + 2)[:n]
    left[n, :n], left[:n, n], left[n, n] = means, means, stats.n_rows
    right = np.zeros((n + 2, len(stats.total)))
    order = np.argsort(nodes, axis=None, kind="stable")
    groups, first = np.unique(nodes.ravel()[order], return_index=True)
    products = stats.products.reshape(nodes.size, -1)
    right[groups] = np.add.reduceat(products[order], first)
    right[n] = stats.total
    missing = float(stats.stub_masses @ (n_levels - 1 - tree.depth))
    return Equations(
        left,
        right[:-1],
        stats.square,
        unseen_second_moments(tree, stats.moments),
        tree.accumulate(stats.stub_masses),
        missing,
    )


def unseen_second_moments(tree: Tree, moments: Array) -> float:
    """Sum E[x^2] of coordinates whose loadings are not in the tree."""
    squares = np.diagonal(moments, axis1=1, axis2=2)
    return float(squares[stub_nodes(tree, moments.shape[1]) < 0].sum())


def change_on_paths(tree: Tree, change: Array, n_levels: int) -> Array:
    """Linear change of the coordinates of each stub, (n_stubs, n_levels, n_levels).

    `change` is that of all nodes and, last, of the constant; levels that are not in the
    tree keep their coordinates.
    """
    nodes = stub_nodes(tree, n_levels)
    known = nodes >= 0
    both = known[:, :, None] & known[:, None, :]
    return np.where(
        both, change[nodes[:, :, None], nodes[:, None, :]], np.eye(n_levels)
    )
