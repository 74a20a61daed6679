"""Shards on Dask workers: their owners, and recovery if workers are lost.

A shard is loaded by one worker at a time, which answers for it. When a worker dies, or
shows no sign of life for a while, others load its shards and answer the calls that are
open; later replies of the lost one are ignored. Tasks are functions of rows,
broadcast and argument, so this changes no bit of the result. Errors of tasks are raised
at once.
"""

import concurrent.futures as cf
import pickle
import threading
import time
import warnings
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import scipy.sparse as sp
from dask.delayed import Delayed
from distributed import Future as DaskFuture
from distributed import KilledWorker, fire_and_forget
from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError
from distributed.scheduler import NoValidWorkerError

from skbnp.dask._inputs import Labels, Reader, RowBlock, block_error, read_block
from skbnp.inference import shards as sharding
from skbnp.inference.executor import Run
from skbnp.utils.archive import digest_of, rows_digest
from skbnp.utils.arrays import one_blas_thread
from skbnp.utils.labels import Label
from skbnp.utils.typing import MatrixLike

# Site: rows and broadcasts of a fit in one worker process, and its replies to calls.
#
# A site has rows by block and label, and the broadcasts that were sent. It can lose all
# of it at any moment: then it reports what is missing, and the driver sends it again. A
# site without a call for a while is removed, as the driver may have died.


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


def n_features_of(descriptions: Sequence[BlockDescription]) -> int:
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


@dataclass(frozen=True, slots=True)
class Call:
    """A call to run a task on some shards of one label."""

    task: sharding.Task
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
    shards: dict[tuple[int, Label], sharding.Shard] = field(default_factory=dict)
    broadcasts: dict[str, sharding.Broadcast] = field(default_factory=dict)
    process: sharding.ProcessCache = field(default_factory=sharding.ProcessCache)
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

    def perform(self, order: Call, argument: bytes, broadcast: bytes | None) -> object:
        """Run the task of an order; return sums of nodes, or replies by position."""
        for name in self.broadcasts.keys() - set(order.broadcasts):
            self.broadcasts.pop(name, None)
        if broadcast is not None:
            result: sharding.Broadcast = pickle.loads(broadcast)
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
        sums: dict[sharding.Node, Any] = {}
        with one_blas_thread(), ThreadPoolExecutor(self.n_threads) as pool:
            for place, reply in pool.map(work, range(len(order.numbers))):
                if order.adds_up:
                    sharding.add_up(sums, order.n_places, {(0, place): reply})
                else:
                    replies[place] = reply
        return sums if order.adds_up else replies

    def _shard(
        self, block: int, label: Label, number: int, first_row: int
    ) -> sharding.Shard:
        """Return the rows of a block and label as a shard."""
        key = block, label
        if key not in self.shards:
            X = self.blocks[block][label]
            self.shards[key] = sharding.Shard(
                number, first_row, X, process=self.process
            )
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


# Worker processes as the driver sees them: the living ones, and calls to each.


#: Errors that are no fault of a task.
LOSSES = (
    CancelledError,
    CommClosedError,
    FutureCancelledError,
    KilledWorker,
    NoValidWorkerError,
)

#: Seconds that the scheduler may take to list workers.
ANSWER = 10.0
#: Seconds that workers may take to drop a fit before the driver continues.
FAREWELL = 1.0


@dataclass(frozen=True, slots=True)
class Presence:
    """State of a worker as the scheduler reports it."""

    n_threads: int
    sign: object  # another one with each sign of life
    n_running: int  # tasks that it works on


