"""A new estimator joins by the written way, and has what all estimators have."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from scipy.special import gammaln, xlogy
from sklearn.model_selection import GridSearchCV

from estimators.mixture_of_unigrams import Mixture, MixtureOfUnigrams
from skbnp.inference.executor import Executor
from skbnp.inspection import summary, top_terms

K = 4


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.2), K)
    labels = rng.integers(0, K, 200)
    return np.array([rng.multinomial(30, topics[z]) for z in labels]), labels


@pytest.fixture(scope="module")
def fitted(planted):
    return MixtureOfUnigrams(K, random_state=0).fit(planted[0])


@pytest.mark.parametrize("settings", [{}, {"learning_method": "online"}])
def test_planted_classes(planted, settings):
    X, labels = planted
    fits = [MixtureOfUnigrams(K, random_state=n, **settings).fit(X) for n in range(4)]
    model = max(fits, key=lambda model: model.elbo(X))  # of local optima
    pairs = K * labels + model.transform(X).argmax(axis=1)
    table = np.bincount(pairs, minlength=K * K).reshape(K, K)
    assert table.max(axis=0).sum() == len(labels)
    assert (table.max(axis=1) > 0).all()


def test_bound_is_that_of_the_formula(planted, fitted):
    X, _ = planted
    state, totals = fitted._posterior.state, fitted._posterior.global_stats
    words, eta, n = totals.topic_words.dense(), state.topic_word_prior, state.documents
    gamma = state.corpus_concentration
    counts = csr_array(X.astype(np.float64))
    with Executor(None) as executor:
        r = fitted._infer_counts(fitted._posterior, counts, executor).toarray() / 30.0
    bound = gammaln(gamma) - gammaln(gamma + n.sum()) - xlogy(r, r).sum()
    bound += (gammaln(gamma / K + n) - gammaln(gamma / K)).sum()
    bound += (gammaln(eta + words) - gammaln(eta)).sum()
    bound += (gammaln(40 * eta) - gammaln(40 * eta + words.sum(axis=0))).sum()
    assert fitted.elbo_ == pytest.approx(bound / X.sum(), rel=1e-6)


def never_falls(trace):
    return (np.diff(trace) > -1e-9).all()


def test_bound_never_falls(planted, fitted):
    assert never_falls(fitted.history_["elbo"])


def test_a_wrong_step_is_noticed(planted, monkeypatch):
    def update(self, state, stats, scale=1.0):
        return replace(state, topic_word_prior=1.5 * state.topic_word_prior)

    monkeypatch.setattr(Mixture, "update", update)
    model = MixtureOfUnigrams(K, random_state=0, tol=0.0, max_iter=8).fit(planted[0])
    assert not never_falls(model.history_["elbo"])


def test_it_has_what_all_estimators_have(planted, fitted):
    X, _ = planted
    threads = MixtureOfUnigrams(K, n_jobs=2, random_state=0).fit(X)
    assert_array_equal(threads.components_, fitted.components_)
    loaded = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(loaded.transform(X), fitted.transform(X))
    stream = MixtureOfUnigrams(K, random_state=0)
    for begin in range(0, 200, 50):
        stream.partial_fit(X[begin : begin + 50])
    assert stream.n_samples_seen_ == 200
    search = GridSearchCV(MixtureOfUnigrams(random_state=0), {"n_components": [1, K]})
    assert search.fit(X).best_params_ == {"n_components": K}
    assert len(top_terms(fitted)) == K
    assert f"topics                {K}" in str(summary(fitted))
