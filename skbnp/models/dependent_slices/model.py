"""Sampler state of an epoch of dependent trees: each row at one node, directions drawn.

With the symbols of `dependent_trees/bound.py`, given the nodes z of all rows and the
directions theta of all nodes but e, and of no child of e with a past,

    theta_e ~ vMF of natural parameter
    g_e = beta s_e + kappa0 (k1 theta_parent + k2 mu_e^(t-1) + k1 sum_children theta_c),

whose normaliser tells how probable rows are at e, theta_e integrated out. So a sweep
goes through phases (`phase.py`): directions of the nodes of even depth are given while
rows go from node to node, those of odd depth being integrated out, and are drawn when
these are. Nothing else moves rows when there are thousands of features: the direction
of a node is so near to its rows that each is hundreds of nats better off where it is.

The density of theta_e has factors C_V(rho_c(theta_e)) where children c have a past.
Such nodes are never integrated out; they are drawn by an independent proposal, in which
the logarithms of these factors are replaced by tangents, and are accepted or not.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.distributions.von_mises_fisher import draw_natural
from skbnp.models.dependent_slices.directions import Directions
from skbnp.models.dependent_slices.weights import log_prior
from skbnp.models.dependent_trees.directions import bessel_slope, log_normaliser_gain
from skbnp.models.dependent_trees.state import TreePriors
from skbnp.trees import Tree
from skbnp.utils.arrays import members, padded
from skbnp.utils.typing import Array, Flags, Ints, Ints32

#: Entries of the directions that one task computes.
ENTRIES = 1 << 20


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of length one of an epoch, none of them zero."""

    X: sp.csr_array  # (n_rows, n_seen) float32
    indptr: Ints32
    words: Ints32

    @classmethod
    def of(cls, X: sp.csr_array) -> "Rows":
        """Return the arrays that kernels read of a sparse matrix."""
        X = sp.csr_array(X, dtype=np.float32)
        return cls(X, X.indptr.astype(np.int32), X.indices.astype(np.int32))

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def none(self) -> "Rows":
        """Return no rows of the same features."""
        return Rows.of(self.X[:0])

    @property
    def arrays(self) -> tuple[Ints32, Ints32, NDArray[np.float32]]:
        """The arrays that kernels read."""
        return self.indptr, self.words, self.X.data

    def grouped(self, place: Ints32, n_nodes: int) -> tuple[Ints32, Ints32]:
        """Row numbers sorted by node, and the first position of each node."""
        small = place.astype(np.min_scalar_type(n_nodes))  # sorted faster
        order = np.argsort(small, kind="stable").astype(np.int32)
        counts = np.bincount(place, minlength=n_nodes)
        return order, np.append(0, np.cumsum(counts)).astype(np.int32)

    def total(self, rows: NDArray[np.integer]) -> Array:
        """Sum of some rows, (n_seen,)."""
        begin, sizes = self.indptr[rows], self.indptr[rows + 1] - self.indptr[rows]
        behind = np.cumsum(sizes)
        at = np.repeat(begin - behind + sizes, sizes) + np.arange(sizes.sum())
        n_words = self.X.shape[1]
        return np.asarray(np.bincount(self.words[at], self.X.data[at], n_words))

    def sums(self, place: Ints32, n_nodes: int) -> sp.csr_array:
        """Sum of the rows at each node, (n_nodes, n_seen)."""
        return sp.csr_array(members(place, n_nodes) @ self.X.astype(np.float64))


