"""The references of the surrogate bound and of the evidence, from first principles."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, psi
from scipy.stats import beta as beta_law

from checks.long import daily
from reference import hdp_surrogate

SETTINGS = [(1.3, 0.7, 0.4), (0.2, 3.0, 1.5), (6.0, 1.0, 0.1)]  # alpha, gamma, eta
DOCS, N_FEATURES = [[0, 0, 0, 0], [1, 1]], 3  # both concentrations matter


# Evidence -----------------------------------------------------------------------------


def check_probabilities_sum_to_one(evidence, settings):
    total = sum(
        evidence([list(words[:3]), [], list(words[3:])], *settings, 2)
        for words in itertools.product(range(2), repeat=5)
    )
    np.testing.assert_allclose(total, 1.0, rtol=0, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("settings", SETTINGS)
def test_evidence_sums_to_one(settings):
    check_probabilities_sum_to_one(hdp_surrogate.evidence, settings)


@pytest.mark.parametrize("settings", daily(1, SETTINGS))
def test_evidence_is_expectation_over_prior(settings):
    """p(w) = E[prod_tokens sum_k pi_jk phi_kw] over the prior, 60 sticks.

    What is left of the last stick, (gamma / (1 + gamma))^60 < 1e-7 on average, does not
    show. Four standard errors: false alarm rate 6.3e-5.
    """
    alpha, gamma, eta = settings
    rng, n_samples = np.random.default_rng(0), 40_000
    sticks = rng.beta(1.0, gamma, size=(n_samples, 60))
    rest = np.cumprod(1.0 - sticks, axis=1)
    weights = np.column_stack([sticks[:, :1], sticks[:, 1:] * rest[:, :-1]])
    phi = rng.dirichlet(np.full(N_FEATURES, eta), size=weights.shape)
    likelihood = np.ones(n_samples)
    for doc in DOCS:
        pi = rng.standard_gamma(alpha * weights)
        pi /= pi.sum(axis=1, keepdims=True)
        for word in doc:
            likelihood *= (pi * phi[:, :, word]).sum(axis=1)
    error = likelihood.std() / np.sqrt(n_samples)
    exact = hdp_surrogate.evidence(DOCS, alpha, gamma, eta, N_FEATURES)
    assert abs(likelihood.mean() - exact) < 4 * error


# Sticks and terms ---------------------------------------------------------------------


def random_sticks(rng, n_topics):
    return rng.gamma(2.0, 2.0, size=n_topics) + 0.1, rng.gamma(2.0, 4.0, n_topics) + 0.1


def test_terms_are_expectations():
    """Terms of sticks and proportions, from samples of the sticks.

    Four standard errors of 100000 samples: false alarm rate 6.3e-5 each.
    """
    alpha, gamma, eta = 1.3, 0.7, 0.4
    rng = np.random.default_rng(1)
    a, b = random_sticks(rng, 2)
    counts = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 3.0]])
    resp = [rng.dirichlet(np.ones(2), size=3) for _ in counts]
    theta, lam = rng.gamma(2.0, 1.0, size=(2, 3)), rng.gamma(2.0, 1.0, size=(2, 3))
    got = hdp_surrogate.surrogate_terms(
        counts, resp, theta, lam, a, b, alpha, gamma, eta
    )

    sticks = rng.beta(a, b, size=(100_000, 2))
    rest = np.cumprod(1.0 - sticks, axis=1)
    weights = np.column_stack([sticks[:, 0], sticks[:, 1] * rest[:, 0], rest[:, 1]])
    log_v = beta_law.logpdf(sticks, 1.0, gamma) - beta_law.logpdf(sticks, a, b)
    log_pi = psi(theta) - psi(theta.sum(axis=1, keepdims=True))
    entropy = sum(
        gammaln(row).sum() - gammaln(row.sum()) - (row - 1) @ logs
        for row, logs in zip(theta, log_pi, strict=True)
    )
    normaliser = 2 * np.log(alpha) + np.log(weights).sum(axis=1)
    log_prior = len(counts) * normaliser + (alpha * weights - 1) @ log_pi.sum(axis=0)
    for name, samples in (("v", log_v.sum(axis=1)), ("pi", log_prior + entropy)):
        error = samples.std() / np.sqrt(len(samples))
        assert abs(samples.mean() - got[name]) < 4 * error, name

    exact = gammaln(alpha) - gammaln(alpha * weights).sum(axis=1)
    assert (normaliser <= exact).all(), "below the exact bound, sample by sample"
