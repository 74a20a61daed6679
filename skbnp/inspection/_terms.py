"""What topics are made of: their terms, their documents, their weights."""

from numbers import Integral
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from skbnp.utils.ordering import largest
from skbnp.utils.validation import (
    Interval,
    StrOptions,
    check_is_fitted,
    row_totals,
    validate_params,
)

POSITIVE = Interval(Integral, 1, None, closed="left")
#: Expected tokens, and share of its tokens, from which a document counts for a topic:
#: the smaller of both.
LEAST_TOKENS, LEAST_SHARE = 0.5, 0.05
#: Concentration of words from which repeats of any word count as much as new ones.
NOT_BURSTY = 1e6
#: What serves where a model lacks an attribute.
INSTEAD = {
    "tree_": ": TopicTermsDisplay draws topics without a tree",
    "n_components_posterior_": ": HistoryDisplay draws the number of topics in a fit",
    "samples_": ": it has one estimate, which TopicTermsDisplay draws, and no samples",
    "lineage_": ": its topics stay as they began, and TopicTermsDisplay draws them",
    "history_": ": it does not record its fit",
}


@validate_params({"n": [POSITIVE]}, prefer_skip_nested_validation=False)
def top_terms(
    estimator: BaseEstimator, feature_names: ArrayLike | None = None, n: int = 10
) -> list[list[str]]:
    """List the most probable terms of each topic.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything with `components_`; a fitted search counts as its `best_estimator_`.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of the columns the model was fitted on. `None` takes those that a
        Pipeline hands to its model, else `feature_names_in_`, else "column 0", ...
    n : int, default=10
        Terms of each topic; all of them if the vocabulary is smaller.

    Returns
    -------
    terms : list of list of str
        One list per row of `components_`, most probable term first; ties are in the
        order of columns, and entries that are zero are left out. Of directions that
        have signs, the largest entries by magnitude, a minus in front of the name of
        those that are negative.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError
        If `feature_names` does not name every column or `n` is not positive.

    See Also
    --------
    top_documents : The documents in which each topic is largest.
    summary : A printable account of a fit.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from skbnp import HDP
    >>> from skbnp.inspection import top_terms
    >>> texts = ["sun sun rain", "sun rain", "oil coal coal", "coal coal oil"] * 9
    >>> hdp = HDP(n_components=2, random_state=0)
    >>> top_terms(make_pipeline(CountVectorizer(), hdp).fit(texts), n=2)
    [['sun', 'rain'], ['coal', 'oil']]
    """
    components = fitted(estimator, "components_")
    names = column_names(estimator, components.shape[1], feature_names)
    return [terms_of(row, names, n) for row in components]


