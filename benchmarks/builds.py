"""Kernels of other builds against those of this one.

    SKBNP_DATA=... python benchmarks/builds.py NAME=FOLDER [...] [--runs N]

Each folder is `skbnp/kernels` of a checkout of its own that was built with
SKBNP_PORTABLE=1, or CFLAGS=-DSKBNP_NO_CLONES, or by another compiler.
"""

import argparse
import importlib.util
import time
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

import common  # before NumPy: it pins the threads
import numpy as np

import skbnp.models.hdp.fold_in as fold_in
import skbnp.models.hdp.local as collapsed
import skbnp.models.hdp.local as mean_field
from skbnp import HDP

CORPORA, N_DOCS, N_TOPICS = ("ap", "kos"), 600, 100
#: What is measured: where a kernel is called, its module and its name.
KERNELS = {
    "transform, collapsed": (fold_in, "_collapsed", "infer_zero_order"),
    "fit, collapsed": (collapsed, "_collapsed", "infer_collapsed"),
    "transform, mean field": (mean_field, "_hdp_local", "infer_documents"),
}


def load(name, folder, module):
    """A compiled module of a folder, beside that of the same name in use."""
    (path,) = Path(folder).glob(f"{module}.*.so")
    loader = ExtensionFileLoader(f"{name}.{module}", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    found = importlib.util.module_from_spec(spec)
    loader.exec_module(found)
    return found


def calls_of(caller, kernel, run):
    """Arguments of the calls of a kernel while something runs."""
    calls, function = [], getattr(caller, kernel)

    def noted(*args, **kwargs):
        calls.append((args, kwargs))
        return function(*args, **kwargs)

    setattr(caller, kernel, noted)
    try:
        run()
    finally:
        setattr(caller, kernel, function)
    return calls


def seconds_of(function, calls):
    begin = time.thread_time()
    for args, kwargs in calls:
        function(*args, **kwargs)
    return time.thread_time() - begin


def run(name, what, builds, n_runs):
    """Medians of ratios of the time of each build to that of this one."""
    X = common.load_corpus(name)[:N_DOCS]
    caller, module, kernel = KERNELS[what]
    family = "mean_field" if "mean" in what else "collapsed"
    hdp = HDP(
        N_TOPICS,
        variational_family=family,
        split_merge=False,
        max_iter=2,
        random_state=0,
    )
    if what.startswith("fit"):
        calls = calls_of(caller, kernel, lambda: hdp.fit(X))
    else:
        hdp.fit(X)
        calls = calls_of(caller, kernel, lambda: hdp.transform(X))
    this = getattr(caller, kernel)
    others = {
        build: getattr(load(build, folder, module), kernel)
        for build, folder in builds.items()
    }
    ratios = {build: [] for build in builds}
    for _ in range(n_runs):
        here = seconds_of(this, calls)
        for build, function in others.items():
            ratios[build].append(seconds_of(function, calls) / here)
    medians = {build: float(np.median(row)) for build, row in ratios.items()}
    return {"corpus": name, "kernel": what, "this build ms": 1e3 * here} | medians


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("builds", nargs="*", help="NAME=FOLDER")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    builds = dict(build.split("=", 1) for build in options.builds)
    rows = []
    for name in CORPORA:
        for what in KERNELS:
            rows.append(run(name, what, builds, options.runs))
            print(rows[-1], flush=True)
    common.save("builds", rows, list(rows[0]))
