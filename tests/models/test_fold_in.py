"""Documents whose topics are held fixed."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from checks.long import along_diagonal
from reference import hdp_collapsed
from reference import held_out as reference
from skbnp.components.word_topics import SeenWords, WordTopics
from skbnp.inference.executor import Executor
from skbnp.models.hdp.fold_in import MeanTopics, fold_in, fold_in_by_mean_field, mix

#: Single precision, 6e-8, passed on by ten iterations that take counts out of others;
#: of the tokens of a document.
SINGLE = 1e-4
#: Decisions closer than this may fall otherwise in single precision.
CLEAR = 2e-4


def problem(seed, n_topics=7, n_words=25, n_docs=12):
    """Topics (K, V), a prior, and documents of a few of them."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.2), size=n_topics) + 1e-6
    topics /= topics.sum(axis=1, keepdims=True)
    prior = 1.5 * rng.dirichlet(np.full(n_topics, 2.0)) + 0.01
    shares = rng.dirichlet(prior, size=n_docs)
    return topics, prior, rng.poisson(30.0 * shares @ topics).astype(float)


def infer(by, topics, prior, X):
    with Executor(None) as executor:
        result = by(np.ascontiguousarray(topics.T), prior, sp.csr_array(X), executor)
    return result.toarray() if sp.issparse(result) else result


def check_equals_twin(topics, prior, X, twin=reference.fold_in):
    tokens, margin = twin(topics, prior, X)
    clear = margin >= CLEAR
    assert clear.mean() > 0.5
    result = infer(fold_in, topics, prior, X)
    error = np.abs(result - tokens)[clear] / np.maximum(X.sum(axis=1), 1.0)[clear, None]
    assert error.max() < SINGLE


@pytest.mark.parametrize("n_topics", [1, 2, 8, 40])
def test_expected_tokens_are_those_of_the_reference(n_topics, seed):
    topics, prior, X = problem([seed, n_topics], n_topics)
    X[3] = 0.0
    check_equals_twin(topics, prior, X)


@pytest.mark.parametrize("n_topics", [1, 5, 40])
def test_mixtures_are_those_of_the_reference(n_topics, seed):
    """Under a scale of counts, with words that none has seen and priors by topic."""
    rng, n_words = np.random.default_rng([seed, n_topics]), 30
    X = rng.poisson(0.7, (6, n_words)).astype(float)
    shares = rng.dirichlet(np.ones(n_topics), 6)
    seen = SeenWords(rng.permutation(n_words)[:20], n_words)
    counts = WordTopics(rng.gamma(0.3, 9.0, (20, n_topics)), seen)
    counts.decay(0.3)
    topics = MeanTopics.of(counts, 0.05).under(0.2)
    phi = reference.mean_topics(counts.dense(), 0.2)
    want = reference.mixture(shares, phi, X)
    assert_allclose(mix(shares, topics, sp.csr_array(X)), want, rtol=1e-12)
    assert_allclose(mix(shares, phi, sp.csr_array(X)), want, rtol=1e-12)
    assert not np.allclose(want, mix(shares + 0.01, phi, sp.csr_array(X)))


# Against the posterior ----------------------------------------------------------------


def posterior_mean(topics, prior, counts):
    """E[N | w] by the sum over all topics of all tokens; 1e9 tokens hold topics."""
    words, held = np.repeat(np.arange(len(counts)), counts.astype(int)), 1e9 * topics.T
    given = [words.tolist()], prior, 1e-9, len(counts), held
    return hdp_collapsed.exact_responsibilities(*given)[0].sum(axis=0)


def errors_of(by, seed, prior, eta):
    """Distance of the mean proportions of small documents from exact ones."""
    rng, n_docs = np.random.default_rng(seed), 80
    total = 0.0
    for _ in range(n_docs):
        topics = rng.dirichlet(np.full(8, eta), size=3) + 1e-9
        topics /= topics.sum(axis=1, keepdims=True)
        counts = rng.multinomial(7, rng.dirichlet(prior) @ topics).astype(float)
        exact = posterior_mean(topics, prior, counts)
        result = infer(by, topics, prior, counts[None])[0]
        total += np.abs(result - exact).sum() / (7.0 + prior.sum()) / n_docs
    return total


@pytest.mark.long
@along_diagonal(("concentration", "eta"), [0.1, 0.5, 2.0], [0.5, 1.0, 0.1])
def test_proportions_are_nearer_to_posterior_means_than_mean_field(
    concentration, eta, seed
):
    prior = concentration * np.array([0.2, 0.3, 0.5])
    error = errors_of(fold_in, seed, prior, eta)
    assert error < errors_of(fold_in_by_mean_field, seed, prior, eta)
