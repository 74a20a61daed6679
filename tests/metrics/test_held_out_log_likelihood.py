"""Laws of the held-out log likelihood under given topics alone.

Of what documents repeat, see `test_repeats`.
"""

from functools import partial

import numpy as np
import pytest

from reference import held_out as reference
from skbnp import metrics

held_out_log_likelihood = partial(metrics.held_out_log_likelihood, repeats=False)
#: Expected counts in single precision are exact to this share of the tokens, and scores
#: of some nats about so.
SINGLE = 1e-4
#: Decisions of a fold-in closer than this may fall otherwise in single precision.
CLEAR = 2e-4
PRIORS = {
    "scalar": 0.3,
    "per topic": [0.9, 0.1, 0.02, 2.0],
    "with leftover": [0.9, 0.1, 0.02, 2.0, 0.7],
}
priors = pytest.mark.parametrize("name", PRIORS)


def corpus(seed=0, n_docs=25, n_features=15, n_topics=4, concentration=0.2):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_features, concentration), size=n_topics) + 1e-6
    topics /= topics.sum(axis=1, keepdims=True)
    shares = rng.dirichlet(np.full(n_topics, 0.3), size=n_docs) @ topics
    X_observed = rng.poisson(40.0 * shares)
    X_observed[0] = 0
    X_held = rng.poisson(10.0 * shares)
    X_held[1] = 0
    return topics, X_observed, X_held


def by_reference(topics, prior, X_observed, X_held):
    """Score of the reference, and documents that hang on no rounding error."""
    topics = np.asarray(topics) / np.sum(topics, axis=1, keepdims=True)
    prior = np.broadcast_to(prior, len(topics)) if np.ndim(prior) == 0 else prior
    leftover = sum(prior[len(topics) :])
    doc_prior = np.asarray(prior, dtype=float)[: len(topics)]
    clear = reference.fold_in(topics, doc_prior, X_observed)[1] >= CLEAR
    assert clear.mean() > 0.5
    observed, held = X_observed[clear], X_held[clear]
    score = reference.completion_score(topics, doc_prior, leftover, observed, held)
    return score, clear


# Against the reference and against hand computations ----------------------------------


def check_equals_reference(score, prior, seed=0):
    topics, X_observed, X_held = corpus(seed)
    expected, clear = by_reference(topics, prior, X_observed, X_held)
    result = score(topics, prior, X_observed[clear], X_held[clear])
    np.testing.assert_allclose(result, expected, rtol=SINGLE)


@priors
def test_score_equals_reference(name, seed):
    check_equals_reference(held_out_log_likelihood, PRIORS[name], seed)


def test_score_equals_reference_where_topics_lack_words(seed):
    rng = np.random.default_rng(seed)
    topics = rng.gamma(1.0, size=(4, 12)) * (rng.random((4, 12)) < 0.5)
    topics[0] += 0.01
    X_observed, X_held = rng.poisson(2.0, size=(2, 20, 12))
    expected, clear = by_reference(topics, 0.2, X_observed, X_held)
    score = held_out_log_likelihood(topics, 0.2, X_observed[clear], X_held[clear])
    np.testing.assert_allclose(score, expected, rtol=SINGLE)


def test_reference_check_rejects_swapped_parts():
    def swapped(topics, prior, X_observed, X_held):
        return held_out_log_likelihood(topics, prior, X_held, X_observed)

    with pytest.raises(AssertionError):
        check_equals_reference(swapped, PRIORS["with leftover"])


# The document prior -------------------------------------------------------------------


@priors
@pytest.mark.parametrize("row", [0, 5], ids=["without words", "with words"])
def test_probabilities_of_the_vocabulary_sum_to_one(name, row):
    topics, X_observed, _ = corpus()
    given = topics, PRIORS[name], X_observed[[row]]
    log_p = [held_out_log_likelihood(*given, np.eye(15)[[word]]) for word in range(15)]
    np.testing.assert_allclose(np.exp(log_p).sum(), 1.0, rtol=1e-12)


# Impossible words ---------------------------------------------------------------------

HALF_BLIND = [[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]]  # the last word is impossible


def test_impossible_held_word_scores_minus_infinity():
    score = held_out_log_likelihood(HALF_BLIND, 0.1, [[3, 1, 0]], [[1, 0, 1]])
    assert score == -np.inf


def test_leftover_makes_every_word_possible():
    score = held_out_log_likelihood(HALF_BLIND, [1, 1, 0.5], [[0, 0, 0]], [[0, 0, 1]])
    np.testing.assert_allclose(np.exp(score), 0.5 / 2.5 / 3)


@pytest.mark.parametrize("prior", [0.1, [0.1, 0.1, 0.5]])
def test_impossible_observed_words_are_ignored(prior):
    with_words = held_out_log_likelihood(
        HALF_BLIND, prior, [[3, 1, 7], [0, 0, 2]], [[1, 2, 0], [0, 1, 0]]
    )
    without = held_out_log_likelihood(
        HALF_BLIND, prior, [[3, 1, 0], [0, 0, 0]], [[1, 2, 0], [0, 1, 0]]
    )
    assert with_words == without


# Sums over tokens and documents -------------------------------------------------------


def test_score_adds_up_over_more_entries_than_one_chunk():
    """More than 2^14 stored counts are scored in pieces."""
    topics, X_observed, X_held = corpus()
    once = held_out_log_likelihood(topics, 0.1, X_observed, X_held)
    times = -(-40000 // np.count_nonzero(X_held))
    many = held_out_log_likelihood(
        topics, 0.1, np.tile(X_observed, (times, 1)), np.tile(X_held, (times, 1))
    )
    np.testing.assert_allclose(many, once, rtol=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
def test_number_of_jobs_does_not_change_the_bits(n_jobs):
    topics, X_observed, X_held = corpus(n_docs=300)
    expected = held_out_log_likelihood(topics, 0.1, X_observed, X_held)
    score = held_out_log_likelihood(topics, 0.1, X_observed, X_held, n_jobs=n_jobs)
    assert score == expected


# Errors -------------------------------------------------------------------------------

GOOD = {
    "topic_word_distr": [[0.5, 0.5], [0.1, 0.9]],
    "doc_prior": 0.1,
    "X_observed": [[1.0, 2.0]],
    "X_held": [[1.0, 0.0]],
}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("topic_word_distr", [[0.5, -0.5], [0.1, 0.9]], "topic_word_distr"),
        ("topic_word_distr", [0.5, 0.5], "Expected 2D array"),
        ("topic_word_distr", [[0.5, 0.3, 0.2]], "disagree"),
        ("doc_prior", [0.1] * 4, "doc_prior must be a number or have 2 or 3"),
        ("doc_prior", 0.0, "doc_prior must be positive"),
        ("doc_prior", [0.1, np.inf], "doc_prior must be positive"),
        ("X_observed", [[-1.0, 2.0]], "Negative values"),
        ("X_observed", [[1.0, 2.0], [1.0, 0.0]], "disagree"),
        ("X_held", [[1.0, -2.0]], "Negative values"),
        ("X_held", [[1.0, 0.0, 0.0]], "disagree"),
        ("X_held", np.zeros((0, 2)), "0 sample"),
    ],
)
def test_bad_argument_is_refused_by_name(name, value, message):
    with pytest.raises(ValueError, match=message):
        held_out_log_likelihood(**{**GOOD, name: value})
