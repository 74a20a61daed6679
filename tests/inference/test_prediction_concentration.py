"""The concentration by which documents are predicted, apart from that of learning."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from skbnp import HDP
from skbnp.components.word_topics import WordTopics
from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Lineage
from skbnp.models.hdp.collapsed_model import CollapsedHDP
from skbnp.models.hdp.held_out import hold_out
from skbnp.models.hdp.held_out_priors import suit_joint_concentration
from skbnp.models.hdp.model import HDPState
from skbnp.models.hdp.posterior import HDPPosterior

N_TOPICS, N_WORDS = 6, 60


def draw(concentration, *, n_docs=400, length=30, seed=0):
    """Documents, and a posterior of the topics that they were drawn from."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(N_WORDS, 0.1), size=N_TOPICS)
    weights = np.append(np.full(N_TOPICS, 0.999 / N_TOPICS), 0.001)
    shares = rng.dirichlet(concentration * weights[:-1], size=n_docs)
    X = np.array([rng.multinomial(length, share @ topics) for share in shares])
    model = CollapsedHDP(learn_concentrations=True, learn_topic_prior=False)
    state = HDPState(weights, 0.2, 1.0, 1e-3)
    global_stats, ids = (
        model.start(state, WordTopics(1e5 * topics.T)),
        np.arange(N_TOPICS),
    )
    log = [Lineage(0, "init", (), tuple(ids.tolist()))]
    return sp.csr_array(X.astype(float)), HDPPosterior(
        model, state, global_stats, ids, log
    )


def suit(X, posterior, seed=0):
    held = hold_out(X, np.random.default_rng(seed))
    with Executor(None) as executor:
        suit_joint_concentration([(held.sample(), posterior)], executor)
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
    held = suit(X, posterior)
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


def test_it_is_no_smaller_than_that_of_learning():
    X, posterior = draw(0.3)
    posterior.state = replace(posterior.state, doc_concentration=5.0)
    suit(X, posterior)
    assert posterior.state.prediction_concentration == 5.0
    assert posterior.state.for_prediction.doc_concentration == 5.0


@pytest.mark.long
def test_short_documents_are_predicted_better_by_it():
    X = draw(2.0, n_docs=600, length=6)[0]
    hdp = HDP(random_state=0).fit(X[:400])
    assert hdp.prediction_concentration_ > 1.5 * hdp.doc_concentration_
    score, shares = hdp.score(X[400:]), hdp.transform(X[400:])
    state = hdp._posterior.state
    hdp._posterior.state = replace(state, prediction_concentration=0.0)
    assert hdp.score(X[400:]) < score - 1e-2
    assert (hdp.transform(X[400:]).max(axis=1) > shares.max(axis=1)).mean() > 0.9
