"""The collapsed family of the HDP, as users meet it."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from checks.corpora import topic_counts
from checks.long import along_diagonal, daily
from checks.states import assert_same, learned
from skbnp import HDP
from skbnp.datasets import make_bars, make_hdp
from skbnp.inference.executor import Executor
from skbnp.metrics import document_completion_score
from skbnp.models.hdp.fold_in import fold_in

METHODS = ["online", "memoized", "batch"]


@pytest.fixture(scope="module")
def X():
    return topic_counts(120, 40, n_topics=5)


def collapsed(n_components=8, **settings):
    options = {"max_iter": 4, "tol": 0, "batch_size": 30, "random_state": 0}
    return HDP(n_components, **(options | settings))


@pytest.fixture(scope="module")
def fitted(X):
    return collapsed().fit(X)


# Learning -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("init", ["docs", "random"])
def test_log_predictive_rises_from_the_first_pass_to_the_last(init, method, X):
    hdp = collapsed(learning_method=method, init=init, max_iter=10).fit(X)
    trace = np.array(hdp.history_["log_predictive"])
    trace = trace[np.isfinite(trace)]
    assert len(trace) == 10
    # 0.08 to 0.4 nats on a dozen other starts.
    assert trace[-1] > trace[0] + 0.05
    assert -np.log(40) < trace[-1] < 0.0


# Evaluation ---------------------------------------------------------------------------


def test_there_is_no_bound_of_training_data(fitted):
    assert not hasattr(fitted, "elbo_")
    assert "elbo" not in fitted.history_
    with pytest.raises(AttributeError, match="log_predictive"):
        fitted.elbo_  # noqa: B018
    mean_field = HDP(4, variational_family="mean_field", max_iter=1)
    mean_field.fit(topic_counts(30, 12))
    assert not hasattr(mean_field, "log_predictive_")
    assert np.isfinite(mean_field.elbo_)


def test_log_predictive_of_a_stream_is_that_of_recent_documents(X):
    hdp = collapsed().partial_fit(X[:60])
    assert np.isnan(hdp.history_["log_predictive"][-1])
    global_stats = hdp._posterior.global_stats
    assert hdp.log_predictive_ == global_stats.log_predictive / global_stats.n_tokens


def proportions(hdp, X):
    """As `score` has them."""
    words = hdp.topic_word_distr_
    prior = hdp.doc_concentration_ * hdp.topic_weights_
    with Executor(None) as executor:
        theta = fold_in(words.T.copy(), prior, sp.csr_array(X), executor).toarray()
    theta += prior
    return theta / theta.sum(axis=1, keepdims=True)


def test_documents_are_transformed_as_score_folds_them_in(fitted, X):
    """Word weights are in single precision, of which iterations make 1e-4."""
    assert_allclose(fitted.transform(X), proportions(fitted, X), rtol=0, atol=1e-4)
    other = collapsed(variational_family="mean_field").fit(X)
    assert np.abs(other.transform(X) - proportions(other, X)).max() > 0.01


@pytest.mark.long
@pytest.mark.parametrize("number", daily(1, [0, 1]))
def test_collapsed_predicts_better_than_mean_field(number):
    """Tokens of documents that neither has seen, where topics are many.

    From 0.09 to 0.13 nats a token on three such corpora; the error of 2,400 tokens'
    difference is a tenth of that.
    """
    options = {"n_features": 500, "n_words": 60, "corpus_concentration": 30.0}
    counts = sp.csr_array(make_hdp(700, random_state=number, **options).data)
    scores = {}
    for family in ("collapsed", "mean_field"):
        hdp = collapsed(60, variational_family=family, max_iter=15, batch_size=50)
        scores[family] = document_completion_score(hdp.fit(counts[:500]), counts[500:])
    assert scores["collapsed"] > scores["mean_field"] + 0.05, str(scores)


# Refusals -----------------------------------------------------------------------------


@along_diagonal(("first", "method"), ["collapsed", "mean_field"], METHODS)
def test_a_change_of_family_is_refused(first, method, X):
    second = "mean_field" if first == "collapsed" else "collapsed"
    hdp = collapsed(3, learning_method=method, warm_start=True, max_iter=1)
    hdp.set_params(variational_family=first).fit(X)
    before = learned(pickle.loads(pickle.dumps(hdp)))
    hdp.set_params(variational_family=second)
    for learn in (hdp.fit, hdp.partial_fit):
        with pytest.raises(ValueError, match="variational_family"):
            learn(X)
        assert_same(learned(hdp), before)
    hdp.set_params(warm_start=False).fit(X)  # a new fit may
    assert hasattr(hdp, "elbo_") == (second == "mean_field")


@pytest.mark.long
def test_a_stream_ends_topics_once_it_has_shown_enough_documents():
    X = make_bars(1200, random_state=0).data
    hdp = HDP(100, total_samples=1200, random_state=0)
    for _ in range(4):
        hdp.partial_fit(X)
    assert hdp.n_components_ < 100


@pytest.mark.parametrize(("n_docs", "n_stands_for"), [(5, 25), (50, 50)])
def test_a_stream_of_unknown_length_stands_for_the_prior_of_its_topics(
    n_docs, n_stands_for
):
    # Of 10 topics over 100 words: 500 tokens, as many as 25 documents of 20 hold.
    chunk = make_bars(50, n_words=20, random_state=0).data[:n_docs]
    hdp = HDP(10, topic_word_prior=0.5, split_merge=False, random_state=0)
    total = hdp.partial_fit(chunk)._posterior.global_stats.topic_words.total.sum()
    step = (1.0 + 1.0) ** -0.5  # the start has the tokens of the chunk
    assert_allclose(total, 20 * ((1.0 - step) * n_docs + step * n_stands_for))


def test_streams_of_unknown_length_keep_topics_that_few_documents_cannot_fill():
    X = make_hdp(1200, n_features=5000, random_state=0).data
    hdp = HDP(100, split_merge=False, random_state=0)
    for begin in range(0, 1200, 20):
        hdp.partial_fit(X[begin : begin + 20])
    assert hdp.n_active_components_ > 30