class ClientPool:
    """Workers of a Dask cluster, reached by a client, each with a `Site`.

    Parameters
    ----------
    client : distributed.Client
    fit_name : str
        Name of the fit, the key of its site on each worker.
    """

    clock, sleep = staticmethod(time.monotonic), staticmethod(time.sleep)

    def __init__(self, client: Any, fit_name: str):
        self.client, self.fit_name = client, fit_name
        self._n_threads: dict[str, int] = {}

    def present(self) -> dict[str, Presence]:
        """Return workers that can take work, by address."""
        info = self.client.sync(
            self.client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER
        )
        result = {}
        for address, worker in info["workers"].items():
            counts = worker.get("metrics", {}).get("task_counts", {})
            n_running = int(counts.get("executing", 0))
            sign = worker["id"], worker["last_seen"]
            if worker.get("status", "running") != "running":
                sign = worker["id"]  # short of memory, or about to leave
            result[address] = Presence(worker["nthreads"], sign, n_running)
            self._n_threads[address] = worker["nthreads"]
        return result

    def submit(self, worker: str, method: str, *args: object) -> "Future":
        """Call a method of the `Site` of a worker; return its future."""
        args = tuple(
            self.client.compute(one, workers=[worker], allow_other_workers=False)
            if isinstance(one, Delayed)
            else one
            for one in args
        )
        n_threads = self._n_threads.get(worker, 1)
        with _large_graphs():
            task = self._submit_task(
                worker, answer, self.fit_name, n_threads, method, *args
            )
        return self._reply_of(task)

    def send(self, content: bytes, workers: Sequence[str]) -> object:
        """Put bytes on one worker, from which the others fetch them."""
        with _large_graphs():
            return self.client.submit(bytes, content, workers=workers, pure=False)

    def close(self, workers: Sequence[str]) -> None:
        """Remove the fit from workers, without waiting long for slow ones."""
        calls = [self._submit_task(worker, end, self.fit_name) for worker in workers]
        wait([self._reply_of(call) for call in calls], timeout=FAREWELL)
        for call in calls:
            if not call.done():
                fire_and_forget(call)
            call.release()

    def _submit_task(
        self, worker: str, function: Callable, *args: object
    ) -> DaskFuture:
        return self.client.submit(
            function,
            *args,
            workers=[worker],
            allow_other_workers=False,
            retries=0,
            pure=False,
        )

    def _reply_of(self, task: DaskFuture) -> "Future":
        """Return a future of the result of a task, or of its error.

        `LostReplyError` is raised if there is neither: a worker is lost.
        """
        reply: Future = Future()
        loop, client = self.client.loop, self.client

        async def fetch() -> None:
            try:
                result = await client.gather(task, asynchronous=True)
            except (Exception, CancelledError) as error:
                is_lost = isinstance(error, LOSSES) or task.status != "error"
                if not reply.set_running_or_notify_cancel():
                    return
                if is_lost:
                    reply.set_exception(LostReplyError(repr(error)))
                else:  # of a block, on its way to the site
                    reply.set_result(Raised(error))
            else:
                if reply.set_running_or_notify_cancel():
                    reply.set_result(result)

        def drop(reply: "Future") -> None:
            if reply.cancelled():
                loop.add_callback(client.cancel, [task], asynchronous=True)

        reply.add_done_callback(drop)
        loop.add_callback(fetch)
        return reply


class LostReplyError(OSError):
    """Error: Dask has lost a result, without a fault of the task."""


class _large_graphs(warnings.catch_warnings):
    """Context without Dask's warning of large messages, which are intended."""

    def __enter__(self) -> list[warnings.WarningMessage] | None:
        result = super().__enter__()
        warnings.filterwarnings("ignore", message="Sending large graph")
        return result


#: Seconds between checks of the living workers while calls are open.
LOOK = 0.5
#: Times that a shard may be lost in one call: a task that ends its worker ends all.
MOST_LOSSES = 6
#: Load of a thread over the mean of all from which shards move.
EVEN = 1.2
#: Bytes from which arguments are sent once for all workers.
LARGE = 1 << 17


class WorkersLostError(RuntimeError):
    """Error: no worker is left, or a shard kills each worker that has it."""


