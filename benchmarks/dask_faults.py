"""Fits on a cluster of processes whose workers, or whose driver, are lost.

Each fit must end with the bits of an undisturbed one. Faults come at random moments:

- kill: a worker is ended (SIGKILL); its nanny starts another;
- stop: a worker is stopped (SIGSTOP), which nobody is told of;
- wake: a worker is stopped, and goes on some seconds later;
- join: another worker is added;
- driver: the process that fits is ended (SIGKILL), and one that resumes takes over.

Fits with faults of a kind follow each other on one cluster, and end with `--fits` or
after `--minutes`, whichever comes first.

    python benchmarks/dask_faults.py DependentTrees --fits 50 --drivers 20
    python benchmarks/dask_faults.py HDP --kinds kill stop --drivers 0 --minutes 5
    python benchmarks/dask_faults.py HDP --fits 2 --drivers 2      # a minute
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path

import dask
import numpy as np
import scipy.sparse as sp
from common import environment
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

from skbnp.callbacks import Checkpoint
from skbnp.dask import HDP, DependentTrees
from skbnp.datasets import make_bars, make_dependent_trees

#: Seconds of silence after which a worker is given up.
TIMEOUT = 5.0
N_FILES = 8


def write_files(folder, name):
    """Write rows of two epochs, or documents, as files; return their pattern."""
    if name == "HDP":
        X = sp.csr_array(make_bars(1000, random_state=0).data)
        for number, rows in enumerate(np.array_split(np.arange(1000), N_FILES)):
            sp.save_npz(folder / f"rows-{number}.npz", X[rows])
        return str(folder / "rows-*.npz")
    corpus = make_dependent_trees(500, n_epochs=2, n_features=60, random_state=0)
    for number, rows in enumerate(np.array_split(np.arange(1000), N_FILES)):
        X = sp.csr_array(corpus.data[rows])
        np.savez(
            folder / f"rows-{number}.npz",
            data=X.data,
            indices=X.indices,
            indptr=X.indptr,
            shape=X.shape,
            format=b"csr",
            epochs=corpus.epochs[rows],
        )
    return str(folder / "rows-*.npz")


def fit(name, pattern, client, path=None):
    """Fit, and return a digest of what was learned."""
    callbacks = [] if path is None else [Checkpoint(path)]
    if name == "HDP":
        return fit_topics(pattern, client, callbacks)
    trees = DependentTrees(random_state=0, client=client, timeout=TIMEOUT, max_iter=8)
    trees.set_callbacks(*callbacks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trees.fit(pattern)
    result = hashlib.sha256()
    for epoch in trees.epochs_.values():
        for array in (epoch.component_ids, epoch.masses, epoch.tree.parent):
            result.update(np.ascontiguousarray(array).tobytes())
    result.update(trees.components_.tobytes())
    result.update(repr((trees.elbo_, list(map(tuple, trees.lineage_)))).encode())
    return result.hexdigest()[:16]


def fit_topics(pattern, client, callbacks):
    """Fit an HDP, and return a digest of what was learned."""
    settings = {"client": client, "timeout": TIMEOUT}
    topics = HDP(30, random_state=0, batch_size=500, max_iter=12, **settings)
    topics.set_callbacks(*callbacks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        topics.fit(pattern)
    result = hashlib.sha256(topics.components_.tobytes())
    learned = topics.log_predictive_, list(map(tuple, topics.lineage_))
    result.update(repr(learned).encode())
    return result.hexdigest()[:16]


def start_quickly():
    """Let workers, those too that take the place of others, find modules imported.

    Where that takes long all the same, let clusters wait, and not give up their places.
    """
    dask.config.set(
        {
            "distributed.worker.multiprocessing-method": "forkserver",
            "distributed.deploy.lost-worker-timeout": "120s",
        }
    )
    get_mp_context().set_forkserver_preload(["distributed", "sklearn", "skbnp.dask"])
    # From the folder where the script was started, a checkout that is not built could
    # be imported in place of the package that is installed.
    os.environ["PYTHONSAFEPATH"] = "1"
    forkserver.ensure_running()
    del os.environ["PYTHONSAFEPATH"]


def cluster_of(n_workers):
    """Processes on the loopback interface, with one thread each."""
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
    )


def disturb(kind, cluster, client, rng):
    """Let something happen to a worker; return what undoes it."""
    if kind == "join":
        cluster.scale(3)
        return lambda: None
    pids = list(client.run(os.getpid).values())
    pid = int(rng.choice(pids))
    if kind == "kill":
        os.kill(pid, signal.SIGKILL)
        return lambda: None
    os.kill(pid, signal.SIGSTOP)
    if kind == "wake":
        wait = rng.uniform(0.5, 3.0) * TIMEOUT
        threading.Timer(wait, go_on, (pid,)).start()
    return lambda: go_on(pid)


def go_on(pid):
    """Let a stopped process go on, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def run_workers(kind, name, pattern, wanted, seconds, rng, n_fits, end_by):
    """Fit under faults of one kind; return how many had the same bits, and times.

    Fits that had ended before the fault do not count.
    """
    n_same, times = 0, []
    with cluster_of(2) as cluster, Client(cluster) as client:
        while len(times) < n_fits and time.perf_counter() < end_by:
            cluster.scale(2)
            wait_for_two(client)
            struck, undo = [], []

            def strike(struck=struck, undo=undo):
                struck.append(time.perf_counter())
                undo.append(disturb(kind, cluster, client, rng))

            timer = threading.Timer(rng.uniform(0.0, seconds), strike)
            begin = time.perf_counter()
            timer.start()
            result = fit(name, pattern, client)
            end = time.perf_counter()
            timer.cancel()
            timer.join()
            for one in undo:
                one()
            if not struck or struck[0] > end:
                continue
            times.append(end - begin)
            n_same += result == wanted
            print(
                f"{kind} {len(times)}: {result} {result == wanted}, fault after "
                f"{struck[0] - begin:.2f} s of {times[-1]:.1f}",
                flush=True,
            )
    return n_same, times


