"""All checks of input and parameters."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import chain
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from skbnp.utils.sklearn import (
    IS_NEW,
    HasMethods,
    Interval,
    Options,
    StrOptions,
    check_sample_weight,
    fit_context,
    get_feature_names,
    validate_params,
)
from skbnp.utils.typing import Array, Ints, MatrixLike
from skbnp.utils.warnings import warn_caller

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Method = TypeVar("Method", bound=Callable)

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
    return isinstance(first, (str, bytes))


@contextmanager
def _naming_texts(X: MatrixLike, name: str) -> Iterator[None]:
    """Name the column of texts if a conversion of `X` to numbers meets one."""
    try:
        yield
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        rows = np.asarray(X, dtype=object)
        for column, values in enumerate(rows.reshape(len(rows), -1).T):
            for text in values:
                if isinstance(text, (str, bytes)) and not _is_number(text):
                    names = get_feature_names(X)
                    label = column if names is None else names[column]
                    raise ValueError(
                        f"{name} must hold numbers, got {text[:40]!r} in column "
                        f"{label!r}. sklearn.feature_extraction.text.CountVectorizer "
                        "counts the words of a column of texts; leave out columns of "
                        "names and labels."
                    ) from None
        raise


def _is_number(text: str | bytes) -> bool:
    """Whether NumPy converts a text to a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


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
        NumPy does not turn into numbers: a frame, or an array of sparse chunks; if it
        is an array of another library on a GPU, or scikit-learn is to compute with it.
    """
    if hasattr(X, "__dlpack__") and not isinstance(X, np.ndarray):
        kind = f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}"
        advice = (
            f"{name} must be an array of NumPy, got {kind}: everything is computed on "
            f"the processor. Give numpy.asarray({name}), or from a GPU "
            f"{name}.cpu().numpy() of PyTorch, {name}.get() of CuPy."
        )
        if get_config()["array_api_dispatch"]:
            raise TypeError(advice)
        try:
            np.asarray(X)
        except Exception as error:
            raise TypeError(advice) from error
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


#: What others import from here unchanged.
__all__ = ["HasMethods", "Options", "StrOptions", "check_is_fitted", "fit_context"]

#: Range of concentrations and Dirichlet parameters.
SMALLEST_PRIOR, LARGEST_PRIOR = 1e-100, 1e10
#: Largest shape and rate of a Gamma prior: its width is the rounding of a number.
MOST_CERTAIN = 1e20
#: What samplers take, in one document and in all.
MOST_DOC_TOKENS, MOST_ALL_TOKENS = 10**8, 2**31 - 1
#: Largest number of copies of rows by weights.
MOST_COPIES = 2**31 - 1
#: Share of the tokens that rounding must leave.
LEAST_LEFT = 0.1
#: Beyond this, sums of squares leave the range of a float.
LARGEST_VALUE = 1e100


def at_least(least: int, kind: type = Integral) -> Interval:
    """Return the constraint of numbers from `least` on."""
    return Interval(kind, least, None, closed="left")


#: Constraints of whole numbers from 1 on, of shares, and of probabilities of intervals.
POSITIVE, UNIT = at_least(1), Interval(Real, 0, 1, closed="both")
CONFIDENCE = Interval(Real, 0, 1, closed="neither")
#: What arguments of functions may be, by their names.
_ARGUMENTS: dict[str, list] = {
    "n n_terms n_documents n_topics n_draws": [POSITIVE],
    "n_components n_features": [POSITIVE, None],
    "relevance weight min_recurrence": [UNIT],
    "min_similarity merge_similarity": [Interval(Real, -1, 1, closed="both")],
    "confidence": [CONFIDENCE],
    "n_lines": [at_least(4)],  # a group, a topic, lighter topics, lighter groups
    "path": [str, os.PathLike],
    "random_state": ["random_state"],
    "vocabulary": [str, os.PathLike, "array-like", None],
}
_ARGUMENTS = {name: of for names, of in _ARGUMENTS.items() for name in names.split()}


def validated(**own: list) -> Callable[[Method], Method]:
    """Let scikit-learn check arguments of a function: `own` ones, or `_ARGUMENTS`."""
    return validate_params(_ARGUMENTS | own)


def with_names(X: MatrixLike, estimator: BaseEstimator | None = None) -> MatrixLike:
    """Return a frame with texts for names where columns have numbers or other labels.

    scikit-learn ignores such labels. Labels 0 to n - 1 in order are positions: a frame
    of these stays as it is, unless an estimator, which has learned before, has names
    like them; and of an estimator without names they order the columns.
    """
    names_are_read = IS_NEW or hasattr(X, "iloc") or hasattr(X, "__dataframe__")
    if hasattr(X, "columns") and not names_are_read:
        raise TypeError(
            f"X is a {type(X).__name__}, whose names of columns scikit-learn before "
            '1.9 does not read. Update it with `pip install "scikit-learn>=1.9"`, or '
            "give X.to_pandas()."
        )
    labels = list(X.columns) if hasattr(X, "iloc") and X.ndim == 2 else []
    if not labels or any(isinstance(label, str) for label in labels):
        return X  # a mixture with texts is refused
    known = getattr(estimator, "feature_names_in_", None)
    positions = list(range(len(labels)))
    if known is not None and str(labels[0]) not in known:
        return X  # with a warning of scikit-learn
    if known is None and labels == positions:
        return X
    if known is None and estimator is not None and set(labels) == set(positions):
        return X[positions]
    X = X.copy(deep=False)
    X.columns = [str(label) for label in labels]
    return X


def _named(X: MatrixLike, estimator: BaseEstimator, *, reset: bool) -> MatrixLike:
    """Return rows by `with_names`, with a warning if numbers place their columns."""
    named = with_names(X, None if reset else estimator)
    if named is X or reset or hasattr(estimator, "feature_names_in_"):
        return named
    warn_caller(
        "X has numbers for names of columns, other than 0 to n - 1 in order, and "
        f"{type(estimator).__name__} has no feature names: columns go by these "
        "numbers. Name them by texts in all frames, X.rename(columns=str), from the "
        "first on."
    )
    return named


def feature_names_of(
    X: MatrixLike, estimator: BaseEstimator | None = None
) -> NDArray | None:
    """Return the names of the columns of a frame, None without; see `with_names`."""
    names = get_feature_names(with_names(X, estimator))
    if names is not None and len(set(names)) < len(names):  # refused since 1.9
        raise ValueError("X must have unique column names, got some twice.")
    return names


def placed(X: MatrixLike, estimator: BaseEstimator) -> MatrixLike:
    """Return a frame with the columns of an estimator, in its order, absent ones zero.

    A frame with a name that the estimator does not know stays as it is.
    """
    X, known = with_names(X, estimator), getattr(estimator, "feature_names_in_", None)
    names = get_feature_names(X)
    if (
        known is None
        or names is None
        or np.array_equal(known, names)
        or not set(names) <= set(known)
    ):
        return X
    if hasattr(X, "reindex"):
        return X.reindex(columns=known, fill_value=0)
    absent = [name for name in known if name not in set(names)]
    return X.with_columns(**dict.fromkeys(absent, 0)).select(list(known))


def names_of_positions(n_features: int) -> NDArray:
    """Return the names that columns without names have beside named ones."""
    return np.array([str(column) for column in range(n_features)], dtype=object)


def check_documents(
    estimator: BaseEstimator,
    X: MatrixLike,
    *,
    reset: bool,
    method: str,
    accept: Callable[[sp.csr_array], sp.csr_array] = lambda counts: counts,
    vocabulary: "Vocabulary | None" = None,
) -> tuple[sp.csr_array, np.dtype]:
    """Check a document-term matrix and return it as counts, with its float dtype.

    Parameters
    ----------
    estimator : estimator instance
        The calling estimator. Its number and names of features are compared with
        those of `X`, or are set, but only once `X` is known to be valid.
    X : {array-like, sparse matrix, sparse array, dataframe} of shape \
            (n_samples, n_features)
        Non-negative weights, rows are documents. Never written to.
    reset : bool
        Whether `X` defines the vocabulary.
    method : str
        The public method that calls, for messages.
    accept : callable
        Refuses or converts valid counts, before they define the vocabulary.
    vocabulary : Vocabulary or None
        Where the columns of `X` belong; None: where they are.

    Returns
    -------
    counts : csr_array of float64, shape (n_samples, n_features)
        Canonical format: sorted, no duplicates, no stored zeros. May share memory with
        `X`.
    dtype : dtype
        float32 if `X` was float32, otherwise float64: the dtype of results.
    """
    X = check_before_conversion(X)
    X = _named(X, estimator, reset=reset)
    whom = f"{type(estimator).__name__}.{method}"
    takes_new_columns = reset or vocabulary is not None
    checked = _checked(estimator, X, takes_new_columns, **_COUNTS)
    counts = _as_counts(checked, "X", whom)
    counts = accept(counts if vocabulary is None else vocabulary.place(counts))
    if reset:
        validate_data(estimator, X, reset=True, skip_check_array=True)
    return counts, checked.dtype


@dataclass(frozen=True)
class Vocabulary:
    """Names of features, and the positions in them of the columns of a chunk."""

    names: NDArray  # (V,) those there were, then new ones
    columns: Ints  # (n,) of them, one for each column of the chunk

    @classmethod
    def extended(cls, known: NDArray, names: NDArray) -> "Vocabulary":
        """Append new names to the known ones.

        Raises
        ------
        ValueError
            If none is known.
        """
        place = {name: column for column, name in enumerate(known.tolist())}
        n_known = sum(name in place for name in names.tolist())
        if n_known == 0:
            raise ValueError(
                f"X shares no feature name with the {len(known)} known ones, such as "
                f"{str(known[0])!r}; its first is {str(names[0])!r}. Is it another "
                "vocabulary? Begin another fit, or rename its columns."
            )
        for name in names.tolist():
            place.setdefault(name, len(place))
        columns = np.array([place[name] for name in names.tolist()], dtype=np.intp)
        return cls(np.array(list(place), dtype=object), columns)

    @property
    def size(self) -> int:
        """Number of names V."""
        return len(self.names)

    def place(self, counts: sp.csr_array) -> sp.csr_array:
        """Return counts of a chunk, (n_docs, n), in the columns of the vocabulary."""
        indices = self.columns[counts.indices].astype(counts.indices.dtype)
        shape = counts.shape[0], len(self.names)
        placed = sp.csr_array((counts.data, indices, counts.indptr), shape)
        placed.sort_indices()
        return placed


def vocabulary_of(estimator: BaseEstimator, X: MatrixLike) -> Vocabulary | None:
    """Return the vocabulary that a chunk with other names extends; else None."""
    known = getattr(estimator, "feature_names_in_", None)
    names = feature_names_of(X, estimator)
    if known is None and names is not None and all(map(str.isdecimal, names)):
        known = names_of_positions(estimator.n_features_in_)
    if known is None or names is None or np.array_equal(known, names):
        return None
    return Vocabulary.extended(known, names)


def check_copies(sample_weight: ArrayLike, X: MatrixLike) -> Ints:
    """Check weights of rows, which are numbers of copies; return rows with copies.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,), or number
        Whole numbers, not negative, in any type of numbers.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)

    Returns
    -------
    rows : (n_copies,)
        Numbers of the rows, each as often as it has copies, in their order.
    """
    weights = check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if not weights.any():  # refused by scikit-learn since 1.9
        raise ValueError("sample_weight must have at least one non-zero weight.")
    broken = np.flatnonzero(weights != np.floor(weights))
    if len(broken):
        row = int(broken[0])
        raise ValueError(
            "sample_weight must be whole numbers, the copies that a row counts as, "
            f"got {weights[row]:g} for row {row}. Multiply all by a common "
            "factor and round, or draw rows by weight: "
            "X[rng.choice(len(w), size, p=w / w.sum())]."
        )
    if weights.sum() > MOST_COPIES:
        raise ValueError(
            f"sample_weight must add up to at most {MOST_COPIES:.0e} copies of rows, "
            f"got {weights.sum():.3g}. Divide all by a common factor and round."
        )
    return np.repeat(np.arange(len(weights)), weights.astype(np.intp))


def _checked(estimator: BaseEstimator, X: MatrixLike, reset: bool, **how: Any) -> Any:
    """Check and convert rows; features are compared with those known, but never set.

    scikit-learn sets them before it checks the values, so that a refused first call
    would leave an estimator half fitted.
    """
    with _naming_texts(X, "X"):
        if reset:
            return check_array(X, estimator=estimator, input_name="X", **how)
        return validate_data(estimator, X, reset=False, **how)


def check_rows(
    estimator: BaseEstimator, X: MatrixLike, *, reset: bool, method: str
) -> Array | NDArray[np.float32]:
    """Check dense rows of finite numbers of either sign, as `check_documents` does.

    Returns
    -------
    rows : ndarray of shape (n_samples, n_features)
        In C order, since BLAS adds products in an order that depends on the layout.
        float32 if `X` was float32, otherwise float64. May share memory with `X`.
    """
    whom = f"{type(estimator).__name__}.{method}"
    if sp.issparse(X):
        raise TypeError(
            f"{whom} takes dense rows, got a sparse X of shape {X.shape}: less their "
            "mean they would not be sparse. X.toarray() makes it dense."
        )
    check_container(X, "X")
    if are_texts(X):
        raise ValueError(
            f"X must hold dense rows of numbers, got texts or tokens: {whom} learns "
            "from measurements. sklearn.feature_extraction.text.TfidfVectorizer with "
            "sklearn.decomposition.TruncatedSVD makes such rows of texts; NestedCRP "
            "learns a tree from the counts of CountVectorizer."
        )
    check_dtypes(X, "X", "numbers")
    X = _named(X, estimator, reset=reset)
    how: dict[str, Any] = {"dtype": [np.float64, np.float32], "order": "C"}
    rows = _checked(estimator, X, reset, **how)
    largest = max(float(rows.max()), -float(rows.min()))
    if not largest < LARGEST_VALUE:
        raise ValueError(
            f"X must hold values below {LARGEST_VALUE:g} in size, got {largest:g}."
        )
    if reset:
        validate_data(estimator, X, reset=True, skip_check_array=True)
    return rows


def check_coordinates(
    estimator: BaseEstimator, X: MatrixLike, *, n_columns: int
) -> np.ndarray | sp.csr_array:
    """Check the input of `inverse_transform`, (n_samples, n_columns), dense or sparse.

    It is never written to.
    """
    check_structure(X, "X")
    check_dtypes(X, "X", "numbers")
    checked = check_array(X, estimator=estimator, input_name="X", **_COUNTS)
    if checked.shape[1] != n_columns:
        raise ValueError(
            f"X must have shape (n_samples, {n_columns}), got {checked.shape}."
        )
    return checked


def check_directions(
    estimator: BaseEstimator, X: MatrixLike, *, reset: bool, method: str
) -> tuple[sp.csr_array, np.dtype]:
    """Check rows of finite numbers of either sign, and put them on the unit sphere.

    Arguments are those of `check_documents`; two features or more.

    Returns
    -------
    rows : csr_array of float32, shape (n_samples, n_features)
        Rows of length one, or zero where they were, in canonical format.
    dtype : dtype
        float32 if `X` was float32, otherwise float64: the dtype of results.
    """
    X = check_before_conversion(X)
    X = _named(X, estimator, reset=reset)
    least = {"ensure_min_features": 2} if reset else {}
    checked = _checked(estimator, X, reset, **_COUNTS, **least)
    rows = as_counts(checked).copy()
    n_stored = np.diff(rows.indptr)
    used = np.flatnonzero(n_stored)
    if len(used):
        # First so that squares of numbers of any size stay in the range of floats.
        begin, sizes = rows.indptr[used], n_stored[used]
        largest = np.maximum.reduceat(np.abs(rows.data), begin)
        rows.data /= np.repeat(largest, sizes)
        squares = np.add.reduceat(rows.data**2, begin)
        rows.data /= np.repeat(np.sqrt(squares), sizes)
    rows = rows.astype(np.float32)
    rows.eliminate_zeros()
    if reset:
        validate_data(estimator, X, reset=True, skip_check_array=True)
    return rows, checked.dtype


def whole_counts(counts: sp.csr_array, whom: str, n_before: int = 0) -> sp.csr_array:
    """Round counts to whole tokens, with a warning if that changes any.

    `n_before` tokens are added in the check of their number.

    Raises
    ------
    ValueError
        If a document has more than 10^8 tokens, or all have more than 2^31 - 1; if rows
        sum to one, or rounding leaves next to nothing.
    """
    rounded = np.rint(counts.data)
    if (rounded != counts.data).any():
        given, left = counts.data.sum(), rounded.sum()
        sums = np.asarray(counts.sum(axis=1)).ravel()
        are_shares = np.allclose(sums[sums > 0.0], 1.0, atol=1e-3)
        if left < LEAST_LEFT * given or are_shares:
            raise ValueError(
                f"{whom} samples whole tokens, and rounding leaves {left:.6g} of the "
                f"{given:.6g} in X, as of shares or tf-idf. Give counts, or multiply "
                "the shares of each row by its number of tokens."
            )
        warn_caller(
            f"{whom} samples whole tokens: fractional counts, {given:.6g} in all, were "
            f"rounded to {left:.6g}. Give counts, or use HDP, which takes fractions.",
            DataConversionWarning,
        )
        counts = counts.copy()
        counts.data = rounded
        counts.eliminate_zeros()
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    long = np.flatnonzero(lengths > MOST_DOC_TOKENS)
    if len(long):
        raise ValueError(
            f"Row {long[0]} of X has {lengths[long[0]]:.10g} tokens; {whom} takes "
            f"{MOST_DOC_TOKENS:,} in a document at the most."
        )
    full = np.flatnonzero(np.cumsum(lengths) > MOST_ALL_TOKENS - n_before)
    if len(full):
        more = f" after {n_before:,}" if n_before else ""
        raise ValueError(
            f"X has {lengths.sum():.10g} tokens{more}, too many from row {full[0]} on; "
            f"{whom} takes {MOST_ALL_TOKENS:,} in all at the most."
        )
    return counts


def check_counts(X: MatrixLike, *, name: str = "X", whom: str) -> sp.csr_array:
    """Check a document-term matrix that belongs to no estimator."""
    X = check_before_conversion(X, name)
    with _naming_texts(X, name):
        checked = check_array(X, input_name=name, **_COUNTS)
    return _as_counts(checked, name, whom)


def _as_counts(
    checked: np.ndarray | sp.csr_array, name: str, whom: str
) -> sp.csr_array:
    """Return counts; raise for negative ones, and if their total is too large.

    Numbers of either sign are for estimators that the message names.
    """
    try:
        check_non_negative(checked, whom)
    except ValueError as error:
        raise ValueError(
            f"{error} Counts are 0 or more, got {checked.min():g}; values of either "
            "sign are for HierarchicalComponentAnalysis, DependentTrees and "
            "GibbsDependentTrees."
        ) from None
    counts = as_counts(checked)
    with np.errstate(over="ignore"):
        total = counts.data.sum()
    most = MOST_TOKENS
    if not total < most:
        raise ValueError(f"{name} must hold fewer than {most:g} tokens, got {total:g}.")
    return counts


def check_gamma_prior(estimator: Any, name: str) -> tuple[float, float]:
    """Check the (shape, rate) pair of a Gamma prior, a parameter of an estimator."""
    value = getattr(estimator, name)
    try:
        shape, rate = (float(x) if isinstance(x, Real) else -1.0 for x in value)
    except (TypeError, ValueError):
        shape = rate = -1.0
    if not all(SMALLEST_PRIOR <= x <= MOST_CERTAIN for x in (shape, rate)):
        raise ValueError(
            f"{name} must be a (shape, rate) pair of two positive numbers, in "
            f"[{SMALLEST_PRIOR:g}, {MOST_CERTAIN:g}], got {value!r}."
        )
    return shape, rate


def check_per_level(name: str, value: Any, max_depth: int) -> Array:
    """Check a prior: a number for all levels of a tree, or a sequence of one for each.

    Returns an array of one for each level.
    """
    values = np.asarray(value, dtype=object)
    values = np.full(max_depth, value) if values.ndim == 0 else values
    if len(values) != max_depth:
        raise ValueError(
            f"{name} must be a number, or have one for each of max_depth={max_depth} "
            f"levels, got {len(values)}."
        )
    numbers = [float(x) if isinstance(x, Real) else np.nan for x in values]
    if not all(SMALLEST_PRIOR <= x <= LARGEST_PRIOR for x in numbers):
        raise ValueError(
            f"{name} must be in [{SMALLEST_PRIOR:g}, {LARGEST_PRIOR:g}] at each level, "
            f"got {value!r}."
        )
    return np.array(numbers)


# Settings of moves, which users make.


def check_settings(
    settings: "DataclassInstance",
    choices: Mapping[str, Sequence[str]],
    least: Mapping[str, int],
) -> None:
    """Check the fields of a settings record that users make.

    Parameters
    ----------
    settings : dataclass instance
    choices : dict
        Texts that fields may be.
    least : dict
        Least values of whole numbers, by default 0; also of flags that may be numbers.

    Raises
    ------
    ValueError
        If a field has another type, or a value that is not allowed.
    """
    for item in fields(settings):
        name, value, default = item.name, getattr(settings, item.name), item.default
        if name in choices:
            needed = f"one of {', '.join(map(repr, choices[name]))}"
            is_right = value in choices[name]
        elif isinstance(default, bool) and name not in least:
            needed, is_right = "a bool", isinstance(value, bool)
        elif isinstance(default, float):
            needed = "a number >= 0"
            is_right = isinstance(value, (int, float)) and 0 <= value < np.inf
        else:
            needed = f"an integer >= {least.get(name, 0)}"
            is_right = isinstance(value, Integral) and int(value) >= least.get(name, 0)
            is_right = is_right or value is default is None
        if not is_right:
            raise ValueError(f"{name} must be {needed}, got {value!r}.")


def repr_settings(settings: "DataclassInstance", preset: Callable[[], object]) -> str:
    """Return the code that makes an equal settings record, by a preset or its changes.

    `preset` is a class method that makes one.
    """
    name = type(settings).__name__
    if settings == preset():
        return f"{name}.{preset.__name__}()"
    values = [(item, getattr(settings, item.name)) for item in fields(settings)]
    changed = [
        f"{item.name}={value!r}" for item, value in values if value != item.default
    ]
    return f"{name}({', '.join(changed)})"
