"""Tables of topics over time: shares by epoch, and topics that begin late."""

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from skbnp.inspection._terms import check_shares, top_terms
from skbnp.utils import fitted as read
from skbnp.utils.labels import check_after, check_labels, warn_if_few_rows
from skbnp.utils.ordering import largest
from skbnp.utils.validation import POSITIVE, at_least, validate_params

if TYPE_CHECKING:
    from pandas import DataFrame

#: Probability that chance alone makes any topic of a frame begin in any epoch.
CHANCE = 0.05


def _pandas():
    """Import pandas, or raise ImportError with advice."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "This frame needs pandas; install it with `pip install pandas`."
        ) from error
    return pd


def parent_ids(record):
    """Return the id of the parent of each node; -1 for the root."""
    ids = record.component_ids
    return np.where(record.tree.parent >= 0, ids[record.tree.parent], -1)


def terms_of(directions, names, n_terms):
    """Terms of the largest entries of each direction, none with entry zero."""
    result = []
    for row in range(directions.shape[0]):
        part = directions[[row]]
        best = largest(part.data, n_terms).tolist() if part.nnz else []
        chosen = [place for place in best if part.data[place] > 0.0]
        result.append([str(names[part.indices[place]]) for place in chosen])
    return result


def _is_native(estimator):
    """Whether a model itself has learned epochs."""
    return hasattr(read.fitted_model(estimator), "epochs_")


@validate_params({"n_terms": [POSITIVE]})
def topics_over_time(
    estimator: BaseEstimator,
    X: Any = None,
    epochs: Any = None,
    feature_names: ArrayLike | None = None,
    *,
    n_terms: int = 5,
) -> "DataFrame":
    """List the share of each topic in each epoch.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything whose `transform` returns the share of each topic in each document.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
            default=None
        What `estimator` takes, raw documents for a text Pipeline: shares are those in
        its rows, by `transform`. None lists the epochs that `DependentTrees` has
        learned, which alone needs no rows.
    epochs : array-like of shape (n_samples,), default=None
        Label of time of each row of `X`, of any kind that `DependentTrees` takes.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    n_terms : int, default=5
        Terms of each topic.

    Returns
    -------
    frame : pandas DataFrame
        One row for each topic in each epoch of `X`:

        - "epoch": label; periods and intervals are texts;
        - "topic": the id, or in a tree without epochs the row of `components_`;
        - "n_tokens": expected tokens of the topic, of directions rows;
        - "share": of all tokens of the epoch;
        - "n_samples": documents with one such token at least, of directions those with
          half of their share at the node;
        - "is_new": whether the topic begins in the epoch: its share is half of its peak
          or more for the first time, and was a tenth of the peak at most in all epochs
          before, which have so many documents that this is no chance;
        - "terms": the most probable ones.

        Without `X`, one row for each topic that is in the tree of an epoch: "epoch",
        "terms" of its direction then, and

        - "topic": the id, which a topic keeps over epochs;
        - "parent": id of the node above, -1 at the root; "depth": edges to the root;
        - "n_samples": expected rows at the node itself; "share": of those of the epoch;
        - "share_below": with the rows at all nodes below it;
        - "is_new": whether it was in no epoch before;
        - "cosine": to its direction in the epoch before; nan if it was not there.

    Raises
    ------
    ImportError
        If pandas is not installed.
    TypeError
        If the estimator has no `epochs_` and `X` is None, or its `transform` does not
        return shares.
    ValueError
        If `epochs` has not one label for each row of `X`.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.inspection import topics_over_time
    >>> X, years = [[9, 0], [5, 1], [0, 8], [1, 9]] * 9, [2001, 2001, 2002, 2003] * 9
    >>> hdp = HDP(n_components=2, random_state=0).fit(X)
    >>> frame = topics_over_time(hdp, X, years)
    >>> frame.groupby("epoch")["share"].sum().round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    _pandas()
    if X is None:
        return _epochs_of_trees(estimator, feature_names, n_terms)
    frame, _, _ = _epochs_of_rows(estimator, X, epochs, feature_names, n_terms)
    return frame


