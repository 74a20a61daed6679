"""Evidence lower bound of hierarchical component analysis, by term."""

import numpy as np
from scipy.special import gammaln, psi

from skbnp.components.tree_sticks import log_stub_priors, stick_bound, stick_parameters
from skbnp.models.hca.state import Equations, Priors, State, Stats, equations
from skbnp.utils.typing import Array


def white_noise(n_rows: float, n_features: int) -> float:
    """Log density of rows of white noise of variance one, in nats: the unit of bounds.

    What changes of the bound are compared with: a bound has a unit, and a zero.
    """
    return 0.5 * n_rows * n_features * float(np.log(2.0 * np.pi * np.e))


def residual_of(model: Priors, state: State, sums: Equations) -> float:
    """Expected sum of squared residuals of all rows."""
    means = np.vstack([state.loadings, state.mean])
    variances = np.append(state.loading_variances, state.mean_variance)
    return sums.residual(means, variances, model.loading_variance)


def elbo_terms(
    model: Priors, state: State, stats: Stats, sums: Equations | None = None
) -> dict[str, float]:
    """Evidence lower bound of the globals and the rows behind `stats`, by terms.

    Both go by the same tree. The terms are E log p - E log q of loadings, centres, mu,
    tau and sticks, and the remainder, that of the rows. `sums` are the equations of the
    statistics, if they are known.
    """
    sums = equations(state.tree, stats) if sums is None else sums
    tree, n_features = state.tree, len(state.mean)
    masses, gamma = state.stub_masses, model.concentration
    a, b = stick_parameters(tree, masses, gamma)
    log_prior = log_stub_priors(tree, a, b, gamma, model.n_levels)

    residual = residual_of(model, state, sums)
    log_precision = psi(state.noise_shape) - np.log(state.noise_rate)
    rows = stats.entropy + stats.stub_masses @ log_prior
    rows -= 0.5 * _from_centres(model, state, sums)
    rows += 0.5 * stats.n_rows * n_features * (log_precision - np.log(2.0 * np.pi))
    rows -= 0.5 * state.precision * residual
    s0, r0 = model.loading_variance, model.centre_variance
    of_centres = state.centre_variances[1:]
    return {
        "loadings": _log_gaussians(state.loadings, state.loading_variances, s0),
        "centres": _log_gaussians(state.centres[1:, None], of_centres, r0),
        "mean": _log_gaussians(state.mean[None], np.array([state.mean_variance]), s0),
        "noise": _log_noise(model, state),
        "sticks": stick_bound(a, b, gamma),
        "rows": float(rows),
    }


def _from_centres(model: Priors, state: State, sums: Equations) -> float:
    """Sum E |x - a|^2 over all rows: coordinates about the centres of nodes."""
    left, centres = sums.left, state.centres
    squares = np.trace(left[:-1, :-1]) - 2.0 * float(centres @ left[:-1, -1])
    squares += float(sums.through @ (centres**2 + state.centre_variances))
    return float(squares + sums.unknown + sums.missing * model.centre_variance)


def _log_gaussians(means: Array, variances: Array, prior: float) -> float:
    """E log p - E log q of vectors with prior N(0, prior I)."""
    ratios = variances / prior
    spread = means.shape[1] * (1.0 + np.log(ratios) - ratios).sum()
    return float(0.5 * spread - 0.5 * np.vdot(means, means) / prior)


def _log_noise(model: Priors, state: State) -> float:
    """E log p - E log q of the noise precision tau."""
    a, b = state.noise_shape, state.noise_rate
    a0, b0 = model.noise_shape, model.noise_rate
    divergence = (a - a0) * psi(a) - gammaln(a) + gammaln(a0)
    divergence += a0 * (np.log(b) - np.log(b0)) + a * (b0 - b) / b
    return float(-divergence)
