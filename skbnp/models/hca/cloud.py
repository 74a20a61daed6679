"""Test whether the leaves of a component analysis are groups or one Gaussian cloud."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, multigammaln

from skbnp.inference.posterior import Posterior
from skbnp.models.hca.memory import RowLocalStep
from skbnp.utils.random import Purpose, some_rows, stream
from skbnp.utils.typing import Array

#: Rows that the prior of a mean is worth: its variance is 50 times that of rows.
PRIOR_ROWS = 0.02


def directions_of_one_cloud(
    posterior: Posterior, local_step: RowLocalStep, X: NDArray
) -> int | None:
    """Number of directions in which rows vary, if one Gaussian explains them better.

    Better than the tree, and than a Gaussian for each leaf with the rows whose most
    probable paths end there, whether these share their covariance or not; else None.
    Labels cost parts of one Gaussian more than they gain. Of many rows some are drawn.
    """
    model, state = posterior.model, posterior.state
    rng = stream(posterior.seed_entropy, Purpose.START)
    X = X[some_rows(np.arange(len(X)), rng)]
    memo, _ = local_step.update_rows(model, state, X)
    _, labels = np.unique(memo.stubs[memo.best], return_inverse=True)
    counts = np.bincount(labels)
    if len(counts) < 2:
        return None
    rest = model.frame.enter(X)
    one = _log_evidence([rest])
    bound = model.bound(state, posterior.global_stats)
    if not one / len(rest) > bound / max(posterior.global_stats.n_rows, 1.0):
        return None
    groups = [rest[labels == label] for label in range(len(counts))]
    log_labels = gammaln(len(counts)) - gammaln(len(counts) + len(rest))
    log_labels += gammaln(1.0 + counts).sum()
    separate = sum(_log_evidence([group]) for group in groups)
    if not one > log_labels + max(separate, _log_evidence(groups)):
        return None
    squares = _squares([rest])
    return int(np.count_nonzero(squares > squares.sum() / rest.shape[1]))


def _log_evidence(groups: Sequence[Array]) -> float:
    """Log evidence of groups of rows, Gaussians of separate means and one covariance.

    Conjugate: mean ~ N(0, S / k), S ~ inverse Wishart(I, D + 2), so that E S = I.
    """
    n_features = groups[0].shape[1]
    sizes = np.array([len(group) for group in groups])
    before, after = n_features + 2.0, n_features + 2.0 + sizes.sum()
    value = multigammaln(0.5 * after, n_features)
    value -= multigammaln(0.5 * before, n_features)
    value -= 0.5 * n_features * sizes.sum() * np.log(np.pi)
    value -= 0.5 * n_features * np.log1p(sizes / PRIOR_ROWS).sum()
    return float(value - 0.5 * after * np.log1p(_squares(groups)).sum())


def _squares(groups: Sequence[Array]) -> Array:
    """Squared singular values of rows about their means, and of the means."""
    parts = []
    for group in groups:
        mean, n_rows = group.mean(axis=0), len(group)
        weight = np.sqrt(PRIOR_ROWS * n_rows / (PRIOR_ROWS + n_rows))
        parts += [group - mean, weight * mean[None]]
    rows = np.concatenate(parts)
    gram = rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows
    return np.maximum(np.linalg.eigvalsh(gram), 0.0)
