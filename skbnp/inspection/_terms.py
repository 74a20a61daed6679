"""Terms, documents, weights and names of topics, a table and a figure of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, rel_entr
from sklearn.base import BaseEstimator

from skbnp.inspection._displays import BLUE, FONT, GREY, MARGIN, MAX_WIDTH, Display
from skbnp.utils import fitted as read
from skbnp.utils import validation as valid
from skbnp.utils.arrays import largest
from skbnp.utils.lazy import import_pandas
from skbnp.utils.typing import Array, DataFrame, Flags, Ints

#: Expected tokens, and share of its tokens, from which a document counts for a topic:
#: the smaller of both.
LEAST_TOKENS, LEAST_SHARE = 0.5, 0.05
#: Concentration of words from which repeats of any word count as much as new ones.
NOT_BURSTY = 1e6
#: Terms of a topic with up to so many times the prior are there by the prior alone.
BY_PRIOR = 1.1
#: Sums of shares and of probabilities are 1 up to this error.
UNIT_TOL = 1e-3
#: What the probability of a term counts beside its lift, in accounts and figures:
#: lambda of Sievert and Shirley.
RELEVANCE = 0.6


@valid.validated()
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
        order of columns, and entries that are zero are left out, by `relevance` also
        terms that a topic has by the prior of words alone. Of directions that
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
    if read.are_directions(read.fitted_model(estimator)):
        name = type(read.fitted_model(estimator)).__name__
        raise TypeError(
            f"relevance must be 1 for directions, got {relevance:g}: components of "
            f"{name} are no probabilities of terms."
        )
    columns = relevant_columns(estimator, n, relevance)
    return [names[best].tolist() for best in columns]


def relevant_terms(estimator, names, n) -> list[list[str]]:
    """Return the most relevant terms of each topic, the best first.

    For directions those of the largest entries.
    """
    is_word = not read.are_directions(read.fitted_model(estimator))
    return top_terms(estimator, names, n, relevance=RELEVANCE if is_word else 1.0)


def relevant_columns(estimator, n, weight=RELEVANCE):
    """Return the columns of the most relevant terms, a list of arrays.

    For directions those of the largest entries.
    """
    _, distr = read.topics(estimator)
    model = read.fitted_model(estimator)
    if read.are_directions(model):
        return [leading(values, n) for values in distr]
    total = read.token_shares(estimator) @ distr
    best = columns_by_relevance(distr, total, n, weight)
    prior = np.asarray(getattr(model, "topic_word_prior_", 0.0))
    least = BY_PRIOR * (prior.min() if prior.ndim == 1 else prior)
    is_own = read.fitted(estimator, "components_") > least
    own = (of[is_own[k, of]] for k, of in enumerate(best))
    return [few if len(few) else of for few, of in zip(own, best, strict=True)]


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
@valid.validated(by=[valid.StrOptions({"share", "tokens"})], return_shares=["boolean"])
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
    totals = read.in_memory(getattr(model, "_row_totals", valid.row_totals)(X))
    if read.are_directions(model):
        totals = (totals > 0.0).astype(np.float64)
    prior = doc_prior(model, shares.shape[1])
    whole = totals + prior.sum()
    if getattr(model, "word_concentration_", np.inf) < NOT_BURSTY:
        result = np.divide(prior, shares, out=np.zeros_like(shares), where=shares > 0.0)
        # Topics without tokens may be left out of sparse shares.
        left_out = (shares == 0.0) @ prior
        lacking = np.maximum(1.0 - shares.sum(axis=1), 1e-300)
        result = np.where(left_out > 0.0, left_out / lacking, result.max(axis=1))
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


#: Share of documents from which a topic is one of all of them.
COMMON = 0.5


@dataclass(frozen=True, eq=False)
class Ranking:
    """Share, presence and value of each topic for a reader, (n_components,) each."""

    shares: Array  # of the tokens
    order: Ints  # most informative first; topics of most documents last
    is_common: Flags  # whether in more than half of the documents
    examples: Ints  # row of the most typical document; -1 if there is none

    def heaviest(self, n: int) -> Ints:
        """Return the `n` topics of the largest shares, the most informative first."""
        return self.order[np.isin(self.order, largest(self.shares, n))]


def rank_topics(estimator: Any, X: Any = None, epochs: Any = None) -> Ranking:
    """Rank topics by share times distinctiveness.

    With documents, shares of tokens, the number of documents with a topic, and an
    example are those of the documents; else those of the fit. The value of a topic is
    its share times its distinctiveness, in nats: its part of the mutual information of
    topics and words.
    """
    model = read.fitted_model(estimator)
    _, distr = read.topics(estimator)
    shares, n = read.token_shares(estimator), len(distr)
    examples, presence = np.full(n, -1), _expected_presence(model, shares)
    gives_shares = hasattr(model, "transform") and not hasattr(
        model, "inverse_transform"
    )
    if X is not None and gives_shares:
        measured, presence, examples = _measured(estimator, X, epochs, shares)
        shares = shares if hasattr(model, "tree_") else measured
    is_flat = not hasattr(model, "tree_") and not read.are_directions(model)
    is_common, value = (presence > COMMON) & is_flat, shares
    if not read.are_directions(model):
        value = shares * distinctiveness(shares, distr)
    order = largest(value, n)
    order = np.concatenate([order[~is_common[order]], order[is_common[order]]])
    return Ranking(shares, order, is_common, examples)


def distinctiveness(shares: Array, distr: Array) -> Array:
    """Divergence of each topic from the mean of all topics, in nats."""
    return np.maximum(rel_entr(distr, shares @ distr).sum(axis=1), 0.0)


def _expected_presence(model: Any, shares: Array) -> Array:
    """Expected share of documents of mean length with a token of each topic.

    Under the Dirichlet prior of documents; zeros if a model has none.
    """
    n_docs = getattr(model, "n_samples_seen_", 0)
    tokens = getattr(model, "_topic_tokens", None)
    has_prior = hasattr(model, "doc_concentration_")
    if tokens is None or not has_prior or not n_docs:
        return np.zeros(len(shares))
    length, alpha = tokens.sum() / n_docs, read.concentration_of(model)
    without = np.maximum(alpha * (1.0 - model.topic_weights_), 1e-10)
    log_none = gammaln(without + length) - gammaln(without)
    log_none -= gammaln(alpha + length) - gammaln(alpha)
    return -np.expm1(np.minimum(log_none, 0.0))


def _measured(estimator, X, epochs, shares):
    """Return shares, presence and examples in given documents."""
    model, rows = read.fitted_model(estimator), read.model_rows(estimator, X)
    distr = doc_shares(model, rows, epochs)
    counts, totals = scaled_counts(model, rows, distr)
    tokens = without_negligible(counts, totals)
    if not tokens.any():
        return shares, np.zeros(len(shares)), np.full(len(shares), -1)
    presence = (tokens > 0.0).sum(axis=0) / max((totals > 0.0).sum(), 1)
    value = tokens * distr  # much of the topic, and little else
    examples = np.where(tokens.any(axis=0), value.argmax(axis=0), -1)
    return counts.sum(axis=0) / counts.sum(), presence, examples


@valid.validated()
def set_topic_names(
    estimator: BaseEstimator,
    names: Mapping[int, str] | Sequence[str] | Callable[[list, list], str] | None,
    X: Any = None,
    *,
    feature_names: ArrayLike | None = None,
    documents: Any = None,
    n_terms: int = 10,
    n_documents: int = 3,
) -> None:
    """Give names to the topics of a fitted model.

    Columns of `transform` (`get_feature_names_out`), :func:`summary`,
    :func:`topics_to_frame` and figures call topics by their names from then on.
    Names belong to ids: they stay with their topics in `partial_fit`, edits, copies and
    files, and end with a new fit.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        The model that is changed: it gets the attribute `topic_names_`, a dict of ids
        to names.
    names : dict of int to str, sequence of str of length n_components, callable or None
        Name of each topic: by the numbers that `summary` shows, for any of them, or
        one for each row of `components_`. An empty name takes a name away, None all.
        A callable, such as one that asks a language model, is called for each topic in
        use with the list of its terms and that of its documents, and returns its name;
        numbers of topics are added to a name that it returns more than once.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
            default=None
        Documents for the callable; raw documents for a text Pipeline. Without, its
        lists of documents are empty.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    documents : iterable of str of length n_samples, default=None
        What the callable gets of the rows of `X`. `None` takes `X` if it is texts, else
        numbers of rows.
    n_terms : int, default=10
        Terms that the callable gets, those that tell the topic apart first.
    n_documents : int, default=3
        Documents that the callable gets, those of the largest shares first.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If `X` is given and `transform` returns coordinates, not shares.
    ValueError
        If a number is unknown, there is not one name for each topic, or two topics
        would have one name; nothing is changed then.

    See Also
    --------
    topics_to_frame : Topics with their names.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.inspection import set_topic_names
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 9
    >>> hdp = HDP(2, split_merge=False, random_state=0).fit(X)
    >>> hdp.component_ids_.tolist()
    [0, 1]
    >>> set_topic_names(hdp, {1: "weather"})
    >>> hdp.get_feature_names_out().tolist()
    ['hdp0', 'weather']
    >>> def label(terms, documents):
    ...     return " & ".join(terms[:2])
    >>> set_topic_names(hdp, label, feature_names=["rain", "snow", "sun"])
    >>> hdp.get_feature_names_out().tolist()
    ['rain & snow', 'sun & rain']
    """
    n, model = len(read.fitted(estimator, "components_")), read.fitted_model(estimator)
    numbers = read.topic_numbers(estimator, n).tolist()
    ids = np.asarray(getattr(model, "component_ids_", numbers)).tolist()
    if callable(names):
        terms = relevant_terms(estimator, feature_names, n_terms)
        best = _best_documents(estimator, X, documents, n_documents)
        used = np.flatnonzero(read.in_use(estimator)).tolist()
        called = [names(terms[k], best[k] if best else []) for k in used]
        names = {numbers[k]: name for k, name in zip(used, called, strict=True)}
        for number, name in names.items():
            if name and isinstance(name, str) and called.count(name) > 1:
                names[number] = f"{name} ({number})"
    given = _by_number(names, numbers)
    unknown = [number for number in given if number not in numbers]
    if unknown:
        raise ValueError(
            f"names must be of topics in {numbers[:10]}"
            f"{', ...' * (len(numbers) > 10)}, got {unknown}."
        )
    for name in given.values():
        if not isinstance(name, str):
            raise ValueError(f"names must be of type str, got {name!r}.")
    # Names of ids that ended go: they could not be taken away any more.
    known = getattr(model, "topic_names_", {}) if given else {}
    known = {name: text for name, text in known.items() if name in ids}
    known |= {ids[numbers.index(number)]: name for number, name in given.items()}
    known = {name: text for name, text in known.items() if text}
    _check_unique(model, known, ids, numbers)
    if known:
        model.topic_names_ = known
    else:
        vars(model).pop("topic_names_", None)


def texts_of(X, documents):
    """Return rows, and what to show of them: texts, titles or None."""
    X = X if X is None or hasattr(X, "shape") or hasattr(X, "__len__") else list(X)
    if documents is None:
        return X, valid.texts_in(X)
    texts = [str(document) for document in documents]
    n_rows = read.n_rows_of(X)
    if X is None or len(texts) != n_rows:
        raise ValueError(
            f"documents must have an entry for each of {n_rows} rows of X, got "
            f"{len(texts)}."
        )
    return X, texts


def _best_documents(estimator, X, documents, n) -> list[list[Any]]:
    """Return texts, or numbers of rows, of the best documents of each topic."""
    X, texts = texts_of(X, documents)
    if X is None:
        return []
    best = [rows[rows >= 0].tolist() for rows in top_documents(estimator, X, n)]
    return best if texts is None else [[texts[row] for row in rows] for rows in best]


def _by_number(names, numbers) -> dict[int, str]:
    """Return names by topic number, from a mapping or a sequence."""
    if names is None:
        return {}
    if isinstance(names, Mapping):
        for number in names:
            if not isinstance(number, Integral):
                raise ValueError(f"names must have integers as keys, got {number!r}.")
        return {int(number): name for number, name in names.items()}
    if isinstance(names, str) or len(names) != len(numbers):
        got = repr(names) if isinstance(names, str) else f"{len(names)}"
        raise ValueError(
            f"names must be a dict or {len(numbers)} names, one for each row of "
            f"components_, got {got}."
        )
    return {number: str(name) for number, name in zip(numbers, names, strict=True)}


def _check_unique(model, known, ids, numbers) -> None:
    """Raise if two columns would have one name, now or after births."""
    prefix = type(model).__name__.lower()
    taken: dict[str, Any] = {}
    for name, text in known.items():
        number = numbers[ids.index(name)]
        digits = text.removeprefix(prefix)
        if digits != text and digits.isdigit() and int(digits) != number:
            raise ValueError(f"names must not be those of other columns, got {text!r}.")
        if text in taken:
            raise ValueError(
                f"names must differ, got {text!r} for topics {taken[text]} and "
                f"{number}."
            )
        taken[text] = number


@valid.validated()
def topics_to_frame(
    estimator: BaseEstimator,
    feature_names: ArrayLike | None = None,
    *,
    X: Any = None,
    n_terms: int = 10,
    n_documents: int = 5,
) -> DataFrame:
    """List topics with weight, terms and documents.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything with `topic_weights_`, or with non-negative `components_`.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
            default=None
        Documents to choose from; raw documents for a text Pipeline.
    n_terms : int, default=10
        Terms of each topic.
    n_documents : int, default=5
        Documents of each topic.

    Returns
    -------
    frame : pandas DataFrame
        A row for each row of `components_`, in their order, that is, in the order of
        columns of `transform`:

        - "topic": its number in `component_ids_`; of a node its row, over epochs
          its id;
        - "name": from :func:`set_topic_names`, empty without one;
        - "weight": its share of tokens, of `X` if there is one;
        - "rank": its place in the order of :func:`summary`, from 0;
        - "terms": those that tell it apart, most relevant first, a list;
        - "documents": with `X`, rows of `X` in which it has the largest share, as by
          :func:`top_documents`, a list.

    Raises
    ------
    ImportError
        If pandas is not installed.
    NotFittedError
        If the model is not fitted.
    TypeError
        If `X` is given and `transform` returns coordinates, not shares.
    ValueError
        If `feature_names` does not name every column.

    See Also
    --------
    skbnp.trees.TreeView.to_frame : Nodes of a tree, with their parents.
    summary : The same as text.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.inspection import topics_to_frame
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 9
    >>> hdp = HDP(2, split_merge=False, random_state=0).fit(X)
    >>> frame = topics_to_frame(hdp, ["rain", "snow", "sun"], n_terms=2)
    >>> frame.drop(columns="weight")
       topic name  rank         terms
    0      0          1  [rain, snow]
    1      1          0   [sun, rain]
    """
    pd = import_pandas()
    _, distr = read.topics(estimator)
    names, n = read.column_names(estimator, distr.shape[1], feature_names), len(distr)
    X = read.documents_of(X)
    ranking = rank_topics(estimator, X)
    frame = pd.DataFrame(
        {
            "topic": read.topic_numbers(estimator, n),
            "name": [name or "" for name in read.topic_names(estimator, n)],
            "weight": ranking.shares,
            "rank": np.argsort(ranking.order),
            "terms": relevant_terms(estimator, names, n_terms),
        }
    )
    if X is None:
        return frame
    documents = top_documents(estimator, X, n_documents)
    return frame.assign(documents=[rows[rows >= 0].tolist() for rows in documents])


#: Inches: bars of a panel, between terms and bars, panels, for tick labels, for titles
#: of axes.
BARS, PAD, GAP, TICKS, XLABEL = 1.2, 0.06, 0.25, 0.2, 0.2
#: The lines that a term and a title take, and the line below a title.
TERM, TITLE, BELOW = 1.35, 2.2, 1.2
#: What bars are, of models of documents.
SHARE = "share of its tokens"
#: Share of its words that a topic has in common with the one it is most like.
LEAST_OVERLAP = 0.1


@dataclass(kw_only=True, eq=False, repr=False)
class TopicTermsDisplay(Display):
    """The heaviest topics, a panel of bars each.

    Best made with :meth:`from_estimator`. Bars are probabilities of terms in the topic,
    the mark on each is that in all documents, and the terms are those that tell the
    topic apart. Below a title stands the topic that it is most like, with the share of
    words that they have in common. Each panel has its own scale of probabilities: one
    topic of few words would flatten the bars of all others.

    Parameters
    ----------
    terms : list of list of str
        Terms of each topic, one list per panel.
    probabilities : list of array-like of float
        Their probabilities within the topic.
    weights : array-like of shape (n_panels,)
        Shares of the topics in the corpus.
    labels : array-like of shape (n_panels,)
        Numbers of the topics, as `component_ids_`.
    label : str, default="share of its tokens"
        What `probabilities` are; drawn in per cent where they are shares.
    noun : str, default="topic"
        What the panels are called.
    names : list of str or None, default=None
        Names of the topics, in the place of their numbers.
    totals : list of array-like of float, default=None
        Probabilities of the terms in all documents; `None` draws no marks.
    relations : list of str, default=None
        What stands below titles.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The host of the panels, invisible.
    axes_ : ndarray of matplotlib Axes of shape (n_panels,)
        The panels.
    figure_ : matplotlib Figure
        The figure.

    See Also
    --------
    summary : The same topics as text.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skbnp import HDP
    >>> from skbnp.inspection import TopicTermsDisplay
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 9
    >>> hdp = HDP(2, split_merge=False, random_state=0).fit(X)
    >>> display = TopicTermsDisplay.from_estimator(hdp, ["rain", "snow", "sun"])
    >>> display.terms
    [['sun', 'rain'], ['rain', 'snow']]
    >>> plt.show()
    """

    terms: list[list[str]]
    probabilities: list[Any]
    weights: Any
    labels: Any
    label: str = SHARE
    noun: str = "topic"
    names: list[str | None] | None = None
    totals: list[Any] | None = None
    relations: list[str] | None = None

    @classmethod
    @valid.validated(n_components=[valid.POSITIVE])
    def from_estimator(
        cls,
        estimator,
        feature_names=None,
        *,
        n_components=8,
        n_terms=8,
        ax=None,
        **kwargs,
    ) -> Self:
        """Draw the heaviest topics of a fitted model.

        Parameters
        ----------
        estimator : fitted topic model or Pipeline that ends in one
            Anything with `topic_weights_`, or with non-negative `components_`. Of
            directions, the largest entries by magnitude are drawn.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        n_components : int, default=8
            The heaviest topics to draw, in the order of :func:`summary`; all of them if
            there are fewer.
        n_terms : int, default=8
            Terms of each topic, most relevant first.
        ax : matplotlib Axes, default=None
            Axes to divide into panels. `None` makes a figure of fitting size.
        **kwargs : dict
            Handed to matplotlib's `barh`.

        Returns
        -------
        display : TopicTermsDisplay
            The drawn display.
        """
        (_, distr), model = read.topics(estimator), read.fitted_model(estimator)
        names = read.column_names(estimator, distr.shape[1], feature_names)
        ranking = rank_topics(estimator)
        rows = ranking.heaviest(n_components)
        numbers, noun = read.topic_numbers(estimator, len(distr)), read.noun_of(model)
        called = read.topic_names(estimator, len(distr))
        label, totals, relations = SHARE, None, None
        relevant = relevant_columns(estimator, n_terms)
        columns = [relevant[k] for k in rows]
        if read.are_directions(model):
            is_unit = hasattr(model, "vmf_concentration_")
            label = "entry of its direction" if is_unit else "loading"
        else:
            totals = [(ranking.shares @ distr)[best] for best in columns]
            if not hasattr(model, "tree_"):
                relations = _relations(distr, ranking, rows, numbers, noun)
        pairs = zip(distr[rows], columns, strict=True)
        return cls(
            terms=[signed(values, best, names) for values, best in pairs],
            probabilities=list(map(np.take, distr[rows], columns)),
            weights=ranking.shares[rows],
            labels=numbers[rows],
            label=label,
            noun=noun,
            names=[called[k] for k in rows],
            totals=totals,
            relations=relations,
        ).plot(ax, **kwargs)

    def plot(self, ax=None, **kwargs) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax, **kwargs : matplotlib Axes, dict
            As in :meth:`from_estimator`; type shrinks where given axes are too small.

        Returns
        -------
        display : TopicTermsDisplay
            This object.
        """
        made = ax is None
        ax = self._begin(ax, figsize=(MAX_WIDTH, 1.0))
        ax.set_axis_off()
        self.axes_ = np.array([ax.inset_axes([0, 0, 1, 1]) for _ in self.terms])
        self._draw_bars(**kwargs)
        if made:
            n_columns, scale, height = self._choose_grid(MAX_WIDTH - 2 * MARGIN, np.inf)
            self._resize((MAX_WIDTH - 2 * MARGIN, height))
        else:
            room = ax.get_window_extent().size / self.figure_.dpi
            n_columns, scale, _ = self._choose_grid(*room)
        self._arrange(n_columns, scale)
        return self

    def _draw_bars(self, **kwargs):
        """Draw the bars of terms in all panels."""
        from matplotlib.ticker import MaxNLocator

        marks = self.totals or [None] * len(self.terms)
        panels = zip(self.axes_, self.terms, self.probabilities, marks, strict=True)
        for panel, terms, values, totals in panels:
            rows = np.arange(len(terms))
            panel.barh(rows, values, **{"color": BLUE, "height": 0.7} | kwargs)
            if totals is not None:
                limits = (rows - 0.38, rows + 0.38)
                panel.vlines(totals, *limits, color="black", linewidth=1.0)
            # A dollar sign is a dollar sign.
            panel.set_yticks(rows, labels=terms, parse_math=False)
            panel.set_ylim(max(map(len, self.terms)) - 0.5, -0.5)
            low, high = min(0.0, *values), max(0.0, *values)
            panel.set_xlim(1.04 * low, 1.04 * high or 1.0)
            panel.xaxis.set_major_locator(MaxNLocator(2, steps=[1, 2, 5, 10]))
            panel.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
            if self.label == SHARE:
                self._in_percent(panel.xaxis)
            panel.grid(axis="x", color="0.9")
            panel.set_axisbelow(True)
            panel.spines[:].set_visible(False)
            panel.tick_params(length=0, labelsize=FONT)
            panel.tick_params(axis="x", labelcolor=GREY)

    def _choose_grid(self, room_width, room_height):
        """Choose columns, font scale and height for a room in inches."""
        label = max(
            text.get_window_extent().width / self.figure_.dpi
            for panel in self.axes_
            for text in panel.get_yticklabels()
        )
        n, n_lines = len(self.axes_), max(map(len, self.terms))

        def fit(n_columns):
            """Font scale and height with a number of columns."""
            width = n_columns * (label + PAD + BARS + GAP) - GAP
            n_rows = -(-n // n_columns)
            height = (
                n_rows * ((n_lines * TERM + self._head) * FONT / 72 + TICKS) + XLABEL
            )
            scale = min(1.0, room_width / width, room_height / height)
            # As many rows, but filled evenly.
            return scale, -(-n // n_rows), height * scale

        scale, n_columns, height = max(map(fit, range(1, n + 1)))
        return n_columns, scale, height

    def _arrange(self, n_columns, scale):
        """Place the panels so that labels fit, whatever the figure's size."""
        from mpl_toolkits.axes_grid1.axes_divider import AxesDivider
        from mpl_toolkits.axes_grid1.axes_size import Fixed, MaxWidth, Scaled

        n_rows = -(-len(self.axes_) // n_columns)
        widths, heights = [], [Fixed(XLABEL * scale)]
        for column in range(n_columns):
            labels = [
                text
                for panel in self.axes_[column::n_columns]
                for text in panel.get_yticklabels()
            ]
            widths += [MaxWidth(labels), Fixed(PAD), Scaled(1), Fixed(GAP * scale)]
        head = self._head * FONT / 72
        heights += n_rows * [Fixed(TICKS * scale), Scaled(1), Fixed(head * scale)]
        divider = AxesDivider(self.ax_)
        divider.set_horizontal(widths[:-1])
        divider.set_vertical(heights)
        size, has_relations = FONT * scale, self.relations is not None
        label = self.label
        if self.totals is not None:
            label = f"{label.removeprefix('share ')}; line: of all"
        title: dict[str, Any] = {"loc": "left", "weight": "bold", "parse_math": False}
        title["pad"] = 3 + BELOW * size * has_relations
        below: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0.0, 3.0)}
        below |= {"textcoords": "offset points", "annotation_clip": False}
        for i, panel in enumerate(self.axes_):
            row, column = divmod(i, n_columns)
            place = divider.new_locator(4 * column + 2, 3 * (n_rows - row) - 1)
            panel.set_axes_locator(place)
            panel.tick_params(labelsize=size)
            if i + n_columns >= len(self.axes_):
                panel.set_xlabel(label, loc="left", labelpad=2.0)
                panel.xaxis.label.set(size=size, color=GREY)
            weight = f"{100 * self.weights[i]:.1f} %"
            number = f"{self.noun} {self.labels[i]}"
            called = self._topic_label(self.names and self.names[i], number)
            panel.set_title(f"{called} – {weight}", size=size, **title)
            if self.relations is not None:
                text = self.relations[i]
                panel.annotate(text, (0.0, 1.0), size=size, color=GREY, **below)

    @property
    def _head(self):
        """Number of lines of a title and of the text below it."""
        return TITLE + BELOW * (self.relations is not None)


def _relations(distr, ranking: Ranking, rows, numbers, noun) -> list[str]:
    """Return the most similar other topic of each, common topics left out."""
    result = []
    for k in rows:
        overlap = np.minimum(distr[k], distr).sum(axis=1)
        overlap[ranking.is_common] = 0.0
        overlap[k] = 0.0
        best = int(overlap.argmax())
        share, is_like = f"{100 * overlap[best]:.0f} %", overlap[best] >= LEAST_OVERLAP
        result.append(f"{share} shared with {noun} {numbers[best]}" if is_like else "")
    return result
