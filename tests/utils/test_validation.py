"""Laws of the input checks below the estimators."""

import re
from types import SimpleNamespace

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from skbnp import HDP, DependentTrees, HierarchicalComponentAnalysis
from skbnp.utils.containers import as_counts
from skbnp.utils.validation import check_counts, check_gamma_prior


def csr(data, indices, indptr, dtype=np.float64, index_dtype=np.int32):
    X = sp.csr_array((3, 3), dtype=dtype)
    X.data = np.array(data, dtype=dtype)
    X.indices = np.array(indices, dtype=index_dtype)
    X.indptr = np.array(indptr, dtype=index_dtype)
    return X


def canonical(**types):
    return csr([2, 1, 4, 0.5], [1, 2, 0, 2], [0, 2, 2, 4], **types)


def stored_zeros(**types):
    return csr([0, 2, 1, 0, 4, 0.5], [0, 1, 2, 1, 0, 2], [0, 3, 4, 6], **types)


def unsorted(**types):
    return csr([1, 2, 0.5, 4], [2, 1, 2, 0], [0, 2, 2, 4], **types)


def duplicates(**types):
    return csr([1, 1, 1, 4, 0.5], [1, 1, 2, 0, 2], [0, 3, 3, 5], **types)


def room_to_spare(**types):
    return csr([0, 2, 1, 4, 0.5, 9, 9], [0, 1, 2, 0, 2, 0, 0], [0, 3, 3, 5], **types)


def read_only(**types):
    X = stored_zeros(**types)
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    return X


MATRICES = [canonical, stored_zeros, unsorted, duplicates, room_to_spare, read_only]
matrices = pytest.mark.parametrize("make", MATRICES)
types = pytest.mark.parametrize(
    "types",
    [
        {},
        {"dtype": np.float32},
        {"index_dtype": np.int64},
        {"dtype": np.float32, "index_dtype": np.int64},
    ],
    ids=["float64", "float32", "int64 indices", "float32, int64 indices"],
)


# The caller's matrix ------------------------------------------------------------------


def check_leaves_the_caller_matrix_alone(convert, make, types):
    X = make(**types)
    parts = X.data, X.indices, X.indptr
    copies = [part.copy() for part in parts]
    flags = {name: vars(X).get(name) for name in vars(X) if name.startswith("_has")}
    convert(X)
    for part, held, copied in zip(
        parts, (X.data, X.indices, X.indptr), copies, strict=True
    ):
        assert held is part
        np.testing.assert_array_equal(part, copied)
    assert flags == {name: vars(X).get(name) for name in flags}


@matrices
@types
def test_conversion_leaves_the_caller_matrix_alone(make, types):
    check_leaves_the_caller_matrix_alone(as_counts, make, types)


# What comes out -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("indptr", [0, 2, 1, 4], "decreases at row 1"),
        ("indptr", [1, 2, 2, 4], "must start at 0"),
        ("indptr", [0, 2, 4], "must have 4 entries"),
        ("indptr", [0, 2, 2, 9], "beyond the 4 stored entries"),
        ("indptr", [0.0, 2.0, 2.0, 4.0], "must hold integers"),
        ("indices", [1, 2, 0, 3], "column index 3 is out of range for 3 columns"),
        ("indices", [1, 2, 0, -1], "column index -1 is out of range"),
        ("indices", [1.0, 2.0, 0.0, 2.0], "column indices must be integers"),
    ],
)
def test_index_arrays_that_point_outside_are_refused(part, value, message):
    X = canonical()
    setattr(X, part, np.array(value))
    with pytest.raises(ValueError, match=message):
        check_counts(X, whom="test")


# Gamma priors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [(1, 2), [1.0, 2.0], np.array([1.0, 2.0]), (np.float32(1), np.int64(2))]
)
def test_pair_of_positive_numbers_is_a_gamma_prior(value):
    prior = check_gamma_prior(SimpleNamespace(name=value), "name")
    assert prior == (1.0, 2.0)
    assert [type(part) for part in prior] == [float, float]


@pytest.mark.parametrize(
    "value",
    [
        (0, 1),
        (1, 0),
        (-1, 1),
        (1, -1),
        (np.nan, 1),
        (1, np.nan),
        (np.inf, 1),
        (1, np.inf),
        (1,),
        (1, 2, 3),
        (),
        ("shape", "rate"),
        (1, None),
        ((1, 2), (3, 4)),
        1.0,
        None,
        (1j, 1),
        (1e300, 1e300),  # log densities overflow
    ],
    ids=repr,
)
def test_anything_else_is_refused_by_name_and_value(value):
    estimator = SimpleNamespace(doc_concentration_prior=value)
    message = (
        "doc_concentration_prior must be a (shape, rate) pair of two positive "
        f"numbers, in [1e-100, 1e+20], got {value!r}."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_gamma_prior(estimator, "doc_concentration_prior")


def test_more_tokens_than_floats_can_weigh_are_refused():
    with pytest.raises(ValueError, match=r"X must hold fewer than 1e\+100 tokens"):
        check_counts([[1e300, 1.0]], whom="test")


def test_duplicates_of_small_integers_are_summed_without_overflow():
    coords = (np.zeros(2, dtype=int), np.zeros(2, dtype=int))
    data = np.array([200, 100], dtype=np.uint8)
    got = check_counts(sp.coo_array((data, coords), shape=(1, 1)), whom="test")
    assert got.toarray() == [[300.0]]


@pytest.mark.parametrize(
    "texts",
    [
        "rain",
        ["rain", "sun"],
        np.array(["rain", "sun"]),
        [["rain", "sun"], ["snow"]],
        [[], ["snow"]],
        [[(0, 1), (3, 2)], [(1, 1)]],
    ],
    ids=["text", "texts", "array", "tokens", "no tokens", "bags"],
)
def test_texts_are_refused_by_naming_what_counts_words(texts):
    with pytest.raises(ValueError, match="CountVectorizer"):
        check_counts(texts, whom="fit")


class Annotated:
    """A matrix with names of rows and columns, as anndata has it."""

    X = obs = var = np.eye(4)
    shape = (4, 4)


@pytest.mark.parametrize(
    "model", [HDP(), DependentTrees(), HierarchicalComponentAnalysis()]
)
@pytest.mark.parametrize("method", ["fit", "fit_transform", "partial_fit"])
def test_an_annotated_matrix_is_refused_by_naming_the_matrix_in_it(model, method):
    with pytest.raises(TypeError, match=r"X must be a matrix, got Annotated.*adata\.X"):
        getattr(clone(model), method)(Annotated())
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    "model", [HDP(), DependentTrees(), HierarchicalComponentAnalysis()]
)
def test_lazy_rows_are_refused_by_naming_what_takes_them(model):
    frame = pd.DataFrame(np.eye(4)).add_prefix("w")
    sparse = da.ones((4, 4), chunks=(2, 4)).map_blocks(sp.csr_array)
    for X in (sparse, dd.from_pandas(frame, npartitions=2)):
        with pytest.raises(TypeError, match=r"X\.compute\(\).*skbnp\.dask"):
            model.fit(X)


def test_negative_counts_are_refused_by_naming_what_takes_them():
    message = (
        r"^Negative values in data passed to fit\. .*got -2; .*"
        "HierarchicalComponentAnalysis, DependentTrees and GibbsDependentTrees"
    )
    for X in ([[1.0, -2.0]], sp.csr_array([[1.0, -2.0]])):
        with pytest.raises(ValueError, match=message):
            check_counts(X, whom="fit")
    assert check_counts([[1.0, 2.0]], whom="fit").sum() == 3
