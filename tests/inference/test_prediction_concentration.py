"""The concentration by which documents are predicted, apart from that of learning."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from checks.posteriors import posterior_of
from reference import held_out as reference
from skbnp.inference.executor import Executor
from skbnp.models.hdp.fold_in import (
    MeanTopics,
    MixturePredictor,
    OrderedTopics,
    background,
    mix,
)
from skbnp.models.hdp.held_out import choose_prediction, hold_out
from skbnp.models.hdp.model import HDPState

N_TOPICS, N_WORDS = 6, 60


def draw(concentration, *, n_docs=400, length=30, seed=0):
    """Documents, and a posterior of the topics that they were drawn from."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(N_WORDS, 0.1), size=N_TOPICS)
    weights = np.append(np.full(N_TOPICS, 0.999 / N_TOPICS), 0.001)
    shares = rng.dirichlet(concentration * weights[:-1], size=n_docs)
    X = np.array([rng.multinomial(length, share @ topics) for share in shares])
    state = HDPState(weights, 0.2, 1.0, 1e-3)
    return sp.csr_array(X.astype(float)), posterior_of(state, 1e5 * topics.T)


def chosen(X, posterior, seed=0):
    held = hold_out(X, np.random.default_rng(seed))
    with Executor(None) as executor:
        choose_prediction([(held.sample(), posterior)], executor)
    return held


def log_probability(held, posterior, concentration):
    state = replace(posterior.state, prediction_concentration=concentration)
    other = replace(posterior, state=state)
    with Executor(None) as executor:
        return held.log_probability(held.predict(other, executor)).sum()


@pytest.mark.parametrize("concentration", [1.0, 3.0, 10.0])
def test_it_is_that_of_the_documents_that_are_predicted(concentration, seed):
    X, posterior = draw(concentration, seed=seed)
    state = posterior.state
    held = chosen(X, posterior)
    result = posterior.state.prediction_concentration
    assert concentration / 2.0 <= result <= 2.0 * concentration
    assert posterior.state.doc_concentration == state.doc_concentration
    assert_array_equal(posterior.state.doc_prior, state.doc_prior)
    # No other value predicts much better, and that of learning does worse.
    best = log_probability(held, posterior, result)
    n_tokens = held.n_tokens.sum()
    for factor in (0.25, 0.5, 2.0, 4.0):
        other = log_probability(held, posterior, factor * result)
        assert other <= best + 1e-3 * n_tokens
    assert log_probability(held, posterior, 0.0) < best - 4e-3 * n_tokens


# The mean topic ----------------------------------------------------------------------


def draw_skewed(is_skewed, seed=0):
    """Documents, and a posterior that knows a few hundred tokens of their topics.

    Topics were drawn from a prior of unequal words if `is_skewed`.
    """
    rng = np.random.default_rng(seed)
    base = rng.dirichlet(np.full(N_WORDS, 0.3)) if is_skewed else np.ones(N_WORDS)
    topics = rng.dirichlet(12.0 * base / base.sum() + 1e-6, size=N_TOPICS)
    shares = rng.dirichlet(np.full(N_TOPICS, 0.3), size=600)
    X = np.array([rng.multinomial(20, share @ topics) for share in shares])
    counts = np.array([rng.multinomial(60, topic) for topic in topics]).T
    weights = np.append(np.full(N_TOPICS, 0.99 / N_TOPICS), 0.01)
    state = HDPState(weights, 2.0, 1.0, 12.0 / N_WORDS)
    return sp.csr_array(X.astype(float)), posterior_of(state, counts.astype(float))


def test_the_mean_topic_changes_mixtures_as_the_slow_twin(seed):
    X, posterior = draw_skewed(True, seed)
    state, words = posterior.state, posterior.global_stats.topic_words
    topics, some = MeanTopics.of(words, state.topic_word_prior), X[:7]
    theta = np.random.default_rng(seed).gamma(1.0, size=(7, N_TOPICS))
    prior, rest = state.doc_prior, state.doc_concentration * state.weights[-1]
    phi = reference.mean_topics(words.dense(), state.topic_word_prior)
    mean = (phi @ prior + rest / N_WORDS) / (prior.sum() + rest)
    change = background(theta, np.full(7, rest), topics, prior, rest, some)
    plain = mix(theta, topics, some) + rest / N_WORDS
    for weight in (0.0, 0.4, 1.0):
        wanted = reference.background_mixture(
            theta, rest, words.dense(), state.topic_word_prior, mean, weight
        )
        assert_allclose(plain + weight * change, wanted[some.nonzero()], rtol=1e-12)
    assert np.abs(change).max() > 1e-2 * plain.max()  # a control


def predicted(held, posterior, weight):
    """Log probability of held-out tokens by the predictor of the estimators."""
    state = posterior.state.for_prediction
    topics = MeanTopics.of(
        posterior.global_stats.topic_words, posterior.state.topic_word_prior
    )
    prior = np.append(state.doc_prior, state.doc_concentration * state.weights[-1])
    samples = [OrderedTopics(topics, np.arange(N_TOPICS), prior)]
    predictor = MixturePredictor(samples, background_weight=weight)
    with Executor(None) as executor:
        return predictor.log_likelihood(held.observed, held.held_out, executor)


@pytest.mark.parametrize("is_skewed", [True, False])
def test_its_weight_is_that_which_predicts_best(is_skewed, seed):
    X, posterior = draw_skewed(is_skewed, seed)
    held = chosen(X, posterior)
    weight = posterior.state.background_weight
    assert weight > 0.4 if is_skewed else weight < 0.4
    best, n_tokens = predicted(held, posterior, weight), held.held_out.sum()
    for other in np.linspace(0.0, 1.0, 11):
        assert predicted(held, posterior, other) <= best + 1e-3 * n_tokens
    loss = predicted(held, posterior, 0.0 if is_skewed else 1.0) - best
    assert loss < -1e-2 * n_tokens  # a control
