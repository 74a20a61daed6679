"""Dependent trees of Hu, Ho, Dubey and Xing (2015), [1]: what is global in an epoch.

Rows x are unit vectors of R^V. Of an epoch t, with symbols of [1],

    z ~ pi(sticks),  x ~ vMF(theta_z, beta),
    theta_e ~ vMF of natural parameter kappa0 (k1 theta_parent + k2 theta_e^(t-1)),

the latter without its second part for nodes that were not there before. The root has no
parent; of a first one the mean direction of the rows is known as if it were one row
more, a unit information prior (Kass and Wasserman, 1995): without it a tree could as
well hang on any other of its nodes. q(theta_e | theta_parent) is von
Mises-Fisher, too, see `directions`; E_e is the mean of theta_e. From
M_e = sum q(z = e), s_e = sum q(z = e) x and the entropies H_e of the rows alone come
all updates and the bound

    sum_e M_e (E log pi_e + log C_V(beta)) + beta s_e'E_e + H_e
    + sum_e log C_V(rho_e) + kappa0 (k1 E_parent + k2 mu_e^(t-1))'E_e - h*(|E_e|; v_e)
    - KL of the sticks,
    rho_e^2 = kappa0^2 (k1^2 + k2^2 + 2 k1 k2 E_parent'mu_e^(t-1)),
    v_e = kappa0^2 k1^2 (1 - |E_parent|^2).

log C_V(rho) is convex in this product: its expectation is not below what is written
here, and its tangent, from which the update of a parent comes, is not above. So every
update ascends this function. It is a bound of the evidence but for what `directions`
says of h*, some tenths of a nat for each node.

Departures from [1]: directions of a node and its parent are not independent under q;
means are E theta, where the supplement has directions of length one, with which there
is no bound; the mean direction of the rows counts as one row, where [1] has it as the
parent of the root: there a tree without differences, kappa0 without limit, costs
nothing; the pull of children on their parent through rho is
-A_V(rho) kappa0 k1 k2 / rho, the slope of log C_V, where the supplement has
3 (V/2 - 1) kappa0 k1 k2 / rho; beta is one for all nodes, as the model says, at its
exact maximum; kappa0 is learned, and not 100.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaln, xlogy

from skbnp.components.node_statistics import NodeState
from skbnp.distributions.von_mises_fisher import (
    expansion,
    log_normaliser,
)
from skbnp.inference.executor import RunTasks, run_in_turn
from skbnp.kernels import _directions as kernels
from skbnp.kernels import _sticks as stick_kernels
from skbnp.models.dependent_trees.directions import (
    bessel_slope,
    conjugate,
    log_normaliser_gain,
    natural_lengths,
)
from skbnp.models.dependent_trees.sticks import Sticks
from skbnp.trees import Tree

__all__ = [
    "EpochState",
    "EpochStats",
    "MergeGain",
    "TreePriors",
    "best_past_pull",
    "best_prior_concentration",
    "blocks",
    "direction_bound",
    "inner_products",
    "known_to_kernels",
    "learn_concentration",
    "learn_past_weight",
    "learn_prior_concentration",
    "lengths_and_spreads",
    "merge_gain",
    "merged",
    "natural_of",
    "next_epoch",
    "no_past",
    "objective",
    "padded",
    "prior_concentrations",
    "sort_siblings",
    "sorted_tree",
    "stick_evidence",
    "stick_gains",
    "update_means",
    "update_nodes",
    "update_own_means",
    "update_own_nodes",
    "update_sticks",
    "windowed",
    "with_own_means",
]

Array = NDArray[np.float64]

#: Range of the concentrations that are learned; that of the prior is at least V / 100.
LOWEST, HIGHEST = 1e-3, 1e9
LEAST_PRIOR_SHARE = 0.01
#: First step, in its logarithm, of the search for a concentration, and factor of steps.
FIRST_WIDTH, WIDER = 0.05, 4.0
#: Entries of the arrays that are made on the way: those of some nodes at a time.
ENTRIES = 1 << 22
#: Entries of the directions that one of several tasks updates.
ENTRIES_OF_TASK = 1 << 19
NO_IDS: NDArray[np.intp] = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class TreePriors:
    """Concentrations of sticks, and what draws directions to others."""

    child_concentration: float = 0.5  # gamma
    stop_concentration: float = 0.5  # alpha
    parent_weight: float = 1.0  # k1
    past_weight: float = 1.0  # k2


@dataclass(frozen=True, slots=True, weakref_slot=True)
class EpochState(NodeState):
    """The globals of an epoch; arrays go by position in the tree."""

    tree: Tree
    masses: Array  # (n_nodes,) M
    history: Array  # (n_nodes,) hX, masses of the epochs in the window
    means: Array  # (n_nodes, n_seen) E, zero in all columns that no row has shown
    concentrations: Array  # (n_nodes,) eta with A_V(eta) = |E|
    previous: Array  # (n_before, n_seen) mu of the newest epoch that had the node
    past: NDArray[np.intp]  # (n_nodes,) rows there, -1 of new nodes; see `no_past`
    above: Array  # (n_seen,) mean of the parent of the root, zero where there is none
    centroid: Array  # (n_seen,) counts as a row at the root, zero where there is none
    concentration: float  # beta
    prior_concentration: float  # kappa0
    past_ids: NDArray[np.intp] = field(  # (n_before,) whose previous directions are
        default_factory=NO_IDS.copy
    )
    n_unseen: int = 0  # columns of the rows that arrays leave out, all zero

    @property
    def width(self) -> int:
        """Columns that are stored, n_seen."""
        return self.means.shape[1]

    @property
    def dimension(self) -> int:
        """V."""
        return self.width + self.n_unseen

    def with_columns(self, width: int) -> "EpochState":
        """Store columns of zeros behind the others, `width` in all."""
        return replace(
            self,
            means=padded(self.means, width),
            previous=padded(self.previous, width),
            above=padded(self.above, width),
            centroid=padded(self.centroid, width),
            n_unseen=self.dimension - width,
        )

    @property
    def with_past(self) -> NDArray[np.intp]:
        """Places of nodes that were there before."""
        return np.flatnonzero(self.past >= 0)

    @property
    def ended(self) -> NDArray[np.intp]:
        """Rows of previous directions whose nodes have ended, but may come back."""
        return np.flatnonzero(~np.isin(self.past_ids, self.tree.ids))

    @property
    def pasts(self) -> Array:
        """Directions in the epoch before, as `means`, zero of new nodes."""
        result = np.zeros_like(self.means)
        result[self.with_past] = self.previous[self.past[self.with_past]]
        return result

    def without_past(self) -> "EpochState":
        """Forget the epoch before."""
        previous, past = no_past(len(self.tree), self.width)
        return replace(self, previous=previous, past=past, past_ids=NO_IDS)

    def parents(self, rows: NDArray[np.intp]) -> Array:
        """Means of the parents of some nodes, (n_rows, n_seen)."""
        parents = self.means[self.tree.parent[rows]]
        parents[rows == 0] = self.above
        return parents

    def parent_weights(self, rows: NDArray[np.intp], priors: TreePriors) -> Array:
        """Return k1 of some nodes, zero of a root without a parent."""
        weights = np.full(len(rows), priors.parent_weight)
        if not self.above.any():
            weights[rows == 0] = 0.0
        return weights

    def sticks(self, priors: TreePriors) -> Sticks:
        """Posterior of the sticks."""
        both = self.masses + self.history
        return Sticks.given(
            self.tree, both, priors.stop_concentration, priors.child_concentration
        )

    def log_weights(self, priors: TreePriors) -> Array:
        """E log pi."""
        return self.sticks(priors).log_weights(self.tree)


@dataclass(frozen=True, slots=True)
class EpochStats:
    """Sums over rows, additive; nodes go by position in a tree."""

    masses: Array  # (n_nodes,) M
    sums: sp.csr_array  # (n_nodes, n_seen) s
    entropies: Array  # (n_nodes,) H, of the rows' nodes

    def __post_init__(self) -> None:
        """Convert sparse indices to int32, which kernels read: once, not at each call.

        Raises
        ------
        OverflowError
            If there are more entries than int32 counts.
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
    def n_tokens(self) -> float:
        """Units of the data: rows with words."""
        return float(self.masses.sum())

    @classmethod
    def zero(cls, n_nodes: int, width: int) -> "EpochStats":
        """Of no rows."""
        empty = sp.csr_array((n_nodes, width), dtype=np.float64)
        return cls(np.zeros(n_nodes), empty, np.zeros(n_nodes))

    def plus(self, other: "EpochStats", gain: float = 1.0) -> "EpochStats":
        """Add up, `other` so many times."""
        return EpochStats(
            self.masses + gain * other.masses,
            sp.csr_array(self.sums + gain * other.sums),
            self.entropies + gain * other.entropies,
        )

    def with_columns(self, width: int) -> "EpochStats":
        """Add columns without a sum behind the others, `width` in all."""
        sums = self.sums
        parts = sums.data, sums.indices, sums.indptr
        return replace(self, sums=sp.csr_array(parts, (sums.shape[0], width)))

    def taken(self, places: NDArray[np.intp]) -> "EpochStats":
        """Of other nodes, or in another order."""
        return EpochStats(
            self.masses[places], self.sums[places], self.entropies[places]
        )


