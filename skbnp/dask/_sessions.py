"""The rows of one fit, by label, on workers or in this process."""

from collections.abc import Sequence
from typing import Protocol
from uuid import uuid4

import scipy.sparse as sp
from distributed import Client

from skbnp.dask._inputs import Block, Reader, computed, in_block, read_block
from skbnp.dask._pool import ClientPool
from skbnp.dask._shards import DaskShards, Roster, WorkerShards
from skbnp.dask._sites import BlockDescription
from skbnp.inference.executor import Run
from skbnp.inference.shards import LocalShards, Shards
from skbnp.utils.archive import digest_of
from skbnp.utils.epochs import Label, Order, sort_labels

__all__ = ["LocalSession", "Session", "WorkerSession", "open_session"]


class Session(Protocol):
    """The rows of one fit."""

    @property
    def descriptions(self) -> Sequence[BlockDescription]:
        """What blocks turned out to be."""

    @property
    def n_features(self) -> int:
        """Columns of all blocks."""

    @property
    def order(self) -> Order:
        """Order of labels, that of an ordered Categorical."""

    def shards(self, label: Label, run: Run, *, is_lasting: bool) -> Shards:
        """Return the rows of a label; `run` maps over rows in this process."""

    def close(self) -> None:
        """Let go of the rows."""


class LocalSession:
    """Rows in this process, in the same shards.

    Parameters
    ----------
    blocks : sequence of Block
    read : callable
        Makes rows by label of the rows and labels of a block.
    """

    def __init__(self, blocks: Sequence[Block], read: Reader):
        self.descriptions: list[BlockDescription] = []
        self._rows: list[dict[Label, sp.csr_array]] = []
        for number, (rows, labels) in enumerate(computed(blocks)):
            with in_block(number):
                X, labels = read_block(rows, labels)
                result = {} if X is None else read(X, labels)
            self.descriptions.append(BlockDescription.of(number, X, result))
            self._rows.append(result)
        self.n_features, self.order = _n_features(self.descriptions), blocks[0].order

    def shards(self, label: Label, run: Run, *, is_lasting: bool) -> Shards:
        """Return the rows of a label; `run` maps over rows in this process."""
        result = [rows[label] for rows in self._rows if label in rows]
        result = [X for X in result if X.shape[0]]
        return LocalShards(result, self.n_features, run, is_lasting=is_lasting)

    def close(self) -> None:
        """Let go of the rows."""


class WorkerSession:
    """Rows on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
    blocks : sequence of Block
    read : callable
        Makes rows by label of the rows and labels of a block, on a worker.
    timeout : float
        Seconds of silence after which a worker is given up.
    """

    def __init__(
        self, client: Client, blocks: Sequence[Block], read: Reader, timeout: float
    ):
        pool = ClientPool(client, uuid4().hex)
        self.workers = WorkerShards(pool, blocks, read, Roster(pool, timeout))
        try:
            self.workers.load()
        except BaseException:
            self.workers.close()
            raise
        self.descriptions = [
            self.workers.descriptions[number] for number in range(len(blocks))
        ]
        self.n_features, self.order = _n_features(self.descriptions), blocks[0].order

    def shards(self, label: Label, run: Run, *, is_lasting: bool) -> Shards:
        """Return the rows of a label."""
        return DaskShards(self.workers, label, self.n_features)

    def close(self) -> None:
        """Let workers forget the rows."""
        self.workers.close()


def open_session(
    client: Client | None, blocks: Sequence[Block], read: Reader, timeout: float
) -> Session:
    """Read all blocks where they are to stay."""
    if client is None:
        return LocalSession(blocks, read)
    if client.asynchronous:
        raise ValueError("client must be a synchronous one: fit waits for workers.")
    if client.status == "closed":
        raise ValueError("client is closed: fit needs one that is connected.")
    return WorkerSession(client, blocks, read, timeout)


def sizes_by_label(session: Session) -> dict[Label, int]:
    """Rows of each label, in order."""
    sizes: dict[Label, int] = {}
    for description in session.descriptions:
        for label, size in description.sizes.items():
            sizes[label] = sizes.get(label, 0) + size
    return {label: sizes[label] for label in sort_labels(sizes, session.order)}


def data_digest(session: Session) -> str:
    """Name the rows of a session by their content, cut as they are."""
    return digest_of([description.digest for description in session.descriptions])


def _n_features(descriptions: Sequence[BlockDescription]) -> int:
    result = {one.n_features: one.number for one in descriptions if one.n_rows}
    if not result:
        raise ValueError("X has no rows in any of its blocks.")
    if len(result) > 1:
        (n, number), (m, other), *_ = sorted(result.items())
        raise ValueError(
            f"Blocks of X must have the same columns: block {number} has {n}, block "
            f"{other} has {m}."
        )
    return next(iter(result))
