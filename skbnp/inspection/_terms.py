"""What topics are made of: their terms, their documents, their weights."""

from numbers import Integral

import numpy as np

from skbnp.utils.ordering import largest
from skbnp.utils.validation import Interval, check_is_fitted, validate_params

POSITIVE = Interval(Integral, 1, None, closed="left")


@validate_params({"n": [POSITIVE]}, prefer_skip_nested_validation=False)
def top_terms(estimator, feature_names=None, n=10):
    """List the most probable terms of each topic.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything with `components_`; a fitted search counts as its `best_estimator_`.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of the columns the model was fitted on. `None` takes those that a
        Pipeline hands to its model, else `feature_names_in_`, else "x0", "x1", ...
    n : int, default=10
        Terms of each topic; all of them if the vocabulary is smaller.

    Returns
    -------
    terms : list of list of str
        One list per row of `components_`, most probable term first; ties are in the
        order of columns.

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
    return [[names[j] for j in largest(row, n)] for row in components]


@validate_params(
    {"n": [POSITIVE], "return_shares": ["boolean"]},
    prefer_skip_nested_validation=False,
)
def top_documents(estimator, X, n=10, *, return_shares=False):
    """Find the documents in which each topic has its largest share.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything whose `transform` returns the share of each topic in each document.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str
        What `estimator.transform` takes: raw documents for a text Pipeline.
    n : int, default=10
        Documents of each topic; all of them if `X` has fewer.
    return_shares : bool, default=False
        Whether to return the shares too.

    Returns
    -------
    documents : ndarray of int of shape (n_components, min(n, n_samples))
        Rows of `X`, largest share first; ties are in the order of rows.
    shares : ndarray of float of shape (n_components, min(n, n_samples))
        Their shares of the topic. Only with `return_shares=True`.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError
        If `n` is not positive.

    See Also
    --------
    top_terms : The most probable terms of each topic.

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
    shares = np.asarray(estimator.transform(X)).T
    documents = np.array([largest(row, n) for row in shares])
    if return_shares:
        return documents, np.take_along_axis(shares, documents, axis=1)
    return documents


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
        raise TypeError(f"estimator must have `{attribute}`, {name} has not.")
    return value


def column_names(estimator, n_features, feature_names=None):
    """Return one name per column of the model, as an array of str objects."""
    model = fitted_model(estimator)
    if feature_names is None:
        feature_names = _pipeline_names(unwrap(estimator))
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    if feature_names is None:
        feature_names = [f"x{j}" for j in range(n_features)]
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

    Without `topic_weights_`, a topic weighs what `components_` holds above the prior:
    its share of the tokens.
    """
    model = fitted_model(estimator)
    components = fitted(estimator, "components_")
    if components.min() < 0:
        name = type(model).__name__
        raise TypeError(
            f"estimator must have non-negative `components_`, those of {name} are not."
        )
    totals = components.sum(axis=1, keepdims=True)
    distr = components / np.where(totals > 0.0, totals, 1.0)
    return weights_of(estimator, components), distr


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
    if weights is None:
        prior = getattr(model, "topic_word_prior_", 0.0)
        tokens = np.maximum(components - prior, 0.0).sum(axis=1)
        weights = tokens / tokens.sum()
    return weights
