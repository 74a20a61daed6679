"""Fits of several corpora that become one, without their documents."""

import copy
import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from checks.long import daily
from skbnp import HDP, GibbsHDP, StickBreakingHDP, merge_fits
from skbnp.inspection import set_topic_names

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FITS = {
    "HDP": lambda seed: HDP(20, max_iter=30, random_state=seed),
    "HDP-mean-field": lambda seed: HDP(
        20,
        variational_family="mean_field",
        learning_method="batch",
        max_iter=30,
        random_state=seed,
    ),
    "HDP-memoized": lambda seed: HDP(
        20, learning_method="memoized", max_iter=30, random_state=seed
    ),
}


def frames(n_docs=700, n_words=120, n_topics=8, seed=0):
    """Two corpora, which share five of their topics, and documents of both."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.08), n_topics)
    names = [f"w{word:03d}" for word in range(n_words)]
    corpora = []
    for first in (0, n_topics - 6):
        shares = np.zeros((n_docs, n_topics))
        shares[:, first : first + 6] = rng.dirichlet(np.full(6, 0.3), n_docs)
        X = np.array([rng.multinomial(60, share @ topics) for share in shares])
        corpora.append(pd.DataFrame(X, columns=names))
    return corpora


def shown(frame):
    """Leave out terms that no document has, as a vectorizer would."""
    return frame[frame.columns[(frame != 0).any()]]


@cache
def learned(name, n_learned=500):
    one, other = frames()
    train = shown(one[:n_learned]), shown(other[:n_learned])
    fits = [FITS[name](seed).fit(part) for seed, part in enumerate(train)]
    return fits, train, (one[n_learned:], other[n_learned:])


@pytest.mark.parametrize("name", daily(1, FITS))
def test_a_merged_fit_predicts_both_halves_nearly_as_a_joint_one(name):
    fits, train, tests = learned(name)
    merged = merge_fits(fits)
    names = merged.feature_names_in_
    joint = FITS[name](0).fit(
        pd.concat([part.reindex(columns=names, fill_value=0) for part in train])
    )
    for fit, test in zip(fits, tests, strict=True):
        score = merged.score(test[names])
        assert score > joint.score(test[names]) - 0.02
        worse = fit.score(tests[test is tests[0]][fit.feature_names_in_])
        assert score > worse + 0.3  # a fit does not know the other corpus
    assert 8 <= merged.n_components_ <= 10


@pytest.mark.parametrize("name", daily(1, FITS))
def test_a_merged_fit_is_a_fit(name):
    fits, _, (test, other) = learned(name, 200)
    before = [fit.components_ for fit in fits]
    merged = merge_fits(fits)
    for fit, components in zip(fits, before, strict=True):
        assert_array_equal(fit.components_, components)
    union = set(fits[0].feature_names_in_) | set(fits[1].feature_names_in_)
    assert set(merged.feature_names_in_) == union
    assert merged.components_.shape == (merged.n_components_, merged.n_features_in_)
    chunk = test[merged.feature_names_in_]
    shares = merged.transform(chunk)
    assert_allclose(shares.sum(axis=1), 1.0)
    again = pickle.loads(pickle.dumps(merged))
    assert_array_equal(again.transform(chunk), shares)
    score = merged.score(chunk)
    merged.partial_fit(other)
    assert merged.score(test[merged.feature_names_in_]) > score - 0.02
    assert_array_equal(merged.merge_components([0, 1]).component_ids_[0], 0)


def test_counts_add_up():
    fits = learned("HDP-mean-field", 200)[0]
    merged = merge_fits(fits)
    global_stats = [fit._posterior.global_stats for fit in (*fits, merged)]
    words = [total.topic_words.total.sum() for total in global_stats]
    assert_allclose(words[2], words[0] + words[1])
    docs = [total.n_docs_using.sum() for total in global_stats]
    assert_allclose(docs[2], docs[0] + docs[1])


def test_a_merged_stream_holds_no_documents():
    one, other = frames(200)
    fits = [HDP(8, random_state=0).partial_fit(part) for part in (one, other)]
    assert all(fit._posterior.reservoir.counts.nnz for fit in fits)
    merged = merge_fits(fits)
    assert merged._posterior.reservoir.counts.nnz == 0
    n_topics = merged.n_components_
    for _ in range(3):  # which know nothing of the topics of the other
        merged.partial_fit(one)
    assert merged._posterior.n_seen >= 400
    assert not any(step for step, *_ in merged.lineage_)
    assert merged.n_components_ == n_topics


def test_topics_that_are_unlike_stay_apart():
    fits = learned("HDP", 200)[0]
    separate = merge_fits(fits, min_similarity=1.0)
    assert separate.n_components_ == sum(fit.n_components_ for fit in fits)
    assert merge_fits(fits).n_components_ < separate.n_components_


def test_no_name_of_a_topic_is_lost():
    fits = learned("HDP", 200)[0]
    fits = [copy.deepcopy(fits[0]), copy.deepcopy(fits[0])]
    first, second = fits[0].component_ids_[:2].tolist()
    set_topic_names(fits[0], {first: "cars"})
    set_topic_names(fits[1], {first: "traffic", second: "cars"})
    merged = merge_fits(fits)
    assert set(merged.topic_names_.values()) == {"cars / traffic", "cars"}
    set_topic_names(fits[1], {first: "", second: "cars"})
    merged = merge_fits(fits)
    assert set(merged.topic_names_.values()) == {"cars", "cars (2)"}


def test_what_cannot_be_merged_is_refused():
    one, other = frames(40)
    fit, mean_field = HDP(4, max_iter=2), HDP(4, variational_family="mean_field")
    fit.fit(one)
    known = HDP(4, topic_word_prior={"a": ["w001"]}, max_iter=2).fit(one)
    cases = [
        ([fit], "two or more, got 1"),
        ([fit, GibbsHDP(4, max_iter=2).fit(one)], "all be HDP, got GibbsHDP, HDP"),
        ([StickBreakingHDP(4, max_iter=2).fit(one)] * 2, "all be HDP"),
        ([fit, mean_field.set_params(max_iter=2).fit(one)], "variational_family"),
        ([fit, known], r"estimators\[1\] has known topics"),
        ([fit, HDP(4, max_iter=2).fit(one.to_numpy())], r"\[1\] has no feature names"),
        ([fit, HDP(4, max_iter=2).fit(other.add_prefix("x"))], "shares no feature"),
    ]
    for fits, message in cases:
        with pytest.raises(ValueError, match=message):
            merge_fits(fits)
    with pytest.raises(NotFittedError):
        merge_fits([fit, HDP()])
    nameless = [HDP(4, max_iter=2).fit(one.to_numpy()[:, :n]) for n in (50, 60)]
    with pytest.raises(ValueError, match="no names of these"):
        merge_fits(nameless)
