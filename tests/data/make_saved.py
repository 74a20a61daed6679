"""Write one small saved estimator of each kind, and checkpoints of fits on shards.

Run from the root of the repository as `python tests/data/make_saved.py NAME ...`;
without names it writes the files that are missing. Files that exist are kept: they
stand for what users have saved, and `tests/checks/test_saved_files.py` loads them.
"""

import gzip
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import dask.array as da
import numpy as np
import skops.io as sio
from sklearn.base import clone

import skbnp.dask as sharded
from skbnp.dask import _checkpoints

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from checks.estimators import INSTANCES

#: Estimators by the name of their file, two families of HDP among them.
SAVED = {
    "hdp-collapsed": "HDP-online",
    "hdp-mean-field": "HDP-memoized",
    "stick-breaking-hdp": "StickBreakingHDP-online",
    "gibbs-hdp": "GibbsHDP-chains",
    "gibbs-nested-crp": "GibbsNestedCRP",
    "nested-crp": "NestedCRP-memoized-moves",
    "nested-hdp": "NestedHDP-online",
    "hca": "HierarchicalComponentAnalysis-moves",
    "dependent-trees": "DependentTrees",
    "gibbs-dependent-trees": "GibbsDependentTrees",
}
#: Estimators on shards by the name of their checkpoint, and the pass that it is of.
CHECKPOINTS = {
    "hdp-shards": (
        sharded.HDP(2, max_iter=40, burstiness="auto", random_state=1),
        12,
    ),
    "hdp-shards-batch": (
        sharded.HDP(
            3, max_iter=2, learning_method="batch", split_merge=False, random_state=0
        ),
        1,
    ),
    "dependent-trees-shards": (
        sharded.DependentTrees(4, max_iter=2, tol=0.0, random_state=0),
        2,
    ),
}


def rows_of(name):
    """Return rows of 8 columns, counts or signed, of two groups."""
    rng = np.random.default_rng(0)
    groups = np.array([[4.0] * 4 + [0.2] * 4, [0.2] * 4 + [4.0] * 4])
    n_rows = 40 if name == "hdp-shards" else 24  # of which some are held out
    counts = rng.poisson(groups[rng.integers(2, size=n_rows)])
    return counts - counts.mean(axis=0) if name == "hca" else counts


def save(name):
    """Fit an estimator, and write it with the evaluation of some rows."""
    rows = rows_of(name)
    estimator = clone(INSTANCES[SAVED[name]]).fit(rows)
    path = FOLDER / f"{name}.skops"
    sio.dump(estimator, path, compression=zipfile.ZIP_DEFLATED, compresslevel=9)
    np.save(FOLDER / f"{name}.npy", estimator.transform(rows[:3]))


def checkpoint(name):
    """Fit an estimator on shards, and write the checkpoint of a pass, compressed."""
    rows = rows_of(name)
    estimator, n_passes = CHECKPOINTS[name]
    _checkpoints.N_KEPT = sys.maxsize
    with tempfile.TemporaryDirectory() as folder:
        estimator = clone(estimator).set_params(checkpoint_dir=folder)
        estimator.fit(da.from_array(rows, chunks=(len(rows) // 2, -1)))
        content = (Path(folder) / f"pass-{n_passes:06d}.npz").read_bytes()
    (FOLDER / f"{name}.npz.gz").write_bytes(gzip.compress(content, mtime=0))


def main(names):
    """Write the files that are named, or those that are missing."""
    warnings.simplefilter("ignore")
    there = {path.name.split(".")[0] for path in FOLDER.iterdir()}
    for name in names or [*SAVED, *CHECKPOINTS]:
        if names or name not in there:
            (save if name in SAVED else checkpoint)(name)


if __name__ == "__main__":
    main(sys.argv[1:])
