"""Figure of groups of topics: the outline of a flat fit, and how groups merge."""

import textwrap
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from skbnp.inspection._displays import (
    BLUE,
    FONT,
    GREY,
    MARGIN,
    MAX_WIDTH,
    VERMILION,
    Display,
)
from skbnp.inspection._groups import (
    LINES,
    WIDTH,
    TopicGroups,
    fold,
    heading,
    left_out,
    rest_of,
    topic_groups,
)
from skbnp.utils.validation import validate_params

#: Of groups in turn; Okabe and Ito's.
COLORS = (BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
#: In sizes of the type: a line, more above a heading, the indent of topics, the key.
LEADING, SPACE, INDENT, KEY = 1.5, 0.6, 1.5, 1.5
#: The least size of type, and the share of the width that merges have.
SMALLEST, SHARE = 5.0, 0.22
#: Largest width of merges on a page, in sizes of the type.
WIDEST = 12.0


@dataclass(kw_only=True, eq=False, repr=False)
class TopicGroupsDisplay(Display):
    """The topics of a flat fit in groups: what they are about, and how they merge.

    Best made with :meth:`from_estimator`. Each group has a colour, a line of the terms
    that tell it apart, and its heaviest topics below, with their numbers and weights.
    The tree on the left merges groups of several topics: the farther to the left, the
    less a merge gains. :func:`scipy.cluster.hierarchy.dendrogram` draws that of all
    topics, from the `linkage` of the groups.

    Parameters
    ----------
    groups : TopicGroups
        What :func:`topic_groups` returns.

    Attributes
    ----------
    texts_ : list of matplotlib Text
        The lines, from the top.
    ax_, figure_ : matplotlib Axes, matplotlib Figure
        Where it is drawn.

    See Also
    --------
    topic_groups : The groups themselves; prints the same outline.
    TopicTreeDisplay : Draws models that are trees.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from skbnp.inspection import TopicGroupsDisplay, topic_groups
    >>> rng = np.random.default_rng(0)
    >>> topics = rng.dirichlet(np.full(30, 0.1), size=6)
    >>> shares = np.zeros((200, 6))
    >>> shares[:100, :3] = rng.dirichlet([1, 1, 1], size=100)
    >>> shares[100:, 3:] = rng.dirichlet([1, 1, 1], size=100)
    >>> groups = topic_groups(topics, doc_topic=rng.poisson(50 * shares))
    >>> display = TopicGroupsDisplay(groups=groups).plot()
    >>> len(display.texts_)
    8
    >>> plt.show()
    """

    groups: TopicGroups

    @classmethod
    def from_estimator(
        cls,
        estimator,
        feature_names=None,
        *,
        X=None,
        n_groups=None,
        n_lines=20,
        ax=None,
    ) -> Self:
        """Group the topics of a fitted model and draw the groups.

        Parameters
        ----------
        estimator : fitted topic model, Pipeline that ends in one, or array-like
            As in :func:`topic_groups`.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
                default=None
            Documents, as in :func:`topic_groups`.
        n_groups : int, default=None
            Number of groups; `None` finds it by the evidence.
        n_lines : int, default=20
            Lines at most, 4 or more.
        ax : matplotlib Axes, default=None
            Axes to draw in; type shrinks where they are too small for it. `None` makes
            a figure of fitting size.

        Returns
        -------
        display : TopicGroupsDisplay
            The drawn display.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        groups = topic_groups(estimator, X, n_groups, feature_names=feature_names)
        return cls(groups=groups).plot(ax, n_lines=n_lines)

    @validate_params({"n_lines": [LINES]})
    def plot(self, ax=None, *, n_lines=20) -> Self:
        """Draw the outline.

        Parameters
        ----------
        ax, n_lines : matplotlib Axes, int
            As in :meth:`from_estimator`; lighter topics, then lighter groups are left
            out.

        Returns
        -------
        display : TopicGroupsDisplay
            This object.
        """
        lines = self._lines(n_lines)
        height = KEY + sum(LEADING + SPACE * line.is_heading for line in lines)
        inside = height * FONT / 72
        whole = inside + 2 * MARGIN
        self._begin(ax, figsize=(MAX_WIDTH, whole))
        size = FONT
        if ax is None:
            x = MARGIN / MAX_WIDTH
            self.ax_.set_position((x, MARGIN / whole, 1 - 2 * x, inside / whole))
        else:
            size = min(FONT, self._room()[1] / height)
        self._draw(lines, max(size, SMALLEST))
        return self

    def _lines(self, n_lines):
        """List the lines of the outline: text, color, topic."""
        groups, sections = self.groups, fold(self.groups, n_lines)
        message = textwrap.wrap(groups.message, WIDTH)
        lines = [Line(part, [], GREY, -1, False) for part in message]
        _, order = self._merges([section.group for section in sections])
        sections.sort(key=lambda section: [*order, -1].index(section.group))
        for i, section in enumerate(sections):
            color = GREY if section.group < 0 else COLORS[i % len(COLORS)]
            start, _, terms = heading(groups, section).partition(": ")
            words = terms.split(", ") if terms else []
            if not groups._is_one:
                lines.append(Line(start, words, color, section.group, True))
            for k in section.shown:
                start = f"{groups.topic_ids[k]}, {100 * groups.topic_weights[k]:.1f} %"
                lines.append(
                    Line(start, groups.topic_terms[k], color, section.group, False)
                )
            if len(section.hidden):
                rest = rest_of(groups, section.hidden)
                lines.append(Line(rest, [], color, section.group, False))
        if more := left_out(groups, sections):
            lines.append(Line(more, [], GREY, -1, True))
        return lines

    def _draw(self, lines, size):
        """Draw the lines of the outline, and the tree of merges."""
        ax = self.ax_
        width = self._extent[0]
        left = min(SHARE * width, WIDEST * size)
        places: dict[int, tuple] = {}  # of groups: y of the first line and the last
        y, self.texts_ = 0.0, []
        for line in lines:
            y += SPACE * line.is_heading
            middle = y + LEADING / 2
            y += LEADING
            x = left + (0.5 if line.is_heading else 0.5 + INDENT) * size
            weight, color = "bold" if line.is_heading else "normal", line.color
            if not line.is_heading:
                color = "black" if line.terms else GREY
            text = self._text(line, width - x, size * (1.1 if line.is_heading else 1.0))
            style = {"color": color, "size": size, "weight": weight}
            self.texts_.append(self._write(x / width, middle, text, **style))
            if line.group >= 0:
                first = places.get(line.group, (middle,))[0]
                places[line.group] = first, middle, line.color
        ax.set_ylim(y + KEY, 0.0)
        self._draw_merges(places, left / width, size)

    def _text(self, line, room, size):
        """Return as many terms as fit into a width."""
        ends = [line.start]
        for i, term in enumerate(line.terms):
            ends.append(ends[-1] + (", " if i else ": ") + term)
        result = self._widths(ends, size)
        fits = [text for text, wide in zip(ends, result, strict=True) if wide <= room]
        return fits[-1] if fits else ends[0]

    def _merges(self, groups):
        """Return merges of shown groups, (one, other, height), and their order.

        The members of a merge are lists of groups, the heavier first.
        """
        ends = {k: [g] for k, g in enumerate(self.groups.labels.tolist())}
        n, merges = len(ends), []
        for row, (first, other, height, _) in enumerate(self.groups.linkage):
            one, two = (ends.pop(int(i)) for i in (first, other))
            one, two = ([g for g in part if g in groups] for part in (one, two))
            if one and two and one != two:
                heavy = sorted(
                    (one, two), key=lambda part: -self.groups.weights[part].sum()
                )
                merges.append((*heavy, height))
                ends[n + row] = [*heavy[0], *heavy[1]]
            else:
                ends[n + row] = one or two
        return merges, ends[n + len(self.groups.linkage) - 1] if n > 1 else list(groups)

    def _draw_merges(self, places, share, size):
        """Draw the tree of merges of shown groups, its root on the left."""
        ax, style = self.ax_, {"lw": 1.2 * size / FONT, "solid_joinstyle": "miter"}
        merges, _ = self._merges(list(places))
        top = max((height for *_, height in merges), default=0.0)
        ends = {(g,): (0.0, place[0]) for g, place in places.items()}
        for one, two, height in merges:
            (x0, y0), (x1, y1) = ends[tuple(one)], ends[tuple(two)]
            ax.plot([x0, height, height, x1], [y0, y0, y1, y1], color=GREY, **style)
            ends[tuple(one + two)] = height, (y0 + y1) / 2
        for middle, last, color in places.values():
            ax.plot([0.0, 0.0], [middle, last], color=color, **style)
        ax.set_axis_off()
        top = top or 1.0
        ax.set_xlim(1.04 * top, 1.04 * top - 1.04 * top / share)
        if merges:
            unit = 10.0 ** np.floor(np.log10(top))
            unit *= max(step for step in (1, 2, 5) if step * unit <= top)
            y = ax.get_ylim()[0] - LEADING / 2
            ax.plot([0.0, unit], [y, y], color=GREY, **style)
            noun = "nat" if unit == 1.0 else "nats"
            what = f"this length: {unit:g} {noun} of gain per document"
            self._write(
                share + 0.5 * size / self._extent[0], y, what, color=GREY, size=size
            )


class Line(NamedTuple):
    """A line of the outline."""

    start: str
    terms: list[str]
    color: str
    group: int  # -1: none
    is_heading: bool
