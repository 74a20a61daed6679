"""Large arrays some rows at a time: Ctrl-C waits for one part, not for all of them."""

from collections.abc import Iterator

from sklearn.utils import gen_batches

__all__ = ["row_parts"]

#: Entries of a part.
SIZE = 1 << 20


def row_parts(shape: tuple[int, int]) -> Iterator[slice]:
    """Cut the rows of an array into consecutive parts."""
    n_rows, n_columns = shape
    yield from gen_batches(n_rows, max(1, SIZE // max(1, n_columns)))
