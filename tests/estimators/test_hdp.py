"""What HDP promises beyond the checks that all estimators share."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from checks.estimators import each_family, mean_field_hdp
from skbnp import HDP, StickBreakingHDP
from skbnp.metrics import held_out_log_likelihood, split_tokens

FAMILIES_AND_METHODS = pytest.mark.parametrize(
    ("family", "method"),
    [("collapsed", "online"), ("mean_field", "memoized"), ("mean_field", "batch")],
)


def quiet_fit(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


# Mass, weights, terms ---------------------------------------------------------------


@each_family
@pytest.mark.parametrize("method", ["batch", "memoized"])
def test_topics_hold_every_token_once(X, method, family, seed):
    hdp = HDP(15, variational_family=family, learning_method=method, max_iter=4)
    quiet_fit(hdp.set_params(burstiness=False, random_state=seed), X)
    held = (hdp.components_ - hdp.topic_word_prior_).sum()
    assert_allclose(held, X.sum(), rtol=1e-10)


def test_bound_of_the_training_data_agrees_with_the_trace(X):
    """After a fit that has settled, up to the last update and to tol."""
    hdp = mean_field_hdp(10, learning_method="batch", max_iter=200, tol=1e-7)
    hdp.set_params(mean_change_tol=1e-5, random_state=0)
    hdp.fit(X[:150])
    assert_allclose(hdp.elbo(X[:150]), hdp.elbo_, atol=1e-3)


# Learning ---------------------------------------------------------------------------


@pytest.mark.long
@FAMILIES_AND_METHODS
def test_prediction_comes_close_to_that_of_the_true_topics(
    X, X_test, bars, method, family
):
    truth = held_out_log_likelihood(bars.topic_word_distr, 0.1, *split_tokens(X_test))
    hdp = HDP(40, variational_family=family, learning_method=method, min_gain=0)
    quiet_fit(hdp.set_params(topic_word_prior=0.1, random_state=0), X)
    assert truth - 0.1 < hdp.score(X_test) < truth + 0.02


PRIORS = {
    "doc_concentration": 0.7,
    "corpus_concentration": 2.5,
    "topic_word_prior": 0.2,
}
LEARNERS = {
    "collapsed": HDP(8, split_merge=False),
    "memoized": mean_field_hdp(8, learning_method="memoized", split_merge=False),
    "batch": mean_field_hdp(8, learning_method="batch", split_merge=False),
    "sticks": StickBreakingHDP(8, batch_size=100),
    "sticks-batch": StickBreakingHDP(8, learning_method="batch"),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_priors_stay_unless_they_are_learned(name, X):
    learned = {False: set(), True: set(PRIORS), "concentrations": set(PRIORS)}
    learned["concentrations"] = learned["concentrations"] - {"topic_word_prior"}
    for learn_priors, names in learned.items():
        model = clone(LEARNERS[name]).set_params(learn_priors=learn_priors, **PRIORS)
        quiet_fit(model.set_params(warm_up=1, max_iter=2, random_state=0), X)
        moved = {n for n in PRIORS if getattr(model, n + "_") != PRIORS[n]}
        assert moved == names, learn_priors


# Trace ------------------------------------------------------------------------------


@each_family
def test_a_batch_fit_that_has_not_settled_says_so(X, family):
    hdp = HDP(20, learning_method="batch", max_iter=3, warm_up=0, tol=1e-9)
    hdp.set_params(variational_family=family, split_merge=False, burstiness=False)
    with pytest.warns(ConvergenceWarning, match=r"tol=1e-09\. Increase max_iter"):
        hdp.set_params(random_state=0).fit(X)
    assert not hdp.converged_


# Streams ----------------------------------------------------------------------------


@each_family
def test_a_stream_of_unknown_length_counts_for_the_documents_seen(X, family):
    hdp = HDP(6, variational_family=family, batch_size=100, random_state=0)
    for begin in range(0, 500, 100):
        hdp.partial_fit(X[begin : begin + 100])
    held = (hdp.components_ - hdp.topic_word_prior_).sum()
    assert 0.6 * X.sum() < held <= X.sum() * (1 + 1e-9)


@pytest.mark.long
@each_family
def test_stream_learns_what_a_fit_learns(X, X_test, family):
    hdp = HDP(20, variational_family=family, warm_up=2, random_state=0)
    short = clone(hdp).set_params(warm_up=5, max_iter=2).fit(X)
    hdp.set_params(batch_size=100, total_samples=500)
    for _ in range(8):
        hdp.partial_fit(X)
    assert hdp.score(X_test) > short.score(X_test)


def is_warming_up(hdp):
    """Whether the next documents of a stream are visited with mean weights."""
    return hdp._posterior.n_seen < hdp._stream_warm_up(hdp._posterior)


def test_warm_up_of_a_stream_ends(X, monkeypatch):
    """After some documents, or warm_up * total_samples."""
    monkeypatch.setattr("skbnp.estimators._variational.STREAM_WARM_UP", 300)
    hdp = mean_field_hdp(5, split_merge=False, random_state=0).partial_fit(X[:290])
    assert is_warming_up(hdp)
    hdp.partial_fit(X[290:300])
    assert not is_warming_up(hdp)
    hdp = mean_field_hdp(5, total_samples=100, warm_up=2, split_merge=False)
    hdp.set_params(random_state=0).partial_fit(X[:199])
    assert is_warming_up(hdp)
    hdp.partial_fit(X[199:200])
    assert not is_warming_up(hdp)


def test_warm_start_refuses_another_number_of_topics(X):
    hdp = HDP(5, max_iter=2, warm_start=True, random_state=0).fit(X)
    with pytest.raises(ValueError, match="n_components=9 with warm_start=True"):
        hdp.set_params(n_components=9).fit(X)


# Prediction -------------------------------------------------------------------------


def test_transform_gives_an_empty_document_the_topic_weights(X):
    hdp = HDP(6, max_iter=2, random_state=0).fit(X)
    got = hdp.transform(np.zeros((1, X.shape[1])))
    assert_allclose(got[0], hdp.topic_weights_ / hdp.topic_weights_.sum(), rtol=1e-12)


@pytest.mark.parametrize(
    ("length", "n_docs", "expected"),
    [
        (50.0, 100, 128),
        (50.0, 10_240, 128),
        (10.0, 10_240, 400),  # 4,000 tokens
        (50.0, 40_000, 500),  # 80 updates in a pass
        (5.0, 40_000, 800),
        (50.0, 10**7, 4096),
    ],
)
def test_minibatches_grow_with_the_corpus(length, n_docs, expected):
    assert HDP._batch_size_of(length * n_docs, n_docs) == expected
