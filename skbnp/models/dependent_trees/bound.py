"""Dependent trees of Hu, Ho, Dubey and Xing (2015), [1]: the bound of an epoch.

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
has on h*, some tenths of a nat for each node.

Departures from [1]: directions of a node and its parent are not independent under q;
means are E theta, where the supplement has directions of length one, with which there
is no bound; the mean direction of the rows counts as one row, where [1] has it as the
parent of the root: there a tree without differences, kappa0 without limit, costs
nothing; the pull of children on their parent through rho is
-A_V(rho) kappa0 k1 k2 / rho, the slope of log C_V, where the supplement has
3 (V/2 - 1) kappa0 k1 k2 / rho; beta is one for all nodes, as in the model, at its
exact maximum; kappa0 is learned, and not 100.
"""

import numpy as np
from scipy.special import betaln

from skbnp.distributions.von_mises_fisher import log_normaliser
from skbnp.kernels import _directions as kernels
from skbnp.models.dependent_trees.directions import conjugate, log_normaliser_gain
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.models.dependent_trees.sticks import Sticks
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Ints


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
    result = np.empty(len(state.tree))
    kernels.fits(state.places, state.means, *stats.arrays, result)
    return result


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
