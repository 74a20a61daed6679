"""Laws of the document-completion score and of perplexity."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from skbnp import HDP
from skbnp.datasets import make_bars
from skbnp.metrics import (
    document_completion_score,
    held_out_log_likelihood,
    perplexity,
    split_tokens,
)


@pytest.fixture(scope="module")
def bars():
    return make_bars(160, side=4, n_words=40, random_state=0)


@pytest.fixture(scope="module")
def hdp(bars):
    return HDP(n_components=10, max_iter=3, random_state=0).fit(bars.data)


def model_of(topics, weights, concentration=1.0):
    """What the score reads of our own estimators."""
    return SimpleNamespace(
        topic_word_distr_=np.asarray(topics),
        topic_weights_=np.asarray(weights),
        doc_concentration_=concentration,
    )


class Mixture:
    """What the score reads of other estimators: one mixture for every document."""

    def __init__(self, components, proportions):
        self.components_ = np.asarray(components)
        self.proportions = np.asarray(proportions)

    def transform(self, X):
        self.n_tokens_seen = X.sum()
        return np.tile(self.proportions, (X.shape[0], 1))


# Our own estimators -------------------------------------------------------------------


def test_score_is_the_held_out_likelihood_with_the_leftover_as_last_prior(bars):
    topics = bars.topic_word_distr
    weights = np.full(len(topics), 0.9 / len(topics))
    parts = split_tokens(bars.data, observed=0.7, random_state=3)
    expected = held_out_log_likelihood(topics, 2.0 * np.append(weights, 0.1), *parts)
    score = document_completion_score(
        model_of(topics, weights, 2.0), bars.data, observed=0.7, random_state=3
    )
    np.testing.assert_allclose(score, expected, rtol=1e-13)


@pytest.mark.parametrize("excess", [0.0, 2e-16])
def test_model_without_leftover_is_scored_without_it(bars, excess):
    topics = bars.topic_word_distr[:2]
    weights = np.array([0.5, 0.5 + excess])
    parts = split_tokens(bars.data)
    expected = held_out_log_likelihood(topics, weights, *parts)
    assert document_completion_score(model_of(topics, weights), bars.data) == expected


# As a scorer --------------------------------------------------------------------------


def test_score_serves_cross_val_score(bars):
    scores = cross_val_score(
        HDP(n_components=5, max_iter=2, random_state=0),
        bars.data,
        scoring=document_completion_score,
        cv=3,
        error_score="raise",
    )
    default = cross_val_score(
        HDP(n_components=5, max_iter=2, random_state=0), bars.data, cv=3
    )
    np.testing.assert_array_equal(scores, default)


# Other estimators ---------------------------------------------------------------------


def test_mixture_is_scored_by_hand():
    """p = 3/4 (1/4, 3/4) + 1/4 (1, 0) = (7, 9) / 16, on 1 of 5 tokens."""
    model = Mixture([[1, 3], [2, 0]], [6, 2])
    score = document_completion_score(model, [[5, 0]])
    np.testing.assert_allclose(np.exp(score), 7 / 16)


@pytest.mark.parametrize(
    "model",
    [
        Mixture([[1, 3], [2, -1]], [0.5, 0.5]),
        Mixture([[1, 3], [2, 1]], [1.5, -0.5]),
    ],
    ids=["components", "transform"],
)
def test_signed_factors_are_refused(model):
    with pytest.raises(ValueError, match="negative"):
        document_completion_score(model, [[5, 5]])


# Perplexity ---------------------------------------------------------------------------


def test_perplexity_is_the_exponential_of_the_negative_score(bars, hdp):
    expected = np.exp(-document_completion_score(hdp, bars.data))
    assert perplexity(hdp, bars.data) == expected


def test_model_at_the_end_of_a_pipeline_is_scored(bars, hdp):
    pipeline = Pipeline([("same", FunctionTransformer(accept_sparse=True)), ("m", hdp)])
    score = document_completion_score(pipeline, bars.data)
    assert score == document_completion_score(hdp, bars.data)
