"""Directions of nodes, which edits of a tree share instead of copying them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.executor import RunTasks, run_in_turn

__all__ = ["SPARSE", "Directions"]

Array = NDArray[np.float64]
Places: TypeAlias = "int | NDArray[np.intp] | Sequence[int]"

#: Rows by which an array grows that is full.
GROWTH = 16
#: Entries that one task copies.
ENTRIES = 1 << 20
#: Share of a vector above which entries are read in a row, whether zero or not.
SPARSE = 0.05


@dataclass(slots=True)
class Directions:
    """Directions by position in a tree, each a row of an array.

    A tree that is edited has other positions, the rows of most nodes, and few new ones:
    thousands of features are not copied for each of hundreds of nodes. Of two trees
    that share an array the one before must not be read after the other is written to.
    """

    drawn: Array  # (n_rows, V), in any order, some rows of no node
    row: NDArray[np.intp]  # (n_nodes,), -1 of nodes that have none yet

    @classmethod
    def of(cls, directions: Array) -> "Directions":
        """Take those of an array in the order of the tree, (n_nodes, V)."""
        return cls(directions, np.arange(len(directions)))

    def __len__(self) -> int:
        return len(self.row)

    @property
    def dimension(self) -> int:
        """V."""
        return int(self.drawn.shape[1])

    def __getitem__(self, places: Places) -> Array:
        """Return those of some nodes."""
        return np.asarray(self.drawn[self.row[places]])

    def __setitem__(self, place: int, direction: Array) -> None:
        if self.row[place] < 0:
            self.row[place] = self._free_row()
        self.drawn[self.row[place]] = direction

    def __matmul__(self, vector: Array) -> Array:
        """Inner product of each with a vector, of which most may be zero."""
        (words,) = np.nonzero(vector)
        if len(words) < SPARSE * self.dimension:
            return np.asarray(self.drawn[np.ix_(self.row, words)] @ vector[words])
        return np.array([self.drawn[row] @ vector for row in self.row.tolist()])

    def gathered(self, run: RunTasks = run_in_turn) -> Array:
        """Return an array in the order of the tree."""
        found = np.empty((len(self), self.dimension))
        size = max(ENTRIES // max(self.dimension, 1), 1)

        def copy(begin: int) -> None:
            some = slice(begin, begin + size)
            # Without checks of the rows there is no second copy.
            np.take(self.drawn, self.row[some], axis=0, out=found[some], mode="clip")

        run([partial(copy, begin) for begin in range(0, len(self), size)])
        return found

    def taken(self, places: NDArray[np.intp], is_there: NDArray) -> "Directions":
        """Return those of another tree: of places in this one, or none yet."""
        return Directions(self.drawn, np.where(is_there, self.row[places], -1))

    def products(self, sums: sp.csr_array) -> float:
        """Sum of the inner products with the rows of a sparse array."""
        row = np.repeat(self.row, np.diff(sums.indptr))
        return float(sums.data @ self.drawn[row, sums.indices])

    def _free_row(self) -> int:
        """Return a row that no node has."""
        is_free = np.ones(len(self.drawn), dtype=bool)
        is_free[self.row[self.row >= 0]] = False
        if not is_free.any():
            n = len(self.drawn)
            more = np.empty((GROWTH, self.dimension))
            self.drawn = np.concatenate([self.drawn, more])
            return n
        return int(np.argmax(is_free))
