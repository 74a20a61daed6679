"""Terms, documents and weights of topics, and word-intrusion tests."""

from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from skbnp.utils import fitted as read
from skbnp.utils.containers import row_totals
from skbnp.utils.ordering import largest
from skbnp.utils.validation import POSITIVE, UNIT, StrOptions, validate_params

#: Expected tokens, and share of its tokens, from which a document counts for a topic:
#: the smaller of both.
LEAST_TOKENS, LEAST_SHARE = 0.5, 0.05
#: Concentration of words from which repeats of any word count as much as new ones.
NOT_BURSTY = 1e6
#: Sums of shares and of probabilities are 1 up to this error.
UNIT_TOL = 1e-3
#: What the probability of a term counts beside its lift, in accounts and figures:
#: lambda of Sievert and Shirley.
RELEVANCE = 0.6


@validate_params({"n": [POSITIVE], "relevance": [UNIT]})
def top_terms(
    estimator: BaseEstimator | ArrayLike,
    feature_names: ArrayLike | None = None,
    n: int = 10,
    *,
    relevance: float = 1.0,
) -> list[list[str]]:
    """List the most probable, or the most relevant terms of each topic.

    Parameters
    ----------
    estimator : fitted topic model, Pipeline that ends in one, or array-like
        Anything with `components_`; a fitted search counts as its `best_estimator_`.
        Topics may be given as an array of shape (n_components, n_features), too.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of the columns the model was fitted on. `None` takes those that a
        Pipeline hands to its model, else `feature_names_in_`, else "column 0", ...
    n : int, default=10
        Terms of each topic; all of them if the vocabulary is smaller.
    relevance : float, default=1.0
        Weight of the probability in the topic against the lift over the corpus, in
        [0, 1]: 1 ranks by probability alone, 0.6 prefers terms of the topic to terms of
        all topics.

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
    TypeError
        If `relevance` is below 1 and components are directions.
    ValueError
        If `feature_names` does not name every column or `n` is not positive.

    See Also
    --------
    top_documents : The documents in which each topic is largest.
    summary : A printable account of a fit.
    word_intrusion : Terms among which people are to find the one that does not belong.

    Notes
    -----
    The relevance of term w to topic k is r log phi_kw + (1 - r) log(phi_kw / p_w) [1]_,
    where r is `relevance` and p_w = sum_k share_k phi_kw the probability of the term,
    with shares of tokens; of an array, sums of rows.

    References
    ----------
    .. [1] Carson Sievert and Kenneth E. Shirley, "LDAvis: A Method for Visualizing and
       Interpreting Topics", 2014.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from skbnp import HDP
    >>> from skbnp.inspection import top_terms
    >>> texts = ["sun sun rain", "sun rain", "oil coal coal", "coal coal oil"] * 9
    >>> hdp = HDP(n_components=2, random_state=0)
    >>> top_terms(make_pipeline(CountVectorizer(), hdp).fit(texts), n=2)
    [['coal', 'oil'], ['sun', 'rain']]
    """
    components = read.fitted(estimator, "components_")
    names = read.column_names(estimator, components.shape[1], feature_names)
    if relevance == 1.0:
        return [terms_of(row, names, n) for row in components]
    columns = relevant_columns(estimator, n, relevance)
    return [names[best].tolist() for best in columns]


def relevant_terms(estimator, names, n) -> list[list[str]]:
    """Return the most relevant terms of each topic, the best first.

    For directions those of the largest entries.
    """
    is_word = not read.are_directions(read.fitted_model(estimator))
    return top_terms(estimator, names, n, relevance=RELEVANCE if is_word else 1.0)


def relevant_columns(estimator, n, weight=RELEVANCE):
    """Return the columns of the most relevant terms, a list of arrays."""
    if read.are_directions(read.fitted_model(estimator)):
        name = type(read.fitted_model(estimator)).__name__
        raise TypeError(
            f"relevance must be 1 for directions, got {weight:g}: components of {name} "
            "are no probabilities of terms."
        )
    _, distr = read.topics(estimator)
    total = read.token_shares(estimator) @ distr
    return columns_by_relevance(distr, total, n, weight)