def _epochs_of_trees(estimator, feature_names, n_terms):
    """Return a frame of the shares of nodes of dependent trees by epoch."""
    if not _is_native(estimator):
        name = type(read.fitted_model(estimator)).__name__
        raise TypeError(
            f"estimator must have `epochs_` where X is None, {name} has not: pass rows "
            "X, and epochs with the label of time of each."
        )
    epochs = read.fitted(estimator, "epochs_")
    pd = _pandas()
    first = next(iter(epochs.values()))
    names = read.column_names(estimator, first.components.shape[1], feature_names)
    parts, before = [], None
    known: set[int] = set()
    for label, record in epochs.items():
        ids = record.component_ids
        total = max(float(record.masses.sum()), 1e-300)
        cosines = np.full(len(ids), np.nan)
        if before is not None:
            given = ids, before.component_ids
            _, now, then = np.intersect1d(*given, return_indices=True)
            products = record.components[now].multiply(before.components[then])
            cosines[now] = np.asarray(products.sum(axis=1)).ravel()
        part = pd.DataFrame(
            {
                "epoch": [label] * len(ids),
                "topic": ids,
                "parent": parent_ids(record),
                "depth": record.tree.depth,
                "n_samples": record.masses,
                "share": record.masses / total,
                "share_below": record.tree.weight,
                "is_new": [node not in known for node in ids.tolist()],
                "cosine": cosines,
                "terms": terms_of(record.components, names, n_terms),
            }
        )
        parts.append(part)
        known |= set(ids.tolist())
        before = record
    return pd.concat(parts, ignore_index=True)


def _epochs_of_rows(estimator, X, epochs, feature_names, n_terms):
    """Return a frame of shares in rows by epoch; also their labels and tokens."""
    if epochs is None:
        raise ValueError(
            "epochs must have the label of time of each row of X, got None. Names of "
            "columns are passed as feature_names=."
        )
    terms = top_terms(estimator, feature_names, n_terms)
    model, rows = read.fitted_model(estimator), read.model_rows(estimator, X)
    if _is_native(estimator):
        shares = model.transform(rows, epochs=epochs)
        lengths, least = np.ones(shares.shape[0]), 0.5
    else:
        shares = model.transform(rows)
        counts = rows if sp.issparse(rows) else np.asarray(rows, dtype=np.float64)
        lengths, least = np.asarray(counts.sum(axis=1)).ravel(), 1.0
    # A sparse matrix may leave out topics of which a document has no tokens.
    least_sum = 0.0 if sp.issparse(shares) else 1.0
    shares = np.asarray(read.in_memory(shares), dtype=np.float64)
    check_shares(model, shares, least_sum)
    tokens = shares * lengths[:, None]
    labels = check_labels(epochs, len(tokens))
    if not _is_native(estimator):  # a fit has warned before
        check_after(labels.distinct, labels.order)
        warn_if_few_rows([len(of) for of in labels.rows()], labels.distinct)
    ids = read.topic_numbers(estimator, len(terms))
    rows_of = labels.rows()
    n_tokens = np.array([tokens[of].sum(axis=0) for of in rows_of])
    n_samples = np.array([(tokens[of] >= least).sum(axis=0) for of in rows_of])
    shares = n_tokens / np.maximum(n_tokens.sum(axis=1, keepdims=True), 1e-300)
    squares = np.array([(tokens[of] ** 2).sum(axis=0) for of in rows_of])
    n_documents = np.array([[len(of)] for of in rows_of])
    is_new = _begin(n_tokens, shares, squares, n_documents)
    n = len(labels.distinct)
    columns = {
        "epoch": [label for label in labels.distinct for _ in terms],
        "topic": np.tile(ids, n),
        "n_tokens": n_tokens.ravel(),
        "share": shares.ravel(),
        "n_samples": n_samples.ravel(),
        "is_new": is_new.ravel(),
        "terms": terms * n,
    }
    return _pandas().DataFrame(columns), labels, tokens


def _begin(n_tokens, shares, squares, n_documents):
    """Whether topics begin in an epoch, (n_epochs, n_topics).

    There the share first reaches half of its peak, it was a tenth of that before, and
    by chance documents of the topic would not all be of this epoch, but some of earlier
    ones. The number of documents is that of equal parts of its tokens with this sum of
    squares.
    """
    totals = n_tokens.sum(axis=1, keepdims=True)
    peaks = shares.max(axis=0)
    earlier = np.maximum(np.cumsum(totals, axis=0) - totals, 1e-300)
    before = (np.cumsum(n_tokens, axis=0) - n_tokens) / earlier
    n_with = n_tokens**2 / np.maximum(squares, 1e-300)
    n_until = np.cumsum(n_documents, axis=0)
    evidence = n_with * np.log(n_until / np.maximum(n_documents, 1))  # nats
    is_high = (shares >= 0.5 * peaks) & (peaks > 0.0)
    is_first = is_high & (np.cumsum(is_high, axis=0) == 1)
    has_evidence = evidence >= np.log(n_tokens.size / CHANCE)
    has_evidence[0] = True  # what is there from the beginning
    return is_first & (before <= 0.1 * peaks) & has_evidence