def wait_for_two(client):
    """Wait for two workers, no more, that answer."""
    end_by = time.perf_counter() + 120.0
    while time.perf_counter() < end_by:
        with suppress(Exception):
            if len(client.run(os.getpid)) == 2:
                return
        time.sleep(0.1)
    raise TimeoutError("Workers have not come back.")


#: Drivers of a fit that are ended before one is let alone.
ENDED_PER_FIT = 4


def run_drivers(name, pattern, wanted, seconds, rng, n_drivers, end_by):
    """End drivers; return how many were ended, and fits, and those with the same bits.

    A driver that has fitted before its end would have come does not count as ended.
    """
    n_fits, n_same, n_ended = 0, 0, 0
    while n_ended < n_drivers and time.perf_counter() < end_by:
        with tempfile.TemporaryDirectory() as folder:
            most = min(ENDED_PER_FIT, n_drivers - n_ended)
            ends = [*rng.uniform(0.0, seconds, most), None]
            for end in ends:
                result = run_driver(name, pattern, folder, end)
                if result is not None:
                    break
                n_ended += 1
        n_fits += 1
        n_same += result == wanted
        print(
            f"driver {n_fits}: {result} {result == wanted}, {n_ended} ended so far",
            flush=True,
        )
    return n_ended, n_fits, n_same


def run_driver(name, pattern, folder, end):
    """Let a process fit; return what it found, or None if it was ended before."""
    begun = Path(folder) / "begun"
    begun.unlink(missing_ok=True)
    checkpoint = str(Path(folder) / "fit")
    command = [sys.executable, __file__, name]
    command += ["--drive", pattern, checkpoint, str(begun)]
    driver = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    while not begun.exists() and driver.poll() is None:
        time.sleep(0.01)
    try:
        return driver.communicate(timeout=end)[0].strip()
    except subprocess.TimeoutExpired:
        driver.kill()
        driver.communicate()
        return None


def drive(name, pattern, checkpoint, begun):
    """Fit in a process that may be ended, with threads for workers."""
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            protocol="inproc://",
            dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        Path(begun).touch()
        print(fit(name, pattern, client, checkpoint))


def main():
    """Run all faults, and exit with an error if a fit had other bits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=["DependentTrees", "HDP"])
    parser.add_argument("--fits", type=int, default=50, help="of each kind of fault")
    parser.add_argument("--drivers", type=int, default=20, help="that are ended")
    parser.add_argument("--kinds", nargs="*", default=["kill", "stop", "wake", "join"])
    parser.add_argument("--minutes", type=float, default=np.inf, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drive", nargs=3)
    options = parser.parse_args()
    dask.config.set({"distributed.logging.distributed": "critical"})
    if options.drive:
        drive(options.name, *options.drive)
        return
    start_quickly()
    rng, name = np.random.default_rng(options.seed), options.name
    print(*environment().items(), flush=True)

    def end_by():
        return time.perf_counter() + 60.0 * options.minutes

    with tempfile.TemporaryDirectory() as folder:
        pattern = write_files(Path(folder), name)
        wanted = fit(name, pattern, None)
        with cluster_of(2) as cluster, Client(cluster) as client:
            fit(name, pattern, client)
            begin = time.perf_counter()
            is_same = fit(name, pattern, client) == wanted
            seconds = time.perf_counter() - begin
        print(f"undisturbed: {wanted} {is_same}, {seconds:.1f} s", flush=True)
        failed = not is_same
        given, rows = (name, pattern, wanted, seconds, rng), []
        for kind in options.kinds:
            n_same, times = run_workers(kind, *given, options.fits, end_by())
            failed |= n_same < len(times) or not times
            mean, most = np.mean(times), np.max(times, initial=0.0)
            rows.append(f"| {kind} | {len(times)} | {n_same} | {mean:.1f} | {most:.1f}")
        n_ended, n_fits, n_same = run_drivers(*given, options.drivers, end_by())
        failed |= n_same < n_fits
    rows.append(f"| driver, {n_ended} ended | {n_fits} | {n_same} | |")
    print("\n| fault | fits | same bits | mean s | most s |\n|---|---|---|---|---|")
    print(" |\n".join(rows), "|")
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
