"""Topics that are known before a fit: seed words, priors, and topics that stay."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from checks.long import along_diagonal, daily
from skbnp import HDP, GibbsHDP, KnownTopics, StickBreakingHDP
from skbnp.components.known_topics import TopicPriors
from skbnp.components.word_topics import SeenWords, WordTopics
from skbnp.datasets import make_bars
from skbnp.estimators import SplitMerge

N_WORDS, N_PLANTED, N_GIVEN = 100, 12, 8
ZERO = np.zeros((2, 1))


def hdp(family, method, **changes):
    return HDP(
        20,
        variational_family=family,
        learning_method=method,
        max_iter=40,
        random_state=0,
        **changes,
    )


FITS = {
    "HDP-online": lambda **p: hdp("collapsed", "online", **p),
    "HDP-mean-field-batch": lambda **p: hdp("mean_field", "batch", **p),
    "StickBreakingHDP": lambda **p: StickBreakingHDP(
        20, learning_method="batch", max_iter=60, random_state=0, **p
    ),
    "GibbsHDP": lambda **p: GibbsHDP(20, max_iter=60, random_state=0, **p),
    "HDP-memoized": lambda **p: hdp("collapsed", "memoized", **p),
    "HDP-batch": lambda **p: hdp("collapsed", "batch", **p),
    "HDP-mean-field-online": lambda **p: hdp("mean_field", "online", **p),
    "HDP-mean-field-memoized": lambda **p: hdp("mean_field", "memoized", **p),
    "HDP-paper": lambda **p: hdp(
        "mean_field", "online", split_merge=SplitMerge.paper(), **p
    ).set_params(warm_up=0),
}
quick = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
pytestmark = quick


def planted(n_docs, seed=0):
    """Topics, and documents of these."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(N_WORDS, 0.05), N_PLANTED)
    shares = rng.dirichlet(np.full(N_PLANTED, 0.2), n_docs)
    return topics, np.array([rng.multinomial(80, share @ topics) for share in shares])


def cosines(one, other):
    one, other = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (one, other))
    return one @ other.T


@pytest.mark.parametrize("name", daily(4, FITS))
def test_frozen_topics_stay_and_the_others_are_found(name):
    topics, X = planted(400)
    given = topics[:N_GIVEN] * 1234.5
    known = KnownTopics(given, frozen=True)
    fit = FITS[name](topic_word_prior=known).fit(X)
    assert_array_equal(fit.components_[:N_GIVEN], given)
    assert_array_equal(fit.component_ids_[:N_GIVEN], np.arange(N_GIVEN))
    best = cosines(topics[N_GIVEN:], fit.topic_word_distr_[N_GIVEN:]).max(axis=1)
    floor = 0.8 if name == "HDP-paper" else 0.95
    assert best.min() > floor
    weights = fit.topic_weights_[:N_GIVEN]
    assert weights.min() > 0.02
    if hasattr(fit, "partial_fit"):
        fit.partial_fit(X[:50])
        assert_array_equal(fit.components_[:N_GIVEN], given)


@pytest.mark.parametrize("name", daily(4, FITS))
def test_seeded_topics_outlast_all_moves(name):
    topics, X = planted(150)
    of_topic = topics**2 / topics.sum(axis=0)
    seeds = {f"topic {k}": np.argsort(-of_topic[k])[:3].tolist() for k in range(3)}
    idle = np.flatnonzero(X.sum(axis=0) == 0)
    seeds["no document"] = idle[:1].tolist() or [int(np.argmin(X.sum(axis=0)))]
    fit = FITS[name](topic_word_prior=KnownTopics(seeds, weight=0.1)).fit(X)
    assert_array_equal(fit.component_ids_[:4], np.arange(4))
    assert_array_equal(fit.get_feature_names_out()[:4], list(seeds))
    for _, kind, parents, children in fit.lineage_:
        if kind in ("prune", "split"):
            assert not set(parents) & set(range(4))
        elif kind == "merge":
            assert not set(parents) - set(children) & set(range(4))
    likeness = cosines(topics[:3], fit.topic_word_distr_)
    assert_array_equal(likeness[:, :3].argmax(axis=1), np.arange(3))
    assert np.diag(likeness).min() > 0.7


@pytest.mark.parametrize("random_state", daily(1, [0, 1, 2]))
def test_seed_words_find_the_whole_topic(random_state, monkeypatch):
    X = make_bars(500, side=5, random_state=0).data
    seeds = {"first row": [0, 1], "last column": [4, 9, 14]}
    hdp = HDP(20, topic_word_prior=seeds, random_state=random_state).fit(X)
    for topic, bar in enumerate([range(5), range(4, 25, 5)]):
        assert {*np.argsort(hdp.components_[topic])[-5:].tolist()} == {*bar}
        assert hdp.topic_weights_[topic] > 0.5 / hdp.n_components_
    # Negative control: seeds that weigh more, and nothing joins their topics.
    heavy = KnownTopics(seeds, weight=1.0)
    own = lambda words: words.known.columns  # noqa: E731
    monkeypatch.setattr(WordTopics, "best_columns", own)
    hdp = HDP(20, topic_word_prior=heavy, random_state=random_state).fit(X)
    assert hdp.topic_weights_[0] < 0.5 / hdp.n_components_


