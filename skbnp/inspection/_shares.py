"""Expected tokens of topics in documents, and topics that count as one.

A fit to few documents may give a topic twice, each part with words of its own documents
by chance. Their cosine is below that of near copies, but the documents are more
probable if all these tokens have one topic.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
import scipy.sparse.csgraph  # noqa: F401
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, polygamma, stdtrit, xlogy
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from skbnp.distributions import log_growth
from skbnp.inference.executor import Executor
from skbnp.inspection._compared import topics_of_sample
from skbnp.inspection._displays import (
    COLOURS,
    GREY,
    Display,
    as_written,
    in_percent,
    legend,
    open_frame,
    shortened,
)
from skbnp.inspection._terms import (
    NOT_BURSTY,
    check_shares,
    doc_counts,
    doc_prior,
    relevant_terms,
    transformed,
)
from skbnp.models.hdp.fold_in import MixturePredictor, mix
from skbnp.utils import fitted as read
from skbnp.utils.arrays import evenly_spaced, largest, row_parts, rows_of
from skbnp.utils.labels import RowLabels, check_labels
from skbnp.utils.lazy import import_pandas
from skbnp.utils.matching import cosines
from skbnp.utils.typing import Array, Flags, Ints
from skbnp.utils.validation import (
    POSITIVE,
    SMALLEST_PRIOR,
    Interval,
    StrOptions,
    at_least,
    check_counts,
    validate_params,
)
from skbnp.utils.warnings import warn_caller

if TYPE_CHECKING:
    from pandas import DataFrame

#: Kept samples of a chain that are used, evenly spaced, at most.
SAMPLES = 20
#: Cosine from which two topics may be the same one.
SIMILAR = 0.7
#: Updates of the means of groups.
MEANS = 2


class Uses(NamedTuple):
    """Expected tokens, or first uses, of topics in documents."""

    samples: list[sp.csr_array | Array]  # (n_docs, n_components), one for each sample
    words: sp.csr_array | None  # (n_docs, n_features) that they add up to, if available


def uses_of(estimator: Any, model: Any, rows: Any, epochs: Any, parts: Ints) -> Uses:
    """Infer tokens of topics in documents, with group means as their prior."""
    is_here = not hasattr(model, "_row_totals")
    if is_here and hasattr(model, "_sample_uses") and len(model.samples_) > 1:
        counts = check_counts(rows, whom="topic_shares")
        return Uses(_sample_uses(model, counts, parts), counts)
    if is_here and hasattr(model, "_expected_uses"):
        counts = check_counts(rows, whom="topic_shares")
        if getattr(model, "word_concentration_", np.inf) < NOT_BURSTY:
            uses, data = model._expected_uses(counts)
            parts_of = (data, counts.indices, counts.indptr)
            return Uses([uses], sp.csr_array(parts_of, counts.shape))
        distr = read.distributions(estimator)
        prior = doc_prior(read.fitted_model(estimator), len(distr))
        return Uses([_by_group(distr, prior, counts, parts)], counts)
    shares = transformed(model, rows, epochs)
    check_shares(model, shares)
    counts = None
    if is_here and hasattr(model, "topic_word_prior_"):
        counts = check_counts(rows, whom="topic_shares")
    return Uses([doc_counts(model, rows, shares)[0]], counts)


def _sample_uses(model: Any, counts: sp.csr_array, parts: Ints) -> list[sp.csr_array]:
    """Re-index topics of samples to the most similar ones of the best sample."""
    components, result = model.components_, []
    topics = components - components.min(axis=1, keepdims=True)
    for values, depth, uses in _uses_by_sample(model, counts, parts):
        similar = cosines(topics, np.asarray(read.in_memory(values), np.float64))
        if depth is not None:
            similar[model.tree_.depth[:, None] != depth] = 0.0
        best = similar.argmax(axis=0)
        is_one = similar[best, np.arange(len(best))] >= SIMILAR
        onto = sp.csr_array(
            (np.ones(is_one.sum()), (np.flatnonzero(is_one), best[is_one])),
            shape=(len(best), len(topics)),
        )
        result.append(sp.csr_array(uses) @ onto)
    return result


def _uses_by_sample(
    model: Any, counts: sp.csr_array, parts: Ints
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield words of topics, their depth or None, and tokens in documents."""
    is_bursty = getattr(model, "word_concentration_", np.inf) < NOT_BURSTY
    if hasattr(model, "tree_") or is_bursty:
        yield from model._sample_uses(counts, SAMPLES)
        return
    for sample in evenly_spaced(model.samples_, SAMPLES):
        values, _, prior = topics_of_sample(sample)
        distr = read.normalised_rows(values, 0.0)
        yield values, None, _by_group(distr, prior, counts, parts)


