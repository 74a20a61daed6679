"""Large arrays in parts of some rows, and CSR matrices from arrays that need no check.

SciPy checks each new matrix, some 60 microseconds, and 200 for some of its rows: as
long as the local step of a few documents.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from skbnp.utils.typing import Array, Ints, Ints32

#: Entries of a part: Ctrl-C waits for one part, not for the whole array, and memory is
#: that of a part.
SIZE = 1 << 17
#: Units that a count, or a document, is split into, at most (NumPy draws up to 10^9).
MOST_UNITS = 10**8

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


def take_rows(X: sp.csr_array, rows: Ints | slice) -> sp.csr_array:
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


def members(groups: NDArray[np.integer], n_groups: int) -> sp.csr_array:
    """Indicator of the members of each group, (n_groups, n); -1 is no group."""
    each = np.flatnonzero(groups >= 0)
    entries = np.ones(len(each)), (groups[each], each)
    return sp.csr_array(entries, shape=(n_groups, len(groups)))


def padded(values: NDArray, width: int) -> NDArray:
    """Append zeros along the last axis, `width` entries in all."""
    n_more = width - values.shape[-1]
    if n_more == 0:
        return values
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, n_more)])


def with_columns(X: sp.csr_array, n_columns: int) -> sp.csr_array:
    """Append empty columns to rows."""
    return sp.csr_array((X.data, X.indices, X.indptr), (X.shape[0], n_columns))


def kernel_arrays(X: sp.csr_array) -> tuple[Ints32, Ints32, NDArray]:
    """Limits, columns and values of a sparse array, as most kernels read them."""
    limits, columns = (a.astype(np.int32, copy=False) for a in (X.indptr, X.indices))
    return limits, columns, X.data


def rows_of(limits: NDArray) -> Ints:
    """Row of each entry, given the limits of rows."""
    return np.arange(len(limits) - 1).repeat(limits[1:] - limits[:-1])


def limits_of(sizes: Sequence[NDArray]) -> NDArray[np.int64]:
    """Limits of rows of some sizes, one set of rows after another."""
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]), dtype=np.int64)


def entries_of(limits: NDArray, rows: Ints) -> tuple[Ints, NDArray[np.int64]]:
    """Entries of some rows of a ragged array, row after row, and their limits."""
    sizes = limits[rows + 1] - limits[rows]
    ends = limits_of([sizes])
    return np.arange(ends[-1]) + np.repeat(limits[rows] - ends[:-1], sizes), ends


def row_parts(shape: tuple[int, int], size: int = SIZE) -> Iterator[slice]:
    """Cut the rows of an array into consecutive parts of about `size` entries."""
    n_rows, n_columns = shape
    if n_rows > 0:
        step = max(1, size // max(1, n_columns))
        for begin in range(0, n_rows, step):
            yield slice(begin, min(begin + step, n_rows))


def column_sums(parts: Iterable[Array], n_columns: int) -> Array:
    """Sum an array over its rows, part by part, with the bits of a sum of the whole.

    The first row of each part is overwritten.
    """
    total = np.zeros(n_columns)
    for part in parts:
        part[:1] += total
        total = part.sum(axis=0)
    return total


def with_values(X: sp.csr_array, *values: NDArray) -> list[sp.csr_array]:
    """Replace the stored counts of a matrix, for each of `values`.

    Zeros are dropped.
    """
    parts = list[sp.csr_array]()
    for counts in values:
        part = sp.csr_array((counts, X.indices.copy(), X.indptr.copy()), X.shape)
        part.eliminate_zeros()
        parts.append(part)
    return parts


def deal_tokens(
    X: sp.csr_array, n_parts: int, rng: np.random.Generator
) -> Iterator[tuple[Ints, sp.csr_array, sp.csr_array]]:
    """Split the tokens of documents at random into parts.

    A fractional count c is split into ceil(c) equal units. Yields for each part the
    rows of which it and the rest have tokens, the part and the rest, of these rows.
    """
    units = np.ceil(np.minimum(X.data, MOST_UNITS)).astype(np.int64)
    dealt = rng.multinomial(units, np.full(n_parts, 1.0 / n_parts))
    for of_part in dealt.reshape(-1, n_parts).T:
        share = of_part / units
        part, rest = with_values(X, X.data * share, X.data * (1.0 - share))
        rows = np.flatnonzero((np.diff(part.indptr) > 0) & (np.diff(rest.indptr) > 0))
        yield rows, part[rows], rest[rows]


# Deterministic order of values and of topics, the same on any machine.


def largest(values: NDArray, n: int) -> Ints:
    """Return the indices of the `n` largest values, largest first, ties by index."""
    n = min(n, len(values))
    if n == 0:
        return np.zeros(0, dtype=np.intp)
    candidates = np.flatnonzero(values >= np.partition(values, -n)[-n])
    return candidates[np.argsort(-values[candidates], kind="stable")][:n]


def rows_by_id(ids: Ints) -> Ints:
    """Return the position in `ids` of the topic in each row of user-facing arrays.

    A topic whose id is below the number of topics takes the row of that number; the
    others fill the remaining rows, in order of their ids. So a row number is never the
    id of another topic.
    """
    n = len(ids)
    order = np.full(n, -1, dtype=np.intp)
    has_row = ids < n
    order[ids[has_row]] = np.flatnonzero(has_row)
    others = np.flatnonzero(~has_row)
    order[order < 0] = others[np.argsort(ids[others])]
    return order


def names_by_weight(ids: Ints, weights: Array, n_named: int, n_fixed: int = 0) -> Ints:
    """Return new ids of a fit that has ended: topics by weight, heaviest first.

    The first `n_fixed` ids stay. Those of topics that have ended follow the others, in
    their order. Returns the new id of each of the `n_named` ids.
    """
    order = np.lexsort([ids, -weights])
    living = ids[order][ids[order] >= n_fixed]
    ended = np.setdiff1d(np.arange(n_fixed, n_named), living)
    names = np.arange(n_named)
    names[np.concatenate([living, ended])] = np.arange(n_fixed, n_named)
    return names


def evenly_spaced(samples: Sequence[Any], n: int) -> list[Any]:
    """Return at most `n` of some samples, evenly spaced."""
    places = np.linspace(0, len(samples) - 1, min(n, len(samples)))
    return [samples[place] for place in places.astype(np.intp)]


# One thread for BLAS: our threads divide the work, and sums keep their order.


@cache
def libraries() -> ThreadpoolController:
    """Libraries with their own threads; finding them takes some milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while the lines inside run."""
    with libraries().limit(limits=1, user_api="blas"):
        yield
