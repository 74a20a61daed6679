"""Checks of containers of rows before they are converted."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from skbnp.utils.typing import Array, MatrixLike

#: Beyond this, products of counts and probabilities leave the range of a float.
MOST_TOKENS = 1e100
#: Smaller counts are none: their ratios overflow.
LEAST_COUNT = 1e-305
#: Units that are not counts, and that NumPy would turn into numbers without a word.
_TIMES = frozenset("mM")
#: What scikit-learn checks and converts.
_COUNTS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


def row_totals(X: MatrixLike) -> Array:
    """Sum the magnitudes of each row of what an estimator takes, (n_rows,)."""
    X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    return np.asarray(abs(X).sum(axis=1), dtype=np.float64).ravel()


def check_before_conversion(X: MatrixLike, name: str = "X") -> MatrixLike:
    """Raise if a conversion to CSR counts would crash, or silently accept `X`."""
    check_structure(X, name)
    if are_texts(X):
        raise ValueError(
            f"{name} must hold counts, got texts, tokens or bags of words. "
            "sklearn.feature_extraction.text.CountVectorizer counts the words of texts "
            "(with analyzer=list, of lists of tokens), and "
            "gensim.matutils.corpus2csc(bags).T those of bags of words."
        )
    check_dtypes(X, name, "counts")
    if sp.issparse(X) and X.format == "coo" and X.dtype.kind in "biu":
        return X.astype(np.float64)  # duplicates are summed before they are converted
    return X


def check_dtypes(X: MatrixLike, name: str, what: str) -> None:
    """Raise if values are not numbers, although NumPy would convert them."""
    if isinstance(X, (list, tuple)):
        X = np.asarray(X, dtype=object)
    dtypes: Any = getattr(X, "dtypes", getattr(X, "dtype", None))
    for dtype in dtypes if hasattr(dtypes, "__iter__") else [dtypes]:
        kind = getattr(dtype, "kind", None)
        if kind in _TIMES or getattr(dtype, "is_temporal", bool)():
            raise TypeError(f"{name} must hold {what}, got dates or times ({dtype}).")
        if kind == "V":
            raise TypeError(f"{name} must hold {what}, got records ({dtype}).")
    if isinstance(X, np.ndarray) and X.dtype == object:
        for value in X.flat:
            if isinstance(value, (np.datetime64, np.timedelta64)):
                raise TypeError(
                    f"{name} must hold {what}, got dates or times ({value!r})."
                )
            if isinstance(value, int) and abs(value) >= MOST_TOKENS:
                raise ValueError(f"{name} holds a value too large for a float.")


def are_texts(X: MatrixLike) -> bool:
    """Whether X contains texts, lists of tokens or (number, count) pairs."""
    if isinstance(X, str):
        return True
    if sp.issparse(X) or getattr(X, "ndim", 1) != 1 or not hasattr(X, "__iter__"):
        return False
    rows = (row for row in X if not (isinstance(row, (list, tuple)) and not row))
    first = next(rows, None)
    if isinstance(first, (list, tuple)):
        return isinstance(first[0], (str, tuple))
    return isinstance(first, str)


def texts_in(X: Any) -> list[str] | None:
    """Return the texts of a list, an array or a column; None of other rows."""
    if sp.issparse(X) or getattr(X, "ndim", 1) != 1 or not hasattr(X, "__iter__"):
        return None
    is_text = isinstance(next(iter(X), None), str)
    return [str(text) for text in X] if is_text else None


def check_structure(X: MatrixLike, name: str) -> None:
    """Raise for other containers, and sparse matrices with indices out of range."""
    check_container(X, name)
    if not sp.issparse(X) or X.ndim != 2 or X.format == "dok":
        return
    if X.format == "dia" and len(X.offsets) != len(X.data):
        raise ValueError(
            f"{name} has {len(X.offsets)} offsets for {len(X.data)} diagonals."
        )
    if X.format == "lil":
        for row, (columns, values) in enumerate(zip(X.rows, X.data, strict=False)):
            if len(columns) != len(values):
                raise ValueError(
                    f"{name}: row {row} has {len(columns)} column indices for "
                    f"{len(values)} values."
                )
            _check_index(np.array(columns, np.intp), X.shape[1], name, "column")
    if X.format in ("dia", "lil"):
        return
    if X.format == "coo":
        for axis, index in enumerate(X.coords):
            _check_index(index, X.shape[axis], name, ("row", "column")[axis])
        return
    axis = 1 if X.format == "csc" else 0
    kind = ("row", "column")[axis]
    block = X.blocksize if X.format == "bsr" else (1, 1)
    indptr, n_major = X.indptr, X.shape[axis] // block[axis]
    if indptr.ndim != 1 or indptr.dtype.kind not in "iu":
        raise ValueError(f"{name}.indptr must hold integers, got {indptr.dtype}.")
    if len(indptr) != n_major + 1:
        raise ValueError(
            f"{name}.indptr must have {n_major + 1} entries, got {len(indptr)}."
        )
    if indptr[0] != 0:
        raise ValueError(f"{name}.indptr must start at 0, got {indptr[0]}.")
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if len(falls):
        raise ValueError(f"{name}.indptr decreases at {kind} {falls[0]}.")
    if indptr[-1] > min(len(X.indices), len(X.data)):
        raise ValueError(
            f"{name}.indptr ends at {indptr[-1]}, beyond the "
            f"{min(len(X.indices), len(X.data))} stored entries."
        )
    minor = ("column", "row")[axis]
    _check_index(
        X.indices[: indptr[-1]], X.shape[1 - axis] // block[1 - axis], name, minor
    )


def check_container(X: MatrixLike, name: str) -> None:
    """Raise for containers that contain or compute a matrix, and would be misread.

    Raises
    ------
    TypeError
        If `X` is an annotated matrix (as of anndata), or a collection of Dask that
        NumPy does not turn into numbers: a frame, or an array of sparse chunks.
    """
    is_annotated = all(hasattr(X, part) for part in ("X", "obs", "var"))
    if is_annotated and not hasattr(X, "columns"):  # a frame may have such columns
        raise TypeError(
            f"{name} must be a matrix, got {type(X).__name__}: give the matrix in it, "
            'adata.X, or the layer with the counts, such as adata.layers["counts"].'
        )
    is_dense = isinstance(getattr(X, "_meta", None), np.ndarray)
    if hasattr(X, "__dask_graph__") and not is_dense:
        raise TypeError(
            f"{name} is a lazy {type(X).__name__} of Dask: give an array, "
            f"{name}.compute(), or fit the estimators of skbnp.dask, whose rows stay "
            "where they are."
        )


def _check_index(index: np.ndarray, size: int, name: str, kind: str) -> None:
    """Raise if an index array has numbers out of range."""
    if index.dtype.kind not in "iu":
        raise ValueError(f"{name}: {kind} indices must be integers, got {index.dtype}.")
    if len(index) and not 0 <= index.min() <= index.max() < size:
        bad = index[(index < 0) | (index >= size)][0]
        raise ValueError(
            f"{name}: {kind} index {bad} is out of range for {size} {kind}s."
        )


def as_counts(X: MatrixLike) -> sp.csr_array:
    """Canonical float64 CSR of a checked matrix; the caller's matrix is not changed."""
    if sp.issparse(X):
        # A new container around the caller's buffers: even flags and dtypes of index
        # arrays stay as they were.
        counts = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    else:
        counts = sp.csr_array(X)
    if not counts.has_canonical_format:
        counts = counts.astype(np.float64)
        counts.sum_duplicates()
    counts = counts.astype(np.float64, copy=False)
    is_nothing = np.abs(counts.data) < LEAST_COUNT
    if is_nothing.any():
        counts = counts.copy()
        counts.data[is_nothing] = 0.0
        counts.eliminate_zeros()
    return counts
