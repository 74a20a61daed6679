"""Figures of a fit, drawn with matplotlib where it is installed."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skbnp.inspection._terms import (
    POSITIVE,
    are_directions,
    column_names,
    fitted,
    fitted_model,
    leading,
    noun_of,
    signed,
    topic_numbers,
    topics,
    unit_of,
)
from skbnp.utils.fitted import topic_names
from skbnp.utils.ordering import largest
from skbnp.utils.validation import StrOptions, validate_params

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Blue and vermilion of Okabe and Ito: told apart by every kind of eye.
BLUE, VERMILION = "#0072B2", "#D55E00"
GREY = "#666666"
#: Inches: bars of a panel, between terms and bars, panels, for tick labels, for titles
#: of axes, around all.
BARS, PAD, GAP, TICKS, XLABEL, MARGIN = 1.2, 0.06, 0.25, 0.2, 0.2, 0.25
#: Points, and the lines that a term and a title take.
FONT, TERM, TITLE = 9.0, 1.35, 2.2
#: Inches across, where the figure is ours.
MAX_WIDTH = 10.0
#: Letters of a name in a figure.
LONGEST_NAME = 18
#: What bars are, of models of documents.
SHARE = "share of its tokens"


def _pyplot():
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Displays need matplotlib; install it with `pip install skbnp[plot]`."
        ) from error
    return plt


class TopicTermsDisplay:
    """The heaviest topics, a panel of bars each.

    Best made with :meth:`from_estimator`. Each panel has its own scale of
    probabilities: one topic of few words would flatten the bars of all others.

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
    >>> hdp = HDP(n_components=2, random_state=0).fit(X)
    >>> display = TopicTermsDisplay.from_estimator(hdp, ["rain", "snow", "sun"])
    >>> display.terms
    [['rain', 'snow', 'sun'], ['sun', 'rain', 'snow']]
    >>> plt.show()
    """

    ax_: "Axes"
    figure_: "Figure"
    axes_: np.ndarray

    def __init__(
        self,
        *,
        terms,
        probabilities,
        weights,
        labels,
        label=SHARE,
        noun="topic",
        names=None,
    ):
        self.terms = terms
        self.probabilities = probabilities
        self.weights = weights
        self.labels = labels
        self.label = label
        self.noun = noun
        self.names = names

    @classmethod
    @validate_params(
        {"n_components": [POSITIVE], "n_terms": [POSITIVE]},
        prefer_skip_nested_validation=False,
    )
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
            Topics to draw, heaviest first; all of them if there are fewer.
        n_terms : int, default=8
            Terms of each topic.
        ax : matplotlib Axes, default=None
            Axes to divide into panels. `None` makes a figure of fitting size.
        **kwargs : dict
            Handed to matplotlib's `barh`.

        Returns
        -------
        display : TopicTermsDisplay
            The drawn display.
        """
        weights, distr = topics(estimator)
        names = column_names(estimator, distr.shape[1], feature_names)
        rows = largest(weights, n_components)
        columns = [leading(distr[k], n_terms) for k in rows]
        model = fitted_model(estimator)
        return cls(
            terms=[
                signed(distr[k], best, names)
                for k, best in zip(rows, columns, strict=True)
            ],
            probabilities=list(map(np.take, distr[rows], columns)),
            weights=weights[rows],
            labels=topic_numbers(estimator, len(weights))[rows],
            label=entry_of(model),
            noun=noun_of(model),
            names=[topic_names(estimator, len(weights))[k] for k in rows],
        ).plot(ax, **kwargs)

    def plot(self, ax=None, **kwargs) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to divide into panels; type shrinks where they are too small for it.
            `None` makes a figure of fitting size.
        **kwargs : dict
            Handed to matplotlib's `barh`.

        Returns
        -------
        display : TopicTermsDisplay
            This object.
        """
        plt = _pyplot()
        made = ax is None
        if made:
            _, ax = plt.subplots(figsize=(MAX_WIDTH, 1.0))
        ax.set_axis_off()
        self.ax_, self.figure_ = ax, ax.figure
        self.axes_ = np.array([ax.inset_axes([0, 0, 1, 1]) for _ in self.terms])
        self._draw_bars(**kwargs)
        if made:
            n_columns, scale, height = self._choose_grid(MAX_WIDTH - 2 * MARGIN, np.inf)
            self.figure_.set_figheight(height + 2 * MARGIN)
            x, y = MARGIN / MAX_WIDTH, MARGIN / (height + 2 * MARGIN)
            ax.set_position([x, y, 1 - 2 * x, 1 - 2 * y])
        else:
            room = ax.get_window_extent().size / self.figure_.dpi
            n_columns, scale, _ = self._choose_grid(*room)
        self._arrange(n_columns, scale)
        return self

    def _draw_bars(self, **kwargs):
        from matplotlib.ticker import MaxNLocator

        panels = zip(self.axes_, self.terms, self.probabilities, strict=True)
        for panel, terms, values in panels:
            rows = np.arange(len(terms))
            panel.barh(rows, values, **{"color": BLUE, "height": 0.7} | kwargs)
            # A dollar sign is a dollar sign.
            panel.set_yticks(rows, labels=terms, parse_math=False)
            panel.set_ylim(max(map(len, self.terms)) - 0.5, -0.5)
            low, high = min(0.0, *values), max(0.0, *values)
            panel.set_xlim(1.04 * low, 1.04 * high or 1.0)
            panel.xaxis.set_major_locator(MaxNLocator(2, steps=[1, 2, 5, 10]))
            is_share = self.label == SHARE
            panel.xaxis.set_major_formatter(
                lambda x, _, is_share=is_share: (
                    f"{100 * x:g} %" if is_share else f"{x:g}"
                )
            )
            panel.grid(axis="x", color="0.9")
            panel.set_axisbelow(True)
            panel.spines[:].set_visible(False)
            panel.tick_params(length=0, labelsize=FONT)
            panel.tick_params(axis="x", labelcolor=GREY)

    def _choose_grid(self, room_width, room_height):
        """Choose columns, relative size of type and height, all in inches."""
        label = max(
            text.get_window_extent().width / self.figure_.dpi
            for panel in self.axes_
            for text in panel.get_yticklabels()
        )
        n, n_lines = len(self.axes_), max(map(len, self.terms))

        def fit(n_columns):
            width = n_columns * (label + PAD + BARS + GAP) - GAP
            n_rows = -(-n // n_columns)
            height = n_rows * ((n_lines * TERM + TITLE) * FONT / 72 + TICKS) + XLABEL
            scale = min(1.0, room_width / width, room_height / height)
            # As many rows, but filled evenly.
            return scale, -(-n // n_rows), height * scale

        scale, n_columns, height = max(map(fit, range(1, n + 1)))
        return n_columns, scale, height

    def _arrange(self, n_columns, scale):
        """Put the panels where their labels have room, whatever the figure's size."""
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
        head = TITLE * FONT / 72
        heights += n_rows * [Fixed(TICKS * scale), Scaled(1), Fixed(head * scale)]
        divider = AxesDivider(self.ax_)
        divider.set_horizontal(widths[:-1])
        divider.set_vertical(heights)
        for i, panel in enumerate(self.axes_):
            row, column = divmod(i, n_columns)
            place = divider.new_locator(4 * column + 2, 3 * (n_rows - row) - 1)
            panel.set_axes_locator(place)
            panel.tick_params(labelsize=FONT * scale)
            if i + n_columns >= len(self.axes_):
                panel.set_xlabel(self.label, loc="left", labelpad=2.0)
                panel.xaxis.label.set(size=FONT * scale, color=GREY)
            weight = f"{100 * self.weights[i]:.1f} %"
            called = f"{self.noun} {self.labels[i]}"
            if self.names is not None and self.names[i] is not None:
                called = shortened(self.names[i])
            panel.set_title(
                f"{called} – {weight}",
                loc="left",
                size=FONT * scale,
                weight="bold",
                pad=3,
                parse_math=False,
            )


