"""What a pass costs on a cluster of processes: bytes, seconds, overhead, and a model.

    SKBNP_DATA=... python benchmarks/dask_scaling.py bytes
    SKBNP_DATA=... python benchmarks/dask_scaling.py seconds --copies 4
    SKBNP_DATA=... python benchmarks/dask_scaling.py memory
    SKBNP_DATA=... python benchmarks/dask_scaling.py model

`bytes`: what is sent and received in a pass with all moves, by documents, shards and
workers. `seconds`: passes without moves on one process and on two, in turns, and what
messages cost. `memory`: peaks of the driver by documents, which are copies of the first
ones. `model` predicts passes on 4, 16 and 64 workers from figures of `seconds`, see
`predicted`.
"""

import argparse
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import dask
import numpy as np
import scipy.sparse as sp
from common import load_corpus
from distributed import Client, LocalCluster

from skbnp.dask import DependentTrees, _base, _shards
from skbnp.dask._inputs import blocks_of
from skbnp.dask._shards import WorkerShards
from skbnp.inference.shards import Broadcast

KINDS = ["bytes", "seconds", "memory", "model"]


class CountedShards(WorkerShards):
    """Counts what is received, too."""

    latest = None

    def __init__(self, *args):
        self.n_bytes_received = self.n_calls = 0
        super().__init__(*args)
        CountedShards.latest = self

    def _replies(self, calls, **kind):
        self.n_calls += len(calls)
        for worker, own, reply in super()._replies(calls, **kind):
            self.n_bytes_received += len(pickle.dumps(reply, protocol=5))
            yield worker, own, reply

    def counts(self):
        """Bytes sent and received, and calls, so far."""
        return np.array([self.n_bytes_sent, self.n_bytes_received, self.n_calls])


def cluster_of(n_workers):
    """Processes on the loopback interface, with one thread each."""
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
    )


def write_files(folder, X, n_files):
    """Write rows as files, and return their names."""
    names = []
    for number, rows in enumerate(np.array_split(np.arange(X.shape[0]), n_files)):
        names.append(str(folder / f"{X.shape[0]}-{n_files}-{number:04d}.npz"))
        sp.save_npz(names[-1], X[rows], compressed=False)
    return names


class CountedTrees(DependentTrees):
    """Counts what has been sent and received at the end of each pass."""

    def _learn_epoch(self, learner, monitor, n_passes, **passes):
        self.counts_of_passes = []

        def count(has_ended, has_converged):
            self.counts_of_passes.append(CountedShards.latest.counts())

        super()._learn_epoch(learner, monitor, n_passes, **passes, save=count)

    def mean_counts(self):
        """Bytes sent and received, and calls, of a pass: means of the last three."""
        return (self.counts_of_passes[-1] - self.counts_of_passes[-4]) / 3.0


