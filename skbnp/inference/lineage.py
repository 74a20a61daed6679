"""The log of edits: where each component came from.

Parents of an entry are alive before it, children after it; a component that has ended
comes back by a "revive" alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lineage", "renamed"]


class Lineage(NamedTuple):
    """One entry of the log, as users read it."""

    step: int  # updates made before
    # "init", "birth", "split", "merge", "prune", "reattach", "exchange" or "revive"
    kind: str
    parents: tuple[int, ...]  # ids that it changed or ended
    children: tuple[int, ...]  # ids that live on, or begin


def renamed(lineage: Sequence[Lineage], names: NDArray[np.intp]) -> list[Lineage]:
    """Give ids other names, one each: the log of the same edits."""
    return [
        entry._replace(
            parents=tuple(names[list(entry.parents)].tolist()),
            children=tuple(names[list(entry.children)].tolist()),
        )
        for entry in lineage
    ]
