"""States and additive statistics of trees, re-indexed when the tree changes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skbnp.trees import Tree

__all__ = ["NodeState", "NodeStatistics", "ended_nodes"]


class NodeState:
    """Globals that are arrays by position in a tree."""

    __slots__ = ()
    tree: Tree

    @property
    def n_components(self) -> int:
        """Number of nodes."""
        return len(self.tree)

    @property
    def ids(self) -> NDArray[np.intp]:
        """Ids of the nodes, by position."""
        return self.tree.ids


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    """Sums over rows; fields are numbers and arrays, some with an axis over nodes."""

    #: Fields whose first axis goes by position in the tree.
    per_node: ClassVar[tuple[str, ...]]

    def times(self, gain: float) -> Self:
        """Multiply the sums by `gain`."""
        return self.blended(self, 0.0, gain)

    def plus(self, other: Self, gain: float = 1.0) -> Self:
        """Add `gain` times `other`."""
        return self.blended(other, 1.0, gain)

    def blended(self, fresh: Self, keep: float, gain: float) -> Self:
        """Return `keep` times the sums plus `gain` times others."""
        sums = {}
        for item in fields(self):
            value, change = getattr(self, item.name), getattr(fresh, item.name)
            value = value if keep == 1.0 else keep * value
            change = change if gain == 1.0 else gain * change
            sums[item.name] = value + change
        return type(self)(**sums)

    def take_nodes(self, old: Tree, new: Tree) -> Self:
        """Take the sums of nodes that stay; new nodes have zeros."""
        stays = np.isin(old.ids, new.ids)
        at = new.positions(old.ids[stays])
        moved: dict[str, np.ndarray] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in self.per_node:
                moved[item.name] = np.zeros((len(new), *value.shape[1:]))
                moved[item.name][at] = value[stays]
            elif isinstance(value, np.ndarray):
                moved[item.name] = value.copy()
        return replace(self, **moved)


def ended_nodes(
    old: Tree, new: Tree, merged_into: Mapping[int, int] | None = None
) -> Iterator[tuple[int, int, bool]]:
    """Yield (old position, new position, whether merged) of each node that ended.

    Without a target in the new tree, the new position is that of the last node above
    that remains. Positions are those in the old tree, and in the new one.
    """
    for place in np.flatnonzero(~np.isin(old.ids, new.ids)).tolist():
        target: int | None = int(old.ids[place])
        while target is not None and target not in new:
            target = (merged_into or {}).get(target)
        is_heir = target is not None
        if target is None:
            above = old.path_to(int(old.ids[place]))
            target = int(above[np.isin(above, new.ids)][-1])
        yield place, int(new.positions(target)), is_heir