def shortened(name):
    """Cut a name to the room that a title or a label has."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def entry_of(model):
    """Name what components consist of."""
    if not are_directions(model):
        return SHARE
    is_unit = hasattr(model, "vmf_concentration_")
    return "entry of its direction" if is_unit else "loading"


class HistoryDisplay:
    """The course of a fit: its bound, or its score, and its number of topics.

    Best made with :meth:`from_estimator`. Both share one plot, or have one each, in
    which several fits can be compared, as in Figure 2 of [1]_. A sampler has no bound
    but a log joint probability, and a line for each chain: the first in full colour,
    the others paler. In the place of the bound of a collapsed :class:`skbnp.HDP` stands
    the log probability of training tokens, each given all others.

    Parameters
    ----------
    step : array-like of shape (n_records,)
        Updates made.
    seconds : array-like of shape (n_records,)
        Wall clock.
    bound : array-like of shape (n_records,)
        Evidence lower bound, log probability of training tokens, or log joint, in nats
        per token; nan where it was not evaluated.
    n_components : array-like of shape (n_records,)
        Number of topics; drawn alone where no bound was evaluated, as in a stream.
    label : str, default="bound (nats per token)"
        What `bound` holds.
    chain : array-like of int of shape (n_records,), default=None
        The chain of each record; `None` if there is but one.
    noun : str, default="topics"
        What is counted.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the bound.
    twin_ax_ : matplotlib Axes or None
        Axes of the number of topics; `None` if it never changed and has no axes of its
        own, and `ax_` where no bound was evaluated.
    figure_ : matplotlib Figure
        The figure.
    line_ : matplotlib Line2D
        The bound, of the first chain.
    lines_ : list of matplotlib Line2D
        The bound of each chain.

    See Also
    --------
    summary : The end of the fit as text.
    LineageDisplay : Where each topic came from.
    skbnp.callbacks.HeldOutMonitor : Records the score.

    References
    ----------
    .. [1] Michael Bryant and Erik B. Sudderth, "Truly Nonparametric Online Variational
       Inference for Hierarchical Dirichlet Processes", NIPS 2012.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skbnp import HDP
    >>> from skbnp.datasets import make_bars
    >>> from skbnp.inspection import HistoryDisplay
    >>> X = make_bars(100, random_state=0).data
    >>> hdp = HDP(n_components=5, max_iter=4, split_merge=False, random_state=0)
    >>> hdp = hdp.fit(X)
    >>> display = HistoryDisplay.from_estimator(hdp, x="seconds")
    >>> len(display.bound)
    4
    >>> plt.show()
    """

    ax_: "Axes"
    figure_: "Figure"
    twin_ax_: "Axes | None"

    def __init__(
        self,
        *,
        step,
        seconds,
        bound,
        n_components,
        label="bound (nats per token)",
        chain=None,
        noun="topics",
    ):
        self.step = step
        self.seconds = seconds
        self.bound = bound
        self.n_components = n_components
        self.label = label
        self.chain = chain
        self.noun = noun

    @classmethod
    @validate_params(
        {"x": [StrOptions({"step", "seconds"})]}, prefer_skip_nested_validation=False
    )
    def from_estimator(
        cls,
        estimator,
        feature_names=None,
        *,
        monitor=None,
        ax=None,
        x="step",
        **kwargs,
    ) -> Self:
        """Draw the history of a fitted model.

        Parameters
        ----------
        estimator : fitted topic model or Pipeline that ends in one
            Anything with `history_`.
        feature_names : None
            Ignored; all displays take it.
        monitor : HeldOutMonitor, default=None
            Draw what this callback recorded during the fit: the held-out score instead
            of the bound, and the number of topics as often. Of a sampler that is one
            line, of the samples kept so far.
        ax : matplotlib Axes or pair of them, default=None
            Axes to draw in; of a pair, the second takes the number of topics, and the
            colours of further fits go on. `None` makes a figure.
        x : {"step", "seconds"}, default="step"
            The horizontal axis.
        **kwargs : dict
            Handed to matplotlib's `plot` for the bound; of a pair of axes, a `label`
            and a `color` hold for both.

        Returns
        -------
        display : HistoryDisplay
            The drawn display.
        """
        history, bound, what = fitted(estimator, "history_"), "elbo", "bound"
        model = fitted_model(estimator)
        more: dict[str, Any] = {"noun": f"{noun_of(model)}s"}
        if monitor is not None:
            history, bound, what = monitor.history_, "score", "held-out score"
        elif "log_predictive" in history:
            bound, what = "log_predictive", "log probability of training tokens"
        elif "log_joint" in history:
            bound, what = "log_joint", "log joint"
            more["chain"] = history["chain"]
        more["label"] = f"{what} (nats per {unit_of(model)})"
        return cls(
            step=np.array(history["step"]),
            seconds=np.array(history["seconds"]),
            bound=np.array(history[bound], dtype=float),
            n_components=np.array(history["n_components"]),
            **more,
        ).plot(ax, x=x, **kwargs)

    @validate_params(
        {"x": [StrOptions({"step", "seconds"})]}, prefer_skip_nested_validation=False
    )
    def plot(self, ax=None, *, x="step", **kwargs) -> Self:
        """Draw the history.

        Parameters
        ----------
        ax : matplotlib Axes or pair of them, default=None
            Axes to draw in; of a pair, the second takes the number of topics, and the
            colours of further fits go on. `None` makes a figure.
        x : {"step", "seconds"}, default="step"
            The horizontal axis.
        **kwargs : dict
            Handed to matplotlib's `plot` for the bound; of a pair of axes, a `label`
            and a `color` hold for both.

        Returns
        -------
        display : HistoryDisplay
            This object.
        """
        plt = _pyplot()
        from matplotlib.axes import Axes
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        own = None if isinstance(ax, Axes) else ax[1]
        ax = ax if own is None else ax[0]
        self.ax_, self.figure_, self.twin_ax_ = ax, ax.figure, own
        at, bound = np.asarray(getattr(self, x)), np.asarray(self.bound)
        n_components = np.asarray(self.n_components)
        chains = list(map(self._last_of_steps, self._by_chain()))
        known = [rows[np.isfinite(bound[rows])] for rows in chains]
        style: dict[str, Any] = {"marker": "", "markersize": 4}
        style |= {"marker": "o"} if len(known[0]) < 40 else {}
        style |= {"color": BLUE} if own is None else {}
        style |= normalize_kwargs(kwargs, Line2D)
        (self.line_,) = ax.plot(at[known[0]], bound[known[0]], **style)
        color, label = self.line_.get_color(), self.line_.get_label()
        colors = shades(color, len(chains))
        self.lines_ = [self.line_]
        for rows, shade in zip(known[1:], colors[1:], strict=True):
            style |= {"color": shade, "label": "_another chain", "zorder": 1.9}
            self.lines_ += ax.plot(at[rows], bound[rows], **style)
        ax.set_ylabel(self.label)
        ax.spines[["top", "right"]].set_visible(False)
        if own is None and not any(map(len, known)):
            # A stream has no bound: the number of topics has the axes for itself.
            self.twin_ax_ = ax
            self._draw_n_components(ax, at, chains, shades(VERMILION, len(chains)))
        elif own is None:
            ax.yaxis.label.set_color(color)
            if len(np.unique(n_components)) > 1:
                self.twin_ax_ = self._make_twin()
                colors = shades(VERMILION, len(chains))
                self._draw_n_components(self.twin_ax_, at, chains, colors, lw=1.2)
        else:
            self._draw_n_components(own, at, chains, colors, label=label)
            own.spines[["top", "right"]].set_visible(False)
        for axes in (ax,) if own is None else (ax, own):
            steps = "updates" if self.chain is None else "sweeps"
            axes.set_xlabel(f"step ({steps})" if x == "step" else x)
            if x == "step":
                round_ticks(axes.xaxis)
        return self

    def _by_chain(self):
        """Records of each chain."""
        if self.chain is None or len(self.chain) == 0:
            return [np.arange(len(self.step))]
        chain = np.asarray(self.chain)
        return [np.flatnonzero(chain == k) for k in np.unique(chain)]

    def _last_of_steps(self, rows):
        """Leave out records of a step that others of the same step follow.

        A tree is recorded before and after its moves.
        """
        step = np.asarray(self.step)[rows]
        return rows[np.append(step[1:] != step[:-1], True)[: len(rows)]]

    def _make_twin(self):
        """Make axes for the number of topics, behind those of the bound."""
        twin = self.ax_.twinx()
        twin.yaxis.label.set_color(VERMILION)
        twin.spines[["top", "left"]].set_visible(False)
        self.ax_.set_zorder(twin.get_zorder() + 1)
        self.ax_.patch.set_visible(False)
        return twin

    def _draw_n_components(self, ax, at, chains, colors, **style):
        """Draw a line for each chain, the first in front."""
        from matplotlib.ticker import MaxNLocator

        n_components = np.asarray(self.n_components)
        for rows, color in zip(chains, colors, strict=True):
            ax.step(at[rows], n_components[rows], where="post", color=color, **style)
            style |= {"label": "_another chain", "zorder": 1.9}
        ax.set_ylabel(self.noun)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))


def round_ticks(axis):
    """Put ticks at round whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def shades(color, n):
    """Mix a colour with white: n of them, itself first, the palest last."""
    from matplotlib.colors import to_rgb

    color = np.array(to_rgb(color))
    return [
        tuple(color + (1.0 - color) * share) for share in np.linspace(0, 0.6, max(n, 1))
    ]
