"""Updates of an epoch of dependent trees: each maximises the bound over one block."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from skbnp.distributions.von_mises_fisher import expansion
from skbnp.inference.executor import RunTasks, run_in_turn
from skbnp.kernels import _directions as kernels
from skbnp.models.dependent_trees import bound
from skbnp.models.dependent_trees.directions import bessel_slope, natural_lengths
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
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
    beta = natural_lengths(np.clip(length, 0.0, 1.0), 0.0, state.dimension)
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
