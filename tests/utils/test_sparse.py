"""Matrices that are put together unchecked, against SciPy's."""

import numpy as np
import pytest
import scipy.sparse as sp

from skbnp.utils import sparse
from skbnp.utils.sparse import at_columns, csr, take_rows

#: A matrix with an empty row first, within and last.
X = sp.csr_array(np.array([[0, 0, 0], [1, 0, 2], [0, 0, 0], [0, 3, 0], [0, 0, 0.0]]))

ROWS = {
    "all": slice(None),
    "together": slice(1, 4),
    "none together": slice(2, 2),
    "beyond the end": slice(3, 9),
    "numbers": np.array([3, 0, 1, 1]),
    "no numbers": np.zeros(0, dtype=np.intp),
}


def assert_same(made, given):
    assert vars(made).keys() == vars(given).keys()
    assert made.shape == given.shape
    for name in ("data", "indices", "indptr"):
        mine, theirs = getattr(made, name), getattr(given, name)
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("widths", [("i4", "i4"), ("i4", "i8"), ("i8", "i8")])
def test_csr_is_what_scipy_makes(widths):
    parts = X.data, X.indices.astype(widths[0]), X.indptr.astype(widths[1])
    assert_same(csr(*parts, X.shape), sp.csr_array(parts, X.shape))


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_rows_are_those_of_scipy(rows):
    assert_same(take_rows(X, rows), sp.csr_array(X[rows]))


def test_another_layout_of_scipy_is_noticed(monkeypatch):
    assert sparse._is_like_scipys()
    monkeypatch.setattr(sparse, "_EMPTY", sp.csc_array((1, 1)))
    monkeypatch.setattr(sparse._EMPTY, "more", 1, raising=False)
    assert not sparse._is_like_scipys()
    monkeypatch.setattr(sparse, "_IS_LIKE_SCIPYS", False)
    assert_same(csr(X.data, X.indices, X.indptr, X.shape), X.copy())


def test_values_stand_at_the_columns_of_their_rows():
    columns = np.array([[0, 2, -1], [-1, -1, -1], [1, -1, 0]])
    values = np.arange(9.0).reshape(3, 3) + 1.0
    result = at_columns(columns, values, 4)
    assert (result.toarray() == [[1, 0, 2, 0], [0, 0, 0, 0], [9, 7, 0, 0]]).all()