@overload
def top_documents(
    estimator: BaseEstimator,
    X: Any,
    n: int = 10,
    *,
    by: str = "share",
    epochs: Any = None,
    return_shares: Literal[False] = False,
) -> np.ndarray: ...
@overload
def top_documents(
    estimator: BaseEstimator,
    X: Any,
    n: int = 10,
    *,
    by: str = "share",
    epochs: Any = None,
    return_shares: Literal[True],
) -> tuple[np.ndarray, np.ndarray]: ...
@validate_params(
    {
        "n": [POSITIVE],
        "by": [StrOptions({"share", "tokens"})],
        "return_shares": ["boolean"],
    },
    prefer_skip_nested_validation=False,
)
def top_documents(
    estimator, X, n=10, *, by="share", epochs=None, return_shares=False
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Find the documents in which each topic has its largest share, or most tokens.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything whose `transform` returns the share of each topic in each document.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str
        What `estimator.transform` takes: raw documents for a text Pipeline.
    n : int, default=10
        Documents of each topic; all of them if `X` has fewer.
    by : {"share", "tokens"}, default="share"
        What documents are ranked by: the share of the topic in the document, or the
        expected tokens of the topic in it, of which long documents have more.
    epochs : array-like of shape (n_samples,) or scalar, default=None
        Labels of the epochs of rows, for an estimator whose `transform` takes them.
    return_shares : bool, default=False
        Whether to return the shares too.

    Returns
    -------
    documents : ndarray of int of shape (n_components, min(n, n_samples))
        Rows of `X`, best first; ties are in the order of rows. -1 stands where there is
        no further document that has tokens of the topic: leave it out before you index
        with a row, as in ``row[row >= 0]``.
    shares : ndarray of float of shape (n_components, min(n, n_samples))
        Their shares of the topic; nan where there is no document. Only with
        `return_shares=True`.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If `transform` returns coordinates, not shares.
    ValueError
        If `n` is not positive.

    See Also
    --------
    top_terms : The most probable terms of each topic.

    Notes
    -----
    A document without tokens gets the prior shares from `transform`, and a short one
    nearly these: they are no evidence of a topic. The prior, as far as the attributes
    of the model tell it, is taken out: a document of N tokens, in which a topic has the
    share s, has s (N + A) - a expected tokens of it, where a is the Dirichlet parameter
    of the topic and A the sum of those of all topics. A document counts for a topic
    from half a token on, or from 5 % of its tokens if it has fewer than ten. A row of
    :class:`skbnp.DependentTrees`, which is at one node, counts as one token.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.inspection import top_documents
    >>> X = [[0, 9], [5, 0], [1, 7], [9, 0], [4, 4]] * 9
    >>> hdp = HDP(n_components=2, split_merge=False, random_state=0).fit(X)
    >>> top_documents(hdp, X[:5], n=2)
    array([[0, 2],
           [3, 1]])
    """
    fitted(estimator, "transform")
    model, X = fitted_model(estimator), model_rows(estimator, X)
    if hasattr(model, "inverse_transform"):
        name = type(model).__name__
        raise TypeError(
            f"estimator must give shares of topics, but `transform` of {name} gives "
            "coordinates: sort the columns of `transform` by their magnitude, or use "
            "`apply` for the node of each row."
        )
    given = {} if epochs is None else {"epochs": epochs}
    shares = in_memory(model.transform(X, **given)).astype(np.float64, copy=False)
    tokens = _tokens_of_topics(model, X, shares)
    documents, found = _ranked(shares if by == "share" else tokens, tokens, shares, n)
    return (documents, found) if return_shares else documents


def _tokens_of_topics(model, X, shares):
    """Estimate the tokens of topics in documents; negligible ones are zero."""
    counts, totals = doc_counts(model, X, shares)
    sums = counts.sum(axis=1)
    scale = np.divide(totals, sums, out=np.zeros_like(sums), where=sums > 0.0)
    tokens = counts * scale[:, None]
    least = np.minimum(LEAST_TOKENS, LEAST_SHARE * totals)[:, None]
    return np.where(tokens >= least, tokens, 0.0)


def doc_counts(model, X, shares):
    """Take the prior out of shares (n_docs, K): expected counts, and tokens (n_docs,).

    Where a model learns burstiness, words that a document repeats count less: as many
    as make the share of a topic without tokens its prior.
    """
    totals = in_memory(getattr(model, "_row_totals", row_totals)(X))
    if are_directions(model):
        totals = (totals > 0.0).astype(np.float64)
    prior = _doc_prior(model, shares.shape[1])
    whole = totals + prior.sum()
    if getattr(model, "word_concentration_", np.inf) < NOT_BURSTY:
        found = np.divide(prior, shares, out=np.zeros_like(shares), where=shares > 0.0)
        whole = np.minimum(found.max(axis=1), whole)
    counts = np.maximum(shares * whole[:, None] - prior, 0.0)
    return counts * (totals > 0.0)[:, None], totals


def _doc_prior(model, n_components):
    """Dirichlet parameters of the topics of a document; zeros where there are none."""
    if hasattr(model, "doc_concentration_"):
        return model.doc_concentration_ * model.topic_weights_
    return np.full(n_components, getattr(model, "doc_topic_prior_", 0.0))


def _ranked(values, tokens, shares, n):
    """Rank the documents that have tokens of a topic, and add their shares."""
    n = min(n, len(shares))
    documents = np.full((shares.shape[1], n), -1)
    found = np.full(documents.shape, np.nan)
    for k in range(len(documents)):
        has_tokens = np.flatnonzero(tokens[:, k])
        best = has_tokens[largest(values[has_tokens, k], n)]
        documents[k, : len(best)] = best
        found[k, : len(best)] = shares[best, k]
    return documents, found


def in_memory(values):
    """Return an ndarray of what may be lazy, sparse or a frame."""
    values = values.compute() if hasattr(values, "compute") else values
    return values.toarray() if sp.issparse(values) else np.asarray(values)


def unwrap(estimator):
    """Replace a fitted search by what it found."""
    return getattr(estimator, "best_estimator_", estimator)


def model_rows(estimator, X):
    """Give rows as the model itself takes them: as earlier steps of a Pipeline do."""
    pipeline = unwrap(estimator)
    is_pipeline = hasattr(pipeline, "steps") and len(pipeline.steps) > 1
    return pipeline[:-1].transform(X) if is_pipeline else X


def fitted_model(estimator):
    """Find the model itself, fitted."""
    model = unwrap(estimator)
    model = model[-1] if hasattr(model, "steps") else model
    check_is_fitted(model)
    return model


def fitted(estimator, attribute):
    """Read `attribute` of the fitted model."""
    model = fitted_model(estimator)
    value = getattr(model, attribute, None)
    if value is None:
        name = type(model).__name__
        raise TypeError(
            f"estimator must have `{attribute}`, {name} has not"
            f"{INSTEAD.get(attribute, '')}."
        )
    return value


def are_directions(model):
    """Whether components are directions of rows, not words of documents."""
    if hasattr(model, "vmf_concentration_"):
        return True
    return np.min(getattr(model, "components_", 0.0)) < 0.0


def noun_of(model):
    """Return what components are called."""
    return "node" if hasattr(model, "tree_") else "topic"


def unit_of(model):
    """Return what bounds and scores are per."""
    return "row" if are_directions(model) else "token"


def terms_of(values, names, n):
    """Name the largest entries of a topic, or of a direction, which may have signs."""
    return signed(values, leading(values, n), names)


def leading(values, n):
    """Choose the columns of the largest entries by magnitude, without zeros."""
    best = largest(np.abs(values), n)
    return best[values[best] != 0.0]


def signed(values, columns, names):
    """Name columns, with a minus where values are negative."""
    return [f"-{names[j]}" if values[j] < 0.0 else str(names[j]) for j in columns]


def column_names(estimator, n_features, feature_names=None):
    """Return one name per column of the model, as an array of str objects."""
    model = fitted_model(estimator)
    if feature_names is None:
        feature_names = _pipeline_names(unwrap(estimator))
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    if feature_names is None:
        feature_names = [f"column {j}" for j in range(n_features)]
    # A vocabulary dict, a set or one string is a scalar here: none is in column order.
    names = np.asarray(feature_names, dtype=object)
    if names.ndim != 1 or len(names) != n_features:
        got = len(names) if names.ndim == 1 else f"a {type(feature_names).__name__}"
        raise ValueError(
            f"feature_names must be a sequence of {n_features} names, one for each "
            f"column {type(model).__name__} was fitted on, got {got}."
        )
    return np.array([str(name) for name in names], dtype=object)


def _pipeline_names(estimator):
    """Names behind the last step that knows some; later steps keep the columns."""
    if not hasattr(estimator, "steps"):
        return None
    named = [
        step in (None, "passthrough") or hasattr(step, "get_feature_names_out")
        for _, step in estimator.steps[:-1]
    ]
    if not any(named):
        return None
    stop = len(named) - named[::-1].index(True)
    # A step without names in front, say a text cleaner, does not hide those behind it.
    start = stop - [*named[:stop][::-1], False].index(False)
    return estimator[start:stop].get_feature_names_out()


def topics(estimator):
    """Read the topics' weights, (n_components,), and their terms' probabilities.

    Directions are left as they are. Where all rows that pass a node have a coordinate
    on it, they are its weight.
    """
    components, model = fitted(estimator, "components_"), fitted_model(estimator)
    if hasattr(model, "tree_") and hasattr(model, "inverse_transform"):
        return model.tree_.weight, components
    weights = weights_of(estimator, components)
    if are_directions(model):
        return weights, components
    totals = components.sum(axis=1, keepdims=True)
    return weights, components / np.where(totals > 0.0, totals, 1.0)


def topic_numbers(estimator, n_components):
    """Read what the rows are called: ids; in a tree, or without ids, row numbers."""
    model = fitted_model(estimator)
    if hasattr(model, "tree_"):
        return np.arange(n_components)
    return np.asarray(getattr(model, "component_ids_", np.arange(n_components)))


def weights_of(estimator, components):
    """Read the topics' weights; else what `components` holds above the prior."""
    model = fitted_model(estimator)
    weights = getattr(model, "topic_weights_", None)
    if weights is None and components.min() < 0.0:
        name = type(model).__name__
        raise TypeError(
            "estimator must have `topic_weights_` or non-negative `components_`, "
            f"{name} has neither: use top_terms."
        )
    if weights is None:
        prior = getattr(model, "topic_word_prior_", 0.0)
        tokens = np.maximum(components - prior, 0.0).sum(axis=1)
        weights = tokens / tokens.sum()
    return weights
