"""Scores of topics: whether their terms occur together, and are their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.utils import fitted as read
from skbnp.utils import validation as valid
from skbnp.utils.typing import Array, Ints
from skbnp.utils.warnings import warn_caller

#: Added to probabilities before a logarithm, as by gensim.
EPSILON = 1e-12


@valid.validated(
    measure=[valid.StrOptions({"npmi", "umass"})], n_terms=[valid.at_least(2)]
)
def topic_coherence(
    topics: Any,
    X: Any,
    *,
    measure: str = "npmi",
    n_terms: int = 10,
) -> Array:
    """Measure how much the terms of each topic occur together.

    Parameters
    ----------
    topics : fitted topic model, Pipeline or array-like
        A model, or anybody's topics as an array of shape (n_components, n_features), of
        which the largest entries are taken.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), or iterable
        Reference documents: counts of the same columns; raw documents for a text
        Pipeline.
    measure : {"npmi", "umass"}, default="npmi"
        What is computed of the terms of a topic, see Notes.
    n_terms : int, default=10
        Terms of each topic.

    Returns
    -------
    coherence : ndarray of float of shape (n_components,)
        One value for each topic, larger is better. "npmi" is in [-1, 1], and "umass" is
        at most 0. nan for topics that are not in use, and for those of which fewer than
        two terms occur in `X`: ``numpy.nanmean`` is the coherence of a model.

    Raises
    ------
    TypeError
        If components have signs.
    ValueError
        If `X` has no documents with tokens or another number of columns.

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
    Let p(i) be the share of documents with term i, p(i, j) that of those with both,
    and e = 1e-12.

    - "npmi": mean of log((p(i, j) + e) / (p(i) p(j))) / -log(p(i, j) + e) over pairs
      [1]_;
    - "umass": mean of log((p(i, j) + e) / p(j)) over pairs of which j is the more
      probable in the topic [2]_.

    Values equal those of ``gensim.models.CoherenceModel``, of windows that are longer
    than documents; it has windows of few tokens, and the measure c_v, too. NPMI of
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

    Examples
    --------
    >>> from skbnp.metrics import topic_coherence
    >>> X = [[1, 1, 0, 0], [2, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 2]]
    >>> topic_coherence([[3, 2, 0, 0], [3, 0, 0, 2]], X).round(3).tolist()
    [1.0, -0.95]
    """
    columns = read.leading_columns(topics, n_terms)
    counted = np.unique(np.concatenate([*columns, np.zeros(0, dtype=np.intp)]))
    counts = _reference(topics, read.documents_of(X))
    n = int((np.diff(counts.indptr) > 0).sum())
    if n == 0:
        raise ValueError("X must have a document with tokens, got none.")
    present = sp.csr_array(sp.csc_array(counts)[:, counted]).sign()
    together = sp.csr_array(present.T @ present)
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


def _npmi(joint: Array) -> float:
    """Mean normalised pointwise mutual information of pairs."""
    single = joint.diagonal()
    raised = joint + EPSILON
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.log(raised / np.outer(single, single)) / -np.log(raised)
    values = np.where(joint >= 1.0, 0.0, values)
    return float(values[~np.eye(len(values), dtype=bool)].mean())


def _umass(joint: Array) -> float:
    """UMass coherence of pairs of terms, from counts of documents."""
    later, before = np.tril_indices(len(joint), -1)
    conditional = (joint[later, before] + EPSILON) / joint.diagonal()[before]
    return float(np.log(conditional).mean())


MEASURES = {"npmi": _npmi, "umass": _umass}


def _reference(topics: Any, X: Any) -> sp.csr_array:
    """Check counts of reference documents in the columns of topics."""
    rows = read.model_rows(topics, X)
    own = getattr(rows, "columns", None)
    counts = valid.check_counts(rows, whom="topic_coherence")
    counts.eliminate_zeros()
    n_features = read.topics(topics)[1].shape[1]
    if counts.shape[1] != n_features:
        raise ValueError(
            f"X has {counts.shape[1]} columns, but topics have {n_features}."
        )
    if own is None or not isinstance(own[0], str):
        return counts
    known = getattr(read.fitted_model(topics), "feature_names_in_", own)
    if list(own) != list(known):
        raise ValueError("X must have the columns of topics, in their order.")
    return counts


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


@valid.validated()
def topic_diversity(topics: Any, *, n_terms: int = 25) -> float:
    """Measure how many of the leading terms of topics are different.

    Parameters
    ----------
    topics : fitted topic model, Pipeline or array-like
        A model, or an array of shape (n_components, n_features). Of a model, topics in
        use count.
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
    >>> topic_diversity([[3, 2, 0], [0, 2, 3]], n_terms=2)
    0.75
    """
    columns = read.leading_columns(topics, n_terms)
    terms = np.concatenate([*columns, np.zeros(0, dtype=np.intp)])
    if len(terms) == 0:
        raise ValueError("topics must have a term, got none.")
    return len(np.unique(terms)) / len(terms)