SEEDED = {
    "HDP": HDP(),
    "StickBreakingHDP": StickBreakingHDP(),
    "GibbsHDP": GibbsHDP(max_iter=100),
    "HDP-mean-field": HDP(variational_family="mean_field", learning_method="memoized"),
}


def with_rare_seeds():
    """Four words of six topics of 15, rare ones among them."""
    rng = np.random.default_rng(0)
    topics = np.full((6, 90), 0.001)
    for k in range(6):
        topics[k, 15 * k : 15 * k + 15] = rng.dirichlet(np.ones(15))
    topics /= topics.sum(axis=1, keepdims=True)
    shares = rng.dirichlet(np.full(6, 0.15), 300)
    X = np.array([rng.multinomial(50, share @ topics) for share in shares])
    seeds = {f"t{k}": list(range(15 * k, 15 * k + 4)) for k in range(6)}
    return seeds, X, shares


@pytest.mark.parametrize("in_chunks", daily(1, [False, True]))
@pytest.mark.parametrize("name", daily(1, SEEDED))
def test_seeded_topics_have_their_documents_whatever_their_order(name, in_chunks):
    seeds, X, shares = with_rare_seeds()
    turned, fits = dict(reversed(list(seeds.items()))), []
    for given in (seeds, turned):
        fit = clone(SEEDED[name]).set_params(topic_word_prior=given, random_state=0)
        for chunk in np.split(X, 3) if in_chunks else [X]:
            (fit.partial_fit if in_chunks else fit.fit)(chunk)
        fits.append(fit.components_[np.argsort(fit.get_feature_names_out()[:6])])
    assert_array_equal(*fits)
    best = fit.transform(X)[:, 5::-1].argmax(axis=1)
    assert (best == shares.argmax(axis=1)).mean() > 0.85


def test_kept_samples_are_of_sweeps_without_exchanges():
    """The order of seeds is against them, so that sweeps of the burn-in exchange."""
    seeds, X, _ = with_rare_seeds()
    seeds = dict(reversed(list(seeds.items())))
    steps = {}
    for burn_in in (0, 8):
        fit = GibbsHDP(
            topic_word_prior=seeds, burn_in=burn_in, max_iter=20, thin=4, random_state=0
        ).fit(X)
        steps[burn_in] = [
            entry.step for entry in fit.lineage_ if entry.kind == "exchange"
        ]
    assert steps[0] == []
    assert steps[8]
    assert max(steps[8]) <= 8


def test_a_topic_that_has_some_words_of_another_one_leaves_it_alone():
    """A known topic of a river, and a larger one of money that has "bank" too."""
    river, money = np.repeat([1.0, 0.0], [6, 6]), np.repeat([0.0, 1.0], [5, 7])
    counts = np.array([200.0 * river, 2000.0 * money]).T
    words = [0, 1, 5]
    boosts = 0.1 * counts[words].sum(axis=1)[:, None]
    known = TopicPriors(
        np.array([0]), np.array(words), boosts, np.array([False]), False, 0.1, ZERO
    )
    table = WordTopics(counts, SeenWords.all(12), known)
    assert_array_equal(table.best_columns(), [0])
    table = WordTopics(counts[:, ::-1], SeenWords.all(12), known)
    assert_array_equal(table.best_columns(), [1])
    before = table.tokens.copy()
    table.give_priors(np.array([1]))
    assert_allclose(table.tokens, before)
    assert_allclose(table.column(1)[words], counts[words, 0] + boosts[:, 0])


@pytest.mark.parametrize(
    "name", daily(1, ["HDP-online", "StickBreakingHDP", "GibbsHDP"])
)
def test_a_prior_that_outweighs_documents_is_named(name):
    X = make_bars(120, side=5, random_state=0).data
    seeds = {"first row": [0, 1], "last column": [4, 9, 14]}
    fit = FITS[name](topic_word_prior=KnownTopics(seeds, weight=30.0))
    with pytest.warns(UserWarning, match=r"2 times the tokens.*'first row'.*smaller"):
        fit.set_params(max_iter=20).fit(X)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="topic_word_prior")
        fit.set_params(topic_word_prior=KnownTopics(seeds, weight=0.02)).fit(X)
        array = KnownTopics(1e6 * (0.01 + np.eye(2, 25)))  # as strong as it is meant
        fit.set_params(topic_word_prior=array).fit(X)


