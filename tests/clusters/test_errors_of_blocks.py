"""Errors of the data are raised at once, by block and with their cause."""

from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from dask.delayed import delayed
from distributed import Client
from sklearn.base import clone

from checks.worker_pools import ScriptedPool, scripted_workers
from skbnp.dask import HDP, DependentTrees
from skbnp.dask._shards import WorkerShards

ROWS = np.random.default_rng(0).poisson(1.0, size=(20, 6)).astype(np.float64)
TEXTS = ["one text", "another one"]
MODELS = {
    "HDP": HDP(4, max_iter=1, random_state=0),
    "DependentTrees": DependentTrees(4, max_iter=1, random_state=0),
}


class OwnError(Exception):
    """Asks for two arguments."""

    def __init__(self, what, where):
        super().__init__(f"{what} of {where}")


def _raise(error):
    raise error


def _with(value):
    rows = ROWS.copy()
    rows[3, 2] = value
    return rows


def block(make, *args, **more):
    return delayed(make)(*args, **more)


#: What the second block may be: an error, and what is said of it.
BLOCKS = {
    "raises": (block(_raise, ZeroDivisionError("by zero")), ZeroDivisionError, "zero"),
    "raises its own": (block(_raise, OwnError("a", "b")), RuntimeError, "OwnError: a"),
    "texts": (block(list, TEXTS), ValueError, "CountVectorizer"),
    "a number": (block(float, 5), ValueError, "matrix of rows, got a float"),
    "one dimension": (block(np.array, [1.0, 2.0]), ValueError, "Expected 2D"),
    "ragged": (block(list, [[1, 2], [3]]), ValueError, r"shapes: \(1,\), \(2,\)"),
    "missing": (block(_with, np.nan), ValueError, "NaN"),
    "no file": ("/nowhere/a.npz", FileNotFoundError, "/nowhere/a.npz.*CountVectorizer"),
}
OF_COUNTS = {"negative": (block(_with, -1.0), ValueError, "Negative")}


def workers_of(kind):
    """Return a context of a client, which is on scripted workers, or None."""
    return scripted_workers(ScriptedPool(2)) if kind == "workers" else nullcontext()


@pytest.mark.parametrize("where", ["here", "workers"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", [*BLOCKS, *OF_COUNTS])
def test_an_error_of_a_block_is_raised_by_number(name, model, where):
    second, kind, message = (BLOCKS | OF_COUNTS)[name]
    if name in OF_COUNTS and model != "HDP":
        second, kind, message = BLOCKS["missing"]
    blocks = [delayed(ROWS), second, delayed(ROWS)]
    pattern = rf"(?s)^['\"]?Block 1 of X: .*{message}"
    with workers_of(where) as client:
        estimator = clone(MODELS[model]).set_params(client=client)
        with pytest.raises(kind, match=pattern) as caught:
            estimator.fit(blocks)
    assert caught.value.__cause__ is not None
    assert not hasattr(estimator, "n_features_in_")


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "other arrays", "objects"])
@pytest.mark.parametrize("model", MODELS)
def test_a_damaged_file_is_named(tmp_path, model, damage):
    paths = [tmp_path / f"{name}.npz" for name in "ab"]
    for path in paths:
        sp.save_npz(path, sp.csr_array(ROWS))
    content = paths[1].read_bytes()
    if damage == "other arrays":
        np.savez(paths[1], X=ROWS)
    elif damage == "objects":
        with np.load(paths[1]) as file:
            arrays = dict(file)
        np.savez(paths[1], **arrays | {"data": np.array([{}], dtype=object)})
    else:
        damaged = {"cut": content[:200], "empty": b"", "text": b"x" * 100}[damage]
        paths[1].write_bytes(damaged)
    for where in ("here", "workers"):
        with workers_of(where) as client:
            estimator = clone(MODELS[model]).set_params(client=client)
            with pytest.raises(ValueError, match=r"Block 1 of X: The file .*b\.npz"):
                estimator.fit(paths)


def test_a_cluster_raises_the_error_of_a_block_with_its_cause(monkeypatch):
    """Before any worker has been given up."""
    given_up = []
    monkeypatch.setattr(
        WorkerShards, "_forget", lambda self, worker: given_up.append(1)
    )
    with Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None
    ) as client:
        for name, estimator in MODELS.items():
            estimator = clone(estimator).set_params(client=client)
            blocks = [delayed(ROWS), BLOCKS["raises"][0]]
            with pytest.raises(ZeroDivisionError, match="Block 1 of X: by zero") as got:
                estimator.fit(blocks)
            assert isinstance(got.value.__cause__, ZeroDivisionError), name
            assert not given_up
        HDP(4, max_iter=1, client=client, random_state=0).fit([delayed(ROWS)] * 2)
