"""Figures of a sampler's posterior: number of topics, and shares of tokens by sweep."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skbnp.inspection._chains import best_sample, is_sampler
from skbnp.inspection._displays import BLUE, FONT, GREY, Display, round_ticks, shades
from skbnp.inspection._terms import terms_of
from skbnp.utils.fitted import column_names, fitted, fitted_model, unit_of
from skbnp.utils.mixing import has_mixed, mixing
from skbnp.utils.validation import POSITIVE, validate_params

#: Numbers of topics that get a bar each; a wider range is cut into bins.
MOST_BARS, MOST_BINS = 30, 25
#: Lines of a legend.
MOST_ROWS = 8
#: The horizontal axis is at least this wide, so that one bar is a bar.
LEAST_SPAN = 6.0
#: Samples that are drawn as dots too.
FEW = 40

#: Least share of tokens beside which a label stands; its height in sizes of type.
ROOM, LINE = 0.02, 1.15


@dataclass(kw_only=True, eq=False, repr=False)
class ComponentsPosteriorDisplay(Display):
    """Bar chart of the posterior of the number of topics.

    Best made with :meth:`from_estimator`. Each number of topics has a bar; a range of
    more than 30 is cut into bins of 2, 5, 10, 20, 50, ... numbers, from one multiple to
    the next, and the bar covers the numbers of its bin. Bars are stacks of the shares
    of the chains, the first at the bottom: if chains disagree, their bars are at
    different numbers, and the sum is not a posterior.

    Parameters
    ----------
    n_components : array-like of int of shape (n_values,)
        Numbers of topics.
    shares : array-like of float of shape (n_values,) or (n_chains, n_values)
        Their shares of all sweeps; of several chains, a row each.
    r_hat : float, default=None
        R-hat of the chains, for the legend.

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
    r_hat: float | None = None

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
        posterior = fitted(estimator, "n_components_posterior_")
        numbers = np.array(list(posterior), dtype=int)
        shares, r_hat = np.array([list(posterior.values())], dtype=float), None
        model = fitted_model(estimator)
        traces = has_mixed(model, "n_components") if is_sampler(model) else None
        if traces is not None and len(traces) > 1:
            r_hat, _ = mixing(traces)
            shares = (traces[:, :, None] == numbers).sum(axis=1) / traces.size
        return cls(n_components=numbers, shares=shares, r_hat=r_hat).plot(ax, **kwargs)

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
        parts = [
            binned(self.n_components, shares) for shares in np.atleast_2d(self.shares)
        ]
        begin, width, _ = parts[0]
        style = {"width": 0.8 if width == 1 else width}
        if width > 1:
            style |= {"edgecolor": "white", "linewidth": 0.5}
        # A bin stands over its first to its last number.
        at, self.bars_, bottom = begin + (width - 1) / 2, [], 0.0
        colors = shades(BLUE, len(parts))
        for chain, (_, _, shares) in enumerate(parts):
            own = {"color": colors[chain], "bottom": bottom, "label": f"chain {chain}"}
            self.bars_.append(ax.bar(at, shares, **style | own | kwargs))
            bottom = bottom + shares
        if len(parts) > 1:
            known = self.r_hat is not None and np.isfinite(self.r_hat)
            title = f"R-hat {self.r_hat:.2f}" if known else None
            ax.legend(title=title, frameon=False, ncols=-(-len(parts) // MOST_ROWS))
        low, high = ax.get_xlim()
        if (more := LEAST_SPAN - (high - low)) > 0.0:
            ax.set_xlim(low - more / 2, high + more / 2)
        round_ticks(ax.xaxis)
        ax.set_xlabel("Number of topics")
        ax.set_ylabel("Share of sweeps")
        ax.spines[["top", "right"]].set_visible(False)
        return self


def binned(numbers, shares):
    """Sum shares of whole numbers in bins; return first numbers, width, sums."""
    numbers, shares = np.asarray(numbers, dtype=int), np.asarray(shares, dtype=float)
    width = bin_width(numbers.min(), numbers.max())
    bins = numbers // width
    total = np.bincount(bins - bins.min(), weights=shares)
    return (bins.min() + np.arange(len(total))) * width, width, total


def bin_width(low, high):
    """Return the number of whole numbers that share a bar."""
    width, factors = 1, (2, 2.5, 2)  # 1, 2, 5, 10, 20, 50, ...
    if high - low < MOST_BARS:
        return width
    k = 0
    while high // width - low // width >= MOST_BINS:
        width, k = int(width * factors[k % 3]), k + 1
    return width


@dataclass(kw_only=True, eq=False, repr=False)
class TopicTraceDisplay(Display):
    """How tokens fall to topics, sweep by sweep: cumulative shares.

    Best made with :meth:`from_estimator`. At each kept sample of a chain the topics are
    ordered by size, and the lines stand at the share of tokens of the largest, of the
    two largest, and so on, up to 1: five topics of one size give lines at 0.2, 0.4,
    0.6, 0.8 and 1. On the right stand the numbers and terms of the topics of the last
    sample, in their bands, where there is room. A split opens a gap between two lines,
    a merge closes one. The lines speak of sizes: the k-th largest topic of one sample
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
        What to say of the chain; `None` says nothing.
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
    @validate_params(
        {"chain": [Integral, None], "n_components": [POSITIVE], "n_terms": [POSITIVE]}
    )
    def from_estimator(
        cls,
        estimator,
        feature_names=None,
        *,
        chain=None,
        n_components=20,
        n_terms=3,
        ax=None,
        **kwargs,
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
            joint, of which `components_` and the other attributes speak.
        n_components : int, default=20
            Lines to draw, largest topics first; all of them if there are fewer.
        n_terms : int, default=3
            Terms of each topic.
        ax : matplotlib Axes, default=None
            Axes to draw in. `None` makes a figure.
        **kwargs : dict
            Handed to matplotlib's `plot`.

        Returns
        -------
        display : TopicTraceDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If no sample is of that chain.
        """
        samples = fitted(estimator, "samples_")
        chains = sorted({sample.chain for sample in samples})
        if chain is None:
            chain = best_sample(fitted_model(estimator)).chain
        elif chain not in chains:
            raise ValueError(f"chain must be one of {chains}, got {chain}.")
        samples = [sample for sample in samples if sample.chain == chain]
        unit = unit_of(fitted_model(estimator))
        return cls(
            step=np.array([sample.step for sample in samples]),
            shares=[shares_of(sample) for sample in samples],
            chain=chain if len(chains) > 1 else None,
            unit=f"{unit}s",
            labels=_labels(estimator, samples[-1], feature_names, n_terms),
        ).plot(ax, n_components=n_components, **kwargs)

    @validate_params({"n_components": [POSITIVE]})
    def plot(self, ax=None, *, n_components=20, **kwargs) -> Self:
        """Draw the trace.

        Parameters
        ----------
        ax, n_components, **kwargs : matplotlib Axes, int, dict
            As in :meth:`from_estimator`.

        Returns
        -------
        display : TopicTraceDisplay
            This object.
        """
        ax = self._begin(ax, layout="constrained")
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        limits = cumulative(self.shares, n_components)
        style = {"color": BLUE, "linewidth": 0.8, "markersize": 2.5, "clip_on": False}
        style |= {"marker": "o" if len(limits) < FEW else ""}
        style |= normalize_kwargs(kwargs, Line2D)
        self.lines_ = ax.plot(self.step, limits, **style)
        ax.set_ylim(0.0, 1.0)
        self._number_topics(limits[-1])
        last = limits[-1, -1]
        if max(map(len, self.shares)) > limits.shape[1] and last < 0.9:
            text = "all other topics"
            self._write(0.99, (last + 1.0) / 2, text, ha="right", color=GREY)
        round_ticks(ax.xaxis)
        ax.set_xlabel("Sweep" if self.chain is None else f"Sweep of chain {self.chain}")
        ax.set_ylabel(f"Cumulative share of {self.unit}")
        ax.spines[["top", "right"]].set_visible(False)
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
    names = column_names(estimator, counts.shape[1], feature_names)
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
