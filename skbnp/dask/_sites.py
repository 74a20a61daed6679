"""Site: rows and broadcasts of a fit in one worker process, and its replies to calls.

A site has rows by block and label, and the broadcasts that were sent. It can lose all
of it at any moment: then it reports what is missing, and the driver sends it again. A
site without a call for a while is removed, as the driver may have died.
"""

import pickle
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

import scipy.sparse as sp

from skbnp.dask._inputs import Labels, Reader, read_block
from skbnp.inference.executor import T
from skbnp.inference.shards import Broadcast, Node, ProcessCache, Shard, Task, add_up
from skbnp.utils.archive import digest_of, rows_digest
from skbnp.utils.blas import one_blas_thread
from skbnp.utils.labels import Label
from skbnp.utils.typing import MatrixLike

#: Seconds without a call after which a site is dropped.
LEASE = 900.0


@dataclass(frozen=True, slots=True)
class BlockDescription:
    """Description of a block that was read: rows by label, columns, digest."""

    number: int
    sizes: dict[Label, int]  # rows by label
    n_rows: int  # with those that are left out
    n_features: int  # 0 without rows
    digest: str

    @classmethod
    def of(
        cls, number: int, X: MatrixLike, result: dict[Label, sp.csr_array]
    ) -> "BlockDescription":
        """Describe the rows of a block, None if there are none."""
        n_rows, n_features = (0, 0) if X is None else X.shape
        sizes = {label: one.shape[0] for label, one in result.items()}
        digests = (f"{label!r} {rows_digest(one)}" for label, one in result.items())
        return cls(number, sizes, n_rows, n_features, digest_of(digests))


@dataclass(frozen=True, slots=True)
class Order:
    """A call to run a task on some shards of one label."""

    task: Task
    label: Label
    numbers: tuple[int, ...]  # of blocks
    places: tuple[int, ...]  # in the call
    shards: tuple[tuple[int, int], ...]  # number among those of the label, first row
    n_places: int
    adds_up: bool
    broadcast: str | None
    broadcasts: tuple[str, ...]  # that later tasks may need


@dataclass(frozen=True, slots=True)
class Missing:
    """Reply: the site lacks rows or a broadcast that the order needs."""

    what: str


@dataclass(frozen=True, slots=True)
class Raised:
    """Reply: the task has raised an error, which is no fault of the worker."""

    error: BaseException


@dataclass
class Site:
    """Rows and broadcasts of one fit in one process.

    It works on `n_threads` shards at a time.
    """

    n_threads: int
    blocks: dict[int, dict[Label, sp.csr_array]] = field(default_factory=dict)
    shards: dict[tuple[int, Label], Shard] = field(default_factory=dict)
    broadcasts: dict[str, Broadcast] = field(default_factory=dict)
    process: ProcessCache = field(default_factory=ProcessCache)
    last_call: float = field(default_factory=time.monotonic)

    def load(
        self, number: int, read: Reader, rows: MatrixLike, labels: Labels
    ) -> BlockDescription:
        """Read a block, and keep its rows by label."""
        X, labels = read_block(rows, labels)
        with one_blas_thread():
            result = {} if X is None else read(X, labels)
        self.blocks[number] = result
        for key in [key for key in self.shards if key[0] == number]:
            del self.shards[key]
        return BlockDescription.of(number, X, result)

    def perform(self, order: Order, argument: bytes, broadcast: bytes | None) -> object:
        """Run the task of an order; return sums of nodes, or replies by position."""
        for name in self.broadcasts.keys() - set(order.broadcasts):
            self.broadcasts.pop(name, None)
        if broadcast is not None:
            result: Broadcast = pickle.loads(broadcast)
            self.broadcasts.setdefault(result.name, result)
        if order.broadcast is not None and order.broadcast not in self.broadcasts:
            return Missing(f"broadcast {order.broadcast}")
        content = None if order.broadcast is None else self.broadcasts[order.broadcast]
        absent = [number for number in order.numbers if number not in self.blocks]
        if absent:
            return Missing(f"blocks {absent}")
        given = pickle.loads(argument)

        def work(at: int) -> tuple[int, object]:
            shard = self._shard(order.numbers[at], order.label, *order.shards[at])
            return order.places[at], order.task(shard, content, given)

        replies: dict[int, object] = {}
        sums: dict[Node, Any] = {}
        with one_blas_thread():
            for place, reply in self._each(work, range(len(order.numbers))):
                if order.adds_up:
                    add_up(sums, order.n_places, {(0, place): reply})
                else:
                    replies[place] = reply
        return sums if order.adds_up else replies

    def _each(self, work: Callable[[int], T], items: Iterable[int]) -> Iterable[T]:
        """Yield results as they come, in any order."""
        if self.n_threads == 1:
            yield from map(work, items)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            futures = [pool.submit(work, item) for item in items]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                for future in futures:
                    future.cancel()

    def _shard(self, block: int, label: Label, number: int, first_row: int) -> Shard:
        """Return the rows of a block and label as a shard."""
        key = block, label
        if key not in self.shards:
            X = self.blocks[block][label]
            self.shards[key] = Shard(number, first_row, X, process=self.process)
        return self.shards[key]


# The process of a worker --------------------------------------------------------------

_SITES: dict[str, Site] = {}
_LOCK = threading.Lock()


def answer(fit: str, n_threads: int, method: str, *args: object) -> object:
    """Call a method of the site of a fit; return its errors as replies."""
    try:
        site = _site_of(fit, n_threads)
        result = getattr(site, method)(*args)
        site.last_call = time.monotonic()
        return result
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = RuntimeError(f"{type(error).__name__}: {error}")
        return Raised(error)


def end(fit: str) -> None:
    """Remove the site of a fit from this process."""
    with _LOCK:
        _SITES.pop(fit, None)


def _site_of(fit: str, n_threads: int) -> Site:
    """Return the site of a fit, made at the first call."""
    with _LOCK:
        if not _SITES:
            threading.Thread(target=_drop_idle, daemon=True).start()
        return _SITES.setdefault(fit, Site(n_threads))


def _drop_idle() -> None:
    """Remove sites without calls for a while, as long as there are sites."""
    while True:
        time.sleep(LEASE / 10.0)
        now = time.monotonic()
        with _LOCK:
            for fit in [one for one in _SITES if now - _SITES[one].last_call > LEASE]:
                del _SITES[fit]
            if not _SITES:
                return
