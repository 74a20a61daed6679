"""Changes of structure, as small records that speak of component ids.

No new component has the id of one before; columns may move. Each edit adds entries to
the lineage.
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
    """Targets take over what sources hold; the pairs (source, target) are disjoint."""

    pairs: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Remove:
    """Components end; their weight goes to the components not represented."""

    ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Split:
    """A component becomes two: one keeps its id and place, the child is new."""

    id: int
    child: int
    halves: NDArray[np.float64]  # (2, n_words) of the words that have been seen
    shares: NDArray[np.float64]  # (2,)


@dataclass(frozen=True, slots=True)
class Birth:
    """Components begin with a share of all totals, which the others leave to them."""

    ids: Sequence[int]  # new ones
    words: NDArray[np.float64]  # (n, n_words) that sum to one, of words that are seen
    shares: NDArray[np.float64]  # (n,)


Edit = Birth | Merge | Remove | Split


@commit()  # words change in place
def apply(edit: Edit, posterior: Posterior) -> None:
    """Change state, totals, ids and log of a posterior, all at once or not at all."""
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
    """Return what shall end, but for the heaviest where nothing would be left."""
    spared = ending.copy()
    if ending.all():
        spared[np.argmax(mass)] = False
    return spared
