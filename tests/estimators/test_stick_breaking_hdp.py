"""What StickBreakingHDP promises beyond the checks that all estimators share."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from checks.long import along_diagonal
from skbnp import HDP, StickBreakingHDP
from skbnp.metrics import held_out_log_likelihood, split_tokens
from skbnp.models.hdp_sticks import BoundMerges
from skbnp.utils.matching import cosines

METHODS = pytest.mark.parametrize("method", ["batch", "online"])


def quiet_fit(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


def make(method="batch", **changes):
    settings = {"max_iter": 8, "batch_size": 100, "random_state": 0}
    return StickBreakingHDP(25, 8, learning_method=method, **(settings | changes))


@pytest.fixture
def without_merges(monkeypatch):
    monkeypatch.setattr(BoundMerges, "end_pass", lambda *args: True)


@pytest.fixture(scope="module")
def fitted(X):
    return quiet_fit(make(), X)


# Topics and their order ---------------------------------------------------------------


def check_order(hdp, X):
    """Everything that is shown by topic stands in one order, that of the ids."""
    posterior = hdp._posterior
    columns = [posterior.columns[name] for name in hdp.component_ids_.tolist()]
    held = posterior.global_stats.topic_words.dense().T[columns]
    assert_array_equal(hdp.components_, held + hdp.topic_word_prior_)
    assert_array_equal(hdp.topic_weights_, posterior.state.topic_weights[columns])
    # A document of one topic's words is put down to that topic.
    most = np.argmax(held.sum(axis=1))
    words = np.round(50 * hdp.topic_word_distr_[most])
    assert hdp.transform(words[None]).argmax() == most
    weights, topics = hdp.doc_components(words[None])
    assert topics[0, weights[0].argmax()].argmax() == most


@METHODS
def test_topics_stand_in_one_order(method, X):
    hdp = quiet_fit(make(method, max_iter=3), X)
    check_order(hdp, X)
    first = hdp.component_ids_
    if method == "online":
        hdp.partial_fit(X[:50])
        check_order(hdp, X)
        assert_array_equal(hdp.component_ids_, first)
    hdp.merge_components(hdp.component_ids_[[3, 1]])
    check_order(hdp, X)
    hdp.drop_components(hdp.component_ids_[[0, 5]])
    check_order(hdp, X)
    assert hdp.n_components_ == 22
    hdp.partial_fit(X[:50])
    check_order(hdp, X)


def test_weights_leave_nothing_over(fitted):
    assert_allclose(fitted.topic_weights_.sum(), 1.0)
    assert (fitted.topic_weights_ > 0.0).all()


# Tables of documents ------------------------------------------------------------------


def test_tables_of_a_document_explain_it_as_its_topics_do(fitted, X_test):
    """Two ways to the topics of a document; bars tell topics apart."""
    weights, topics = fitted.doc_components(X_test)
    through_tables = (weights[:, :, None] * topics).sum(axis=1)
    direct = fitted.transform(X_test)
    assert np.abs(through_tables - direct).sum(axis=1).mean() < 0.35
    shuffled = through_tables[::-1]
    assert np.abs(shuffled - direct).sum(axis=1).mean() > 0.8


def test_tables_of_an_empty_document_follow_the_corpus(fitted):
    weights, topics = fitted.doc_components(np.zeros((2, 100)))
    alpha = fitted.doc_concentration_
    left = (alpha / (1.0 + alpha)) ** np.arange(8)
    assert_allclose(weights[0, :-1], left[:-1] / (1.0 + alpha))
    assert_allclose(weights[0, -1], left[-1])
    assert_array_equal(topics[0], topics[1])
    assert_array_equal(topics[0, 0], topics[0, 7])
    heaviest = np.argsort(-fitted.topic_weights_)
    assert (np.diff(topics[0, 0, heaviest]) < 1e-3).all()


# Bound and prediction -----------------------------------------------------------------


def test_bound_of_the_training_data_is_that_of_the_trace(fitted, X):
    """Documents start afresh under the topics that they made, and may end elsewhere."""
    assert fitted.elbo(X) == pytest.approx(fitted.elbo_, abs=1e-2)
    assert_allclose(fitted.elbo(X), sum(fitted.elbo_terms(X).values()), rtol=1e-12)


def test_score_is_that_of_the_expected_dirichlet(fitted, X_test):
    """The metric of the paper: a mixture with the Dirichlet prior alpha E[beta]."""
    prior = fitted.doc_concentration_ * fitted.topic_weights_
    expected = held_out_log_likelihood(
        fitted.topic_word_distr_, prior, *split_tokens(X_test)
    )
    # Single precision rounds the topics of the table and these, 6e-8 each, otherwise.
    assert fitted.score(X_test) == pytest.approx(expected, rel=1e-8)


# Extremes -----------------------------------------------------------------------------


@along_diagonal(("eta", "size"), [1e-100, 1e10, 1e-21, 1e-5], [1.0, 1e-30, 1e26, 1e40])
def test_the_bound_does_not_fall_for_any_prior_and_weight(eta, size, X):
    """Topics may be exactly empty, and counts beyond single precision."""
    hdp = make(topic_word_prior=eta, warm_up=4, max_iter=9, tol=0, learn_priors=False)
    elbo = np.array(quiet_fit(hdp, size * X[:150]).history_["elbo"][4:])
    scale = max(1.0, np.abs(elbo).max())
    assert (np.diff(elbo) >= -1e-9 * scale).all()
    assert np.isfinite(hdp.transform(X)).all()


def test_another_truncation_of_documents_leaves_the_bound_that_it_was(X):
    hdp = quiet_fit(make("online", max_iter=3), X)
    before = hdp._posterior.objective()
    hdp.set_params(max_doc_components=40)
    model = hdp._make_model()
    posterior = hdp._posterior
    after = model.objective(posterior.state, posterior.global_stats)
    for name, value in before.items():
        assert after[name] / posterior.global_stats.n_tokens == pytest.approx(value)
    hdp.partial_fit(X[:100])
    assert hdp.doc_components(X[:3])[0].shape == (3, 40)


def test_weights_that_vanish_far_down_the_sticks_predict(without_merges):
    X = np.kron(np.eye(2), np.full((20, 6), 3.0))
    hdp = StickBreakingHDP(
        33,
        corpus_concentration=1e-50,
        learn_priors=False,
        learning_method="batch",
        max_iter=25,
        random_state=0,
    ).fit(X)
    assert hdp.topic_weights_.min() == 0.0
    # Better than a guess, log(1 / 12), and near the truth, log(1 / 6).
    assert -1.9 < hdp.score(X) < np.log(1 / 6) + 0.1


@pytest.mark.parametrize("cls", [HDP, StickBreakingHDP])
def test_priors_that_are_not_learned_are_those_given(cls, X):
    """Bit by bit, by minibatches too."""
    given = {"doc_concentration": 2.5, "corpus_concentration": 0.7}
    given["topic_word_prior"] = 0.3
    fixed = {"learn_priors": False, "learning_method": "online", "batch_size": 20}
    hdp = cls(max_iter=2, random_state=0, **given, **fixed)
    quiet_fit(hdp, X[:100]).partial_fit(X[:40])
    assert {name: getattr(hdp, f"{name}_") for name in given} == given


# Merges -------------------------------------------------------------------------------


def planted(seed, n_docs=90):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(96, 0.15), 5)
    shares = rng.dirichlet(np.full(5, 0.6), n_docs)
    sizes = rng.integers(100, 300, n_docs)
    return rng.multinomial(sizes, shares @ topics).astype(float), topics


def test_batch_learning_merges_parts_of_a_topic(seed):
    """60 topics begin from 90 documents: parts of five remain without merges."""
    X, topics = planted(seed)
    hdp = StickBreakingHDP(60, learning_method="batch", tol=0, random_state=0).fit(X)
    assert hdp.n_active_components_ <= 20
    assert cosines(hdp.components_, topics).max(axis=0).min() > 0.85
    kinds = [entry.kind for entry in hdp.lineage_]
    assert hdp.n_components_ == 60 - kinds.count("merge")
    elbo = np.array(hdp.history_["elbo"])[5:]
    assert (np.diff(elbo) >= -1e-9 * np.abs(elbo[1:])).all()


def test_known_topics_are_not_merged(seed):
    X, topics = planted(seed)
    prior = np.vstack([0.01 + 50.0 * topics[:1], 0.01 + 50.0 * topics[:1]])
    hdp = StickBreakingHDP(
        20, topic_word_prior=prior, learning_method="batch", random_state=0
    ).fit(X)
    assert {0, 1} <= set(hdp.component_ids_.tolist())
    merged = [
        one for entry in hdp.lineage_ if entry.kind == "merge" for one in entry.parents
    ]
    assert merged
    assert not {0, 1} & set(merged)
