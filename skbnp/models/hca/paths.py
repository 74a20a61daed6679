"""Means and variances of paths, which the local step of component analysis reads."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import psi

from skbnp.components import tree_sticks
from skbnp.models.hca.state import Priors, State
from skbnp.utils.typing import Array, Ints32


@dataclass(frozen=True, slots=True)
class Paths:
    """What rows read of each stub: under the posterior, or at its means.

    With r = t - mu a row scores, for stub k of the loadings M,

        constants_k - precision / 2 |r|^2 + h' C h / 2,   h = c + precision M' r,

    and its coordinates have mean C h and covariance C = R' R; c are the centres.
    """

    loadings: Array  # (n_nodes, n_features)
    mean: Array  # (n_features,)
    precision: float
    stub_nodes: Ints32  # (n_stubs, n_levels) -1: off the tree
    covariances: Array  # (n_stubs, n_levels, n_levels) C
    roots: Array  # (n_stubs, n_levels, n_levels) R, lower triangles
    centres: Array  # (n_stubs, n_levels) c
    log_dets: Array  # (n_stubs,) log |C|
    constants: Array  # (n_stubs,)


def paths(model: Priors, state: State) -> Paths:
    """Return paths under the posterior: q(x | c) and q(c) as in section 4.2 of [1]."""
    tree, gamma, n_levels = state.tree, model.concentration, model.n_levels
    a, b = tree_sticks.stick_parameters(tree, state.stub_masses, gamma)
    log_prior = tree_sticks.log_stub_priors(tree, a, b, gamma, n_levels)
    nodes = tree_sticks.stub_nodes(tree, n_levels)
    variances = np.where(
        nodes >= 0, state.loading_variances[nodes], model.loading_variance
    )
    log_precision = psi(state.noise_shape) - np.log(state.noise_rate)
    n_features = len(state.mean)
    spread = state.precision * n_features * state.mean_variance
    centre_variances = np.where(
        nodes >= 0, state.centre_variances[nodes], model.centre_variance
    )
    spread = spread + centre_variances.sum(axis=1)
    return _paths(
        state, nodes, n_features * variances, log_prior, log_precision, spread
    )


def mean_paths(model: Priors, state: State) -> Paths:
    """Return paths with all globals at their means, for log p(t) of new rows.

    Levels that are not in the tree have no loadings then.
    """
    tree, gamma = state.tree, model.concentration
    a, b = tree_sticks.stick_parameters(tree, state.stub_masses, gamma)
    _, log_prior = tree_sticks.log_mean_stubs(tree, a, b, model.n_levels)
    nodes = tree_sticks.stub_nodes(tree, model.n_levels)
    spreads = np.zeros(nodes.shape)
    nothing = np.zeros(len(nodes))
    return _paths(state, nodes, spreads, log_prior, np.log(state.precision), nothing)


def _paths(
    state: State,
    nodes: Ints32,
    spreads: Array,
    log_prior: Array,
    log_precision: float,
    spread: Array,
) -> Paths:
    """Invert I + tau E[W'W] for each stub; `spreads` are E[w'w] - m'm.

    `spread` is what the variance of the mean and of centres subtracts from the score.
    """
    centres = np.where(nodes >= 0, state.centres[nodes], 0.0)
    gram = np.zeros((len(state.tree) + 1, len(state.tree) + 1))  # -1: off the tree
    gram[:-1, :-1] = state.loadings @ state.loadings.T
    n_levels, precision = nodes.shape[1], state.precision
    inverse = precision * gram[nodes[:, :, None], nodes[:, None, :]]
    at = np.arange(n_levels)
    inverse[:, at, at] += 1.0 + precision * spreads
    factors = np.linalg.cholesky(inverse)
    log_dets = -2.0 * np.log(factors[:, at, at]).sum(axis=1)
    identity = np.eye(n_levels)
    roots = np.array([solve_triangular(f, identity, lower=True) for f in factors])
    covariances = roots.transpose(0, 2, 1) @ roots
    constants = log_prior + 0.5 * (log_dets - spread - np.square(centres).sum(axis=1))
    constants += 0.5 * len(state.mean) * (log_precision - np.log(2.0 * np.pi))
    return Paths(
        state.loadings,
        state.mean,
        precision,
        nodes,
        covariances,
        roots,
        centres,
        log_dets,
        constants,
    )
