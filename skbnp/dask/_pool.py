"""Worker processes as the driver sees them: the living ones, and calls to each."""

import warnings
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Protocol

from dask.delayed import Delayed
from distributed import Future as DaskFuture
from distributed import KilledWorker, fire_and_forget
from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError
from distributed.scheduler import NoValidWorkerError

from skbnp.dask._sites import Raised, answer, end

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


class Pool(Protocol):
    """Protocol: worker processes, each with a `Site`."""

    def present(self) -> dict[str, Presence]:
        """Return workers that can take work, by name, as the scheduler lists them."""

    def submit(self, worker: str, method: str, *args: object) -> "Future":
        """Call a method of the `Site` of a worker; return its future."""

    def send(self, content: bytes, workers: Sequence[str]) -> object:
        """Send bytes to several workers; return their name in calls."""

    def close(self, workers: Sequence[str]) -> None:
        """Remove the fit from workers."""


class ClientPool:
    """Workers of a Dask cluster, reached by a client.

    Parameters
    ----------
    client : distributed.Client
    fit_name : str
        Name of the fit, the key of its site on each worker.
    """

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
