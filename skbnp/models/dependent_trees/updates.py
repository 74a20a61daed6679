"""Updates of an epoch of dependent trees: each maximises the bound over one block."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq

from skbnp.distributions import expansion, inverse_bessel_ratio
from skbnp.inference.executor import RunTasks, run_in_turn
from skbnp.kernels import _directions as kernels
from skbnp.kernels._sphere import TILE, score_rows
from skbnp.models.dependent_trees import state as bound
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.trees import Tree
from skbnp.utils.arrays import members
from skbnp.utils.typing import Array, Ints

#: Range of the concentrations that are learned; that of the prior is at least V / 100.
LOWEST, HIGHEST = 1e-3, 1e9

LEAST_PRIOR_SHARE = 0.01
#: First step, in its logarithm, of the search for a concentration, and factor of steps.
FIRST_WIDTH, WIDER = 0.05, 4.0
#: Entries of the arrays that are made on the way: those of some nodes at a time.
ENTRIES = 1 << 22
#: Entries of the directions that one of several tasks updates.
ENTRIES_OF_TASK = 1 << 19


def blocks(rows: Ints, width: int, n_entries: int = ENTRIES) -> Iterator[Ints]:
    """Cut nodes into blocks of at most `n_entries` entries of their arrays."""
    size = max(n_entries // max(width, 1), 1)
    for begin in range(0, len(rows), size):
        yield rows[begin : begin + size]


def update_sticks(state: EpochState, stats: EpochStats) -> EpochState:
    """Update the sticks by the masses, Eq. (3) and (4) of [1]."""
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
    """Update q(theta) of all nodes in place: no other state shares the arrays.

    Nodes of one level do not depend on each other: tasks update some each. By `order`
    levels are updated from the root down, up from the deepest one, or both.
    """
    down = state.tree.levels
    up = down[::-1]
    levels = {"down": down, "up": up, "both": [*down, *up[1:]]}[order]
    return update_rows(state, stats, priors, np.concatenate(levels), run)


def update_nodes(
    state: EpochState, stats: EpochStats, priors: TreePriors, ids: Ints
) -> EpochState:
    """Update q(theta) of some nodes once, from the root down."""
    return update_own_nodes(with_own_means(state), stats, priors, ids)


def update_own_nodes(
    state: EpochState, stats: EpochStats, priors: TreePriors, ids: Ints
) -> EpochState:
    """Update q(theta) of some nodes once in place: no state shares the arrays."""
    rows = np.flatnonzero(np.isin(state.tree.ids, ids))
    rows = rows[np.argsort(state.tree.depth[rows], kind="stable")]
    return update_rows(state, stats, priors, rows)


def with_own_means(state: EpochState) -> EpochState:
    """Return the state with a copy of its directions."""
    return replace(
        state, means=state.means.copy(), concentrations=state.concentrations.copy()
    )


def update_rows(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    rows: Ints,
    run: RunTasks = run_in_turn,
) -> EpochState:
    """Update q(theta) of the nodes at positions `rows` in place, in that order.

    Adjacent nodes of one depth are updated by tasks in parallel.
    """
    known = known_to_kernels(state, stats, priors)
    squares = np.full(len(state.tree), -1.0)

    def update(nodes: Ints) -> None:
        natural, lengths = np.empty(state.width), np.empty(len(state.tree))
        kernels.update_directions(
            nodes, state.concentrations, natural, lengths, squares, known
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
    """Return the arrays and constants of an epoch that kernels read."""
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
        *stats.arrays,
        state.concentration,
        k0 * priors.parent_weight,
        k0 * priors.past_weight,
        expansion(state.dimension),
    )


def natural_of(
    state: EpochState, stats: EpochStats, priors: TreePriors, place: int
) -> Array:
    """Natural parameter of a node by priors, rows and children, (n_seen,)."""
    result = np.empty(state.width)
    kernels.natural_parameter(place, result, known_to_kernels(state, stats, priors))
    return result


def learn_concentration(state: EpochState, stats: EpochStats) -> EpochState:
    """Set beta to its maximum: A_V(beta) = sum s_e'E_e / n_rows."""
    n_rows = stats.masses.sum()
    if n_rows <= 0.0:
        return state
    total = float(bound.row_fits(state, stats).sum())
    total += float(state.centroid @ state.means[0])
    length = total / (n_rows + state.centroid.any())
    beta = bound.natural_lengths(np.clip(length, 0.0, 1.0), 0.0, state.dimension)
    return replace(state, concentration=float(np.clip(beta, LOWEST, HIGHEST)))


def learn_prior_concentration(
    state: EpochState, priors: TreePriors, inner: Array | None = None
) -> EpochState:
    """Set kappa0 to where the bound is stationary in it, not below V / 100.

    `inner` are the `inner_products` of all nodes, if they are known.

    Of a first epoch this is A_V(kappa0 k1) = mean of E theta_parent'theta_e over all
    nodes but the root. A root without a past has no term with kappa0: if it is
    the only node, kappa0 stays.
    """
    if len(state.tree) == 1:
        return state
    rows, known = state.places, state.prior_concentration
    inner = bound.inner_products(state, rows) if inner is None else inner
    kappa = best_prior_concentration(
        *bound.lengths_and_products(state, priors, rows, inner),
        state.dimension,
        np.sqrt(inner[0]),
        bound.prior_spreads(state, priors, rows, inner[1]) / known**2,
        near=known,
    )
    return replace(state, prior_concentration=kappa)


