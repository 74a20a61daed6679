"""Expected tables of repeated words against all seatings, and leave-one-out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from checks.long import daily
from reference import restaurant as reference
from skbnp.kernels._restaurant import (
    MOST_TOKENS,
    expected_tables_grid,
    leave_one_out,
    n_grid_rows,
    tables_of,
)

#: The grid is linear between columns an eighth apart and, above 64 tokens, between
#: rows a twelfth part of an octave apart: relative error of E[t]. Largest at the bend
#: where hardly any token opens no table of its own, for discounts near one.
GRID = 0.004
EXACT = 1e-9


def tables(n, mass, discount, most=None):
    n, mass = np.broadcast_arrays(np.asarray(n, float), np.asarray(mass, float))
    grid = expected_tables_grid(
        discount, n_grid_rows(n.max() if most is None else most)
    )
    return tables_of(
        np.ascontiguousarray(n), np.ascontiguousarray(mass), grid, discount
    )


@pytest.mark.parametrize("discount", [0.0, 0.3, 0.75, 0.95])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("mass", [1e-3, 0.4, 3.0, 200.0])
def test_reference_equals_the_mean_over_all_seatings(mass, n, discount):
    by_seatings = reference.expected_tables_by_seatings(n, mass, discount)
    assert_allclose(
        reference.expected_tables(n, mass, discount), by_seatings, rtol=EXACT
    )


@pytest.mark.parametrize("discount", daily(3, [0.0, 0.5, 0.95, 0.1, 0.75]))
@pytest.mark.parametrize("n", [2, 5, 64, 65, 66, 131])
def test_tables_equal_the_reference(n, discount):
    masses = np.exp(np.linspace(-17.0, 17.0, 35))
    want = [reference.expected_tables(n, mass, discount) for mass in masses]
    assert_allclose(tables(n, masses, discount, most=300), want, rtol=GRID)


@pytest.mark.parametrize("discount", daily(1, [0.5, 0.0, 0.75]))
def test_tables_of_more_tokens_than_rows_go_on(discount):
    """As the last rows grow: within a twentieth at twice as many tokens."""
    n, masses = 2 * MOST_TOKENS, np.exp(np.linspace(-10.0, 4.0, 4))
    want = [reference.expected_tables(n, mass, discount) for mass in masses]
    assert_allclose(tables(n, masses, discount), want, rtol=0.05)


def some_document(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 12, size=15).astype(float)
    t = 1.0 + (counts - 1.0) * rng.random(15)
    return counts, t, rng.dirichlet(np.ones(15)) * 0.3


@pytest.mark.parametrize("concentration", [1.0, 30.0, 1e5])
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
def test_leave_one_out_equals_the_reference(discount, concentration, seed):
    counts, t, base = some_document(seed)
    sums = np.full(15, t.sum()), np.full(15, counts.sum())
    grid = expected_tables_grid(discount, n_grid_rows(counts.max()))
    result = leave_one_out(counts, t, base, *sums, grid, discount, concentration)
    want = reference.leave_one_out(counts, t, base, discount, concentration)
    assert_allclose(result, want, rtol=GRID, atol=GRID * counts.max())
    other = reference.leave_one_out(counts, t, 1.1 * base, discount, concentration)
    assert not np.allclose(result, other, rtol=GRID, atol=GRID)


@pytest.mark.parametrize("discount", [-0.1, 1.0, 1.5])
def test_discounts_out_of_range_are_refused(discount):
    with pytest.raises(ValueError, match="discount"):
        expected_tables_grid(discount, 5)