def columns_by_relevance(distr, total, n, weight):
    """Rank terms of topics by log distr - (1 - weight) log total, without zeros."""
    with np.errstate(divide="ignore"):
        log_distr = np.log(distr)
        log_total = np.log(np.where(total > 0.0, total, 1.0))
    relevance = log_distr - (1.0 - weight) * log_total
    best = [largest(values, n) for values in relevance]
    return [of[np.isfinite(relevance[k, of])] for k, of in enumerate(best)]


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
    }
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
    read.fitted(estimator, "transform")
    model, X = read.fitted_model(estimator), read.model_rows(estimator, X)
    if hasattr(model, "inverse_transform"):
        name = type(model).__name__
        raise TypeError(
            f"estimator must give shares of topics, but `transform` of {name} gives "
            "coordinates: sort the columns of `transform` by their magnitude, or use "
            "`apply` for the node of each row."
        )
    shares = transformed(model, X, epochs)
    tokens = without_negligible(*scaled_counts(model, X, shares))
    documents, result = _ranked(shares if by == "share" else tokens, tokens, shares, n)
    return (documents, result) if return_shares else documents


def transformed(model, X, epochs=None):
    """Return what `transform` gives, in memory, (n_docs, n_components)."""
    given = {} if epochs is None else {"epochs": epochs}
    shares = read.in_memory(read.fitted(model, "transform")(X, **given))
    return shares.astype(np.float64, copy=False)


def check_shares(model, shares, least=0.0):
    """Raise TypeError unless rows are shares that sum to `least` or more."""
    totals = shares.sum(axis=1)
    is_off = (totals > 1.0 + UNIT_TOL) | (totals < least - UNIT_TOL)
    if (shares < 0.0).any() or is_off.any():
        raise TypeError(
            f"estimator must be a topic model: `transform` of {type(model).__name__} "
            "does not return shares of topics."
        )


def scaled_counts(model, X, shares):
    """Divide the tokens of documents by topics, (n_docs, K).

    Return their numbers too.
    """
    counts, totals = doc_counts(model, X, shares)
    sums = counts.sum(axis=1)
    scale = np.divide(totals, sums, out=np.zeros_like(sums), where=sums > 0.0)
    return counts * scale[:, None], totals


def without_negligible(tokens, totals):
    """Return tokens of topics in documents, negligible ones as zero."""
    least = np.minimum(LEAST_TOKENS, LEAST_SHARE * totals)[:, None]
    return np.where(tokens >= least, tokens, 0.0)


def doc_shares(model, X, epochs=None):
    """Shares of topics in rows by `transform`; normalised for factorisations."""
    shares = transformed(model, X, epochs)
    sums = shares.sum(axis=1)
    if np.abs(sums[sums > 0.0] - 1.0).max(initial=0.0) > UNIT_TOL:
        # Weights of topics that sum to 1 instead.
        shares = np.maximum(shares, 0.0) * model.components_.sum(axis=1)
        sums = shares.sum(axis=1, keepdims=True)
        shares = np.divide(shares, sums, out=np.zeros_like(shares), where=sums > 0.0)
    return shares


def doc_counts(model, X, shares):
    """Subtract the prior from shares (n_docs, K): expected counts, tokens (n_docs,).

    If a model learns burstiness, words that a document repeats count less: so many that
    the share of a topic without tokens is its prior.
    """
    totals = read.in_memory(getattr(model, "_row_totals", row_totals)(X))
    if read.are_directions(model):
        totals = (totals > 0.0).astype(np.float64)
    prior = doc_prior(model, shares.shape[1])
    whole = totals + prior.sum()
    if getattr(model, "word_concentration_", np.inf) < NOT_BURSTY:
        result = np.divide(prior, shares, out=np.zeros_like(shares), where=shares > 0.0)
        # Topics without tokens may be left out of sparse shares.
        left_out = (shares == 0.0) @ prior
        rest = np.maximum(1.0 - shares.sum(axis=1), 1e-300)
        result = np.where(left_out > 0.0, left_out / rest, result.max(axis=1))
        whole = np.minimum(result, whole)
    counts = np.maximum(shares * whole[:, None] - prior, 0.0)
    return counts * (totals > 0.0)[:, None], totals


def doc_prior(model, n_components):
    """Dirichlet parameters of the topics of a document; zeros if there are none."""
    if hasattr(model, "doc_concentration_"):
        return read.concentration_of(model) * model.topic_weights_
    return np.full(n_components, getattr(model, "doc_topic_prior_", 0.0))


def _ranked(values, tokens, shares, n):
    """Rank the documents that have tokens of a topic; return also their shares."""
    n = min(n, len(shares))
    documents = np.full((shares.shape[1], n), -1)
    result = np.full(documents.shape, np.nan)
    for k in range(len(documents)):
        has_tokens = np.flatnonzero(tokens[:, k])
        best = has_tokens[largest(values[has_tokens, k], n)]
        documents[k, : len(best)] = best
        result[k, : len(best)] = shares[best, k]
    return documents, result