def padded(values: Array, width: int) -> Array:
    """Add zeros behind the last axis, `width` entries in all."""
    n_more = width - values.shape[-1]
    if n_more == 0:
        return values
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, n_more)])


def no_past(n_nodes: int, width: int) -> tuple[Array, NDArray[np.intp]]:
    """Return previous directions, and their rows, of nodes all of which are new."""
    return np.zeros((0, width)), np.full(n_nodes, -1, dtype=np.intp)


def blocks(
    rows: NDArray[np.intp], width: int, n_entries: int = ENTRIES
) -> Iterator[NDArray[np.intp]]:
    """Cut nodes into blocks of so many entries."""
    size = max(n_entries // max(width, 1), 1)
    for begin in range(0, len(rows), size):
        yield rows[begin : begin + size]


# Updates: each maximises the bound over what it updates ------------------------------


def update_sticks(state: EpochState, stats: EpochStats) -> EpochState:
    """Let the sticks follow the masses, Eq. (3) and (4) of [1]."""
    return replace(state, masses=stats.masses)


def update_means(
    state: EpochState, stats: EpochStats, priors: TreePriors
) -> EpochState:
    """Update q(theta) of all nodes, level by level, down and up again."""
    return update_own_means(with_own_means(state), stats, priors)


def update_own_means(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    run: RunTasks = run_in_turn,
    order: Literal["down", "up", "both"] = "both",
) -> EpochState:
    """Do as `update_means` in place: the arrays of the state are nobody else's.

    Nodes of one level do not depend on each other: tasks update some each. By `order`
    levels are updated from the root down, up from the deepest one, or both.
    """
    down = state.tree.levels
    up = down[::-1]
    levels = {"down": down, "up": up, "both": [*down, *up[1:]]}[order]
    return _update_rows(state, stats, priors, np.concatenate(levels), run)


def update_nodes(
    state: EpochState, stats: EpochStats, priors: TreePriors, ids: NDArray[np.intp]
) -> EpochState:
    """Update q(theta) of some nodes once, those above first."""
    return update_own_nodes(with_own_means(state), stats, priors, ids)


def update_own_nodes(
    state: EpochState, stats: EpochStats, priors: TreePriors, ids: NDArray[np.intp]
) -> EpochState:
    """Do as `update_nodes` in place: the arrays of the state are nobody else's."""
    rows = np.flatnonzero(np.isin(state.tree.ids, ids))
    rows = rows[np.argsort(state.tree.depth[rows], kind="stable")]
    return _update_rows(state, stats, priors, rows)


def with_own_means(state: EpochState) -> EpochState:
    """Return the state with a copy of its directions."""
    return replace(
        state, means=state.means.copy(), concentrations=state.concentrations.copy()
    )


def _update_rows(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    rows: NDArray[np.intp],
    run: RunTasks = run_in_turn,
) -> EpochState:
    """Update q(theta) of some nodes in place, one after the other.

    Of those of one depth in a row, tasks update some each.
    """
    known = known_to_kernels(state, stats, priors)
    squares = np.full(len(state.tree), -1.0)

    def update(nodes: NDArray[np.intp]) -> None:
        natural, lengths = np.empty(state.width), np.empty(len(state.tree))
        kernels.update_directions(
            nodes, state.concentrations, natural, lengths, squares, *known
        )

    if run is run_in_turn:  # one call for all levels, not one for each
        for block in blocks(rows, state.width):
            update(block)
        return state
    ends = 1 + np.flatnonzero(np.diff(state.tree.depth[rows]))
    for level in np.split(rows, ends):
        some = blocks(level, state.width, ENTRIES_OF_TASK)
        run([partial(update, nodes) for nodes in some])
    return state


def known_to_kernels(state: EpochState, stats: EpochStats, priors: TreePriors) -> tuple:
    """Return what kernels know of an epoch."""
    tree, k0 = state.tree, state.prior_concentration
    children, limits = tree.child_lists
    return (
        state.means,
        state.previous,
        state.past,
        state.above,
        state.centroid,
        tree.parent,
        children,
        limits,
        *_entries(stats),
        state.concentration,
        k0 * priors.parent_weight,
        k0 * priors.past_weight,
        *expansion(state.dimension),
    )


def _entries(
    stats: EpochStats,
) -> tuple[NDArray[np.int32], NDArray[np.int32], Array]:
    """Return the sums s as a sparse matrix is stored."""
    return stats.sums.indptr, stats.sums.indices, stats.sums.data


def inner_products(state: EpochState, rows: NDArray[np.intp]) -> Array:
    """E'E, E_up'E_up, E_up'E, mu'E, E_up'mu of nodes; whether they have a past."""
    result = np.empty((len(rows), 6))
    kernels.inner_products(
        rows,
        state.means,
        state.previous,
        state.past,
        state.above,
        state.tree.parent,
        result,
    )
    return result.T


def lengths_and_spreads(state: EpochState, priors: TreePriors) -> tuple[Array, Array]:
    """Return |E| and v of all nodes."""
    squares = np.einsum("ij,ij->i", state.means, state.means)
    of_parents = squares[state.tree.parent]
    of_parents[0] = state.above @ state.above
    spreads = _spreads(state, priors, _all(state), of_parents)
    return np.sqrt(squares), spreads


def _spreads(
    state: EpochState, priors: TreePriors, rows: NDArray[np.intp], squares: Array
) -> Array:
    """Return v, given |E_up|^2."""
    weights = state.prior_concentration * state.parent_weights(rows, priors)
    return np.asarray(weights**2 * np.maximum(1.0 - squares, 0.0))


def natural_of(
    state: EpochState, stats: EpochStats, priors: TreePriors, place: int
) -> Array:
    """What priors, rows and children say in the direction of a node, (n_seen,)."""
    result = np.empty(state.width)
    kernels.natural_parameter(place, result, *known_to_kernels(state, stats, priors))
    return result


def prior_lengths(
    state: EpochState, priors: TreePriors, rows: NDArray[np.intp]
) -> Array:
    """Ratio rho / kappa0 of some nodes."""
    return _lengths_and_products(state, priors, rows, inner_products(state, rows))[0]


def prior_concentrations(
    state: EpochState, priors: TreePriors, rows: NDArray[np.intp]
) -> Array:
    """Prior concentration rho of some nodes."""
    return state.prior_concentration * prior_lengths(state, priors, rows)


def _lengths_and_products(
    state: EpochState, priors: TreePriors, rows: NDArray[np.intp], inner: Array
) -> tuple[Array, Array]:
    """Rho / kappa0, and (k1 E_up + k2 mu^(t-1))'E, of some nodes."""
    k1, k2 = state.parent_weights(rows, priors), priors.past_weight
    _, _, along_parent, along_past, both, has_past = inner
    squares = k1**2 + has_past * (k2**2 + 2.0 * k1 * k2 * both)
    products = k1 * along_parent + k2 * along_past
    return np.sqrt(np.maximum(squares, 0.0)), products


def _all(state: EpochState) -> NDArray[np.intp]:
    return np.arange(len(state.tree))


def learn_concentration(state: EpochState, stats: EpochStats) -> EpochState:
    """Set beta to its maximum: A_V(beta) = sum s_e'E_e / n_rows."""
    n_rows = stats.masses.sum()
    if n_rows <= 0.0:
        return state
    total = float(_fits(state, stats, _all(state)).sum())
    total += float(state.centroid @ state.means[0])
    length = total / (n_rows + state.centroid.any())
    beta = natural_lengths(np.clip(length, 0.0, 1.0), 0.0, state.dimension)
    return replace(state, concentration=float(np.clip(beta, LOWEST, HIGHEST)))


def learn_prior_concentration(
    state: EpochState, priors: TreePriors, inner: Array | None = None
) -> EpochState:
    """Set kappa0 to where the bound is stationary in it, not below V / 100.

    `inner` are the `inner_products` of all nodes, if they are known.

    Of a first epoch this is A_V(kappa0 k1) = mean of E theta_parent'theta_e over all
    nodes but the root. A root without a past says nothing about kappa0: where it is
    alone kappa0 stays.
    """
    if len(state.tree) == 1:
        return state
    rows, known = _all(state), state.prior_concentration
    inner = inner_products(state, rows) if inner is None else inner
    kappa = best_prior_concentration(
        *_lengths_and_products(state, priors, rows, inner),
        state.dimension,
        np.sqrt(inner[0]),
        _spreads(state, priors, rows, inner[1]) / known**2,
        near=known,
    )
    return replace(state, prior_concentration=kappa)


def learn_past_weight(
    state: EpochState, priors: TreePriors, inner: Array | None = None
) -> TreePriors:
    """Set k2 to where the bound is stationary in it, kappa0 k2 not below V / 100.

    Where it is below, as kappa0 has fallen, it may stay, so that the bound never falls.
    Where no node has a past k2 stays. `inner` as in `learn_prior_concentration`.
    """
    rows = state.with_past
    if len(rows) == 0:
        return priors
    inner = inner_products(state, rows) if inner is None else inner[:, rows]
    _, _, _, along_past, both, _ = inner
    pulls = state.prior_concentration * state.parent_weights(rows, priors)
    known = state.prior_concentration * priors.past_weight
    pull = best_past_pull(pulls, along_past, both, state.dimension, known)
    return replace(priors, past_weight=pull / state.prior_concentration)


def best_past_pull(
    pulls: Array,
    products: Array,
    cosines: Array,
    dimension: int,
    known: float = np.inf,
) -> float:
    """Return b = kappa0 k2 where the bound is stationary in it, not below V / 100.

    Or not below the one that is known if that is less, and not zero.

    The bound is concave in it: of nodes with a past it has sum log C_V(rho_e) + b d_e,
    rho_e^2 = a_e^2 + b^2 + 2 a_e b c_e, with pulls a of their parents, products d of
    means and pasts, and cosines c of parents and pasts.
    """

    def slope(log_b: float) -> float:
        b = float(np.exp(log_b))
        squares = np.maximum(pulls**2 + b**2 + 2.0 * pulls * b * cosines, 0.0)
        slopes = (b + pulls * cosines) * bessel_slope(squares, dimension)
        return float((products - slopes).sum())

    return _root_of(slope, dimension, known, near=known or np.inf)


def best_prior_concentration(
    lengths: Array,
    products: Array,
    dimension: int,
    mean_lengths: Array | float = 1.0,
    spreads: Array | float = 0.0,
    near: float = np.inf,
) -> float:
    """Return kappa0 where the bound is stationary in it, not below V / 100.

    Of sum log C_V(kappa0 r_e) + kappa0 d_e - h*(|E_e|; kappa0^2 w_e) over nodes, with
    lengths r and products d; without spreads w directions are given. The search begins
    at `near`.
    """
    given = np.broadcast_arrays(lengths, products, mean_lengths, spreads)
    r, d, e, w = (np.ascontiguousarray(one, dtype=np.float64) for one in given)
    series = expansion(dimension)

    def slope(log_kappa: float) -> float:
        kappa = float(np.exp(log_kappa))
        return kernels.prior_slope(kappa, r, d, e, w, dimension, *series)

    return _root_of(slope, dimension, near=near)


def _root_of(
    slope: Callable[[float], float],
    dimension: int,
    known: float = np.inf,
    near: float = np.inf,
) -> float:
    """Return the concentration of a prior at whose logarithm a slope is zero.

    Within its range, at an end of which it is where the slope has one sign. The range
    begins at the concentration that is known where that is less, and not zero.
    """
    least = max(LEAST_PRIOR_SHARE * dimension, LOWEST)
    lowest, highest = np.log(min(least, known) or least), np.log(HIGHEST)
    at, width = float(np.clip(np.log(near), lowest, highest)), FIRST_WIDTH
    rises = slope(at) > 0.0
    end = highest if rises else lowest
    while at != end:
        last, step = at, width if rises else -width
        at = float(np.clip(at + step, lowest, highest))
        if (slope(at) > 0.0) != rises:
            return float(np.exp(brentq(slope, *sorted((last, at)), xtol=1e-12)))
        width *= WIDER
    return float(np.exp(end))


def sort_siblings(
    state: EpochState, stats: EpochStats
) -> tuple[EpochState, EpochStats]:
    """Sort siblings as in `sorted_tree`; arrays by node are copies in any case."""
    tree = sorted_tree(state, stats)
    places = state.tree.positions(tree.ids)
    return _reordered(state, tree, places), stats.taken(places)


def sorted_tree(state: EpochState, stats: EpochStats) -> Tree:
    """Sort siblings by the rows from each node down.

    In a first epoch no other order has a larger bound. Later the prior depends on the
    order: there it belongs to the beginning of the epoch (`next_epoch`).
    """
    through = state.tree.accumulate(stats.masses + state.history)
    return state.tree.sort_siblings(-through)


def _reordered(state: EpochState, tree: Tree, places: NDArray[np.intp]) -> EpochState:
    return replace(
        state,
        tree=tree,
        masses=state.masses[places],
        history=state.history[places],
        means=state.means[places],
        concentrations=state.concentrations[places],
        past=state.past[places],
    )


# The bound ----------------------------------------------------------------------------


def objective(
    state: EpochState, stats: EpochStats, priors: TreePriors
) -> dict[str, float]:
    """Evidence lower bound of an epoch, given those before it, by term, in nats."""
    dimension, beta = state.dimension, state.concentration
    sticks = state.sticks(priors)
    rows = stats.masses @ sticks.log_weights(state.tree)
    rows += stats.masses.sum() * float(log_normaliser(beta, dimension))
    rows += beta * _fits(state, stats, _all(state)).sum()
    directions = _direction_terms(state, priors, _all(state)).sum()
    if state.centroid.any():
        directions += beta * float(state.centroid @ state.means[0])
        directions += log_normaliser_gain(beta**2, dimension)
    before = Sticks.given(
        state.tree,
        state.history,
        priors.stop_concentration,
        priors.child_concentration,
    )
    return {
        "rows": float(rows),
        "entropy": float(stats.entropies.sum()),
        "directions": float(directions),
        "sticks": -sticks.divergence(before),
    }


def _direction_terms(
    state: EpochState, priors: TreePriors, rows: NDArray[np.intp]
) -> Array:
    """E log p(theta) - E log q(theta) of some nodes, given their parents."""
    dimension = state.dimension
    inner = inner_products(state, rows)
    lengths, products = _lengths_and_products(state, priors, rows, inner)
    normalisers = log_normaliser_gain(
        (state.prior_concentration * lengths) ** 2, dimension
    )
    prior = state.prior_concentration * products
    spreads = _spreads(state, priors, rows, inner[1])
    return normalisers + prior - conjugate(np.sqrt(inner[0]), spreads, dimension)


def _fits(state: EpochState, stats: EpochStats, rows: NDArray[np.intp]) -> Array:
    """s_e'E_e of some nodes."""
    result = np.empty(len(rows))
    kernels.fits(rows, state.means, *_entries(stats), result)
    return result


def direction_bound(
    state: EpochState, stats: EpochStats, priors: TreePriors, rows: NDArray[np.intp]
) -> float:
    """Terms of the bound that see the directions of some nodes.

    That of a node changes if its own direction does, or its parent's.
    """
    fit = _fits(state, stats, rows).sum()
    if 0 in rows:
        fit += state.centroid @ state.means[0]
    terms = _direction_terms(state, priors, rows).sum()
    return float(state.concentration * fit + terms)


def stick_evidence(
    tree: Tree, masses: Array, history: Array, priors: TreePriors
) -> float:
    """Log evidence of the sticks: their terms of the bound at its maximum."""
    alpha, gamma = priors.stop_concentration, priors.child_concentration
    after = Sticks.given(tree, masses + history, alpha, gamma)
    before = Sticks.given(tree, history, alpha, gamma)
    stop = betaln(*after.stop) - betaln(*before.stop)
    child = betaln(*after.child) - betaln(*before.child)
    return float(stop.sum() + child[1:].sum())


# Epochs -------------------------------------------------------------------------------


def windowed(tree: Tree, past: Sequence[tuple[NDArray[np.intp], Array]]) -> Array:
    """Sum the masses of past epochs, each with the ids of its nodes, by position.

    Nodes that are not in the tree any more are left out.
    """
    global_stats = np.zeros(len(tree))
    for ids, masses in past:
        there = np.isin(ids, tree.ids)
        global_stats[tree.positions(ids[there])] += masses[there]
    return global_stats


def next_epoch(
    state: EpochState, history: Array, returning: NDArray[np.intp] = NO_IDS
) -> EpochState:
    """Close an epoch: its mean directions are the past of the next one.

    `history` are the masses in the window that ends with it. Siblings are sorted by
    them, once; what is born in the epoch stands behind. Nodes that have ended may come
    back with their last direction, if they are among those `returning`.
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
        past=np.where(lengths.ravel() > 0.0, _all(state), -1),
        centroid=np.zeros(state.width),
        past_ids=np.concatenate([state.tree.ids, state.past_ids[ended]]),
    )
    tree = state.tree.sort_siblings(-state.tree.accumulate(history))
    return _reordered(state, tree, state.tree.positions(tree.ids))


# Merging ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MergeGain:
    """What a merge is worth, in nats."""

    gain: float  # of the bound, but for the entropy that is lost
    most_lost: float  # that entropy is between 0 and this

    @property
    def is_safe(self) -> bool:
        """Whether the bound rises for certain."""
        return self.gain > self.most_lost


def merged(
    state: EpochState, stats: EpochStats, priors: TreePriors, source: int, target: int
) -> tuple[EpochState, EpochStats]:
    """Merge a node into a sibling or its parent, by id.

    Rows of both become rows of the target, whose q(theta) is updated once; children of
    the source stand behind its own. Entropies are added, which is too much where rows
    had a part in both: see `merge_gain`.
    """
    tree = state.tree.merge(source, target)
    place = state.tree.positions(source)
    places = state.tree.positions(tree.ids)
    at = tree.positions(target)
    new, kept = _reordered(state, tree, places), stats.taken(places)
    for mine, all_of in (
        (new.history, state.history),
        (kept.masses, stats.masses),
        (kept.entropies, stats.entropies),
    ):
        mine[at] += all_of[place]
    row = sp.csr_array(([1.0], ([at], [0])), shape=(len(tree), 1))
    sums = sp.csr_array(kept.sums + row @ stats.sums[[place]])
    kept = replace(kept, sums=sums)
    new = replace(new, masses=kept.masses)
    _update_rows(new, kept, priors, np.array([at]))
    return new, kept


def merge_gain(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    source: int,
    target: int,
    past_of: Literal["source", "target"] = "target",
) -> MergeGain:
    """What `merged` would change, from statistics of the nodes concerned alone.

    Both may have a past, of which the merged node keeps one.

    A row that has a and b of the two nodes loses (a + b) log(a + b) - a log a - b log b
    >= 0 of its entropy. That of all rows is at most M h(M_source / M), M = M_source +
    M_target, h the entropy of a coin, by Jensen's inequality, and at most what both
    have. The supplement of [1], Eq. (4), has this loss with the opposite sign, and
    merges wherever the gain is not negative, which can lower the bound.

    The sticks must have followed the masses (`update_sticks`). Time O(V) for each child
    of the two, and O(n_nodes).
    """
    tree = state.tree
    place, into = tree.positions([source, target]).tolist()
    top = into if tree.parent[place] == into else int(tree.parent[place])
    near = _neighbours(tree, place, into, top)
    (around,) = state.parents(np.array([top]))
    small = _reordered(state, Tree(tree.ids[near], _depths(tree, near)), near)
    centroid = state.centroid if top == 0 else np.zeros(state.width)
    small = replace(small, above=around, centroid=centroid)
    few = stats.taken(near)
    kept = (
        small if past_of == "target" else _with_pasts_exchanged(small, source, target)
    )
    after = merged(kept, few, priors, source, target)
    gain = _all_directions(*after, priors) - _all_directions(small, few, priors)
    gain += float(stick_gains(state, priors, *tree.positions([[source], [target]]))[0])

    both = stats.masses[place] + stats.masses[into]
    share = stats.masses[place] / both if both > 0.0 else 0.0
    coin = -(xlogy(share, share) + xlogy(1.0 - share, 1.0 - share))
    entropy = stats.entropies[place] + stats.entropies[into]
    return MergeGain(float(gain), float(min(both * coin, entropy)))


def _with_pasts_exchanged(state: EpochState, one: int, other: int) -> EpochState:
    places = state.tree.positions([one, other])
    past = state.past.copy()
    past[places] = past[places[::-1]]
    return replace(state, past=past)


def _neighbours(tree: Tree, place: int, into: int, top: int) -> NDArray[np.intp]:
    """Two nodes, their children and the one above them, depth first."""
    below = [np.flatnonzero(tree.parent == node) for node in (place, into)]
    return np.unique(np.concatenate([[top, place, into], *below]))


def _depths(tree: Tree, near: NDArray[np.intp]) -> NDArray[np.intp]:
    return tree.depth[near] - tree.depth[near[0]]


def _all_directions(state: EpochState, stats: EpochStats, priors: TreePriors) -> float:
    return direction_bound(state, stats, priors, _all(state))


def stick_gains(
    state: EpochState,
    priors: TreePriors,
    sources: NDArray[np.intp],
    targets: NDArray[np.intp],
) -> Array:
    """Rise of the terms with sticks when nodes are merged into others, by pair.

    At its optimum a stick adds log B(posterior) - log B(prior), whatever the others.
    """
    result, work = np.empty(len(sources)), np.empty((2, len(state.tree)))
    stick_kernels.merge_gains(
        sources,
        targets,
        state.tree.parent,
        *state.tree.child_lists,
        state.masses,
        state.history,
        priors.stop_concentration,
        priors.child_concentration,
        work,
        result,
    )
    return result
