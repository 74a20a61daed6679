"""The EM step of late topics of a stream, against a slow twin."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from reference import late_topics
from skbnp.models.hdp.stream_trials import CandidateDocuments, LateMixture

N_DOCS, N_WORDS = 9, 14


def draw(n_topics, seed=0):
    """Counts with an empty document, and a random mixture."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.8, (N_DOCS, N_WORDS)) * rng.gamma(2.0, 0.7)
    counts[4] = 0.0
    old = rng.dirichlet(np.ones(N_WORDS), N_DOCS)
    shares = rng.dirichlet(np.ones(1 + n_topics), N_DOCS)
    topics = rng.dirichlet(np.ones(N_WORDS), n_topics)
    return counts, old, shares, topics


def mixture_of(counts, old):
    X = sp.csr_array(counts)
    return LateMixture(X.indptr, X.indices, X.data, old[counts > 0.0])


@pytest.mark.parametrize("n_topics", [1, 2, 7])
def test_expected_tokens_are_those_of_the_slow_twin(n_topics):
    counts, old, shares, topics = draw(n_topics)
    mixture = mixture_of(counts, old)
    tokens, parts = mixture.expected_tokens(shares, topics)
    wanted, by_word = late_topics.expected_counts(counts, old, shares, topics)
    assert_allclose(tokens, wanted, rtol=1e-13)
    sums = [np.bincount(mixture.words, part, N_WORDS) for part in parts[:, 1:].T]
    assert_allclose(sums, by_word, rtol=1e-13)
    assert_allclose(tokens.sum(), counts.sum(), rtol=1e-13)
    if n_topics > 1:  # a control: the order of topics matters
        other, _ = mixture.expected_tokens(shares, topics[::-1])
        assert not np.allclose(other, wanted)


def test_a_round_learns_from_the_expected_counts_of_words():
    counts, old, _, start = draw(3)
    given = CandidateDocuments(mixture_of(counts, old), N_WORDS, N_WORDS, 0.1)
    sums, tokens, _ = given.learn(start, 1)
    topics = given.topics(start)
    shares = given.mixture.shares(topics, 1)
    wanted, by_word = late_topics.expected_counts(counts, old, shares, topics)
    assert_allclose(sums, by_word, rtol=1e-13)
    assert_allclose(tokens, wanted[:, 1:], rtol=1e-13)
    assert not np.allclose(given.learn(start, 2)[0], by_word)
