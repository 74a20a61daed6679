"""The slow references against each other and against first principles.

Each law is a function ``check_*`` of the function under test. It is called on the
reference and, inside ``pytest.raises(AssertionError)``, on deliberately wrong versions.
"""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import betaln, gammaln, psi, softmax

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


def coordinate_ascent(problem, n_sweeps=60):
    """[BS12] Eqs. (3), (4), (5) on all documents, weights fixed."""
    for _ in range(n_sweeps):
        log_weights = hdp.expected_log_topics(problem.lam).T
        prior = problem.alpha * problem.weights[:-1]
        resp = [
            hdp.document_step(row, log_weights, prior, row @ old, 20, 1e-12, 0.0)[1]
            for row, old in zip(problem.counts, problem.resp, strict=True)
        ]
        problem = replace(problem, resp=resp)
    return problem


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


def profile_of(profile_terms, problem):
    return profile_terms(
        problem.counts,
        problem.resp,
        problem.weights,
        problem.alpha,
        problem.gamma,
        problem.eta,
    )


# Wrong versions of the bound ----------------------------------------------------------


def elbo_without_counts_in_entropy(counts, resp, *rest):
    terms = hdp.elbo_terms(counts, resp, *rest)
    for row, shares in zip(counts, resp, strict=True):
        for word, topic in np.argwhere((row[:, None] > 0) & (shares > 0)):
            share = shares[word, topic]
            terms["z"] += (row[word] - 1) * share * np.log(share)
    return terms


def elbo_without_topic_constant(counts, resp, theta, lam, weights, alpha, gamma, eta):
    n_topics, n_features = lam.shape
    terms = hdp.elbo_terms(counts, resp, theta, lam, weights, alpha, gamma, eta)
    constant = gammaln(n_features * eta) - n_features * gammaln(eta)
    return terms | {"phi": terms["phi"] - n_topics * constant}


WRONG_BOUNDS = [elbo_without_counts_in_entropy, elbo_without_topic_constant]


# Brute force and profile form ---------------------------------------------------------


