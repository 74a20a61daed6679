"""Figure of the heaviest topics: a panel of bars of terms for each."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skbnp.inspection._displays import (
    BLUE,
    FONT,
    GREY,
    MARGIN,
    MAX_WIDTH,
    Display,
    in_percent,
    shortened,
)
from skbnp.inspection._names import Ranking, rank_topics
from skbnp.inspection._terms import leading, relevant_columns, signed
from skbnp.utils import fitted as read
from skbnp.utils.validation import POSITIVE, validate_params

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
    [['sun', 'rain', 'snow'], ['rain', 'snow', 'sun']]
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
    @validate_params({"n_components": [POSITIVE], "n_terms": [POSITIVE]})
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
        totals = relations = None
        if are_directions := read.are_directions(model):
            columns = [leading(distr[k], n_terms) for k in rows]
        else:
            columns = [relevant_columns(estimator, n_terms)[k] for k in rows]
            whole = ranking.shares @ distr
            totals = [whole[best] for best in columns]
        numbers = read.topic_numbers(estimator, len(distr))
        if totals is not None and not hasattr(model, "tree_"):
            relations = _relations(distr, ranking, rows, numbers, read.noun_of(model))
        label = SHARE
        if are_directions:
            is_unit = hasattr(model, "vmf_concentration_")
            label = "entry of its direction" if is_unit else "loading"
        pairs = zip(distr[rows], columns, strict=True)
        return cls(
            terms=[signed(values, best, names) for values, best in pairs],
            probabilities=list(map(np.take, distr[rows], columns)),
            weights=ranking.shares[rows],
            labels=numbers[rows],
            label=label,
            noun=read.noun_of(model),
            names=[read.topic_names(estimator, len(distr))[k] for k in rows],
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
                in_percent(panel.xaxis)
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
            called = f"{self.noun} {self.labels[i]}"
            if self.names is not None and self.names[i] is not None:
                called = shortened(self.names[i])
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
