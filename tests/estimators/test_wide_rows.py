"""A tree of many columns that no row has is warned of, before it takes memory."""

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from skbnp import DependentTrees, GibbsDependentTrees
from skbnp.dask import DependentTrees as DaskTrees
from skbnp.estimators import _cautions
from skbnp.estimators._cautions import warn_if_mostly_unseen

N_ROWS, N_FEATURES, N_SEEN = 60, 3000, 40
ROWS = np.random.default_rng(0).poisson(1.0, (N_ROWS, N_SEEN)) + np.eye(N_ROWS, N_SEEN)
EPOCHS = np.repeat([0, 1], N_ROWS // 2)
SPREAD = np.linspace(0, N_FEATURES - 1, N_SEEN).astype(int)


def wide(n_features=N_FEATURES):
    """The rows among columns that none of them has."""
    X = np.zeros((N_ROWS, n_features))
    X[:, SPREAD if n_features == N_FEATURES else slice(N_SEEN)] = ROWS
    return sp.csr_array(X)


def lazy(X):
    chunks = (20, X.shape[1])
    return da.from_array(X, chunks=chunks)


CASES = {
    "variational": (DependentTrees(max_iter=2, random_state=0), wide),
    "sampler": (GibbsDependentTrees(max_iter=2, random_state=0), wide),
    "dask": (DaskTrees(max_iter=2, random_state=0), lambda *n: lazy(wide(*n))),
}


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    """Call tables large from 1 kB on."""
    monkeypatch.setattr(_cautions, "LARGE_TABLE", 1e3)


def messages(call, *args, **kwargs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args, **kwargs)
    return [str(one.message) for one in caught if "some row" in str(one.message)]


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", CASES)
def test_columns_without_a_value_are_counted_over_all_epochs(name, method):
    model, rows = CASES[name]
    fit = type(model)(**model.get_params())
    found = messages(getattr(fit, method), rows(), epochs=EPOCHS)
    assert len(found) == 1
    for part in ("3,000 columns", " 40 have", "n_features=2**14", "VarianceThreshold"):
        assert part in found[0]
    assert not messages(fit.partial_fit, rows(), epochs=2)  # the table is there


@pytest.mark.parametrize("name", CASES)
def test_columns_of_which_half_have_a_value_are_not(name):
    model, rows = CASES[name]
    fit = type(model)(**model.get_params())
    assert not messages(fit.fit, rows(2 * N_SEEN), epochs=EPOCHS)
    assert messages(fit.fit, rows(2 * N_SEEN + 1), epochs=EPOCHS)


@pytest.mark.parametrize("name", CASES)
def test_tables_that_are_small_are_not(name, monkeypatch):
    monkeypatch.setattr(_cautions, "LARGE_TABLE", 1e8)
    model, rows = CASES[name]
    fit = type(model)(**model.get_params())
    assert not messages(fit.fit, rows(), epochs=EPOCHS)


def test_numbers_are_of_the_table_at_the_start(monkeypatch):
    """Of 200 rows in 2^20 columns; only where it is large are columns counted."""
    monkeypatch.setattr(_cautions, "LARGE_TABLE", 1e8)
    (found,) = messages(warn_if_mostly_unseen, 67, 2**20, lambda: 1500)
    for part in ("1,048,576 columns", "1,500", "0.56 GB for 67 nodes", "2.8 GB"):
        assert part in found
    assert not messages(warn_if_mostly_unseen, 67, 2**14, lambda: 1 // 0)