def learn_past_weight(
    state: EpochState, priors: TreePriors, inner: Array | None = None
) -> TreePriors:
    """Set k2 to where the bound is stationary in it, kappa0 k2 not below V / 100.

    If it is below, as kappa0 has fallen, it may stay, so that the bound never falls. If
    no node has a past, k2 stays. `inner` as in `learn_prior_concentration`.
    """
    rows = state.places_with_past
    if len(rows) == 0:
        return priors
    inner = bound.inner_products(state, rows) if inner is None else inner[:, rows]
    _, _, _, along_past, both, _ = inner
    pulls = state.prior_concentration * state.parent_weights(rows, priors)
    known = state.prior_concentration * priors.past_weight
    pull = best_past_pull(pulls, along_past, both, state.dimension, known)
    return replace(priors, past_weight=pull / state.prior_concentration)


def best_past_pull(
    pulls: Array, products: Array, cosines: Array, dimension: int, known: float = np.inf
) -> float:
    """Return b = kappa0 k2 where the bound is stationary in it, not below V / 100.

    Or not below the one that is known if that is less, and not zero.

    The bound is concave in it: of nodes with a past it has sum log C_V(rho_e) + b d_e,
    rho_e^2 = a_e^2 + b^2 + 2 a_e b c_e, with pulls a of their parents, products d of
    means and pasts, and cosines c of parents and pasts.
    """

    def slope(log_b: float) -> float:
        """Derivative of the bound in log b."""
        b = float(np.exp(log_b))
        squares = np.maximum(pulls**2 + b**2 + 2.0 * pulls * b * cosines, 0.0)
        slopes = (b + pulls * cosines) * bound.bessel_slope(squares, dimension)
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
        return kernels.prior_slope(kappa, r, d, e, w, series)

    return _root_of(slope, dimension, near=near)


