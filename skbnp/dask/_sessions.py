"""Sessions: the rows of one fit by label, on workers or in this process."""

from collections.abc import Sequence
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
from skbnp.utils.labels import Label, sort_labels


class LocalSession:
    """Rows of a fit in this process, in the same shards as on workers.

    `read` returns rows by label, given rows and labels of a block.
    """

    def __init__(self, blocks: Sequence[Block], read: Reader):
        """Read all blocks in this process."""
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
        """Release the rows."""


class WorkerSession:
    """Rows of a fit on the workers of a cluster.

    `read` returns rows by label, given rows and labels of a block, on a worker. A
    worker without a heartbeat for `timeout` seconds is lost.
    """

    def __init__(
        self, client: Client, blocks: Sequence[Block], read: Reader, timeout: float
    ):
        """Read all blocks on workers."""
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
        """Remove the rows from workers."""
        self.workers.close()


#: The rows of one fit.
Session = LocalSession | WorkerSession


def open_session(
    client: Client | None, blocks: Sequence[Block], read: Reader, timeout: float
) -> Session:
    """Read all blocks on the workers of a client, or in this process without one."""
    if client is None:
        return LocalSession(blocks, read)
    if client.asynchronous:
        raise ValueError("client must be a synchronous one: fit waits for workers.")
    if client.status == "closed":
        raise ValueError("client is closed: fit needs one that is connected.")
    return WorkerSession(client, blocks, read, timeout)


def sizes_by_label(session: Session) -> dict[Label, int]:
    """Number of rows of each label, in order."""
    sizes: dict[Label, int] = {}
    for description in session.descriptions:
        for label, size in description.sizes.items():
            sizes[label] = sizes.get(label, 0) + size
    return {label: sizes[label] for label in sort_labels(sizes, session.order)}


def data_digest(session: Session) -> str:
    """Digest of the rows of a session, divided as they are."""
    return digest_of([description.digest for description in session.descriptions])


def _n_features(descriptions: Sequence[BlockDescription]) -> int:
    """Number of columns of all blocks; raise if they differ."""
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
