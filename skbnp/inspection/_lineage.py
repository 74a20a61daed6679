"""Figure of the lineage of topics: births, splits, merges and ends."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from skbnp.inspection._displays import BLUE, FONT, GREY, MARGIN, VERMILION, Display
from skbnp.inspection._terms import top_terms
from skbnp.utils import fitted as read
from skbnp.utils.arrays import largest
from skbnp.utils.fitted import best_sample
from skbnp.utils.validation import POSITIVE, validated


@dataclass
class Lane:
    """Life of one component id: begin, end, parents and successors."""

    id: int
    begin: int
    end: int | None = None  # None: lives
    origin: list[int] = field(default_factory=list)  # ids it was split from
    target: list[int] = field(default_factory=list)  # ids it was merged into
    is_born: bool = False  # after the start, split from no other
    pauses: list[tuple[int, int]] = field(default_factory=list)  # end and return
    sources: list[int] = field(default_factory=list)  # whose rows it has returned to


def lanes_of(lineage):
    """Return the life of every id by the log of births, splits, merges and ends."""
    lanes = {}
    for number, (step, kind, parents, children) in enumerate(lineage):
        for name in children:
            if name not in lanes:
                lanes[name] = Lane(name, step, origin=list(parents))
                # In a tree a node is born below another.
                lanes[name].is_born = number > 0 and (kind == "birth" or not parents)
            elif (lane := lanes[name]).end is not None:  # it comes back
                lane.pauses.append((lane.end, step))
                lane.sources.append(parents[children.index(name)])
                lane.end, lane.target = None, []
        for name in set(parents) - set(children):
            target = list(children)
            if kind in ("exchange", "revive"):  # its rows have one of the names
                target = [children[parents.index(name)]]
            lanes[name].end, lanes[name].target = step, target
    return lanes


def ancestors(lineage, ids):
    """Return the ids and all from which they came."""
    result = set(ids)
    for entry in reversed(lineage):
        if result.intersection(entry.children):
            result.update(entry.parents)
    return result


def descendants(lineage, ids):
    """Return the ids and all that came from them."""
    result = set(ids)
    for entry in lineage:
        if result.intersection(entry.parents):
            result.update(entry.children)
    return result


def arranged(lanes):
    """Order lanes so that few connectors cross.

    A child is below the lane that it was split from, later ones nearer: the connectors
    pass before the later ones begin. A lane that was merged and is no child is above
    its target, earlier ones nearer.
    """
    parent = {}
    for name, lane in lanes.items():
        parent[name] = next((other for other in lane.origin if other in lanes), None)
    for name, lane in lanes.items():
        target = next((other for other in lane.target if other in lanes), None)
        if parent[name] is None and target is not None:
            root = target
            while parent[root] is not None:
                root = parent[root]
            if root != name:
                parent[name] = target

    def around(name):
        """List the lanes above a lane, itself, and those below it."""
        own = [lanes[other] for other in lanes if parent[other] == name]
        above = [lane for lane in own if name not in lane.origin]
        below = [lane for lane in own if name in lane.origin]
        above.sort(key=lambda lane: (-lane.end, lane.id))
        below.sort(key=lambda lane: (-lane.begin, -lane.id))
        yield from (other for lane in above for other in around(lane.id))
        yield name
        yield from (other for lane in below for other in around(lane.id))

    roots = sorted(name for name in lanes if parent[name] is None)
    return [lanes[name] for root in roots for name in around(root)]


def connectors(lanes, row, last_step, shift):
    """Positions of the ends of lanes, `shift` apart if a step has several.

    `row` maps drawn ids to rows. Returns where lanes begin, end and are revived, and
    the kind, step, first and last row of each connector.
    """
    begins = {lane.id: lane.begin for lane in lanes}
    ends = {lane.id: last_step if lane.end is None else lane.end for lane in lanes}
    returns: dict[tuple[int, int], float] = {}
    events: list[tuple[Any, ...]] = []
    for lane in lanes:
        pairs = zip(lane.pauses, lane.sources, strict=True)
        for number, ((_, back), other) in enumerate(pairs):
            if other in row:
                moved = lane.id, number
                events.append((back, "revive", returns, other, lane.id, moved))
        for other in row.keys() & lane.origin:
            kind = "birth" if lane.is_born else "split"
            events.append((lane.begin, kind, begins, other, lane.id, (lane.id,)))
        for other in row.keys() & lane.target:
            events.append((lane.end, "merge", ends, lane.id, other, (lane.id,)))
    taken: dict[int, list] = {}  # by step and slot: spans of rows
    edges = []
    # Splits are tried after an update, merges before the next.
    for step, kind, places, *pair, moved in sorted(
        events, key=lambda event: (event[0], event[1] == "merge", event[5])
    ):
        source, target = (row[name] for name in pair)
        low, high = sorted((source, target))
        slots = taken.setdefault(step, [])
        has_room = [all(high < b or e < low for b, e in spans) for spans in slots]
        number = [*has_room, True].index(True)
        if number == len(slots):
            slots.append([])
        slots[number].append((low, high))
        at = step + number * shift
        places[moved if kind == "revive" else moved[0]] = at
        edges.append((kind, at, source, target))
    return begins, ends, returns, edges


def history_of(estimator):
    """Return the log of topics, the step of those drawn, and their chain."""
    model, lineage = read.fitted_model(estimator), read.fitted(estimator, "lineage_")
    best = best_sample(model)
    if best is None:
        steps = read.fitted(estimator, "history_")["step"]
        return lineage, max([*steps, lineage[-1].step]), 0
    return lineage, max(best.step, lineage[-1].step), best.chain


def recorded(monitor, names, n_terms, chain):
    """Return steps and terms of each id of a chain, as a monitor recorded them."""
    records: dict[int, list] = {}
    history = monitor.history_
    columns = ("step", "chain", "component_ids", "terms")
    for step, of, ids, terms in zip(*(history[k] for k in columns), strict=True):
        for name, best in zip(ids.tolist(), terms, strict=True):
            if of == chain:
                records.setdefault(name, []).append((step, list(names[best[:n_terms]])))
    return records


def check_ids(ids, lineage):
    """Raise unless ids given by a user are in the log."""
    known = {name for entry in lineage for name in entry.children}
    asked = np.asarray(ids)
    if asked.ndim != 1 or asked.dtype.kind not in "iu" or len(asked) == 0:
        raise ValueError(f"ids must be one or more integers, got {ids!r}.")
    if unknown := sorted(set(asked.tolist()) - known):
        raise ValueError(f"ids must be among those of lineage_, unknown: {unknown}.")
    return asked.tolist()


#: Inches, where the figure is ours: its least width and that of the time axis; below,
#: above and left of the axes.
WIDTH, TIME, FOOT, HEAD, SIDE = 10.0, 4.0, 0.55, 0.4, 0.55
#: In sizes of the type: a line, the room of a lane beside its terms, from a lane to the
#: first term below, around a final text, between texts.
LEADING, LANE, BELOW, PAD, GAP = 1.3, 0.9, 1.1, 0.6, 1.2
#: Least lists of terms in a lane of a figure.
LISTS = 3
#: Share of given axes that final terms may take.
MOST = 0.6
#: Points between connectors of one step that would lie on each other.
APART = 4.0
#: Inches that a figure does not exceed where the topics are not asked for by id, and
#: topics drawn of a fit in which nothing happened to any.
MAX_HEIGHT, FEW = 11.0, 10
#: Share of the steps below which a topic that has ended was there for a trial alone.
BRIEF = 0.05
#: Points of the lines of the lightest and of the heaviest topic.
THIN, THICK = 1.2, 5.0


@dataclass(kw_only=True, eq=False, repr=False)
class LineageDisplay(Display):
    """The genealogy of topics: where each came from, and what it was about.

    Best made with :meth:`from_estimator`. Time, in updates, runs to the right, and each
    component id has a lane: blue if it lives, grey if it has ended. Splits and merges
    join two lanes; the line of a living topic is the thicker the more tokens it has.
    Of a topic that has come back ("revive") the time in which it was
    not alive is dotted, and what had its rows until then is joined to it. The terms of
    the living stand at the end; those of earlier times stand below their lane, wherever
    others have come up and there is room. Connectors of one step stand side by side.

    Topics that have been there from the start, and that no other has become part of,
    are not drawn unless they are asked for by `ids`, or there are no others, nor are
    topics that ended within 5 % of the steps. How many are not drawn stands below.

    Of a sampler it is the genealogy in one chain, up to the sample that has the highest
    log joint.

    Parameters
    ----------
    lineage : list of named tuples (step, kind, parents, children)
        The log, as `lineage_` of an estimator.
    ids : iterable of int
        What to draw.
    last_step : int
        Where the time axis ends.
    final_terms : dict of int to list of str
        Terms of the living.
    terms : dict of int to list of (int, list of str), default=None
        For each id, steps in rising order and the terms then.
    rows : dict of int to int, default=None
        Of a tree: the rows of the living nodes, by which all else calls them.
    n_hidden : int, default=0
        Living topics that are not drawn.
    names : dict of int to str or None, default={}
        Names of topics, by id, before their terms.
    weights : dict of int to float, default={}
        Shares of tokens of the living; without these all lines are equally thick.
    n_brief : int, default=0
        Topics that others came from, or that became part of others, and that are not
        drawn as they ended soon.

    Attributes
    ----------
    ids_ : list of int
        The lanes' ids, from top to bottom.
    ax_, figure_ : matplotlib Axes, matplotlib Figure
        Where it is drawn.

    See Also
    --------
    skbnp.callbacks.TopicTermsMonitor : Records terms over time.
    HistoryDisplay : The number of topics over time.

    Notes
    -----
    With terms over time this is Figure 3 of [1]_.

    References
    ----------
    .. [1] Michael Bryant and Erik B. Sudderth, "Truly Nonparametric Online Variational
       Inference for Hierarchical Dirichlet Processes", NIPS 2012.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skbnp import HDP
    >>> from skbnp.callbacks import TopicTermsMonitor
    >>> from skbnp.datasets import make_bars
    >>> from skbnp.inspection import LineageDisplay
    >>> X = make_bars(600, side=4, random_state=0).data
    >>> monitor = TopicTermsMonitor()
    >>> hdp = HDP(2, split_merge=True, batch_size=100, warm_up=0, random_state=0)
    >>> hdp = hdp.set_callbacks(monitor).fit(X)
    >>> display = LineageDisplay.from_estimator(hdp, terms=monitor)
    >>> len(display.ids_) >= hdp.n_components_
    True
    >>> plt.show()
    """

    lineage: list[Any]
    ids: Any
    last_step: int
    final_terms: dict[int, list[str]]
    terms: Any = None
    rows: dict[int, int] | None = None
    n_hidden: int = 0
    names: dict[int, str | None] = field(default_factory=dict)
    weights: dict[int, float] = field(default_factory=dict)
    n_brief: int = 0

    @classmethod
    @validated(n_components=[POSITIVE])
    def from_estimator(
        cls,
        estimator,
        feature_names=None,
        *,
        ids=None,
        n_components=15,
        terms=None,
        n_terms=5,
        ax=None,
    ) -> Self:
        """Draw the genealogy of the topics of a fitted model.

        Parameters
        ----------
        estimator : fitted topic model or Pipeline that ends in one
            Anything with `lineage_`, `component_ids_`, `components_` and `history_`.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        ids : array-like of int, default=None
            The families to draw: these ids, living or ended, what they came from and
            what came of them. `None` draws the heaviest of the living that were born
            or split after the start, or that others were merged into, and what they
            came from; the ten heaviest if there are no such topics.
        n_components : int, default=15
            Living topics to draw where `ids` is `None`, heaviest first; fewer if there
            are fewer, or if a figure of 11 inches has no room for more.
        terms : TopicTermsMonitor, default=None
            What was recorded during the fit; of a sampler with several chains, that of
            the chain drawn. `None` shows final terms alone.
        n_terms : int, default=5
            Terms of each topic.
        ax : matplotlib Axes, default=None
            Axes to draw in; type shrinks where they are too small for it. `None` makes
            a figure of fitting size.

        Returns
        -------
        display : LineageDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If an id was never given, or `ids` names none.
        """
        lineage, last_step, chain = history_of(estimator)
        components = read.fitted(estimator, "components_")
        living = read.fitted(estimator, "component_ids_").tolist()
        names = read.column_names(estimator, components.shape[1], feature_names)
        shares = read.token_shares(estimator)

        def by_id(values):
            return dict(zip(living, values, strict=True))

        is_tree = hasattr(read.fitted_model(estimator), "tree_")
        display = cls(
            lineage=lineage,
            ids=(),
            last_step=last_step,
            final_terms=by_id(top_terms(estimator, feature_names, n_terms)),
            terms=None if terms is None else recorded(terms, names, n_terms, chain),
            rows=by_id(range(len(living))) if is_tree else None,
            names=by_id(read.topic_names(estimator, len(living))),
            weights=by_id(shares.tolist()),
        )
        if ids is None:
            heaviest = largest(shares, len(living))
            display._choose([living[k] for k in heaviest], n_components)
        else:
            asked = check_ids(ids, lineage)
            display.ids = ancestors(lineage, asked) | descendants(lineage, asked)
        return display.plot(ax)

    def _choose(self, heaviest, n_components):
        """Choose the families to draw, the heaviest first, as many as fit.

        Topics without edits are drawn if there are no others.
        """
        lanes = lanes_of(self.lineage)
        least = BRIEF * (self.last_step - self.lineage[0].step)
        brief = {
            name
            for name, lane in lanes.items()
            if lane.end is not None and lane.end - lane.begin < least
        }

        def family(name):
            return ancestors(self.lineage, [name])

        wanted = [
            name for name in heaviest if lanes[name].is_born or len(family(name)) > 1
        ]
        wanted = wanted or heaviest[:FEW]
        room = 72 * (MAX_HEIGHT - FOOT - HEAD) / (self._lane_height * FONT)
        chosen = family(wanted[0])
        for name in wanted[1:n_components]:
            more = chosen | family(name)
            if len(more - brief) <= room:
                chosen = more
        self.ids, self.n_brief = chosen - brief, len(chosen & brief)
        self.n_hidden = len(set(heaviest) - self.ids)

    def plot(self, ax=None) -> Self:
        """Draw the genealogy.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            As in :meth:`from_estimator`.

        Returns
        -------
        display : LineageDisplay
            This object.
        """
        is_made = ax is None
        self._begin(ax)
        every = lanes_of(self.lineage)
        lanes = arranged({name: every[name] for name in sorted(self.ids)})
        self.ids_ = [lane.id for lane in lanes]
        rows = {name: number for number, name in enumerate(self.ids_)}
        final = {
            name: self._written(self.final_terms[name], self.names.get(name))
            for name in self.ids_
            if name in self.final_terms
        }
        wide = max(self._widths(final.values(), FONT), default=0.0) / FONT + 2 * PAD
        if is_made:
            fontsize, text = FONT, wide * FONT / 72
            time = TIME if self.terms is None else max(TIME, LISTS * text)
            width = max(WIDTH, SIDE + time + text + MARGIN) - SIDE - MARGIN
            height = len(lanes) * self._lane_height * FONT / 72
            self._resize((width, height), left=SIDE, bottom=FOOT, top=HEAD)
        else:
            width, height = self._room()
            high = height / len(lanes) / self._lane_height
            fontsize = min(FONT, high, MOST * width / wide)
        self._scale_axes(lanes, final.values(), fontsize)
        self._draw_lanes(lanes, rows, fontsize)
        for name, text in final.items():
            self._write_lines(text, self.last_step, rows[name], fontsize, final=True)
        if self.terms is not None:
            self._write_terms(lanes, rows, final, fontsize)
        return self

    def _written(self, terms, name=None):
        """Return the text of terms, after the name of their topic if it has one."""
        start = self._topic_label(name, "") + ": " * bool(name)
        return start + (", " if self.terms is None else "\n").join(terms)

    @property
    def _lane_height(self):
        """Height of a lane in units of the font size."""
        if self.terms is None:
            return LANE + LEADING
        lists = [terms for record in self.terms.values() for _, terms in record]
        lists += self.final_terms.values()
        return LANE + LEADING * (max(map(len, lists), default=1) + 1)

    def _scale_axes(self, lanes, texts, fontsize):
        """Set the limits of axes so that texts at both ends fit."""
        from matplotlib.ticker import MaxNLocator

        ax, begin = self.ax_, min(lane.begin for lane in lanes)
        end = max(self.last_step, begin + 1)
        text = max(self._widths(texts, fontsize), default=0.0) + 2 * PAD * fontsize
        span = (end - begin) / (0.99 - text / self._extent[0])
        ax.set_xlim(begin - 0.01 * span, begin + 0.99 * span)
        ticks = MaxNLocator(6, integer=True).tick_values(begin, end)
        ax.set_xticks([tick for tick in ticks if begin <= tick <= end])
        above = 0.5 if self.terms is None else LEADING / self._lane_height
        ax.set_ylim(len(lanes) - above, -above)
        ax.set_yticks(range(len(lanes)), labels=[self._called(lane) for lane in lanes])
        ax.tick_params(axis="both", length=0, labelsize=fontsize)
        ax.tick_params(axis="x", length=3, color=GREY, labelcolor=GREY)
        what = "topic" if self.rows is None else "node"
        left_out = [f"{self.n_hidden} other {what}s"] * (self.n_hidden > 0)
        left_out += [f"{self.n_brief} that soon ended"] * (self.n_brief > 0)
        hidden = f" (not drawn: {' and '.join(left_out)})" if left_out else ""
        ax.set_xlabel(f"step{hidden}", size=fontsize, color=GREY)
        ax.set_ylabel(what, size=fontsize, color=GREY)
        ax.grid(axis="y", color="0.93")
        ax.set_axisbelow(True)
        ax.spines[["top", "left", "right"]].set_visible(False)
        ax.spines["bottom"].set(color=GREY, bounds=(begin, end))

    def _called(self, lane):
        """Return the number of a lane in texts; ended nodes have no row."""
        return str(lane.id if self.rows is None else self.rows.get(lane.id, ""))

    def _draw_lanes(self, lanes, rows, fontsize):
        """Draw lanes and connectors."""
        ax = self.ax_
        kinds: dict[str, Any] = {}  # how the legend shows each
        shift = APART * np.diff(ax.get_xlim()).item() / self._extent[0]
        given = lanes, rows, self.last_step, shift
        begins, ends, returns, edges = connectors(*given)
        hollow = {"ls": "", "markersize": 5.0, "markerfacecolor": "white"}
        for lane in lanes:
            y, lives = rows[lane.id], lane.end is None
            color, x = BLUE if lives else GREY, [begins[lane.id], ends[lane.id]]
            wide = self._line_width(lane, fontsize)
            begin = x[0]
            for number, (end, back) in enumerate(lane.pauses):
                ax.plot([begin, end], [y, y], color=color, lw=wide, zorder=2.2)
                begin = returns.get((lane.id, number), back)
                ax.plot([end, begin], [y, y], color=color, lw=1.0, ls=":", zorder=2.2)
                kinds["revive"] = hollow | {"marker": "s", "color": BLUE}
                ax.plot(begin, y, zorder=2.3, **kinds["revive"])
            ax.plot([begin, x[1]], [y, y], color=color, lw=wide, zorder=2.2)
            if lane.is_born:
                kinds["birth"] = hollow | {"marker": "o", "color": BLUE}
                ax.plot(x[0], y, zorder=2.3, **kinds["birth"])
            if not lives and not rows.keys() & lane.target:
                kind = "merge, not drawn" if lane.target else "end"
                kinds[kind] = hollow | {"marker": "D" if lane.target else "X"}
                kinds[kind]["color"] = GREY
                ax.plot(x[1], y, zorder=2.3, **kinds[kind])
        for kind, x, source, target in edges:
            if kind in ("birth", "revive"):
                ax.plot([x, x], [source, target], color=GREY, lw=1.0, ls=":", zorder=2)
                continue
            kinds[kind] = {"color": VERMILION if kind == "merge" else GREY, "lw": 1.0}
            ax.plot([x, x], [source, target], zorder=2.1, **kinds[kind])
            if kind == "split":  # a list of terms may hide the line
                ax.plot(x, source, ".", color=GREY, ms=5.0, zorder=2.3)
            else:  # rows run downwards
                tip = "^" if target < source else "v"
                ax.plot(x, target, tip, color=VERMILION, zorder=2.3, markersize=5.0)
                kinds[kind] |= {"marker": "v", "markersize": 5.0}
        if kinds:
            handles = [self._mark(kind, **kinds[kind]) for kind in kinds]
            style = {"borderaxespad": 0.1, "ncols": len(kinds), "fontsize": fontsize}
            self._legend(handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), **style)

    def _line_width(self, lane, fontsize):
        """Width of a line in points, proportional to the weight of a living topic."""
        if lane.end is not None or not self.weights:
            return THIN if self.weights else 2.0
        top = max(self.weights.values())
        share = self.weights.get(lane.id, 0.0) / max(top, 1e-300)
        return max(THICK * share * min(fontsize / FONT, 1.0), THIN)

    def _write_lines(self, text, step, y, fontsize, *, final):
        """Write a text beside the end of a lane, in lines, or below the lane."""
        dx, dy = (PAD, 0.0) if final else (0.0, -BELOW)
        for number, line in enumerate(text.split("\n")):
            offset = dx * fontsize, (dy - number * LEADING) * fontsize
            self._label(line, (step, y), offset, fontsize)

    def _write_terms(self, lanes, rows, final, fontsize):
        """Write terms of lanes below them, where they change and fit."""
        ax = self.ax_
        scale = self._extent[0] / np.diff(ax.get_xlim()).item()  # points per step
        for lane in lanes:
            last: set[str] = set()
            free = -np.inf
            edge = self.last_step if lane.id in final else ax.get_xlim()[1]
            for step, terms in self.terms.get(lane.id, []):
                text = self._written(terms)
                (width,) = self._widths([text], fontsize)
                end = step * scale + width + GAP * fontsize
                if set(terms) == last or step * scale < free or end > edge * scale:
                    continue
                last, free = set(terms), end
                ax.plot(step, rows[lane.id], "|", color=BLUE, ms=6.0, zorder=2.3)
                self._write_lines(text, step, rows[lane.id], fontsize, final=False)
