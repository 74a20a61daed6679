"""Directions of nodes in the sampler of dependent trees, shared by edited trees."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.executor import RunTasks, run_in_turn
from skbnp.utils.ranges import Sized
from skbnp.utils.typing import Array, Flags, Ints

Places: TypeAlias = "int | Ints | Sequence[int]"

#: Rows by which an array grows that is full.
GROWTH = 16
#: Entries that one task copies.
ENTRIES = 1 << 20
#: Share of a vector above which entries are read in a row, whether zero or not.
SPARSE = 0.05


@dataclass(slots=True)
class Directions:
    """Directions by position in a tree, rows of one array that several trees share.

    A tree that is edited has other positions, the rows of most nodes, and few new ones:
    thousands of features are not copied for each of hundreds of nodes. Of two trees
    that share an array the one before must not be read after the other is written to.

    Columns that no row has shown are alike, and what depends on directions there are
    their products alone. So behind the columns that rows have, the array has
    coordinates along axes in the space of all others: fewer than these, for directions
    of n nodes have parts along n axes at most.
    """

    # in any order, some rows of no node
    drawn: Annotated[Array, Sized("n_nodes", "width")]
    row: Annotated[Ints, Sized("n_nodes", least=-1)]  # -1 of nodes that have none yet
    n_unseen: int = 0  # columns of the rows that are left out
    n_axes: int = 0  # last columns of `drawn`, `n_unseen` at most
    n_used: int = 0  # the first axes, along which directions have a part

    @classmethod
    def of(cls, directions: Array, n_unseen: int = 0) -> "Directions":
        """Return directions given in the order of the tree, (n_nodes, n_seen)."""
        return cls(directions, np.arange(len(directions)), n_unseen)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def width(self) -> int:
        """Columns of the array."""
        return int(self.drawn.shape[1])

    @property
    def n_seen(self) -> int:
        """Number of columns that rows have."""
        return self.width - self.n_axes

    @property
    def dimension(self) -> int:
        """Number of features V."""
        return self.n_seen + self.n_unseen

    def __getitem__(self, places: Places) -> Array:
        """Return the directions of some nodes."""
        return np.asarray(self.drawn[self.row[places]])

    def __setitem__(self, place: int, direction: Array) -> None:
        """Set the direction of a node, in place, in an unused row."""
        if self.row[place] < 0:
            self.row[place] = self._free_row()
        self.drawn[self.row[place]] = direction

    def __matmul__(self, vector: Array) -> Array:
        """Inner products of all directions with a vector, most of it zero."""
        (words,) = np.nonzero(vector)
        if len(words) < SPARSE * self.width:
            return np.asarray(self.drawn[np.ix_(self.row, words)] @ vector[words])
        return np.array([self.drawn[row] @ vector for row in self.row.tolist()])

    def gathered(self, run: RunTasks = run_in_turn) -> Array:
        """Return an array in the order of the tree."""
        result = np.empty((len(self), self.width))
        size = max(ENTRIES // max(self.width, 1), 1)

        def copy(begin: int) -> None:
            some = slice(begin, begin + size)
            # Without checks of the rows there is no second copy.
            np.take(self.drawn, self.row[some], axis=0, out=result[some], mode="clip")

        run([partial(copy, begin) for begin in range(0, len(self), size)])
        return result

    def taken(self, places: Ints, is_there: NDArray) -> "Directions":
        """Return the directions of another tree, from `places` where they exist."""
        return self.placed(self.drawn, np.where(is_there, self.row[places], -1))

    def placed(self, drawn: Array, row: Ints) -> "Directions":
        """Return directions in another array, along the same axes."""
        return Directions(drawn, row, self.n_unseen, self.n_axes, self.n_used)

    def in_order(self, run: RunTasks = run_in_turn) -> "Directions":
        """Copy directions to a new array, in the order of the tree."""
        return self.placed(self.gathered(run), np.arange(len(self)))

    # -- axes in the space of columns that no row has ----------------------------------

    def n_axes_for(self, n_draws: int, n_kept: int) -> int:
        """Number of axes of `with_axes_for`, if `n_kept` directions are kept."""
        return min(min(self.n_used, n_kept) + n_draws, self.n_unseen)

    def with_axes_for(self, n_draws: int, kept: Flags | None = None) -> "Directions":
        """Copy directions to a new array, with axes for `n_draws` further draws.

        Axes are chosen again, as few as possible. If not all directions are `kept`,
        others lose their components along axes.
        """
        kept = np.ones(len(self), dtype=bool) if kept is None else kept
        n_kept, n_seen, result = int(kept.sum()), self.n_seen, self.gathered()
        along = result[kept, n_seen : n_seen + self.n_used]
        if self.n_used > n_kept:
            along = np.asarray(np.linalg.qr(along.T, mode="r")).T
        n_axes, n_used = self.n_axes_for(n_draws, n_kept), along.shape[1]
        wide = np.zeros((len(self), n_seen + n_axes))
        wide[:, :n_seen] = result[:, :n_seen]
        wide[kept, n_seen : n_seen + n_used] = along
        return Directions(wide, np.arange(len(self)), self.n_unseen, n_axes, n_used)

    def next_axis(self) -> tuple[int, ...]:
        """Use one more axis of the unseen columns, in place.

        Returns the dimension and the number of columns before it, which a draw of a
        direction needs; an empty tuple if no column is unseen.
        """
        if self.n_unseen == 0:
            return ()
        n_known = self.n_seen + self.n_used
        self.n_used = min(self.n_used + 1, self.n_unseen)
        return self.dimension, n_known

    def with_columns(self, n_seen: int, rng: np.random.Generator) -> "Directions":
        """Append columns to rows, `n_seen` in all.

        As axes have no preference among columns that no row had, components along
        columns are drawn: those of a random orthonormal basis.
        """
        n_new, n_used = n_seen - self.n_seen, self.n_used
        left = self.n_unseen - n_new
        result, n_axes = self.gathered(), min(left, n_used)
        normals = rng.standard_normal((n_new + n_axes, n_used))
        if n_axes == n_used:  # for those of all columns left, of the same products
            rest = np.triu(normals[n_new:], 1)
            np.fill_diagonal(rest, np.sqrt(rng.chisquare(left - np.arange(n_used))))
            normals[n_new:] = rest
        basis, upper = np.linalg.qr(normals)
        basis *= np.where(np.diagonal(upper) < 0.0, -1.0, 1.0)
        along = result[:, self.n_seen : self.n_seen + n_used] @ basis.T
        drawn = np.hstack([result[:, : self.n_seen], along])
        return Directions(drawn, np.arange(len(self)), left, n_axes, n_axes)

    def products(self, sums: sp.csr_array) -> float:
        """Sum of the inner products with the rows of a sparse array."""
        row = np.repeat(self.row, np.diff(sums.indptr))
        return float(sums.data @ self.drawn[row, sums.indices])

    def _free_row(self) -> int:
        """Return a row of the array that no node uses."""
        is_free = np.ones(len(self.drawn), dtype=bool)
        is_free[self.row[self.row >= 0]] = False
        if not is_free.any():
            n = len(self.drawn)
            more = np.empty((GROWTH, self.width))
            self.drawn = np.concatenate([self.drawn, more])
            return n
        return int(np.argmax(is_free))
