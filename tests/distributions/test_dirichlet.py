"""Laws of the Dirichlet helpers."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import polygamma, psi

from skbnp.distributions.dirichlet import inverse_digamma, log_growth

EPSILON = np.finfo(float).eps


# Inverse of digamma -------------------------------------------------------------------


def check_inverts_digamma(inverse, x):
    """Relative error of x within what one rounding of psi(x) costs, times four.

    A relative error e of psi(x) moves x by |psi(x)| e / psi'(x).
    """
    value = psi(x)
    cost = np.maximum(np.abs(value) / (x * polygamma(1, x)), 1.0)
    with np.errstate(all="raise", under="ignore"):
        result = inverse(value)
    assert (np.abs(result / x - 1) <= 4 * EPSILON * cost).all()


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
    check_inverts_digamma(inverse_digamma, x)


def start_alone(value):
    return np.where(value >= -2.22, np.exp(value) + 0.5, -1 / (value + np.euler_gamma))


def two_newton_steps(value):
    x = start_alone(value)
    for _ in range(2):
        x = x - (psi(x) - value) / polygamma(1, x)
    return x


@pytest.mark.parametrize("wrong", [start_alone, two_newton_steps, np.exp])
def test_inversion_check_rejects_rough_inverses(wrong):
    with pytest.raises((AssertionError, FloatingPointError)):
        check_inverts_digamma(wrong, RANGES["around one"])


@pytest.mark.parametrize("value", [-1e6, -300.0, -2.221, -2.219, 0.0, 1.0, 5.0, 30.0])
def test_inverse_digamma_is_the_root_that_bisection_finds(value):
    root = brentq(
        lambda log_x: psi(np.exp(log_x)) - value, -40, 40, xtol=1e-14, rtol=1e-15
    )
    np.testing.assert_allclose(inverse_digamma(np.array([value])), np.exp(root), 1e-12)


@pytest.mark.parametrize("value", [-1e9, -1e100, -1e300, -1e305])
def test_inverse_digamma_of_far_negative_values_is_minus_the_reciprocal(value):
    """psi(x) = -1 / x - euler_gamma + O(x)."""
    expected = -1 / (value + np.euler_gamma)
    np.testing.assert_allclose(inverse_digamma(np.array([value])), expected, rtol=1e-15)


@pytest.mark.parametrize("value", [50.0, 400.0, 709.0])
def test_inverse_digamma_of_large_values_is_the_exponential(value):
    """psi(x) = log x - 1 / (2 x) + ..., and log x has an error of value * epsilon."""
    result = inverse_digamma(np.array([value]))
    np.testing.assert_allclose(result, np.exp(value), rtol=4 * EPSILON * value)


@pytest.mark.parametrize("switch", [-1e8, -2.22])
def test_inverse_digamma_does_not_jump_where_the_method_changes(switch):
    around = switch * (1 + np.array([1e-13, 0.0, -1e-13]))
    result = inverse_digamma(around)
    assert (np.diff(result) >= 0).all()
    np.testing.assert_allclose(result, result[1], rtol=1e-12)


def test_inverse_digamma_rises():
    value = np.concatenate([-np.logspace(300, -3, 4001), np.linspace(0, 700, 4001)])
    assert (np.diff(inverse_digamma(value)) > 0).all()


def test_inverse_digamma_keeps_shape_and_input():
    value = np.array([[-5.0, 0.0, 2.0], [-1e9, 1.0, 7.0]])
    before = value.copy()
    result = inverse_digamma(value)
    assert result.shape == value.shape
    np.testing.assert_array_equal(value, before)
    assert result[1, 2] == inverse_digamma(value[1, 2])


def test_inverse_digamma_of_nothing_is_nothing():
    assert inverse_digamma(np.zeros(0)).shape == (0,)


# Rising factorials --------------------------------------------------------------------


@pytest.mark.parametrize("prior", [1e-4, 0.05, 1.0, 30.0])
@pytest.mark.parametrize("count", [0, 1, 2, 17, 200])
def test_log_growth_is_the_log_of_a_rising_factorial(prior, count):
    expected = np.log(prior + np.arange(count)).sum()
    result = log_growth(np.float64(prior), np.float64(count))
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


def test_log_growth_by_nothing_is_exactly_zero():
    assert (log_growth(np.logspace(-10, 10, 101), np.zeros(101)) == 0.0).all()
