"""Commits, and an ordered map: this thread, threads, or a backend of joblib.

joblib's `Parallel` polls: a call lasts at least 10 ms, as long as a whole minibatch,
while a pool that is kept for the whole fit answers in some 30 microseconds. So joblib
gives the number of jobs, and runs all work if the user has chosen a backend
(`joblib.parallel_config`); otherwise the work runs on one pool per fit. Results come
in the order of the items, whichever ends first.

An interrupt that arrives while the calling thread takes a lock of the pool leaves the
lock taken, or another error comes out. So it is deferred until the lock is free.
Long work checks for interrupts itself; that of a pool ends when its executor does.
"""

import operator
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import islice
from threading import Event
from types import FrameType
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.utils.parallel import Parallel, delayed

from skbnp.kernels._interrupts import end_with


@contextmanager
def commit() -> Iterator[None]:
    """Defer an interrupt until the lines inside have run (milliseconds).

    Only the main thread receives signals; in others nothing is deferred.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[tuple[int, FrameType | None]] = []
    previous = signal.getsignal(signal.SIGINT)
    if not callable(previous):
        yield
        return
    signal.signal(signal.SIGINT, lambda *args: pending.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if pending:
            previous(*pending[0])


#: Seconds that an interrupt may have to wait for the first result.
PATIENCE = 0.05
#: Items of each thread in memory, with their results, which may be large.
AHEAD = 4
T = TypeVar("T")
S = TypeVar("S")
#: Maps over work, in order.
Run = Callable[..., Iterable]
#: Writes what it finds.
Task = Callable[[], object]
#: Runs tasks, none of which reads what another one writes.
RunTasks = Callable[[Sequence[Task]], None]


def run_in_turn(tasks: Sequence[Task]) -> None:
    """Run tasks one after the other."""
    for task in tasks:
        task()


class Executor:
    """Ordered parallel map; a context manager that owns its threads.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn.
    """

    _pool: ThreadPoolExecutor | None = None
    _errors: np.errstate

    def __init__(self, n_jobs: int | None):
        """Read the number of jobs and the backend of joblib."""
        self.n_jobs = n_jobs
        self.n_workers = effective_n_jobs(n_jobs)
        backend, _ = get_active_backend(prefer="threads")
        self._runs_threads = getattr(backend, "supports_sharedmem", False)
        self._is_lazy = getattr(backend, "supports_return_generator", False)
        self._has_ended = Event()

    def __enter__(self) -> "Executor":
        """Start the pool of threads, if there are several jobs.

        Until the end, numbers too small for a float are zero, also where a user's code
        makes NumPy raise (threads have NumPy's defaults).
        """
        self._errors = np.errstate(under="ignore")
        self._errors.__enter__()
        if self.n_workers > 1 and self._runs_threads:
            self._has_ended.clear()
            self._pool = ThreadPoolExecutor(
                self.n_workers - 1, initializer=end_with, initargs=(self._has_ended,)
            )
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop the pool of threads."""
        self._errors.__exit__(*error)
        if self._pool is not None:
            self._has_ended.set()
            with commit():  # the items in work end first
                self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    @property
    def shares_memory(self) -> bool:
        """Whether arrays that a function writes to are those of this process."""
        return self.n_workers == 1 or self._pool is not None

    def map(self, function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
        """Yield `function(item)` for each item, in order, computed in parallel.

        Threads have at most `AHEAD` items each that have not been yielded.
        """
        left = iter(items)
        if self.n_workers == 1:
            yield from map(function, left)
        elif self._pool is None:
            kind = "generator" if self._is_lazy else "list"
            jobs = Parallel(n_jobs=self.n_jobs, return_as=kind)
            yield from jobs(delayed(function)(item) for item in left)
        while some := list(islice(left, AHEAD * self.n_workers)):
            yield from self.map_all(function, some)

    def map_all(self, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Return `function(item)` for all items, in order, computed in parallel."""
        if self._pool is None:
            return list(self.map(function, items))
        given = list(items)
        results: list[Any] = [None] * len(given)

        def task(place: int) -> None:
            """Write one result."""
            results[place] = function(given[place])

        self.run([partial(task, place) for place in range(len(given))])
        return results

    def map_here(self, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Return `function(item)` for all items, in the memory of this process."""
        run = self.map_all if self.shares_memory else map
        return list(run(function, items))

    def run(self, tasks: Sequence[Task]) -> None:
        """Run tasks that write to memory of this process, and wait for all of them.

        Each thread takes the next task that has not begun. Without threads, they run
        one after another. After an error no other task begins; of several errors that
        of the first task is raised.
        """
        n_others = min(self.n_workers, len(tasks)) - 1
        if self._pool is None or n_others < 1:
            run_in_turn(tasks)
            return
        queue = _Queue(tasks)
        others: list[Future[None]] = []
        try:
            with commit():
                others += [self._pool.submit(queue.work) for _ in range(n_others)]
            queue.work()
            for other in others:
                _wait_for(other)
        finally:
            queue.close()
        if queue.errors:
            raise min(queue.errors, key=operator.itemgetter(0))[1]


class _Queue:
    """Queue of tasks that several threads take in order."""

    def __init__(self, tasks: Sequence[Task]):
        self._left = deque(enumerate(tasks))
        self.errors: list[tuple[int, Exception]] = []

    def work(self) -> None:
        """Run tasks until none is left."""
        while self._left:
            try:
                number, task = self._left.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                task()
            except Exception as error:  # raised once all threads are back
                self.errors.append((number, error))
                self.close()

    def close(self) -> None:
        """Let no further task begin."""
        self._left.clear()


def _wait_for(other: Future[None]) -> None:
    """Wait for a thread, or cancel it if it has not begun."""
    while True:
        with commit():
            if other.cancel():
                return
            wait([other], timeout=PATIENCE)
            if other.done():
                return other.result()
