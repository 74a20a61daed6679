"""Topics over time: tables of shares by epoch and of late topics, and a figure."""

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.preprocessing import normalize

from skbnp.inspection._displays import BLUE, FONT, GREY, MARGIN, VERMILION, Display
from skbnp.inspection._terms import check_shares, top_terms
from skbnp.trees import Tree
from skbnp.utils import fitted as read
from skbnp.utils.arrays import largest, members
from skbnp.utils.labels import check_after, check_labels, warn_if_few_rows
from skbnp.utils.lazy import import_pandas
from skbnp.utils.typing import Array, DataFrame
from skbnp.utils.validation import at_least, row_totals, validated

#: Columns of topics that begin late.
COLUMNS = "epoch", "topic", "parent", "share", "terms"
#: Columns of the changes of a stream.
CHANGES = (
    "epoch kind topic n_documents share gain error p_value nearest cosine terms "
    "documents line"
)
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


@validated()
def topics_over_time(
    estimator: BaseEstimator,
    X: Any = None,
    epochs: Any = None,
    feature_names: ArrayLike | None = None,
    *,
    n_terms: int = 5,
) -> DataFrame:
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
    _check_epochs(X, epochs)
    if X is None:
        return _epochs_of_trees(estimator, feature_names, n_terms)
    return _epochs_of_rows(estimator, X, epochs, feature_names, n_terms)[0]


def _check_epochs(X, epochs):
    """Raise without pandas, or if rows have no labels of time."""
    import_pandas()
    if X is not None and epochs is None:
        raise ValueError(
            "epochs must have the label of time of each row of X, got None. Names of "
            "columns are passed as feature_names=."
        )


def _epochs_of_trees(estimator, feature_names, n_terms):
    """Return a frame of the shares of nodes of dependent trees by epoch."""
    epochs = read.fitted(estimator, "epochs_")
    pd = import_pandas()
    first = next(iter(epochs.values()))
    names = read.column_names(estimator, first.components.shape[1], feature_names)
    parts, before = [], None
    earlier: set[int] = set()
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
                "is_new": [node not in earlier for node in ids.tolist()],
                "cosine": cosines,
                "terms": terms_of(record.components, names, n_terms),
            }
        )
        parts.append(part)
        earlier |= set(ids.tolist())
        before = record
    return pd.concat(parts, ignore_index=True)


def _epochs_of_rows(estimator, X, epochs, feature_names, n_terms):
    """Return a frame of shares in rows by epoch; also their labels and tokens."""
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


@validated(min_samples=[at_least(0, Real)], since=[at_least(1), None])
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
) -> DataFrame:
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
    _check_epochs(X, epochs)
    model = read.fitted_model(estimator)
    if X is None and getattr(model, "_kept_documents", None) is not None:
        frame = _changes_of_stream(estimator, feature_names, n_terms, since)
        return frame[frame["n_documents"] >= min_samples].reset_index(drop=True)
    if X is None or _is_native(estimator):
        frame = _epochs_of_trees(estimator, feature_names, n_terms)
    else:
        given = estimator, X, epochs, feature_names, n_terms
        frame, labels, tokens = _epochs_of_rows(*given)
    result = _new(frame, min_samples)
    result = result[[name for name in COLUMNS if name in result]]
    if X is None:
        return result.assign(documents=[[] for _ in range(len(result))])
    topics = frame["topic"].unique().tolist()
    if _is_native(estimator):
        rows = sp.csr_array(read.model_rows(estimator, X))
        labels = check_labels(epochs, rows.shape[0])
        tokens = _nearest(rows, labels, read.fitted(estimator, "epochs_"), topics)
    rows_of = dict(zip(labels.distinct, labels.rows(), strict=True))
    documents = []
    for label, topic in zip(result["epoch"], result["topic"], strict=True):
        of = rows_of.get(label, np.zeros(0, dtype=np.intp))
        own = tokens[of, topics.index(topic)]
        best = largest(own, n_documents)
        documents.append(of[best[own[best] > 0.0]].tolist())
    return result.assign(documents=documents)


def _changes_of_stream(estimator, feature_names, n_terms, since):
    """Return a frame of the topics of a stream that are new, or have faded."""
    model = read.fitted_model(estimator)
    changes = model._changes(since)
    names = read.column_names(estimator, model.n_features_in_, feature_names)
    given = getattr(model, "topic_names_", {})
    rows: list[list[Any]] = []
    for one in changes:
        terms = names[one.leading(n_terms)].tolist()
        rows.append([one.begin, one.kind, one.topic, one.n_documents])
        rows[-1] += [one.n_documents / one.n_kept, one.gain, one.error, one.p_value]
        line = one.line(terms, given.get(one.topic))
        rows[-1] += [one.nearest, one.cosine, terms, [], line]
    return import_pandas().DataFrame(rows, columns=CHANGES.split())


