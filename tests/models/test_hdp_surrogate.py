"""The surrogate bound's terms, gradients and optimiser against slow twins."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import psi

from reference import hdp_surrogate as reference
from skbnp.models.hdp_sticks import (
    TOTALS,
    Assignments,
    Sticks,
    fit_sticks,
    terms_and_gradient,
)

N_TOPICS = [1, 2, 5]


def random_problem(rng, n_topics, n_docs=7):
    """Counts (D, V), r with exact zeros, and the counts N (D, K) of topics."""
    counts = rng.poisson(1.5, size=(n_docs, 6)).astype(float)
    counts[:, 0] += 1.0
    resp = [rng.dirichlet(np.full(n_topics, 0.6), size=6) for _ in counts]
    if n_topics > 1:
        for part in resp[::2]:
            part[:, -2] += part[:, -1]
            part[:, -1] = 0.0
    doc_topic = np.array([row @ part for row, part in zip(counts, resp, strict=True)])
    return counts, resp, doc_topic


def random_sticks(rng, n_topics):
    return Sticks(rng.normal(size=n_topics), rng.normal(2.0, 1.5, size=n_topics))


def assignments(doc_topic, order=None):
    order = np.arange(doc_topic.shape[1]) if order is None else order
    return Assignments.of(sp.csr_array(doc_topic), doc_topic.sum(axis=1), order)


def value(sticks, documents, alpha, gamma):
    return sum(terms_and_gradient(sticks, documents, alpha, gamma)[0].values())


def settings(rng):
    return rng.gamma(1.0, 1.5) + 0.05, rng.gamma(1.0, 1.5) + 0.05


# Terms --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_topics", N_TOPICS)
def test_terms_equal_brute_force(n_topics, seed):
    """Each term is the transcription's at theta = alpha E[beta] + N.

    The transcription has E[log p(z | pi)] in the term of z, the package with pi.
    """
    rng = np.random.default_rng([seed, n_topics])
    counts, resp, doc_topic = random_problem(rng, n_topics)
    sticks, (alpha, gamma) = random_sticks(rng, n_topics), settings(rng)
    got, _ = terms_and_gradient(sticks, assignments(doc_topic), alpha, gamma)
    a, b = sticks.parameters
    theta = alpha * reference.expected_weights(a, b)
    theta = theta + np.column_stack([doc_topic, np.zeros(len(counts))])
    lam = rng.gamma(2.0, 1.0, size=(n_topics, 6))
    expected = reference.surrogate_terms(
        counts, resp, theta, lam, a, b, alpha, gamma, 0.3
    )
    log_pi = psi(theta) - psi(theta.sum(axis=1, keepdims=True))
    assigned = expected["pi"] + (doc_topic * log_pi[:, :-1]).sum()
    assert_allclose(got["assignments"], assigned, rtol=1e-10, err_msg="assignments")
    assert_allclose(got["weights"], expected["v"], rtol=1e-10, err_msg="weights")


def test_expected_weights_are_those_of_the_sticks(seed):
    sticks = random_sticks(np.random.default_rng(seed), 6)
    expected = reference.expected_weights(*sticks.parameters)
    assert_allclose(sticks.expected_weights, expected, rtol=1e-12)


# Gradient -----------------------------------------------------------------------------


@pytest.mark.parametrize("n_topics", N_TOPICS)
def test_gradient_is_the_difference_of_the_bound(n_topics, seed):
    rng = np.random.default_rng([seed, n_topics])
    _, _, doc_topic = random_problem(rng, n_topics)
    documents, (alpha, gamma) = assignments(doc_topic), settings(rng)
    sticks = random_sticks(rng, n_topics)
    _, gradient = terms_and_gradient(sticks, documents, alpha, gamma)
    point = np.concatenate([sticks.logit_mean, sticks.log_total])
    for entry, move in enumerate(1e-5 * np.eye(2 * n_topics)):
        ends = [
            value(Sticks(*np.split(point + side, 2)), documents, alpha, gamma)
            for side in (move, -move)
        ]
        slope = (ends[0] - ends[1]) / 2e-5
        # Rounding of two values of 10^2..10^3 nats over 2e-5, and the third derivative.
        assert_allclose(gradient[entry], slope, rtol=1e-5, atol=1e-5)


# Optimiser ----------------------------------------------------------------------------


@pytest.mark.parametrize("problem", range(6))
def test_fitting_the_sticks_does_not_lower_the_bound(problem, seed):
    rng = np.random.default_rng([seed, problem])
    n_topics = int(rng.integers(1, 9))
    _, _, doc_topic = random_problem(rng, n_topics)
    documents, (alpha, gamma) = assignments(doc_topic), settings(rng)
    start = random_sticks(rng, n_topics)
    result = fit_sticks(start, documents, alpha, gamma)
    before = value(start, documents, alpha, gamma)
    assert value(result, documents, alpha, gamma) >= before
    assert value(result, documents, alpha, gamma) > before + 0.1, (
        "random starts improve"
    )


def test_rounding_does_not_lift_the_bound():
    """The divergence of the sticks is never negative, but for rounding of 1e-15 w."""
    rng = np.random.default_rng(0)
    empty = Assignments.of(sp.csr_array((0, 5)), np.zeros(0), np.arange(5))
    for _ in range(200):
        sticks = Sticks(rng.uniform(-25, 25, 5), rng.uniform(-10, TOTALS[1], 5))
        gamma = 10.0 ** rng.uniform(-3, 3)
        assert terms_and_gradient(sticks, empty, 1.0, gamma)[0]["weights"] < 1e-3
