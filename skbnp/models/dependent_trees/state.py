"""State and statistics of an epoch of dependent trees, and the step to the next."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from scipy.special import betaln

from skbnp.components.statistics import NodeState, NodeStatistics
from skbnp.components.tree_sticks import expected_log_sticks
from skbnp.distributions import expansion, log_normaliser
from skbnp.kernels import _directions as kernels
from skbnp.kernels import _sticks as stick_kernels
from skbnp.trees import Tree
from skbnp.utils.arrays import members, padded, rows_of, with_columns
from skbnp.utils.ranges import Amount, LeastAmount, Positive, Sized
from skbnp.utils.typing import Array, Ints, Ints32

# Sticks of dependent trees, whose rows may stop at any node, with past epochs.
#
# Symbols of Hu et al. (2015), [1], and of Adams, Ghahramani and Jordan (2010): a row at
# node e stays there with probability nu_e, else it goes to a child, the i-th with
# probability phi_i = psi_i prod_{j < i} (1 - psi_j). Of an epoch, with X_e rows at node
# e and Y_e below it, hX_e and hY_e the same summed over the epochs of the window,
#
#     nu_e  ~ Beta(1 + hX_e, alpha + hY_e),
#     psi_i ~ Beta(1 + hX_i + hY_i, gamma + sum_{j > i} (hX_j + hY_j)),
#
# and their posteriors have X and Y beside hX and hY. The main text of [1] leaves the
# rows below later siblings out of its Eq. (4); its supplement has them.


@dataclass(frozen=True, slots=True)
class TreePriors:
    """Concentrations of sticks, and weights of the priors of directions."""

    child_concentration: Positive = 0.5  # gamma
    stop_concentration: Positive = 0.5  # alpha
    parent_weight: Amount = 1.0  # k1
    past_weight: Amount = 1.0  # k2


@dataclass(frozen=True, slots=True)
class Sticks:
    """Beta parameters by position in the tree; the root has no child stick."""

    stop: tuple[Array, Array]  # delta of [1]: of nu
    child: tuple[Array, Array]  # sigma of [1]: of psi

    @classmethod
    def given(cls, tree: Tree, masses: Array, priors: TreePriors) -> "Sticks":
        """Posterior parameters given the number of rows at each node."""
        result = np.empty((4, len(tree)))
        stop, child = priors.stop_concentration, priors.child_concentration
        stick_kernels.beta_parameters(tree.parent, masses, stop, child, result)
        return cls((result[0], result[1]), (result[2], result[3]))

    def log_weights(self, tree: Tree) -> Array:
        """E log pi_e of each node."""
        given, result = np.stack([*self.stop, *self.child]), np.empty(len(tree))
        stick_kernels.expected_log_weights(
            tree.parent, given, np.empty((6, len(tree))), result
        )
        return result

    def mean_weights(self, tree: Tree) -> Array:
        """E pi_e of each node; the remaining mass is that of nodes not in the tree."""
        (a, b), (c, d) = self.stop, self.child
        into = np.log(c / (c + d)) + before(tree, np.log(d / (c + d)))
        into[1:] += np.log(b / (a + b))[tree.parent[1:]]
        into[0] = 0.0
        return np.exp(tree.distribute(into)) * (a / (a + b))

    def mean_weights_below(self, tree: Tree, priors: TreePriors) -> Array:
        """E pi of a new child of each node, after all present ones."""
        (a, b), (c, d) = self.stop, self.child
        rest = np.log(d / (c + d))[1:]
        left = np.bincount(tree.parent[1:], rest, minlength=len(tree))
        into = self.mean_weights(tree) * (b / a) * np.exp(left)
        child = 1.0 + priors.child_concentration
        return into / (child * (1.0 + priors.stop_concentration))

    def divergence(self, prior: "Sticks") -> float:
        """KL(q || p) of all sticks, in nats."""
        stop = beta_divergence(self.stop, prior.stop)
        child = beta_divergence(self.child, prior.child)
        return float(stop.sum() + child[1:].sum())


def beta_divergence(q: tuple[Array, Array], p: tuple[Array, Array]) -> Array:
    """KL(q || p) of Beta distributions, element by element."""
    log_share, log_rest = expected_log_sticks(*q)
    moved = (q[0] - p[0]) * log_share + (q[1] - p[1]) * log_rest
    return betaln(*p) - betaln(*q) + moved


def behind(tree: Tree, values: Array) -> Array:
    """Sum values (..., n_nodes) over the later siblings of each node."""
    order, groups = tree.siblings
    sums, later = np.cumsum(values[..., order], axis=-1), np.zeros(values.shape)
    if len(order):
        ends = np.append(groups[1:], len(order))
        totals = np.repeat(sums[..., ends - 1], ends - groups, axis=-1)
        later[..., order] = totals - sums
    return later


def before(tree: Tree, values: Array) -> Array:
    """Sum values over the earlier siblings of each node."""
    order, groups = tree.siblings
    own, earlier = values[order], np.zeros(len(tree))
    before = np.cumsum(own) - own
    first = np.repeat(before[groups], np.diff(groups, append=len(order)))
    earlier[order] = before - first
    return earlier


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
    # (n_before,) nodes that have the previous directions
    past_ids: Ints = field(default_factory=NO_IDS.copy)
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


# Directions of nodes of dependent trees given their parents: the structured family.
#
# Where there are thousands of features, directions of a node and of its parent are
# bound to each other, and a family in which they are independent loses more than a
# thousand nats of the bound for each node. So here
#
#     q(theta_e | theta_parent) = vMF of natural parameter K theta_parent + a_e,
#
# K = kappa0 k1, as it is under the posterior if e is a leaf. With E = E theta,
#
#     u_e = E |K theta_parent + a_e|^2 = |y_e|^2 + v_e,
#     y_e = K E_parent + a_e,    v_e = K^2 (1 - |E_parent|^2),
#
# v_e is how far the natural parameter of e spreads with the direction of its parent.
# The squared length stands for its expectation in log C_V and A_V, so that
#
#     E_e = g(u_e) y_e,    g(u) = A_V(sqrt u) / sqrt u,
#
# and what directions add to the bound is
#
#     sum_e n_e'E_e - h*(|E_e|; v_e) + log C_V(rho_e),
#     h(y; v) = -log C_V(sqrt(y^2 + v)),    h*(e; v) = max_y y e - h(y; v),
#
# n_e being the part of priors and rows in E_e. With v = 0 this is mean field, of
# entropy
# -log C_V(eta) - eta A_V(eta) is -h*(e; 0). -h* rises with v, and is concave in v and
# in
# e, hence concave in E_parent.
#
# log C_V(sqrt u) is convex in u: to put E u for u gives a little too much, by at most
# half of its second derivative times the variance of u. That is of the order of K^2
# |a_e|^2 / (V (V + K)^3): a tenth of a nat where the three are similar, some nats where
# K and |a_e| are ten times V, and not a bound.


#: Lengths of means are at most this, as in the kernel of `natural_lengths`.
LONGEST = 1.0 - 1e-12


def log_normaliser_gain(squares: Array | float, dimension: int) -> Array:
    """Log C_V(k) - log C_V(0) for squares of k, as kernels compute it."""
    return _filled(kernels.log_constants, dimension, squares)


def bessel_slope(squares: Array | float, dimension: int) -> Array:
    """Return g, A_V(k) / k, for squares of k."""
    return _filled(kernels.bessel_slopes, dimension, squares)


def natural_lengths(
    lengths: Array | float, spreads: Array | float, dimension: int
) -> Array:
    """Return |y| with g(y^2 + v) y = e for lengths e < 1 of means and spreads v."""
    return _filled(kernels.natural_lengths, dimension, lengths, spreads)


def conjugate(lengths: Array | float, spreads: Array | float, dimension: int) -> Array:
    """h*(e; v) = y e - h(y; v) at its maximum over y, less its value at zero."""
    e = np.minimum(lengths, LONGEST)
    y = natural_lengths(e, spreads, dimension)
    return y * e + log_normaliser_gain(y * y + spreads, dimension)


def best_worths(
    naturals: Array,
    spreads: Array,
    below: Array,
    limits: Ints,
    pull: float,
    dimension: int,
) -> tuple[Array, Array]:
    """Return n e - h*(e; v) - sum_c h*(e_c; K^2 (1 - e^2)) at the best e, and each e.

    The lengths e_c of children, `below`, are fixed; `limits` are those of each node.
    Values of h* are less those at zero.
    """
    worths, lengths = np.empty((2, len(naturals)))
    kernels.best_worths(
        naturals, spreads, below, limits, pull, lengths, worths, expansion(dimension)
    )
    return worths, lengths


def row_gains(
    squares: Array | float,
    along: Array,
    own: Array | float,
    concentration: float,
    share: Array | float,
    spreads: Array | float,
    dimension: int,
) -> Array:
    """H of natural parameters with a row less h without it, the row integrated out.

    With natural parameters n and rows x of length one: `squares` are n'n, `along` n'x,
    `own` the part of the row that n contains already. A row moves the mean of a node
    with children less: only a `share` of n counts.
    """

    def kernel(n: Any, x: Any, own: Any, share: Any, spread: Any, *rest: Any) -> None:
        kernels.row_gains(n, x, own, share, spread, concentration, *rest)

    return _filled(kernel, dimension, squares, along, own, share, spreads)


def _filled(
    kernel: Callable[..., None], dimension: int, *given: Array | float
) -> Array:
    """Return the array that a kernel fills, given arrays of one shape."""
    arrays = np.broadcast_arrays(*given)
    flat = (np.ascontiguousarray(one, np.float64).reshape(-1) for one in arrays)
    result = np.empty(arrays[0].shape)
    kernel(*flat, result.reshape(-1), expansion(dimension))
    return result


# Dependent trees of Hu, Ho, Dubey and Xing (2015), [1]: the bound of an epoch.
#
# Rows x are unit vectors of R^V. Of an epoch t, with symbols of [1],
#
#     z ~ pi(sticks),  x ~ vMF(theta_z, beta),
#     theta_e ~ vMF of natural parameter kappa0 (k1 theta_parent + k2 theta_e^(t-1)),
#
# the latter without its second part for nodes that were not there before. The root has
# no parent; of a first one the mean direction of the rows is known as if it were one
# row more, a unit information prior (Kass and Wasserman, 1995): without it a tree could
# as well hang on any other of its nodes. q(theta_e | theta_parent) is von Mises-Fisher,
# too, see `directions`; E_e is the mean of theta_e. From M_e = sum q(z = e), s_e = sum
# q(z = e) x and the entropies H_e of the rows alone come all updates and the bound
#
#     sum_e M_e (E log pi_e + log C_V(beta)) + beta s_e'E_e + H_e
#     + sum_e log C_V(rho_e) + kappa0 (k1 E_parent + k2 mu_e^(t-1))'E_e - h*(|E_e|; v_e)
#     - KL of the sticks,
#     rho_e^2 = kappa0^2 (k1^2 + k2^2 + 2 k1 k2 E_parent'mu_e^(t-1)),
#     v_e = kappa0^2 k1^2 (1 - |E_parent|^2).
#
# log C_V(rho) is convex in this product: its expectation is not below what is written
# here, and its tangent, from which the update of a parent comes, is not above. So every
# update ascends this function. It is a bound of the evidence but for what `directions`
# has on h*, some tenths of a nat for each node.
#
# Departures from [1]: directions of a node and its parent are not independent under q;
# means are E theta, where the supplement has directions of length one, with which there
# is no bound; the mean direction of the rows counts as one row, where [1] has it as the
# parent of the root: there a tree without differences, kappa0 without limit, costs
# nothing; the pull of children on their parent through rho is
# -A_V(rho) kappa0 k1 k2 / rho, the slope of log C_V, where the supplement has
# 3 (V/2 - 1) kappa0 k1 k2 / rho; beta is one for all nodes, as in the model, at its
# exact maximum; kappa0 is learned, and not 100.


def inner_products(state: EpochState, rows: Ints) -> Array:
    """E'E, E_up'E_up, E_up'E, mu'E, E_up'mu of nodes, and whether they have a past."""
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
    spreads = prior_spreads(state, priors, state.places, of_parents)
    return np.sqrt(squares), spreads


