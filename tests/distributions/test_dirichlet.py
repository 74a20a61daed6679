"""Laws of the Dirichlet helpers."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import betaln, gammaln, polygamma, psi

from skbnp.distributions import dirichlet
from skbnp.distributions.dirichlet import (
    inverse_digamma,
    log_growth,
    log_marginal_gain,
)

EPSILON = np.finfo(float).eps


# Inverse of digamma -------------------------------------------------------------------


def check_inverts_digamma(inverse, x):
    """Relative error of x within what one rounding of psi(x) costs, times four.

    A relative error e of psi(x) moves x by |psi(x)| e / psi'(x).
    """
    value = psi(x)
    cost = np.maximum(np.abs(value) / (x * polygamma(1, x)), 1.0)
    with np.errstate(all="raise", under="ignore"):
        found = inverse(value)
    assert (np.abs(found / x - 1) <= 4 * EPSILON * cost).all()


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
    found = inverse_digamma(np.array([value]))
    np.testing.assert_allclose(found, np.exp(value), rtol=4 * EPSILON * value)


@pytest.mark.parametrize("switch", [-1e8, -2.22])
def test_inverse_digamma_does_not_jump_where_the_method_changes(switch):
    around = switch * (1 + np.array([1e-13, 0.0, -1e-13]))
    found = inverse_digamma(around)
    assert (np.diff(found) >= 0).all()
    np.testing.assert_allclose(found, found[1], rtol=1e-12)


def test_inverse_digamma_rises():
    value = np.concatenate([-np.logspace(300, -3, 4001), np.linspace(0, 700, 4001)])
    assert (np.diff(inverse_digamma(value)) > 0).all()


def test_inverse_digamma_keeps_shape_and_input():
    value = np.array([[-5.0, 0.0, 2.0], [-1e9, 1.0, 7.0]])
    before = value.copy()
    found = inverse_digamma(value)
    assert found.shape == value.shape
    np.testing.assert_array_equal(value, before)
    assert found[1, 2] == inverse_digamma(value[1, 2])


def test_inverse_digamma_of_nothing_is_nothing():
    assert inverse_digamma(np.zeros(0)).shape == (0,)


# Rising factorials --------------------------------------------------------------------


@pytest.mark.parametrize("prior", [1e-4, 0.05, 1.0, 30.0])
@pytest.mark.parametrize("count", [0, 1, 2, 17, 200])
def test_log_growth_is_the_log_of_a_rising_factorial(prior, count):
    expected = np.log(prior + np.arange(count)).sum()
    found = log_growth(np.float64(prior), np.float64(count))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_log_growth_by_nothing_is_exactly_zero():
    assert (log_growth(np.logspace(-10, 10, 101), np.zeros(101)) == 0.0).all()


# Marginal likelihood ------------------------------------------------------------------


def by_gamma_functions(prior, counts):
    """logB(prior + counts_k) - logB(prior), a topic at a time."""

    def log_beta(parameters):
        return gammaln(parameters).sum() - gammaln(parameters.sum())

    empty = log_beta(np.full(len(counts), float(prior)))
    return np.array([log_beta(prior + column) - empty for column in counts.T])


def by_chain(prior, counts):
    """Log probabilities of the tokens, each given those before it."""
    gain = []
    for column in counts.T.astype(int):
        tokens = np.random.default_rng(0).permutation(
            np.repeat(np.arange(len(column)), column)
        )
        seen, log_p = np.zeros(len(column)), 0.0
        for n, word in enumerate(tokens):
            log_p += np.log((prior + seen[word]) / (len(column) * prior + n))
            seen[word] += 1
        gain.append(log_p)
    return np.array(gain)


def check_marginal(gain, seed, prior, expected=by_gamma_functions, fractional=True):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.3, 5.0, size=(40, 6))).astype(float)
    counts[:, 2] = 0.0
    if fractional:
        counts *= rng.random(counts.shape)
    found = gain(prior, counts, counts.sum(axis=0))
    np.testing.assert_allclose(found, expected(prior, counts), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("prior", [1e-3, 0.05, 1.0, 20.0])
def test_marginal_gain_equals_brute_force(prior, seed):
    check_marginal(log_marginal_gain, seed, prior)


@pytest.mark.parametrize("prior", [1e-3, 0.05, 1.0, 20.0])
def test_marginal_gain_is_the_chain_of_predictive_probabilities(prior, seed):
    check_marginal(log_marginal_gain, seed, prior, by_chain, fractional=False)


def gain_with_prior_of_one_word_as_total(prior, counts, total):
    return log_growth(prior, counts).sum(axis=0) - log_growth(prior, total)


def gain_of_words_in_use(prior, counts, total):
    n_used = (counts > 0).sum(axis=0)
    return log_growth(prior, counts).sum(axis=0) - log_growth(
        n_used * prior + 1e-9, total
    )


@pytest.mark.parametrize(
    "wrong", [gain_with_prior_of_one_word_as_total, gain_of_words_in_use]
)
@pytest.mark.parametrize("expected", [by_gamma_functions, by_chain])
def test_marginal_check_rejects_wrong_normalisers(wrong, expected):
    with pytest.raises(AssertionError):
        check_marginal(wrong, 0, 0.05, expected, fractional=expected is not by_chain)


def test_marginal_gain_of_two_words_is_a_ratio_of_beta_functions():
    counts = np.array([[3.0], [5.0]])
    expected = betaln(0.1 + 3, 0.1 + 5) - betaln(0.1, 0.1)
    np.testing.assert_allclose(
        log_marginal_gain(0.1, counts, np.array([8.0])), expected
    )


def test_marginal_gain_of_an_empty_topic_is_exactly_zero():
    assert log_marginal_gain(0.05, np.zeros((9, 2)), np.zeros(2)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("chunk", [1, 7, 100, 10**9])
def test_marginal_gain_does_not_depend_on_the_size_of_chunks(chunk, monkeypatch):
    counts = np.random.default_rng(0).gamma(0.3, 5.0, size=(50, 6))
    expected = log_marginal_gain(0.05, counts, counts.sum(axis=0))
    monkeypatch.setattr(dirichlet, "CHUNK", chunk)
    found = log_marginal_gain(0.05, counts, counts.sum(axis=0))
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_marginal_gain_does_not_change_its_arguments():
    counts = np.random.default_rng(0).gamma(0.3, 5.0, size=(5, 3))
    total = counts.sum(axis=0)
    copies = counts.copy(), total.copy()
    log_marginal_gain(0.05, counts, total)
    np.testing.assert_array_equal(counts, copies[0])
    np.testing.assert_array_equal(total, copies[1])
