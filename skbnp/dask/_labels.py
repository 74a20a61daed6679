"""Labels of epochs for rows in blocks, divided as the rows are."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from dask.array import Array as DaskArray
from dask.bag import Bag
from dask.delayed import Delayed

from skbnp.utils.labels import Order, check_labels

#: Labels of epochs, one for all rows or for each, as they are given, or None.
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

    `epochs` are one label for all rows, labels for each row, or for each block, in
    memory or lazy; `sizes` are the rows of each block, None where they are not
    known. Returns arrays, `Delayed` or single labels by block, and the order of the
    categories. Raises ValueError if labels are not given as the rows are.
    """
    if epochs is None or isinstance(epochs, str):
        return [epochs] * len(sizes), None
    if isinstance(epochs, DaskArray):
        return _cut_lazily(epochs, sizes), None
    if isinstance(epochs, Bag):
        if epochs.npartitions != len(sizes):
            raise ValueError(
                f"epochs must have a partition for each of {len(sizes)} blocks of X, "
                f"got {epochs.npartitions}."
            )
        return list(epochs.to_delayed()), None
    if isinstance(epochs, Delayed):
        return [epochs] * len(sizes), None
    if hasattr(epochs, "__dask_graph__"):  # a series: small next to its rows
        epochs = epochs.compute()
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
    values, cuts = labels.values(), np.cumsum([0, *sizes])
    return [values[begin:end] for begin, end in pairwise(cuts)], labels.order


def _total(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _cut_lazily(epochs: DaskArray, sizes: Sequence[int | None]) -> list[Delayed]:
    """Rechunk a lazy array of labels as the rows are."""
    if epochs.ndim == 2 and epochs.shape[1] == 1:
        epochs = epochs[:, 0]
    chunks = tuple(np.nan if size is None else size for size in sizes)
    is_known = not np.isnan([*chunks, *epochs.shape]).any()
    if epochs.ndim == 1 and is_known and epochs.shape[0] == sum(chunks):
        # Rechunking drops empty chunks.
        ends = np.cumsum([0, *chunks])
        parts = [epochs[begin:end] for begin, end in pairwise(ends.astype(int))]
        if epochs.chunks[0] != chunks:
            return [part.rechunk(-1).to_delayed()[0] for part in parts]
    elif epochs.ndim != 1 or is_known or epochs.numblocks[0] != len(sizes):
        raise ValueError(
            f"epochs must have one label for each row of X, or be chunked as its "
            f"{len(sizes)} blocks are, got shape {epochs.shape} in blocks of shape "
            f"{epochs.numblocks}. {'' if is_known else CURE}".rstrip()
        )
    return list(epochs.to_delayed())


def _are_of_blocks(epochs: Labels, sizes: Sequence[int | None]) -> bool:
    """Whether labels are given by block, not by row; by row if both are possible."""
    if not isinstance(epochs, (Sequence, np.ndarray)) or len(epochs) != len(sizes):
        return False
    if any(isinstance(one, Delayed) or np.ndim(one) for one in epochs):
        return getattr(epochs, "shape", (0,))[1:] != (1,)
    return len(epochs) != _total(sizes)


def _of_blocks(
    epochs: Sequence[Labels], sizes: Sequence[int | None]
) -> tuple[list[Labels], Order]:
    """Read the labels of blocks in memory."""
    blocks = list(_checked(epochs, sizes))
    orders = [order for _, order in blocks if order is not None]
    if any(order != orders[0] for order in orders):
        raise ValueError("epochs must have the same ordered categories in all blocks.")
    return [labels for labels, _ in blocks], orders[0] if orders else None


def _checked(
    epochs: Sequence[Labels], sizes: Sequence[int | None]
) -> Iterator[tuple[Labels, Order]]:
    """Yield checked labels of blocks, and their order."""
    for labels, size in zip(epochs, sizes, strict=True):
        if labels is None or isinstance(labels, Delayed):
            yield labels, None
        elif np.ndim(labels) == 0:
            yield check_labels(labels, 1).distinct[0], None
        else:
            checked = check_labels(labels, size)
            yield checked.values(), checked.order
