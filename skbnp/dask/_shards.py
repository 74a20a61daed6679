"""Shards on Dask workers: their owners, and recovery if workers are lost.

A shard is loaded by one worker at a time, which answers for it. When a worker dies, or
shows no sign of life for a while, others load its shards and answer the calls that are
open; later replies of the lost one are ignored. Tasks are functions of rows,
broadcast and argument, so this changes no bit of the result. Errors of tasks are raised
at once.
"""

import concurrent.futures as cf
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from skbnp.dask._inputs import Block, Reader, block_error
from skbnp.dask._pool import Pool, Presence
from skbnp.dask._sites import BlockDescription, Missing, Order, Raised
from skbnp.inference.executor import T
from skbnp.inference.shards import Broadcast, Task, add_up, first_rows, whole_sum
from skbnp.utils.labels import Label

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

    def __init__(
        self,
        pool: Pool,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        """Take the clock and the time after which a silent worker is lost."""
        self.pool, self.timeout, self.clock, self.sleep = pool, timeout, clock, sleep
        self.workers: dict[str, Presence] = {}
        self._signs: dict[str, tuple[object, float]] = {}
        self._busy: dict[str, float] = {}
        self._looked = clock()
        self._alone_since: float | None = None
        self._error: Exception | None = None

    def look(self) -> dict[str, Presence]:
        """Return the workers that are alive at present.

        Raises WorkersLostError if there has been none for `timeout` seconds.
        """
        now = self._looked = self.clock()
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
        if self.workers and self.clock() - self._looked < LOOK:
            return self.workers
        while not self.look():
            self.sleep(LOOK)
        return self.workers

    def is_stuck(self, worker: str, since: float) -> bool:
        """Whether a worker has been idle too long since it was called.

        That is longer than the timeout of a silent worker, which it may be waiting for.
        """
        begin = max(since, self._busy.get(worker, since))
        return self.clock() - begin > 2.0 * self.timeout


class WorkerShards:
    """Blocks of rows on workers, divided by label when they are read.

    `read` returns rows by label, given rows and labels of a block, on a worker.
    """

    def __init__(
        self, pool: Pool, blocks: Sequence[Block], read: Reader, roster: Roster
    ):
        """Take workers and blocks; nothing is loaded yet."""
        self.pool, self.blocks, self.read, self.roster = pool, blocks, read, roster
        self.descriptions: dict[int, BlockDescription] = {}
        self.n_bytes_sent = 0
        self._owners: dict[int, str] = {}
        self._loaded: set[tuple[int, str]] = set()
        self._given: set[tuple[str, str]] = set()  # broadcasts by name, workers
        self._broadcasts: WeakValueDictionary[str, Broadcast] = WeakValueDictionary()
        self._balances = True

    def load(self) -> None:
        """Read all blocks."""
        self._ready(range(len(self.blocks)), Counter())

    def close(self) -> None:
        """Remove all blocks from workers."""
        self.pool.close(sorted({worker for _, worker in self._loaded}))

    def ask(
        self,
        task: Task,
        label: Label,
        numbers: Sequence[int],
        shards: Mapping[int, tuple[int, int]],
        broadcast: Broadcast | None,
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
                order = Order(
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
                    add_up(result, len(numbers), reply)
                else:
                    result.update(reply)
                for number in own:
                    del missing[number]
                if broadcast is not None:
                    self._given.add((broadcast.name, worker))
            self._count_losses(losses, missing)
        return result

    def _messages(
        self, broadcast: Broadcast | None, argument: bytes, workers: Sequence[str]
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
        return [
            1 + self.descriptions[number].n_rows if number in self.descriptions else 1
            for number in range(len(self.blocks))
        ]

    def _check(self, description: BlockDescription) -> None:
        """Raise if a block that is read again has changed."""
        known = self.descriptions.setdefault(description.number, description)
        if known != description:
            raise ValueError(
                f"Block {description.number} of X was read again, and holds other rows "
                "now."
            )

    def _replies(
        self,
        calls: dict["cf.Future", tuple[str, list[int]]],
        *,
        are_loads: bool = False,
    ) -> Iterator[tuple[str, list[int], Any]]:
        """Yield replies as they come; calls that are lost end without one.

        Errors of tasks are raised; an error of a load names its block.
        """
        begin, open_calls = self.roster.clock(), dict(calls)
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
        self.roster.sleep(LOOK * 2.0 ** (n_losses - 1))


class DaskShards:
    """Shards of one label on workers, for learning."""

    is_lasting = False

    def __init__(self, workers: WorkerShards, label: Label, n_features: int):
        """Take the rows of a label in the blocks of workers."""
        self.workers, self.label, self.n_features = workers, label, n_features
        descriptions = [
            workers.descriptions[number] for number in range(len(workers.blocks))
        ]
        self._blocks = [one.number for one in descriptions if one.sizes.get(label, 0)]
        sizes = [descriptions[number].sizes[label] for number in self._blocks]
        self.n_rows = np.array(sizes, dtype=np.intp)
        places = enumerate(first_rows(self.n_rows))
        self._shards = dict(zip(self._blocks, places, strict=True))

    def map(
        self,
        task: Task[T],
        numbers: Sequence[int],
        broadcast: Broadcast | None = None,
        argument: object = None,
    ) -> list[T]:
        """Run a task on some shards; return the replies in the order of numbers."""
        result = self._ask(task, numbers, broadcast, argument, adds_up=False)
        return [result[place] for place in range(len(numbers))]

    def total(
        self,
        task: Task[T],
        numbers: Sequence[int],
        broadcast: Broadcast | None = None,
        argument: object = None,
    ) -> T:
        """Run a task on some shards; add replies along a fixed binary tree."""
        result = self._ask(task, numbers, broadcast, argument, adds_up=True)
        return whole_sum(result, len(numbers))

    def _ask(
        self,
        task: Task,
        numbers: Sequence[int],
        broadcast: Broadcast | None,
        argument: object,
        *,
        adds_up: bool,
    ) -> dict:
        blocks = [self._blocks[number] for number in numbers]
        return self.workers.ask(
            task, self.label, blocks, self._shards, broadcast, argument, adds_up=adds_up
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
