"""Text of the outline of groups of topics, in a few lines."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skbnp.utils.ordering import largest

WIDTH = 80


#: A `TopicGroups`, whose module imports this one.
Groups = Any


class Section(NamedTuple):
    """A group in an outline, or all topics that are groups by themselves."""

    group: int  # -1: topics by themselves
    shown: NDArray[np.intp]  # rows, heaviest first
    hidden: NDArray[np.intp]


def counted(number: int, noun: str, plural: str = "s") -> str:
    """Return a number with a noun."""
    return f"{number:,} {noun}" + ("" if number == 1 else plural)


def fold(groups: Groups, n_lines: int) -> list[Section]:
    """Choose the sections of an outline of `n_lines` lines."""
    sizes = np.bincount(groups.labels[groups.labels >= 0], minlength=groups.n_groups)
    several = np.flatnonzero(sizes > 1)
    rows = {int(g): groups.members(int(g)) for g in several}
    alone = np.flatnonzero((groups.labels >= 0) & ~np.isin(groups.labels, several))
    if len(alone):
        rows[-1] = alone[largest(groups.topic_weights[alone], len(alone))]
    kept = list(rows)
    if 3 * len(kept) > n_lines:  # a heading, a topic and the rest of each
        kept = kept[: max((n_lines - 1) // 3, 1)]
        n_lines -= 1
    shown = {g: min(len(rows[g]), 3) for g in kept}

    def cost():
        return sum(
            1 + min(n + (n < len(rows[g])), len(rows[g])) for g, n in shown.items()
        )

    if cost() > n_lines:
        shown = dict.fromkeys(kept, 1)
    while weights := {
        g: groups.topic_weights[rows[g][n]]
        for g, n in shown.items()
        if n < len(rows[g])
    }:
        heaviest = max(weights, key=lambda g: weights[g])
        shown[heaviest] += 1
        if cost() > n_lines:
            shown[heaviest] -= 1
            break
    # A line that says that one topic is left out has room for it.
    shown = {g: len(rows[g]) if n == len(rows[g]) - 1 else n for g, n in shown.items()}
    return [Section(g, rows[g][:n], rows[g][n:]) for g, n in shown.items()]


def heading(groups: Groups, section: Section) -> str:
    """Return the heading of a section of an outline."""
    rows = np.concatenate([section.shown, section.hidden])
    weight = f"{100 * groups.topic_weights[rows].sum():.1f} %"
    if section.group < 0:
        return f"by themselves, {weight}"
    return title(groups, section.group)


def title(groups: Groups, group: int, weight: float | None = None) -> str:
    """Return a group as a line: its number, weight and terms."""
    weight = groups.weights[group] if weight is None else weight
    start = f"group {group}, {100 * weight:.1f} %"
    return f"{start}: {', '.join(groups.terms[group])}"


def rest_of(groups: Groups, rows: NDArray[np.intp]) -> str:
    """Return the text on the number of topics not shown."""
    weight = 100 * groups.topic_weights[rows].sum()
    return f"and {len(rows):,} lighter, {weight:.1f} %"


def left_out(groups: Groups, sections: list[Section]) -> str:
    """Return the text on the number of groups not shown."""
    shown = [k for section in sections for k in (*section.shown, *section.hidden)]
    rest = np.setdiff1d(np.flatnonzero(groups.labels >= 0), shown)
    n = len(np.unique(groups.labels[rest]))
    weight = 100 * groups.topic_weights[rest].sum()
    return f"and {counted(n, 'lighter group')}, {weight:.1f} %" if n else ""


def shortened(start: str, terms: list[str] | None = None) -> str:
    """Join as many terms as fit into a line."""
    if terms is None:
        start, _, rest = start.partition(": ")
        if not rest:
            return start
        start, terms = f"{start}: ", rest.split(", ")
    line = start
    for i, term in enumerate(terms):
        more = f", {term}" if i else term
        if len(line) + len(more) > WIDTH:
            break
        line += more
    return line
