"""Laws of the Dirichlet helpers."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import polygamma, psi

from skbnp.distributions import inverse_digamma, log_growth

EPSILON = np.finfo(float).eps


# Inverse of digamma -------------------------------------------------------------------


RANGES = {
    "tiny": np.logspace(-300, -6, 5001),
    "small": np.logspace(-6, 0, 5001),
    "around one": np.linspace(0.3, 3.0, 5001),
    "large": np.logspace(0, 12, 5001),
    "huge": np.logspace(12, 300, 5001),
}
ranges = pytest.mark.parametrize("x", RANGES.values(), ids=RANGES)


@ranges
def test_inverse_digamma_is_accurate_to_full_precision(x):
    """Relative error of x within what one rounding of psi(x) costs, times four.

    A relative error e of psi(x) moves x by |psi(x)| e / psi'(x).
    """
    value = psi(x)
    cost = np.maximum(np.abs(value) / (x * polygamma(1, x)), 1.0)
    with np.errstate(all="raise", under="ignore"):
        result = inverse_digamma(value)
    assert (np.abs(result / x - 1) <= 4 * EPSILON * cost).all()


@pytest.mark.parametrize("value", [-1e6, -300.0, -2.221, -2.219, 0.0, 1.0, 5.0, 30.0])
def test_inverse_digamma_is_the_root_that_bisection_finds(value):
    root = brentq(
        lambda log_x: psi(np.exp(log_x)) - value, -40, 40, xtol=1e-14, rtol=1e-15
    )
    np.testing.assert_allclose(inverse_digamma(np.array([value])), np.exp(root), 1e-12)


# Rising factorials --------------------------------------------------------------------


@pytest.mark.parametrize("prior", [1e-4, 0.05, 1.0, 30.0])
@pytest.mark.parametrize("count", [0, 1, 2, 17, 200])
def test_log_growth_is_the_log_of_a_rising_factorial(prior, count):
    expected = np.log(prior + np.arange(count)).sum()
    result = log_growth(np.float64(prior), np.float64(count))
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
