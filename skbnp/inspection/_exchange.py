"""Export of fits: to pyLDAvis and scikit-learn's LDA."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma
from sklearn.base import BaseEstimator
from sklearn.decomposition import LatentDirichletAllocation

from skbnp.utils import fitted as read
from skbnp.utils.validation import check_counts, validated


@validated()
def to_pyldavis(
    estimator: BaseEstimator, X: Any, feature_names: ArrayLike | None = None
) -> dict[str, Any]:
    """Return what ``pyLDAvis.prepare`` takes.

    ``pyLDAvis.prepare(**to_pyldavis(estimator, X))`` makes its interactive page of
    topics [1]_; pyLDAvis itself is not needed here.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything whose `transform` returns the share of each topic in each document.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str
        Documents; raw ones for a text Pipeline.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.

    Returns
    -------
    data : dict
        "topic_term_dists" of shape (n_topics, n_terms) and "doc_topic_dists" of shape
        (n_docs, n_topics), rows sum to one; "doc_lengths" (n_docs,), "vocab" (n_terms,)
        and "term_frequency" (n_terms,). Left out is what pyLDAvis cannot show: topics
        not in use, terms that `X` does not have, and documents without tokens.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If components are directions, not words of documents.
    ValueError
        If `X` has no tokens, `feature_names` does not name every column, or one topic
        is in use, which pyLDAvis cannot show.

    See Also
    --------
    to_lda : The topics as an estimator of scikit-learn.

    Notes
    -----
    pyLDAvis numbers topics anew, by their tokens in `X`. With ``sort_topics=False`` its
    topic k is the k-th in use, in the order of `components_`.

    References
    ----------
    .. [1] Carson Sievert and Kenneth E. Shirley, "LDAvis: A Method for Visualizing and
       Interpreting Topics", 2014.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.inspection import to_pyldavis
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 9
    >>> hdp = HDP(2, split_merge=False, random_state=0).fit(X)
    >>> data = to_pyldavis(hdp, X, ["rain", "snow", "sun"])
    >>> data["topic_term_dists"].shape, data["doc_lengths"][:4].tolist()
    ((2, 3), [9, 8, 8, 15])
    """
    instead = "use topics_to_frame, or TopicTreeDisplay"
    model, used = read.model_of_words(estimator, instead), read.in_use(estimator)
    if used.sum() < 2:
        raise ValueError(
            f"estimator must have two topics in use or more, got {used.sum()}: "
            "pyLDAvis places topics by distances. Use top_terms or TopicTermsDisplay."
        )
    distr = read.distributions(estimator)
    names = read.column_names(estimator, distr.shape[1], feature_names)
    counts = check_counts(read.model_rows(estimator, X), whom="to_pyldavis")
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    frequency = np.asarray(counts.sum(axis=0)).ravel()
    has_tokens, occurs = lengths > 0.0, frequency > 0.0
    if not has_tokens.any():
        raise ValueError("X must have a document with tokens, got none.")
    shares = read.in_memory(model.transform(counts[has_tokens]))[:, used]
    distr = distr[used][:, occurs]
    return {
        "topic_term_dists": read.normalised_rows(distr),
        "doc_topic_dists": read.normalised_rows(shares.astype(np.float64, copy=False)),
        "doc_lengths": _whole(lengths[has_tokens]),
        "vocab": names[occurs],
        "term_frequency": _whole(frequency[occurs]),
    }


def _whole(values):
    """Return values as integers, if all are whole."""
    is_whole = (values == np.rint(values)).all()
    return values.astype(np.int64) if is_whole else values


@validated()
def to_lda(estimator: BaseEstimator) -> LatentDirichletAllocation:
    """Return the topics as a fitted LatentDirichletAllocation of scikit-learn.

    Its `transform`, `score` and `perplexity` are those of the topics; `partial_fit`
    goes on from them, with `total_samples` set to the documents there are in all.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything with non-negative `components_`.

    Returns
    -------
    lda : LatentDirichletAllocation
        Fitted, with the topics in use in the order of `components_`.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If components are directions, not words of documents.

    See Also
    --------
    to_pyldavis : The topics for pyLDAvis.

    Notes
    -----
    An LDA of scikit-learn has one Dirichlet parameter for all topics of a document:
    where a topic k has `doc_concentration_` * `topic_weights_[k]`, it gets their mean,
    so that rare topics gain a little in short documents. Models without
    `doc_concentration_` get scikit-learn's default, 1 / n_components. A tree of topics
    becomes flat: each document may mix all of its nodes.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.inspection import to_lda
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 9
    >>> hdp = HDP(2, split_merge=False, random_state=0).fit(X)
    >>> lda = to_lda(hdp)
    >>> bool(abs(lda.transform(X) - hdp.transform(X)).max() < 0.05)
    True
    """
    instead = "use topics_to_frame, or TopicTreeDisplay"
    model, used = read.model_of_words(estimator, instead), read.in_use(estimator)
    components = np.array(read.fitted(estimator, "components_"), dtype=np.float64)[used]
    doc_prior, topic_prior = None, getattr(model, "topic_word_prior_", None)
    if hasattr(model, "doc_concentration_"):
        doc_prior = float(
            read.concentration_of(model) * model.topic_weights_[used].sum() / used.sum()
        )
    if topic_prior is not None:  # which is at most one there
        topic_prior = min(float(np.mean(topic_prior)), 1.0)
    lda = LatentDirichletAllocation(
        len(components), doc_topic_prior=doc_prior, topic_word_prior=topic_prior
    )
    # One document teaches it its vocabulary and priors, before topics are put in.
    lda.set_params(max_iter=1, random_state=0).fit(np.ones((1, components.shape[1])))
    default = LatentDirichletAllocation()
    lda.set_params(max_iter=default.max_iter, random_state=default.random_state)
    lda.components_ = components
    del lda.bound_  # that of one document
    log_distr = digamma(components) - digamma(components.sum(axis=1, keepdims=True))
    lda.exp_dirichlet_component_ = np.exp(log_distr)
    if hasattr(model, "feature_names_in_"):
        lda.feature_names_in_ = model.feature_names_in_
    return lda