def fitted(client, names, n_passes, **settings):
    """Fit with that many passes."""
    trees = CountedTrees(
        client=client, random_state=0, max_iter=n_passes, tol=0.0, **settings
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trees.fit(names)


def counted_fit(names, n_workers, **settings):
    """Fit with five passes; return bytes, calls and nodes of the last three."""
    with cluster_of(n_workers) as cluster, Client(cluster) as client:
        trees = fitted(client, names, 5, timeout=120, **settings)
    return trees.mean_counts(), trees.n_components_


def measure_bytes(X, folder, n_nodes):
    """Print bytes of a pass by documents, shards and workers."""
    n_rows = X.shape[0]
    print("| documents | shards | workers | nodes | MB down | MB up | calls |")
    print("|---|---|---|---|---|---|---|")
    cases = [(n_rows // 4, 8, 2), (n_rows // 2, 8, 2), (n_rows, 8, 2)]
    cases += [(n_rows, 32, 2), (n_rows, 8, 1), (n_rows, 8, 4)]
    for n_documents, n_shards, n_workers in cases:
        names = write_files(folder, X[:n_documents], n_shards)
        counts, n_found = counted_fit(names, n_workers, max_components=n_nodes)
        down, up, calls = counts / np.array([1e6, 1e6, 1.0])
        print(
            f"| {n_documents:,} | {n_shards} | {n_workers} | {n_found} | {down:.1f} | "
            f"{up:.1f} | {calls:.0f} |",
            flush=True,
        )


def nothing(shard, broadcast, argument):
    """Task that does nothing."""
    return Nothing()


class Nothing:
    """The sum of nothing."""

    def plus(self, other):
        """Add up."""
        return self


def processor_seconds():
    """Of this process."""
    return time.process_time()


def timed_fit(names, client):
    """Fit with four passes; return trees, seconds of workers and of this process."""
    before = sum(client.run(processor_seconds).values()), time.process_time()
    trees = fitted(client, names, 4, structure_moves=False, timeout=300)
    after = sum(client.run(processor_seconds).values()), time.process_time()
    return trees, after[0] - before[0], after[1] - before[1]


def measure_seconds(X, folder, n_copies, n_runs):
    """Print seconds of passes on one process and on two, in turns."""
    names = write_files(folder, X, 8) * n_copies
    print(f"{X.shape[0] * n_copies:,} documents, {len(names)} shards\n")
    print(
        "| run | workers | nodes | s / pass, least | mean | worker s | driver s | "
        "MB down | MB up | calls |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    seconds = {1: [], 2: []}
    for run in range(n_runs):
        for n_workers in (1, 2):
            with cluster_of(n_workers) as cluster, Client(cluster) as client:
                trees, worker, driver = timed_fit(names, client)
            passes = np.diff(trees.history_["seconds"])
            seconds[n_workers].append(passes.mean())
            down, up, calls = trees.mean_counts() / np.array([1e6, 1e6, 1.0])
            print(
                f"| {run} | {n_workers} | {trees.n_components_} | {passes.min():.2f} | "
                f"{passes.mean():.2f} | {worker:.1f} | {driver:.1f} | {down:.1f} | "
                f"{up:.1f} | {calls:.0f} |",
                flush=True,
            )
    one, two = np.median(seconds[1]), np.median(seconds[2])
    visits = 2.0 * (one - two)
    print(f"\nTwo processes: {one / two:.2f} times one, medians of means.")
    print(f"Of a pass, {visits:.2f} s are shared, {one - visits:.2f} s are not.\n")
    measure_messages()


def measure_messages():
    """Print what calls and broadcasts cost."""
    print("| workers | ms / call | MB of a broadcast | s, to all |\n|---|---|---|---|")
    for n_workers in (1, 2, 4):
        with cluster_of(n_workers) as cluster, Client(cluster) as client:
            blocks = blocks_of([sp.csr_array((2, 3))] * 16)
            session = _base.open_session(client, blocks, rows_of_all, 60.0)
            shards = session.shards(0, map, is_lasting=False)
            numbers, call, sent = range(16), [], []
            for _ in range(20):
                begin = time.perf_counter()
                shards.total(nothing, numbers)
                call.append(time.perf_counter() - begin)
            size = 50_000_000
            for _ in range(3):
                broadcast = Broadcast(np.random.default_rng(0).bytes(size))
                begin = time.perf_counter()
                shards.total(nothing, numbers, broadcast)
                sent.append(time.perf_counter() - begin)
            session.close()
        milliseconds = 1e3 * np.median(call)
        print(
            f"| {n_workers} | {milliseconds:.1f} | {size / 1e6:.0f} | "
            f"{min(sent):.2f} |",
            flush=True,
        )


def rows_of_all(X, labels):
    """Reader: all rows."""
    return {0: sp.csr_array(X)}


def measure_memory(X, folder, n_copies, n_nodes):
    """Print peaks of the memory of drivers, each a process of its own."""
    names = write_files(folder, X, 8)
    print("| documents | files | nodes | MB before | MB at the peak | more |")
    print("|---|---|---|---|---|---|", flush=True)
    for copies in (1, n_copies, n_copies**2):
        command = [sys.executable, __file__, "memory", "--nodes", str(n_nodes)]
        command += ["--copies", str(copies), "--files", *names]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        before, after, n_found = done.stdout.split()[-3:]
        before, after = float(before), float(after)
        print(
            f"| {X.shape[0] * copies:,} | {8 * copies} | {n_found} | {before:.0f} | "
            f"{after:.0f} | {after - before:.0f} |",
            flush=True,
        )


def peak_memory():
    """Of this process, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1.024e-3


def print_peak(names, n_nodes):
    """Fit, with processes for workers; print MB before and at the peak, and nodes."""
    with cluster_of(1) as cluster, Client(cluster) as client:
        trees = DependentTrees(
            client=client,
            random_state=0,
            max_iter=3,
            tol=0.0,
            max_components=n_nodes,
            timeout=300,
        )
        before = peak_memory()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trees.fit(names)
        after = peak_memory()
    print(before, after, trees.n_components_)


def predicted(n_workers, visit, update, down, up, rate, call, n_calls):
    """Seconds of a pass.

    Visits are shared, updates are the driver's. The table goes down once by way of the
    scheduler, and on from worker to worker, in about log2(workers) turns; sums of all
    workers come up the line of the driver. Calls wait for each other.
    """
    turns = 1.0 + np.log2(max(n_workers, 1))
    lines = down / rate * turns + n_workers * up / rate
    return visit / n_workers + update + lines + n_calls * call * (1 + n_workers / 50)


def print_model(options):
    """Print predictions of a pass, and where the driver saturates."""
    given = {
        name: getattr(options, name)
        for name in ("visit", "update", "down", "up", "rate", "call")
    }
    given["n_calls"] = options.calls
    one = predicted(1, **given)
    print("| workers | s / pass | times one | visits | driver and lines |")
    print("|---|---|---|---|---|")
    for n_workers in (1, 2, 4, 16, 64):
        seconds = predicted(n_workers, **given)
        visits = options.visit / n_workers
        print(
            f"| {n_workers} | {seconds:.2f} | {one / seconds:.2f} | {visits:.2f} | "
            f"{seconds - visits:.2f} |"
        )


def main():
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="+", choices=KINDS)
    parser.add_argument("--corpus", default="arxiv_large")
    parser.add_argument("--documents", type=int, default=None)
    parser.add_argument("--nodes", type=int, default=100, help="of fits for `bytes`")
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--files", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--visit", type=float, default=12.0, help="s on one worker")
    parser.add_argument("--update", type=float, default=0.5, help="s of the driver")
    parser.add_argument("--down", type=float, default=40.0, help="MB to each worker")
    parser.add_argument("--up", type=float, default=40.0, help="MB from each worker")
    parser.add_argument("--rate", type=float, default=100.0, help="MB / s of a line")
    parser.add_argument("--call", type=float, default=0.02, help="s of a call")
    parser.add_argument("--calls", type=int, default=10, help="calls of a pass")
    options = parser.parse_args()
    dask.config.set({"distributed.logging.distributed": "critical"})
    if options.files:
        print_peak(options.files * options.copies, options.nodes)
        return
    _shards.WorkerShards = CountedShards
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if {"bytes", "seconds", "memory"} & set(options.what):
            X = load_corpus(options.corpus)[: options.documents]
        if "bytes" in options.what:
            measure_bytes(X, folder, options.nodes)
        if "seconds" in options.what:
            measure_seconds(X, folder, options.copies, options.runs)
        if "memory" in options.what:
            measure_memory(X, folder, options.copies, options.nodes)
        if "model" in options.what:
            print_model(options)


if __name__ == "__main__":
    sys.exit(main())
