"""Estimators start from the topics of others."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

import skbnp
from checks.callbacks import Trouble
from checks.long import along_diagonal
from checks.states import assert_same, learned
from skbnp import HDP, GibbsHDP, HierarchicalComponentAnalysis, NestedCRP
from skbnp import StickBreakingHDP as Sticks
from skbnp.callbacks import Checkpoint
from skbnp.datasets import make_bars
from skbnp.estimators import SplitMerge
from skbnp.inference.protocols import Corpus
from skbnp.utils.matching import cosines

X = make_bars(150, side=4, random_state=0).data
SOON = {"max_iter": 30, "random_state": 0}
GIVERS = {
    "HDP": HDP(12, split_merge=False, **SOON),
    "StickBreakingHDP": Sticks(12, 6, learning_method="batch", **SOON),
    "GibbsHDP": GibbsHDP(max_iter=60, random_state=0),
    "NestedCRP": NestedCRP(
        level_prior=4.0,
        topic_word_prior=0.1,
        structure_moves=False,
        init="sequential",
        max_iter=10,
        random_state=0,
    ),
    "LatentDirichletAllocation": LatentDirichletAllocation(
        10, doc_topic_prior=0.1, topic_word_prior=0.1, random_state=0
    ),
}
TAKERS = {
    "HDP-online": HDP(split_merge=False, max_iter=3, random_state=0),
    "HDP-memoized": HDP(
        split_merge=False, learning_method="memoized", max_iter=3, random_state=0
    ),
    "HDP-mean-field": HDP(
        split_merge=False,
        variational_family="mean_field",
        warm_up=0,
        learning_method="batch",
        max_iter=3,
        random_state=0,
    ),
    "StickBreakingHDP": Sticks(
        120, 6, learning_method="batch", warm_up=0, max_iter=3, random_state=0
    ),
    "GibbsHDP": GibbsHDP(max_iter=3, random_state=0),
}
_FITTED = {}


def giver(name):
    if name not in _FITTED:
        _FITTED[name] = clone(GIVERS[name]).fit(X)
    return _FITTED[name]


@cache
def score_without(taker):
    """Score of a fit from a start of its own."""
    return clone(TAKERS[taker]).fit(X).score(X)


@cache
def no_topics():
    """A tree of directions, which has none."""
    tree = HierarchicalComponentAnalysis(max_iter=2, structure_moves=False)
    return tree.fit(X.toarray().astype(float))


@cache
def named():
    """Topics of columns that have names."""
    frame = pd.DataFrame(X.toarray(), columns=list("abcdefghijklmnop"))
    return clone(GIVERS["HDP"]).set_params(max_iter=2).fit(frame)


def stays(topics, taker):
    """Mean cosine of heavy topics and of the nearest ones of another model."""
    weights, distr = skbnp.utils.fitted.topics(topics)
    unit = distr / np.linalg.norm(distr, axis=1, keepdims=True)
    result = taker.topic_word_distr_
    result = result / np.linalg.norm(result, axis=1, keepdims=True)
    heavy = weights > 0.02
    return float((unit[heavy] @ result.T).max(axis=1).mean())


@along_diagonal(("name", "taker"), GIVERS, TAKERS)
def test_a_fit_starts_from_the_topics_of_another(taker, name):
    topics = giver(name)
    given = clone(TAKERS[taker]).set_params(init=topics).fit(X)
    assert stays(topics, given) > 0.9
    assert given.score(X) > score_without(taker) - 0.02


def test_numbers_of_topics_are_those_of_the_model():
    topics = giver("HDP")
    n = topics.n_components_
    hdp = clone(TAKERS["HDP-online"]).set_params(init=topics, warm_start=True).fit(X)
    assert len(hdp.lineage_[0].children) == n
    assert hdp.fit(X).n_iter_ == 3  # the number agrees with the start
    with pytest.raises(ValueError, match=f"the {n} topics of init.*drop some"):
        HDP(init=topics, max_components=n - 1).fit(X)
    with pytest.raises(ValueError, match=f"at least the {n} topics of init"):
        Sticks(n - 1, init=topics).fit(X)
    assert Sticks(n, 3, init=topics, max_iter=2).fit(X).n_components_ == n
    sticks = Sticks(n + 5, 3, init=topics, max_iter=2).fit(X)
    assert sticks.n_components_ == n + 5


def test_trials_follow_and_streams_begin_from_a_model():
    hdp = HDP(init=giver("GibbsHDP"), random_state=0).fit(X)
    assert hdp.score(X) > HDP(random_state=0).fit(X).score(X) - 0.02
    stream = HDP(init=giver("GibbsHDP"), random_state=0).partial_fit(X[:50])
    assert stays(giver("GibbsHDP"), stream) > 0.8
    stream.partial_fit(X[50:])


def test_clones_keep_a_model_that_is_frozen(tmp_path):
    frozen = FrozenEstimator(giver("HDP"))
    hdp = HDP(init=frozen, max_iter=5, split_merge=False, random_state=0)
    whole = clone(hdp).fit(X)
    assert_same(learned(whole), learned(clone(hdp).set_params(init=frozen).fit(X)))
    path = tmp_path / "fit"
    broken = clone(hdp).set_callbacks(Checkpoint(path), Trouble(3, "begin"))
    with pytest.raises(OSError, match="no space left"):
        broken.fit(X)
    assert_same(learned(whole), learned(skbnp.load(path).fit(X)))
    with pytest.raises(NotFittedError):
        clone(HDP(init=giver("HDP"))).fit(X)


@pytest.mark.parametrize("taker", TAKERS)
def test_what_gives_no_topics_of_the_columns_is_refused(taker):
    estimator = clone(TAKERS[taker])
    rows = X.toarray().astype(float)
    with pytest.raises(ValueError, match="has no topics"):
        estimator.set_params(init=no_topics()).fit(X)
    with pytest.raises(ValueError, match="X has 15 features, but init has 16"):
        estimator.set_params(init=giver("HDP")).fit(X[:, :15])
    assert not hasattr(estimator, "n_features_in_")
    frame = pd.DataFrame(rows, columns=list("abcdefghijklmnop"))
    with pytest.raises(ValueError, match=r"'p' for column 0, expected 'a'"):
        estimator.set_params(init=named()).fit(frame[frame.columns[::-1]])
    assert not hasattr(estimator, "n_features_in_")
    estimator.fit(frame)


def short_mixtures(seed=0, n_docs=2500, n_tokens=5):
    """Documents of a few tokens that mix twelve topics, and the topics."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(600, 0.05), 12)
    shares = rng.dirichlet(np.full(12, 0.25), n_docs)
    return sp.csr_array(
        rng.multinomial(n_tokens, shares @ topics).astype(float)
    ), topics


