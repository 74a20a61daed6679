"""Blocks of rows as they are given, and how each is read where it is needed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from os import PathLike, fspath
from typing import Any

import dask
import numpy as np
import scipy.sparse as sp
from dask.array import Array as DaskArray
from dask.bag import Bag
from dask.base import is_dask_collection
from dask.delayed import Delayed, delayed

from skbnp.dask._labels import Labels, labels_by_block
from skbnp.utils.epochs import Label, Order
from skbnp.utils.typing import MatrixLike
from skbnp.utils.validation import check_container

__all__ = ["Block", "NpzFile", "blocks_of", "is_frame", "is_lazy", "read_block"]


@dataclass(frozen=True, slots=True)
class NpzFile:
    """Rows that `scipy.sparse.save_npz` wrote, read where they are needed.

    Labels of their epochs may stand beside them, as an array `epochs`.
    """

    path: str

    def load_rows(self) -> sp.sparray:
        """Read the rows."""
        return sp.load_npz(self.path)

    def load_labels(self) -> np.ndarray | None:
        """Read the labels, if there are any."""
        with np.load(self.path, allow_pickle=False) as file:
            return file["epochs"] if "epochs" in file else None


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one shard, and the labels of their epochs, if any, one for all or each.

    Either may be `Delayed`; rows may be an `NpzFile`. Labels of an ordered Categorical
    have the order of its categories, in all blocks.
    """

    rows: MatrixLike
    labels: Labels = None
    order: Order = None


def is_lazy(X: MatrixLike) -> bool:
    """Tell what is evaluated lazily from rows that are at hand."""
    if isinstance(X, (str, PathLike, DaskArray, Bag, Delayed)) or is_frame(X):
        return True
    if isinstance(X, (list, tuple)) and len(X):
        return isinstance(X[0], (str, PathLike, Delayed)) or sp.issparse(X[0])
    return False


def is_frame(X: MatrixLike) -> bool:
    """Tell a data frame of Dask, without importing what it is made with."""
    return is_dask_collection(X) and hasattr(X, "columns")


def blocks_of(X: MatrixLike, epochs: Labels = None) -> list[Block]:
    """Cut rows into blocks as they are stored; nothing is read.

    Raises
    ------
    ValueError
        If there is no block, or labels are not given as the rows are.
    """
    if not is_lazy(X):
        check_container(X, "X")
    rows = list(_row_blocks(X)) if is_lazy(X) else [X]
    if not rows:
        raise ValueError("X has no blocks: no file, no chunk, no partition.")
    sizes = [None] * len(rows) if epochs is None else _sizes(X, rows)
    labels, order = labels_by_block(epochs, sizes)
    return [Block(*both, order) for both in zip(rows, labels, strict=True)]


def _sizes(X: MatrixLike, rows: Sequence[MatrixLike]) -> list[int | None]:
    """Rows of each block, None where they are not known."""
    if isinstance(X, DaskArray):
        return [None if np.isnan(size) else int(size) for size in X.chunks[0]]
    if is_frame(X):
        return X.map_partitions(len).compute().tolist()
    if not is_lazy(X):
        return [X.shape[0] if hasattr(X, "shape") else len(X)]
    return [one.shape[0] if sp.issparse(one) else None for one in rows]


def _row_blocks(X: MatrixLike) -> Iterator[object]:
    if isinstance(X, (str, PathLike)):
        paths = sorted(glob(fspath(X)))
        if not paths:
            raise ValueError(f"No file goes by {fspath(X)!r}.")
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
            is_path = isinstance(one, (str, PathLike))
            yield NpzFile(fspath(one)) if is_path else one


def read_block(rows: MatrixLike, labels: Labels) -> tuple[MatrixLike, Labels]:
    """Return the rows of a block as one matrix, and their labels.

    Partitions of a bag hold rows, or matrices of them, which are put together. None
    stands for no rows.
    """
    if isinstance(rows, NpzFile):
        labels = rows.load_labels() if labels is None else labels
        rows = rows.load_rows()
    if isinstance(rows, Iterator):
        rows = list(rows)
    if isinstance(labels, Iterator):
        labels = list(labels)
    if isinstance(rows, (list, tuple)):
        rows = _stacked(rows)
    if rows is not None and not hasattr(rows, "shape"):
        rows = np.asarray(rows)
    if rows is None or rows.shape[0] == 0:
        return None, None
    return rows, labels


def _stacked(parts: Sequence[MatrixLike]) -> MatrixLike:
    matrices = [part if sp.issparse(part) else np.atleast_2d(part) for part in parts]
    matrices = [one for one in matrices if one.shape[0]]
    if not matrices:
        return None
    if any(map(sp.issparse, matrices)):
        return sp.vstack(matrices, format="csr")
    return np.vstack(matrices)


def computed(blocks: Sequence[Block]) -> list[tuple[MatrixLike, Labels]]:
    """Return rows and labels of blocks, computed in this process."""
    pairs: list[Any] = [(block.rows, block.labels) for block in blocks]
    lazy = [delayed(_pair)(*pair) if _is_delayed(pair) else None for pair in pairs]
    found = dask.compute(*lazy, scheduler="threads")
    return [
        pair if one is None else result
        for pair, one, result in zip(pairs, lazy, found, strict=True)
    ]


def _pair(rows: MatrixLike, labels: Labels) -> tuple[MatrixLike, Labels]:
    return rows, labels


def _is_delayed(pair: tuple[MatrixLike, Labels]) -> bool:
    return any(isinstance(one, Delayed) for one in pair)


#: Rows by label: what a shard of each epoch, or of all documents, is made from.
Reader = Callable[[MatrixLike, Labels], dict[Label, sp.csr_array]]
