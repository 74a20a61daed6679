"""The bound of the evidence: below the exact evidence, and fit to compare models."""

import copy
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from checks.estimators import mean_field_hdp
from checks.long import along_diagonal, daily
from reference import hdp_direct, hdp_surrogate
from skbnp import HDP
from skbnp.datasets import make_bars
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import LocalStop
from skbnp.metrics import _evidence, evidence_bound

#: Documents and size of the vocabulary of corpora whose partitions can be listed.
CORPORA = {
    "one topic": ([[0, 0, 0, 0, 0]], 2),
    "two topics": ([[0, 0, 0], [], [1, 1, 1]], 2),
    "mixed": ([[0, 0, 1], [1, 2], [2, 2]], 3),
    "single tokens": ([[0], [1], [0], [1], [2]], 4),
}
#: alpha, gamma, eta.
SETTINGS = [(0.1, 1.0, 0.05), (1.0, 1.0, 0.5), (0.2, 3.0, 0.05), (6.0, 0.3, 1.5)]


def count_matrix(corpus):
    docs, n_features = corpus
    return np.array([np.bincount(doc, minlength=n_features) for doc in docs], float)


def fit(X, n_components, settings=(1.0, 1.0, 0.5), **more):
    alpha, gamma, eta = settings
    options = {
        "learning_method": "batch",
        "split_merge": False,
        "doc_concentration": alpha,
        "corpus_concentration": gamma,
        "topic_word_prior": eta,
        "learn_priors": False,
        "warm_up": 1,
        "max_iter": 12,
        "tol": 0.0,
        "random_state": 0,
    }
    return mean_field_hdp(n_components, **(options | more)).fit(X)


@pytest.fixture(scope="module")
def bars():
    return make_bars(120, side=3, n_words=30, random_state=0).data


@pytest.fixture(scope="module")
def hdp(bars):
    return fit(bars, 9)


# A bound ------------------------------------------------------------------------------


@cache
def log_evidence(name, settings):
    docs, n_features = CORPORA[name]
    return np.log(hdp_surrogate.evidence(docs, *settings, n_features))


def smallest_gap(name, n_components, settings):
    """Evidence less bound, in nats, of the best of some fits; none may be below 0."""
    X = count_matrix(CORPORA[name])
    bounds = [
        X.sum() * evidence_bound(fit(X, n_components, settings, **start), X)
        for start in ({}, {"init": "random"}, {"init": "random", "random_state": 1})
    ]
    gap = log_evidence(name, settings) - max(bounds)
    assert gap > 0.0, "the bound exceeds the evidence"
    return gap


@along_diagonal(("corpus", "settings"), CORPORA, SETTINGS)
@pytest.mark.parametrize("n_components", daily(1, [3, 1]))
def test_bound_is_below_the_exact_evidence(corpus, n_components, settings):
    smallest_gap(corpus, n_components, settings)


def test_exact_evidence_is_the_mean_likelihood_over_the_prior():
    """p(w) = E[prod_tokens sum_k pi_jk phi_kw] over the prior, 60 sticks.

    What is left of the last stick, (gamma / (1 + gamma))^60 < 1e-7 on average, does not
    show. Four standard errors: false alarm rate 6.3e-5.
    """
    docs, (alpha, gamma, eta) = [[0, 0, 0, 0], [1, 1]], (1.3, 0.7, 0.4)
    rng, n_samples = np.random.default_rng(0), 40_000
    sticks = rng.beta(1.0, gamma, size=(n_samples, 60))
    rest = np.cumprod(1.0 - sticks, axis=1)
    weights = np.column_stack([sticks[:, :1], sticks[:, 1:] * rest[:, :-1]])
    phi = rng.dirichlet(np.full(3, eta), size=weights.shape)
    likelihood = np.ones(n_samples)
    for doc in docs:
        pi = rng.standard_gamma(alpha * weights)
        pi /= pi.sum(axis=1, keepdims=True)
        for word in doc:
            likelihood *= (pi * phi[:, :, word]).sum(axis=1)
    error = likelihood.std() / np.sqrt(n_samples)
    exact = hdp_surrogate.evidence(docs, alpha, gamma, eta, 3)
    assert abs(likelihood.mean() - exact) < 4 * error