class Roster:
    """Workers that have sent a heartbeat within the last seconds.

    A worker without a heartbeat for `timeout` seconds is lost; without any worker for
    as long an error is raised.
    """

    def __init__(self, pool: ClientPool, timeout: float):
        """Take the time after which a silent worker is lost."""
        self.pool, self.timeout = pool, timeout
        self.workers: dict[str, Presence] = {}
        self._signs: dict[str, tuple[object, float]] = {}
        self._busy: dict[str, float] = {}
        self._looked = pool.clock()
        self._alone_since: float | None = None
        self._error: Exception | None = None

    def look(self) -> dict[str, Presence]:
        """Return the workers that are alive at present.

        Raises WorkersLostError if there has been none for `timeout` seconds.
        """
        now = self._looked = self.pool.clock()
        try:
            present = self.pool.present()
        except Exception as error:  # the scheduler is gone, or does not answer
            self._error = error
            present = None
        if present is not None:
            for worker, one in present.items():
                if self._signs.get(worker, (None, 0.0))[0] != one.sign:
                    self._signs[worker] = one.sign, now
                if one.n_running:
                    self._busy[worker] = now
            self.workers = {
                worker: one
                for worker, one in present.items()
                if now - self._signs[worker][1] <= self.timeout
            }
        if present is not None and self.workers:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > self.timeout:
            what = (
                "the scheduler does not answer" if present is None else "none is left"
            )
            raise WorkersLostError(
                f"There has been no worker for {self.timeout:g} seconds: {what}."
            ) from self._error
        return self.workers

    def wait(self) -> dict[str, Presence]:
        """Wait for a living worker; return those that are alive or were just now."""
        if self.workers and self.pool.clock() - self._looked < LOOK:
            return self.workers
        while not self.look():
            self.pool.sleep(LOOK)
        return self.workers

    def is_stuck(self, worker: str, since: float) -> bool:
        """Whether a worker has been idle too long since it was called.

        That is longer than the timeout of a silent worker, which it may be waiting for.
        """
        begin = max(since, self._busy.get(worker, since))
        return self.pool.clock() - begin > 2.0 * self.timeout


