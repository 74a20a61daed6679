"""Edits of the components of a posterior: records of changes, by component ids.

Ids are never used again; columns may move. Each edit adds entries to the lineage.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skbnp.components.word_topics import remaining
from skbnp.inference.interrupts import commit
from skbnp.inference.posterior import Lineage, Posterior

__all__ = ["Birth", "Merge", "Remove", "Split", "apply", "sparing"]


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge disjoint pairs (source, target): targets take the statistics of sources."""

    pairs: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Remove:
    """End components; their weight goes to the unrepresented components."""

    ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Split:
    """Split a component in two: one keeps its id and column, the child is new."""

    id: int
    child: int
    halves: NDArray[np.float64]  # (2, n_words) of the words that have been seen
    shares: NDArray[np.float64]  # (2,)


@dataclass(frozen=True, slots=True)
class Birth:
    """Add components with a share of all totals; the others keep the remainder."""

    ids: Sequence[int]  # new ones
    words: NDArray[np.float64]  # (n, n_words) that sum to one, of words that are seen
    shares: NDArray[np.float64]  # (n,)


Edit = Birth | Merge | Remove | Split


@commit()  # words change in place
def apply(edit: Edit, posterior: Posterior) -> None:
    """Apply an edit to state, totals, ids and log of a posterior, in place.

    All change in one commit.
    """
    columns, ids = posterior.columns, posterior.ids
    model, state, global_stats = (
        posterior.model,
        posterior.state,
        posterior.global_stats,
    )
    entries: list[tuple[str, tuple[int, ...], tuple[int, ...]]]
    if isinstance(edit, Split):
        state, global_stats = model.split(
            state, global_stats, columns[edit.id], edit.halves, edit.shares
        )
        ids = np.append(ids, edit.child)
        entries = [("split", (edit.id,), (edit.id, edit.child))]
    elif isinstance(edit, Birth):
        state, global_stats = model.add(state, global_stats, edit.words, edit.shares)
        ids = np.append(ids, edit.ids)
        entries = [("birth", (), (name,)) for name in edit.ids]
    elif isinstance(edit, Merge):
        pairs = [(columns[source], columns[target]) for source, target in edit.pairs]
        state, global_stats = model.merge(state, global_stats, pairs)
        ids = ids[remaining(len(ids), [source for source, _ in pairs])]
        entries = [("merge", (t, s), (t,)) for s, t in edit.pairs]
    else:
        gone = [columns[name] for name in edit.ids]
        state, global_stats = model.remove(state, global_stats, gone)
        ids = ids[remaining(len(ids), gone)]
        entries = [("prune", (name,), ()) for name in edit.ids]
    posterior.state, posterior.global_stats = state, global_stats
    posterior.ids = ids
    log = [Lineage(posterior.n_steps, *entry) for entry in entries]
    posterior.lineage = [*posterior.lineage, *log]


def sparing(ending: NDArray[np.bool_], mass: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which components end, without the heaviest if all would end."""
    spared = ending.copy()
    if ending.all():
        spared[np.argmax(mass)] = False
    return spared
