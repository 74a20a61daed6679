"""Streams of data frames whose columns change: terms that come, and that are absent."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from checks.estimators import FIRST, takes_counts_only
from checks.long import daily
from skbnp import (
    HDP,
    DependentTrees,
    GibbsHDP,
    KnownTopics,
    NestedCRP,
    NestedHDP,
    StickBreakingHDP,
)
from skbnp.datasets import make_hdp
from skbnp.inspection import (
    emerging_topics,
    summary,
    top_documents,
    topic_shares,
    topics_over_time,
)
from skbnp.metrics import topic_coherence
from skbnp.utils import validation

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
COUNT_MODELS = {name: fit for name, fit in FIRST.items() if takes_counts_only(fit)}
STREAMS = {
    "HDP": lambda: HDP(20, random_state=0),
    "HDP-mean-field": lambda: HDP(20, variational_family="mean_field", random_state=0),
    "StickBreakingHDP": lambda: StickBreakingHDP(
        20, total_samples=1000, random_state=0
    ),
    "GibbsHDP": lambda: GibbsHDP(20, max_iter=20, random_state=0),
}


def short_chain(n_components, **parameters):
    return GibbsHDP(n_components, max_iter=5, **parameters)


def corpus(n_docs=60, n_words=30, seed=0):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.1), 5)
    shares = rng.dirichlet(np.full(5, 0.3), n_docs)
    X = np.array([rng.multinomial(40, share @ topics) for share in shares])
    return pd.DataFrame(X, columns=[f"w{word:02d}" for word in range(n_words)])


def gain_of_growing(name, seed):
    """Score of a stream whose terms come over ten chunks, less that of all terms."""
    X = make_hdp(1200, n_features=600, n_words=60, random_state=seed).data
    frame = pd.DataFrame(sp.csr_array(X).toarray()).rename(columns="w{}".format)
    arrival = np.random.default_rng(0).integers(0, 10, frame.shape[1])
    arrival[:60] = 0
    chunks = [frame[begin : begin + 100] for begin in range(0, 1000, 100)]
    some = [
        chunk.loc[:, (arrival <= number) & (chunk != 0).any().to_numpy()]
        for number, chunk in enumerate(chunks)
    ]
    grown = STREAMS[name]()
    for chunk in some:
        grown.partial_fit(chunk)
    names = grown.feature_names_in_
    assert len(names) > len(some[0].columns)
    whole = STREAMS[name]()
    for chunk in some:  # the same tokens, all terms known from the start
        whole.partial_fit(chunk.reindex(columns=names, fill_value=0))
    test = frame[1000:][names]
    return grown.score(test) - whole.score(test)


@pytest.mark.long
@pytest.mark.parametrize("name", STREAMS)
def test_terms_that_come_over_ten_chunks_cost_no_score(name):
    # Trials end otherwise, or not yet: of six seeds of a stream with trials gains have
    # a standard deviation of .08.
    gains = [gain_of_growing(name, seed) for seed in range(6 if name == "HDP" else 2)]
    assert np.mean(gains) > -0.06


@pytest.mark.parametrize("name", COUNT_MODELS)
def test_new_columns_extend_topics_and_absent_ones_are_zeros(name):
    frame = corpus()
    fit = clone(COUNT_MODELS[name])
    fit.partial_fit(frame[:30][frame.columns[:20]])
    fit.partial_fit(frame[30:][frame.columns[10:]])
    assert fit.n_features_in_ == 30
    assert_array_equal(fit.feature_names_in_, frame.columns)
    assert fit.components_.shape == (fit.n_components_, 30)
    assert fit.components_[:, 25:].sum() > 0.0
    assert np.isfinite(fit.score(frame))
    other = pickle.loads(pickle.dumps(fit))
    assert_array_equal(other.transform(frame), fit.transform(frame))
    fit.partial_fit(frame[:10][frame.columns[5:12]])
    assert fit.n_features_in_ == 30


@pytest.mark.parametrize("name", ["HDP-online", "StickBreakingHDP-online", "GibbsHDP"])
def test_columns_go_by_their_names_whatever_their_order_and_container(name):
    frame = corpus()
    kept = frame[30:][frame.columns[5:20]]
    chunks = [
        kept,
        kept[kept.columns[::-1]],
        kept.reindex(columns=frame.columns, fill_value=0),
        pd.DataFrame.sparse.from_spmatrix(
            sp.csr_matrix(kept.to_numpy()), columns=kept.columns
        ),
        pl.DataFrame(kept.to_numpy(), schema=list(kept.columns)),
    ]
    result = []
    for chunk in chunks:
        fit = clone(COUNT_MODELS[name]).partial_fit(frame[:30]).partial_fit(chunk)
        result.append(fit.components_)
    for components in result[1:]:
        assert_array_equal(components, result[0])


@pytest.mark.parametrize("name", ["HDP-online", "NestedCRP-batch", "GibbsHDP"])
def test_matrices_keep_the_strict_error_and_evaluation_does_too(name):
    frame = corpus()
    fit = clone(COUNT_MODELS[name]).partial_fit(frame[frame.columns[:20]])
    with (
        pytest.raises(ValueError, match="20 features"),
        pytest.warns(UserWarning, match="valid feature names"),
    ):
        fit.partial_fit(frame.to_numpy())
    for method in (fit.transform, fit.score):
        with pytest.raises(ValueError, match="feature names should match"):
            method(frame)
    nameless = clone(COUNT_MODELS[name]).partial_fit(frame.to_numpy())
    with pytest.raises(ValueError, match="30 features"):
        nameless.partial_fit(frame.to_numpy()[:, :20])


def test_frames_whose_names_are_not_read_are_refused(monkeypatch):
    """Those of polars 2 by scikit-learn before 1.9."""
    monkeypatch.setattr(validation, "IS_NEW", False)
    frame = type("Frame", (), {"columns": ["a"], "shape": (1, 1)})()
    with pytest.raises(TypeError, match=r"X is a Frame, .* X\.to_pandas"):
        HDP().fit(frame)
    HDP(2, max_iter=1, random_state=0).fit(corpus())


@pytest.mark.parametrize("name", ["HDP-online", "NestedCRP-batch", "GibbsHDP"])
def test_a_refused_chunk_leaves_the_vocabulary(name):
    frame = corpus()
    fit = clone(COUNT_MODELS[name]).partial_fit(frame[frame.columns[:20]])
    before = copy.deepcopy(fit)
    twice = frame[[*frame.columns, "w29"]]
    for chunk, message in (
        (-frame, "[Nn]egative"),
        (frame.rename(columns="other {}".format), "shares no feature name"),
        (twice, "unique column names"),
    ):
        with pytest.raises(ValueError, match=message):
            fit.partial_fit(chunk)
        assert fit.n_features_in_ == 20
        assert_array_equal(fit.feature_names_in_, before.feature_names_in_)
        assert_array_equal(fit.components_, before.components_)


def test_a_chunk_that_fails_midway_leaves_the_topics(monkeypatch):
    frame = corpus()
    fit = clone(FIRST["HDP-online"]).partial_fit(frame[frame.columns[:20]])
    before = fit.components_

    def fail(*args, **kwargs):
        raise RuntimeError("no more")

    monkeypatch.setattr(type(fit), "_learn_chunk", fail)
    with pytest.raises(RuntimeError, match="no more"):
        fit.partial_fit(frame)
    assert fit.n_features_in_ == 20
    assert_array_equal(fit.components_, before)


@pytest.mark.parametrize("make", [HDP, StickBreakingHDP, short_chain])
def test_seed_words_that_come_later_have_their_prior_then(make):
    frame = corpus()
    seeds = {"early": ["w01"], "both": ["w02", "w28"], "late": ["w29"]}
    fit = make(6, topic_word_prior=seeds, random_state=0)
    fit.partial_fit(frame[:30][frame.columns[:20]])
    assert fit.topic_word_prior_[2].max() < 1.0
    fit.partial_fit(frame[30:])
    place = fit.feature_names_in_.tolist().index
    prior = fit.topic_word_prior_
    assert min(prior[1, place("w28")], prior[2, place("w29")]) > 0.9
    assert_array_equal(fit.get_feature_names_out()[:3], list(seeds))


@pytest.mark.parametrize("make", [HDP, StickBreakingHDP, short_chain])
def test_frozen_topics_hold_nothing_of_new_terms(make):
    frame = corpus()
    given = np.random.default_rng(0).dirichlet(np.ones(20), 2)
    known = KnownTopics(given, frozen=True)
    fit = make(6, topic_word_prior=known, random_state=0)
    fit.partial_fit(frame[:30][frame.columns[:20]]).partial_fit(frame[30:])
    assert_array_equal(fit.components_[:2, :20], given)
    assert_array_equal(fit.components_[:2, 20:], 0.0)
    assert_allclose(fit.topic_word_distr_.sum(axis=1), 1.0)
    assert np.isfinite(fit.score(frame))


@pytest.mark.parametrize(
    "make",
    daily(2, [HDP, GibbsHDP, StickBreakingHDP, NestedCRP, NestedHDP, DependentTrees]),
)
def test_numbers_of_columns_are_their_names(make):
    """Where the first frame has none but 0 to n - 1, and where it has others."""
    frame = corpus().set_axis(range(30), axis=1)
    turned = frame[frame.columns[::-1]]
    given = {NestedHDP: {"max_components": 8}, GibbsHDP: {"max_iter": 5}}
    parameters = given.get(make, {})
    fit = make(**parameters, random_state=0).fit(frame)
    with pytest.warns(UserWarning, match="numbers for names of columns"):
        shares = fit.transform(turned)
    assert_array_equal(shares, fit.transform(frame))
    assert not hasattr(fit, "feature_names_in_")
    streams = [clone(fit).partial_fit(frame[:30]) for _ in range(2)]
    with pytest.warns(UserWarning, match="numbers for names of columns"):
        streams[0].partial_fit(turned[30:])
    streams[1].partial_fit(frame[30:])
    assert_array_equal(streams[0].components_, streams[1].components_)
    named = clone(fit).fit(turned)
    assert named.feature_names_in_.tolist() == [str(j) for j in range(30)][::-1]
    with pytest.raises(ValueError, match="names"):
        named.transform(frame)


def test_numbers_of_columns_extend():
    frame = corpus().set_axis(range(30), axis=1)
    fit = HDP(5, random_state=0).partial_fit(frame.loc[:29, :19])
    with pytest.warns(UserWarning, match="numbers for names of columns"):
        fit.partial_fit(frame.loc[30:, 10:])
    assert fit.feature_names_in_.tolist() == [str(j) for j in range(30)]


@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame])
def test_functions_place_columns_by_their_names(container):
    """A frame with part of the terms of a stream, as that of a night, in any order."""
    frame = corpus()
    fit = HDP(5, random_state=0).partial_fit(frame)
    night = frame[frame.columns[25:4:-1]]
    whole = night.reindex(columns=frame.columns, fill_value=0)
    given = container(night.to_dict("list"))
    by = np.arange(60) // 20
    assert_array_equal(top_documents(fit, given), top_documents(fit, whole))
    assert topics_over_time(fit, given, by).equals(topics_over_time(fit, whole, by))
    emerging_topics(fit, given, by)
    shares = [topic_shares(fit, X, by).mean for X in (given, whole)]
    assert_array_equal(*shares)
    assert summary(fit, X=given) == summary(fit, X=whole)
    assert_array_equal(topic_coherence(fit, given), topic_coherence(fit, whole))
    with pytest.raises(ValueError, match="names"):
        topics_over_time(fit, night.rename(columns={"w10": "other"}), by)
