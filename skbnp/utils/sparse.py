"""CSR matrices from arrays that need no check.

SciPy checks all of them, some 60 microseconds a matrix and 200 for some of its rows:
as long as the local step of a few documents.
"""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["at_columns", "csr", "take_rows", "with_columns"]

_EMPTY = sp.csr_array((1, 1))
_MOST = np.iinfo(np.int32).max


def _assembled(
    data: NDArray, indices: NDArray, indptr: NDArray, shape: tuple[int, int]
) -> sp.csr_array:
    """Return a CSR matrix of given arrays without SciPy's checks."""
    matrix = object.__new__(sp.csr_array)
    vars(matrix).update(vars(_EMPTY))
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    matrix._shape = shape
    return matrix


def _is_like_scipys() -> bool:
    """Whether SciPy's matrices have the attributes that are set here, and no other."""
    parts = np.ones(2), np.array([0, 2], np.int32), np.array([0, 2, 2], np.int32)
    given = sp.csr_array(parts, (2, 3))
    try:
        made = _assembled(*parts, (2, 3))
        is_same = vars(made).keys() == vars(given).keys()
    except (AttributeError, TypeError):  # attributes have slots, or other names
        return False
    return is_same and made.shape == given.shape


_IS_LIKE_SCIPYS = _is_like_scipys()


def csr(
    data: NDArray, indices: NDArray, indptr: NDArray, shape: tuple[int, int]
) -> sp.csr_array:
    """Return ``csr_array((data, indices, indptr), shape)``, unchecked."""
    if not _IS_LIKE_SCIPYS or max(shape) > _MOST:
        return sp.csr_array((data, indices, indptr), shape)
    if indices.dtype != indptr.dtype:
        width = np.promote_types(indices.dtype, indptr.dtype)
        indices = indices.astype(width, copy=False)
        indptr = indptr.astype(width, copy=False)
    return _assembled(data, indices, indptr, shape)


def at_columns(
    columns: NDArray[np.integer], values: NDArray, n_columns: int
) -> sp.csr_array:
    """Move the values of each row to `columns`; negative columns are left out."""
    known = columns >= 0
    limits = np.append(0, np.cumsum(known.sum(axis=1)))
    shape = len(columns), n_columns
    return sp.csr_array((values[known], columns[known], limits), shape=shape)


def take_rows(X: sp.csr_array, rows: NDArray[np.intp] | slice) -> sp.csr_array:
    """Return ``X[rows]``, for numbers that are not negative or for a slice.

    Adjacent rows share the memory of `X`, which may be dense.
    """
    if isinstance(X, np.ndarray):
        return X[rows]
    if isinstance(rows, slice):
        begin, end, _ = rows.indices(X.shape[0])
        limits = X.indptr[begin : max(begin, end) + 1]
        part = slice(limits[0], limits[-1])
        shape = len(limits) - 1, X.shape[1]
        return csr(X.data[part], X.indices[part], limits - limits[0], shape)
    begins = X.indptr[rows]
    lengths = X.indptr[rows + 1] - begins
    limits = np.zeros(len(rows) + 1, dtype=X.indptr.dtype)
    lengths.cumsum(out=limits[1:])
    places = np.arange(limits[-1]) + (begins - limits[:-1]).repeat(lengths)
    shape = len(rows), X.shape[1]
    return csr(X.data[places], X.indices[places], limits, shape)


def with_columns(X: sp.csr_array, n_columns: int) -> sp.csr_array:
    """Append empty columns to rows."""
    return sp.csr_array((X.data, X.indices, X.indptr), (X.shape[0], n_columns))
