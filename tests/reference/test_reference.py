"""The slow references against first principles.

Solvers and step sizes are compared with those of the package, in the tests of models.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import betaln, gammaln, softmax

from reference import hdp_direct as hdp
from reference.held_out import completion_score

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


# Exact evidence -----------------------------------------------------------------------

CORPORA = [
    ([[0, 0, 1, 0], [2, 1, 2]], 2, 3),  # documents, K, V
    ([[0, 0, 0], [], [1, 1], [0, 1, 0]], 3, 2),
]


def count_matrix(docs, n_features):
    return np.array([np.bincount(doc, minlength=n_features) for doc in docs], float)


def enumerable_problem(rng, corpus):
    docs, n_topics, n_features = corpus
    resp = [rng.dirichlet(np.ones(n_topics), size=n_features) for _ in docs]
    weights = np.append(rng.dirichlet(np.full(n_topics, 5.0)) * 0.4, 0.6)
    counts = count_matrix([np.array(doc, int) for doc in docs], n_features)
    return Problem(counts, resp, weights, 1.3, 1.0, 0.4)


@pytest.mark.parametrize("corpus", CORPORA)
def test_bound_is_exact_evidence_for_one_topic(corpus):
    docs, _, n_features = corpus
    problem = enumerable_problem(np.random.default_rng(0), (docs, 1, n_features))
    terms = terms_of(hdp.elbo_terms, problem)
    evidence = hdp.log_evidence(
        docs, problem.weights, problem.alpha, problem.eta, 1, n_features
    )
    np.testing.assert_allclose(
        terms["z"] + terms["pi"] + terms["phi"], evidence, rtol=0, atol=1e-10
    )


def test_evidence_sums_to_probability_of_represented_topics():
    """Summed over all corpora, p(w, z <= K) is E[prod_j (1 - pi_j,rest)^N_j]."""
    lengths, alpha, weights = (3, 1), 1.3, np.array([0.2, 0.3, 0.5])
    total = 0.0
    for words in itertools.product(range(2), repeat=sum(lengths)):
        docs = [list(words[:3]), list(words[3:])]
        total += np.exp(hdp.log_evidence(docs, weights, alpha, 0.4, 2, 2))
    inside, rest = alpha * weights[:-1].sum(), alpha * weights[-1]
    expected = sum(betaln(inside + n, rest) - betaln(inside, rest) for n in lengths)
    np.testing.assert_allclose(np.log(total), expected, rtol=0, atol=1e-10)


# Document step ------------------------------------------------------------------------


def test_converged_document_is_stationary(seed):
    """Finite differences in the logits of r vanish."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(2.0, size=8).astype(float)
    counts[:2] = 0, 9
    lam = 0.1 + rng.gamma(0.5, 5.0, size=(4, 8))
    weights = rng.dirichlet(np.full(5, 2.0))
    prior, log_weights = 1.5 * weights[:-1], hdp.expected_log_topics(lam).T
    start = hdp.cold_start(counts.sum(), weights)
    expected, resp, _ = hdp.document_step(
        counts, log_weights, prior, start, 5000, 1e-14, 0.0
    )
    np.testing.assert_allclose(expected, counts @ resp, rtol=1e-12)
    logits = np.log(np.maximum(resp, 1e-300))

    def value(moved):
        shares = softmax(moved, axis=1)
        return hdp.document_objective(counts, log_weights, prior, shares)

    width = 1e-4
    for word, topic in np.ndindex(resp.shape):
        move = np.zeros(resp.shape)
        move[word, topic] = width
        slope = (value(logits + move) - value(logits - move)) / (2 * width)
        assert abs(slope) < 1e-6


# Held-out score -----------------------------------------------------------------------


def held_out_problem():
    rng = np.random.default_rng(0)
    topic_word = rng.dirichlet(np.full(6, 0.5), size=3)
    weights = np.array([0.3, 0.2, 0.1, 0.4])
    return topic_word, 1.5 * weights[:-1], 1.5 * weights[-1]


@pytest.mark.parametrize("leftover", [0.6, 0.0])
def test_held_out_probabilities_sum_to_one(leftover):
    topic_word, doc_prior, _ = held_out_problem()
    observed = np.array([[3.0, 0, 1, 0, 0, 2]])
    scores = [
        completion_score(topic_word, doc_prior, leftover, observed, held[None])
        for held in np.eye(6)
    ]
    np.testing.assert_allclose(np.exp(scores).sum(), 1.0, rtol=0, atol=1e-12)


def test_held_out_score_is_mean_over_tokens():
    """The score of a corpus is the mean over its held tokens, each scored alone."""
    topic_word, doc_prior, leftover = held_out_problem()
    observed = np.array([[3.0, 0, 1, 0, 0, 2], [0, 1, 0, 4, 1, 0]])
    held = np.array([[5.0, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 2]])
    globals_ = (topic_word, doc_prior, leftover)
    alone = [
        completion_score(*globals_, observed[[doc]], np.eye(6)[[word]])
        for doc in range(2)
        for word in np.repeat(np.arange(6), held[doc].astype(int))
    ]
    together = completion_score(*globals_, observed, held)
    np.testing.assert_allclose(together, np.mean(alone), rtol=1e-12)