def _by_group(distr: Array, prior: Array, counts: sp.csr_array, parts: Ints) -> Array:
    """Infer tokens of topics, with documents shrunk towards means of their group."""
    prior = np.maximum(prior, SMALLEST_PRIOR)
    uses = np.zeros((counts.shape[0], len(distr)))
    with Executor(None) as executor:
        for own in (np.flatnonzero(parts == part) for part in np.unique(parts)):
            of_group = prior
            for _ in range(1 + MEANS):
                predictor = MixturePredictor.of_topics(distr, of_group)
                tokens = predictor.infer_counts(
                    predictor.samples[0], counts[own], executor
                )
                shares, totals = shares_of_tokens(tokens)
                if not totals.any():
                    break
                mean = shares[totals > 0.0].mean(axis=0)
                of_group = np.maximum(prior.sum() * mean, SMALLEST_PRIOR)
            uses[own] = tokens.toarray()
    return uses


def shares_of_tokens(uses: sp.csr_array | Array) -> tuple[Array, Array]:
    """Return shares of topics in documents, and their numbers of tokens."""
    uses = np.asarray(read.in_memory(uses), dtype=np.float64)
    totals = uses.sum(axis=1)
    return uses / np.maximum(totals, 1e-300)[:, None], totals


#: Documents of a block, and pairs of topics.
DOCS, PAIRS = 512, 256
#: The largest responsibility below one.
ALL = np.nextafter(1.0, 0.0)


def copies(estimator: Any, merge_similarity: float, uses: Uses) -> sp.csr_array:
    """Return which topics count as one, (n_components, n_topics) of ones.

    Flat topics are copies from a cosine of `merge_similarity` on; those from `SIMILAR`
    on are if the evidence of the documents is larger for one topic. 1 keeps all apart.
    """
    model = read.fitted_model(estimator)
    n = len(model.components_)
    of = np.arange(n)
    if merge_similarity < 1.0 and not hasattr(model, "tree_"):
        topics = read.distributions(estimator)
        similarity = np.triu(cosines(topics, topics), 1)
        is_one = similarity >= merge_similarity
        pairs = np.argwhere((similarity >= SIMILAR) & ~is_one)
        _, of = sp.csgraph.connected_components(sp.csr_array(is_one), directed=False)
        state = getattr(getattr(model, "_posterior", None), "state", None)
        prior = getattr(model, "topic_word_prior_", 0.0)
        eta = float(np.median(getattr(state, "topic_word_prior", prior)))
        if len(pairs) and eta and uses.words is not None:
            mean = sum(map(read.in_memory, uses.samples)) / len(uses.samples)
            prior = np.maximum(doc_prior(model, n), SMALLEST_PRIOR)
            gains = evidence_of_one(topics, prior, eta, uses.words, mean, pairs)
            of = _joined(of, is_one, pairs, gains)
    return sp.csr_array((np.ones(n), (np.arange(n), of)))


def _joined(of: Ints, is_one: Flags, pairs: Ints, gains: Array) -> Ints:
    """Join groups of topics, the best pair first, if all their pairs may be one."""
    may_join = is_one.copy()
    may_join[tuple(pairs[gains > 0.0].T)] = True
    may_join |= may_join.T
    for pair in np.argsort(-gains, kind="stable")[: int((gains > 0.0).sum())].tolist():
        one, other = of[pairs[pair]]
        if one != other and may_join[np.ix_(of == one, of == other)].all():
            of = np.where(of == other, one, of)
    return np.unique(of, return_inverse=True)[1]


