"""Large arrays some rows at a time."""

import numpy as np
import pytest

from skbnp.utils.parts import column_sums, row_parts


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


def test_nothing_sums_to_zero():
    np.testing.assert_array_equal(column_sums([], 3), np.zeros(3))