class WorkerShards:
    """Blocks of rows on workers, divided by label when they are read.

    `read` returns rows by label, given rows and labels of a block, on a worker. A
    worker without a heartbeat for `timeout` seconds is lost.
    """

    def __init__(
        self, pool: ClientPool, blocks: Sequence[RowBlock], read: Reader, timeout: float
    ):
        """Take workers and blocks; nothing is loaded yet."""
        self.pool, self.blocks, self.read = pool, blocks, read
        self.roster = Roster(pool, timeout)
        self.order, self.n_bytes_sent = blocks[0].order, 0
        self.descriptions: list[Any] = [None] * len(blocks)  # None: not read yet
        self._owners: dict[int, str] = {}
        self._loaded: set[tuple[int, str]] = set()
        self._given: set[tuple[str, str]] = set()  # broadcasts by name, workers
        self._broadcasts: WeakValueDictionary[str, sharding.Broadcast] = (
            WeakValueDictionary()
        )
        self._balances = True

    def load(self) -> None:
        """Read all blocks."""
        try:
            self._ready(range(len(self.blocks)), Counter())
            self.n_features = n_features_of(self.descriptions)
        except BaseException:
            self.close()
            raise

    def shards(self, label: Label, run: Run, *, is_lasting: bool) -> "DaskShards":
        """Return the rows of a label."""
        return DaskShards(self, label)

    def close(self) -> None:
        """Remove all blocks from workers."""
        self.pool.close(sorted({worker for _, worker in self._loaded}))

    def ask(
        self,
        task: sharding.Task,
        label: Label,
        numbers: Sequence[int],
        shards: Mapping[int, tuple[int, int]],
        broadcast: sharding.Broadcast | None,
        argument: object,
        *,
        adds_up: bool,
    ) -> dict:
        """Run a task on some blocks; return sums of nodes, or replies by position."""
        missing = {number: place for place, number in enumerate(numbers)}
        result: dict = {}
        losses: Counter[int] = Counter()
        if broadcast is not None and broadcast.name not in self._broadcasts:
            self._broadcasts[broadcast.name] = broadcast
            self._balances = True
        packed = pickle.dumps(argument, protocol=5)
        while missing:
            owners = self._ready(missing, losses)
            messages = self._messages(broadcast, packed, list(owners))
            calls = {}
            for worker, own in owners.items():
                order = Call(
                    task,
                    label,
                    tuple(own),
                    tuple(missing[number] for number in own),
                    tuple(shards[number] for number in own),
                    len(numbers),
                    adds_up,
                    None if broadcast is None else broadcast.name,
                    tuple(self._broadcasts),
                )
                args = order, *messages[worker]
                calls[self.pool.submit(worker, "perform", *args)] = worker, own
            for worker, own, reply in self._replies(calls):
                if adds_up:
                    sharding.add_up(result, len(numbers), reply)
                else:
                    result.update(reply)
                for number in own:
                    del missing[number]
                if broadcast is not None:
                    self._given.add((broadcast.name, worker))
            self._count_losses(losses, missing)
        return result

    def _messages(
        self,
        broadcast: sharding.Broadcast | None,
        argument: bytes,
        workers: Sequence[str],
    ) -> dict[str, tuple[object, object]]:
        """Broadcast, if a worker lacks it, and argument, for the calls to workers."""
        lacking = [
            worker
            for worker in workers
            if broadcast is not None and (broadcast.name, worker) not in self._given
        ]
        sent: object = None
        small: object = argument
        if lacking:
            content = pickle.dumps(broadcast, protocol=5)
            sent = content  # who fetches it from another waits for the scheduler
            if len(content) > LARGE and len(lacking) > 1:
                sent = self.pool.send(content, workers)
            self.n_bytes_sent += len(content) * len(lacking)
        if len(argument) > LARGE and len(workers) > 1:
            small = self.pool.send(argument, workers)
        self.n_bytes_sent += len(argument) * len(workers)
        return {
            worker: (small, sent if worker in lacking else None) for worker in workers
        }

    # Faults ---------------------------------------------------------------------------

    def _ready(
        self,
        numbers: Iterator[int] | Sequence[int] | Mapping[int, int],
        losses: Counter,
    ) -> dict[str, list[int]]:
        """Load missing blocks; return the blocks of each owner."""
        numbers = sorted(numbers)
        while True:
            alive = self.roster.wait()
            threads = {worker: one.n_threads for worker, one in alive.items()}
            sizes = self._sizes()
            self._owners = adopt(self._owners, sizes, threads)
            if self._balances:
                self._owners = rebalance(self._owners, sizes, threads)
                self._balances = False
            absent = [
                number
                for number in numbers
                if (number, self._owners[number]) not in self._loaded
            ]
            if not absent:
                break
            calls = {}
            for number in absent:
                block, worker = self.blocks[number], self._owners[number]
                args = number, self.read, block.rows, block.labels
                calls[self.pool.submit(worker, "load", *args)] = worker, [number]
            for worker, (number,), description in self._replies(calls, are_loads=True):
                self._check(description)
                self._loaded.add((number, worker))
                absent.remove(number)
            self._count_losses(losses, absent)
        owners: dict[str, list[int]] = {}
        for number in numbers:
            owners.setdefault(self._owners[number], []).append(number)
        return owners

    def _sizes(self) -> list[int]:
        """Number of rows of each block plus one, as far as they are known."""
        return [1 if one is None else 1 + one.n_rows for one in self.descriptions]

    def _check(self, description: BlockDescription) -> None:
        """Raise if a block that is read again has changed."""
        number = description.number
        if self.descriptions[number] not in (None, description):
            raise ValueError(
                f"Block {number} of X was read again, and holds other rows now."
            )
        self.descriptions[number] = description

    def _replies(
        self,
        calls: dict["cf.Future", tuple[str, list[int]]],
        *,
        are_loads: bool = False,
    ) -> Iterator[tuple[str, list[int], Any]]:
        """Yield replies as they come; calls that are lost end without one.

        Errors of tasks are raised; an error of a load names its block.
        """
        begin, open_calls = self.pool.clock(), dict(calls)
        try:
            while open_calls:
                done, _ = cf.wait(open_calls, LOOK, cf.FIRST_COMPLETED)
                for future in sorted(done, key=lambda one: open_calls[one][1]):
                    worker, own = open_calls.pop(future)
                    try:
                        reply = future.result()
                    except (cf.CancelledError, OSError) as error:  # of the connection
                        reply = Missing(f"a reply: {error!r}")
                    if isinstance(reply, Raised) and are_loads:
                        raise block_error(own[0], reply.error)
                    if isinstance(reply, Raised):
                        raise reply.error
                    if isinstance(reply, Missing):
                        self._forget(worker)
                    else:
                        yield worker, own, reply
                if not done:
                    for future in self._given_up(open_calls, begin):
                        del open_calls[future]
                        future.cancel()
        finally:
            for future in open_calls:
                future.cancel()

    def _given_up(
        self, open_calls: Mapping["cf.Future", tuple[str, list[int]]], begin: float
    ) -> list["cf.Future"]:
        """Return calls that will get no reply, and drop what lost workers had.

        With a lost worker end the calls of idle workers: they may be waiting for its
        sums.
        """
        alive = self.roster.look()
        lost = {
            worker
            for worker, _ in open_calls.values()
            if worker not in alive or self.roster.is_stuck(worker, begin)
        }
        for worker in lost:
            self._forget(worker)
        return [
            future
            for future, (worker, _) in open_calls.items()
            if lost and (worker in lost or not alive[worker].n_running)
        ]

    def _forget(self, worker: str) -> None:
        """Drop the record of what a worker had; others may take its blocks."""
        self._loaded = {one for one in self._loaded if one[1] != worker}
        self._given = {one for one in self._given if one[1] != worker}
        self._owners = {
            number: owner for number, owner in self._owners.items() if owner != worker
        }

    def _count_losses(self, losses: Counter[int], lost: Iterable[int]) -> None:
        """Count how often blocks were lost; raise if one is lost too often."""
        lost = list(lost)
        if not lost:
            return
        losses.update(lost)
        number, n_losses = losses.most_common(1)[0]
        if n_losses >= MOST_LOSSES:
            raise WorkersLostError(
                f"Block {number} of X was lost with its worker {n_losses} times in one "
                "call. Workers that run out of memory are ended by their nanny: give "
                "them more memory, or cut X into smaller blocks."
            )
        self.pool.sleep(LOOK * 2.0 ** (n_losses - 1))