@dataclass(slots=True)
class SlicedTree:
    """Nodes of rows and directions of nodes; arrays go by position in the tree.

    Every new node, which the epoch before did not have, has a row at it or below,
    except the root. Old siblings come before new ones.
    """

    rows: Rows
    priors: TreePriors
    tree: Tree
    place: Ints32  # (n_rows,) position of the node of each row
    directions: Directions  # theta
    history: Array  # (n_nodes,) past rows in the window
    past: Ints  # (n_nodes,) row of `previous`, -1 of new nodes
    previous: Array  # (n_old, n_seen) mu of the epoch before
    concentration: float  # beta
    prior_concentration: float  # kappa0
    gone: Array  # (n_nodes,) rows of earlier calls, which stay where they are
    gone_sums: sp.csr_array  # (n_nodes, n_seen) of these
    _log_prior: float | None = field(default=None, init=False, repr=False)
    _wide_previous: Array | None = field(default=None, init=False, repr=False)

    @property
    def dimension(self) -> int:
        """Number of features V."""
        return self.directions.dimension

    @property
    def width(self) -> int:
        """Columns of directions and of natural parameters."""
        return self.directions.width

    @property
    def wide_previous(self) -> Array:
        """Previous directions by the columns of directions, (n_old, width)."""
        result = self._wide_previous
        if result is None or result.shape[1] != self.width:
            result = self._wide_previous = padded(self.previous, self.width)
        return result

    @property
    def is_old(self) -> Flags:
        """Whether nodes were in the epoch before."""
        return self.past >= 0

    @property
    def counts(self) -> Array:
        """Rows of this call at each node."""
        return np.bincount(self.place, minlength=len(self.tree)).astype(np.float64)

    @property
    def masses(self) -> Array:
        """All rows at each node."""
        return self.counts + self.gone

    @property
    def sums(self) -> sp.csr_array:
        """Sum of the rows at each node, (n_nodes, n_seen)."""
        here = self.rows.sums(self.place, len(self.tree))
        return sp.csr_array(here + self.gone_sums) if self.gone_sums.nnz else here

    @property
    def pull(self) -> float:
        """kappa0 k1."""
        return self.prior_concentration * self.priors.parent_weight

    @property
    def pull_of_past(self) -> float:
        """kappa0 k2."""
        return self.prior_concentration * self.priors.past_weight

    def has_old_children(self) -> Flags:
        """Whether nodes have children with a past: never integrated out."""
        parents = self.tree.parent[1:][self.is_old[1:]]
        return np.bincount(parents, minlength=len(self.tree)) > 0

    def prior_natural(self, place: int) -> Array:
        """Natural parameter of a node given its parent and its past, (width,)."""
        natural = np.zeros(self.width)
        if place:
            natural += self.pull * self.directions[self.tree.parent[place]]
        if self.is_old[place]:
            natural += self.pull_of_past * self.wide_previous[self.past[place]]
        return natural

    def natural_without_rows(self, place: int) -> Array:
        """Natural parameter of a node without its rows of this call, (width,)."""
        return self.prior_natural(place) + self.natural_below(place)

    def natural_below(self, place: int) -> Array:
        """Natural parameter of a node by its children and rows of earlier calls."""
        natural = np.zeros(self.width)
        below = np.flatnonzero(self.tree.parent == place)
        if len(below):
            natural += self.pull * self.directions[below].sum(axis=0)
        if self.gone[place] > 0.0:
            self.add_rows(natural, self.gone_sums[[place]].toarray()[0])
        return natural

    def add_rows(self, natural: Array, total: Array) -> None:
        """Add a sum of rows, (n_seen,), to a natural parameter, in place."""
        natural[: len(total)] += self.concentration * total

    def log_prior(self) -> float:
        """Log probability of the nodes of all rows, see `weights.log_prior`."""
        if self._log_prior is None:
            given = self.tree, self.masses, self.history, self.is_old, self.priors
            self._log_prior = log_prior(*given)
        return self._log_prior

    def log_prior_in(self, tree: Tree, masses: Array) -> float:
        """Log probability in another tree with the same names, of its masses."""
        is_there, source = self.tree.find(tree.ids)
        history = np.where(is_there, self.history[source], 0.0)
        is_old = is_there & self.is_old[source]
        return log_prior(tree, masses, history, is_old, self.priors)

    def edited(
        self, tree: Tree, place: Ints32, directions: Directions | None = None
    ) -> "SlicedTree":
        """Return the state of another tree, whose common nodes have the same ids.

        Nodes have the directions given, or those that they had. New nodes have no past,
        and no direction yet.
        """
        is_there, source = self.tree.find(tree.ids)
        if directions is None:
            directions = self.directions.taken(source, is_there)
        gone_sums = sp.csr_array((len(tree), self.gone_sums.shape[1]))
        if self.gone_sums.nnz:
            stays, onto = tree.find(self.tree.ids)
            pick = members(np.where(stays, onto, -1), len(tree))
            gone_sums = sp.csr_array(pick @ self.gone_sums)
        return replace(
            self,
            tree=tree,
            place=place,
            directions=directions,
            history=np.where(is_there, self.history[source], 0.0),
            past=np.where(is_there, self.past[source], -1),
            gone=np.where(is_there, self.gone[source], 0.0),
            gone_sums=gone_sums,
        )

    def without_empty(self) -> "SlicedTree":
        """Remove new nodes without rows at or below them."""
        through = self.tree.count(self.masses)
        kept = (through > 0.0) | self.tree_of_old()
        kept[0] = True
        if kept.all():
            return self
        places = np.flatnonzero(kept)
        tree = Tree(self.tree.ids[places], self.tree.depth[places], self.tree.next_id)
        onto = np.cumsum(kept) - 1
        return self.edited(tree, onto[self.place].astype(np.int32))

    def tree_of_old(self) -> Flags:
        """Whether nodes are old, or above old ones."""
        return np.asarray(self.tree.count(self.is_old.astype(np.intp)) > 0)