def _new(frame, min_samples):
    """Choose topics that begin after the first epoch; sort by epochs, then shares."""
    is_new = frame["is_new"] & (frame["n_samples"] >= min_samples)
    frame = frame[is_new & (frame["epoch"] != frame["epoch"].iloc[0])]
    places, _ = frame["epoch"].factorize()
    ranked = np.lexsort((frame["topic"], -frame["share"], places))
    return frame.iloc[ranked].reset_index(drop=True)


def _nearest(rows, labels, records, topics):
    """Cosine of each row to the nearest topic of its epoch, (n_rows, n_topics)."""
    n_features = next(iter(records.values())).components.shape[1]
    if rows.shape[1] != n_features:
        raise ValueError(
            f"X has {rows.shape[1]} features, but the topics have {n_features}."
        )
    rows, result = normalize(rows), np.zeros((rows.shape[0], len(topics)))
    for label, of in zip(labels.distinct, labels.rows(), strict=True):
        if label in records:
            cosines = (rows[of] @ records[label].components.T).toarray()
            ids = records[label].component_ids.tolist()
            places = np.array([topics.index(node) for node in ids])
            result[of, places[cosines.argmax(axis=1)]] = cosines.max(axis=1)
    return result


def _mean_direction(record, rows):
    """Mean of the directions of some topics, weighted by their rows."""
    masses = record.masses * rows
    if not masses.sum() > 0.0:
        masses = rows.astype(np.float64)
    mean = np.asarray(masses @ record.components).ravel()
    return mean / max(np.linalg.norm(mean), 1e-300)


#: Inches of a line, of an epoch, and of the widest disc; least area of a disc.
LINE, COLUMN, WIDEST, LEAST = 0.24, 0.55, 0.22, 2.0
#: Share of given axes that texts may take.
MOST = 0.66
#: Width of given axes in sizes of the type, at least.
LETTERS = 26.0


