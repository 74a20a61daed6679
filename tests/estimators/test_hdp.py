"""What HDP promises beyond the checks that all estimators share."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from checks.estimators import criterion, each_family, mean_field_hdp
from skbnp import HDP
from skbnp.metrics import held_out_log_likelihood, split_tokens

FAMILIES_AND_METHODS = pytest.mark.parametrize(
    ("family", "method"),
    [("collapsed", "online"), ("mean_field", "memoized"), ("mean_field", "batch")],
)


def last(hdp):
    """Bound of a fit, or what stands in its place."""
    return getattr(hdp, f"{criterion(hdp)}_")


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


@each_family
def test_terms_sum_to_the_bound(X, X_test, family):
    hdp = HDP(10, variational_family=family, max_iter=2, random_state=0).fit(X)
    terms = hdp.elbo_terms(X_test)
    assert set(terms) == {
        "words",
        "assignments",
        "entropy",
        "weights",
        "doc_concentration",
    }
    assert_allclose(sum(terms.values()), hdp.elbo(X_test), rtol=1e-15)


def test_bound_of_the_training_data_agrees_with_the_trace(X):
    """After a fit that has settled, up to the last update and to tol."""
    hdp = mean_field_hdp(10, learning_method="batch", max_iter=200, tol=1e-7)
    hdp.set_params(mean_change_tol=1e-5, random_state=0)
    hdp.fit(X)
    assert_allclose(hdp.elbo(X), hdp.elbo_, atol=1e-3)


# Learning ---------------------------------------------------------------------------


@pytest.mark.parametrize("learn_priors", [False, True, "concentrations"])
def test_batch_bound_never_falls_after_the_warm_up(X, learn_priors, seed):
    hdp = mean_field_hdp(
        12,
        learning_method="batch",
        learn_priors=learn_priors,
        corpus_concentration_prior=(1e12, 1e12),  # fixed: each gamma has its own scale
        warm_up=2,
        max_iter=15,
        tol=0.0,
        random_state=seed,
    ).fit(X)
    trace = np.array(hdp.history_["elbo"])[2:]
    assert np.diff(trace).min() > -1e-9


@pytest.mark.long
@FAMILIES_AND_METHODS
def test_prediction_comes_close_to_that_of_the_true_topics(
    X, X_test, bars, method, family
):
    truth = held_out_log_likelihood(bars.topic_word_distr, 0.1, *split_tokens(X_test))
    hdp = HDP(40, variational_family=family, learning_method=method, min_gain=0)
    quiet_fit(hdp.set_params(topic_word_prior=0.1, random_state=0), X)
    assert truth - 0.1 < hdp.score(X_test) < truth + 0.02


@each_family
def test_most_bars_are_found(X, bars, family):
    hdp = HDP(40, variational_family=family, topic_word_prior=0.1, batch_size=100)
    hdp.set_params(random_state=0).fit(X)
    distance = (
        np.abs(bars.topic_word_distr[:, None] - hdp.topic_word_distr_[None]).sum(axis=2)
        / 2
    )
    pairs = linear_sum_assignment(distance)
    assert (distance[pairs] < 0.3).sum() >= 15


@pytest.mark.weekly
def test_held_out_score_on_news_is_above_that_of_frozen_topics(corpus):
    X = corpus("ap")
    order = np.random.default_rng(0).permutation(X.shape[0])
    train, test = X[order[200:]], X[order[:200]]
    hdp = mean_field_hdp(100, max_iter=10, random_state=0)
    assert hdp.fit(train).score(test) > -7.85


@FAMILIES_AND_METHODS
def test_priors_stay_unless_they_are_learned(X, method, family):
    given = {
        "doc_concentration": 0.7,
        "corpus_concentration": 2.5,
        "topic_word_prior": 0.2,
    }
    learned = {False: set(), True: set(given), "concentrations": set(given)}
    learned["concentrations"] = learned["concentrations"] - {"topic_word_prior"}
    for learn_priors, names in learned.items():
        model = HDP(8, learning_method=method, learn_priors=learn_priors, max_iter=2)
        model.set_params(variational_family=family, warm_up=1, split_merge=False)
        quiet_fit(model.set_params(**given, random_state=0), X)
        moved = {n for n in given if getattr(model, n + "_") != given[n]}
        assert moved == names, learn_priors


def test_first_online_step_of_rate_one_is_the_batch_step(X, monkeypatch):
    """tau = 0 and one minibatch: rho_1 = 1. Batch learning alone moves its tangents."""
    monkeypatch.setattr("skbnp.models.hdp.memory.N_REFRESHES", 0)
    options = {"max_iter": 1, "random_state": 0, "warm_up": 0, "split_merge": False}
    batch = quiet_fit(mean_field_hdp(8, learning_method="batch", **options), X)
    online = mean_field_hdp(8, learning_offset=0.0, batch_size=500, **options).fit(X)
    # Rows stand in another order, so sums differ in their last bits.
    assert_allclose(online.components_, batch.components_, rtol=1e-9, atol=1e-9)
    assert_allclose(online.topic_weights_, batch.topic_weights_, rtol=1e-9)
    assert_allclose(online.doc_concentration_, batch.doc_concentration_, rtol=1e-9)


# Trace ------------------------------------------------------------------------------


@pytest.mark.long
@each_family
def test_fit_ends_when_the_bound_has_settled(X, family):
    hdp = HDP(5, variational_family=family, learning_method="batch", max_iter=300)
    hdp.set_params(tol=1e-4, random_state=0).fit(X)
    trace = hdp.history_[criterion(hdp)]
    assert hdp.converged_
    assert len(trace) <= hdp.n_iter_ < 300  # no entries of trials
    assert np.all(np.diff(hdp.history_["step"]) > 0)
    assert abs(trace[-1] - trace[-2]) < 1e-4 * abs(trace[-1])


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


@each_family
def test_warm_start_goes_on_where_the_fit_ended(X, family):
    hdp = HDP(12, variational_family=family, learning_method="batch", max_iter=6)
    hdp.set_params(tol=0, random_state=0)
    first = last(hdp.set_params(split_merge=False).fit(X))
    hdp.set_params(warm_start=True, max_iter=3).fit(X)
    assert last(hdp) >= first - 1e-9
    assert hdp.n_iter_ == 3
    assert hdp.history_["step"] == list(range(1, 10))


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
    "name",
    [
        "components_",
        "topic_word_distr_",
        "elbo_",
        "log_predictive_",
        "n_active_components_",
    ],
)
def test_attributes_wait_for_the_fit(name):
    assert not hasattr(HDP(), name)
    with pytest.raises(NotFittedError):
        getattr(HDP(), name)


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