def prior_spreads(
    state: EpochState, priors: TreePriors, rows: Ints, squares: Array
) -> Array:
    """Return v of some nodes, given |E_up|^2."""
    weights = state.prior_concentration * state.parent_weights(rows, priors)
    return np.asarray(weights**2 * np.maximum(1.0 - squares, 0.0))


def prior_concentrations(state: EpochState, priors: TreePriors) -> Array:
    """Prior concentration rho of all nodes."""
    inner = inner_products(state, state.places)
    lengths, _ = lengths_and_products(state, priors, state.places, inner)
    return state.prior_concentration * lengths


def lengths_and_products(
    state: EpochState, priors: TreePriors, rows: Ints, inner: Array
) -> tuple[Array, Array]:
    """Rho / kappa0, and (k1 E_up + k2 mu^(t-1))'E, of some nodes."""
    k1, k2 = state.parent_weights(rows, priors), priors.past_weight
    _, _, along_parent, along_past, both, has_past = inner
    squares = k1**2 + has_past * (k2**2 + 2.0 * k1 * k2 * both)
    products = k1 * along_parent + k2 * along_past
    return np.sqrt(np.maximum(squares, 0.0)), products


def objective(
    state: EpochState, stats: EpochStats, priors: TreePriors
) -> dict[str, float]:
    """Evidence lower bound of an epoch, given those before it, by term, in nats."""
    dimension, beta = state.dimension, state.concentration
    sticks = state.sticks(priors)
    rows = stats.masses @ sticks.log_weights(state.tree)
    rows += stats.masses.sum() * float(log_normaliser(beta, dimension))
    rows += beta * row_fits(state, stats).sum()
    directions = _direction_terms(state, priors).sum()
    if state.centroid.any():
        directions += beta * float(state.centroid @ state.means[0])
        directions += log_normaliser_gain(beta**2, dimension)
    before = Sticks.given(state.tree, state.history, priors)
    return {
        "rows": float(rows),
        "entropy": float(stats.entropies.sum()),
        "directions": float(directions),
        "sticks": -sticks.divergence(before),
    }