def _root_of(
    slope: Callable[[float], float],
    dimension: int,
    known: float = np.inf,
    near: float = np.inf,
) -> float:
    """Return the concentration of a prior at whose logarithm a slope is zero.

    It is searched in a range, and is an end of it if the slope has one sign there. The
    range begins at the `known` concentration if that is smaller, and not zero.
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


# Start of dependent trees: clusters of rows on the sphere, below one root.
#
# Soft assignments under concentrations that are too small make all nodes alike, and
# merges then end them. So the first statistics come from hard assignments, and means
# and the concentration are updated in turn before the first soft step. The
# concentration of the prior starts high, at V: with a small one nodes do not see where
# they belong.


#: Updates of means and concentration in turn before the first soft step.
N_ROUNDS = 3
#: Rows that one task compares with all centres, at most.
ROWS = 4096
#: Rows of a cluster at the start; least and most clusters, as multiples of
#: the square root of the number of rows.
ROWS_PER_CLUSTER, LEAST_CLUSTERS, MOST_CLUSTERS = 3, 2.0, 12.0


def n_clusters_for(n_rows: int) -> int:
    """Number of clusters to start from: many more than the nodes expected.

    n_rows / 3, but at least 2 sqrt(n_rows) and at most 12 sqrt(n_rows). Merges end
    superfluous ones. Births would not find all missing ones: with more nodes rows are
    nearer to theirs, the concentration rises, and nodes that gain under a larger
    concentration may not gain under that of a small tree.
    """
    root = n_rows**0.5
    most = min(n_rows / ROWS_PER_CLUSTER, MOST_CLUSTERS * root)
    return min(int(max(LEAST_CLUSTERS * root, most)), n_rows)


def spherical_kmeans(
    X: sp.csr_array,
    n_clusters: int,
    rng: np.random.Generator,
    max_iter: int = 20,
    run: RunTasks = run_in_turn,
) -> Ints:
    """Label rows of length one by clusters of directions.

    The sum of cosines to the cluster's mean direction rises until no row moves, Dhillon
    and Modha (2001), from rows drawn one by one with probability proportional to
    1 - cosine to the nearest so far, Arthur and Vassilvitskii (2007).

    Labels are 0 to the number of clusters found, less one, which may be fewer than
    requested; rows without words have -1.
    """
    labels = np.full(X.shape[0], -1, dtype=np.intp)
    rows = np.flatnonzero(np.diff(X.indptr) > 0)
    if len(rows) == 0:
        return labels
    X = sp.csr_array(X[rows].astype(np.float32))
    rows_of_doubles = X.astype(np.float64)
    centres = _draw_centres(X, n_clusters, rng)
    result = nearest_centres(X, centres, run)
    for _ in range(max_iter):
        sums = sp.csr_array(members(result, centres.shape[0]) @ rows_of_doubles)
        lengths = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1)).ravel())
        kept = lengths > 0.0
        sums.data /= np.repeat(np.where(kept, lengths, 1.0), np.diff(sums.indptr))
        order = np.arange(len(lengths))
        order[~kept] += len(lengths)  # those stay where they were
        centres = sp.csr_array(sp.vstack([sums, centres], format="csr")[order])
        before, result = result, nearest_centres(X, centres, run)
        if (before == result).all():
            break
    labels[rows] = np.unique(result, return_inverse=True)[1]
    return labels


def _draw_centres(
    X: sp.csr_array, n_clusters: int, rng: np.random.Generator
) -> sp.csr_array:
    """Draw rows that are far from each other as cluster centres."""
    first = int(rng.integers(X.shape[0]))
    chosen, farness = [first], np.full(X.shape[0], np.inf)
    while True:
        cosines = X @ X[[chosen[-1]]].toarray()[0]
        farness = np.minimum(farness, np.maximum(1.0 - cosines, 0.0))
        farness[farness < 1e-6] = 0.0  # the same row again
        if len(chosen) == n_clusters or not farness.any():
            return sp.csr_array(X[chosen].astype(np.float64))
        share = np.cumsum(farness, dtype=np.float64)
        draw = rng.random() * share[-1]
        at = int(np.searchsorted(share, draw, side="right"))
        chosen.append(min(at, int(np.flatnonzero(farness)[-1])))


def nearest_centres(
    X: sp.csr_array, centres: sp.csr_array | Array, run: RunTasks = run_in_turn
) -> Ints:
    """Centre of largest cosine for each row; of equal ones the first, (n_rows,)."""
    centres = sp.csr_array(centres)
    n_centres, n_features = centres.shape
    n_tiles = -(-n_centres // TILE)
    table = np.zeros((n_tiles, n_features, TILE), dtype=np.float32)
    tile, lane = divmod(np.arange(n_centres), TILE)
    counts = np.diff(centres.indptr)
    table[np.repeat(tile, counts), centres.indices, np.repeat(lane, counts)] = (
        centres.data
    )
    there = np.full(n_tiles * TILE, -np.inf)
    there[:n_centres] = 0.0
    nodes = np.empty((X.shape[0], 1), dtype=np.int32)
    indptr, words = X.indptr.astype(np.int32), X.indices.astype(np.int32)

    def score(begin: int, stop: int) -> None:
        result, limits = nodes[begin:stop], indptr[begin : stop + 1]
        some = slice(limits[0], limits[-1])
        given = limits - limits[0], words[some], X.data[some], table, there
        score_rows(*given, 1.0, result, np.empty(result.shape))

    # A table is read once for each block of rows; two threads, or four, end together.
    n_blocks = 4 * -(-X.shape[0] // (4 * ROWS)) if X.shape[0] > ROWS else 1
    ends = np.linspace(0, X.shape[0], n_blocks + 1).astype(np.intp).tolist()
    run([partial(score, *limits) for limits in pairwise(ends)])
    return nodes[:, 0].astype(np.intp)


def node_sums(X: sp.csr_array, places: Ints, n_nodes: int) -> EpochStats:
    """Sum rows that are at one node each, by position; -1 for rows at no node."""
    sums = sp.csr_array(members(places, n_nodes) @ X.astype(np.float64))
    masses = np.bincount(places[places >= 0], minlength=n_nodes).astype(np.float64)
    return EpochStats(masses, sums, np.zeros(n_nodes))


def start_tree(
    X: sp.csr_array,
    labels: Ints,
    priors: TreePriors,
    run: RunTasks = run_in_turn,
    n_unseen: int = 0,
) -> tuple[EpochState, EpochStats]:
    """Return a tree of clusters of rows below an empty root, with learned globals.

    `labels` are 0 to the number of clusters less one, -1 for rows without a cluster;
    `n_unseen` columns of the rows are left out of `X`, all zero.
    """
    n_nodes, width = int(labels.max(initial=-1)) + 2, X.shape[1]
    stats = node_sums(X, np.where(labels >= 0, labels + 1, -1), n_nodes)
    dimension = width + n_unseen
    tree = Tree.from_parents([-1, *([0] * (n_nodes - 1))])
    masses, sums = stats.masses, stats.sums
    total = np.asarray(sums.sum(axis=0)).ravel()
    lengths = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1)).ravel())
    within = min(lengths.sum() / max(masses.sum(), 1.0), 1.0)
    beta = inverse_bessel_ratio(within, dimension)
    state = EpochState(
        tree,
        masses,
        np.zeros(n_nodes),
        np.zeros((n_nodes, width)),
        np.zeros(n_nodes),
        *bound.no_past(n_nodes, width),
        np.zeros(width),
        total / max(float(np.linalg.norm(total)), 1e-300),
        float(np.clip(beta, LOWEST, HIGHEST)),
        float(dimension),
        n_unseen=n_unseen,
    )
    for _ in range(N_ROUNDS):
        state = update_own_means(state, stats, priors, run)
        state = learn_concentration(state, stats)
    return bound.sort_siblings(state, stats)
