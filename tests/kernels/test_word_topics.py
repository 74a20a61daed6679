"""Sums over tables of topic counts that are known by their moments."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln

from reference.ncrp_topics import collapsed_rise, expected_log_rise
from skbnp.kernels._word_topics import expected_growth


def growth_of(means, variances, eta):
    means = np.ascontiguousarray(means, dtype=float)
    totals = np.full(len(means), np.nan)
    expected_growth(means, np.ascontiguousarray(variances), np.asarray(eta), totals)
    return totals


def moments(rng, shape):
    """Means of all sizes, some zero, and variances below them."""
    means = 10.0 ** rng.uniform(-9, 6, size=shape)
    means[rng.random(shape) < 0.3] = 0.0
    part = rng.choice([0.0, 1e-6, 0.3, 1.0 - 1e-6, 1.0], size=shape)
    return means, part * means


@pytest.mark.parametrize("shape", [(1, 1), (3, 63), (2, 64), (4, 200)])
def test_growth_equals_its_twin(shape, seed):
    rng = np.random.default_rng([seed, *shape])
    means, variances = moments(rng, shape)
    eta = 10.0 ** rng.uniform(-3, 3, size=shape[0])
    got = growth_of(means, variances, eta)
    expected = [
        sum(map(collapsed_rise, *rows, np.full(shape[1], own)))
        for *rows, own in zip(means, variances, eta, strict=True)
    ]
    scale = 1e-11 * (1.0 + means.sum())
    assert_allclose(got, expected, rtol=1e-9, atol=scale)
    if means.any():
        wrong = growth_of(means, variances, eta * (1 + 1e-4))
        assert not np.allclose(wrong, expected, rtol=1e-9, atol=scale)


@pytest.mark.parametrize("eta", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_growth_is_near_that_of_random_counts(eta, n, seed):
    """Exact for a single token; else it makes up for 3/4 of what the mean misses."""
    rng = np.random.default_rng(seed)
    for scale in (0.02, 0.3, 0.98):
        p = scale * rng.uniform(0.5, 1.0, size=n)
        exact, plain = expected_log_rise(p, eta), gammaln(eta + p.sum()) - gammaln(eta)
        (got,) = growth_of([[p.sum()]], [[(p * (1.0 - p)).sum()]], [eta])
        assert exact > plain
        assert_allclose(got - plain, exact - plain, rtol=1e-6 if n == 1 else 0.25)


def test_growth_of_what_is_hardly_there_is_finite():
    means = np.array([[0.0, 1e-300, 1e-31, 1e-14, 1e-6, 1.0, 1e9]])
    for eta in (1e-6, 1.0, 1e3):
        plain = (gammaln(eta + means) - gammaln(eta)).sum()
        for part in (0.0, 0.5, 1.0):
            (got,) = growth_of(means, part * means, [eta])
            assert np.isfinite(got)
            assert got >= plain - 1e-6 - 1e-13 * abs(plain)