def test_bound_is_that_of_the_terms_written_out(hdp, bars, monkeypatch):
    """All of it by brute force, with N and q(v) as the last round has them."""
    seen = {}

    class Spy(_evidence.hdp_sticks.Assignments):
        @classmethod
        def of(cls, doc_topic, n_tokens, order):
            seen.update(doc_topic=doc_topic, order=order)
            return Assignments.of(doc_topic, n_tokens, order)

    def terms_of(sticks, documents, alpha, gamma):
        seen["sticks"] = sticks
        return terms(sticks, documents, alpha, gamma)

    sticks_of = _evidence.hdp_sticks
    Assignments, terms = sticks_of.Assignments, sticks_of.terms_and_gradient
    monkeypatch.setattr(sticks_of, "Assignments", Spy)
    monkeypatch.setattr(sticks_of, "terms_and_gradient", terms_of)
    monkeypatch.setattr(_evidence, "TOL", 1e-12)
    exact = copy.deepcopy(hdp)
    exact.set_params(max_doc_update_iter=5000, mean_change_tol=1e-12)
    X = bars[:12]
    got = evidence_bound(exact, X)

    counts, order = X.toarray().astype(float), seen["order"]
    lam = np.empty_like(hdp.components_)  # in the order of the state
    lam[hdp._posterior.rows] = hdp.components_
    a, b = seen["sticks"].parameters
    doc_topic = seen["doc_topic"].toarray()[:, order]
    prior = hdp_surrogate.expected_weights(a, b)  # alpha = 1
    log_phi = hdp_direct.expected_log_topics(lam[order]).T
    resp = [
        hdp_direct.document_step(row, log_phi, prior[:-1], start, 0, 0.0, 1e-9)[1]
        for row, start in zip(counts, doc_topic, strict=True)
    ]
    result, _ = hdp_direct.sufficient_statistics(counts, resp)
    # Iterated in single precision: 6e-8 of some 30 tokens, several times over.
    assert_allclose(result, doc_topic, atol=5e-5, err_msg="N is at its fixed point")
    theta = prior + np.column_stack([doc_topic, np.zeros(len(counts))])
    expected = hdp_surrogate.surrogate_terms(
        counts, resp, theta, lam[order], a, b, 1.0, 1.0, 0.5
    )
    # Stationary, so that what is left of the iteration enters squared.
    assert_allclose(got, sum(expected.values()) / counts.sum(), rtol=1e-9)


def rounds_of(hdp, X):
    with Executor(1) as executor:
        counts = sp.csr_array(X, dtype=float)
        stop = LocalStop(200, 1e-6)
        return list(_evidence.fitting_rounds(hdp._posterior, counts, stop, executor))


@pytest.mark.parametrize("n_components", [1, 3, 9, 20])
def test_no_round_lowers_the_bound(n_components, bars, seed):
    rounds = rounds_of(fit(bars, n_components, max_iter=4, random_state=seed), bars)
    assert len(rounds) > 1
    # Falls are rounding, and 1e-9 tokens of each topic that are dropped per document.
    assert np.diff(rounds).min() >= -1e-8


# What it tells ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forty():
    """Twenty bars in forty topics, half of them idle."""
    X = make_bars(500, random_state=0).data
    return X, mean_field_hdp(40, split_merge=False, random_state=0).fit(X)


@pytest.mark.long
def test_bound_rises_when_idle_topics_go_and_falls_when_bars_merge(forty):
    X, hdp = forty
    n_tokens = hdp.components_.sum(axis=1)
    idle = hdp.component_ids_[np.argsort(n_tokens)[:20]]
    clean = copy.deepcopy(hdp).drop_components(idle)
    merged = copy.deepcopy(clean).merge_components(clean.component_ids_[:2])
    bound = evidence_bound(clean, X)
    assert bound > evidence_bound(hdp, X)
    assert bound > evidence_bound(merged, X) + 0.01


# Input --------------------------------------------------------------------------------


def test_documents_without_tokens_do_not_matter(hdp, bars):
    empty = sp.csr_array((4, bars.shape[1]))
    padded = sp.vstack([empty, bars, empty], format="csr")
    assert evidence_bound(hdp, padded) == evidence_bound(hdp, bars)


def test_a_pipeline_hands_on_its_documents(bars):
    pipeline = make_pipeline(
        FunctionTransformer(lambda X: X[:, ::-1]), HDP(5, max_iter=2, random_state=0)
    ).fit(bars.toarray())
    X = bars.toarray()
    assert evidence_bound(pipeline, X) == evidence_bound(pipeline[-1], X[:, ::-1])


def test_other_estimators_are_refused(bars):
    lda = LatentDirichletAllocation(2, max_iter=1).fit(bars)
    with pytest.raises(TypeError, match="must be an HDP, got LatentDirichlet"):
        evidence_bound(lda, bars)


def test_bad_documents_are_refused(hdp):
    for X, message in ((np.ones((3, 4)), "4 features"), (-np.ones((3, 9)), "Negative")):
        with pytest.raises(ValueError, match=message):
            evidence_bound(hdp, X)
