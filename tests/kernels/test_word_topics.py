"""Sums over tables of topic counts that are known by their moments."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln

from reference.ncrp_topics import collapsed_rise, expected_log_rise
from skbnp.kernels._word_topics import draw_tokens, expected_growth


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


def test_tokens_are_drawn_by_their_probabilities(seed):
    """Sums of documents and words; a chi-square statistic finds other shares."""
    rng = np.random.default_rng(seed)
    table, shares = rng.dirichlet(np.ones(5), 3), rng.dirichlet(np.ones(5), 2)
    table[2] = 0.0  # a word that no topic has
    limits, words = np.array([0, 2, 3]), np.array([0, 1, 2])
    counts = np.array([40_000, 20_000, 30_000])
    of_docs, of_words = np.zeros((2, 5)), np.zeros((3, 5))
    given = limits, words, counts, of_docs, of_words, rng.bit_generator
    draw_tokens(table, shares, *given)
    assert_allclose(of_docs, [of_words[:2].sum(axis=0), of_words[2]])
    assert_allclose(of_words.sum(axis=1), counts)
    masses = np.array([table[0] * shares[0], table[1] * shares[0], np.ones(5)])

    def distance(masses):
        expected = counts[:, None] * masses / masses.sum(axis=1, keepdims=True)
        return ((of_words - expected) ** 2 / expected).sum()

    assert distance(masses) < 45.0  # of 12 degrees of freedom, p = 1e-5
    assert distance(masses * (1.0 + 0.1 * np.arange(5))) > 45.0
    with pytest.raises(ValueError, match="rows of the table"):
        draw_tokens(table, shares, limits, words + 1, *given[2:])
