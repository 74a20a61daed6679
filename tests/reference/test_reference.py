"""The slow references against first principles.

Solvers and step sizes are compared with those of the package, in the tests of models.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import gammaln

from reference import hdp_direct as hdp
from reference import hdp_surrogate

SETTINGS = [(1.0, 1.0, 0.5), (0.3, 2.5, 0.05), (5.0, 0.4, 1.7)]  # alpha, gamma, eta


@dataclass(frozen=True)
class Problem:
    counts: np.ndarray  # (D, V)
    resp: list  # D arrays (V, K)
    weights: np.ndarray  # (K + 1,)
    alpha: float
    gamma: float
    eta: float

    @property
    def theta(self):
        doc_topic, _ = hdp.sufficient_statistics(self.counts, self.resp)
        padded = np.column_stack([doc_topic, np.zeros(len(doc_topic))])
        return self.alpha * self.weights + padded

    @property
    def lam(self):
        return self.eta + hdp.sufficient_statistics(self.counts, self.resp)[1]


def make_problem(
    rng, alpha=1.0, gamma=1.0, eta=0.5, n_docs=4, n_features=5, n_topics=3
):
    """Counts above one, zeros, an empty document; random r."""
    counts = rng.poisson(1.5, size=(n_docs, n_features)).astype(float)
    counts[0] = 0
    counts[-1, 0] = 7
    resp = [rng.dirichlet(np.full(n_topics, 0.7), size=n_features) for _ in counts]
    weights = rng.dirichlet(np.full(n_topics + 1, 2.0))
    return Problem(counts, resp, weights, alpha, gamma, eta)


def terms_of(elbo_terms, problem, theta=None, lam=None):
    return elbo_terms(
        problem.counts,
        problem.resp,
        problem.theta if theta is None else theta,
        problem.lam if lam is None else lam,
        problem.weights,
        problem.alpha,
        problem.gamma,
        problem.eta,
    )


# Wrong versions of the bound ----------------------------------------------------------


def elbo_without_topic_constant(counts, resp, theta, lam, weights, alpha, gamma, eta):
    n_topics, n_features = lam.shape
    terms = hdp.elbo_terms(counts, resp, theta, lam, weights, alpha, gamma, eta)
    constant = gammaln(n_features * eta) - n_features * gammaln(eta)
    return terms | {"phi": terms["phi"] - n_topics * constant}


# Brute force and profile form ---------------------------------------------------------


@pytest.mark.parametrize("settings", SETTINGS)
def test_profile_form_is_brute_force_at_optimal_theta_and_lam(settings, seed):
    problem = make_problem(np.random.default_rng(seed), *settings)
    brute = terms_of(hdp.elbo_terms, problem)
    profile = hdp.profile_terms(
        problem.counts,
        problem.resp,
        problem.weights,
        problem.alpha,
        problem.gamma,
        problem.eta,
    )
    np.testing.assert_allclose(
        sum(brute.values()), sum(profile.values()), rtol=0, atol=1e-9
    )
    assert brute["beta"] == pytest.approx(profile["weights"], abs=1e-12)


# Monte Carlo --------------------------------------------------------------------------


def log_dirichlet(log_x, parameters):
    """Log density of log_x (samples, n) under Dir(parameters)."""
    constant = gammaln(parameters.sum()) - gammaln(parameters).sum()
    return constant + ((parameters - 1) * log_x).sum(axis=1)


def check_monte_carlo(elbo_terms, seed):
    """E_q[log p - log q] by sampling q, for arbitrary theta and lam.

    Four standard errors for each of three terms and their sum: by the normal tail,
    4 x 6.3e-5, a false alarm rate of at most 2.6e-4 per seed. 40000 samples.
    """
    n_samples = 40_000
    rng = np.random.default_rng(seed)
    problem = make_problem(rng, alpha=3.0, eta=0.8)
    theta = problem.theta * np.exp(0.2 * rng.standard_normal(problem.theta.shape))
    lam = problem.lam * np.exp(0.2 * rng.standard_normal(problem.lam.shape))

    # theta as in the model: the sum of theta_j is alpha + N_j.
    totals = problem.alpha + problem.counts.sum(axis=1, keepdims=True)
    theta *= totals / theta.sum(axis=1, keepdims=True)

    sample = {name: np.zeros(n_samples) for name in ("z", "pi", "phi")}
    log_phi = []
    for row in lam:
        drawn = np.log(rng.dirichlet(row, size=n_samples))
        sample["phi"] += log_dirichlet(drawn, np.full(row.size, problem.eta))
        sample["phi"] -= log_dirichlet(drawn, row)
        log_phi.append(drawn)
    log_phi = np.stack(log_phi)  # (K, samples, V)
    every = np.arange(n_samples)
    for doc, row in enumerate(problem.counts):
        log_pi = np.log(rng.dirichlet(theta[doc], size=n_samples))
        sample["pi"] += log_dirichlet(log_pi, problem.alpha * problem.weights)
        sample["pi"] -= log_dirichlet(log_pi, theta[doc])
        for word, count in enumerate(row.astype(int)):
            shares = problem.resp[doc][word]
            for _ in range(count):
                topic = rng.choice(shares.size, p=shares, size=n_samples)
                sample["z"] += log_phi[topic, every, word] + log_pi[every, topic]
                sample["z"] -= np.log(shares[topic])

    terms = terms_of(elbo_terms, problem, theta, lam)
    sample["sum"] = sample["z"] + sample["pi"] + sample["phi"]
    terms["sum"] = terms["z"] + terms["pi"] + terms["phi"]
    for name, values in sample.items():
        error = values.std() / np.sqrt(n_samples)
        assert abs(values.mean() - terms[name]) < 4 * error, name


def test_brute_force_terms_are_monte_carlo_expectations(seed):
    check_monte_carlo(hdp.elbo_terms, seed)


def test_monte_carlo_check_rejects_wrong_bound():
    with pytest.raises(AssertionError):
        check_monte_carlo(elbo_without_topic_constant, 0)


# Held-out score -----------------------------------------------------------------------


DOCS, N_FEATURES = [[0, 0, 0, 0], [1, 1]], 3  # both concentrations matter


# Evidence -----------------------------------------------------------------------------


def test_evidence_is_expectation_over_prior():
    """p(w) = E[prod_tokens sum_k pi_jk phi_kw] over the prior, 60 sticks.

    What is left of the last stick, (gamma / (1 + gamma))^60 < 1e-7 on average, does not
    show. Four standard errors: false alarm rate 6.3e-5.
    """
    alpha, gamma, eta = 1.3, 0.7, 0.4
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