@dataclass(kw_only=True, eq=False, repr=False)
class EpochTreeDisplay(Display):
    """Trees over epochs: which topics there are, and how much they weigh.

    Best made with :meth:`from_estimator`. Each line is a topic, indented below its
    parent, where it stood last; each column is an epoch. The area of a disc is the
    share of rows at the topic itself; a ring is a topic that is in the tree without
    rows, and the first disc of a topic that was born has another colour. Beside each
    line is the epoch in which the topic is largest, and the terms by which it differs
    there from its parent and its siblings. Small topics have no line of their own: they
    count as the topic above, in its discs and in its terms.

    Parameters
    ----------
    epochs : dict of label to record
        As `epochs_` of `DependentTrees`.
    columns : ndarray of str of shape (n_features,)
        Names of columns.
    n_terms : int, default=4
        Terms of each topic.
    names : dict of int to str, default={}
        Names of topics, by id, in the place of their ids.

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
    columns: Any
    n_terms: int = 4
    names: dict[int, str] = field(default_factory=dict)

    @classmethod
    @validated()
    def from_estimator(
        cls, estimator, feature_names=None, *, n_terms=4, ax=None, **kwargs
    ) -> Self:
        """Draw the epochs of a fitted model.

        Parameters
        ----------
        estimator : fitted DependentTrees or Pipeline that ends in one
            Anything with `epochs_`.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        n_terms : int, default=4
            Terms of each topic.
        ax : matplotlib Axes, default=None
            Axes to draw in. None makes a figure of fitting size.
        **kwargs : dict
            Handed to :meth:`plot`.

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
        epochs = read.fitted(estimator, "epochs_")
        first = next(iter(epochs.values()))
        columns = read.column_names(estimator, first.components.shape[1], feature_names)
        names = getattr(read.fitted_model(estimator), "topic_names_", {})
        result = cls(epochs=epochs, columns=columns, n_terms=n_terms, names=names)
        return result.plot(ax, **kwargs)

    def _shares(self):
        """Share of rows at each topic by epoch; nan where it is not in the tree."""
        result: dict[int, Array] = {}
        for place, record in enumerate(self.epochs.values()):
            shares = record.masses / max(float(record.masses.sum()), 1e-300)
            for node, share in zip(record.component_ids.tolist(), shares, strict=True):
                row = result.setdefault(node, np.full(len(self.epochs), np.nan))
                row[place] = share
        return result

    def _lines(self):
        """Return one tree of all topics of all epochs, each at its last place."""
        parent: dict[int, int] = {}
        for record in reversed(self.epochs.values()):
            names, above = record.component_ids.tolist(), parent_ids(record).tolist()
            for node, up in zip(names, above, strict=True):
                parent.setdefault(node, up)
        ids = list(parent)
        for node in ids[1:]:  # a node that was the root once stands below the last one
            parent[node] = ids[0] if parent[node] < 0 else parent[node]
        place = {node: at for at, node in enumerate(ids)}
        parents = [place[parent[node]] if parent[node] >= 0 else -1 for node in ids]
        return Tree.from_parents(parents, ids)

    def _folded(self, n_lines):
        """Add small topics to their ancestors; return tree, shares, line of each."""
        tree, shares = self._lines(), self._shares()
        total = {node: np.nan_to_num(row) for node, row in shares.items()}
        there = {node: np.isfinite(row) for node, row in shares.items()}
        peaks = {node: float(row.max()) for node, row in total.items()}
        owner = {node: node for node in tree.ids.tolist()}
        while len(tree) > n_lines:
            node = min(tree.ids.tolist()[1:], key=lambda name: peaks[name])
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
            record, up = records[at], tree.parent_of(node)
            siblings = tree.children_of(node if up is None else up).tolist()
            around = [up] * (up is not None) + [n for n in siblings if n != node]
            lines = np.array([owner[name] for name in record.component_ids.tolist()])
            own = _mean_direction(record, lines == node)
            means = [_mean_direction(record, lines == other) for other in around]
            excess = own - (np.mean(means, axis=0) if means else 0.0)
            result.append(positive_terms(excess, own, self.columns, self.n_terms))
        return result

    @validated(n_lines=[at_least(2)])
    def plot(self, ax=None, *, n_lines=20) -> Self:
        """Draw the epochs.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            As in :meth:`from_estimator`.
        n_lines : int, default=20
            Lines at most, 2 or more. The topic that is least in all epochs counts as
            the topic above, until there are so few.

        Returns
        -------
        display : EpochTreeDisplay
            The display itself.
        """
        tree, shares, owner = self._folded(n_lines)
        self.topics_ = tree.ids.tolist()
        n_lines, n_epochs = len(tree), len(self.epochs)
        given = tree, shares, self._terms_of_lines(tree, shares, owner)
        if ax is None:
            texts = self._texts(*given)
            wide = max(map(len, texts)) * 0.55 * FONT / 72
            inside = wide + n_epochs * COLUMN, (n_lines + 3) * LINE + 0.5
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
        for line, row in enumerate(shares):
            self._draw_line(line, row, unit)
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
            called = self._topic_label(self.names.get(node), node)
            start = f"{indent * depth}{called}: "
            label = f" ({labels[int(np.nanargmax(row))]})" if len(labels) > 1 else ""
            ends = range(1, max(len(words), 1) + 1)
            texts = [start + ", ".join(words[:n]) + label for n in ends]
            fits = room is None
            result.append(texts[-1] if fits else self._longest(texts, room, font))
        return result

    def _draw_key(self, shares, unit, font):
        """Draw the legend of discs, colours and rings."""

        def disc(label, area, color=BLUE, edge=BLUE):
            style = {"marker": "o", "ls": "", "markersize": area**0.5}
            return self._mark(label, color=color, markeredgecolor=edge, **style)

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
            handles.append(self._mark("(...): epoch of the terms", ls=""))
        style: dict[str, Any] = {"ncols": 2, "labelcolor": GREY, "borderpad": 0.0}
        style |= {"handletextpad": 0.1, "columnspacing": 0.8, "fontsize": font}
        self._legend(handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), **style)

    def _draw_line(self, line, row, unit):
        """Draw the discs of one topic over epochs."""
        there = np.flatnonzero(np.isfinite(row))
        span = np.arange(there[0], there[-1] + 1)  # with gaps where it was not there
        heights = np.where(np.isfinite(row[span]), float(line), np.nan)
        self.ax_.plot(span, heights, color=GREY, linewidth=0.6, zorder=1)
        full, empty = there[row[there] > 0.0], there[row[there] <= 0.0]
        is_birth = (full == there[0]) & (there[0] > 0)
        style: dict[str, Any] = {"c": np.where(is_birth, VERMILION, BLUE)}
        style |= {"s": np.maximum(row[full] * unit, LEAST), "linewidths": 0.0}
        self.ax_.scatter(full, 0 * full + line, zorder=2, **style)
        style = {"s": 4.0 * LEAST, "facecolors": "white", "linewidths": 0.6}
        self.ax_.scatter(empty, 0 * empty + line, edgecolors=GREY, zorder=2, **style)
