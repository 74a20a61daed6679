"""Scores of rows on the sphere, in the form of a paper."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from skbnp.inference.executor import Executor
from skbnp.metrics._held_out import unwrap
from skbnp.models.dependent_trees import local
from skbnp.models.dependent_trees.epoch import rows_by_epoch
from skbnp.utils.arrays import one_blas_thread
from skbnp.utils.typing import MatrixLike
from skbnp.utils.validation import check_is_fitted


def plug_in_gain(
    estimator: BaseEstimator, X: MatrixLike, *, epochs: ArrayLike | None = None
) -> float:
    """Mean log density of rows at the mean directions, less the uniform density.

    The form of section 5 of [1]_: log sum_e pi_e C_V(beta) exp(beta mu_e'x), with
    expected shares pi_e and mean directions mu_e. `DependentTrees.score` integrates
    over directions, of which this knows no doubt: nodes of few rows look better than
    they are. Both are less log C_V(0), without which numbers of different vocabularies
    do not compare.

    Parameters
    ----------
    estimator : DependentTrees or Pipeline that ends in one
        A fitted model; it is not changed.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows that are put on the unit sphere.
    epochs : array-like of shape (n_samples,) or scalar, default=None
        Label of the epoch of each row, or of all, as in `DependentTrees.score`.

    Returns
    -------
    gain : float
        Nats per row that is not zero; larger is better. 0.0 if there is none.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    TypeError
        If it is no `DependentTrees`.
    ValueError
        If `X` holds no valid rows, or a label is earlier than all epochs.

    Notes
    -----
    **Departures from the paper.** Table 3 of [1]_ has no such log density: a gain of
    9811 nats on its NIPS corpus would need documents nearer to their nodes than any is
    to another document. It leaves out constants that are not named.

    References
    ----------
    .. [1] Zhiting Hu, Qirong Ho, Avinava Dubey and Eric P. Xing, "Large-scale
       Distributed Dependent Nonparametric Trees", International Conference on Machine
       Learning, 2015.

    Examples
    --------
    >>> from skbnp import DependentTrees
    >>> from skbnp.datasets import make_dependent_trees
    >>> from skbnp.metrics import plug_in_gain
    >>> X = make_dependent_trees(100, random_state=0).data
    >>> trees = DependentTrees(random_state=0).fit(X)
    >>> bool(plug_in_gain(trees, X) > trees.score(X))
    True
    """
    estimator, X = unwrap(estimator, X)
    check_is_fitted(estimator)
    if not hasattr(estimator, "_known_epochs"):
        name = type(estimator).__name__
        raise TypeError(f"estimator must be a DependentTrees, got {name}.")
    rows, _ = estimator._rows(X, "plug_in_gain")
    gains, priors = np.zeros(rows.shape[0]), estimator._tree_priors()
    known = estimator._known_epochs()
    with Executor(estimator.n_jobs) as executor, one_blas_thread():
        for epoch, of in rows_by_epoch(known, epochs, len(gains)):
            result = local.plug_in_gain(epoch.state, priors, rows[of], run=executor.map)
            gains[of] = result
    used = np.diff(rows.indptr) > 0
    return float(gains[used].mean()) if used.any() else 0.0