def match(hdp, topics):
    """Mean over true topics of the largest cosine with a topic of the model."""
    return cosines(topics, hdp.topic_word_distr_).max(axis=1).mean()


def test_topics_of_short_documents_start_from_a_sampler(monkeypatch):
    X, topics = short_mixtures()
    one, two = (HDP(random_state=0, n_jobs=n).fit(X) for n in (1, 2))
    assert_array_equal(one.components_, two.components_)
    assert match(one, topics) > 0.85
    # Of single documents most topics have a few words.
    monkeypatch.setattr(HDP, "_is_sampled", lambda *_: False)
    assert match(HDP(random_state=0).fit(X), topics) < 0.6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_few_short_documents_start_from_a_sampler(monkeypatch, all_splits):
    X, topics = short_mixtures(n_docs=300, n_tokens=15)
    one, two = (HDP(random_state=0, n_jobs=n).fit(X) for n in (1, 2))
    assert_array_equal(one.components_, two.components_)
    assert one._posterior.is_cross_fitted
    assert match(one, topics) > 0.8
    assert one.n_components_ == HDP(random_state=1).fit(X).n_components_
    assert 4 <= HDP(max_components=6, random_state=0).fit(X).n_components_ <= 6
    wide = sp.csr_array((X.data, X.indices, X.indptr), (300, 20_000))
    assert HDP(random_state=0).fit(wide).n_components_ > 6
    monkeypatch.setattr(HDP, "_is_sampled", lambda *_: False)
    assert match(HDP(random_state=0).fit(X), topics) < 0.75


def test_seeds_share_the_split_and_the_start_of_short_documents():
    X, _ = short_mixtures()
    corpus = Corpus(X)
    one, two = (HDP(random_state=0)._hold_out(corpus, seed) for seed in (1, 2))
    assert_array_equal(one.rows, two.rows)
    long = Corpus(10.0 * X)
    one, two = (HDP(random_state=0)._hold_out(long, seed) for seed in (1, 2))
    assert len(one.rows) == len(two.rows)
    assert (one.rows != two.rows).any()


@pytest.mark.parametrize(
    "settings",
    [
        {"init": "random"},
        {"n_components": 8, "split_merge": False},
        {"split_merge": SplitMerge(births=False)},
        {"variational_family": "mean_field"},
        {"max_iter": 8},  # no time for trials
        {"topic_word_prior": {"first": [0, 1, 2]}},
    ],
)
def test_fits_with_other_settings_are_not_sampled(settings):
    X, _ = short_mixtures()
    hdp = HDP(random_state=0)
    assert hdp._is_sampled(Corpus(X))
    assert not hdp.set_params(**settings)._is_sampled(Corpus(X))
    assert not HDP()._is_sampled(Corpus(10.0 * X))


def test_fractions_of_short_documents_are_sampled_as_tokens():
    X, topics = short_mixtures()
    X.data *= 0.9
    hdp = HDP(random_state=0)
    with pytest.warns(UserWarning, match="counts"):
        hdp.fit(X)
    assert match(hdp, topics) > 0.85
    # Weights of a hundred words of each document are not short ones.
    assert not hdp._is_sampled(Corpus(sp.csr_array(np.full((2000, 100), 0.1))))


@pytest.mark.parametrize(("limit", "n_topics"), [(None, 12), (6, 6)])
def test_a_sampled_start_has_as_many_topics_as_the_sampler(limit, n_topics):
    X, _ = short_mixtures()
    hdp = HDP(1, max_components=limit, random_state=0).fit(X)
    assert (len(hdp.lineage_[0].children) == 6) == (limit == 6)
    assert n_topics - 4 <= hdp.n_components_ <= (limit or n_topics + 4)