def _direction_terms(state: EpochState, priors: TreePriors) -> Array:
    """E log p(theta) - E log q(theta) of nodes, given their parents."""
    dimension, rows = state.dimension, state.places
    inner = inner_products(state, rows)
    lengths, products = lengths_and_products(state, priors, rows, inner)
    normalisers = log_normaliser_gain(
        (state.prior_concentration * lengths) ** 2, dimension
    )
    prior = state.prior_concentration * products
    spreads = prior_spreads(state, priors, rows, inner[1])
    return normalisers + prior - conjugate(np.sqrt(inner[0]), spreads, dimension)


def row_fits(state: EpochState, stats: EpochStats) -> Array:
    """s_e'E_e of all nodes."""
    limits, words, values = stats.arrays
    nodes = rows_of(limits)
    fits = np.bincount(nodes, values * state.means[nodes, words], len(state.tree))
    return fits.astype(np.float64)


def direction_bound(state: EpochState, stats: EpochStats, priors: TreePriors) -> float:
    """Terms of the bound that depend on directions, in nats."""
    fit = row_fits(state, stats).sum() + state.centroid @ state.means[0]
    return float(state.concentration * fit + _direction_terms(state, priors).sum())


def stick_evidence(
    tree: Tree, masses: Array, history: Array, priors: TreePriors
) -> float:
    """Log evidence of the sticks: their terms of the bound at its maximum."""
    after = Sticks.given(tree, masses + history, priors)
    before = Sticks.given(tree, history, priors)
    stop = betaln(*after.stop) - betaln(*before.stop)
    child = betaln(*after.child) - betaln(*before.child)
    return float(stop.sum() + child[1:].sum())