def check_profile_is_brute_force_at_optimum(elbo_terms, profile_terms, settings, seed):
    problem = make_problem(np.random.default_rng(seed), *settings)
    brute = terms_of(elbo_terms, problem)
    profile = profile_of(profile_terms, problem)
    np.testing.assert_allclose(
        sum(brute.values()), sum(profile.values()), rtol=0, atol=1e-9
    )
    assert brute["beta"] == pytest.approx(profile["weights"], abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("settings", SETTINGS)
def test_profile_form_is_brute_force_at_optimal_theta_and_lam(settings, seed):
    check_profile_is_brute_force_at_optimum(
        hdp.elbo_terms, hdp.profile_terms, settings, seed
    )


@pytest.mark.parametrize("wrong", WRONG_BOUNDS)
def test_profile_check_rejects_wrong_bound(wrong):
    with pytest.raises(AssertionError):
        check_profile_is_brute_force_at_optimum(
            wrong, hdp.profile_terms, SETTINGS[0], 0
        )


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


@pytest.mark.parametrize("seed", range(3))
def test_brute_force_terms_are_monte_carlo_expectations(seed):
    check_monte_carlo(hdp.elbo_terms, seed)


@pytest.mark.parametrize("wrong", WRONG_BOUNDS)
def test_monte_carlo_check_rejects_wrong_bound(wrong):
    with pytest.raises(AssertionError):
        check_monte_carlo(wrong, 0)


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


def check_bound_is_below_evidence(elbo_terms, corpus, seed):
    """For random r and, nearly tight, after coordinate ascent."""
    rng = np.random.default_rng(seed)
    problem = enumerable_problem(rng, corpus)
    evidence = hdp.log_evidence(
        corpus[0], problem.weights, problem.alpha, problem.eta, *corpus[1:]
    )
    for candidate in (problem, coordinate_ascent(problem)):
        terms = terms_of(elbo_terms, candidate)
        assert terms["z"] + terms["pi"] + terms["phi"] < evidence


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("corpus", CORPORA)
def test_bound_is_below_exact_evidence(corpus, seed):
    check_bound_is_below_evidence(hdp.elbo_terms, corpus, seed)


def test_evidence_check_rejects_missing_topic_constant():
    with pytest.raises(AssertionError):
        check_bound_is_below_evidence(elbo_without_topic_constant, CORPORA[0], 0)


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


def check_evidence_sums_to_represented_mass(log_evidence):
    """Summed over all corpora, p(w, z <= K) is E[prod_j (1 - pi_j,rest)^N_j]."""
    lengths, alpha, weights = (3, 1), 1.3, np.array([0.2, 0.3, 0.5])
    total = 0.0
    for words in itertools.product(range(2), repeat=sum(lengths)):
        docs = [list(words[:3]), list(words[3:])]
        total += np.exp(log_evidence(docs, weights, alpha, 0.4, 2, 2))
    inside, rest = alpha * weights[:-1].sum(), alpha * weights[-1]
    expected = sum(betaln(inside + n, rest) - betaln(inside, rest) for n in lengths)
    np.testing.assert_allclose(np.log(total), expected, rtol=0, atol=1e-10)


def test_evidence_sums_to_probability_of_represented_topics():
    check_evidence_sums_to_represented_mass(hdp.log_evidence)


# Document step ------------------------------------------------------------------------


def document_problem(seed, n_features=8, n_topics=4):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(2.0, size=n_features).astype(float)
    counts[:2] = 0, 9
    lam = 0.1 + rng.gamma(0.5, 5.0, size=(n_topics, n_features))
    weights = rng.dirichlet(np.full(n_topics + 1, 2.0))
    prior = 1.5 * weights[:-1]
    start = hdp.cold_start(counts.sum(), weights)
    return counts, hdp.expected_log_topics(lam).T, prior, start


def step_without_counts(counts, *rest):
    _, resp, n_iter = hdp.document_step(np.minimum(counts, 1), *rest)
    return counts @ resp, resp, n_iter


WRONG_STEPS = [step_without_counts]


def check_document_fixed_point(step, seed):
    """The converged r is stationary: finite differences in its logits vanish."""
    counts, log_weights, prior, start = document_problem(seed)
    expected, resp, _ = step(counts, log_weights, prior, start, 5000, 1e-14, 0.0)
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


@pytest.mark.parametrize("seed", range(4))
def test_converged_document_is_stationary(seed):
    check_document_fixed_point(hdp.document_step, seed)


@pytest.mark.parametrize("wrong", WRONG_STEPS)
def test_document_stationarity_check_rejects_wrong_step(wrong):
    with pytest.raises(AssertionError):
        check_document_fixed_point(wrong, 0)


# Tangent bound ------------------------------------------------------------------------


def random_doc_topic(rng, n_docs=6, n_topics=4):
    """Counts from 1e-5 to 1e2, a third exactly zero."""
    doc_topic = 10.0 ** rng.uniform(-5, 2, size=(n_docs, n_topics))
    doc_topic[rng.random(doc_topic.shape) < 1 / 3] = 0.0
    return doc_topic


def check_tangent_touches(surrogate):
    rng = np.random.default_rng(0)
    for _ in range(20):
        doc_topic, alpha = random_doc_topic(rng), 10.0 ** rng.uniform(-1, 1)
        weights = rng.dirichlet(np.ones(5))
        value = surrogate(doc_topic, alpha * weights[:-1], weights, alpha, alpha)
        exact = hdp.document_part(doc_topic, weights, alpha)
        np.testing.assert_allclose(value, exact, rtol=1e-9, atol=1e-9)


def check_tangent_is_below(surrogate):
    rng = np.random.default_rng(1)
    for _ in range(300):
        doc_topic = random_doc_topic(rng)
        alpha, alpha0 = 10.0 ** rng.uniform(-1, 1, size=2)
        weights, old = rng.dirichlet(np.ones(5), size=2)
        value = surrogate(doc_topic, alpha0 * old[:-1], weights, alpha, alpha0)
        assert value < hdp.document_part(doc_topic, weights, alpha) + 1e-9


def tangent_without_count(doc_topic, tangent, weights, alpha, alpha0):
    """psi(x0) in place of psi(x0 + N)."""
    value = hdp.surrogate_T(doc_topic, tangent, weights, alpha, alpha0)
    for row in doc_topic:
        for topic in np.flatnonzero(row):
            slope = psi(tangent[topic]) - psi(tangent[topic] + row[topic])
            value += slope * (alpha * weights[topic] - tangent[topic])
    return value


def test_tangent_bound_is_document_part_at_its_tangent_point():
    check_tangent_touches(hdp.surrogate_T)


def test_tangent_bound_is_below_document_part():
    check_tangent_is_below(hdp.surrogate_T)


@pytest.mark.parametrize("wrong", [tangent_without_count])
def test_tangent_bound_check_rejects_wrong_tangent(wrong):
    with pytest.raises(AssertionError):
        check_tangent_is_below(wrong)


# Corpus weights -----------------------------------------------------------------------


def weights_problem(seed):
    """Counts with many entries below one, so the table tangent is no bound."""
    rng = np.random.default_rng(seed)
    doc_topic = rng.gamma(0.4, 4.0, size=(12, 4))
    doc_topic[rng.random(doc_topic.shape) < 0.4] = 0.0
    return doc_topic, 1.7, 0.8, np.full(5, 0.2)  # N, alpha, gamma, start


def solve_by_tables(doc_topic, alpha, gamma, start, scale):
    return hdp.weights_by_tables(doc_topic, alpha, gamma, 1000, start, scale)


def solve_by_refreshed_tangent(doc_topic, alpha, gamma, start, scale):
    return hdp.weights_by_refreshed_T(doc_topic, alpha, gamma, 60, start, scale)


@pytest.mark.parametrize("solver", [solve_by_tables, solve_by_refreshed_tangent])
@pytest.mark.parametrize("seed", range(3))
def test_tables_and_refreshed_tangent_reach_optimum_of_lbfgs(solver, seed):
    doc_topic, alpha, gamma, start = weights_problem(seed)
    expected = hdp.weights_by_lbfgs(doc_topic, alpha, gamma, start)
    weights = solver(doc_topic, alpha, gamma, start, 1.0)
    np.testing.assert_allclose(weights, expected, rtol=1e-5)


# Gradients ----------------------------------------------------------------------------


def check_gradient(objective, logits, exact):
    """Gradient against central differences of ``exact``; both of shape (K,)."""
    _, gradient = objective(logits)
    for topic in range(logits.size):
        move = 1e-5 * np.eye(logits.size)[topic]
        slope = (exact(logits + move) - exact(logits - move)) / 2e-5
        np.testing.assert_allclose(gradient[topic], slope, rtol=1e-6, atol=1e-6)


def elbo_of_logits(problem, theta, scale):
    """The full brute force bound as a function of b, theta and r fixed."""

    def value(logits):
        moved = replace(problem, weights=hdp.weights_from_logits(logits))
        terms = terms_of(hdp.elbo_terms, moved, theta, problem.lam)
        return scale * (terms["z"] + terms["pi"]) + terms["phi"] + terms["beta"]

    return value


def fixed_theta_check(objective, scale):
    problem = make_problem(np.random.default_rng(4), alpha=1.8, gamma=0.7)
    theta = problem.theta
    check_gradient(
        lambda b: objective(b, theta, problem.alpha, problem.gamma, scale),
        np.array([0.4, -1.0, 0.2]),
        elbo_of_logits(problem, theta, scale),
    )


@pytest.mark.parametrize("scale", [1.0, 7.5])
def test_fixed_theta_gradient_is_difference_of_full_bound(scale):
    fixed_theta_check(hdp.fixed_theta_objective, scale)


def profile_check(objective, scale):
    problem = make_problem(np.random.default_rng(4), alpha=1.8, gamma=0.7)
    doc_topic, _ = hdp.sufficient_statistics(problem.counts, problem.resp)

    def exact(logits):
        moved = replace(problem, weights=hdp.weights_from_logits(logits))
        terms = profile_of(hdp.profile_terms, moved)
        return scale * terms["assignments"] + terms["weights"]

    check_gradient(
        lambda b: objective(b, doc_topic, problem.alpha, problem.gamma, scale),
        np.array([0.4, -1.0, 0.2]),
        exact,
    )


@pytest.mark.parametrize("scale", [1.0, 7.5])
def test_profile_gradient_is_difference_of_profile_form(scale):
    profile_check(hdp.profile_weights_objective, scale)


def test_profile_gradient_check_rejects_gradient_at_fixed_theta():
    def wrong(logits, doc_topic, alpha, gamma, scale):
        old = alpha * hdp.weights_from_logits(np.zeros(logits.size))
        theta = old + np.column_stack([doc_topic, np.zeros(len(doc_topic))])
        return hdp.fixed_theta_objective(logits, theta, alpha, gamma, scale)

    with pytest.raises(AssertionError):
        profile_check(wrong, 1.0)


# Concentrations -----------------------------------------------------------------------


def check_concentration(search, prior):
    """The search solves the fixed point of expected tables, with shape a and rate b."""
    shape, rate = prior
    rng = np.random.default_rng(0)
    weights = np.array([0.3, 0.2, 0.25, 0.1, 0.15])
    doc_topic = rng.gamma(0.5, 6.0, size=(25, 4))
    doc_topic[rng.random(doc_topic.shape) < 0.3] = 0.0
    alpha = search(doc_topic, weights, prior)
    base = alpha * weights[:-1]
    tables = (base * (psi(base + doc_topic) - psi(base))).sum()
    totals = doc_topic.sum(axis=1)
    expected = (tables + shape - 1) / ((psi(alpha + totals) - psi(alpha)).sum() + rate)
    np.testing.assert_allclose(alpha, expected, rtol=1e-5)


@pytest.mark.parametrize("prior", [(1.0, 0.0), (2.0, 3.0)])
def test_concentration_is_fixed_point_of_expected_tables(prior):
    check_concentration(hdp.concentration_by_search, prior)


def concentration_with_scale_as_rate(doc_topic, weights, prior):
    return hdp.concentration_by_search(doc_topic, weights, (prior[0], 1 / prior[1]))


@pytest.mark.parametrize(
    "wrong",
    [concentration_with_scale_as_rate],
)
def test_concentration_check_rejects_wrong_search(wrong):
    with pytest.raises(AssertionError):
        check_concentration(wrong, (2.0, 3.0))


def check_topic_prior(search, prior):
    shape, rate = prior
    counts = np.random.default_rng(0).gamma(0.3, 5.0, size=(4, 7))
    eta = search(counts, prior)
    n_features = counts.shape[1]
    totals = counts.sum(axis=1)
    up = (eta * (psi(eta + counts) - psi(eta))).sum() + shape - 1
    slopes = psi(n_features * eta + totals) - psi(n_features * eta)
    down = n_features * slopes.sum() + rate
    np.testing.assert_allclose(eta, up / down, rtol=1e-5)


@pytest.mark.parametrize("prior", [(1.0, 0.0), (2.0, 3.0)])
def test_topic_prior_is_fixed_point(prior):
    check_topic_prior(hdp.topic_prior_by_search, prior)


def test_topic_prior_check_rejects_swapped_axes():
    with pytest.raises(AssertionError):
        check_topic_prior(
            lambda counts, prior: hdp.topic_prior_by_search(counts.T, prior), (1.0, 0.0)
        )


# Held-out score -----------------------------------------------------------------------


def held_out_problem():
    rng = np.random.default_rng(0)
    topic_word = rng.dirichlet(np.full(6, 0.5), size=3)
    weights = np.array([0.3, 0.2, 0.1, 0.4])
    return topic_word, 1.5 * weights[:-1], 1.5 * weights[-1]


def check_probabilities_sum_to_one(held_out, leftover):
    topic_word, doc_prior, _ = held_out_problem()
    observed = np.array([[3.0, 0, 1, 0, 0, 2]])
    scores = [
        held_out(topic_word, doc_prior, leftover, observed, held[None])
        for held in np.eye(6)
    ]
    np.testing.assert_allclose(np.exp(scores).sum(), 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("leftover", [0.6, 0.0])
def test_held_out_probabilities_sum_to_one(leftover):
    check_probabilities_sum_to_one(completion_score, leftover)


def test_held_out_sum_check_rejects_dropped_leftover():
    def wrong(topic_word, doc_prior, leftover, *rest):
        silent = np.vstack([topic_word, np.full(topic_word.shape[1], 1e-300)])
        return completion_score(silent, np.append(doc_prior, leftover), 0.0, *rest)

    with pytest.raises(AssertionError):
        check_probabilities_sum_to_one(wrong, 0.6)


def check_score_weights_tokens(held_out):
    """The score of a corpus is the mean over its held tokens, each scored alone."""
    topic_word, doc_prior, leftover = held_out_problem()
    observed = np.array([[3.0, 0, 1, 0, 0, 2], [0, 1, 0, 4, 1, 0]])
    held = np.array([[5.0, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 2]])
    globals_ = (topic_word, doc_prior, leftover)
    alone = [
        held_out(*globals_, observed[[doc]], np.eye(6)[[word]])
        for doc in range(2)
        for word in np.repeat(np.arange(6), held[doc].astype(int))
    ]
    together = held_out(*globals_, observed, held)
    np.testing.assert_allclose(together, np.mean(alone), rtol=1e-12)


def test_held_out_score_is_mean_over_tokens():
    check_score_weights_tokens(completion_score)