def terms_of(values, names, n):
    """Terms of the largest entries of a topic, or of a direction with signs."""
    return signed(values, leading(values, n), names)


def leading(values, n):
    """Columns of the largest entries by magnitude, without zeros."""
    best = largest(np.abs(values), n)
    return best[values[best] != 0.0]


def signed(values, columns, names):
    """Names of columns, with a minus sign for negative values."""
    return [f"-{names[j]}" if values[j] < 0.0 else str(names[j]) for j in columns]


#: Share of the vocabulary in which an intruder may not be for its topic.
LEADING_HALF = 0.5


class IntrusionSet(NamedTuple):
    """Terms of a topic, one of which does not belong to it."""

    topic: int  # its number
    terms: list[str]  # what people are shown
    intruder: int  # place of the term that does not belong


@validate_params({"n_terms": [POSITIVE], "random_state": ["random_state"]})
def word_intrusion(
    estimator: BaseEstimator | ArrayLike,
    feature_names: ArrayLike | None = None,
    *,
    n_terms: int = 5,
    random_state: Any = None,
) -> list[IntrusionSet]:
    """Make sets of terms among which people are to find the one that does not belong.

    Parameters
    ----------
    estimator : fitted topic model, Pipeline that ends in one, or array-like
        A model, or anybody's topics as an array of shape (n_components, n_features).
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    n_terms : int, default=5
        Terms of the topic in each set.
    random_state : int, RandomState instance or None, default=None
        Chooses intruders, and the order of terms and of sets.

    Returns
    -------
    sets : list of named tuples (topic, terms, intruder)
        One for each topic in use, in random order: the number of the topic, its
        `n_terms` most probable terms and one more, shuffled, and the place of that one.
        Topics of fewer terms, and those that no other topic has an intruder for, have
        no set.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If components have signs.
    ValueError
        If `feature_names` does not name every column, or fewer than two topics are in
        use.

    See Also
    --------
    skbnp.metrics.topic_coherence : What needs no people.

    Notes
    -----
    The intruder is improbable in the topic, and one of the `n_terms` most probable
    terms of another [1]_: that it is rare does not give it away. Improbable is a term
    that the topic does not have in the first half of its vocabulary. The share of
    people who find the intruder is the model precision of the topic.

    References
    ----------
    .. [1] Jonathan Chang, Jordan Boyd-Graber, Sean Gerrish, Chong Wang and David M.
       Blei, "Reading Tea Leaves: How Humans Interpret Topic Models", NIPS 2009.

    Examples
    --------
    >>> from skbnp.inspection import word_intrusion
    >>> phi = [[5, 4, 3, 0, 0, 0], [0, 0, 0, 3, 4, 5]]
    >>> first, _ = word_intrusion(phi, list("abcxyz"), n_terms=3, random_state=0)
    >>> first.terms, first.terms[first.intruder]
    (['b', 'x', 'y', 'z'], 'b')
    """
    rng = check_random_state(random_state)
    distr, used = read.distributions(estimator), np.flatnonzero(read.in_use(estimator))
    names = read.column_names(estimator, distr.shape[1], feature_names)
    if len(used) < 2:
        noun = type(read.fitted_model(estimator)).__name__
        raise ValueError(
            f"estimator must have two topics in use or more, {noun} has {len(used)}: "
            "an intruder is a term of another topic."
        )
    numbers = read.topic_numbers(estimator, len(distr))
    leading = {int(k): largest(distr[k], n_terms) for k in used}
    sets = []
    for k in rng.permutation(used).tolist():
        own = leading[k]
        order = np.argsort(-distr[k], kind="stable")
        improbable = np.zeros(distr.shape[1], dtype=bool)
        improbable[order[int(LEADING_HALF * len(order)) :]] = True
        improbable[own] = False
        others = np.unique(np.concatenate([leading[j] for j in leading if j != k]))
        intruders = [j for j in others.tolist() if improbable[j]]
        if len(own) < n_terms or distr[k, own].min() <= 0.0 or not intruders:
            continue
        intruder = intruders[rng.randint(len(intruders))]
        shown = rng.permutation(np.append(own, intruder))
        place = int(np.flatnonzero(shown == intruder)[0])
        sets.append(IntrusionSet(int(numbers[k]), names[shown].tolist(), place))
    return sets
