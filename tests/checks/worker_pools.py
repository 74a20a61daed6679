"""Workers in this process that fail as a script says, in milliseconds."""

from concurrent.futures import Future
from unittest import mock

from dask.delayed import Delayed
from distributed import Client

from skbnp.dask import _shards
from skbnp.dask._shards import Presence, Raised, Site

#: What may happen to the worker that is called.
FAULTS = (
    "dies",
    "stops",
    "wakes",
    "restarts",
    "idles",
    "leaves",
    "scheduler",
    "joined",
)


class ScriptedPool:
    """Workers as a driver sees them.

    Parameters
    ----------
    n_workers : int
    script : dict of int to str
        What happens at calls by their number: the worker "dies", "stops" for good,
        "wakes" after it was given up, "restarts" without its memory, "idles" without
        ever working, "leaves" before it is called, the "scheduler" does not answer for
        a while, or another worker has "joined".
    """

    def __init__(self, n_workers=2, script=(), n_threads=1):
        self.script, self.n_threads = dict(script), n_threads
        self.sites = {f"worker {n}": Site(n_threads) for n in range(n_workers)}
        self.silent, self.calls, self.waiting = set(), [], []
        self.now, self.n_absent, self.is_closed = 0.0, 0, False

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def present(self):
        self.now += 1.0
        if self.n_absent:
            self.n_absent -= 1
            raise OSError("no scheduler")
        return {
            name: Presence(self.n_threads, 0 if name in self.silent else self.now, 0)
            for name in self.sites
        }

    def submit(self, worker, method, *args):
        self.calls.append((worker, method))
        reply, fault = Future(), self.script.pop(len(self.calls), None)
        try:
            args = [
                one.compute(scheduler="sync") if isinstance(one, Delayed) else one
                for one in args
            ]
        except Exception as error:
            reply.set_result(Raised(error))
            return reply
        if fault == "joined":
            self.sites[f"worker {len(self.calls)} of late"] = Site(self.n_threads)
        if fault == "scheduler":
            self.n_absent = 3
        if fault == "restarts":
            self.sites[worker] = Site(self.n_threads)
        if fault in ("dies", "leaves"):
            self.sites.pop(worker, None)
            self.sites[f"heir of {worker}"] = Site(self.n_threads)
        if fault in ("stops", "wakes"):
            self.silent.add(worker)
        if fault == "dies" or worker not in self.sites:
            reply.set_exception(OSError("connection lost"))
        elif fault == "wakes":
            self.waiting.append((reply, worker, method, args))
        elif fault is None or fault in ("joined", "restarts", "scheduler"):
            self.wake()
            self.finish(reply, worker, method, args)
        return reply  # else there is no answer

    def wake(self):
        """Let workers that were given up answer what they were asked."""
        late, self.waiting = self.waiting, []
        for reply, worker, method, args in late:
            self.silent.discard(worker)
            self.finish(reply, worker, method, args)

    def finish(self, reply, worker, method, args):
        try:
            result = getattr(self.sites[worker], method)(*args)
        except Exception as error:
            result = Raised(error)
        if reply.set_running_or_notify_cancel():
            reply.set_result(result)

    def send(self, content, workers):
        return content

    def close(self, workers):
        self.is_closed = True


class scripted_workers:
    """Let estimators with a client learn on the workers of a pool."""

    def __init__(self, pool):
        self.pool = pool
        self.client = mock.NonCallableMock(Client, asynchronous=False, status="running")
        self.patches = [
            mock.patch.object(_shards, "ClientPool", return_value=pool),
            mock.patch.object(_shards, "LOOK", 1e-4),
        ]

    def __enter__(self):
        for patch in self.patches:
            patch.start()
        return self.client

    def __exit__(self, *error):
        for patch in self.patches:
            patch.stop()
