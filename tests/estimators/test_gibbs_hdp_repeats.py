"""What `GibbsHDP` promises of words that documents repeat for reasons of their own."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from skbnp import GibbsHDP
from skbnp.datasets import make_hdp
from skbnp.inference.executor import Executor
from skbnp.metrics import held_out_log_likelihood, split_tokens
from skbnp.models.hdp.fold_in import MixturePredictor
from skbnp.utils.arrays import rows_by_id


@pytest.fixture(scope="module")
def docs(X):
    return X[:120]


@pytest.fixture(scope="module")
def model(docs):
    hdp = GibbsHDP(20, max_iter=12, burn_in=4, thin=2, n_chains=2, random_state=0)
    return hdp.fit(docs)


def planted_repeats(concentration, n_docs=400, seed=0):
    """Documents of an HDP, and the same tokens by an urn of each document."""
    held = make_hdp(
        n_docs, n_features=300, n_words=150, n_components=8, random_state=seed
    ).data
    rng, docs = np.random.default_rng(seed), sp.csr_array(held).toarray()
    for row in docs:
        fresh, drawn = rng.permutation(np.repeat(np.arange(300), row)), []
        for n, word in enumerate(fresh):
            repeats = rng.random() * (concentration + n) < n
            drawn.append(drawn[rng.integers(n)] if repeats else word)
        row[:] = np.bincount(drawn, minlength=300)
    return sp.csr_array(docs)


def test_planted_repeats_are_learned_and_predicted():
    X = planted_repeats(20.0)
    X, X_test = X[:300], X[300:]
    hdp = GibbsHDP(20, max_iter=60, random_state=0).fit(X)
    plain = clone(hdp).set_params(burstiness=False).fit(X)
    c = [sample.word_concentration for sample in hdp.samples_]
    assert 20.0 / 1.5 < np.mean(c) < 20.0 * 1.5
    assert hdp.word_concentration_ in c
    assert hdp.word_discount_ < 0.2
    parts, topics = (
        split_tokens(X_test, random_state=0),
        MixturePredictor(plain.samples_),
    )
    with Executor(1) as executor:
        alone = topics.log_likelihood(*parts, executor) / parts[1].sum()
    assert hdp.score(X_test) > alone + 0.1
    assert hdp.score(X_test) > plain.score(X_test)
    assert hdp.n_components_ < plain.n_components_
    assert plain.word_concentration_ == np.inf


@pytest.mark.long
def test_documents_of_the_model_repeat_no_word():
    X = make_hdp(600, n_features=500, n_words=100, n_components=8, random_state=0).data
    X, X_test = sp.csr_array(X)[:500], sp.csr_array(X)[500:]
    hdp = GibbsHDP(20, max_iter=150, random_state=0).fit(X)
    plain = clone(hdp).set_params(burstiness=False).fit(X)
    seated = [s.topic_word_counts.sum() for s in hdp.samples_]
    assert min(seated) > 0.98 * X.sum()
    assert hdp.score(X_test) == pytest.approx(plain.score(X_test), abs=0.01)


def test_predictions_repeat_words_as_the_sample_says(docs, model, X_test):
    X_observed, X_held = split_tokens(X_test, random_state=0)
    best = model._best()
    alone = pickle.loads(pickle.dumps(model))
    alone.samples_ = [best]
    with_repeats = alone.score(X_test)
    given = replace(best, word_discount=0.0, word_concentration=np.inf)
    alone.samples_ = [given]
    expected = held_out_log_likelihood(
        given.word_topic().T, given.doc_prior, X_observed, X_held
    )
    assert alone.score(X_test) == pytest.approx(expected, rel=1e-5)
    assert with_repeats != alone.score(X_test)


def test_proportions_are_those_of_first_uses(docs, model):
    """Where a word is hardly drawn twice, those of documents that show it once."""
    hdp = pickle.loads(pickle.dumps(model))
    best = replace(model._best(), word_discount=0.0, word_concentration=1e-4)
    hdp.samples_, docs = [best], docs.astype(float)
    once = docs.copy()
    once.data[:] = 1.0
    topics, rows = MixturePredictor([best]), rows_by_id(best.component_ids)
    with Executor(1) as executor:
        result = [topics.infer(best, X, executor)[:, rows] for X in (once, docs)]
    by_types, by_tokens = (x / x.sum(axis=1, keepdims=True) for x in result)
    far = np.abs(by_tokens - by_types).mean()
    assert np.abs(hdp.transform(docs) - by_types).mean() < 0.2 * far


def test_chains_of_documents_that_repeat_words_do_not_go_on_without(docs, model):
    hdp = pickle.loads(pickle.dumps(model)).set_params(warm_start=True)
    with pytest.raises(ValueError, match="burstiness=False with warm_start=True"):
        hdp.set_params(burstiness=False).fit(docs)
    hdp.fit(docs[:100])  # others: new chains
    assert hdp.word_concentration_ == np.inf
    hdp.set_params(burstiness="auto", max_iter=6).fit(docs[:100])
    assert {sample.step for sample in hdp.samples_} == {26, 28, 30}
    assert all(sample.has_repeats for sample in hdp.samples_)


@pytest.mark.parametrize(
    "damage",
    [
        lambda sizes: sizes + (sizes > 0),
        lambda sizes: sizes * (sizes != 1),
        lambda _: None,
    ],
    ids=["a token more", "no opener", "no sizes"],
)
def test_damaged_tables_of_words_are_refused(damage, docs, model):
    hdp = pickle.loads(pickle.dumps(model)).set_params(warm_start=True)
    chain = hdp._chains[0]
    sizes = damage(chain.tables.word_size)
    tables = replace(chain.tables, word_size=sizes)
    hdp._chains = (replace(chain, tables=tables), *hdp._chains[1:])
    with pytest.raises(ValueError, match="saved tables of a chain are damaged"):
        hdp.fit(docs)
