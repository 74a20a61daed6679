"""Matrices that no estimator may accept, and what the refusal must say."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from checks.estimators import takes_counts_only, takes_sparse
from skbnp.utils.validation import check_before_conversion


@dataclass(frozen=True)
class Bad:
    """How to spoil a csr_array of counts, and what the message must match."""

    spoil: Callable[[sp.csr_array], Any]
    says: str
    signed_only: bool = False  # legal where signed rows are


def check_refuses(call, X, says):
    """Raise unless `call(X)` raises a ValueError or TypeError that says the reason."""
    with pytest.raises((ValueError, TypeError), match=says):
        call(X)


def check_refuses_structure(call, X, says):
    """Do so for index arrays that would make compiled code read or write astray.

    The estimator is not called unless its validation is known to catch the matrix.
    """
    check_refuses(check_before_conversion, X, says)
    check_refuses(call, X, says)


def message(bad, X, estimator):
    """What an estimator must say of a bad matrix, or of one that is sparse."""
    is_strange = sp.issparse(X) and not takes_sparse(estimator)
    return "takes dense rows, got a sparse X" if is_strange else bad.says


def bad_matrix(estimator, X):
    """Return a matrix that the estimator must refuse, and what it must say."""
    bad = VALUES["negative-csr" if takes_counts_only(estimator) else "nan"]
    return bad.spoil(X), bad.says


# -- values ----------------------------------------------------------------------------


def _dense(value):
    def spoil(X):
        dense = X.toarray()
        dense[3, 2] = value
        return dense

    return spoil


def _stored(value, kind=sp.csr_array):
    def spoil(X):
        spoiled = kind(X)
        spoiled.data[5] = value
        return spoiled

    return spoil


_INFINITE = "X contains infinity"
_NEGATIVE = "Negative values in data"
VALUES = {
    "negative": Bad(_dense(-1.0), _NEGATIVE, signed_only=True),
    "negative-csr": Bad(_stored(-1.0), _NEGATIVE, signed_only=True),
    "nan": Bad(_dense(np.nan), "X contains NaN"),
    "nan-csr": Bad(_stored(np.nan), "X contains NaN"),
    "missing-nullable-frame": Bad(
        lambda X: pd.DataFrame(
            {f"w{i}": [1, pd.NA] for i in range(X.shape[1])}, dtype="Int64"
        ),
        "X contains NaN",
    ),
    "inf-csr": Bad(_stored(np.inf), _INFINITE),
}

# -- kinds and shapes ------------------------------------------------------------------

_DAY = np.datetime64("2020-01-01")
_TIMES = r"X must hold (counts|numbers), got dates or times"
_NO_NUMBER = (
    "CountVectorizer|could not convert string to float|"
    "must be a string or a real number"
)


def _filled(value, dtype=None):
    return lambda X: np.full((3, X.shape[1]), value, dtype=dtype)


def _objects(value):
    """Keep NumPy's scalars; `np.full` would make Python's dates of them."""
    return lambda X: np.array([[value] * X.shape[1]] * 3, dtype=object)


def _frame(column, **options):
    return lambda X: pd.DataFrame(
        {f"w{i}": column for i in range(X.shape[1])}, **options
    )


def _mixed_frame(X):
    frame = pd.DataFrame(X.toarray())
    frame[frame.columns[-1]] = pd.to_timedelta(np.arange(len(frame)), unit="s")
    return frame


def _polars(value):
    return lambda X: pl.DataFrame({f"w{i}": [value] * 3 for i in range(X.shape[1])})


KINDS = {
    "no-rows": Bad(lambda X: X[:0].toarray(), "0 sample"),
    "no-columns-csr": Bad(lambda X: X[:, :0], "0 feature"),
    "one-dimensional": Bad(lambda X: X.toarray()[0], "Expected 2D array"),
    "coo-data-short": Bad(
        lambda X: _with(M := sp.coo_array(X), data=M.data[:-1]), "same length"
    ),
    "three-dimensional-coo": Bad(lambda X: sp.coo_array(X.toarray()[None]), "3D|dim 3"),
    "ragged": Bad(lambda X: [[1.0, 2.0], [1.0]], "inhomogeneous"),
    "object-strings": Bad(_filled("word", object), _NO_NUMBER),
    "complex-csr": Bad(lambda X: X.astype(complex), "Complex data not supported"),
    "records": Bad(lambda X: np.zeros(X.shape, dtype=[("a", "f8")]), "records"),
    "object-integer-too-large": Bad(_objects(10**400), "too large for a float"),
    "datetime": Bad(_filled(_DAY), _TIMES),
    "timedelta-arrow-frame": Bad(
        _frame(pd.to_timedelta(["5s"] * 3), dtype="duration[ns][pyarrow]"), _TIMES
    ),
    "one-timedelta-column": Bad(_mixed_frame, _TIMES),
    "timedelta-csr": Bad(
        lambda X: _with(X, data=X.data.astype("i8").view("m8[s]")), _TIMES
    ),
    "object-datetime": Bad(_objects(_DAY), _TIMES),
    "list-of-datetimes": Bad(lambda X: [[_DAY] * X.shape[1]] * 3, _TIMES),
    "polars-dates": Bad(_polars(datetime.date(2020, 1, 1)), _TIMES),
}

# -- index arrays ----------------------------------------------------------------------


def _with(X, **arrays):
    """Replace index arrays behind the back of SciPy's own checks."""
    spoiled = X.copy()
    for name, array in arrays.items():
        setattr(spoiled, name, array)
    return spoiled


