"""Figure of the course of a fit, and helpers of all figures by matplotlib."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skbnp.utils.fitted import fitted, fitted_model, noun_of, unit_of
from skbnp.utils.validation import StrOptions, validate_params

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Blue and vermilion of Okabe and Ito: told apart by every kind of eye.
BLUE, VERMILION = "#0072B2", "#D55E00"
GREY = "#666666"
#: Inches around all, and across, where the figure is ours; points of letters.
MARGIN, MAX_WIDTH, FONT = 0.25, 10.0, 9.0
#: Letters of a name in a figure.
LONGEST_NAME = 18


def axes_of(ax, **style):
    """Return given axes, or those of a new figure, if there is matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Displays need matplotlib; install it with `pip install skbnp[plot]`."
        ) from error
    return plt.subplots(**style)[1] if ax is None else ax


def legend(ax, handles, loc, anchor, size, **style):
    """Draw a legend without a frame, one of its corners at a point of the axes."""
    style |= {"bbox_to_anchor": anchor, "fontsize": size, "frameon": False}
    return as_written(ax.legend(handles=handles, loc=loc, **style))


def as_written(key):
    """Draw dollar signs of a legend as such, not as the ends of a formula."""
    for text in key.get_texts():
        text.set_parse_math(False)
    return key


def shortened(text, most=LONGEST_NAME):
    """Shorten a text, as a name to the room of a title or a label."""
    return text if len(text) <= most else text[: most - 1] + "…"


class Display:
    """Axes that a figure is drawn in, their size in points, and texts in them."""

    ax_: "Axes"
    figure_: "Figure"

    def _begin(self, ax, **style) -> Any:
        """Take axes, or make a figure; return the axes."""
        self.ax_ = ax = axes_of(ax, **style)
        self.figure_ = ax.figure
        return ax

    @property
    def _extent(self) -> Any:
        """Width and height of the axes."""
        return np.array(self.ax_.get_window_extent().size) * 72 / self.figure_.dpi

    def _room(self):
        """Width and height of given axes, which a layout may move."""
        self.figure_.draw_without_rendering()
        return self._extent

    def _widths(self, texts, size):
        """Widths of texts."""
        probe = self.figure_.text(0, 0, "", size=size, parse_math=False)
        result = []
        for text in texts:
            probe.set_text(text)
            result.append(probe.get_window_extent().width * 72 / self.figure_.dpi)
        probe.remove()
        return result

    def _write(self, x, y, text, **style):
        """Write a text at a share of the width; a dollar sign is a dollar sign."""
        style |= {"transform": self.ax_.get_yaxis_transform(), "parse_math": False}
        return self.ax_.text(x, y, text, va="center", **style)

    def _label(self, text, place, offset, size, pad, **style):
        """Write a text on white, some points beside a place."""
        style |= {
            "bbox": {"fc": "white", "ec": "none", "pad": pad * size},
            "size": size,
        }
        style |= {"xytext": offset, "textcoords": "offset points", "zorder": 3}
        style |= {"va": "center", "parse_math": False, "annotation_clip": False}
        return self.ax_.annotate(text, place, **style)


@dataclass(kw_only=True, eq=False, repr=False)
class HistoryDisplay(Display):
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

    step: ArrayLike
    seconds: ArrayLike
    bound: ArrayLike
    n_components: ArrayLike
    label: str = "bound (nats per token)"
    chain: Any = None
    noun: str = "topics"

    @classmethod
    @validate_params({"x": [StrOptions({"step", "seconds"})]})
    def from_estimator(
        cls, estimator, feature_names=None, *, monitor=None, x="step", ax=None, **kwargs
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
        x : {"step", "seconds"}, default="step"
            The horizontal axis.
        ax : matplotlib Axes or pair of them, default=None
            Axes to draw in; of a pair, the second takes the number of topics, and the
            colours of further fits go on. `None` makes a figure.
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

    @validate_params({"x": [StrOptions({"step", "seconds"})]})
    def plot(self, ax=None, *, x="step", **kwargs) -> Self:
        """Draw the history.

        Parameters
        ----------
        ax, x, **kwargs : matplotlib Axes or pair of them, str, dict
            As in :meth:`from_estimator`.

        Returns
        -------
        display : HistoryDisplay
            This object.
        """
        ax, own = (ax, None) if ax is None or hasattr(ax, "plot") else ax[:2]
        ax, self.twin_ax_ = self._begin(ax, layout="constrained"), own
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        at, bound = np.asarray(getattr(self, x)), np.asarray(self.bound)
        n_components = np.asarray(self.n_components)
        chains = self._chains()
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
                self.twin_ax_ = twin = ax.twinx()
                twin.yaxis.label.set_color(VERMILION)
                twin.spines[["top", "left"]].set_visible(False)
                ax.set_zorder(twin.get_zorder() + 1)  # the bound in front
                ax.patch.set_visible(False)
                colors = shades(VERMILION, len(chains))
                self._draw_n_components(twin, at, chains, colors, lw=1.2)
        else:
            self._draw_n_components(own, at, chains, colors, label=label)
            own.spines[["top", "right"]].set_visible(False)
        for axes in (ax,) if own is None else (ax, own):
            steps = "updates" if self.chain is None else "sweeps"
            axes.set_xlabel(f"step ({steps})" if x == "step" else x)
            if x == "step":
                round_ticks(axes.xaxis)
        return self

    def _chains(self):
        """Return the rows of each chain, the last of each step.

        A tree is recorded before and after its moves.
        """
        step, has_chains = np.asarray(self.step), self.chain is not None
        chain = np.asarray(self.chain if has_chains and len(self.chain) else 0 * step)
        rows = [np.flatnonzero(chain == k) for k in np.unique(chain)] or [np.arange(0)]
        return [of[np.append(np.diff(step[of]) != 0, True)[: len(of)]] for of in rows]

    def _draw_n_components(self, ax, at, chains, colors, **style):
        """Draw the number of topics: a line for each chain, the first in front."""
        from matplotlib.ticker import MaxNLocator

        n_components = np.asarray(self.n_components)
        for rows, color in zip(chains, colors, strict=True):
            ax.step(at[rows], n_components[rows], where="post", color=color, **style)
            style |= {"label": "_another chain", "zorder": 1.9}
        ax.set_ylabel(self.noun)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))


def round_ticks(axis):
    """Set ticks at round whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def shades(color, n):
    """Return `n` mixtures of a colour with white, itself first, the palest last."""
    from matplotlib.colors import to_rgb

    color = np.array(to_rgb(color))
    return [
        tuple(color + (1.0 - color) * share) for share in np.linspace(0, 0.6, max(n, 1))
    ]
