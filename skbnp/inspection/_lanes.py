"""Lanes of the figure of lineage: from when to when each topic lived, in order."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skbnp.inspection._chains import best_sample
from skbnp.utils.fitted import fitted, fitted_model


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
    """Return the log of topics, the step of those shown, and their chain."""
    model, lineage = fitted_model(estimator), fitted(estimator, "lineage_")
    best = best_sample(model)
    if best is None:
        steps = fitted(estimator, "history_")["step"]
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
