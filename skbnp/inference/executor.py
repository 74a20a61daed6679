"""Commits, and an ordered map: this thread, threads, or a backend of joblib.

joblib's `Parallel` polls: a call lasts at least 10 ms, as long as a whole minibatch. A
thread that sleeps begins 0.1 ms late, often on the core of the thread that wakes it,
and a block of a minibatch takes no longer. So joblib gives the number of jobs, and runs
all work if the user has chosen a backend (`joblib.parallel_config`); otherwise the work
runs on threads that last as long as the fit, and stay awake for a moment after it.
Results come in the order of the items, whichever ends first.

An interrupt that arrives while the calling thread takes a lock leaves the lock taken,
or another error comes out. So it is deferred until the lock is free. Long work checks
for interrupts itself; that of other threads ends when their executor does.
"""

import operator
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from threading import Condition, Event, Lock, Thread
from types import FrameType
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.utils.parallel import Parallel, delayed

from skbnp.kernels._interrupts import Gate, end_with


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


#: Seconds that a thread waits awake for more work, or for the last work of others.
AWAKE = 2e-4
#: Seconds that an interrupt may have to wait while other threads work.
PATIENCE = 0.05
#: Items of each thread in memory, with their results, which may be large.
AHEAD = 2
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

    _errors: np.errstate
    _threads: "Sequence[_Worker]" = ()

    def __init__(self, n_jobs: int | None):
        """Read the number of jobs and the backend of joblib."""
        self.n_jobs = n_jobs
        self.n_workers = effective_n_jobs(n_jobs)
        backend, _ = get_active_backend(prefer="threads")
        self._runs_threads = getattr(backend, "supports_sharedmem", False)
        self._is_lazy = getattr(backend, "supports_return_generator", False)
        self._has_ended, self._is_busy = Event(), Lock()

    def __enter__(self) -> "Executor":
        """Start the threads, if there are several jobs.

        Until the end, numbers too small for a float are zero, also where a user's code
        makes NumPy raise (threads have NumPy's defaults).
        """
        self._errors = np.errstate(under="ignore")
        self._errors.__enter__()
        if self.n_workers > 1 and self._runs_threads:
            self._has_ended.clear()
            n_others = self.n_workers - 1
            with commit():
                self._threads = [_Worker(self._has_ended) for _ in range(n_others)]
        return self

    def __exit__(self, *error: Any) -> None:
        """End the threads."""
        self._errors.__exit__(*error)
        with commit():  # the items in work end first
            self._has_ended.set()
            for thread in self._threads:
                thread.end()
            self._threads = ()

    @property
    def shares_memory(self) -> bool:
        """Whether arrays that a function writes to are those of this process."""
        return self.n_workers == 1 or bool(self._threads)

    def map(self, function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
        """Yield `function(item)` for each item, in order, computed in parallel.

        Threads have at most `AHEAD` items each that have not been yielded.
        """
        if self.n_workers == 1:
            return map(function, items)
        if self._threads:
            return self._map_on_threads(function, items)
        kind = "generator" if self._is_lazy else "list"
        jobs = Parallel(n_jobs=self.n_jobs, return_as=kind)
        return iter(jobs(delayed(function)(item) for item in items))

    def map_all(self, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Return `function(item)` for all items, in order, computed in parallel."""
        if not self._threads:
            return list(self.map(function, items))
        results, errors = self._results(function, list(items))
        for error in errors:
            raise error
        return results

    def map_here(self, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Return `function(item)` for all items, in the memory of this process."""
        run = self.map_all if self.shares_memory else map
        return list(run(function, items))

    def run(self, tasks: Sequence[Task]) -> None:
        """Run tasks that write to memory of this process, and wait for all of them.

        Without threads, they run one after another. After an error no other task
        begins; of several errors that of the first task is raised.
        """
        for _, error in self._run(tasks):
            raise error

    def _map_on_threads(
        self, function: Callable[[S], T], items: Iterable[S]
    ) -> Iterator[T]:
        """Map on the threads, some items at a time."""
        left = iter(items)
        while some := list(islice(left, AHEAD * self.n_workers)):
            results, errors = self._results(function, some)
            yield from results
            for error in errors:
                raise error

    def _results(
        self, function: Callable[[S], T], items: Sequence[S]
    ) -> tuple[list[T], list[Exception]]:
        """Return `function(item)` of the items before the first error, and errors."""
        results: list[Any] = [None] * len(items)

        def task(place: int) -> None:
            """Write one result."""
            results[place] = function(items[place])

        errors = self._run([partial(task, place) for place in range(len(items))])
        n_results = errors[0][0] if errors else len(items)
        return results[:n_results], [error for _, error in errors]

    def _run(self, tasks: Sequence[Task]) -> list[tuple[int, Exception]]:
        """Run tasks, and wait for all of them; return errors and where they came.

        Each thread takes the next task that has not begun. Tasks that are run by a task
        run one after another.
        """
        queue = _Queue(tasks)
        threads = self._threads[: max(len(tasks) - 1, 0)]
        if not threads or not self._is_busy.acquire(blocking=False):
            queue.work()
            return queue.errors
        try:
            with commit():
                for thread in threads:
                    thread.give(queue)
            queue.work()
            for thread in threads:
                thread.wait_for(queue)
        finally:
            with commit():
                queue.close()
                for thread in threads:
                    thread.take_back(queue)
                self._is_busy.release()
        return sorted(queue.errors, key=operator.itemgetter(0))


class _Queue:
    """Queue of tasks that several threads take in order."""

    def __init__(self, tasks: Sequence[Task]):
        self._left = deque(enumerate(tasks))
        self.errors: list[tuple[int, Exception]] = []

    def work(self) -> None:
        """Run tasks until none is left, or one has failed."""
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


class _Worker:
    """A thread that works on one queue after the other."""

    def __init__(self, has_ended: Event):
        """Start the thread; `has_ended` ends long work."""
        self._changed = Condition()
        self._queue: _Queue | None = None  # that has not begun
        self._is_over = False
        self._given, self._done = Gate(), Gate()  # how many queues
        self._thread = Thread(target=self._work, args=(has_ended,), daemon=True)
        self._thread.start()

    def _work(self, has_ended: Event) -> None:
        end_with(has_ended)
        while True:
            self._given.wait_above(self._done.now(), AWAKE)
            with self._changed:
                while self._queue is None and not self._is_over:
                    self._changed.wait()
                queue, self._queue = self._queue, None
                number = self._given.now()
            if queue is None:
                return
            queue.work()
            with self._changed:
                self._done.move_to(number)
                self._changed.notify()

    def give(self, queue: _Queue) -> None:
        """Let the thread work on a queue, when it has ended its work."""
        with self._changed:
            self._queue = queue
            self._given.move_to(self._given.now() + 1)
            self._changed.notify()

    def wait_for(self, queue: _Queue) -> None:
        """Wait for the end of the last tasks of a queue, if the thread has begun."""
        last = self._given.now() - 1
        if self._queue is queue or self._done.wait_above(last, AWAKE):
            return
        while self._done.now() <= last:
            with commit(), self._changed:
                if self._done.now() <= last:
                    self._changed.wait(PATIENCE)

    def take_back(self, queue: _Queue) -> None:
        """Let the thread not begin with a queue."""
        with self._changed:
            if self._queue is queue:
                self._queue = None

    def end(self) -> None:
        """End the thread, after its present work."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join()
