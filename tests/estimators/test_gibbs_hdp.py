"""What `GibbsHDP` promises beyond what all estimators do."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning

from checks.states import assert_same
from skbnp import GibbsHDP
from skbnp.metrics import held_out_log_likelihood, split_tokens

#: A chain whose sweeps do not depend on how many are made.
CHAIN = {"burn_in": 4, "thin": 2, "split_merge_sweeps": 6, "random_state": 0}


@pytest.fixture(scope="module")
def docs(X):
    return X[:120]


@pytest.fixture(scope="module")
def model(docs):
    return GibbsHDP(20, max_iter=12, n_chains=2, **CHAIN).fit(docs)


# -- what it finds ---------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("n_components", [1, None])
def test_bars_are_found_from_any_start(n_components, bars, X, X_test):
    hdp = GibbsHDP(n_components, topic_word_prior=0.1, max_iter=100, random_state=0)
    hdp.fit(X)
    truth, result = bars.topic_word_distr, hdp.topic_word_distr_
    distance = np.abs(truth[:, None] - result[None]).sum(axis=2)
    assert (distance.min(axis=1) / 2 < 0.3).all()
    parts = split_tokens(X_test, random_state=0)
    best = held_out_log_likelihood(truth, 0.1, *parts, repeats=True)
    assert hdp.score(X_test) > best - 0.03


def test_proposals_end_with_the_sweeps_that_make_them(docs):
    hdp = GibbsHDP(
        1, max_iter=30, n_split_merge=20, split_merge_sweeps=5, random_state=0
    ).fit(docs)
    moves = np.add(hdp.history_["n_splits"], hdp.history_["n_merges"])
    assert moves[4] > 0
    assert (moves[4:] == moves[4]).all()


# -- what it publishes -----------------------------------------------------------------


def test_samples_are_kept_after_burn_in_and_thinned(model):
    kept = [(sample.step, sample.chain) for sample in model.samples_]
    assert kept == [(step, chain) for step in (6, 8, 10, 12) for chain in (0, 1)]


def test_attributes_are_those_of_the_sample_with_the_highest_log_joint(model, docs):
    best = max(model.samples_, key=lambda sample: sample.log_joint)
    assert model.n_components_ == len(best.table_counts)
    rows = [best.component_ids.tolist().index(k) for k in model.component_ids_]
    counts = best.topic_word_counts.toarray()[rows]
    np.testing.assert_allclose(model.components_, counts + best.topic_word_prior)
    for sample in model.samples_:
        assert (sample.n_tokens >= sample.table_counts).all()
        assert (sample.table_counts > 0).all()
    total = best.table_counts.sum() + best.corpus_concentration
    np.testing.assert_allclose(model.topic_weights_, best.table_counts[rows] / total)
    assert best.doc_concentration == model.doc_concentration_


def test_log_joint_of_samples_is_that_of_the_history(model):
    history = zip(
        model.history_["step"],
        model.history_["chain"],
        model.history_["log_joint"],
        strict=True,
    )
    result = {(step, chain): value for step, chain, value in history}
    for sample in model.samples_:
        assert sample.log_joint == result[sample.step, sample.chain]
    assert model.log_joint_ == model.history_["log_joint"][-1]


def test_posterior_of_the_number_of_topics_counts_sweeps_after_burn_in(model):
    counted = [
        k
        for k, step in zip(
            model.history_["n_components"], model.history_["step"], strict=True
        )
        if step > 4
    ]
    assert sum(model.n_components_posterior_.values()) == pytest.approx(1.0)
    for k, share in model.n_components_posterior_.items():
        assert share == counted.count(k) / len(counted)


def test_chains_differ_and_the_first_is_the_chain_alone(docs, model):
    alone = clone(model).set_params(n_chains=1).fit(docs)
    trace = np.array(model.history_["log_joint"]).reshape(-1, 2)
    assert trace[:, 0].tolist() == alone.history_["log_joint"]
    assert (trace[:, 0] != trace[:, 1]).all()


# -- going on --------------------------------------------------------------------------


def test_chains_on_other_documents_burn_in_and_propose_anew(docs, X):
    hdp = GibbsHDP(1, max_iter=20, thin=5, warm_start=True, random_state=0)
    hdp.fit(docs[:2]).set_params(n_split_merge=100).fit(X[120:200])
    assert [sample.step for sample in hdp.samples_] == [35, 40]
    moves = np.add(hdp.history_["n_splits"], hdp.history_["n_merges"])[20:]
    assert moves[-1] > 0
    counted = hdp.history_["n_components"][30:]
    assert hdp.n_components_posterior_[counted[0]] == counted.count(counted[0]) / 10


# -- edits -----------------------------------------------------------------------------


def test_merging_adds_up_counts_and_tables(docs, model):
    hdp = pickle.loads(pickle.dumps(model))
    ids = hdp.component_ids_.tolist()
    counts, weights = hdp.components_ - hdp.topic_word_prior_, hdp.topic_weights_
    hdp.merge_components([ids[3], ids[0], ids[5]])
    assert set(hdp.component_ids_) == set(ids) - {ids[0], ids[5]}
    row = hdp.component_ids_.tolist().index(ids[3])
    np.testing.assert_allclose(
        hdp.components_[row] - hdp.topic_word_prior_, counts[[0, 3, 5]].sum(axis=0)
    )
    assert hdp.topic_weights_[row] == pytest.approx(weights[[0, 3, 5]].sum())
    assert [entry[1:] for entry in hdp.lineage_[-2:]] == [
        ("merge", (ids[3], ids[0]), (ids[3],)),
        ("merge", (ids[3], ids[5]), (ids[3],)),
    ]
    assert len(hdp.samples_) == 1
    assert hdp.n_components_posterior_ == {len(ids) - 2: 1.0}


def test_dropped_topics_are_gone(docs, model):
    hdp = pickle.loads(pickle.dumps(model))
    ids, components = hdp.component_ids_.tolist(), hdp.components_
    hdp.drop_components(ids[1:3])
    before = dict(zip(ids, components, strict=True))
    assert set(hdp.component_ids_) == set(ids) - set(ids[1:3])
    for name, counts in zip(hdp.component_ids_, hdp.components_, strict=True):
        np.testing.assert_allclose(counts, before[name])
    hdp.partial_fit(docs[:5])
    assert not set(ids[1:3]) & set(hdp.component_ids_.tolist())


# -- input -----------------------------------------------------------------------------


def test_fractions_are_rounded_with_one_warning(docs):
    X = docs.toarray() + 0.2
    with pytest.warns(DataConversionWarning, match="rounded") as caught:
        hdp = GibbsHDP(3, max_iter=3, random_state=0).fit(X)
    assert len(caught) == 1
    other = GibbsHDP(3, max_iter=3, random_state=0).fit(docs)
    assert_same(hdp.components_, other.components_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(hdp.transform(X)).all()


def test_too_many_tokens_in_all_are_refused_by_row():
    X = np.full((23, 1), 9.9e7)
    with pytest.raises(ValueError, match=r"too many from row 21 on; GibbsHDP takes"):
        GibbsHDP().fit(X)


# -- agreement of chains ---------------------------------------------------------------


@pytest.mark.parametrize(("shift", "n_warnings"), [(0.0, 0), (5.0, 1)])
def test_warning_depends_on_whether_chains_agree(shift, n_warnings, docs):
    hdp = GibbsHDP(5, max_iter=20, n_chains=2, random_state=0)
    with warnings.catch_warnings(action="ignore"):
        hdp.fit(docs)
    hdp.set_params(max_iter=1000, burn_in=0).n_iter_ = 1000
    hdp.history_ = {
        "step": np.repeat(np.arange(1, 1001), 2),
        "chain": np.tile([0, 1], 1000),
        "log_joint": np.zeros(2000),
        "n_components": np.random.default_rng(0).normal(size=2000)
        + shift * np.tile([0, 1], 1000),
    }
    with warnings.catch_warnings(record=True, action="always") as caught:
        hdp._warn_if_chains_disagree()
    assert len(caught) == n_warnings
