"""Inputs of estimators on a cluster: blocks of rows, and labels divided as they are."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob
from itertools import pairwise
from os import PathLike, fspath
from typing import Any

import dask
import numpy as np
import scipy.sparse as sp
from dask.array import Array as DaskArray
from dask.bag import Bag
from dask.base import is_dask_collection
from dask.delayed import Delayed, delayed

from skbnp.utils.labels import Factors, Label, Order, check_labels
from skbnp.utils.typing import MatrixLike
from skbnp.utils.validation import check_container

#: Labels of epochs, one for all rows or for each, as they are given, or `Factors` of
#: groups, or None.
Labels = Any
#: What does not tell how many rows its blocks have.
CURE = (
    "One label for each row needs blocks whose sizes are known: X.compute_chunk_sizes()"
    " of a Dask array makes them so."
)


def labels_by_block(
    epochs: Labels, sizes: Sequence[int | None]
) -> tuple[list[Labels], Order]:
    """Divide labels into blocks as the rows are, with the order of a Categorical.

    `epochs` are one label for all rows, labels for each row, or for each block; lazy
    ones are computed. `sizes` are the rows of each block, None where they are not
    known. Returns arrays or single labels by block, and the order of the
    categories. Raises ValueError if labels are not given as the rows are.
    """
    if epochs is None or isinstance(epochs, str):
        return [epochs] * len(sizes), None
    if isinstance(epochs, Factors):
        n_rows, n_labels = _total(sizes), len(epochs.codes)
        if n_labels != n_rows:
            what = "its" if n_rows is None else n_rows
            raise ValueError(
                f"groups must have a label for each of {what} documents, got "
                f"{n_labels}. {CURE if n_rows is None else ''}".rstrip()
            )
        cuts = pairwise(np.cumsum([0, *sizes]))
        return [epochs.taken(slice(*ends)) for ends in cuts], None
    if is_dask_collection(epochs):  # small next to its rows
        epochs = epochs.compute()
    elif isinstance(epochs, (list, tuple)) and any(map(is_dask_collection, epochs)):
        epochs = list(dask.compute(*epochs, scheduler="threads"))
    if not hasattr(epochs, "__len__"):
        return check_labels(epochs, 1).distinct * len(sizes), None
    if _are_of_blocks(epochs, sizes):
        return _of_blocks(epochs, sizes)
    n_rows = _total(sizes)
    if n_rows is None or len(epochs) != n_rows:
        raise ValueError(
            "epochs must have one label, or labels, for each of "
            f"{len(sizes)} blocks of X, or one label for each of "
            f"{'its' if n_rows is None else n_rows} rows, got {len(epochs)}."
            + (f" {CURE}" if n_rows is None else "")
        )
    labels = check_labels(epochs, n_rows)
    values, limits = labels.values(), np.cumsum([0, *sizes]).tolist()
    return [values[begin:end] for begin, end in pairwise(limits)], labels.order


def _total(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _are_of_blocks(epochs: Labels, sizes: Sequence[int | None]) -> bool:
    """Whether labels are given by block, not by row; by row if both are possible."""
    if not isinstance(epochs, (Sequence, np.ndarray)) or len(epochs) != len(sizes):
        return False
    if any(np.ndim(one) for one in epochs):
        return getattr(epochs, "shape", (0,))[1:] != (1,)
    return len(epochs) != _total(sizes)


def _of_blocks(
    epochs: Sequence[Labels], sizes: Sequence[int | None]
) -> tuple[list[Labels], Order]:
    """Read the labels of blocks."""
    result, orders = list[Labels](), set[Order]()
    for labels, size in zip(epochs, sizes, strict=True):
        if labels is None:
            result.append(None)
            continue
        is_one = np.ndim(labels) == 0
        checked = check_labels(labels, 1 if is_one else size)
        result.append(checked.distinct[0] if is_one else checked.values())
        orders |= {checked.order} - {None}
    if len(orders) > 1:
        raise ValueError("epochs must have the same ordered categories in all blocks.")
    return result, next(iter(orders), None)


#: What a list of texts, which are taken for names of files, should have been.
TEXTS = (
    "A list of texts names files; sklearn.feature_extraction.text.CountVectorizer "
    "counts the words of documents."
)


@dataclass(frozen=True, slots=True)
class NpzFile:
    """Rows in a file of `scipy.sparse.save_npz`, read where they are needed.

    Labels of their epochs may be in the same file, as an array `epochs`.
    """

    path: str

    def load(self, labels: Any) -> tuple[sp.sparray, Any]:
        """Read the rows, and the labels of the file if none are given."""
        with self._reading(), np.load(self.path, allow_pickle=False) as file:
            if labels is None and "epochs" in file:
                labels = file["epochs"]
            return sp.load_npz(self.path), labels

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Name the file in errors of the lines inside."""
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(f"No file {self.path!r}. {TEXTS}") from error
        except OSError:  # names it
            raise
        except Exception as error:
            raise ValueError(
                f"The file {self.path!r} holds no rows of scipy.sparse.save_npz: "
                f"{type(error).__name__}: {error}"
            ) from error


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows of one shard, and the labels of their epochs, if any, one for all or each.

    Rows may be `Delayed`, or an `NpzFile`. Labels of an ordered Categorical have the
    order of its categories, in all blocks.
    """

    rows: MatrixLike
    labels: Labels = None
    order: Order = None


def is_lazy(X: MatrixLike) -> bool:
    """Whether rows are evaluated lazily, not in memory."""
    if isinstance(X, (str, PathLike, DaskArray, Bag, Delayed)) or is_frame(X):
        return True
    if isinstance(X, (list, tuple)) and len(X):
        return isinstance(X[0], (str, PathLike, Delayed)) or _is_matrix(X[0])
    return False


def _is_matrix(part: object) -> bool:
    """Whether an item of a list is a block of rows, not a single row."""
    return sp.issparse(part) or (
        isinstance(part, (np.ndarray, DaskArray)) and part.ndim == 2
    )


def is_frame(X: MatrixLike) -> bool:
    """Whether X is a Dask data frame, without importing Dask."""
    return is_dask_collection(X) and hasattr(X, "columns")


def blocks_of(X: MatrixLike, epochs: Labels = None) -> list[RowBlock]:
    """Divide rows into blocks as they are stored; nothing is read.

    Raises ValueError if there is no block, or labels are not in the form of the
    rows.
    """
    if not is_lazy(X):
        check_container(X, "X")
    rows = list(_row_blocks(X)) if is_lazy(X) else [X]
    if not rows:
        raise ValueError("X has no blocks: no file, no chunk, no partition.")
    sizes = [None] * len(rows) if epochs is None else _sizes(X, rows)
    labels, order = labels_by_block(epochs, sizes)
    return [RowBlock(*both, order) for both in zip(rows, labels, strict=True)]


def _sizes(X: MatrixLike, rows: Sequence[MatrixLike]) -> list[int | None]:
    """Number of rows of each block, None if unknown."""
    if isinstance(X, DaskArray):
        return [None if np.isnan(size) else int(size) for size in X.chunks[0]]
    if is_frame(X):
        return X.map_partitions(len).compute().tolist()
    if not is_lazy(X):
        return [X.shape[0] if hasattr(X, "shape") else len(X)]
    if isinstance(X, (list, tuple)) and any(isinstance(one, DaskArray) for one in X):
        parts = [_sizes(one, [one]) if _is_matrix(one) else [None] for one in X]
        return [size for part in parts for size in part]
    return [one.shape[0] if _is_matrix(one) else None for one in rows]


def _row_blocks(X: MatrixLike) -> Iterator[object]:
    """Yield the blocks of rows in their stored form."""
    if isinstance(X, (str, PathLike)):
        paths = sorted(glob(fspath(X)))
        if not paths:
            raise ValueError(f"No file matches {fspath(X)!r}. {TEXTS}")
        yield from map(NpzFile, paths)
    elif isinstance(X, DaskArray):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}.")
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        yield from X.to_delayed().ravel()
    elif isinstance(X, Bag) or is_frame(X):
        yield from X.to_delayed()
    elif isinstance(X, Delayed):
        yield X
    else:
        for one in X:
            if isinstance(one, DaskArray):
                yield from _row_blocks(one)
            else:
                is_path = isinstance(one, (str, PathLike))
                yield NpzFile(fspath(one)) if is_path else one


def read_block(rows: MatrixLike, labels: Labels) -> tuple[MatrixLike, Labels]:
    """Return the rows of a block as one matrix, and their labels.

    Partitions of a bag contain rows, or matrices of them, which are stacked. None
    stands for no rows.
    """
    if isinstance(rows, NpzFile):
        rows, labels = rows.load(labels)
    if isinstance(rows, Iterator):
        rows = list(rows)
    if isinstance(labels, Iterator):
        labels = list(labels)
    if isinstance(rows, (list, tuple)):
        rows = stacked(rows)
    if rows is None:
        return None, None
    kind = type(rows).__name__
    if not hasattr(rows, "shape"):
        rows = np.asarray(rows)
    if len(rows.shape) == 0:
        raise ValueError(f"A block must be a matrix of rows, got a {kind}.")
    if isinstance(rows, np.ndarray) and rows.size and _is_text(rows.flat[0]):
        rows = rows.ravel().astype(str)  # refused by name
    return (rows, labels) if rows.shape[0] else (None, None)


def stacked(parts: Sequence[MatrixLike]) -> MatrixLike:
    """Stack rows or matrices of a partition of a bag."""
    if any(map(_is_text, parts)):
        return np.array([str(part) for part in parts])
    matrices = [part if sp.issparse(part) else np.atleast_2d(part) for part in parts]
    matrices = [one for one in matrices if one.shape[0]]
    if not matrices:
        return None
    widths = sorted({one.shape[1:] for one in matrices})
    if len(widths) > 1:
        raise ValueError(f"Its rows have different shapes: {widths[0]}, {widths[1]}.")
    if any(map(sp.issparse, matrices)):
        return sp.vstack(matrices, format="csr")
    return np.vstack(matrices)


def _is_text(part: object) -> bool:
    """Whether an item is a document or a list of tokens instead of a row."""
    if isinstance(part, (list, tuple)) and len(part):
        part = part[0]
    return isinstance(part, (str, bytes))


def block_error(number: int, error: BaseException) -> BaseException:
    """Return an error of the same class that names its block, and its cause."""
    kind = type(error)
    try:
        named = kind(f"Block {number} of X: {str(error) or kind.__name__}")
    except Exception:  # its class takes other arguments
        named = RuntimeError(f"Block {number} of X: {kind.__name__}: {error}")
    named.__cause__ = error
    return named


@contextmanager
def in_block(number: int) -> Iterator[None]:
    """Name a block in errors of the lines inside."""
    try:
        yield
    except Exception as error:
        raise block_error(number, error) from error


def computed(blocks: Sequence[RowBlock]) -> list[tuple[MatrixLike, Labels]]:
    """Return rows and labels of blocks, computed in this process."""
    pairs: list[Any] = [(block.rows, block.labels) for block in blocks]
    lazy = [
        delayed(tuple)(pair) if any(isinstance(one, Delayed) for one in pair) else None
        for pair in pairs
    ]
    try:
        results = dask.compute(*lazy, scheduler="threads")
    except Exception:
        for number, one in enumerate(lazy):  # which one it is, Dask does not tell
            with in_block(number):
                dask.compute(one, scheduler="threads")
        raise
    return [
        pair if one is None else result
        for pair, one, result in zip(pairs, lazy, results, strict=True)
    ]


#: Rows by label: what a shard of each epoch, or of all documents, is made from.
Reader = Callable[[MatrixLike, Labels], dict[Label, sp.csr_array]]
