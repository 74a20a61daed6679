"""What a pass of `HDP` takes, time and memory, beside another checkout of skbnp.

SKBNP_DATA=... python benchmarks/burstiness_cost.py [--beside FOLDER] [--runs RUNS]
    [--share SHARE]

Fits of the two checkouts, whose kernels must be built, take turns in two processes.
Without a folder, the checkout of this script is beside itself.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp

import skbnp

ROOT = Path(__file__).parents[1]
LARGE = "10 million tokens"
CASES = [(name, size) for name in ("ap", "kos", "nips") for size in (100, 300)]
#: Passes over tokens, passes until the first that is measured, and all passes.
PLAIN, FIRST, N_PASSES = 3, 5, 8
COLUMNS = ["corpus", "K", "tokens", "beside, s", "here, s", "ratio"]
COLUMNS += ["beside, MB", "here, MB", "beside, peak MB", "here, peak MB"]
#: A process that fits the corpus and the number of topics of each line that it reads.
LEARNER = """
import sys, time
import numpy as np, scipy.sparse as sp
from skbnp import HDP
plain, first, n_passes = map(int, sys.argv[1:4])
try:
    from skbnp.models.hdp.moves import repeats
    repeats.PLAIN_PASSES = plain
except ImportError:
    pass
class Ends:
    def setup(self, estimator, context): self.times = []
    def teardown(self, estimator, context): pass
    def on_fit_task_begin(self, estimator, context, **given): pass
    def on_fit_task_end(self, estimator, context, **given):
        if context.task_name == "pass": self.times.append(time.process_time())
        return False
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(n.split()[1]) / 1024 for n in lines if n.startswith("VmHWM"))
for line in sys.stdin:
    path, size = line.strip().rsplit(" ", 1)
    counts = sp.csr_array(sp.load_npz(path))
    before, ends = peak(), Ends()
    hdp = HDP(int(size), split_merge=False, max_iter=n_passes, tol=0.0, random_state=0)
    hdp.set_callbacks(ends).fit(counts)
    seconds = np.diff(ends.times)[first - 1:]
    print(np.median(seconds), peak() - before, peak(), flush=True)
"""


class Learner:
    """A process that learns with the package of one checkout."""

    def __init__(self, folder):
        arguments = [str(number) for number in (PLAIN, FIRST, N_PASSES)]
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", LEARNER, *arguments],
            env=os.environ | {"PYTHONPATH": str(folder)},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def fit(self, path, size):
        """Processor seconds of a late pass, MB more at the peak, and the peak, MB."""
        print(path, size, file=self.process.stdin, flush=True)
        return [float(number) for number in self.process.stdout.readline().split()]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def draw(name, share, folder):
    """Write training documents and return the path; `share` of them."""
    path = folder / f"{name.replace(' ', '_')}.npz"
    if not path.exists():
        rng = np.random.default_rng(0)
        if name == LARGE:
            counts = common.load_corpus("arxiv_large")
            n_rows = int(share * 1e7 / counts.sum() * counts.shape[0])
            counts = counts[rng.integers(counts.shape[0], size=n_rows)]
        else:
            counts, _ = common.standard_split(common.load_corpus(name))
            counts = counts[: max(int(share * counts.shape[0]), 2)]
        used = np.asarray(counts.sum(axis=0)).ravel() > 0
        sp.save_npz(path, sp.csr_matrix(counts[:, used]))
    return path


def measure(cases, folders, share, scratch):
    """Yield a row of each case: fits of two checkouts, one after the other."""
    learners = {side: Learner(folder) for side, folder in folders.items()}
    for name, size in cases:
        path = draw(name, share, scratch)
        row = {"corpus": name, "K": size, "tokens": float(sp.load_npz(path).sum())}
        for side, learner in learners.items():
            seconds, more, most = learner.fit(path, size)
            row |= {f"{side}, s": seconds, f"{side}, peak MB": most}
            if name == LARGE:
                row[f"{side}, MB"] = more
        print(*row.values(), flush=True)
        yield row
    for learner in learners.values():
        learner.end()


def main():
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0)
    options = parser.parse_args()
    here = Path(skbnp.__file__).parents[1]
    folders, rows = {"beside": (options.beside or here).resolve(), "here": here}, []
    with TemporaryDirectory() as scratch:
        for run in range(options.runs):
            # The other way round in every second run.
            sides = dict(sorted(folders.items(), reverse=run % 2 == 1))
            for cases in (CASES, [(LARGE, 100)]):
                some = measure(cases, sides, options.share, Path(scratch))
                rows += [row | {"seed": run} for row in some]
    table = common.medians(rows, ("corpus", "K"))
    for row in table:
        row["ratio"] = row["here, s"] / row["beside, s"]
    other = common.commit(options.beside or ROOT)
    common.save(
        "burstiness_cost", table, COLUMNS, READING.format(other=other, LARGE=LARGE)
    )


READING = """
A pass of `HDP` here, where topics explain tables of words, and at commit {other}, where
they explain tokens ("beside"): processor seconds, medians of passes 6 to 8 of a fit
without moves and of the runs, whose fits take turns; tables from the fourth pass on.
"{LARGE}": documents of `arxiv_large`, drawn with replacement. "MB": by how
much the largest resident memory of a process rises in that fit; "peak MB": to how much.
"""


if __name__ == "__main__":
    main()
