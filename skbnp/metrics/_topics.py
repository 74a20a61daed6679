"""Scores of topics: whether their terms occur together, and are their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from skbnp.utils import fitted as read
from skbnp.utils.arrays import largest
from skbnp.utils.typing import Array, Ints
from skbnp.utils.validation import (
    POSITIVE,
    UNIT,
    StrOptions,
    at_least,
    check_counts,
    validate_params,
)
from skbnp.utils.warnings import warn_caller

#: Added to probabilities before a logarithm, as by gensim.
EPSILON = 1e-12
#: Marks of terms in windows that are made at once.
MARKS_AT_ONCE = 1 << 22


@validate_params(
    {
        "measure": [StrOptions({"npmi", "umass", "c_v"})],
        "n_terms": [at_least(2)],
        "window": [at_least(2), None],
    }
)
def topic_coherence(
    topics: Any,
    X: Any,
    feature_names: ArrayLike | None = None,
    *,
    measure: str = "npmi",
    n_terms: int = 10,
    window: int | None = None,
) -> Array:
    """Measure how much the terms of each topic occur together.

    Parameters
    ----------
    topics : fitted topic model, Pipeline, array-like or list of list of str
        A model, or anybody's topics as an array of shape (n_components, n_features), of
        which the largest entries are taken; or the terms of each topic, the most
        probable first.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), or iterable
        Reference documents: counts of the same columns; raw documents for a text
        Pipeline; or lists of tokens, which are looked up by the names of terms.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of columns, as in :func:`skbnp.inspection.top_terms`.
    measure : {"npmi", "umass", "c_v"}, default="npmi"
        What is computed of the terms of a topic, see Notes.
    n_terms : int, default=10
        Terms of each topic.
    window : int, default=None
        Terms occur together if they are among so many consecutive tokens; `None` means
        in a document. Needs lists of tokens.

    Returns
    -------
    coherence : ndarray of float of shape (n_components,)
        One value for each topic, larger is better. "npmi" is in [-1, 1], "c_v" in
        [-1, 1], and "umass" is at most 0. nan for topics that are not in use, and for
        those of which fewer than two terms occur in `X`: ``numpy.nanmean`` is the
        coherence of a model.

    Raises
    ------
    TypeError
        If components have signs, or tokens are needed.
    ValueError
        If `X` has no documents with tokens or another number of columns, or terms
        have no names by which they could be found.

    Warns
    -----
    UserWarning
        If half of the terms of a topic, or more, occur in no document of `X`.

    See Also
    --------
    topic_diversity : Whether topics have terms of their own.
    document_completion_score : How well topics predict words.

    Notes
    -----
    Let p(i) be the share of documents, or of windows, with term i, p(i, j) that of
    those with both, and e = 1e-12.

    - "npmi": mean of log((p(i, j) + e) / (p(i) p(j))) / -log(p(i, j) + e) over pairs
      [1]_;
    - "umass": mean of log((p(i, j) + e) / p(j)) over pairs of which j is the more
      probable in the topic [2]_;
    - "c_v": each term is the vector of its NPMI with all of them, itself included;
      mean cosine of the vectors with their sum [3]_, in the paper with windows of 110
      tokens.

    Values equal those of ``gensim.models.CoherenceModel`` for the same windows. NPMI of
    terms that both occur in every document is 0 here, for they tell nothing; gensim has
    -1. Terms that occur in no document are left out. Reference [2]_ adds 1 to counts of
    documents, gensim e to probabilities: one pair that never occurs together
    dominates the mean.

    References
    ----------
    .. [1] Nikolaos Aletras and Mark Stevenson, "Evaluating Topic Coherence Using
       Distributional Semantics", IWCS 2013.
    .. [2] David Mimno, Hanna Wallach, Edmund Talley, Miriam Leenders and Andrew
       McCallum, "Optimizing Semantic Coherence in Topic Models", EMNLP 2011.
    .. [3] Michael Röder, Andreas Both and Alexander Hinneburg, "Exploring the Space of
       Topic Coherence Measures", WSDM 2015.

    Examples
    --------
    >>> from skbnp.metrics import topic_coherence
    >>> texts = [["sun", "rain"], ["rain", "sun"], ["oil", "coal"], ["coal", "oil"]]
    >>> topic_coherence([["sun", "rain"], ["sun", "coal"]], texts).round(3).tolist()
    [1.0, -0.95]
    """
    topics, X = read.listed_terms(topics), _listed(X)
    columns, names = read.leading_columns(topics, n_terms, feature_names, X)
    counted, together, n = _co_occurrences(
        topics, X, columns, names, window, feature_names
    )
    coherence, n_absent = np.full(len(columns), np.nan), []
    for k, of_topic in enumerate(columns):
        place = np.searchsorted(counted, of_topic)
        joint = together[place][:, place].toarray() / n
        occurs = joint.diagonal() > 0.0
        joint = joint[occurs][:, occurs]
        n_absent.append((~occurs).sum())
        if len(joint) >= 2:
            coherence[k] = MEASURES[measure](joint)
    _warn_if_absent(columns, np.array(n_absent))
    return coherence


def _npmi(joint: Array) -> Array:
    """Normalised pointwise mutual information of pairs, 1 of a term with itself."""
    single = joint.diagonal()
    raised = joint + EPSILON
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.log(raised / np.outer(single, single)) / -np.log(raised)
    return np.where(joint >= 1.0, 0.0, values)


def _mean_npmi(joint: Array) -> float:
    values = _npmi(joint)
    return float(values[~np.eye(len(values), dtype=bool)].mean())


def _umass(joint: Array) -> float:
    """UMass coherence of pairs of terms, from counts of documents."""
    later, before = np.tril_indices(len(joint), -1)
    conditional = (joint[later, before] + EPSILON) / joint.diagonal()[before]
    return float(np.log(conditional).mean())


def _c_v(joint: Array) -> float:
    """Mean cosine of the NPMI vector of each term and the sum of all."""
    vectors = _npmi(joint)
    total = vectors.sum(axis=0)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(total)
    return float((vectors @ total / np.where(lengths > 0.0, lengths, 1.0)).mean())


MEASURES = {"npmi": _mean_npmi, "umass": _umass, "c_v": _c_v}


def _co_occurrences(
    topics: Any,
    X: Any,
    columns: Sequence[Ints],
    names: NDArray[np.object_] | None,
    window: int | None,
    feature_names: ArrayLike | None,
) -> tuple[Ints, sp.csr_array, int]:
    """Count windows with two terms; return terms, counts, and the number of windows.

    Counts have shape (n_terms, n_terms).
    """
    counted = np.unique(np.concatenate([*columns, np.zeros(0, dtype=np.intp)]))
    has_names = read.is_term_lists(topics) or read.are_named(topics, feature_names)
    if _are_token_lists(X):
        if names is None or not has_names:
            raise ValueError(
                "feature_names must name the columns of topics where X is lists of "
                "tokens, got None."
            )
        marks = _windows(X, [str(name) for name in names[counted]], window)
        total, n = sp.csr_array((len(counted), len(counted))), 0
        for part in marks:
            total, n = total + part.T @ part, n + part.shape[0]
    else:
        if window is not None:
            raise TypeError(
                "X must be lists of tokens where window is given, for counts do not "
                "tell their order: pass [analyze(text) for text in texts] with "
                "analyze = CountVectorizer(...).build_analyzer()."
            )
        counts = _reference(topics, X, names)
        present = sp.csc_array(counts)[:, counted]
        present.data = np.ones_like(present.data)
        total = sp.csr_array(present.T @ present)
        n = int((np.diff(counts.indptr) > 0).sum())
    if n == 0:
        raise ValueError("X must have a document with tokens, got none.")
    return counted, sp.csr_array(total), n


def _reference(topics: Any, X: Any, names: NDArray[np.object_] | None) -> sp.csr_array:
    """Check counts of reference documents in the columns of topics."""
    rows = X if read.is_term_lists(topics) else read.model_rows(topics, X)
    own = getattr(rows, "columns", None)
    counts = check_counts(rows, whom="topic_coherence")
    counts.eliminate_zeros()
    n_features = counts.shape[1] if names is None else len(names)
    if counts.shape[1] != n_features:
        raise ValueError(
            f"X has {counts.shape[1]} columns, but topics have {n_features}."
        )
    if read.is_term_lists(topics) or own is None or not isinstance(own[0], str):
        return counts
    known = getattr(read.fitted_model(topics), "feature_names_in_", own)
    if list(own) != list(known):
        raise ValueError("X must have the columns of topics, in their order.")
    return counts


def _listed(X: Any) -> Any:
    """Return texts, or lists of tokens, of other containers as lists."""
    if getattr(X, "ndim", 0) == 1 and not sp.issparse(X):
        X = list(X)
    is_text = isinstance(X, np.ndarray) and X.dtype.kind in "OUT" and X.size > 0
    if is_text and isinstance(X.flat[0], str):
        X = X.tolist()
    return read.documents_of(X)


def _are_token_lists(X: Any) -> bool:
    """Whether documents are lists of tokens."""
    if not isinstance(X, (list, tuple)):
        return False
    first = next((doc for doc in X if len(doc) > 0), None)
    return isinstance(first, (list, tuple, np.ndarray)) and isinstance(first[0], str)


def _windows(
    texts: Sequence[Sequence[str]], terms: Sequence[str], window: int | None
) -> Iterator[sp.csr_array]:
    """Yield the presence of terms in windows, (n_windows, n_terms), in parts."""
    number = {term: j for j, term in enumerate(terms)}
    rows: list[NDArray] = []
    result: list[NDArray] = []
    n_rows, n_marks = 0, 0

    def made() -> sp.csr_array:
        """Return the matrix of the windows collected so far."""
        at = (np.concatenate(rows), np.concatenate(result))
        part = sp.csr_array((np.ones(len(at[0])), at), shape=(n_rows, len(terms)))
        return part.sign()  # entries of one place are summed

    for tokens in texts:
        if len(tokens) == 0:
            continue
        ids = np.array([number.get(token, -1) for token in tokens])
        place = np.flatnonzero(ids >= 0)
        width = len(ids) if window is None else min(window, len(ids))
        last = len(ids) - width  # start of the last window
        first = np.maximum(place - width + 1, 0)
        n_starts = np.minimum(place, last) - first + 1
        offset = np.arange(n_starts.sum()) - np.repeat(
            np.cumsum(n_starts) - n_starts, n_starts
        )
        rows.append(n_rows + np.repeat(first, n_starts) + offset)
        result.append(np.repeat(ids[place], n_starts))
        n_rows, n_marks = n_rows + last + 1, n_marks + len(offset)
        if n_marks >= MARKS_AT_ONCE:
            yield made()
            rows, result, n_rows, n_marks = [], [], 0, 0
    if n_rows > 0:
        yield made()


def _warn_if_absent(columns: Sequence[Ints], n_absent: NDArray) -> None:
    """Warn of topics whose terms are absent in the reference."""
    sizes = np.array([len(of_topic) for of_topic in columns])
    n_topics = int(((2 * n_absent >= sizes) & (sizes > 0)).sum())
    if n_topics > 0:
        warn_caller(
            f"Half of the terms of {n_topics} topics or more occur in no document of "
            "X: their coherence is that of the terms that do. Use a larger reference, "
            "with the same spelling of terms."
        )


@validate_params({"n_terms": [POSITIVE]})
def topic_diversity(topics: Any, *, n_terms: int = 25) -> float:
    """Measure how many of the leading terms of topics are different.

    Parameters
    ----------
    topics : fitted topic model, Pipeline, array-like or list of list of str
        A model, an array of shape (n_components, n_features), or lists of terms. Of a
        model, topics in use count.
    n_terms : int, default=25
        Terms of each topic.

    Returns
    -------
    diversity : float
        Share of different terms among the `n_terms` most probable of all topics [1]_:
        1 if no two topics share one, 1 / n_components if all have the same.

    Raises
    ------
    TypeError
        If components have signs.
    ValueError
        If no topic has a term.

    See Also
    --------
    topic_exclusivity : The same question for each topic, by probabilities.

    Notes
    -----
    Diversity falls with the number of topics, and with their number of terms: compare
    models of about as many topics.

    References
    ----------
    .. [1] Adji B. Dieng, Francisco J. R. Ruiz and David M. Blei, "Topic Modeling in
       Embedding Spaces", TACL 8, 2020.

    Examples
    --------
    >>> from skbnp.metrics import topic_diversity
    >>> topic_diversity([["sun", "rain"], ["coal", "rain"]])
    0.75
    """
    columns, _ = read.leading_columns(read.listed_terms(topics), n_terms)
    terms = np.concatenate([*columns, np.zeros(0, dtype=np.intp)])
    if len(terms) == 0:
        raise ValueError("topics must have a term, got none.")
    return len(np.unique(terms)) / len(terms)


@validate_params({"n_terms": [POSITIVE], "weight": [UNIT]})
def topic_exclusivity(topics: Any, *, n_terms: int = 10, weight: float = 0.7) -> Array:
    """Measure how much the leading terms of each topic are its own.

    Parameters
    ----------
    topics : fitted topic model, Pipeline, or array-like
        A model, or anybody's topics as an array of shape (n_components, n_features).
    n_terms : int, default=10
        Terms of each topic.
    weight : float, default=0.7
        Weight of exclusivity against frequency, in [0, 1].

    Returns
    -------
    exclusivity : ndarray of float of shape (n_components,)
        Mean FREX of the most probable terms of each topic, in (0, 1]; nan for topics
        that are not in use.

    Raises
    ------
    TypeError
        If components have signs, or topics are lists of terms, without probabilities.

    See Also
    --------
    topic_diversity : One number for all topics.
    skbnp.inspection.top_terms : With `relevance`, terms ranked by what is their own.

    Notes
    -----
    FREX of term w in topic k is the harmonic mean [1]_

        1 / (weight / E_k(phi_kw / sum_l phi_lw) + (1 - weight) / F_k(phi_kw)),

    where E_k and F_k are ranks among all terms of the topic, divided by their number.
    ``exclusivity`` of the R package stm is `n_terms` times this.

    References
    ----------
    .. [1] Jonathan M. Bischof and Edoardo M. Airoldi, "Summarizing Topical Content with
       Word Frequency and Exclusivity", ICML 2012.

    Examples
    --------
    >>> from skbnp.metrics import topic_exclusivity
    >>> phi = [[0.6, 0.3, 0.1, 0.0], [0.6, 0.1, 0.0, 0.3]]
    >>> topic_exclusivity(phi, n_terms=2).round(3).tolist()
    [0.669, 0.86]
    """
    if read.is_term_lists(read.listed_terms(topics)):
        raise TypeError(
            "topics must be a model or an array of probabilities, got lists of terms."
        )
    used = read.in_use(topics)
    distr = read.distributions(topics)[used]
    total = distr.sum(axis=0)
    exclusive = rankdata(distr / np.where(total > 0.0, total, 1.0), axis=1)
    frequent = rankdata(distr, axis=1)
    frex = 1.0 / (weight / exclusive + (1.0 - weight) / frequent) / distr.shape[1]
    result = np.full(len(used), np.nan)
    result[used] = [
        values[largest(row, n_terms)].mean()
        for values, row in zip(frex, distr, strict=True)
    ]
    return result
