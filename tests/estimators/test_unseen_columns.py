"""Columns that no document has shown cost nothing and change nothing but the prior."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from checks.estimators import mean_field_hdp
from checks.long import daily
from skbnp import HDP, NestedCRP, StickBreakingHDP
from skbnp.components.word_topics import WordTopics
from skbnp.datasets import make_bars
from skbnp.estimators import SplitMerge, _nested_crp
from skbnp.inference.trials import bound_of

PAPER = SplitMerge.paper()
MODELS = {
    "online": HDP(8, max_iter=30),
    "memoized": HDP(8, learning_method="memoized", max_iter=20),
    "random": HDP(8, init="random", split_merge=False, max_iter=4),
    "mean_field": mean_field_hdp(8, max_iter=30),
    "paper": mean_field_hdp(8, split_merge=PAPER),
    "batch": mean_field_hdp(8, learning_method="batch", max_iter=40),
    "sticks": StickBreakingHDP(10, max_iter=5),
}
X = sp.csr_array(make_bars(100, random_state=0).data, dtype=float)
SHOWN = np.sort(np.random.default_rng(0).choice(3000, X.shape[1], replace=False))


def spread(counts, n_features=3000):
    """The same counts in a vocabulary with many more columns between."""
    indices = SHOWN[counts.indices]
    shape = counts.shape[0], n_features
    return sp.csr_array((counts.data, indices, counts.indptr), shape)


X_WIDE = spread(X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", daily(3, MODELS))
def test_unseen_columns_hold_the_prior_and_have_no_rows(name):
    """Whatever moves there are; tables grow with the words that are seen alone."""
    fit = clone(MODELS[name]).set_params(random_state=0).fit(X_WIDE)
    held = fit._posterior.global_stats.topic_words
    assert_array_equal(np.sort(held.seen.words), SHOWN)
    assert len(held._values) < 2 * len(SHOWN)
    unseen = np.delete(fit.components_, SHOWN, axis=1)
    assert_array_equal(unseen, fit.topic_word_prior_)
    assert_allclose(fit.topic_word_distr_.sum(axis=1), 1.0)


def rows_for_all(topics, seen):
    """The same counts, and a row for each column."""
    whole = np.zeros((seen.n_vocabulary, topics.shape[1]))
    whole[seen.words] = topics
    return WordTopics(whole)


_STILL = {"split_merge": False, "max_iter": 3}
FLAT = {
    "online": HDP(8, **_STILL),
    "batch": HDP(8, learning_method="batch", **_STILL),
    "memoized": mean_field_hdp(
        8, learning_method="memoized", learn_priors=True, **_STILL
    ),
    "sticks": StickBreakingHDP(10, learn_priors=True, max_iter=3),
    "paper": mean_field_hdp(4, split_merge=PAPER, max_iter=20),
    "ends": mean_field_hdp(
        4, learning_method="memoized", split_merge=SplitMerge(births=False), max_iter=20
    ),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FLAT)
def test_rows_for_all_columns_give_the_same(name, monkeypatch):
    seen, whole = (clone(FLAT[name]).set_params(random_state=0) for _ in range(2))
    seen.fit(spread(X))
    assert len(seen._posterior.global_stats.topic_words.seen) == len(SHOWN)
    monkeypatch.setattr("skbnp.estimators._variational.WordTopics", rows_for_all)
    whole.fit(spread(X))
    assert len(whole._posterior.global_stats.topic_words.seen) == 3000
    assert seen.lineage_ == whole.lineage_
    assert_allclose(seen.components_, whole.components_, rtol=1e-6, atol=1e-9)
    assert_allclose(seen.transform(X_WIDE), whole.transform(X_WIDE), rtol=1e-6)
    for name in ("elbo", "score"):
        one, other = (getattr(fit, name)(X_WIDE) for fit in (seen, whole))
        assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("name", [*MODELS][::3])
def test_columns_may_appear_late_in_a_stream(name):
    wide, half = X_WIDE, len(SHOWN) // 2
    first = wide @ sp.diags_array((np.arange(3000) < SHOWN[half]).astype(float))
    first.eliminate_zeros()
    stream = clone(MODELS[name]).set_params(random_state=0).partial_fit(first)
    n_before = len(stream._posterior.global_stats.topic_words.seen)
    unknown = stream.transform(wide)
    assert_allclose(unknown.sum(axis=1), 1.0)
    stream.partial_fit(wide).partial_fit(wide)
    held = stream._posterior.global_stats.topic_words
    assert n_before < len(held.seen) == len(SHOWN)
    late = SHOWN[half:]
    assert (stream.components_[:, late].max(axis=0) > 0.5).all()
    assert stream.score(wide) > -np.log(len(SHOWN))


CRP = NestedCRP(
    level_prior=4.0,
    topic_word_prior=0.1,
    init="sequential",
    max_iter=4,
    random_state=0,
)
TREES = {
    "batch": {},
    "memoized": {"learning_method": "memoized", "batch_size": 40},
    "learned": {"learn_priors": True},
    "online": {"learning_method": "online"},
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", daily(2, TREES))
def test_trees_with_columns_for_all_words_are_the_same(name, monkeypatch):
    # Moves of a tree are chosen among many that are equally good but for rounding.
    params = {"structure_moves": False, **TREES[name]}
    seen, whole = (clone(CRP).set_params(**params) for _ in range(2))
    seen.fit(X_WIDE)
    assert seen._posterior.state.word_counts.shape[1] == len(SHOWN)
    learn_words = _nested_crp._learn_words
    monkeypatch.setattr(
        _nested_crp,
        "_learn_words",
        lambda posterior, words: learn_words(posterior, np.arange(3000)),
    )
    whole.fit(X_WIDE)
    assert whole._posterior.state.word_counts.shape[1] == 3000
    assert seen.n_components_ > 2
    assert seen.lineage_ == whole.lineage_
    assert_array_equal(seen.tree_.parent, whole.tree_.parent)
    assert_allclose(seen.components_, whole.components_, rtol=1e-6, atol=1e-9)
    more = spread(sp.csr_array(X[:, ::-1])) + X_WIDE[:, ::-1]  # with unseen words
    bounds = [bound_of(fit._posterior) for fit in (seen, whole)]
    assert_allclose(*bounds, rtol=1e-9)
    for name in ("transform", "score", "elbo"):
        one, other = (getattr(fit, name)(more) for fit in (seen, whole))
        assert_allclose(one, other, rtol=1e-6, atol=1e-9)