def evidence_of_one(
    topics: Array,
    prior: Array,
    eta: float,
    words: sp.csr_array,
    uses: Array,
    pairs: Ints,
) -> Array:
    """Gain of the evidence if two topics are one, in nats, (n_pairs,).

    `topics` (n_topics, n_features), `prior` (n_topics,) of the topics of a document,
    `eta` of topics over words, `words` (n_docs, n_features), `uses` n_jk (n_docs,
    n_topics), `pairs` (n_pairs, 2). Of each pair, the change of

        E_q[sum_k log DirMult(S_k | eta) + sum_jk [lnG(a_k + N_jk) - lnG(a_k)]] + H[q],

    a the prior of documents. Tokens of word w in document j are of topic k by
    q ~ (a_k + n_jk) phi_kw; S_kw and N_jk are their sums. A joint topic has the tokens
    and the prior of both. Expectations are to the second order about the mean of N
    given N > 0 (Teh, Newman and Welling 2007): topics that overlap have tokens of much
    variance, and to the first order one topic has more evidence than two that were
    planted.
    """
    if len(pairs) > PAIRS:
        parts = np.array_split(pairs, -(-len(pairs) // PAIRS))
        some = (evidence_of_one(topics, prior, eta, words, uses, p) for p in parts)
        return np.concatenate([*some])
    used, places = np.unique(pairs, return_inverse=True)
    places = places.reshape(pairs.shape)
    # Columns of `used` that count as one topic: each alone, then pairs.
    groups = [[k] for k in range(len(used))] + [list(pair) for pair in places]
    priors = [prior[used[group]].sum() for group in groups]
    values = np.zeros(len(groups))
    moments = np.zeros((len(groups), 3, topics.shape[1]))
    by_word = np.ascontiguousarray(topics.T)
    for begin in range(0, words.shape[0], DOCS):
        X = words[begin : begin + DOCS]
        shares = prior + uses[begin : begin + DOCS]
        # Tokens of each topic, of all others that `pairs` does not name too.
        norm = 1.0 / np.maximum(mix(shares, by_word, X), 1e-300)
        q = shares[rows_of(X.indptr)][:, used] * by_word[X.indices][:, used]
        q *= norm[:, None]
        ones, entries = np.ones(X.nnz), np.arange(X.nnz)
        in_docs = sp.csr_array((ones, entries, X.indptr))
        of_words = sp.csr_array((ones, (X.indices, entries)), (X.shape[1], X.nnz))
        for k, group in enumerate(groups):
            part = np.minimum(q[:, group].sum(axis=1), ALL)
            tokens = X.data * part
            of_entries = np.stack(
                [tokens, tokens * (1.0 - part), X.data * np.log1p(-part)], axis=1
            )
            moments[k] += (of_words @ of_entries).T
            values[k] += expected_growth(priors[k], *(in_docs @ of_entries).T).sum()
            values[k] -= xlogy(tokens, part).sum()
    for k, of_topic in enumerate(moments):
        values[k] += expected_growth(eta, *of_topic).sum()
        whole = of_topic.sum(axis=1, keepdims=True)
        values[k] -= expected_growth(topics.shape[1] * eta, *whole).sum()
    return values[len(used) :] - values[places].sum(axis=1)


def expected_growth(
    prior: float, mean: Array, variance: Array, log_none: Array
) -> Array:
    """E[lnG(prior + N) - lnG(prior)] of sums N of indicators, to the second order.

    By their mean, their variance, and the log probability that all are 0.
    """
    some = np.maximum(-np.expm1(log_none), 1e-300)  # probability that N > 0
    given = mean / some
    spread = np.maximum((variance + mean**2) / some - given**2, 0.0)
    curvature = 0.5 * polygamma(1, prior + given)
    return some * (log_growth(prior, given) + curvature * spread)


def members_of(onto: sp.csr_array, weights: Array) -> list[Ints]:
    """Return the topics of each group of copies, the heaviest first."""
    order = np.argsort(-weights, kind="stable")
    of = onto.indices[order]
    return [order[of == k] for k in range(onto.shape[1])]


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
        return import_pandas().DataFrame(
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
        return import_pandas().DataFrame(
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


#: Of topics with the colours of others, in black and white too.
MARKS = "os^Dv<"
#: Part of the distance of two groups over which their topics are spread.
SPREAD = 0.5
#: Groups from which intervals are bands, where labels are numbers or dates.
MANY = 8
#: Part of axes that are given which the names of topics take, at most.
HIGHEST = 0.6
#: Dates that are drawn one by one, at most.
DATES = 60
#: Letters of labels of groups from which they are turned.
LONG = 30


@dataclass(kw_only=True, eq=False, repr=False)
class TopicSharesDisplay(Display):
    """Shares of topics in groups or over time, with their intervals.

    Best made with :meth:`from_estimator`. Groups stand side by side, in their order;
    numbers and dates stand where they are, and topics have a line, over periods too.

    Parameters
    ----------
    shares : TopicShares
        What is drawn.
    noun : str, default="topic"
        What components are called.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The plot.
    figure_ : matplotlib Figure
        The figure.
    topics_ : ndarray of int
        Numbers of the topics that are drawn.

    See Also
    --------
    topic_shares : The same as arrays and frames.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skbnp import HDP
    >>> from skbnp.inspection import TopicSharesDisplay
    >>> X = [[9, 0], [5, 1], [0, 8], [1, 9]] * 9
    >>> hdp = HDP(n_components=2, random_state=0).fit(X)
    >>> years = [2001, 2001, 2002, 2002] * 9
    >>> display = TopicSharesDisplay.from_estimator(hdp, X, years)
    >>> plt.show()
    """

    shares: TopicShares
    noun: str = "topic"

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        by,
        feature_names=None,
        *,
        topics=None,
        n_components=6,
        ax=None,
        **kwargs,
    ) -> Self:
        """Draw the shares of topics by group or time.

        Parameters
        ----------
        estimator : fitted topic model or Pipeline that ends in one
            What :func:`topic_shares` takes.
        X : array-like or sparse of shape (n_samples, n_features), or iterable of str
            Documents; raw ones for a text Pipeline.
        by : array-like of shape (n_samples,)
            Label of each document, as of :func:`topic_shares`. More than 60 different
            dates are drawn by month, or by year where these are as many months.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        topics : array-like of int, default=None
            Numbers of the topics to draw. None draws those whose shares differ most
            between groups.
        n_components : int, default=6
            Topics to draw where `topics` is None.
        ax : matplotlib Axes, default=None
            Axes to draw in. `None` makes a figure.
        **kwargs : dict
            Handed to :func:`topic_shares`.

        Returns
        -------
        display : TopicSharesDisplay
            The drawn display.
        """
        by, unit = _spans(by)
        shares = topic_shares(estimator, X, by, feature_names, **kwargs)
        display = cls(shares=shares, noun=read.noun_of(read.fitted_model(estimator)))
        display.plot(ax, topics=topics, n_components=n_components)
        if unit:
            display.ax_.set_xlabel(f"date, by {unit}")
        return display

    @validate_params({"n_components": [POSITIVE]})
    def plot(self, ax=None, *, topics=None, n_components=6) -> Self:
        """Draw the shares.

        Parameters
        ----------
        ax, topics, n_components : matplotlib Axes, array-like of int, int
            As in :meth:`from_estimator`.

        Returns
        -------
        display : TopicSharesDisplay
            This object.

        Raises
        ------
        ValueError
            If no topic has one of the numbers.
        """
        shares, is_made = self.shares, ax is None
        is_scale = shares.slope is not None
        has_places = is_scale and shares.groups.dtype.kind in "iufM"
        width = 8.0 if is_scale else min(max(0.15 * len(shares.groups), 8.0), 16.0)
        ax = self._begin(ax, figsize=(width, 4.0), layout="constrained")
        columns = self._columns(topics, n_components)
        self.topics_ = shares.topics[columns]
        places: Any = shares.groups if has_places else np.arange(len(shares.groups))
        for rank, k in enumerate(columns):
            turn, color = rank // len(COLOURS), COLOURS[rank % len(COLOURS)]
            style: dict[str, Any] = {"color": color, "marker": MARKS[turn % len(MARKS)]}
            style |= {"markersize": 4, "linewidth": 1.2, "label": self._name(k)}
            mean, low, high = shares.mean[:, k], shares.low[:, k], shares.high[:, k]
            if is_scale and len(places) >= MANY:
                ax.plot(places, mean, **style)
                ax.fill_between(places, low, high, color=color, alpha=0.2, linewidth=0)
                continue
            # Quantiles of few documents may leave the mean out.
            reach = np.nan_to_num(np.maximum([mean - low, high - mean], 0.0))
            at = places
            if not is_scale:
                at = places + SPREAD * ((rank + 0.5) / len(columns) - 0.5)
                style["linestyle"] = ""
            ax.errorbar(at, mean, yerr=reach, capsize=2, **style)
        if not has_places:
            labels = [str(label) for label in shares.groups]
            turn = sum(map(len, labels)) > LONG
            size = 9.0 if len(labels) <= MANY else max(5.0, 90.0 / len(labels))
            style = {"rotation": 90 if turn else 0, "fontsize": size}
            ax.set_xticks(places, labels, parse_math=False, **style)
        elif shares.groups.dtype.kind in "iu" and len(places) < MANY:
            ax.set_xticks(places)
        ax.set_ylim(bottom=0.0)
        in_percent(ax.yaxis)
        open_frame(ax, ylabel=f"share, with {100 * shares.confidence:g} % intervals")
        ax.grid(axis="y", color=GREY, alpha=0.2)
        self._draw_key(is_made)
        return self

    def _draw_key(self, is_made):
        """Name the topics: beside the axes, or above lines in given axes."""
        ax = self.ax_
        if is_made:
            legend(self.ax_, None, "upper left", (1.0, 1.0), "small")
            return
        key = as_written(ax.legend(loc="upper left", frameon=False, fontsize="x-small"))
        self.figure_.draw_without_rendering()
        height = key.get_window_extent().height / ax.get_window_extent().height
        ax.set_ylim(top=ax.get_ylim()[1] / (1.0 - min(height, HIGHEST)))

    def _columns(self, topics, n_components):
        """Choose topics: given ones, or those whose shares differ most, by weight."""
        shares = self.shares
        if topics is not None:
            wanted = np.atleast_1d(topics).tolist()
            place = {number: k for k, of in enumerate(shares.members) for number in of}
            unknown = [number for number in wanted if number not in place]
            if unknown:
                raise ValueError(
                    f"topics must be numbers among {shares.topics.tolist()[:10]}, got "
                    f"{unknown[0]!r}."
                )
            return [place[number] for number in wanted]
        least = min(2, shares.n_documents.max())  # one document tells little
        means = np.where(shares.n_documents[:, None] >= least, shares.mean, np.nan)
        spread = np.nan_to_num(np.nanmax(means, axis=0) - np.nanmin(means, axis=0))
        chosen = largest(spread, n_components)
        return chosen[np.argsort(-np.nanmean(means, axis=0)[chosen], kind="stable")]

    def _name(self, k):
        """Return number, name and terms of topic k."""
        shares = self.shares
        terms = " ".join(shares.terms[k][:3])
        name = shares.names[k] or f"{self.noun} {shares.topics[k]}"
        return f"{shortened(name)}: {terms}"


def _spans(by):
    """Group many dates by month or year: labels, and the span of a label."""
    by = list(by) if isinstance(by, Iterator) else by
    labels = check_labels(by, None, "by", "document")
    dates = labels.values()
    if dates.dtype.kind != "M" or len(labels.distinct) <= DATES:
        return by, ""
    months = dates.astype("datetime64[M]")
    if len(np.unique(months)) <= DATES:
        return months, "month"
    return dates.astype("datetime64[Y]"), "year"
