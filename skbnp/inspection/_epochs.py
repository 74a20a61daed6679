"""The figure of topics over epochs."""

from numbers import Integral, Real
from typing import TYPE_CHECKING, Self

import numpy as np

from skbnp.inspection._displays import (
    BLUE,
    FONT,
    GREY,
    MARGIN,
    VERMILION,
    _pyplot,
    shortened,
)
from skbnp.inspection._over_time import parent_ids, terms_of
from skbnp.inspection._terms import POSITIVE, column_names, fitted, fitted_model
from skbnp.trees import Tree
from skbnp.utils.validation import Interval, validate_params

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["EpochTreeDisplay"]

#: Inches of a line, of an epoch, and of the widest disc; least area of a disc.
LINE, COLUMN, WIDEST, LEAST = 0.24, 0.55, 0.22, 2.0
#: Inches of a line and of an epoch where terms stand at the discs; points of letters.
LINE_OF_TERMS, COLUMN_OF_TERMS, SMALL = 0.36, 0.95, 6.0
DRAWN = {
    "min_share": [Interval(Real, 0, 1, closed="both")],
    "n_leading_terms": [Interval(Integral, 0, None, closed="left")],
}


class EpochTreeDisplay:
    """Trees over epochs: which topics there are, and how much they weigh.

    Best made with :meth:`from_estimator`. Each line is a topic, indented below its
    parent, where it stood last; each column is an epoch. The area of a disc is the
    share of rows at the topic itself; a ring is a topic that is in the tree without
    rows, and the first disc of a topic that was born has another colour. Beside the
    lines are the terms of the last epoch of each topic; above the discs may be those
    that led when it was born, and when others lead.

    Parameters
    ----------
    epochs : dict of label to record
        As `epochs_` of `DependentTrees`.
    terms : dict of int to list of list of str
        Terms of each topic, by id, in each epoch in which it is.
    names : dict of int to str, default=None
        Names of topics, by id, in the place of their ids.

    Attributes
    ----------
    topics_ : list of int
        Ids drawn, line by line.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

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

    ax_: "Axes"
    figure_: "Figure"

    def __init__(self, *, epochs, terms, names=None):
        self.epochs = epochs
        self.terms = terms
        self.names = {} if names is None else names

    @classmethod
    @validate_params(
        {"n_terms": [POSITIVE]} | DRAWN, prefer_skip_nested_validation=False
    )
    def from_estimator(
        cls,
        estimator,
        feature_names=None,
        *,
        n_terms=4,
        n_leading_terms=0,
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
        n_terms : int, default=4
            Terms of each topic.
        n_leading_terms : int, default=0
            Terms above the disc of a birth, and of epochs in which others lead than in
            the epoch before, `n_terms` at the most.
        min_share : float, default=0.0
            Least share that a topic has in some epoch; topics above one that is drawn
            are drawn too.
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
        return display.plot(ax, n_leading_terms=n_leading_terms, min_share=min_share)

    @classmethod
    @validate_params(
        {"n_terms": [POSITIVE], "topic": [Integral]},
        prefer_skip_nested_validation=False,
    )
    def from_topic(
        cls, estimator, topic, feature_names=None, *, n_terms=4, ax=None
    ) -> Self:
        """Draw one topic of a fitted model over epochs, and no trees.

        Parameters
        ----------
        estimator : fitted DependentTrees or Pipeline that ends in one
            Anything with `epochs_`.
        topic : int
            Its id.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        n_terms : int, default=4
            Terms in each epoch.
        ax : matplotlib Axes, default=None
            Axes to draw in. None makes a figure of fitting size.

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
        display.ax_ = display.plot_topic(topic, ax)
        display.figure_ = display.ax_.figure
        return display

    @classmethod
    def _read(cls, estimator, feature_names, n_terms):
        """Read epochs and terms, and draw nothing."""
        epochs = fitted(estimator, "epochs_")
        first = next(iter(epochs.values()))
        names = column_names(estimator, first.components.shape[1], feature_names)
        terms: dict[int, list] = {}
        for record in epochs.values():
            result = terms_of(record.components, names, n_terms)
            for node, words in zip(record.component_ids.tolist(), result, strict=True):
                terms.setdefault(node, []).append(words)
        given = getattr(fitted_model(estimator), "topic_names_", {})
        return cls(epochs=epochs, terms=terms, names=given)

    def _called(self, node):
        return shortened(self.names.get(node, str(node)))

    @validate_params(DRAWN, prefer_skip_nested_validation=False)
    def plot(self, ax=None, *, n_leading_terms=0, min_share=0.0) -> Self:
        """Draw the epochs.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in. None makes a figure of fitting size.
        n_leading_terms : int, default=0
            As in :meth:`from_estimator`.
        min_share : float, default=0.0
            As in :meth:`from_estimator`.

        Returns
        -------
        display : EpochTreeDisplay
            The display itself.
        """
        plt = _pyplot()
        tree, shares = self._lines(), self._shares()
        tree = _above(
            tree, [n for n, row in shares.items() if np.nanmax(row) >= min_share]
        )
        self.topics_ = tree.ids.tolist()
        n_lines, n_epochs = len(tree), len(self.epochs)
        texts = [
            "    " * int(depth)
            + f"{self._called(node)}: {', '.join(self.terms[node][-1])}"
            for node, depth in zip(self.topics_, tree.depth, strict=True)
        ]
        if ax is None:
            wide = max(map(len, texts)) * 0.55 * FONT / 72
            column, line = COLUMN, LINE
            if n_leading_terms:
                column, line = COLUMN_OF_TERMS, LINE_OF_TERMS
            size = (
                wide + n_epochs * column + 2 * MARGIN,
                (n_lines + 1) * line + 0.3 + 2 * MARGIN,
            )
            _, ax = plt.subplots(figsize=size, layout="constrained")
        largest_share = max(np.nanmax(row) for row in shares.values())
        unit = (72 * WIDEST) ** 2 / max(largest_share, 1e-300)
        for line, node in enumerate(self.topics_):
            self._draw_line(ax, line, shares[node], unit)
            if n_leading_terms:
                self._write_terms(ax, line, node, shares[node] * unit, n_leading_terms)
        ax.set_yticks(range(n_lines), texts, fontsize=FONT)
        ax.set_xticks(range(n_epochs), [str(label) for label in self.epochs])
        ax.tick_params(axis="x", labelsize=FONT, rotation=90 if n_epochs > 8 else 0)
        ax.tick_params(length=0)
        for text in ax.get_yticklabels():
            text.set_horizontalalignment("left")
        ax.set_xlim(-0.6, n_epochs - 0.4)
        ax.set_ylim(n_lines - 0.4, -0.6)
        for side in ("top", "right", "left", "bottom"):
            ax.spines[side].set_visible(False)
        ax.figure.canvas.draw()
        width = max(text.get_window_extent().width for text in ax.get_yticklabels())
        ax.tick_params(axis="y", pad=width * 72 / ax.figure.dpi + 4)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @validate_params({"topic": [Integral]}, prefer_skip_nested_validation=False)
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
        plt = _pyplot()
        if ax is None:
            size = (1.2 * max(len(self.epochs), 3), 3.0)
            _, ax = plt.subplots(figsize=size, layout="constrained")
        row, words = shares[topic], iter(self.terms[topic])
        ax.plot(range(len(row)), row, marker="o", color=BLUE)
        labels = [
            "\n".join([str(label), *(next(words) if np.isfinite(share) else [])])
            for label, share in zip(self.epochs, row, strict=True)
        ]
        ax.set_xticks(range(len(row)), labels, fontsize=FONT)
        ax.set_xlim(-0.5, len(row) - 0.5)
        ax.set_ylim(0.0, 1.1 * max(np.nanmax(row), 1e-300))
        ax.set_ylabel("share of rows", fontsize=FONT)
        title = self._called(topic) if topic in self.names else f"topic {topic}"
        ax.set_title(title, fontsize=FONT, color=GREY, parse_math=False)
        return ax

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
        """Return one tree of all topics, each where it stood last."""
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

    def _write_terms(self, ax, line, node, areas, n_terms):
        """Write the terms that lead where they are others than before."""
        before = None
        there = np.flatnonzero(np.isfinite(areas)).tolist()
        for epoch, words in zip(there, self.terms[node], strict=True):
            if words[:n_terms] != before:
                ax.annotate(
                    ", ".join(words[:n_terms]),
                    (epoch, line),
                    xytext=(0, 0.5 * areas[epoch] ** 0.5 + 2.0),
                    textcoords="offset points",
                    ha="center",
                    va="bottom",
                    fontsize=SMALL,
                    color=GREY,
                )
            before = words[:n_terms]

    def _draw_line(self, ax, line, row, unit):
        """Draw the discs of a topic."""
        there = np.flatnonzero(np.isfinite(row))
        span = np.arange(there[0], there[-1] + 1)  # with gaps where it was not there
        heights = np.where(np.isfinite(row[span]), float(line), np.nan)
        ax.plot(span, heights, color=GREY, linewidth=0.6, zorder=1)
        is_born = np.arange(len(row)) == there[0]
        colors = np.where(is_born & (there[0] > 0), VERMILION, BLUE)
        has_rows = row[there] > 0.0
        full, empty = there[has_rows], there[~has_rows]
        area = np.maximum(row[full] * unit, LEAST)
        ax.scatter(
            full,
            np.full(len(full), line),
            s=area,
            c=colors[full],
            linewidths=0,
            zorder=2,
        )
        ax.scatter(
            empty,
            np.full(len(empty), line),
            s=LEAST * 4,
            facecolors="white",
            edgecolors=GREY,
            linewidths=0.6,
            zorder=2,
        )


def _above(tree, nodes):
    """Leave out nodes that are neither listed nor above one that is."""
    kept = np.isin(tree.ids, nodes)
    kept[0] = True
    through = tree.accumulate(kept) > 0
    return Tree(tree.ids[through], tree.depth[through])
