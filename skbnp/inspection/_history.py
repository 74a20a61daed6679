"""Figures of the course of a fit: bound, number of topics, and samples of chains."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skbnp.inspection._displays import BLUE, FONT, GREY, VERMILION, Display
from skbnp.inspection._terms import terms_of
from skbnp.utils import fitted as read
from skbnp.utils.fitted import best_sample, has_mixed, is_sampler
from skbnp.utils.validation import POSITIVE, StrOptions, validated


@dataclass(kw_only=True, eq=False, repr=False)
class HistoryDisplay(Display):
    """The course of a fit: its bound, or its score, and its number of topics.

    Best made with :meth:`from_estimator`. Both share one plot, as in Figure 2 of [1]_.
    A sampler has no bound but a log joint probability, and a line for each chain: the
    first in full colour, the others paler. In the place of the bound of a collapsed
    :class:`skbnp.HDP` stands the log probability of training tokens, each given all
    others.

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
        Axes of the number of topics; `None` if it never changed, and `ax_` where no
        bound was evaluated.
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
    def from_estimator(
        cls, estimator, feature_names=None, *, monitor=None, ax=None, **kwargs
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
        ax : matplotlib Axes, default=None
            Axes to draw in. `None` makes a figure.
        **kwargs : dict
            Handed to :meth:`plot`.

        Returns
        -------
        display : HistoryDisplay
            The drawn display.
        """
        history, bound, what = read.fitted(estimator, "history_"), "elbo", "bound"
        model = read.fitted_model(estimator)
        more: dict[str, Any] = {"noun": f"{read.noun_of(model)}s"}
        if monitor is not None:
            history, bound, what = monitor.history_, "score", "held-out score"
        elif "log_predictive" in history:
            bound, what = "log_predictive", "log probability of training tokens"
        elif "log_joint" in history:
            bound, what = "log_joint", "log joint"
            more["chain"] = history["chain"]
        more["label"] = f"{what} (nats per {read.unit_of(model)})"
        return cls(
            step=np.array(history["step"]),
            seconds=np.array(history["seconds"]),
            bound=np.array(history[bound], dtype=float),
            n_components=np.array(history["n_components"]),
            **more,
        ).plot(ax, **kwargs)

    @validated(x=[StrOptions({"step", "seconds"})])
    def plot(self, ax=None, *, x="step", **kwargs) -> Self:
        """Draw the history.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            As in :meth:`from_estimator`.
        x : {"step", "seconds"}, default="step"
            The horizontal axis.
        **kwargs : dict
            Handed to matplotlib's `plot` for the bound.

        Returns
        -------
        display : HistoryDisplay
            This object.
        """
        ax, self.twin_ax_ = self._begin(ax, layout="constrained"), None
        at, bound = np.asarray(getattr(self, x)), np.asarray(self.bound)
        chains = self._chains()
        finite = [rows[np.isfinite(bound[rows])] for rows in chains]
        style = self._line_style(kwargs, len(finite[0]), color=BLUE)
        (self.line_,) = ax.plot(at[finite[0]], bound[finite[0]], **style)
        color, of_n = self.line_.get_color(), {}
        colors = shades(color, len(chains))
        self.lines_ = [self.line_]
        for rows, shade in zip(finite[1:], colors[1:], strict=True):
            style |= {"color": shade, "label": "_another chain", "zorder": 1.9}
            self.lines_ += ax.plot(at[rows], bound[rows], **style)
        self._finish(ax, ylabel=self.label)
        if not any(map(len, finite)):
            # A stream has no bound: the number of topics has the axes for itself.
            self.twin_ax_ = ax
        else:
            ax.yaxis.label.set_color(color)
            if len(np.unique(self.n_components)) > 1:
                self.twin_ax_ = twin = ax.twinx()
                twin.yaxis.label.set_color(VERMILION)
                twin.spines[["top", "left"]].set_visible(False)
                ax.set_zorder(twin.get_zorder() + 1)  # the bound in front
                ax.patch.set_visible(False)
                of_n["lw"] = 1.2
        if self.twin_ax_ is not None:
            colors = shades(VERMILION, len(chains))
            self._draw_n_components(self.twin_ax_, at, chains, colors, **of_n)
        steps = "updates" if self.chain is None else "sweeps"
        ax.set_xlabel(f"step ({steps})" if x == "step" else x)
        if x == "step":
            self._round_ticks(ax.xaxis)
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


def shades(color, n):
    """Return `n` mixtures of a colour with white, itself first, the palest last."""
    from matplotlib.colors import to_rgb

    color = np.array(to_rgb(color))
    return [
        tuple(color + (1.0 - color) * share) for share in np.linspace(0, 0.6, max(n, 1))
    ]


#: Lines of a legend.
MOST_ROWS = 8
#: The horizontal axis is at least this wide, so that one bar is a bar.
LEAST_SPAN = 6.0

#: Least share of tokens beside which a label stands; its height in sizes of type.
ROOM, LINE = 0.02, 1.15


@dataclass(kw_only=True, eq=False, repr=False)
class ComponentsPosteriorDisplay(Display):
    """Bar chart of the posterior of the number of topics.

    Best made with :meth:`from_estimator`. Each number of topics has a bar, a stack of
    the shares of the chains, the first at the bottom: if chains disagree, their bars
    are at different numbers, and the sum is not a posterior.

    Parameters
    ----------
    n_components : array-like of int of shape (n_values,)
        Numbers of topics.
    shares : array-like of float of shape (n_values,) or (n_chains, n_values)
        Their shares of all sweeps; of several chains, a row each.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes, matplotlib Figure
        Where it is drawn.
    bars_ : list of matplotlib BarContainer
        The bars of each chain.

    See Also
    --------
    TopicTraceDisplay : How the tokens fall to the topics, sweep by sweep.
    HistoryDisplay : The number of topics in every sweep, burn-in included.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skbnp import GibbsHDP
    >>> from skbnp.datasets import make_bars
    >>> from skbnp.inspection import ComponentsPosteriorDisplay
    >>> X = make_bars(100, random_state=0).data
    >>> hdp = GibbsHDP(max_iter=20, random_state=0).fit(X)
    >>> display = ComponentsPosteriorDisplay.from_estimator(hdp)
    >>> list(display.n_components) == list(hdp.n_components_posterior_)
    True
    >>> plt.show()
    """

    n_components: ArrayLike
    shares: ArrayLike

    @classmethod
    def from_estimator(
        cls, estimator, feature_names=None, *, ax=None, **kwargs
    ) -> Self:
        """Draw the posterior of a fitted sampler.

        Parameters
        ----------
        estimator : fitted topic model or Pipeline that ends in one
            Anything with `n_components_posterior_`, as `GibbsHDP`.
        feature_names : None
            Ignored; all displays take it.
        ax : matplotlib Axes, default=None
            Axes to draw in. `None` makes a figure.
        **kwargs : dict
            Handed to matplotlib's `bar`.

        Returns
        -------
        display : ComponentsPosteriorDisplay
            The drawn display.
        """
        posterior = read.fitted(estimator, "n_components_posterior_")
        numbers = np.array(list(posterior), dtype=int)
        shares = np.array([list(posterior.values())], dtype=float)
        model = read.fitted_model(estimator)
        traces = has_mixed(model, "n_components") if is_sampler(model) else None
        if traces is not None and len(traces) > 1:
            shares = (traces[:, :, None] == numbers).sum(axis=1) / traces.size
        return cls(n_components=numbers, shares=shares).plot(ax, **kwargs)

    def plot(self, ax=None, **kwargs) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax, **kwargs : matplotlib Axes, dict
            As in :meth:`from_estimator`.

        Returns
        -------
        display : ComponentsPosteriorDisplay
            This object.
        """
        ax = self._begin(ax, layout="constrained")
        parts = np.atleast_2d(self.shares)
        self.bars_, bottom, colors = [], 0.0, shades(BLUE, len(parts))
        for chain, shares in enumerate(parts):
            own = {"color": colors[chain], "bottom": bottom, "label": f"chain {chain}"}
            self.bars_.append(ax.bar(self.n_components, shares, **own | kwargs))
            bottom = bottom + shares
        if len(parts) > 1:
            self._legend(ncols=-(-len(parts) // MOST_ROWS))
        low, high = ax.get_xlim()
        if (more := LEAST_SPAN - (high - low)) > 0.0:
            ax.set_xlim(low - more / 2, high + more / 2)
        self._round_ticks(ax.xaxis)
        self._finish(ax, xlabel="Number of topics", ylabel="Share of sweeps")
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class TopicTraceDisplay(Display):
    """How tokens fall to topics, sweep by sweep: cumulative shares.

    Best made with :meth:`from_estimator`. At each kept sample of a chain the topics are
    ordered by size, and the lines stand at the share of tokens of the largest, of the
    two largest, and so on, up to 1: five topics of one size give lines at 0.2, 0.4,
    0.6, 0.8 and 1. On the right stand the numbers and terms of the topics of the last
    sample, in their bands, where there is room. A split opens a gap between two lines,
    a merge closes one. Lines are ordered by size: the k-th largest topic of one sample
    need not be that of the next. Only the first 20 lines are drawn; what is above the
    last one is the share of all
    other topics. This is Figure 4(b) of [1]_.

    Parameters
    ----------
    step : array-like of int of shape (n_samples,)
        Sweeps.
    shares : list of array-like of float
        For each of them the shares of the topics, largest first.
    chain : int, default=None
        Number of the chain, for the label; `None` leaves it out.
    unit : str, default="tokens"
        What the shares are of.
    labels : list of str, default=None
        What the topics of the last sample are called, largest first; `None` calls them
        by their rank.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes, matplotlib Figure
        Where it is drawn.
    lines_ : list of matplotlib Line2D
        The lines, that of the largest topic first.

    See Also
    --------
    ComponentsPosteriorDisplay : How many topics there are.
    HistoryDisplay : The number of topics in every sweep, burn-in included.

    Notes
    -----
    A trace of every sweep needs every sweep: ``GibbsHDP(burn_in=0, thin=1)``. Without
    burn-in there are no split-merge proposals but those that `split_merge_sweeps` asks
    for.

    References
    ----------
    .. [1] Chong Wang and David M. Blei, "A Split-Merge MCMC Algorithm for the
       Hierarchical Dirichlet Process", 2012.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skbnp import GibbsHDP
    >>> from skbnp.datasets import make_bars
    >>> from skbnp.inspection import TopicTraceDisplay
    >>> X = make_bars(100, random_state=0).data
    >>> hdp = GibbsHDP(max_iter=20, burn_in=0, thin=1, random_state=0).fit(X)
    >>> display = TopicTraceDisplay.from_estimator(hdp)
    >>> len(display.step)
    20
    >>> plt.show()
    """

    step: ArrayLike
    shares: list[Any]
    chain: int | None = None
    unit: str = "tokens"
    labels: list[str] | None = None

    @classmethod
    @validated(chain=[Integral, None])
    def from_estimator(
        cls, estimator, feature_names=None, *, chain=None, n_terms=3, ax=None, **kwargs
    ) -> Self:
        """Draw the trace of one chain of a fitted sampler.

        Parameters
        ----------
        estimator : fitted topic model or Pipeline that ends in one
            Anything with `samples_`, as `GibbsHDP`.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        chain : int, default=None
            The chain to draw. `None` takes that of the sample with the highest log
            joint, to which `components_` and the other attributes belong.
        n_terms : int, default=3
            Terms of each topic.
        ax : matplotlib Axes, default=None
            Axes to draw in. `None` makes a figure.
        **kwargs : dict
            Handed to :meth:`plot`.

        Returns
        -------
        display : TopicTraceDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If no sample is of that chain.
        """
        samples = read.fitted(estimator, "samples_")
        chains = sorted({sample.chain for sample in samples})
        if chain is None:
            chain = best_sample(read.fitted_model(estimator)).chain
        elif chain not in chains:
            raise ValueError(f"chain must be one of {chains}, got {chain}.")
        samples = [sample for sample in samples if sample.chain == chain]
        unit = read.unit_of(read.fitted_model(estimator))
        return cls(
            step=np.array([sample.step for sample in samples]),
            shares=[shares_of(sample) for sample in samples],
            chain=chain if len(chains) > 1 else None,
            unit=f"{unit}s",
            labels=_labels(estimator, samples[-1], feature_names, n_terms),
        ).plot(ax, **kwargs)

    @validated(n_components=[POSITIVE])
    def plot(self, ax=None, *, n_components=20, **kwargs) -> Self:
        """Draw the trace.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            As in :meth:`from_estimator`.
        n_components : int, default=20
            Lines to draw, largest topics first; all of them if there are fewer.
        **kwargs : dict
            Handed to matplotlib's `plot`.

        Returns
        -------
        display : TopicTraceDisplay
            This object.
        """
        ax = self._begin(ax, layout="constrained")
        limits = cumulative(self.shares, n_components)
        style = {"color": BLUE, "linewidth": 0.8, "markersize": 2.5, "clip_on": False}
        style = self._line_style(kwargs, len(limits), **style)
        self.lines_ = ax.plot(self.step, limits, **style)
        ax.set_ylim(0.0, 1.0)
        self._number_topics(limits[-1])
        last = limits[-1, -1]
        if max(map(len, self.shares)) > limits.shape[1] and last < 0.9:
            text = "all other topics"
            self._write(0.99, (last + 1.0) / 2, text, ha="right", color=GREY)
        self._round_ticks(ax.xaxis)
        sweep = "Sweep" if self.chain is None else f"Sweep of chain {self.chain}"
        self._finish(ax, xlabel=sweep, ylabel=f"Cumulative share of {self.unit}")
        return self

    def _number_topics(self, limits):
        """Write the number of a topic beside its share, if it fits."""
        below, height = np.append(0.0, limits[:-1]), self._extent[1]
        room = max(ROOM, LINE * FONT / max(height, 1.0))
        ranks = [f"{rank}" if rank > 1 else "1, the largest" for rank in range(1, 1000)]
        labels = ranks if self.labels is None else self.labels
        for label, low, high in zip(labels, below, limits, strict=False):
            if high - low >= room:
                middle = (low + high) / 2
                self._write(1.01, middle, label, color=GREY, size=FONT)


def _labels(estimator, sample, feature_names, n_terms):
    """Return topics of a sample by number and terms, largest first; else None."""
    counts = getattr(sample, "topic_word_counts", None)
    ids = getattr(sample, "component_ids", None)
    if counts is None or ids is None or len(ids) != counts.shape[0]:
        return None
    names = read.column_names(estimator, counts.shape[1], feature_names)
    order = np.argsort(-np.asarray(counts.sum(axis=1)).ravel(), kind="stable")
    return [
        f"{ids[k]}: {', '.join(terms_of(counts[[k]].toarray()[0], names, n_terms))}"
        for k in order
    ]


def shares_of(sample):
    """Shares of the topics of a sample, largest first."""
    counts = getattr(sample, "topic_word_counts", None)
    masses = sample.masses if counts is None else counts.sum(axis=1)
    masses = np.asarray(masses, dtype=float).ravel()
    return np.sort(masses)[::-1] / max(masses.sum(), 1.0)


def cumulative(shares, n_components):
    """Cumulative shares, (n_samples, n_lines); 1 after the last topic."""
    n_lines = min(n_components, max(map(len, shares)))
    limits = np.ones((len(shares), n_lines))
    for row, values in zip(limits, shares, strict=True):
        values = np.cumsum(values)[:n_lines]
        row[: len(values)] = values
    return limits
