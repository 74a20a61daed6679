"""Special functions of arrays, against SciPy."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.special import gammaln, psi

from skbnp.kernels._special import log, log_gamma


def check_log_gamma(x, log_gammas, digammas):
    for got, expected in ((log_gammas, gammaln(x)), (digammas, psi(x))):
        error = np.abs(got - expected) / np.maximum(np.abs(expected), 1.0)
        assert error.max() <= 1e-14


def test_log_gamma_and_digamma_of_any_size():
    x = np.concatenate([np.logspace(-300, 300, 60007), np.linspace(0.5, 3.0, 10007)])
    log_gammas, digammas = np.empty_like(x), np.empty_like(x)
    log_gamma(x, log_gammas, digammas)
    check_log_gamma(x, log_gammas, digammas)


def test_logarithms_are_exact_to_the_last_digits():
    x = np.concatenate(
        [np.logspace(-300, 300, 20011), 1.0 + np.linspace(-0.3, 0.4, 999)]
    )
    got = np.empty_like(x)
    log(x, got)
    assert_allclose(got, np.log(x), rtol=1e-15, atol=1e-16)
