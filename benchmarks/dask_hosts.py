"""Fits on hosts of their own, one of which is cut off: network namespaces of Linux.

Each worker has a network namespace, with an address of its own, joined by a bridge to
that of the driver and the scheduler. In every fit but the first the line of one worker
goes down at a random moment, so that nothing is lost but messages, and comes up again
when the fit has ended. Each must have the bits of a fit in one process. It needs `ip`
of iproute2, and the rights to make namespaces:

    sudo python benchmarks/dask_hosts.py DependentTrees --fits 5
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from dask_faults import TIMEOUT, fit, start_quickly, write_files
from distributed import Client, LocalCluster

#: Network of the hosts: a range for tests of networks, by RFC 2544.
NETWORK = "198.18.77"
BRIDGE = "skbnp"


def ip(*words):
    subprocess.run(["ip", *words], check=True)


@contextmanager
def host(number):
    """A namespace with an address on the bridge; yields how to run a command there."""
    space, line, end = (f"{BRIDGE}{name}{number}" for name in ("n", "a", "b"))
    ip("netns", "add", space)
    try:
        ip("link", "add", line, "type", "veth", "peer", "name", end)
        ip("link", "set", line, "master", BRIDGE, "up")
        ip("link", "set", end, "netns", space)
        inside = ["netns", "exec", space]
        address = f"{NETWORK}.{number}"
        ip("-n", space, "address", "add", f"{address}/24", "dev", end)
        ip("-n", space, "link", "set", end, "up")
        ip("-n", space, "link", "set", "lo", "up")
        yield address, line, ["ip", *inside]
    finally:
        # A namespace lives, with its end of the line, as long as its processes do.
        subprocess.run(["ip", "link", "delete", line], check=False)
        ip("netns", "delete", space)


@contextmanager
def bridge():
    """The network of the driver, and of all hosts."""
    ip("link", "add", BRIDGE, "type", "bridge")
    try:
        ip("address", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        yield f"{NETWORK}.1"
    finally:
        ip("link", "delete", BRIDGE)


@contextmanager
def worker(scheduler, address, prefix):
    """A process that works for a scheduler, from a namespace."""
    command = [sys.executable, "-P", "-m", "distributed.cli.dask_worker", scheduler]
    command += ["--nthreads", "1", "--nworkers", "1", "--host", address]
    command += ["--no-dashboard", "--death-timeout", "600"]
    process = subprocess.Popen(
        [*prefix, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def wait_for(client, n_workers):
    """Wait until so many workers are there."""
    end_by = time.perf_counter() + 120.0
    while len(client.scheduler_info()["workers"]) != n_workers:
        if time.perf_counter() > end_by:
            raise TimeoutError("Workers have not come.")
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("estimator", choices=["DependentTrees", "HDP"])
    parser.add_argument("--fits", type=int, default=5, help="with a host cut off")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start_quickly()
    rng = np.random.default_rng(options.seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pattern = write_files(folder, options.estimator)
        wanted = fit(options.estimator, pattern, None)
        driver = stack.enter_context(bridge())
        cluster = stack.enter_context(
            LocalCluster(n_workers=0, host=driver, dashboard_address=None)
        )
        client = stack.enter_context(Client(cluster))
        lines = []
        for number in range(2, 2 + options.hosts):
            address, line, prefix = stack.enter_context(host(number))
            stack.enter_context(worker(cluster.scheduler_address, address, prefix))
            lines.append(line)
        wait_for(client, options.hosts)
        print(sorted(client.scheduler_info()["workers"]), flush=True)
        fit(options.estimator, pattern, client)
        begin = time.perf_counter()
        result = fit(options.estimator, pattern, client)
        usual = time.perf_counter() - begin
        print(f"undisturbed: {result} {result == wanted}, {usual:.1f} s", flush=True)
        n_fits = n_same = 0
        while n_fits < options.fits:
            line, after = rng.choice(lines), rng.uniform(0.0, usual)
            cut = threading.Timer(after, ip, ("link", "set", line, "down"))
            begin = time.perf_counter()
            cut.start()
            result = fit(options.estimator, pattern, client)
            seconds = time.perf_counter() - begin
            cut.join()
            ip("link", "set", line, "up")
            wait_for(client, options.hosts)
            if seconds < after:  # it had ended before
                continue
            n_fits += 1
            n_same += result == wanted
            print(
                f"{n_fits}: {result} {result == wanted}, {line} cut off after "
                f"{after:.2f} s of {seconds:.1f}",
                flush=True,
            )
    print(f"{n_same} of {n_fits} with the same bits; given up after {TIMEOUT} s")
    sys.exit(int(n_same < n_fits))


if __name__ == "__main__":
    main()
