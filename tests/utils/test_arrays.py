"""Rows some at a time, and matrices that are put together unchecked."""

import numpy as np
import pytest
import scipy.sparse as sp

from skbnp.utils.arrays import (
    at_columns,
    column_sums,
    csr,
    deal_tokens,
    row_parts,
    take_rows,
)

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


def test_values_stand_at_the_columns_of_their_rows():
    columns = np.array([[0, 2, -1], [-1, -1, -1], [1, -1, 0]])
    values = np.arange(9.0).reshape(3, 3) + 1.0
    result = at_columns(columns, values, 4)
    assert (result.toarray() == [[1, 0, 2, 0], [0, 0, 0, 0], [9, 7, 0, 0]]).all()


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (7, 0), (100, 7), (100, 1000)])
def test_parts_hold_each_row_once(shape):
    rows = [np.arange(shape[0])[part] for part in row_parts(shape, 50)]
    np.testing.assert_array_equal(
        np.concatenate([np.zeros(0, int), *rows]), range(shape[0])
    )


@pytest.mark.parametrize("n_columns", [2, 3, 7, 16, 101])
@pytest.mark.parametrize("size", [1, 500, 10_000])
def test_sums_by_part_have_the_bits_of_one_sum(n_columns, size):
    values = np.random.default_rng(0).gamma(0.1, size=(999, n_columns))
    parts = (values[rows].copy() for rows in row_parts(values.shape, size))
    np.testing.assert_array_equal(column_sums(parts, n_columns), values.sum(axis=0))


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_parts_sum_to_the_documents_and_leave_them(scale):
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.poisson(0.7, (40, 30)) * scale)
    before = [part.copy() for part in (X.data, X.indices, X.indptr)]
    sums = np.zeros(X.shape)
    for rows, part, rest in deal_tokens(X, 3, rng):
        np.testing.assert_allclose((part + rest).toarray(), X[rows].toarray())
        assert part.data.min() > 0.0
        assert (np.diff(part.indptr) > 0).all()
        assert (np.diff(rest.indptr) > 0).all()
        sums[rows] += part.toarray()
    for old, new in zip(before, (X.data, X.indices, X.indptr), strict=True):
        np.testing.assert_array_equal(old, new)
    assert (sums <= X.toarray() + 1e-9).all()
    long = np.asarray(X.sum(axis=1)).ravel() > 12 * scale
    np.testing.assert_allclose(sums[long], X.toarray()[long])


def test_parts_have_equal_shares_of_the_tokens():
    X = sp.csr_array(np.full((200, 5), 6.0))
    rng = np.random.default_rng(1)
    shares = [part.sum() / X.sum() for _, part, _ in deal_tokens(X, 4, rng)]
    np.testing.assert_allclose(shares, 0.25, atol=5 * np.sqrt(0.19 / 6000))
