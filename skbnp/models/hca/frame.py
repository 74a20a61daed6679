"""Frame of the rows of a component analysis: subtract a shift, divide by a unit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from skbnp.utils.ranges import In, Sized
from skbnp.utils.typing import Array

#: Rows of a block at most, and entries: half of what fits into memory near a core.
BLOCK, ENTRIES = 4096, 1 << 20
#: Deviations of this part of the largest value are rounding errors of the mean.
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
#: Products of rows this many standard deviations away leave the range of floats.
FARTHEST = 1e70


@dataclass(frozen=True, slots=True)
class Frame:
    """Shift and unit of rows, with the number of rows that they are estimated from.

    One unit for all columns keeps directions and angles. With |t|^2 - 2 t'mu + |mu|^2
    all digits would be lost if columns have large offsets: hence the shift.
    """

    shift: Annotated[Array, Sized("n_features")]
    scale: Annotated[
        float, In(0, 1e101)
    ]  # root mean square of entries about the shift; 0: all were equal

    @property
    def unit(self) -> float:
        """Divisor of entries: 1 as long as there is no scale."""
        return self.scale or 1.0

    @property
    def log_volume(self) -> float:
        """Log of the volume of a unit cube, subtracted from log densities of rows."""
        return len(self.shift) * float(np.log(self.unit))

    def enter(self, X: NDArray) -> Array:
        """Return rows less the shift, over the unit: a copy."""
        rest = np.subtract(X, self.shift, dtype=np.float64)
        rest /= self.unit
        return rest

    @classmethod
    def of_rows(cls, X: NDArray) -> "Frame":
        """Return the frame of rows: their mean, and the root of their mean variance."""
        frame = cls(X.mean(axis=0, dtype=np.float64), 0.0)
        return cls(frame.shift, frame.spread(X))

    def grown(self, fresh: float, n_rows: float, n_seen: float) -> "Frame":
        """Return the frame of `n_rows` more rows of spread `fresh`, with its shift."""
        largest = max(self.scale, fresh)
        if largest == 0.0:
            return self
        squares = n_seen * (self.scale / largest) ** 2
        squares += n_rows * (fresh / largest) ** 2
        return Frame(self.shift, largest * float(np.sqrt(squares / (n_seen + n_rows))))

    def spread(self, X: NDArray) -> float:
        """Root mean square of the entries of rows about the shift, without overflow."""
        parts = [X[rows] for rows in blocks(X.shape)]
        largest = max(float(np.abs(rest).max()) for rest in self._rests(parts))
        values = max(float(np.abs(part).max()) for part in parts)
        if not largest > ROUNDING * values:
            return 0.0
        squares = 0.0
        for rest in self._rests(parts):
            rest /= largest
            squares += float(np.vdot(rest, rest))
        return largest * float(np.sqrt(squares / X.size))

    def _rests(self, parts: list[NDArray]) -> Iterator[Array]:
        return (np.subtract(part, self.shift, dtype=np.float64) for part in parts)

    def farthest(self, X: NDArray) -> tuple[int, float]:
        """Row with the largest entry about the shift, and its size in units."""
        parts = [X[rows] for rows in blocks(X.shape)]
        sizes = [np.abs(rest).max(axis=1) for rest in self._rests(parts)]
        largest = np.concatenate(sizes)
        row = int(largest.argmax())
        return row, float(largest[row]) / self.unit

    def heaviest(self, X: NDArray) -> tuple[int, float]:
        """Row of the frame without which the least spread is left, and that share.

        The share of the sum of squares about the mean that all other rows have.
        """
        n_rows = len(X)
        squares = np.concatenate(
            [np.square(self.enter(X[rows])).sum(axis=1) for rows in blocks(X.shape)]
        )
        row = int(squares.argmax())
        taken = squares[row] * n_rows / max(n_rows - 1, 1)
        return row, 1.0 - float(taken / max(squares.sum(), 1e-300))


def blocks(shape: tuple[int, ...]) -> list[slice]:
    """Slices of rows, of equal size except the last."""
    n_rows, n_features = shape
    size = min(BLOCK, max(1, ENTRIES // n_features))
    return [slice(at, min(at + size, n_rows)) for at in range(0, n_rows, size)]
