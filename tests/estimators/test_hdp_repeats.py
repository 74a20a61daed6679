"""Words that documents repeat for reasons of their own, in HDP and GibbsHDP."""

import pickle
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone

from checks.long import daily
from skbnp import HDP, GibbsHDP
from skbnp.datasets import make_bars, make_hdp
from skbnp.inference.executor import Executor
from skbnp.metrics import held_out_log_likelihood, split_tokens
from skbnp.models.hdp import births as held_out_moves
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.fold_in import (
    MeanTopics,
    MixturePredictor,
    fold_in_posterior,
    fold_in_tables,
)
from skbnp.models.hdp.held_out_trials import HeldOutTrials
from skbnp.utils.arrays import rows_by_id


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


@pytest.mark.long
@pytest.mark.parametrize("seed", daily(1, [0, 1]))
def test_planted_topics_are_found_where_documents_repeat_words(seed):
    X = draw_bursty(300, 6, 120, 80, 20.0, seed)
    hdp = HDP(random_state=seed).fit(X)
    assert 5 <= hdp.n_components_ <= 8
    assert 20.0 / 1.5 <= hdp.word_concentration_ <= 20.0 * 1.5
    assert hdp.word_discount_ <= 0.1
    # Topics alone stand in for documents.
    plain = HDP(burstiness=False, min_gain=0, random_state=seed).fit(X)
    assert plain.n_components_ > 40


def test_first_uses_of_new_documents_are_those_that_predictions_have():
    """Tables of words by the topics of the posterior, and by any."""
    X = sp.csr_array(draw_bursty(150, 6, 120, 80, 10.0, 0))
    hdp = HDP(random_state=0, max_iter=30).fit(X)
    posterior = hdp._posterior
    state, words = posterior.state.for_prediction, posterior.global_stats.topic_words
    topics = MeanTopics.of(words, state.topic_word_prior)
    rest = state.doc_concentration * state.weights[-1]
    given = state.doc_prior, rest, X, state.burstiness
    with Executor(None) as executor:
        uses = fold_in_posterior(posterior, X, executor).tables
        want = fold_in_tables(topics, *given, executor, X.shape[1]).tables
    assert_allclose(uses, want, rtol=1e-3)
    assert uses.sum() < 0.8 * X.sum()


@pytest.mark.parametrize("seed", daily(1, [0, 1]))
def test_few_documents_that_repeat_no_word_have_no_burstiness(seed):
    hdp = HDP(random_state=seed).fit(make_bars(120, random_state=0).data)
    assert (hdp.word_discount_, hdp.word_concentration_) == (0.0, np.inf)
    assert 18 <= hdp.n_components_ <= 24


@pytest.fixture
def reductions(monkeypatch):
    """Whether topics explain tables, limit and changes of each reduction of fits."""
    made, reduce = [], held_out_moves.reduce

    def spy(posterior, results, budget, limit, least):
        by_tables = posterior.state.by_tables
        n_changes = reduce(posterior, results, budget, limit, least)
        made.append((by_tables, limit, n_changes))
        return n_changes

    monkeypatch.setattr(held_out_moves, "reduce", spy)
    return made


def test_reductions_judge_topics_of_tables(reductions):
    """What ends is not missed by the topics that the fit will have."""
    X = draw_bursty(300, 6, 120, 80, 20.0, 0)
    hdp = HDP(random_state=0).fit(X)
    assert hdp._posterior.state.by_tables
    assert reductions
    assert all(by_tables for by_tables, _, _ in reductions)
    reductions.clear()
    HDP(burstiness=False, random_state=0).fit(X)
    assert not any(by_tables for by_tables, _, _ in reductions)


def test_reductions_halve_once_one_was_rejected(monkeypatch):
    """Whether accepted or not: what was too much is not tried again."""
    answers = cycle([True, False, True, True])
    is_accepted, propose = HeldOutTrials._is_accepted, HeldOutTrials._reduction
    rejected, limits = [], []  # trials that have rejected one; limits of the next

    def judge(trials, run, gain):
        if run.kind != "reduction":
            return is_accepted(trials, run, gain)
        answer = next(answers)
        if not answer:
            rejected.append(trials)
        return answer

    def limited(trials, run, limit=None, n_tried=0):
        if trials in rejected:
            limits.append(limit)
        return propose(trials, run, limit, n_tried)

    monkeypatch.setattr(HeldOutTrials, "_is_accepted", judge)
    monkeypatch.setattr(HeldOutTrials, "_reduction", limited)
    monkeypatch.setattr(HeldOutTrials, "_cost", lambda trials, run, gain: 10.0)
    HDP(min_gain=0, random_state=0).fit(draw_bursty(300, 6, 120, 80, 20.0, 0))
    assert len(limits) >= 2
    assert None not in limits


def test_repeats_of_counts_from_a_pickle_are_those_of_counts():
    """The arrays of a pickle are over its bytes, which SciPy cannot broadcast."""
    X = sp.csr_array(draw_bursty(100, 6, 120, 80, 20.0, 0))
    other, burstiness = pickle.loads(pickle.dumps(X)), Burstiness(0.3, 20.0)
    assert other.indices.base is not None
    one, same = (
        burstiness.repeats(counts, np.minimum(counts.data, 1.0), counts)
        for counts in (X, other)
    )
    np.testing.assert_array_equal(one[0], same[0])


@pytest.mark.long
def test_streams_learn_from_tables_between_trials():
    """Totals of a stream and of a fit hold tables of about the same number."""
    X = draw_bursty(600, 6, 120, 80, 20.0, 0)
    hdp = HDP(random_state=0).fit(X[:300])
    hdp.partial_fit(X[300:320])
    assert hdp._posterior.state.by_tables
    stream = HDP(random_state=0)
    for begin in range(0, 600, 50):
        stream.partial_fit(X[begin : begin + 50])
    state = stream._posterior.state
    assert state.by_tables
    assert state.burstiness is not None
    words = stream.components_ - stream.topic_word_prior_
    n_docs = 0.9 * len(X)  # of a reservoir, which holds out a tenth
    assert words.sum() < 0.9 * X.sum() * n_docs / len(X)
    stream.set_params(burstiness=False).partial_fit(X[:20])
    assert not stream._posterior.state.by_tables


def test_streams_without_repeats_learn_from_tokens():
    stream = HDP(random_state=0)
    X = make_bars(600, random_state=0).data
    for begin in range(0, 600, 50):
        stream.partial_fit(X[begin : begin + 50])
    assert not stream._posterior.state.by_tables
    assert stream._posterior.state.burstiness is None


# GibbsHDP -----------------------------------------------------------------------------


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
