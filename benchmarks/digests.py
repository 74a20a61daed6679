"""Digests of what forty fits have learned: whether a change has changed bits.

    python benchmarks/digests.py record   writes digests.json, of this processor
    python benchmarks/digests.py check    compares, and exits with 1 if any differs
    python benchmarks/digests.py check hdp-default trees-stream

Each estimator and family, streams, resumed fits, two threads, starts from known topics
and Dask, on planted data, in two minutes. A digest is of the fitted attributes (arrays,
numbers, texts), of `transform` and of `score`. Bits of sums depend on the instruction
set, so the record is of one machine and not in git: it is made at one commit, and
compared at another.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
import warnings
from numbers import Number
from pathlib import Path

for _name in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp

import skbnp
from skbnp import (
    HDP,
    DependentTrees,
    GibbsDependentTrees,
    GibbsHDP,
    GibbsNestedCRP,
    HierarchicalComponentAnalysis,
    KnownTopics,
    NestedCRP,
    NestedHDP,
    StickBreakingHDP,
)
from skbnp.datasets import (
    make_bars,
    make_dependent_trees,
    make_hdp,
    make_subspace_tree,
    make_tree,
)
from skbnp.estimators import SplitMerge

RECORD = Path(os.environ.get("SKBNP_DIGESTS", "digests.json"))
#: What depends on the clock, or repeats the other attributes.
LEFT_OUT = {"history_", "n_features_in_", "feature_names_in_"}

BARS = make_bars(300, side=5, n_words=60, random_state=0).data
FEW = make_hdp(120, n_features=100, n_words=40, n_components=5, random_state=1).data
TREE = make_tree(150, n_features=60, n_words=50, random_state=0).data
CLOUD = make_subspace_tree(200, n_features=12, random_state=0).data
EPOCHS = make_dependent_trees(100, n_epochs=3, n_features=15, random_state=0)
SEEDS = {"first": [0, 1, 2, 3, 4], "second": [5, 6, 7, 8, 9]}


def _chunks(X, size):
    return [X[begin : begin + size] for begin in range(0, X.shape[0], size)]


def _fit(estimator, X=BARS, **arguments):
    return estimator.fit(X, **arguments), X


def _stream(estimator, X=BARS, size=100):
    for chunk in _chunks(X, size):
        estimator.partial_fit(chunk)
    return estimator, X


def _epochs(estimator):
    return estimator.fit(EPOCHS.data, epochs=EPOCHS.epochs), None


def _epoch_stream(estimator):
    for epoch in np.unique(EPOCHS.epochs):
        rows = EPOCHS.epochs == epoch
        estimator.partial_fit(EPOCHS.data[rows], epochs=EPOCHS.epochs[rows])
    return estimator, None


def _resumed(estimator, X=BARS):
    """Fit for three passes, save, load, and go on to the end."""
    max_iter = estimator.max_iter
    estimator.set_params(max_iter=3, warm_start=True).fit(X)
    with tempfile.TemporaryDirectory() as folder:
        skbnp.save(estimator, Path(folder, "fit.skbnp"))
        estimator = skbnp.load(Path(folder, "fit.skbnp"))
    return estimator.set_params(max_iter=max_iter).fit(X), X


def _broken_off(estimator, X=BARS):
    """Go on from a checkpoint of the third pass."""
    from skbnp.callbacks import Checkpoint

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fit")
        max_iter = estimator.max_iter
        estimator.set_callbacks(Checkpoint(path)).set_params(max_iter=3).fit(X)
        estimator = skbnp.load(path).set_params(max_iter=max_iter)
        return estimator.fit(X), X


def _on_workers(name, **settings):
    """Fit on two workers of this process."""
    from distributed import Client

    import skbnp.dask

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False}
    with Client(**options, dashboard_address=None):
        estimator = getattr(skbnp.dask, name)(random_state=0, **settings)
        if name == "HDP":
            return estimator.fit(_chunks(sp.csr_array(BARS), 75)), None
        return estimator.fit(
            _chunks(EPOCHS.data, 75), epochs=_chunks(EPOCHS.epochs, 75)
        ), None


def _hdp(**settings):
    return HDP(**{"random_state": 0, "min_gain": 0} | settings)


def _mean_field(**settings):
    return _hdp(variational_family="mean_field", **settings)


def _warm():
    estimator = _hdp(max_iter=10, warm_start=True).fit(BARS[:200])
    return estimator.set_params(max_iter=15).fit(BARS[100:]), BARS


FITS = {
    "hdp-default": lambda: _fit(_hdp()),
    "hdp-min-gain": lambda: _fit(_hdp(min_gain=0.005)),
    "hdp-seed-1": lambda: _fit(_hdp(random_state=1)),
    "hdp-few": lambda: _fit(_hdp(), FEW),
    "hdp-two-threads": lambda: _fit(_hdp(n_jobs=2)),
    "hdp-no-burstiness": lambda: _fit(_hdp(burstiness=False)),
    "hdp-fixed": lambda: _fit(_hdp(n_components=12, split_merge=False)),
    "hdp-memoized": lambda: _fit(_hdp(learning_method="memoized", max_iter=20)),
    "hdp-seeds": lambda: _fit(_hdp(topic_word_prior=SEEDS)),
    "hdp-known": lambda: _fit(
        _hdp(topic_word_prior=KnownTopics(np.eye(3, 25) + 0.01, weight=50.0))
    ),
    "hdp-short-trials": lambda: _fit(_hdp(split_merge=SplitMerge(trial_passes=2))),
    "hdp-stream": lambda: _stream(_hdp()),
    "hdp-stream-20": lambda: _stream(_hdp(n_components=2), size=20),
    "hdp-resumed": lambda: _resumed(_hdp(max_iter=12)),
    "hdp-broken-off": lambda: _broken_off(_hdp(max_iter=12)),
    "hdp-warm": _warm,
    "hdp-dask": lambda: _on_workers("HDP", n_components=20, max_iter=15, min_gain=0),
    "mean-field": lambda: _fit(_mean_field(max_iter=20)),
    "mean-field-printed": lambda: _fit(
        _mean_field(n_components=20, split_merge=SplitMerge.paper(), max_iter=10)
    ),
    "mean-field-fixed": lambda: _fit(_mean_field(n_components=12, split_merge=False)),
    "mean-field-memoized": lambda: _fit(
        _mean_field(n_components=12, learning_method="memoized", split_merge=False)
    ),
    "mean-field-batch": lambda: _fit(
        _mean_field(n_components=12, learning_method="batch", split_merge=False)
    ),
    "mean-field-stream": lambda: _stream(_mean_field(n_components=12)),
    "nested-hdp": lambda: _fit(NestedHDP(random_state=0)),
    "nested-hdp-stream": lambda: _stream(NestedHDP(random_state=0)),
    "sticks": lambda: _fit(StickBreakingHDP(random_state=0)),
    "sticks-batch": lambda: _fit(
        StickBreakingHDP(15, learning_method="batch", random_state=0)
    ),
    "sticks-stream": lambda: _stream(StickBreakingHDP(random_state=0)),
    "gibbs-hdp": lambda: _fit(GibbsHDP(max_iter=40, random_state=0)),
    "gibbs-hdp-chains": lambda: _fit(
        GibbsHDP(max_iter=20, n_chains=2, n_jobs=2, random_state=0)
    ),
    "nested-crp": lambda: _fit(NestedCRP(max_iter=15, random_state=0), TREE),
    "nested-crp-factorised": lambda: _fit(
        NestedCRP(local_family="factorised", max_iter=8, random_state=0), TREE
    ),
    "nested-crp-stream": lambda: _stream(NestedCRP(random_state=0), TREE, 50),
    "nested-crp-gibbs": lambda: _fit(GibbsNestedCRP(max_iter=40, random_state=0), TREE),
    "components": lambda: _fit(
        HierarchicalComponentAnalysis(max_iter=20, random_state=0), CLOUD
    ),
    "components-stream": lambda: _stream(
        HierarchicalComponentAnalysis(random_state=0), CLOUD[:120], 60
    ),
    "trees": lambda: _epochs(DependentTrees(max_iter=20, random_state=0)),
    "trees-two-threads": lambda: _epochs(
        DependentTrees(max_iter=20, n_jobs=2, random_state=0)
    ),
    "trees-stream": lambda: _epoch_stream(DependentTrees(random_state=0)),
    "trees-gibbs": lambda: _epochs(GibbsDependentTrees(max_iter=20, random_state=0)),
    "trees-dask": lambda: _on_workers("DependentTrees", max_iter=8),
}


def _add(value, digest):
    """Add the bits of a value; objects with fields of their own go by these."""
    if sp.issparse(value):
        value = value.toarray()
    if isinstance(value, np.ndarray) and value.dtype.kind in "OSU":
        value = value.tolist()
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, (Number, np.generic, str)) or value is None:
        digest.update(repr(value).encode())
    elif isinstance(value, dict):
        _add(sorted(map(str, value)), digest)
        for key in sorted(value, key=str):
            _add(value[key], digest)
    elif isinstance(value, (list, tuple)):
        digest.update(f"{len(value)}".encode())
        for entry in value:
            _add(entry, digest)


def digest_of(estimator, X):
    """Digest of fitted attributes, proportions and score."""
    digest = hashlib.blake2b(digest_size=12)
    for name in sorted(dir(estimator)):
        if name.startswith("_") or not name.endswith("_") or name in LEFT_OUT:
            continue
        _add(getattr(estimator, name, None), digest)
    if X is not None:
        _add(np.asarray(estimator.transform(X[:20])), digest)
        if hasattr(estimator, "score"):
            _add(float(estimator.score(X[:20])), digest)
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["record", "check"])
    parser.add_argument("fits", nargs="*", help="names of fits; all if none is given")
    args = parser.parse_args()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if args.action == "check" and not record:
        sys.exit(f"{RECORD} is not there: run `digests.py record` at an older commit.")
    warnings.simplefilter("ignore")
    different = 0
    for name in args.fits or FITS:
        begin = time.process_time()
        digest = digest_of(*FITS[name]())
        same = record.get(name) == digest
        different += not same
        word = "recorded" if args.action == "record" else "equal" if same else "DIFFERS"
        print(f"{name:24s}{time.process_time() - begin:7.1f} s  {word}", flush=True)
        if args.action == "record":
            record[name] = digest
    if args.action == "record":
        RECORD.write_text(json.dumps(record, indent=0) + "\n")
    elif different:
        sys.exit(f"{different} of {len(args.fits or FITS)} differ.")


if __name__ == "__main__":
    main()