class DaskShards(sharding.Shards):
    """Shards of one label on workers, for learning."""

    is_lasting = False

    def __init__(self, workers: WorkerShards, label: Label):
        """Take the rows of a label in the blocks of workers."""
        self.workers, self.label = workers, label
        self.n_features = workers.n_features
        sizes = [one.sizes.get(label, 0) for one in workers.descriptions]
        self._blocks = np.flatnonzero(sizes).tolist()
        sizes = [sizes[number] for number in self._blocks]
        self.n_rows = np.array(sizes, dtype=np.intp)
        places = enumerate(sharding.first_rows(self.n_rows))
        self._shards = dict(zip(self._blocks, places, strict=True))

    def _ask(
        self, task: sharding.Task, numbers: Sequence[int], *given: Any, adds_up: bool
    ) -> dict[Any, Any]:
        blocks = [self._blocks[number] for number in numbers]
        return self.workers.ask(
            task, self.label, blocks, self._shards, *given, adds_up=adds_up
        )


# Who holds what -----------------------------------------------------------------------


def adopt(
    owners: Mapping[int, str], sizes: Sequence[int], threads: Mapping[str, int]
) -> dict[int, str]:
    """Give shards without a living owner to one, by size, then by number.

    If neither has replies, neighbours go to the same owner, which adds them.
    """
    kept = {number: one for number, one in owners.items() if one in threads}
    if not kept:
        return _in_runs(sizes, threads)
    load = _load(kept, sizes, threads)
    unowned = [number for number in range(len(sizes)) if number not in kept]
    for number in sorted(unowned, key=lambda one: (-sizes[one], one)):
        owner = min(threads, key=lambda one: (load[one] / threads[one], one))
        kept[number] = owner
        load[owner] += sizes[number]
    return kept


def rebalance(
    owners: Mapping[int, str], sizes: Sequence[int], threads: Mapping[str, int]
) -> dict[int, str]:
    """Move shards from the fullest to the emptiest while the fullest gets emptier."""
    kept = dict(owners)
    load = _load(kept, sizes, threads)
    while True:
        fullest = max(threads, key=lambda one: (load[one] / threads[one], one))
        emptiest = min(threads, key=lambda one: (load[one] / threads[one], one))
        own = [number for number in sorted(kept) if kept[number] == fullest]
        most = load[fullest] / threads[fullest]
        if most <= EVEN * sum(load.values()) / sum(threads.values()):
            return kept
        fitting = [
            number
            for number in own
            if (load[emptiest] + sizes[number]) / threads[emptiest] < most
        ]
        if not fitting:
            return kept
        number = fitting[-1]
        kept[number] = emptiest
        load[fullest] -= sizes[number]
        load[emptiest] += sizes[number]


def _in_runs(sizes: Sequence[int], threads: Mapping[str, int]) -> dict[int, str]:
    """Divide shards into runs of about equal size for each thread."""
    workers = sorted(threads)
    shares = np.cumsum([threads[one] for one in workers])
    middle = (np.cumsum(sizes) - np.array(sizes) / 2.0) / np.sum(sizes)
    at = np.searchsorted(shares / shares[-1], middle)
    return {number: workers[place] for number, place in enumerate(at.tolist())}


def _load(
    owners: Mapping[int, str], sizes: Sequence[int], threads: Mapping[str, int]
) -> dict[str, int]:
    """Number of rows of each worker per thread."""
    load = dict.fromkeys(threads, 0)
    for number, owner in owners.items():
        load[owner] += sizes[number]
    return load
