"""Stability of a fit: agreement of fits of other seeds and samples of documents."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state, resample

from skbnp.inspection._alignment import align_components
from skbnp.inspection._consensus import LEVELS, Consensus, Settings, consensus_of
from skbnp.utils.fitted import fitted, in_use, weights_of
from skbnp.utils.validation import StrOptions, at_least, validate_params

Array = NDArray[np.float64]

#: Largest seed, and share of documents in a subsample.
SEEDS, SHARE = 2**31 - 1, 0.8


@dataclass(frozen=True, eq=False)
class Stability:
    """How well fits agree.

    Parameters
    ----------
    consensus : Consensus
        Topics that recur, with how often and how alike; its `to_frame` lists them.
    n_components : ndarray of int of shape (n_fits,)
        Topics in use of each fit.
    agreement : ndarray of shape (n_fits, n_fits)
        Of two fits: the mean cosine of topics that are the same, by weight; topics that
        only one of them has count 0.
    estimators : list of estimators
        The fits.
    """

    consensus: Consensus
    n_components: NDArray[np.intp]
    agreement: Array
    estimators: list[Any]

    @property
    def score(self) -> float:
        """Mean agreement of two fits: 1 if all have the same topics, 0 if none."""
        pairs = ~np.eye(len(self.agreement), dtype=bool)
        return float(self.agreement[pairs].mean())


SAMPLED = {
    "n_fits": [at_least(2)],
    "resampling": [StrOptions({"subsample", "bootstrap"}), None],
}


@validate_params(LEVELS | SAMPLED)
def stability(
    estimator: BaseEstimator,
    X: Any,
    n_fits: int = 10,
    *,
    resampling: str | None = "subsample",
    min_recurrence: float = 0.5,
    min_similarity: float = 0.7,
    merge_similarity: float = 0.9,
    random_state: Any = 0,
) -> Stability:
    """Fit again, from other seeds and to samples of documents, and compare topics.

    Parameters
    ----------
    estimator : topic model or Pipeline that ends in one
        It is cloned, and need not be fitted.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str
        What it is fitted to; raw documents for a text Pipeline.
    n_fits : int, default=10
        Fits, 2 or more.
    resampling : {"subsample", "bootstrap"} or None, default="subsample"
        Documents of each fit: 80 % of `X`, as many as `X` has, drawn with replacement,
        or `X` itself. Topics that recur in samples do not rest on a few documents; None
        compares seeds alone.
    min_recurrence : float, default=0.5
        Topics that a smaller share of the fits has are left out of `consensus`.
    min_similarity, merge_similarity : float, default=0.7, 0.9
        As in :func:`consensus_components`.
    random_state : int, RandomState instance or None, default=0
        Names seeds and samples; every `random_state` in `estimator` is replaced.

    Returns
    -------
    stability : Stability
        `consensus`, `n_components`, `agreement` of pairs of fits, `score`, their mean,
        and the fits in `estimators`.

    Raises
    ------
    ValueError
        If `n_fits` is below two.

    See Also
    --------
    consensus_components : The consensus of fits that you have.

    Notes
    -----
    Agreement is that of the pairs of :func:`align_components`: the sum over pairs of
    their cosine times the mean of their weights, weights of a fit summing to one. It
    compares fits of one corpus; it does not tell a good model, for one topic is as
    stable as can be.

    Copies of documents, of which a bootstrap sample consists by a third, are evidence
    of topics of their own: HDP finds the 20 topics of 200 documents in subsamples (20
    or 21), and 51 to 92 in bootstrap samples. So these serve models whose number of
    topics is given.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.datasets import make_bars
    >>> from skbnp.inspection import stability
    >>> X = make_bars(200, random_state=0).data
    >>> found = stability(HDP(random_state=0), X, n_fits=3)
    >>> found.consensus.n_components_, found.score > 0.9
    (20, True)
    """
    rng = check_random_state(random_state)
    texts = X if hasattr(X, "shape") else list(X)
    fits = []
    for seed in rng.randint(SEEDS, size=n_fits).tolist():
        other = clone(estimator)
        names = other.get_params()
        seeds = [name for name in names if name.split("__")[-1] == "random_state"]
        other.set_params(**dict.fromkeys(seeds, seed))
        fits.append(other.fit(_sampled(texts, resampling, seed)))
    levels = min_recurrence, min_similarity, merge_similarity
    settings = Settings(*levels, random_state=rng)
    return Stability(
        consensus=consensus_of(fits, None, settings, by_sample=False),
        n_components=np.array([in_use(fit).sum() for fit in fits]),
        agreement=_agreement(fits, min_similarity),
        estimators=fits,
    )


def _sampled(X, resampling, seed):
    """Draw a sample of documents."""
    if resampling is None:
        return X
    if resampling == "bootstrap":
        return resample(X, random_state=seed)
    n_docs = X.shape[0] if hasattr(X, "shape") else len(X)
    n_drawn = max(round(SHARE * n_docs), 1)
    return resample(X, replace=False, n_samples=n_drawn, random_state=seed)


def _agreement(fits, min_similarity) -> Array:
    """Agreement of each pair of fits, (n_fits, n_fits)."""
    weights = []
    for fit in fits:
        of = weights_of(fit, fitted(fit, "components_")) * in_use(fit)
        weights.append(of / of.sum())
    agreement = np.eye(len(fits))
    for i in range(len(fits)):
        for j in range(i):
            result = align_components(fits[i], fits[j], min_similarity=min_similarity)
            rows, others = result.pairs.T
            shared = 0.5 * (weights[i][rows] + weights[j][others])
            agreement[i, j] = agreement[j, i] = shared @ result.similarity
    return agreement
