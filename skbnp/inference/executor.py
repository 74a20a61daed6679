"""Who runs the blocks: this thread, a pool of threads, or a backend of joblib.

joblib's `Parallel` polls: a call lasts at least 10 ms, as long as a whole minibatch,
where a pool that lives for the whole fit answers in some 30 microseconds. So joblib
says how many jobs there are and runs everything once the user has chosen a backend
(`joblib.parallel_config`); otherwise the work runs on one pool per fit.
Results come back in the order of the items, whoever finishes first.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.utils.parallel import Parallel, delayed

__all__ = ["Executor"]

T = TypeVar("T")


class Executor:
    """Ordered parallel map; a context manager that owns its threads.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn.
    """

    def __init__(self, n_jobs: int | None):
        self.n_jobs = n_jobs
        self.n_workers = effective_n_jobs(n_jobs)
        backend, _ = get_active_backend(prefer="threads")
        self._runs_threads = getattr(backend, "supports_sharedmem", False)
        self._is_lazy = getattr(backend, "supports_return_generator", False)
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> "Executor":
        if self.n_workers > 1 and self._runs_threads:
            self._pool = ThreadPoolExecutor(self.n_workers - 1)
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def shares_memory(self) -> bool:
        """Whether what a function writes to an array is seen here."""
        return self.n_workers == 1 or self._pool is not None

    def map(self, function: Callable[..., T], items: Iterable[Any]) -> Iterator[T]:
        """Yield `function(item)` for each item, in order."""
        if self.n_workers == 1:
            return map(function, items)
        if self._pool is not None:
            return self._map_pool(self._pool, function, items)
        kind = "generator" if self._is_lazy else "list"
        jobs = Parallel(n_jobs=self.n_jobs, return_as=kind)
        return iter(jobs(delayed(function)(item) for item in items))

    def _map_pool(
        self, pool: ThreadPoolExecutor, function: Callable[..., T], items: Iterable[Any]
    ) -> Iterator[T]:
        """Let this thread work too: on the last item that nobody has begun."""
        waiting: deque[tuple[Future[T], Any]] = deque()
        try:
            for item in items:
                if len(waiting) >= 2 * self.n_workers:
                    yield _first(waiting, function)
                waiting.append((pool.submit(function, item), item))
            while waiting:
                yield _first(waiting, function)
        finally:
            for future, _ in waiting:
                future.cancel()


def _first(waiting: deque[tuple[Future[T], Any]], function: Callable[..., T]) -> T:
    """Take the first result off the queue, working while it is not there."""
    for place in reversed(range(len(waiting))):
        future, item = waiting[place]
        if waiting[0][0].done():
            break
        if future.cancel():
            waiting[place] = (_settled(function, item), item)
    return waiting.popleft()[0].result()


def _settled(function: Callable[..., T], item: Any) -> Future[T]:
    """Do it now; an error is kept until its turn."""
    future: Future[T] = Future()
    try:
        future.set_result(function(item))
    except Exception as error:  # raised in its turn
        future.set_exception(error)
    return future