def blocks_of(nodes: NDArray, width: int, n_entries: int = ENTRIES) -> list[NDArray]:
    """Cut nodes into blocks whose directions one task computes or reads.

    Blocks have equal size and, if there are several, their number is a multiple of
    four, so that two or four threads end together.
    """
    size = max(n_entries // max(width, 1), 1)
    if len(nodes) <= size:
        return [nodes] if len(nodes) else []
    n_blocks = 4 * -(-len(nodes) // (4 * size))
    return [block for block in np.array_split(nodes, n_blocks) if len(block)]


@dataclass(frozen=True, slots=True)
class PastPull:
    """Factors of a direction theta by the pasts m_c of its children, as tangents.

    Factors C_V(rho_c), rho_c^2 = kappa0^2 (k1^2 + k2^2 + 2 k1 k2 theta'm_c), and the
    tangents of their logarithms in theta'm_c, at the mean of theta without them.
    """

    past: Array  # (n_children, width) m_c
    scale: tuple[float, float]  # rho_c^2 = the first + the second theta'm_c
    slopes: Array  # (n_children,)
    dimension: int

    @classmethod
    def of(cls, state: SlicedTree, natural: Array, past: Array) -> "PastPull":
        """Compute tangents, given the natural parameter without these factors."""
        k1, k2 = state.priors.parent_weight, state.priors.past_weight
        square = state.prior_concentration**2
        scale = square * (k1**2 + k2**2), square * 2.0 * k1 * k2
        eta = natural @ natural
        centre = natural * bessel_slope(np.array([eta]), state.dimension)[0]
        squares = np.maximum(scale[0] + scale[1] * (past @ centre), 0.0)
        slopes = -0.5 * scale[1] * bessel_slope(squares, state.dimension)
        return cls(past, scale, slopes, state.dimension)

    @property
    def natural(self) -> Array:
        """Contribution of the tangents to the natural parameter."""
        return np.asarray(self.slopes @ self.past)

    def log_weight(self, theta: Array) -> float:
        """Log of the factors less their tangents, up to a constant."""
        cosines = self.past @ theta
        squares = np.maximum(self.scale[0] + self.scale[1] * cosines, 0.0)
        exact = log_normaliser_gain(squares, self.dimension)
        return float((exact - self.slopes * cosines).sum())


def accept_direction(
    state: SlicedTree,
    natural: Array,
    past: Array,
    now: Array,
    rng: np.random.Generator,
    *unseen: int,
) -> Array:
    """Propose a direction whose children have a past, and accept it or not; exact.

    The proposal replaces factors that are not exponential by tangents, and does not
    depend on the present direction. A probable direction is nearly always replaced, one
    at the mode never: that has to be drawn first, `draw_all`. `unseen` are arguments of
    `draw_natural`.
    """
    pull = PastPull.of(state, natural, past)
    other = draw_natural(natural + pull.natural, rng, *unseen)
    gain = pull.log_weight(other) - pull.log_weight(now)
    return other if np.log(rng.random()) < gain else now


def draw_all(state: SlicedTree, rng: np.random.Generator) -> SlicedTree:
    """Draw all directions one after another, given mean directions: an inexact start.

    Tangents replace factors that are not exponential, and all draws are accepted.
    """
    directions = state.directions.with_axes_for(2 * len(state.tree))
    state, sums = replace(state, directions=directions), state.sums
    for at in [*range(len(state.tree)), *range(len(state.tree) - 1, -1, -1)]:
        natural = state.prior_natural(at)
        state.add_rows(natural, sums[[at]].toarray()[0])
        below = np.flatnonzero(state.tree.parent == at)
        if len(below):
            natural += state.pull * state.directions[below].sum(axis=0)
        old = state.past[below][state.is_old[below]]
        if len(old):
            natural += PastPull.of(state, natural, state.wide_previous[old]).natural
        state.directions[at] = draw_natural(natural, rng, *directions.next_axis())
    return state
