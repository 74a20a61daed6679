"""Fits that are killed at random moments: `python kill_runner.py N_KILLS NAME ...`.

Each fit runs in a copy of this process, with a checkpoint, until a signal that nothing
can catch ends it. The next copy goes on from the file; so on, until a fit has ended,
and further fits until N_KILLS copies were killed. Every other copy is killed after it
has written its file, the rest at any time. Prints as JSON, by name, how many copies
were killed, how many went on from a file, and where results differ from the fit that
was not interrupted.
"""

import json
import os
import pickle
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone

sys.path.insert(0, str(Path(__file__).parents[1]))

import skbnp
from checks.states import NOTES, TIMES, differences, learned
from skbnp import HDP, GibbsHDP, NestedCRP
from skbnp.callbacks import Checkpoint
from skbnp.components.tree_sticks import TreeMoves
from skbnp.datasets import make_bars, make_tree
from skbnp.models.hdp import cross_fit

# Trials take passes, amid which a kill may come, not one that tries all numbers.
cross_fit.FEWEST_DOCS = 10_000

BARS = make_bars(100, side=4, random_state=0).data
TREE = make_tree(30, random_state=0).data
ESTIMATORS = {
    **{
        f"HDP-{method}": (HDP(20, learning_method=method, random_state=0), BARS)
        for method in ("online", "memoized", "batch")
    },
    "GibbsHDP": (GibbsHDP(max_iter=30, n_chains=2, thin=3, random_state=0), BARS),
    "NestedCRP": (
        NestedCRP(
            level_prior=4.0,
            topic_word_prior=0.1,
            learning_method="memoized",
            batch_size=20,
            structure_moves=TreeMoves(max_tries=2),
            init="sequential",
            tol=0.0,
            max_iter=5,
            random_state=0,
        ),
        TREE,
    ),
}


def fit(name, path):
    """Fit from where the file is, as users do in either way."""
    estimator, X = ESTIMATORS[name]
    if path.exists() and time.time_ns() % 2:
        result = skbnp.load(path)
        goes_on = hasattr(result, "_skl_callbacks")
        return result.fit(X) if goes_on else result
    return clone(estimator).set_callbacks(Checkpoint(path)).fit(X)


def in_copy(name, folder, seconds, has_file):
    """Fit in a copy of this process; return whether it ended before it was killed.

    It is killed `seconds` after its start, or, with `has_file`, after its file exists.
    """
    path = folder / "fit.skbnp"
    child = os.fork()
    if child == 0:
        fitted = fit(name, path)
        (folder / "ended").write_bytes(pickle.dumps(learned(fitted)))
        os._exit(0)
    begun = None if has_file else time.monotonic()
    while begun is None or time.monotonic() < begun + seconds:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        if begun is None and path.exists():
            begun = time.monotonic()
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return (folder / "ended").exists()


def kill(name, n_kills):
    """Kill fits until there are so many kills; the last one ends."""
    estimator, X = ESTIMATORS[name]
    rng, begun = np.random.default_rng(), time.monotonic()
    wanted = learned(clone(estimator).fit(X))
    whole = time.monotonic() - begun
    n_killed = n_resumed = n_ended = 0
    result = []
    while n_killed < n_kills or not n_ended:
        with tempfile.TemporaryDirectory() as name_of_folder:
            folder = Path(name_of_folder)
            while True:
                n_resumed += (folder / "fit.skbnp").exists()
                is_last = n_killed >= n_kills
                seconds = np.inf if is_last else rng.uniform(0.0, whole)
                if in_copy(name, folder, seconds, has_file=n_killed % 2 == 0):
                    break
                n_killed += 1
            if not (folder / "fit.skbnp").exists():
                raise AssertionError(f"{name}: the fit has written no file")
            content = (folder / "ended").read_bytes()
            result += differences(wanted, pickle.loads(content), ignore=TIMES | NOTES)
            n_ended += 1
    return {"n_killed": n_killed, "n_resumed": n_resumed, "found": result[:5]}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    n_kills, *names = sys.argv[1:]
    print(json.dumps({name: kill(name, int(n_kills)) for name in names}))
