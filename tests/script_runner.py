"""Run a script on tiny corpora: `python script_runner.py FOLDER SCRIPT [ARGUMENT ...]`.

The folder takes the corpora and what the script writes. Scripts, and cases of scripts,
that are not among `PEERS` of `test_scripts.py` cannot import those packages. Without
arguments, scripts are read from the standard input, one JSON list in each line, and the
status of each is written. They run in copies of this process, so that imports are made
once, and write to `log.txt` in the folder.
"""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

os.environ["MPLBACKEND"] = "Agg"

import matplotlib.pyplot  # noqa: F401  for the scripts
import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

import skbnp
from checks.corpora import topic_counts
from skbnp import datasets, inspection  # noqa: F401  for the scripts
from skbnp.models.hdp import cross_fit
from test_scripts import PACKAGES, PEERS

CORPORA = (
    "ap",
    "arxiv2000",
    "arxiv_large",
    "arxiv_titles",
    "bbc_tech",
    "citeulike_titles",
    "jacm",
    "kos",
    "nips",
    "nips_abstracts",
    "reuters395",
    "sotu",
)
#: Documents and words of each; passes and sweeps of a fit, and topics of its start.
N_DOCS, N_WORDS, MOST_PASSES, MOST_TOPICS = 60, 40, 5, 20
N_DOCSTRINGS = MOST_ROWS = 300
LOAD_DOCSTRINGS, MAKE_HDP = datasets.load_docstrings, datasets.make_hdp


def write_corpora(folder):
    """Write counts and words."""
    counts = sp.csr_matrix(topic_counts(N_DOCS, N_WORDS, length=30.0))
    words = "\n".join(f"word{number}" for number in range(N_WORDS))
    for name in CORPORA:
        sp.save_npz(folder / f"{name}.npz", counts)
        (folder / f"{name}.vocab.txt").write_text(words)
        np.save(folder / f"{name}.years.npy", 2000 + np.arange(N_DOCS) // 10)
    pixels = np.random.default_rng(0).integers(17, size=(2, 20, 64), dtype=np.uint8)
    np.savez(folder / "optdigits.npz", X_train=pixels[0], X_test=pixels[1])


def shorten(kind):
    """Let every fit of an estimator be a short one of few rows, from few topics."""
    fit = kind.fit

    def short_fit(self, X, y=None, sample_weight=None, **given):
        if sample_weight is not None:
            given["sample_weight"] = sample_weight
        self.max_iter = min(self.max_iter, MOST_PASSES)
        if getattr(self, "n_components", None) is not None:
            self.n_components = min(self.n_components, MOST_TOPICS)
        if getattr(self, "burn_in", None) is not None:
            self.burn_in = min(self.burn_in, self.max_iter - 1)
        if isinstance(X, (str, list)):  # files
            return fit(self, X, y, **given)
        some = slice(None, None, -(-np.shape(X)[0] // MOST_ROWS))
        given = {
            name: value if np.ndim(value) == 0 else value[some]
            for name, value in given.items()
        }
        return fit(self, X[some], y, **given)

    kind.fit = short_fit


def load_few_docstrings(**options):
    """Load few docstrings."""
    docs = LOAD_DOCSTRINGS(**options)
    step = len(docs.data) // N_DOCSTRINGS
    docs.update({name: docs[name][::step] for name in ("data", "target", "names")})
    return docs


def make_small_hdp(n_samples=100, **options):
    """Draw few documents."""
    return MAKE_HDP(min(n_samples, N_DOCS), **options)


def main(folder, script, *arguments):
    """Run one script as if by hand, with what it writes in a folder."""
    write_corpora(folder)
    if PEERS.keys().isdisjoint((script, " ".join([script, *arguments[:1]]))):
        sys.modules.update(dict.fromkeys(PACKAGES))
    os.environ["SKBNP_DATA"] = str(folder)
    import common

    common.RESULTS = folder / "results"
    common.RESULTS.mkdir(exist_ok=True)
    for kind in (getattr(skbnp, name) for name in skbnp.__all__):
        if hasattr(kind, "fit"):
            shorten(kind)
    datasets.load_docstrings = load_few_docstrings
    datasets.make_hdp = make_small_hdp
    cross_fit.FEWEST_DOCS = 10_000  # one split judges
    os.chdir(folder)
    path = ROOT / script
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")


def serve():
    """Run the scripts of the standard input."""
    for line in sys.stdin:
        folder, *command = json.loads(line)
        with (Path(folder) / "log.txt").open("w") as log:
            if not hasattr(os, "fork"):  # Windows
                again = [sys.executable, __file__, folder, *command]
                status = subprocess.call(
                    again, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            elif pid := os.fork():
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            else:
                with open(os.devnull) as nothing:
                    os.dup2(nothing.fileno(), 0)
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                return main(Path(folder), *command)  # and the copy ends
        print(status, flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), *sys.argv[2:])
    else:
        serve()