@validate_params(
    {
        "n_terms": [POSITIVE],
        "n_documents": [POSITIVE],
        "min_samples": [at_least(0, Real)],
    }
)
def emerging_topics(
    estimator: BaseEstimator,
    X: Any = None,
    epochs: Any = None,
    feature_names: ArrayLike | None = None,
    *,
    n_terms: int = 5,
    n_documents: int = 5,
    min_samples: float = 1.0,
) -> "DataFrame":
    """List the topics that begin in later epochs, with their first documents.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Of `DependentTrees` and `GibbsDependentTrees`, topics that were born; of any
        other model, those whose share rises, see "is_new" of :func:`topics_over_time`.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
            default=None
        What `estimator` takes, raw documents for a text Pipeline, to choose documents
        from. None, for dependent trees alone, lists no documents.
    epochs : array-like of shape (n_samples,), default=None
        Label of time of each row of `X`.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    n_terms, n_documents : int, default=5
        Terms and documents of each topic.
    min_samples : float, default=1.0
        Least expected rows that a topic has in the epoch of its birth; of other models,
        documents with a token of it.

    Returns
    -------
    frame : pandas DataFrame
        One row for each topic, in the order of epochs and then of shares: "epoch",
        "topic", "parent" (of dependent trees), "share", "terms", and "documents", rows
        of `X` of this epoch: of dependent trees those that are nearer to the topic than
        to any other, the nearest first, of other models those with most of its tokens.

    Raises
    ------
    ImportError
        If pandas is not installed.
    TypeError
        If the estimator has no `epochs_` and `X` is None, or its `transform` does not
        return shares.
    ValueError
        If `X` is given without `epochs`, or has another number of features.
    """
    _pandas()
    if X is not None and epochs is None:
        raise ValueError("epochs must have the label of each row of X, got None.")
    if X is not None and not _is_native(estimator):
        given = estimator, X, epochs, feature_names, n_terms
        return _beginnings(*given, n_documents, min_samples)
    frame = _epochs_of_trees(estimator, feature_names, n_terms)
    records = read.fitted(estimator, "epochs_")
    result = _new(frame, min_samples)[["epoch", "topic", "parent", "share", "terms"]]
    documents: list[list[int]] = [[] for _ in range(len(result))]
    if X is not None:
        rows = sp.csr_array(read.model_rows(estimator, X))
        labels = check_labels(epochs, rows.shape[0])
        rows_of = dict(zip(labels.distinct, labels.rows(), strict=True))
        for label in result["epoch"].unique():
            of = rows_of.get(label, np.zeros(0, dtype=np.intp))
            near = _nearest(rows[of], records[label])
            for at in np.flatnonzero(result["epoch"] == label):
                chosen = near[int(result["topic"].iloc[at])][:n_documents]
                documents[at] = of[chosen].tolist()
    return result.assign(documents=documents)


def _new(frame, min_samples):
    """Choose topics that begin after the first epoch; sort by epochs, then shares."""
    is_new = frame["is_new"] & (frame["n_samples"] >= min_samples)
    frame = frame[is_new & (frame["epoch"] != frame["epoch"].iloc[0])]
    places, _ = frame["epoch"].factorize()
    ranked = np.lexsort((frame["topic"], -frame["share"], places))
    return frame.iloc[ranked].reset_index(drop=True)


def _beginnings(estimator, X, epochs, feature_names, n_terms, n_documents, min_samples):
    """Return a frame of the topics that begin after the first epoch of rows."""
    given = estimator, X, epochs, feature_names, n_terms
    frame, labels, tokens = _epochs_of_rows(*given)
    result = _new(frame, min_samples)
    place = {topic: at for at, topic in enumerate(frame["topic"][: tokens.shape[1]])}
    rows_of = dict(zip(labels.distinct, labels.rows(), strict=True))
    documents = []
    for label, topic in zip(result["epoch"], result["topic"], strict=True):
        own = tokens[rows_of[label], place[topic]]
        best = largest(own, n_documents)
        documents.append(rows_of[label][best[own[best] > 0.0]].tolist())
    result = result[["epoch", "topic", "share", "terms"]]
    return result.assign(documents=documents)


def _nearest(rows, record):
    """Rows that are nearest to each topic, the nearest first."""
    if rows.shape[1] != record.components.shape[1]:
        raise ValueError(
            f"X has {rows.shape[1]} features, but the topics have "
            f"{record.components.shape[1]}."
        )
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    products = (rows @ record.components.T).toarray()
    cosines = products / np.maximum(lengths, 1e-300)[:, None]
    best = cosines.argmax(axis=1)
    result = {}
    for place, node in enumerate(record.component_ids.tolist()):
        own = np.flatnonzero((best == place) & (lengths > 0.0))
        result[node] = own[np.argsort(-cosines[own, place], kind="stable")]
    return result
