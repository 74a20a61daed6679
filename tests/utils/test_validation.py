"""Laws of the input checks below the estimators."""

import re
from types import SimpleNamespace

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import clone

from skbnp import HDP, DependentTrees, HierarchicalComponentAnalysis
from skbnp.utils.validation import check_counts, check_gamma_prior

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
        (1, -1),
        (1, np.nan),
        (1, np.inf),
        (1,),
        (1, 2, 3),
        ("shape", "rate"),
        (1, None),
        None,
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
        np.array(["rain", "sun"]),
        [["rain", "sun"], ["snow"]],
        [[(0, 1), (3, 2)], [(1, 1)]],
        [b"rain", b"sun"],
    ],
    ids=["text", "array", "tokens", "bags", "bytes"],
)
def test_texts_are_refused_by_naming_what_counts_words(texts):
    with pytest.raises(ValueError, match="CountVectorizer"):
        check_counts(texts, whom="fit")


OF_EACH_KIND = pytest.mark.parametrize(
    "model", [HDP(), DependentTrees(), HierarchicalComponentAnalysis()]
)


@OF_EACH_KIND
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_column_of_texts_is_named(model, kind):
    columns = {"id": ["1", "2"], "answer": ["4", "rain and sun"], "age": [20, 30]}
    says = (
        r"X must hold numbers, got 'rain and sun' in column 'answer'.*CountVectorizer"
    )
    with pytest.raises(ValueError, match=says):
        model.fit(kind(columns))
    assert not hasattr(model, "n_features_in_")


def test_columns_of_arrays_have_numbers_and_texts_of_numbers_are_read():
    with pytest.raises(ValueError, match=r"weights must hold numbers.* in column 1"):
        check_counts(np.array([["1", "rain"]]), name="weights", whom="test")
    assert check_counts(np.array([["1", "2"]]), whom="test").sum() == 3.0


class Tensor:
    """An array of another library, which NumPy may not read where it is."""

    shape, ndim, dtype = (40, 4), 2, np.dtype(float)

    def __init__(self, is_near):
        self.is_near = is_near

    def __len__(self):
        return len(X)

    def __dlpack__(self):
        """Hand it to other libraries."""

    def __array__(self, dtype=None, copy=None):
        if not self.is_near:
            raise TypeError("Implicit conversion is not allowed")
        return X.astype(dtype)


X = np.arange(160).reshape(40, 4) % 7 + 1.0


@OF_EACH_KIND
def test_arrays_on_other_devices_are_refused_by_naming_the_conversion(model):
    says = r"X must be an array of NumPy, got .*Tensor.*numpy\.asarray\(X\).*X\.cpu\(\)"
    with pytest.raises(TypeError, match=says):
        model.fit(Tensor(is_near=False))
    model = (
        clone(model).set_params(max_iter=2, random_state=0).fit(Tensor(is_near=True))
    )
    expected = clone(model).fit(X).transform(X)
    assert_array_equal(model.transform(Tensor(is_near=True)), expected)
    with config_context(array_api_dispatch=True):
        with pytest.raises(TypeError, match=says):
            model.transform(Tensor(is_near=True))
        assert_array_equal(model.transform(X), expected)


class Annotated:
    """A matrix with names of rows and columns, as anndata has it."""

    X = obs = var = np.eye(4)
    shape = (4, 4)


@OF_EACH_KIND
@pytest.mark.parametrize("method", ["fit", "fit_transform", "partial_fit"])
def test_an_annotated_matrix_is_refused_by_naming_the_matrix_in_it(model, method):
    with pytest.raises(TypeError, match=r"X must be a matrix, got Annotated.*adata\.X"):
        getattr(clone(model), method)(Annotated())
    assert not hasattr(model, "n_features_in_")


@OF_EACH_KIND
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