def _changed(array, position, value):
    array = array.copy()
    array[position] = value
    return array


def _compressed(kind, name):
    """Corruptions of csr, csc and bsr matrices."""

    def bad(says, change):
        return Bad(lambda X: _with(M := kind(X), **change(M)), says)

    beyond, negative = r"must be < \d", "must be >= 0"
    return {
        f"{name}-index-beyond": bad(
            beyond, lambda M: {"indices": _changed(M.indices, 4, max(M.shape))}
        ),
        f"{name}-index-negative": bad(
            negative, lambda M: {"indices": _changed(M.indices, 4, -1)}
        ),
        f"{name}-indices-float": bad(
            "integers", lambda M: {"indices": M.indices.astype(float)}
        ),
        f"{name}-indptr-float": bad(
            "integers", lambda M: {"indptr": M.indptr.astype(float)}
        ),
        f"{name}-indptr-falls": bad(
            "decreasing",
            lambda M: {"indptr": _changed(M.indptr, 3, M.indptr[-1])},
        ),
        f"{name}-indptr-starts-late": bad(
            "start with 0", lambda M: {"indptr": _changed(M.indptr, 0, 1)}
        ),
        f"{name}-indptr-ends-late": bad(
            "index pointer", lambda M: {"indptr": _changed(M.indptr, -1, 10**6)}
        ),
        f"{name}-indptr-long": bad(
            "pointer size", lambda M: {"indptr": np.append(M.indptr, M.indptr[-1])}
        ),
        f"{name}-data-short": bad("same size", lambda M: {"data": M.data[:-1]}),
    }


def _coordinates(kind, name):
    """Corruptions of coo matrices."""
    corrupt = {}
    for axis, label in enumerate(("row", "column")):

        def bad(says, change, axis=axis):
            def spoil(X):
                M = kind(X)
                coords = list(M.coords)
                coords[axis] = change(coords[axis])
                return _with(M, coords=tuple(coords))

            return Bad(spoil, says)

        corrupt |= {
            f"{name}-{label}-beyond": bad(
                "999 exceeds", lambda index: _changed(index, 4, 999)
            ),
            f"{name}-{label}-negative": bad(
                "negative", lambda index: _changed(index, 4, -1)
            ),
            f"{name}-{label}-float": bad("integers", lambda index: index.astype(float)),
        }
    return corrupt


def _lists(column):
    def spoil(X):
        M = sp.lil_array(X)
        M.rows[3][-1] = column
        return M

    return spoil


def _short_list(X):
    M = sp.lil_array(X)
    M.data[3] = M.data[3][:-1]
    return M


def _too_many_offsets(X):
    M = sp.dia_array(X)
    return _with(M, offsets=np.append(M.offsets, [5, 6, 7]))


CORRUPT = {
    **_compressed(sp.csr_array, "csr"),
    **_compressed(sp.csc_array, "csc"),
    **_compressed(lambda X: sp.bsr_array(X, blocksize=(1, 1)), "bsr"),
    **_coordinates(sp.coo_array, "coo"),
    "lil-index-beyond": Bad(_lists(999), "must be <"),
    "lil-index-negative": Bad(_lists(-1), "must be >= 0"),
    "lil-data-short": Bad(_short_list, "X"),
    "dia-offsets-long": Bad(_too_many_offsets, "X"),
}
