"""Changes of structure, as small records that speak of component ids.

An id is given once and never returns; columns may move. The log of edits tells where
each component came from.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skbnp.inference.interrupts import commit

__all__ = ["Edit", "Lineage", "Merge", "Remove", "Split", "apply"]


class Lineage(NamedTuple):
    """One entry of the log, as users read it."""

    step: int  # updates made before
    kind: str  # "init", "split", "merge", "prune"
    parents: tuple[int, ...]  # ids that it changed or ended
    children: tuple[int, ...]  # ids that live on, or begin


@dataclass(frozen=True, slots=True)
class Merge:
    """The target takes over what the source holds."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Remove:
    """A component ends; its weight goes to the components not represented."""

    id: int


@dataclass(frozen=True, slots=True)
class Split:
    """A component becomes two: one keeps its id and place, the child is new."""

    id: int
    child: int
    children: Any  # topics (2, n_words), shares (2,)


Edit = Merge | Remove | Split


def apply(edit: Edit, posterior: Any) -> None:
    """Change state, totals, ids and log of a posterior, all at once or not at all."""
    columns = {int(name): column for column, name in enumerate(posterior.ids)}
    model, state, totals = posterior.model, posterior.state, posterior.totals
    entry: tuple[str, tuple[int, ...], tuple[int, ...]]
    ids = posterior.ids
    if isinstance(edit, Split):
        state, totals = model.split(
            state, totals, columns[edit.id], edit.children.topics, edit.children.shares
        )
        ids = np.append(ids, edit.child)
        entry = ("split", (edit.id,), (edit.id, edit.child))
    elif isinstance(edit, Merge):
        gone = columns[edit.source]
        state, totals = model.merge(state, totals, gone, columns[edit.target])
        ids = np.delete(ids, gone)
        entry = ("merge", (edit.target, edit.source), (edit.target,))
    else:
        gone = columns[edit.id]
        state, totals = model.remove(state, totals, gone)
        ids = np.delete(ids, gone)
        entry = ("prune", (edit.id,), ())
    with commit():
        posterior.state, posterior.totals = state, totals
        posterior.ids = ids
        posterior.lineage = [*posterior.lineage, Lineage(posterior.n_steps, *entry)]
