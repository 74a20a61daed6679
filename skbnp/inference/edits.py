"""Changes of structure, as small records that speak of component ids.

An id is given once and never returns; columns may move. The log of edits tells where
each component came from.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skbnp.inference.interrupts import commit

__all__ = ["Edit", "Lineage", "Merge", "Remove", "apply"]


class Lineage(NamedTuple):
    """One entry of the log, as users read it."""

    step: int  # updates made before
    kind: str  # "init", "merge", "prune"
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


Edit = Merge | Remove


def apply(edit: Edit, posterior: Any) -> None:
    """Change state, totals, ids and log of a posterior, all at once or not at all."""
    columns = {int(name): column for column, name in enumerate(posterior.ids)}
    model, state, totals = posterior.model, posterior.state, posterior.totals
    entry: tuple[str, tuple[int, ...], tuple[int, ...]]
    if isinstance(edit, Merge):
        gone = columns[edit.source]
        state, totals = model.merge(state, totals, gone, columns[edit.target])
        entry = ("merge", (edit.target, edit.source), (edit.target,))
    else:
        gone = columns[edit.id]
        state, totals = model.remove(state, totals, gone)
        entry = ("prune", (edit.id,), ())
    with commit():
        posterior.state, posterior.totals = state, totals
        posterior.ids = np.delete(posterior.ids, gone)
        posterior.lineage = [*posterior.lineage, Lineage(posterior.n_steps, *entry)]
