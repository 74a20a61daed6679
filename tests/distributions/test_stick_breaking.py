"""Expected weights of broken sticks, by simulation and by definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skbnp.distributions import log_weights, mean_weights


def drawn(a, b, n_draws=400_000):
    shares = np.random.default_rng(0).beta(a, b, size=(n_draws, len(a)))
    taken = np.column_stack([shares, np.ones(n_draws)])
    left = np.column_stack([np.ones(n_draws), np.cumprod(1.0 - shares, axis=1)])
    return taken * left


@pytest.mark.parametrize(
    ("expected", "of"), [(mean_weights, np.asarray), (log_weights, np.log)]
)
def test_expectations_are_those_of_draws(expected, of):
    a, b = np.array([3.0, 2.0, 6.0]), np.array([4.0, 9.0, 2.5])
    values = of(drawn(a, b))
    error = values.std(axis=0) / np.sqrt(len(values))
    assert (np.abs(expected(a, b) - values.mean(axis=0)) < 5.0 * error).all()
    assert (np.abs(expected(b, a) - values.mean(axis=0)) > 5.0 * error).any()


def test_rows_are_sticks_of_their_own(seed):
    a, b = np.random.default_rng(seed).gamma(2.0, size=(2, 5, 3))
    for function in (mean_weights, log_weights):
        together = function(a, b)
        for row in range(5):
            assert_allclose(together[row], function(a[row], b[row]))
    assert_allclose(mean_weights(a, b).sum(axis=1), 1.0)
