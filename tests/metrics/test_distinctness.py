"""Diversity and exclusivity against their definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skbnp import StickBreakingHDP
from skbnp.datasets import make_hdp
from skbnp.metrics import topic_diversity, topic_exclusivity
from skbnp.models.hdp_sticks import BoundMerges


def frex(phi, n_terms, weight):
    """Mean FREX, one rank at a time; no ties."""
    shares, n_features, result = phi / phi.sum(axis=0), phi.shape[1], []
    for row, own in zip(phi, shares, strict=True):
        values = [
            1.0
            / (
                weight / ((own <= own[w]).sum() / n_features)
                + (1.0 - weight) / ((row <= row[w]).sum() / n_features)
            )
            for w in np.argsort(-row)[:n_terms]
        ]
        result.append(np.mean(values))
    return np.array(result)


@pytest.fixture
def phi():
    return np.random.default_rng(0).dirichlet(np.full(30, 0.3), 4)


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.7, 1.0])
def test_exclusivity_is_the_mean_frex(phi, weight):
    result = topic_exclusivity(phi, n_terms=6, weight=weight)
    assert_allclose(result, frex(phi, 6, weight))
    counts = 100 * phi * np.arange(1, 5)[:, None]
    assert_allclose(topic_exclusivity(counts, n_terms=6, weight=weight), result)


def test_exclusivity_needs_probabilities():
    with pytest.raises(TypeError, match="got lists of terms"):
        topic_exclusivity([["sun", "rain"]])


def test_diversity_counts_different_terms():
    assert topic_diversity([["a", "b"], ["c", "d"]]) == 1.0
    assert topic_diversity([["a", "b"]] * 4) == 0.25
    assert topic_diversity(np.eye(3)) == 1.0  # terms without probability are none
    assert topic_diversity(np.ones((5, 30)), n_terms=10) == 0.2


def test_diversity_is_that_of_topics_in_use(monkeypatch):
    monkeypatch.setattr(BoundMerges, "end_pass", lambda *args: True)
    X = make_hdp(150, n_features=40, n_components=3, random_state=0).data
    hdp = StickBreakingHDP(
        max_components=30, learning_method="batch", random_state=0
    ).fit(X)
    heaviest = np.argsort(-hdp.topic_weights_)[: hdp.n_active_components_]
    expected = topic_diversity(hdp.topic_word_distr_[heaviest], n_terms=5)
    assert topic_diversity(hdp, n_terms=5) == expected
    assert topic_diversity(hdp.topic_word_distr_, n_terms=5) < 0.9 * expected
    exclusivity = topic_exclusivity(hdp)
    assert np.isfinite(exclusivity).sum() == hdp.n_active_components_ < 30
