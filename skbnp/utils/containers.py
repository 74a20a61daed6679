"""Checks of containers of rows before they are converted."""

from itertools import chain
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
    kind, parts = _parts_of(X, name)
    indices = parts[1] if X.format == "coo" else parts[1:]
    if any(index.dtype.kind not in "iu" for index in indices):
        raise ValueError(f"{name} must have integers as indices.")
    try:  # in another container, for a check may change what it is of
        matrix = kind(parts, shape=X.shape)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name} is no valid {X.format} matrix: {error}") from None


def _parts_of(X: Any, name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the class and the arrays of a sparse matrix; of lists, those as CSR."""
    if X.format == "coo":
        return type(X), (X.data, X.coords)
    if X.format == "dia":
        return type(X), (X.data, X.offsets)
    if X.format != "lil":
        return type(X), (X.data, X.indices, X.indptr)
    lengths = [len(columns) for columns in X.rows]
    if lengths != [len(values) for values in X.data]:
        raise ValueError(f"{name} must have as many column indices as values.")
    columns = np.array([*chain.from_iterable(X.rows)], dtype=np.intp)
    return sp.csr_array, (columns, columns, np.cumsum([0, *lengths]))


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
