"""Topics over time: tables of shares by epoch and of late topics, and a figure."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from skbnp.inspection._displays import (
    BLUE,
    FONT,
    GREY,
    MARGIN,
    VERMILION,
    Display,
    axes_of,
    in_percent,
    legend,
    mark,
    open_frame,
    shortened,
)
from skbnp.inspection._terms import check_shares, top_terms
from skbnp.trees import Tree
from skbnp.utils import fitted as read
from skbnp.utils.arrays import largest, members
from skbnp.utils.labels import check_after, check_labels, warn_if_few_rows
from skbnp.utils.lazy import import_pandas
from skbnp.utils.typing import Ints
from skbnp.utils.validation import (
    POSITIVE,
    UNIT,
    StrOptions,
    at_least,
    row_totals,
    validate_params,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

#: Columns of topics that begin late.
COLUMNS = "epoch", "topic", "parent", "share", "terms"
#: Probability that chance alone makes any topic of a frame begin in any epoch.
CHANCE = 0.05


def parent_ids(record):
    """Return the id of the parent of each node; -1 for the root."""
    ids = record.component_ids
    return np.where(record.tree.parent >= 0, ids[record.tree.parent], -1)


def positive_terms(excess, values, names, n_terms):
    """Terms of the largest excess, where it and the value are positive."""
    best = largest(excess, n_terms)
    return [str(names[j]) for j in best if excess[j] > 0.0 and values[j] > 0.0]


def terms_of(directions, names, n_terms):
    """Terms of the largest entries of each direction, none with entry zero."""
    rows = (directions[[k]].toarray()[0] for k in range(directions.shape[0]))
    return [positive_terms(row, row, names, n_terms) for row in rows]


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
    import_pandas()
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
    pd = import_pandas()
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
        lengths, least = row_totals(rows), 1.0
    # A sparse matrix may leave out topics of which a document has no tokens.
    least_sum = 0.0 if sp.issparse(shares) else 1.0
    shares = np.asarray(read.in_memory(shares), dtype=np.float64)
    check_shares(model, shares, least_sum)
    tokens = shares * lengths[:, None]
    labels = check_labels(epochs, len(tokens))
    if not _is_native(estimator):  # a fit has warned before
        check_after(labels.distinct, labels.order)
        warn_if_few_rows([len(of) for of in labels.rows()], labels.distinct)
    ids, n = read.topic_numbers(estimator, len(terms)), len(labels.distinct)
    of_epochs = members(labels.codes, n)
    n_tokens, n_samples = of_epochs @ tokens, of_epochs @ (tokens >= least)
    shares = n_tokens / np.maximum(n_tokens.sum(axis=1, keepdims=True), 1e-300)
    n_documents = np.bincount(labels.codes, minlength=n)[:, None]
    is_new = _begin(n_tokens, shares, of_epochs @ tokens**2, n_documents)
    columns = {
        "epoch": [label for label in labels.distinct for _ in terms],
        "topic": np.tile(ids, n),
        "n_tokens": n_tokens.ravel(),
        "share": shares.ravel(),
        "n_samples": n_samples.ravel().astype(np.intp),
        "is_new": is_new.ravel(),
        "terms": terms * n,
    }
    return import_pandas().DataFrame(columns), labels, tokens


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
        "since": [at_least(1), None],
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
    since: int | None = None,
) -> "DataFrame":
    """List the topics that begin in later epochs, with their first documents.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Of `DependentTrees` and `GibbsDependentTrees`, topics that were born; of a
        stream of `HDP` without `X`, topics that are new since a call and those that
        have faded; of any other model, those whose share rises, see "is_new" of
        :func:`topics_over_time`.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
            default=None
        What `estimator` takes, raw documents for a text Pipeline, to choose documents
        from. None lists no documents: the births of dependent trees, or the changes of
        a stream by the documents that it keeps.
    epochs : array-like of shape (n_samples,), default=None
        Label of time of each row of `X`.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    n_terms, n_documents : int, default=5
        Terms and documents of each topic.
    min_samples : float, default=1.0
        Least expected rows that a topic has in the epoch of its birth; of a stream,
        documents kept; of other models, documents with a token of it.
    since : int or None, default=None
        Call of a stream (`n_iter_` after it) until which topics are older. None: half
        of the calls of which documents are kept.

    Returns
    -------
    frame : pandas DataFrame
        One row for each topic, in the order of epochs and then of shares: "epoch",
        "topic", "parent" (of dependent trees), "share", "terms", and "documents", rows
        of `X` of this epoch: of dependent trees those that are nearer to the topic than
        to any other, the nearest first, of other models those with most of its tokens.

        Of a stream without `X`, one row for each change, the new ones first, by
        p-value:

        - "epoch": the first call with the topic, or without it; "kind": "new" or
          "faded";
        - "topic": id of the present topic like it, -1 if the model has none yet;
        - "n_documents": with it, expected number of those kept since then, or until
          then; "share": of these;
        - "gain", "error": held-out log probability that documents of half of the sample
          gain by the topic beside all older ones, in nats, and its standard error; nan
          of one that has faded;
        - "p_value": of the change, for all topics and calls together;
        - "nearest", "cosine": the older topic that is most similar, -1 and nan of one
          that has faded;
        - "terms": those by which it differs most from the mean of all older topics;
          "documents": empty;
        - "line": all of it, for a log.

    Raises
    ------
    ImportError
        If pandas is not installed.
    TypeError
        If `X` is None and the estimator has no `epochs_` and keeps no documents of a
        stream, or its `transform` does not return shares.
    ValueError
        If `X` is given without `epochs`, or has another number of features, or `since`
        is not before the last call, or before documents were kept.

    Notes
    -----
    Of a stream in which nothing begins or fades one call in 100 lists something, at
    most, whatever the number of topics: a two-sample test of the documents kept, see
    the derivation of `HDP`. Of streams that are longer than their sample evidence comes
    later, in proportion.
    """
    import_pandas()
    if X is not None and epochs is None:
        raise ValueError("epochs must have the label of each row of X, got None.")
    model = read.fitted_model(estimator)
    if X is None and getattr(model, "_kept_documents", None) is not None:
        frame = _changes_of_stream(estimator, feature_names, n_terms, since)
        return frame[frame["n_documents"] >= min_samples].reset_index(drop=True)
    is_native = X is None or _is_native(estimator)
    if is_native:
        frame = _epochs_of_trees(estimator, feature_names, n_terms)
    else:
        given = estimator, X, epochs, feature_names, n_terms
        frame, labels, tokens = _epochs_of_rows(*given)
        place = {name: k for k, name in enumerate(frame["topic"][: tokens.shape[1]])}
    result = _new(frame, min_samples)
    result = result[[name for name in COLUMNS if name in result]]
    if X is None:
        return result.assign(documents=[[] for _ in range(len(result))])
    if is_native:
        rows = sp.csr_array(read.model_rows(estimator, X))
        labels = check_labels(epochs, rows.shape[0])
        records = read.fitted(estimator, "epochs_")
    rows_of = dict(zip(labels.distinct, labels.rows(), strict=True))
    documents, near = [], dict[Any, dict[int, Ints]]()
    for label, topic in zip(result["epoch"], result["topic"], strict=True):
        of = rows_of.get(label, np.zeros(0, dtype=np.intp))
        if is_native:
            near[label] = near.get(label) or _nearest(rows[of], records[label])
            best = near[label][topic][:n_documents]
        else:
            own = tokens[of, place[topic]]
            best = largest(own, n_documents)
            best = best[own[best] > 0.0]
        documents.append(of[best].tolist())
    return result.assign(documents=documents)


def _changes_of_stream(estimator, feature_names, n_terms, since):
    """Return a frame of the topics of a stream that are new, or have faded."""
    model = read.fitted_model(estimator)
    changes = model._changes(since)
    names = read.column_names(estimator, model.n_features_in_, feature_names)
    given = getattr(model, "topic_names_", {})
    terms = [names[one.leading(n_terms)].tolist() for one in changes]
    pairs = list(zip(changes, terms, strict=True))
    columns = {
        "epoch": [one.begin for one in changes],
        "kind": [one.kind for one in changes],
        "topic": [one.topic for one in changes],
        "n_documents": [one.n_documents for one in changes],
        "share": [one.n_documents / one.n_kept for one in changes],
        "gain": [one.gain for one in changes],
        "error": [one.error for one in changes],
        "p_value": [one.p_value for one in changes],
        "nearest": [one.nearest for one in changes],
        "cosine": [one.cosine for one in changes],
        "terms": terms,
        "documents": [[] for _ in changes],
        "line": [one.line(of, given.get(one.topic)) for one, of in pairs],
    }
    return import_pandas().DataFrame(columns)


def _new(frame, min_samples):
    """Choose topics that begin after the first epoch; sort by epochs, then shares."""
    is_new = frame["is_new"] & (frame["n_samples"] >= min_samples)
    frame = frame[is_new & (frame["epoch"] != frame["epoch"].iloc[0])]
    places, _ = frame["epoch"].factorize()
    ranked = np.lexsort((frame["topic"], -frame["share"], places))
    return frame.iloc[ranked].reset_index(drop=True)


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


def _mean_direction(record, rows):
    """Mean of the directions of some topics, weighted by their rows."""
    masses = record.masses * rows
    if not masses.sum() > 0.0:
        masses = rows.astype(np.float64)
    mean = np.asarray(masses @ record.components).ravel()
    return mean / max(np.linalg.norm(mean), 1e-300)


def contrasted_terms(record, names, n_terms):
    """Terms by which each topic differs most from its parent and its siblings.

    For the root, and topics without such terms, the terms of largest entries.
    """
    directions, parent = record.components, record.tree.parent
    result = terms_of(directions, names, n_terms)
    for up in np.unique(parent[parent >= 0]):
        children = np.flatnonzero(parent == up)
        values = directions[np.append(children, up)].toarray()
        total = values.sum(axis=0)
        for row, child in enumerate(children.tolist()):
            excess = values[row] - (total - values[row]) / len(children)
            own = positive_terms(excess, values[row], names, n_terms)
            result[child] = own or result[child]
    return result


#: Inches of a line, of an epoch, and of the widest disc; least area of a disc.
LINE, COLUMN, WIDEST, LEAST = 0.24, 0.55, 0.22, 2.0
#: Inches of a line and of an epoch where terms stand at the discs; points of letters.
LINE_OF_TERMS, COLUMN_OF_TERMS, SMALL = 0.36, 0.95, 6.0
#: Share of given axes that texts may take.
MOST = 0.66
#: Width of given axes in sizes of the type, at least.
LETTERS = 26.0
DRAWN = {
    "n_lines": [at_least(2)],
    "min_share": [UNIT],
    "n_leading_terms": [at_least(0)],
}


@dataclass(kw_only=True, eq=False, repr=False)
class EpochTreeDisplay(Display):
    """Trees over epochs: which topics there are, and how much they weigh.

    Best made with :meth:`from_estimator`. Each line is a topic, indented below its
    parent, where it stood last; each column is an epoch. The area of a disc is the
    share of rows at the topic itself; a ring is a topic that is in the tree without
    rows, and the first disc of a topic that was born has another colour. Beside each
    line is the epoch in which the topic is largest, and the terms by which it differs
    there from its parent and its siblings; above the discs may be those of its birth,
    and of epochs in which others lead. Small topics have no line of their own: they
    count as the topic above, in its discs and in its terms. :meth:`plot_shares` draws
    the shares alone, as bands.

    Parameters
    ----------
    epochs : dict of label to record
        As `epochs_` of `DependentTrees`.
    terms : dict of int to list of list of str
        Terms of each topic, by id, in each epoch in which it is.
    names : dict of int to str, default=None
        Names of topics, by id, in the place of their ids.
    columns : sequence of str, default=None
        Names of columns, for the terms of topics that others count as; `None` takes
        those of `terms`.

    Attributes
    ----------
    topics_ : list of int
        Ids drawn, line by line.
    ax_, figure_ : matplotlib Axes, matplotlib Figure
        Where it is drawn.

    See Also
    --------
    topics_over_time : The same as a frame.
    TopicTreeDisplay : The tree of one epoch.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skbnp import DependentTrees
    >>> from skbnp.datasets import make_dependent_trees
    >>> from skbnp.inspection import EpochTreeDisplay
    >>> corpus = make_dependent_trees(200, n_epochs=3, random_state=0)
    >>> trees = DependentTrees(random_state=0).fit(corpus.data, epochs=corpus.epochs)
    >>> display = EpochTreeDisplay.from_estimator(trees)
    >>> len(display.topics_) == trees.n_components_
    True
    >>> plt.show()
    """

    epochs: dict[Any, Any]
    terms: dict[int, list[list[str]]]
    names: Any = None
    columns: Any = None

    def __post_init__(self):
        self.names = self.names or {}

    @classmethod
    @validate_params(
        {"n_terms": [POSITIVE], "kind": [StrOptions({"tree", "shares"})]} | DRAWN
    )
    def from_estimator(
        cls,
        estimator,
        feature_names=None,
        *,
        kind="tree",
        n_terms=4,
        n_leading_terms=0,
        n_lines=20,
        min_share=0.0,
        ax=None,
    ) -> Self:
        """Draw the epochs of a fitted model.

        Parameters
        ----------
        estimator : fitted DependentTrees or Pipeline that ends in one
            Anything with `epochs_`.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        kind : {"tree", "shares"}, default="tree"
            What is drawn: lines of discs, or with "shares" what :meth:`plot_shares`
            does.
        n_terms : int, default=4
            Terms of each topic.
        n_leading_terms : int, default=0
            Terms above the disc of a birth, and of epochs in which others lead than in
            the epoch before, `n_terms` at most.
        n_lines : int, default=20
            Lines at most, 2 or more. The topic that is least in all epochs counts as
            the topic above, until there are so few.
        min_share : float, default=0.0
            Least share that a topic has in some epoch; others count as those above.
        ax : matplotlib Axes, default=None
            Axes to draw in. None makes a figure of fitting size.

        Returns
        -------
        display : EpochTreeDisplay
            The drawn display.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError
            If the estimator has no `epochs_`.
        """
        display = cls._read(estimator, feature_names, n_terms)
        if kind == "shares":
            display._begin(display.plot_shares(ax))
            return display
        return display.plot(
            ax, n_leading_terms=n_leading_terms, n_lines=n_lines, min_share=min_share
        )

    @classmethod
    @validate_params({"n_terms": [POSITIVE], "topic": [Integral]})
    def from_topic(
        cls, estimator, topic, feature_names=None, *, n_terms=4, ax=None
    ) -> Self:
        """Draw one topic of a fitted model over epochs, and no trees.

        Parameters
        ----------
        estimator, topic : fitted DependentTrees or Pipeline that ends in one, int
            As in :meth:`from_estimator`; the id of the topic.
        feature_names, n_terms, ax : array-like of str, int, matplotlib Axes
            As in :meth:`from_estimator`; terms in each epoch.

        Returns
        -------
        display : EpochTreeDisplay
            The display, with `ax_` and `figure_` of :meth:`plot_topic`.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError
            If the estimator has no `epochs_`.
        ValueError
            If there is no such topic.
        """
        display = cls._read(estimator, feature_names, n_terms)
        display._begin(display.plot_topic(topic, ax))
        return display

    @classmethod
    def _read(cls, estimator, feature_names, n_terms):
        """Read epochs and terms of a model, without drawing."""
        epochs = read.fitted(estimator, "epochs_")
        first = next(iter(epochs.values()))
        names = read.column_names(estimator, first.components.shape[1], feature_names)
        terms: dict[int, list] = {}
        for record in epochs.values():
            result = contrasted_terms(record, names, n_terms)
            for node, words in zip(record.component_ids.tolist(), result, strict=True):
                terms.setdefault(node, []).append(words)
        given = getattr(read.fitted_model(estimator), "topic_names_", {})
        return cls(epochs=epochs, terms=terms, names=given, columns=names)

    def _shares(self):
        """Share of rows at each topic by epoch; nan where it is not in the tree."""
        ids = sorted(self.terms)
        result = {node: [np.nan] * len(self.epochs) for node in ids}
        for place, record in enumerate(self.epochs.values()):
            total = max(float(record.masses.sum()), 1e-300)
            names = record.component_ids.tolist()
            for node, mass in zip(names, record.masses.tolist(), strict=True):
                result[node][place] = mass / total
        return {node: np.array(row) for node, row in result.items()}

    def _lines(self):
        """Return one tree of all topics of all epochs, each at its last place."""
        parent: dict[int, int] = {}
        order: dict[int, None] = {}
        for record in reversed(self.epochs.values()):
            names, above = record.component_ids.tolist(), parent_ids(record).tolist()
            for node, up in zip(names, above, strict=True):
                parent.setdefault(node, up)
                order.setdefault(node)
        ids = list(order)
        for node in ids[1:]:  # a node that was the root once stands below the last one
            parent[node] = ids[0] if parent[node] < 0 else parent[node]
        place = {node: at for at, node in enumerate(ids)}
        parents = [place[parent[node]] if parent[node] >= 0 else -1 for node in ids]
        return Tree.from_parents(parents, ids)

    def _folded(self, n_lines, min_share):
        """Add small topics to their ancestors; return tree, shares, line of each."""
        tree, shares = self._lines(), self._shares()
        total = {node: np.nan_to_num(row) for node, row in shares.items()}
        there = {node: np.isfinite(row) for node, row in shares.items()}
        peaks = {node: float(row.max()) for node, row in total.items()}
        owner = {node: node for node in tree.ids.tolist()}
        while len(tree) > 1:
            node = min(tree.ids.tolist()[1:], key=lambda name: peaks[name])
            if len(tree) <= n_lines and peaks[node] >= min_share:
                break
            up = tree.parent_of(node)
            total[up], there[up] = total[up] + total[node], there[up] | there[node]
            peaks[up] = float(total[up].max())
            owner = {name: up if at == node else at for name, at in owner.items()}
            tree = tree.merge(node, up)
        rows = [np.where(there[n], total[n], np.nan) for n in tree.ids.tolist()]
        return tree, rows, owner

    def _terms_of_lines(self, tree, shares, owner):
        """Terms by which each line differs from its parent and siblings."""
        nodes, records = tree.ids.tolist(), list(self.epochs.values())
        peaks, result = [int(np.nanargmax(row)) for row in shares], []
        for node, at in zip(nodes, peaks, strict=True):
            record = records[at]
            names = record.component_ids.tolist()
            if self.columns is None:
                there = np.flatnonzero([node in r.component_ids for r in records])
                place = min(int(np.searchsorted(there, at)), len(there) - 1)
                result.append(self.terms[node][place])
                continue
            up = tree.parent_of(node)
            siblings = tree.children_of(node if up is None else up).tolist()
            around = [up] * (up is not None) + [n for n in siblings if n != node]
            lines = np.array([owner[name] for name in names])
            own = _mean_direction(record, lines == node)
            rest = [_mean_direction(record, lines == other) for other in around]
            excess = own - (np.mean(rest, axis=0) if rest else 0.0)
            n_terms = max(map(len, self.terms[node]), default=1)
            result.append(positive_terms(excess, own, self.columns, n_terms))
        return result

    def _called(self, node):
        return shortened(self.names.get(node, str(node)))

    @validate_params(DRAWN)
    def plot(self, ax=None, *, n_leading_terms=0, n_lines=20, min_share=0.0) -> Self:
        """Draw the epochs.

        Parameters
        ----------
        ax, n_leading_terms, n_lines, min_share : matplotlib Axes, int, int, float
            As in :meth:`from_estimator`.

        Returns
        -------
        display : EpochTreeDisplay
            The display itself.
        """
        tree, shares, owner = self._folded(n_lines, min_share)
        self.topics_ = tree.ids.tolist()
        n_lines, n_epochs = len(tree), len(self.epochs)
        given = tree, shares, self._terms_of_lines(tree, shares, owner)
        if ax is None:
            texts = self._texts(*given)
            wide = max(map(len, texts)) * 0.55 * FONT / 72
            column, line = COLUMN, LINE
            if n_leading_terms:
                column, line = COLUMN_OF_TERMS, LINE_OF_TERMS
            inside = wide + n_epochs * column, (n_lines + 3) * line + 0.5
            size = np.add(inside, 2 * MARGIN)
            self._begin(ax, figsize=size, layout="constrained")
            font, widest = FONT, WIDEST
        else:
            self._begin(ax)
            room = self._room()
            font = min(FONT, room[1] / (n_lines + 4) / 1.25, room[0] / LETTERS)
            widest = min(WIDEST, 1.1 * font / 72, 0.2 * room[0] / 72 / n_epochs)
            texts = self._texts(*given, font, MOST * room[0])
        ax = self.ax_
        unit = (72 * widest) ** 2 / max(np.nanmax(np.array(shares)), 1e-300)
        for line, (node, row) in enumerate(zip(self.topics_, shares, strict=True)):
            self._draw_line(line, row, unit)
            if n_leading_terms:
                self._write_terms(line, node, row * unit, n_leading_terms)
        ax.set_yticks(range(n_lines), texts, fontsize=font, parse_math=False)
        labels = [str(label) for label in self.epochs]
        ax.set_xticks(range(n_epochs), labels, parse_math=False)
        ax.set_xlabel("epoch", fontsize=font, color=GREY)
        ax.tick_params(axis="x", labelsize=font, rotation=90 if n_epochs > 8 else 0)
        ax.tick_params(length=0)
        for text in ax.get_yticklabels():
            text.set_horizontalalignment("left")
        ax.set_xlim(-0.6, n_epochs - 0.4)
        ax.set_ylim(n_lines - 0.4, -0.6)
        ax.spines[:].set_visible(False)
        self.figure_.canvas.draw()
        width = max(text.get_window_extent().width for text in ax.get_yticklabels())
        ax.tick_params(axis="y", pad=width * 72 / self.figure_.dpi + 4)
        if self.figure_.get_layout_engine() is None:  # nothing else makes room
            place, share = ax.get_position(), width / self.figure_.bbox.width
            left, top = place.x0 + share, 0.06 * place.height
            size = (place.width - share, place.height - top)
            ax.set_position((left, place.y0, *size))
        self._draw_key(np.array(shares), unit, font)
        return self

    def _texts(self, tree, shares, terms, font=FONT, room=None):
        """Return the text beside each line: as many terms as fit the room."""
        result, labels = [], list(self.epochs)
        for node, depth, row, words in zip(
            tree.ids.tolist(), tree.depth.tolist(), shares, terms, strict=True
        ):
            indent = "    " if room is None else "  "
            start = indent * depth + f"{self._called(node)}: "
            label = f" ({labels[int(np.nanargmax(row))]})" if len(labels) > 1 else ""
            texts = [
                start + ", ".join(words[:n]) + label for n in range(1, len(words) + 1)
            ]
            texts = texts or [start + label]
            result.append(
                texts[-1] if room is None else self._longest(texts, room, font)
            )
        return result

    def _draw_key(self, shares, unit, font):
        """Draw the legend of discs, colours and rings."""

        def disc(label, area, color=BLUE, edge=BLUE):
            style = {"marker": "o", "ls": "", "markersize": area**0.5}
            return mark(label, color=color, markeredgecolor=edge, **style)

        share = 10.0 ** np.floor(np.log10(max(np.nanmax(shares), 1e-2)))
        handles = [
            disc(f"{100 * part:.3g} % of rows", max(part * unit, LEAST))
            for part in (share, share / 10)
        ]
        small = 4 * LEAST
        is_born = np.isfinite(shares).argmax(axis=1).any()
        handles += [disc("begins", small, VERMILION, VERMILION)] * bool(is_born)
        is_empty = (shares == 0.0).any()
        handles += [disc("without rows", small, "white", GREY)] * bool(is_empty)
        if len(self.epochs) > 1:
            handles.append(mark("(...): epoch of the terms", ls=""))
        style: dict[str, Any] = {"ncols": 2, "labelcolor": GREY, "borderpad": 0.0}
        style |= {"handletextpad": 0.1, "columnspacing": 0.8}
        legend(self.ax_, handles, "lower right", (1.0, 1.0), font, **style)

    @validate_params({"n_topics": [POSITIVE]})
    def plot_shares(self, ax=None, *, n_topics=8) -> "Axes":
        """Draw the shares of the largest topics over epochs, one above the other.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in. None makes a figure.
        n_topics : int, default=8
            Bands beside that of the root, as the lines of :meth:`plot`; up to 10 have
            colours that can be told apart.

        Returns
        -------
        ax : matplotlib Axes
            The axes; the height of a band is the share of rows at the topic.
        """
        ax = axes_of(ax, figsize=(7.0, 4.2), layout="constrained")
        from matplotlib import colormaps
        from matplotlib.colors import to_rgba
        from matplotlib.patches import Patch

        tree, shares, owner = self._folded(n_topics + 1, 0.0)
        terms = self._terms_of_lines(tree, shares, owner)
        rows, texts = list(np.nan_to_num(shares)), self._texts(tree, shares, terms)
        texts = [text.lstrip() for text in texts]
        times = np.arange(len(self.epochs))
        order = sorted(
            range(1, len(rows)),
            key=lambda k: rows[k] @ times / max(rows[k].sum(), 1e-300),
        )
        colormap = colormaps["tab10" if len(order) <= 10 else "tab20"]
        colors = [*map(colormap, range(len(order))), to_rgba("0.85")]
        order = [*order, 0]
        rows, texts = [rows[k] for k in order], [texts[k] for k in order]
        if len(self.epochs) == 1:  # a band needs two sides
            values = [row[0] for row in rows]
            bottom = np.cumsum([0.0, *values])[:-1]
            ax.bar([0] * len(rows), values, color=colors, bottom=bottom)
        else:
            style = {"colors": colors, "linewidth": 0.3, "edgecolor": "white"}
            ax.stackplot(range(len(self.epochs)), rows, **style)
            ax.set_xlim(0, len(self.epochs) - 1)
        handles = [Patch(color=c, label=t) for c, t in zip(colors, texts, strict=True)]
        style = {"handlelength": 1.0, "borderpad": 0.0}
        legend(ax, handles[::-1], "upper left", (0.0, -0.12), FONT, **style)
        ax.set_ylim(0.0, max(float(np.sum(rows, axis=0).max()), 1e-300))
        n_epochs = len(self.epochs)
        step = max(-(-n_epochs // 8), 1)
        labels = [str(label) for label in self.epochs]
        style = {"fontsize": FONT, "parse_math": False}
        ax.set_xticks(range(0, n_epochs, step), labels[::step], **style)
        ax.tick_params(axis="y", labelsize=FONT)
        open_frame(ax)
        self._scale_shares(ax)
        return ax

    def _scale_shares(self, ax):
        """Name the axis of shares of rows."""
        in_percent(ax.yaxis)
        ax.set_ylabel("share of rows", fontsize=FONT)

    @validate_params({"topic": [Integral]})
    def plot_topic(self, topic, ax=None) -> "Axes":
        """Draw the share of a topic over epochs, with its terms in each.

        Parameters
        ----------
        topic : int
            Its id.
        ax : matplotlib Axes, default=None
            Axes to draw in. None makes a figure of fitting size.

        Returns
        -------
        ax : matplotlib Axes
            The axes.

        Raises
        ------
        ValueError
            If there is no such topic.
        """
        shares = self._shares()
        if topic not in shares:
            raise ValueError(f"topic must be one of {sorted(shares)}, got {topic}.")
        size = (1.2 * max(len(self.epochs), 3), 3.0)
        ax = axes_of(ax, figsize=size, layout="constrained")
        row, words = shares[topic], iter(self.terms[topic])
        ax.plot(range(len(row)), row, marker="o", color=BLUE)
        labels = [
            "\n".join([str(label), *(next(words) if np.isfinite(share) else [])])
            for label, share in zip(self.epochs, row, strict=True)
        ]
        ax.set_xticks(range(len(row)), labels, fontsize=FONT, parse_math=False)
        ax.set_xlim(-0.5, len(row) - 0.5)
        ax.set_ylim(0.0, 1.1 * max(np.nanmax(row), 1e-300))
        self._scale_shares(ax)
        title = self._called(topic) if topic in self.names else f"topic {topic}"
        ax.set_title(title, fontsize=FONT, color=GREY, parse_math=False)
        return ax

    def _write_terms(self, line, node, areas, n_terms):
        """Write the leading terms of a topic at epochs at which they change."""
        before = None
        there = np.flatnonzero(np.isfinite(areas)).tolist()
        for epoch, words in zip(there, self.terms[node], strict=True):
            if words[:n_terms] != before:
                offset = (0, 0.5 * areas[epoch] ** 0.5 + 2.0)
                style = {"ha": "center", "va": "bottom", "color": GREY, "bbox": None}
                text = ", ".join(words[:n_terms])
                self._label(text, (epoch, line), offset, SMALL, **style)
            before = words[:n_terms]

    def _draw_line(self, line, row, unit):
        """Draw the discs of one topic over epochs."""
        there = np.flatnonzero(np.isfinite(row))
        span = np.arange(there[0], there[-1] + 1)  # with gaps where it was not there
        heights = np.where(np.isfinite(row[span]), float(line), np.nan)
        self.ax_.plot(span, heights, color=GREY, linewidth=0.6, zorder=1)
        full, empty = there[row[there] > 0.0], there[row[there] <= 0.0]
        is_birth = (full == there[0]) & (there[0] > 0)
        style: dict[str, Any] = {
            "s": np.maximum(row[full] * unit, LEAST),
            "linewidths": 0.0,
        }
        colors = np.where(is_birth, VERMILION, BLUE)
        self.ax_.scatter(full, 0 * full + line, c=colors, zorder=2, **style)
        style = {"s": 4.0 * LEAST, "facecolors": "white", "linewidths": 0.6}
        self.ax_.scatter(empty, 0 * empty + line, edgecolors=GREY, zorder=2, **style)
