"""Large arrays in parts of some rows, so that Ctrl-C waits for one part only."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["column_sums", "row_parts"]

#: Entries of a part.
SIZE = 1 << 20


def row_parts(shape: tuple[int, int], size: int = SIZE) -> Iterator[slice]:
    """Cut the rows of an array into consecutive parts of about `size` entries."""
    n_rows, n_columns = shape
    if n_rows > 0:
        step = max(1, size // max(1, n_columns))
        for begin in range(0, n_rows, step):
            yield slice(begin, min(begin + step, n_rows))


def column_sums(
    parts: Iterable[NDArray[np.float64]], n_columns: int
) -> NDArray[np.float64]:
    """Sum an array over its rows, part by part, with the bits of a sum of the whole.

    The first row of each part is overwritten.
    """
    total = np.zeros(n_columns)
    for part in parts:
        part[:1] += total
        total = part.sum(axis=0)
    return total
