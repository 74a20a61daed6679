"""Shares of topics in groups of documents, with intervals."""

from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from skbnp.inspection._over_time import _pandas
from skbnp.inspection._terms import relevant_terms
from skbnp.inspection._uses import copies, members_of, shares_of_tokens, uses_of
from skbnp.utils import fitted as read
from skbnp.utils.arrays import row_parts
from skbnp.utils.labels import RowLabels, check_labels
from skbnp.utils.typing import Array, Ints
from skbnp.utils.validation import Interval, StrOptions, at_least, validate_params
from skbnp.utils.warnings import warn_caller

if TYPE_CHECKING:
    from pandas import DataFrame


#: Groups whose documents have a mean of their own.
GROUPS = 50
#: Weights of documents in draws that are made together.
WEIGHTS = 1 << 22
SHARES: dict[str, list] = {
    "per": [StrOptions({"document", "token"})],
    "confidence": [Interval(Real, 0, 1, closed="neither")],
    "n_draws": [at_least(20)],
    "merge_similarity": [Interval(Real, 0, 1, closed="right")],
}


@dataclass(frozen=True, eq=False, repr=False)
class TopicShares:
    """Shares of topics in groups of documents.

    Parameters
    ----------
    groups : ndarray of shape (n_groups,)
        Labels, in order: numbers and dates by value, texts by the numbers in them, an
        ordered Categorical by its categories; periods and intervals are texts.
    topics : ndarray of int of shape (n_components,)
        Numbers of the topics, as `summary` shows them; of those that count as one, that
        of the heaviest.
    members : list of list of int
        Numbers of the topics that count as one, the heaviest first.
    mean : ndarray of shape (n_groups, n_components)
        Mean shares; rows sum to one.
    std : ndarray of shape (n_groups, n_components)
        Their standard errors, nan in groups with one document.
    low, high : ndarray of shape (n_groups, n_components)
        Limits of their intervals.
    n_documents : ndarray of int of shape (n_groups,)
        Documents with tokens.
    slope, slope_low, slope_high : ndarray of shape (n_components,) or None
        Change of the share per unit of the label, of dates and periods per year, by
        least squares, and its interval, nan of two documents; None if labels are
        neither numbers nor dates nor periods, or categories in another order.
    terms : list of list of str
        Terms of the topics, most relevant first.
    names : list of str
        Names of the topics, empty without one.
    confidence : float
        Probability of the intervals.

    See Also
    --------
    topic_shares : Makes them.
    TopicSharesDisplay : Draws them.
    """

    groups: NDArray
    topics: Ints
    members: list[list[int]]
    mean: Array
    std: Array
    low: Array
    high: Array
    n_documents: Ints
    slope: Array | None
    slope_low: Array | None
    slope_high: Array | None
    terms: list[list[str]]
    names: list[str]
    confidence: float

    def __repr__(self) -> str:
        n_groups, n = self.mean.shape
        return f"TopicShares(n_groups={n_groups}, n_components={n})"

    def to_frame(self) -> "DataFrame":
        """List the shares.

        Returns
        -------
        frame : pandas DataFrame
            A row for each topic in each group: "group", "topic", "share", "std", "low",
            "high", "n_documents", "members", "terms".

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        n_groups, k = self.mean.shape
        return _pandas().DataFrame(
            {
                "group": np.repeat(self.groups, k),
                "topic": np.tile(self.topics, n_groups),
                "share": self.mean.ravel(),
                "std": self.std.ravel(),
                "low": self.low.ravel(),
                "high": self.high.ravel(),
                "n_documents": np.repeat(self.n_documents, k),
                "members": self.members * n_groups,
                "terms": self.terms * n_groups,
            }
        )

    def slopes_to_frame(self) -> "DataFrame":
        """List the slopes.

        Returns
        -------
        frame : pandas DataFrame
            A row for each topic: "topic", "slope", "low", "high", "terms".

        Raises
        ------
        ImportError
            If pandas is not installed.
        ValueError
            If labels are neither numbers nor dates nor periods.
        """
        if self.slope is None:
            raise ValueError(
                "by must be numbers, dates or periods for slopes, got labels as "
                f"{self.groups[0]!r}."
            )
        return _pandas().DataFrame(
            {
                "topic": self.topics,
                "slope": self.slope,
                "low": self.slope_low,
                "high": self.slope_high,
                "terms": self.terms,
            }
        )


@validate_params(SHARES)
def topic_shares(
    estimator: BaseEstimator,
    X: Any,
    by: ArrayLike,
    feature_names: ArrayLike | None = None,
    *,
    per: str = "document",
    confidence: float = 0.9,
    n_draws: int = 1000,
    merge_similarity: float = 0.9,
    epochs: Any = None,
    random_state: Any = 0,
) -> TopicShares:
    """Estimate the shares of topics in groups, or over time, with intervals.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything whose `transform` returns the share of each topic in each document.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str
        Documents; raw ones for a text Pipeline.
    by : array-like of shape (n_samples,)
        Label of each document: groups, numbers, dates or periods, all of one kind. An
        ordered Categorical has the order of its categories.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    per : {"document", "token"}, default="document"
        Whether each document or each token counts as one.
    confidence : float, default=0.9
        Probability of the intervals, in (0, 1).
    n_draws : int, default=1000
        Draws that intervals are made of, 20 or more.
    merge_similarity : float, default=0.9
        Flat topics whose cosine is at least this are copies of one, among which its
        share is divided at will; they count as one. So do those whose cosine is at
        least 0.7 if the evidence of `X` is larger for one topic than for two. 1 keeps
        all apart.
    epochs : array-like of shape (n_samples,) or scalar, default=None
        Labels of the epochs of rows, for an estimator whose `transform` takes them.
    random_state : int, RandomState instance or None, default=0
        Names the draws.

    Returns
    -------
    shares : TopicShares
        `mean`, `std`, `low` and `high`, one row for each label in `groups`; slopes, if
        labels are numbers, dates or periods. Its `to_frame` lists them.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If `transform` does not return shares.
    ValueError
        If `by` has not one label for each document, labels are of several kinds, or one
        is missing or infinite; if no document has tokens.

    See Also
    --------
    topics_over_time : When topics begin.
    TopicSharesDisplay : The shares as a figure.

    Notes
    -----
    Shares are those of the tokens of documents: the prior, which draws the shares of
    `transform` in short documents together, is taken out, and documents without tokens
    are left out. Documents whose topics have words in common are drawn towards a mean:
    in the place of that of the corpus stands that of their group, updated twice (of 50
    groups in order, where there are more); not where documents repeat words, in trees,
    and in samples.

    Fits to few documents may have a topic twice, in shapes that differ by accidents of
    their documents. The evidence of one topic is that of a Dirichlet prior for its
    words and for the topics of documents, tokens assigned as they are now; a model
    needs a `topic_word_prior_` for it.

    Draws are Bayesian bootstrap samples of documents [1]_, which are taken as
    independent draws of their group; those of samplers go over all kept samples too (20
    at most), whose topics are put to the most similar one of the best sample. Of other
    models topics are taken as given.

    References
    ----------
    .. [1] Donald B. Rubin, "The Bayesian Bootstrap", Annals of Statistics 9, 1981.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.inspection import topic_shares
    >>> X = [[9, 4, 0, 0], [5, 8, 0, 0], [0, 0, 8, 6], [0, 0, 4, 9]] * 9
    >>> hdp = HDP(n_components=2, split_merge=False, random_state=0).fit(X)
    >>> shares = topic_shares(hdp, X, ["old", "old", "new", "new"] * 9)
    >>> shares.groups.tolist(), shares.mean.round(1).max(axis=1).tolist()
    (['new', 'old'], [1.0, 1.0])
    """
    read.fitted(estimator, "transform")
    rng = check_random_state(random_state)
    model, rows = read.fitted_model(estimator), read.model_rows(estimator, X)
    terms = relevant_terms(estimator, feature_names, 5)
    n_rows = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    labels = check_labels(by, n_rows, "by", "document")
    groups, codes = np.asarray(labels.distinct), labels.codes
    parts = _coarse(labels)
    tokens = uses_of(estimator, model, rows, epochs, parts)
    if not any(of.sum() > 0.0 for of in tokens.samples):
        raise ValueError("X must have a document with tokens, got none.")
    onto = copies(estimator, merge_similarity, tokens)
    uses = [shares_of_tokens(of @ onto) for of in tokens.samples]
    # Documents that no sample knows nothing of.
    is_used = np.all([totals > 0.0 for _, totals in uses], axis=0)
    if not is_used.any():
        raise ValueError("X must have a document with tokens, got none.")
    values = [shares[is_used] for shares, _ in uses]
    lengths = uses[0][1][is_used] if per == "token" else np.ones(is_used.sum())
    codes = codes[is_used]
    n_documents = np.bincount(codes, minlength=len(groups))
    shape = len(groups), values[0].shape[1]
    mean, std, low, high = (np.full(shape, np.nan) for _ in range(4))
    limits = np.array([0.5 - confidence / 2, 0.5 + confidence / 2])
    how = n_draws, rng, limits
    for g in np.flatnonzero(n_documents):
        own = codes == g
        of_group = [of[own] for of in values], lengths[own]
        mean[g], std[g], ends = _estimated(_means, *of_group, *how)
        low[g], high[g] = np.clip(ends, 0.0, 1.0)
    slope = slope_low = slope_high = None
    if labels.scale is not None and (n_documents > 0).sum() > 1:
        slopes = partial(_slopes, x=labels.scale[codes])
        slope, _, ends = _estimated(slopes, values, lengths, *how, n_fitted=2)
        slope_low, slope_high = ends
    alone = int((n_documents == 1).sum())
    has_slopes = slope_low is not None and not np.isnan(slope_low).all()
    if alone:
        warn_caller(
            f"{alone} of {len(groups)} groups in by have one document each: their "
            "intervals are nan. Use coarser groups"
            + (", or slopes, which need none." if has_slopes else ".")
        )
    topics = read.topic_numbers(estimator, onto.shape[0])
    members = members_of(
        onto, np.asarray(read.weights_of(estimator, model.components_))
    )
    first = [of[0] for of in members]
    given = read.topic_names(estimator, onto.shape[0])
    return TopicShares(
        groups=groups,
        topics=topics[first],
        members=[topics[of].tolist() for of in members],
        mean=mean,
        std=std,
        low=low,
        high=high,
        n_documents=n_documents,
        slope=slope,
        slope_low=slope_low,
        slope_high=slope_high,
        terms=[terms[k] for k in first],
        names=[given[k] or "" for k in first],
        confidence=float(confidence),
    )


def _coarse(labels: RowLabels) -> Ints:
    """Return at most `GROUPS` groups of documents with separate means."""
    codes = labels.codes
    if len(labels.distinct) <= GROUPS:
        return codes
    if labels.scale is None:
        return np.zeros_like(codes)
    ranks = np.argsort(np.argsort(codes, kind="stable"), kind="stable")
    return ranks * GROUPS // len(codes)


def _drawn(values, lengths, n_draws, rng, function) -> Array:
    """Apply a function to shares of randomly weighted documents, (n_draws, K)."""
    draws = np.empty((n_draws, values[0].shape[1]))
    for number, shares in enumerate(values):
        own = np.arange(number, n_draws, len(values))
        for rows in row_parts((len(own), len(lengths)), WEIGHTS):
            part = own[rows]
            weights = rng.standard_exponential((len(part), len(lengths))) * lengths
            draws[part] = function(weights, shares)
    return draws


def _means(weights: Array, shares: Array) -> Array:
    return (weights @ shares) / weights.sum(axis=1, keepdims=True)


def _slopes(weights: Array, shares: Array, x: Array) -> Array:
    """Slopes of weighted least squares of shares on numbers x."""
    centre = (weights @ x) / weights.sum(axis=1)
    offsets = x - centre[:, None]
    weighted = weights * offsets
    spread = (weighted * offsets).sum(axis=1, keepdims=True)
    return (weighted @ shares) / np.maximum(spread, 1e-300)


def _estimated(function, values, lengths, n_draws, rng, limits, n_fitted=1):
    """Return an estimate, its standard error and limits, wider if documents are few.

    Draws with exponential weights have the variance (n - p) / (n + 1) times too small,
    p numbers fitted; limits are wider by the ratio of quantiles of Student's t with
    n - p degrees of freedom to those of a normal distribution.
    """
    draws = _drawn(values, lengths, n_draws, rng, function)
    estimate = function(lengths[None], np.mean(values, axis=0))[0]
    left = len(lengths) - n_fitted
    if left <= 0:
        nan = np.full(len(estimate), np.nan)
        return estimate, nan, np.array([nan, nan])
    wider = np.sqrt((len(lengths) + 1) / left)
    draws = wider * (draws - draws.mean(axis=0))
    tails = stdtrit(left, limits[1]) / ndtri(limits[1])
    ends = estimate + tails * np.quantile(draws, limits, axis=0)
    return estimate, draws.std(axis=0), ends