def test_an_array_is_the_prior_of_its_topics():
    topics, X = planted(60)
    prior = 0.01 + 50.0 * topics[:3]
    for fit in (
        HDP(6, split_merge=False, topic_word_prior=prior, max_iter=3, random_state=0),
        HDP(6, variational_family="mean_field", topic_word_prior=prior, max_iter=3),
        StickBreakingHDP(6, topic_word_prior=prior, max_iter=3, random_state=0),
    ):
        fit.fit(X)
        assert fit.topic_word_prior_.shape == fit.components_.shape
        assert_allclose(fit.topic_word_prior_[:3], prior, rtol=1e-9)
        assert_allclose(fit.topic_word_prior_[3:], 0.05, rtol=0.9)
        assert (fit.components_ >= fit.topic_word_prior_ * (1.0 - 1e-9)).all()


@pytest.mark.parametrize("name", ["HDP-online", "HDP-mean-field-batch", "GibbsHDP"])
def test_known_topics_are_saved_copied_and_edited(name):
    topics, X = planted(120)
    given = topics[:3]
    fit = FITS[name](topic_word_prior=KnownTopics(given, frozen=True)).fit(X)
    for other in (pickle.loads(pickle.dumps(fit)), copy.copy(fit), copy.deepcopy(fit)):
        assert_array_equal(other.components_, fit.components_)
        assert_array_equal(other.transform(X[:5]), fit.transform(X[:5]))
        other.partial_fit(X[:20])
        assert_array_equal(other.components_[:3], given)
    with pytest.raises(ValueError, match="not frozen, got \\[1\\]"):
        fit.merge_components([1, int(fit.component_ids_[-1])])
    fit.drop_components([0])
    kept = [fit.component_ids_.tolist().index(name) for name in (1, 2)]
    assert_array_equal(fit.components_[kept], given[1:])
    fit.partial_fit(X[:20])
    kept = [fit.component_ids_.tolist().index(name) for name in (1, 2)]
    assert_array_equal(fit.components_[kept], given[1:])


def test_a_warm_start_goes_on_with_known_topics():
    topics, X = planted(80)
    known = KnownTopics(topics[:3], frozen=True)
    for fit in (FITS["HDP-online"], FITS["GibbsHDP"]):
        fit = fit(topic_word_prior=known, warm_start=True).set_params(max_iter=4)
        fit.fit(X).fit(X).fit(X[:40])
        assert_array_equal(fit.components_[:3], topics[:3])
    for init in (HDP(6, max_iter=3, random_state=0).fit(X), None):
        fit = GibbsHDP(
            6, topic_word_prior=known, init=init, n_chains=2, max_iter=4, random_state=0
        ).fit(X)
        assert_array_equal(fit.components_[:3], topics[:3])
        assert len(np.unique(fit.component_ids_)) == fit.n_components_


BAD = {
    "rows": (np.ones((5, N_WORDS)), "starts from 4"),
    "columns": (np.ones((2, 7)), "7 columns, X has 100"),
    "zero": (np.zeros((2, N_WORDS)), r"\[0, 0\] must be in"),
    "line": (np.ones(N_WORDS), "1 dimension"),
    "lists": ([["engine", "wheel"], ["oven", "flour"]], "a name for each topic"),
    "empty": (
        KnownTopics(np.eye(3, N_WORDS)[[0, 1, 1]] * [[1], [0], [1]], frozen=True),
        r"\[1\] is zero everywhere",
    ),
    "names": ({"a": ["word"]}, "no column number"),
    "beyond": ({"a": [N_WORDS]}, "no column of X"),
    "text": ({"a": "word"}, "must be a list of terms"),
    "nobody": ({}, "must have a topic"),
}


@along_diagonal(("case", "make"), BAD, [HDP, StickBreakingHDP, GibbsHDP])
def test_what_is_no_prior_is_refused_and_nothing_is_set(make, case):
    X, (prior, message) = planted(20)[1], BAD[case]
    fit = make(4, topic_word_prior=prior)
    for method in (fit.fit, fit.partial_fit):
        with pytest.raises(ValueError, match=message):
            method(X)
        assert not hasattr(fit, "n_features_in_")


def test_seed_words_that_are_no_features_are_named():
    X = pd.DataFrame(planted(120)[1]).rename(columns=str)
    with pytest.warns(UserWarning, match="left out: 'cheese'"):
        HDP(5, topic_word_prior={"a": ["1", "cheese"]}, max_iter=2).fit(X)
    with pytest.raises(ValueError, match="none of the seed words of 'a'"):
        HDP(5, topic_word_prior={"a": ["cheese"]}, max_iter=2).fit(X)
