"""Figure of shares of topics in groups of documents or over time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skbnp.inspection._displays import GREY, Display, as_written, legend, shortened
from skbnp.inspection._shares import TopicShares, topic_shares
from skbnp.utils.fitted import fitted_model, noun_of
from skbnp.utils.labels import check_labels
from skbnp.utils.ordering import largest
from skbnp.utils.validation import POSITIVE, validate_params

#: Of Okabe and Ito: told apart by every kind of eye; and marks, in black and white.
COLOURS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
MARKS = "os^Dv<"
#: Part of the distance of two groups over which their topics are spread.
SPREAD = 0.5
#: Groups from which intervals are bands, where labels are numbers or dates.
MANY = 8
#: Part of axes that are given which the names of topics take, at most.
HIGHEST = 0.6
#: Dates that are drawn one by one, at most.
DATES = 60
#: Letters of labels of groups from which they are turned.
LONG = 30


@dataclass(kw_only=True, eq=False, repr=False)
class TopicSharesDisplay(Display):
    """Shares of topics in groups or over time, with their intervals.

    Best made with :meth:`from_estimator`. Groups stand side by side, in their order;
    numbers and dates stand where they are, and topics have a line, over periods too.

    Parameters
    ----------
    shares : TopicShares
        What is drawn.
    noun : str, default="topic"
        What components are called.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The plot.
    figure_ : matplotlib Figure
        The figure.
    topics_ : ndarray of int
        Numbers of the topics that are drawn.

    See Also
    --------
    topic_shares : The same as arrays and frames.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skbnp import HDP
    >>> from skbnp.inspection import TopicSharesDisplay
    >>> X = [[9, 0], [5, 1], [0, 8], [1, 9]] * 9
    >>> hdp = HDP(n_components=2, random_state=0).fit(X)
    >>> years = [2001, 2001, 2002, 2002] * 9
    >>> display = TopicSharesDisplay.from_estimator(hdp, X, years)
    >>> plt.show()
    """

    shares: TopicShares
    noun: str = "topic"

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        by,
        feature_names=None,
        *,
        topics=None,
        n_components=6,
        ax=None,
        **kwargs,
    ) -> Self:
        """Draw the shares of topics by group or time.

        Parameters
        ----------
        estimator : fitted topic model or Pipeline that ends in one
            What :func:`topic_shares` takes.
        X : array-like or sparse of shape (n_samples, n_features), or iterable of str
            Documents; raw ones for a text Pipeline.
        by : array-like of shape (n_samples,)
            Label of each document, as of :func:`topic_shares`. More than 60 different
            dates are drawn by month, or by year where these are as many months.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        topics : array-like of int, default=None
            Numbers of the topics to draw. None draws those whose shares differ most
            between groups.
        n_components : int, default=6
            Topics to draw where `topics` is None.
        ax : matplotlib Axes, default=None
            Axes to draw in. `None` makes a figure.
        **kwargs : dict
            Handed to :func:`topic_shares`.

        Returns
        -------
        display : TopicSharesDisplay
            The drawn display.
        """
        by, unit = _spans(by)
        shares = topic_shares(estimator, X, by, feature_names, **kwargs)
        display = cls(shares=shares, noun=noun_of(fitted_model(estimator)))
        display.plot(ax, topics=topics, n_components=n_components)
        if unit:
            display.ax_.set_xlabel(f"date, by {unit}")
        return display

    @validate_params({"n_components": [POSITIVE]})
    def plot(self, ax=None, *, topics=None, n_components=6) -> Self:
        """Draw the shares.

        Parameters
        ----------
        ax, topics, n_components : matplotlib Axes, array-like of int, int
            As in :meth:`from_estimator`.

        Returns
        -------
        display : TopicSharesDisplay
            This object.

        Raises
        ------
        ValueError
            If no topic has one of the numbers.
        """
        shares, is_made = self.shares, ax is None
        is_scale = shares.slope is not None
        has_places = is_scale and shares.groups.dtype.kind in "iufM"
        width = 8.0 if is_scale else min(max(0.15 * len(shares.groups), 8.0), 16.0)
        ax = self._begin(ax, figsize=(width, 4.0), layout="constrained")
        columns = self._columns(topics, n_components)
        self.topics_ = shares.topics[columns]
        places: Any = shares.groups if has_places else np.arange(len(shares.groups))
        for rank, k in enumerate(columns):
            style = {
                "color": COLOURS[rank % len(COLOURS)],
                "marker": MARKS[rank // len(COLOURS) % len(MARKS)],
                "markersize": 4,
                "label": self._name(k),
            }
            mean, low, high = shares.mean[:, k], shares.low[:, k], shares.high[:, k]
            if is_scale and len(places) >= MANY:
                ax.plot(places, mean, linewidth=1.2, **style)
                color = style["color"]
                ax.fill_between(places, low, high, color=color, alpha=0.2, linewidth=0)
                continue
            # Quantiles of few documents may leave the mean out.
            reach = np.nan_to_num(np.maximum([mean - low, high - mean], 0.0))
            style |= {"linestyle": "-" if is_scale else "", "linewidth": 1.2}
            at = places
            if not is_scale:
                at = places + SPREAD * ((rank + 0.5) / len(columns) - 0.5)
            ax.errorbar(at, mean, yerr=reach, capsize=2, **style)
        if not has_places:
            labels = [str(label) for label in shares.groups]
            turn = sum(map(len, labels)) > LONG
            size = 9.0 if len(labels) <= MANY else max(5.0, 90.0 / len(labels))
            style = {"rotation": 90 if turn else 0, "fontsize": size}
            ax.set_xticks(places, labels, parse_math=False, **style)
        elif shares.groups.dtype.kind in "iu" and len(places) < MANY:
            ax.set_xticks(places)
        ax.set_ylim(bottom=0.0)
        ax.yaxis.set_major_formatter(lambda y, _: f"{100 * y:g} %")
        ax.set_ylabel(f"share, with {100 * shares.confidence:g} % intervals")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color=GREY, alpha=0.2)
        self._draw_key(is_made)
        return self

    def _draw_key(self, is_made):
        """Name the topics: beside the axes, or above lines in given axes."""
        ax = self.ax_
        if is_made:
            legend(self.ax_, None, "upper left", (1.0, 1.0), "small")
            return
        key = as_written(ax.legend(loc="upper left", frameon=False, fontsize="x-small"))
        self.figure_.draw_without_rendering()
        height = key.get_window_extent().height / ax.get_window_extent().height
        ax.set_ylim(top=ax.get_ylim()[1] / (1.0 - min(height, HIGHEST)))

    def _columns(self, topics, n_components):
        """Choose topics: given ones, or those whose shares differ most, by weight."""
        shares = self.shares
        if topics is not None:
            wanted = np.atleast_1d(topics).tolist()
            place = {number: k for k, of in enumerate(shares.members) for number in of}
            unknown = [number for number in wanted if number not in place]
            if unknown:
                raise ValueError(
                    f"topics must be numbers among {shares.topics.tolist()[:10]}, got "
                    f"{unknown[0]!r}."
                )
            return [place[number] for number in wanted]
        least = min(2, shares.n_documents.max())  # one document tells little
        means = np.where(shares.n_documents[:, None] >= least, shares.mean, np.nan)
        spread = np.nan_to_num(np.nanmax(means, axis=0) - np.nanmin(means, axis=0))
        chosen = largest(spread, n_components)
        return chosen[np.argsort(-np.nanmean(means, axis=0)[chosen], kind="stable")]

    def _name(self, k):
        """Return number, name and terms of topic k."""
        shares = self.shares
        terms = " ".join(shares.terms[k][:3])
        name = shares.names[k] or f"{self.noun} {shares.topics[k]}"
        return f"{shortened(name)}: {terms}"


def _spans(by):
    """Group many dates by month or year: labels, and the span of a label."""
    by = list(by) if isinstance(by, Iterator) else by
    labels = check_labels(by, None, "by", "document")
    dates = labels.values()
    if dates.dtype.kind != "M" or len(labels.distinct) <= DATES:
        return by, ""
    months = dates.astype("datetime64[M]")
    if len(np.unique(months)) <= DATES:
        return months, "month"
    return dates.astype("datetime64[Y]"), "year"
