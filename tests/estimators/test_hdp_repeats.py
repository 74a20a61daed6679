"""`HDP` of documents that repeat words for reasons of their own, and of others."""

import numpy as np
import pytest

from skbnp import HDP
from skbnp.datasets import make_bars


def draw_bursty(n_docs, n_topics, n_words, length, concentration, seed):
    """Documents of an HDP, whose words come from a Dirichlet process in each."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.05), n_topics)
    weights = rng.dirichlet(np.full(n_topics, 5.0))
    X = np.zeros((n_docs, n_words))
    for counts in X:
        mixture = rng.dirichlet(weights + 1e-9) @ topics
        drawn = rng.choice(n_words, p=mixture, size=rng.poisson(length))
        for at in range(len(drawn)):
            if rng.random() * (concentration + at) >= concentration:
                drawn[at] = drawn[rng.integers(at)]
        np.add.at(counts, drawn, 1.0)
    return X


@pytest.mark.parametrize("seed", [0, 1])
def test_planted_topics_are_found_where_documents_repeat_words(seed):
    X = draw_bursty(300, 6, 120, 80, 20.0, seed)
    hdp = HDP(random_state=seed).fit(X)
    assert 5 <= hdp.n_components_ <= 8
    assert 20.0 / 1.5 <= hdp.word_concentration_ <= 20.0 * 1.5
    assert hdp.word_discount_ <= 0.1
    # Topics alone stand in for documents.
    assert HDP(burstiness=False, random_state=seed).fit(X).n_components_ > 40


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_few_documents_that_repeat_no_word_have_no_burstiness(seed):
    hdp = HDP(random_state=seed).fit(make_bars(120, random_state=0).data)
    assert (hdp.word_discount_, hdp.word_concentration_) == (0.0, np.inf)
    assert 18 <= hdp.n_components_ <= 24
