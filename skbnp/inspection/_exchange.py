"""Export of fits: to AnnData, ArviZ, pyLDAvis and scikit-learn's LDA."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma
from sklearn.base import BaseEstimator
from sklearn.decomposition import LatentDirichletAllocation

from skbnp.utils import fitted as read
from skbnp.utils.fitted import FEWEST, has_mixed
from skbnp.utils.lazy import import_optional
from skbnp.utils.validation import check_counts, validate_params


@validate_params({})
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


@validate_params({})
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


#: Columns of a history that are statistics of sweeps, and those that ArviZ has no use
#: for; all others are drawn from the posterior.
STATISTICS, UNUSED = ("n_splits", "n_merges", "epoch"), ("chain", "step", "seconds")


def to_anndata(
    estimator: BaseEstimator,
    X: Any,
    *,
    layer: str | None = None,
    key: str = "topics",
    epochs: Any = None,
) -> Any:
    """Write topics and their shares into an AnnData.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Fitted to `X.X`, to the `layer`, or to rows with the same columns.
    X : AnnData, or array-like or sparse of shape (n_samples, n_features)
        What is written to, or rows of which an AnnData is made.
    layer : str or None, default=None
        Counts in `X.layers` in the place of `X.X`.
    key : str, default="topics"
        Names what is written.
    epochs : array-like of shape (n_samples,) or scalar, default=None
        Labels of the epochs of rows, for an estimator whose `transform` takes them.

    Returns
    -------
    adata : AnnData
        `X`, or a new one, with ``obsm["X_" + key]``, what `transform` returns,
        ``varm[key]``, the probabilities of columns in topics, (n_features,
        n_components), or their directions, and ``uns[key]``, a dict of their "numbers",
        "names" and "weights" and of the name of the "model".

    Raises
    ------
    ImportError
        If `X` is no AnnData, and anndata is not installed.
    NotFittedError
        If the model is not fitted.
    TypeError
        If `layer` is given and `X` is no AnnData.
    ValueError
        If `X` has no such layer, or another number of columns.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from skbnp import HDP
    >>> from skbnp.inspection import to_anndata
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 9
    >>> adata = SimpleNamespace(X=X, obsm={}, varm={}, uns={}, layers={})  # an AnnData
    >>> hdp = HDP(2, split_merge=False, random_state=0).fit(adata.X)
    >>> to_anndata(hdp, adata).obsm["X_topics"].shape, adata.varm["topics"].shape
    ((36, 2), (3, 2))
    """
    read.fitted(estimator, "transform")
    model = read.fitted_model(estimator)
    is_given = hasattr(X, "obsm") and hasattr(X, "uns")
    if not is_given:
        if layer is not None:
            raise TypeError(
                f"layer must be None where X is no AnnData, got {layer!r} and a "
                f"{type(X).__name__}."
            )
        anndata = import_optional("anndata", "An AnnData needs anndata", "anndata")
    elif layer is not None and layer not in X.layers:
        raise ValueError(
            f"layer must be one of {sorted(X.layers)[:10]}, got {layer!r}."
        )
    counts = X
    if is_given:
        counts = X.X if layer is None else X.layers[layer]
    counts = read.model_rows(estimator, counts)
    given = {} if epochs is None else {"epochs": epochs}
    shares = model.transform(counts, **given)
    shares = shares.compute() if hasattr(shares, "compute") else shares
    weights, distr = read.topics(estimator)
    names = read.topic_names(estimator, len(weights))
    adata = X if is_given else anndata.AnnData(counts)
    adata.obsm[f"X_{key}"] = shares
    adata.varm[key] = np.ascontiguousarray(np.asarray(read.in_memory(distr)).T)
    adata.uns[key] = {
        "numbers": read.topic_numbers(estimator, len(weights)),
        "names": np.array([name or "" for name in names], dtype=str),
        "weights": np.asarray(weights),
        "model": type(model).__name__,
    }
    return adata


def to_arviz(estimator: BaseEstimator) -> Any:
    """Return the chains of a sampler as data of ArviZ.

    Parameters
    ----------
    estimator : fitted sampler, or Pipeline that ends in one
        With `samples_` and a `history_` of its chains.

    Returns
    -------
    data : DataTree or InferenceData
        What ArviZ 1 or 0 takes, a draw for each sweep after burn-in: "posterior", the
        number of topics, and concentrations and priors; "sample_stats", the log joint
        in nats per token or row, "lp", and the number of moves.

    Raises
    ------
    ImportError
        If neither arviz-base nor ArviZ is installed.
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model is no sampler.
    ValueError
        If there are fewer than eight sweeps after burn-in.

    See Also
    --------
    TopicTraceDisplay : The largest topics of each sample, drawn.

    Notes
    -----
    Topics have no order that chains agree on, so their own weights are left out:
    :func:`consensus_components` lists the topics that recur.
    """
    posterior, statistics = chain_arrays(estimator)
    groups = {"posterior": posterior, "sample_stats": statistics}
    try:
        import arviz_base
    except ImportError:
        arviz = import_optional("arviz", "Data of ArviZ need it", "arviz-base")
        return arviz.from_dict(**groups)
    return arviz_base.from_dict(groups)


def chain_arrays(estimator: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return draws and statistics of sweeps of chains, (n_chains, n_draws, ...)."""
    read.fitted(estimator, "samples_")
    model = read.fitted_model(estimator)
    traces = {name: has_mixed(model, name) for name in model.history_}
    if traces["log_joint"] is None:
        raise ValueError(
            f"estimator must have chains of {FEWEST} sweeps or more after burn-in: "
            "increase max_iter, or decrease burn_in."
        )
    posterior = {name: traces[name] for name in traces if name not in UNUSED}
    statistics = {"lp": posterior.pop("log_joint")}
    statistics |= {of: posterior.pop(of) for of in STATISTICS if of in posterior}
    return posterior, statistics
