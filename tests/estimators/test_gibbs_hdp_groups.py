"""Groups of documents in GibbsHDP: what users pass, and what they get."""

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score

import skbnp
from skbnp import GibbsHDP

N_DOCS, N_TOPICS = 200, 6
#: Topics of each planted group; the first is of all.
TOPICS = {"ash": [0, 1, 2], "birch": [0, 3, 4], "cedar": [0, 5]}


@cache
def planted():
    """Short documents whose groups have topics of ten words of their own."""
    rng = np.random.default_rng(3)
    topics = np.zeros((N_TOPICS, 60))
    for k in range(N_TOPICS):
        topics[k, 10 * k : 10 * k + 10] = rng.dirichlet(np.full(10, 2.0))
    names = np.array(list(TOPICS))[rng.integers(len(TOPICS), size=N_DOCS)]
    weights = np.zeros((len(TOPICS), N_TOPICS))
    for row, own in zip(weights, TOPICS.values(), strict=True):
        row[own] = 1.0 / len(own)
    places = [list(TOPICS).index(name) for name in names]
    shares = [rng.dirichlet(3.0 * weights[place] + 1e-9) for place in places]
    X = np.array([rng.multinomial(20, share @ topics) for share in shares])
    return X.astype(float), names, weights, topics


def sampler(**settings):
    """Few sweeps of a few topics, without a warning of these."""
    few = {"max_iter": 80, "thin": 10, "burstiness": False, "random_state": 1}
    return GibbsHDP(10, **few | settings)


def fit(model, *given, **labels):
    with warnings.catch_warnings(action="ignore"):
        return model.fit(*given, **labels)


@cache
def fitted(labels="own"):
    X, names, *_ = planted()
    if labels == "shuffled":
        names = np.random.default_rng(5).permutation(names)
    return fit(sampler(), X, groups=names if labels != "none" else None)


def assert_equal_samples(one, other):
    assert len(one.samples_) == len(other.samples_)
    for a, b in zip(one.samples_, other.samples_, strict=True):
        assert_array_equal(a.topic_word_counts.toarray(), b.topic_word_counts.toarray())
        assert_array_equal(a.table_counts, b.table_counts)
        assert_array_equal(a.component_ids, b.component_ids)
        assert a.log_joint == b.log_joint
        assert (a.group_tables is None) == (b.group_tables is None)
        if a.group_tables is not None:
            assert_array_equal(a.group_tables, b.group_tables)


def test_weights_of_planted_groups_are_sampled():
    hdp, (X, names, weights, topics) = fitted(), planted()
    assert_array_equal(hdp.groups_, list(TOPICS))
    assert hdp.group_weights_.shape == (3, hdp.n_components_)
    best = np.argmax(topics @ hdp.topic_word_distr_.T, axis=1)
    assert len(set(best)) == N_TOPICS
    assert np.abs(hdp.group_weights_[:, best] - weights).max() < 0.15
    assert np.abs(hdp.topic_weights_[best] - weights).max() > 0.25
    assert 0.5 < hdp.group_concentration_ < 30.0
    assert hdp.score(X, groups=names) > hdp.score(X) > fitted("none").score(X)
    wrong = np.roll(list(TOPICS), 1)[[list(TOPICS).index(name) for name in names]]
    assert hdp.score(X, groups=wrong) < hdp.score(X)


def test_weights_of_groups_that_tell_nothing_are_alike():
    hdp, own = fitted("shuffled"), fitted()
    assert hdp.group_concentration_ > 2.0 * own.group_concentration_
    assert np.ptp(hdp.group_weights_, axis=0).max() < 0.2
    assert np.ptp(own.group_weights_, axis=0).max() > 0.4


@pytest.mark.parametrize("nothing", [None, np.nan])
def test_one_group_changes_no_bit(nothing):
    X, *_ = planted()
    labels = np.full(N_DOCS, "ash", dtype=object)
    labels[::3] = nothing
    hdp = fit(sampler(), X, groups=labels)
    none = fitted("none")
    assert_equal_samples(hdp, none)
    assert hdp.history_["log_joint"] == none.history_["log_joint"]
    assert_array_equal(hdp.transform(X, groups=labels), none.transform(X))
    assert hdp.score(X, groups=labels) == none.score(X)
    assert_array_equal(hdp.groups_, ["ash"])
    assert_array_equal(hdp.group_weights_, [none.topic_weights_])
    assert hdp.group_concentration_ == np.inf


def test_documents_without_a_label_have_the_weights_of_the_corpus():
    X, names, weights, topics = planted()
    labels = np.where(np.arange(N_DOCS) % 3 == 0, None, names)
    hdp = fit(sampler(), X, groups=labels)
    best = np.argmax(topics @ hdp.topic_word_distr_.T, axis=1)
    assert np.abs(hdp.group_weights_[:, best] - weights).max() < 0.2
    tables = hdp.samples_[-1].group_tables
    assert tables.shape[0] == 4
    assert (tables.sum(axis=1) > 0).all()


def test_labels_in_evaluation_are_known_inferred_or_new():
    X, names, *_ = planted()
    hdp = fitted()
    known = hdp.transform(X, groups=names)
    labels = names.astype(object)
    labels[::2] = None
    shares = hdp.transform(X, groups=labels)
    assert_array_equal(shares[1::2], known[1::2])
    assert_array_equal(shares[::2], hdp.transform(X)[::2])
    mixed = np.where(np.arange(N_DOCS) < 9, names, "elm")
    assert_array_equal(hdp.transform(X, groups=mixed)[:9], known[:9])
    assert np.abs(hdp.transform(X, groups=mixed)[9:] - known[9:]).max() > 0.01
    with pytest.warns(UserWarning, match="no label that fit had"):
        hdp.score(X, groups=["elm"] * N_DOCS)
    nothing = hdp.transform(np.zeros((3, 60)), groups=list(TOPICS))
    own = hdp.group_weights_ / hdp.group_weights_.sum(axis=1, keepdims=True)
    assert_allclose(nothing, own)
    order = np.random.default_rng(0).permutation(N_DOCS)
    assert_allclose(hdp.transform(X[order], groups=names[order]), known[order])


def test_rows_of_a_group_may_be_anywhere():
    X, names, *_ = planted()
    order = np.argsort(names, kind="stable")
    assert_equal_samples(fit(sampler(), X[order], groups=names[order]), fitted())


def test_weights_of_rows_and_empty_rows():
    X, names, *_ = planted()
    rows = np.sort(np.random.default_rng(1).permutation(N_DOCS)[:150])
    weight = np.bincount(rows, minlength=N_DOCS)
    one = fit(sampler(), X, None, weight, groups=names)
    assert_equal_samples(one, fit(sampler(), X[rows], groups=names[rows]))
    empty = np.where(weight[:, None] > 0, X, 0.0)
    assert_equal_samples(one, fit(sampler(), empty, groups=names))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_chains_go_on_from_files_with_the_same_bits(n_jobs, tmp_path):
    X, names, *_ = planted()
    settings = {"n_chains": 2, "burn_in": 10, "n_jobs": n_jobs, "n_components": None}
    whole = fit(sampler().set_params(max_iter=40, **settings), X, groups=names)
    half = sampler().set_params(max_iter=25, warm_start=True, **settings)
    skbnp.save(fit(half, X, groups=names), tmp_path / "fit.skbnp")
    half = skbnp.load(tmp_path / "fit.skbnp").set_params(max_iter=15)
    assert_equal_samples(fit(half, X, groups=names), whole)
    shares = whole.transform(X, groups=names)
    assert_array_equal(half.transform(X, groups=names), shares)
    assert not hasattr(clone(half), "groups_")
    other = np.where(names == "ash", "birch", names)
    begun = len(half.lineage_)
    assert fit(half, X, groups=other).groups_.tolist() == ["birch", "cedar"]
    assert len(half.lineage_) > begun  # new chains, from present topics
    assert not hasattr(fit(half, X), "groups_")


def test_damaged_chains_are_refused():
    X, names, *_ = planted()
    hdp = pickle.loads(pickle.dumps(fitted())).set_params(warm_start=True)
    hdp._chains[0].corpus[0][0] = 10**6
    with pytest.raises(ValueError, match="tables of a chain are damaged"):
        fit(hdp, X, groups=names)
    hdp = pickle.loads(pickle.dumps(fitted()))
    hdp.samples_[0].group_tables[:] = 0
    with pytest.raises(ValueError, match="fewer tables than the corpus"):
        pickle.loads(pickle.dumps(hdp))


def test_edits_add_up_the_tables_of_groups():
    hdp = pickle.loads(pickle.dumps(fitted()))
    one, two, *others = hdp.component_ids_.tolist()
    before = hdp.group_weights_
    hdp.merge_components([one, two])
    columns = [hdp.component_ids_.tolist().index(name) for name in (one, *others)]
    merged = np.column_stack([before[:, 0] + before[:, 1], before[:, 2:]])
    assert_allclose(hdp.group_weights_[:, columns], merged)
    hdp.drop_components([one])
    assert hdp.group_weights_.shape == (3, len(others))


def test_chunks_of_a_stream_leave_groups_as_they_are():
    X, names, *_ = planted()
    hdp = pickle.loads(pickle.dumps(fitted())).set_params(max_iter=20)
    k, before = hdp.n_components_, hdp._best().group_tables.sum(axis=1)
    for some in (X[:50], X[50:100]):
        fit_chunk(hdp, some)
        after = hdp._best().group_tables.sum(axis=1)
        assert_array_equal(after[:3], before[:3])
        assert after[3] >= before[3] + len(some)
        before = after
    assert_array_equal(hdp.groups_, list(TOPICS))
    assert_allclose(hdp.group_weights_[:, :k], fitted().group_weights_, atol=0.1)
    assert hdp.score(X, groups=names) > hdp.score(X)


def fit_chunk(model, X):
    with warnings.catch_warnings(action="ignore"):
        return model.partial_fit(X)


def test_known_topics_and_repeats_go_with_groups():
    X, names, *_ = planted()
    known = {"first": list(range(10)), "last": list(range(50, 60))}
    hdp = sampler(topic_word_prior=known, burstiness="auto", max_iter=40)
    hdp = fit(hdp, 2.0 * X, groups=names)
    assert hdp.samples_[-1].has_repeats
    weights = hdp.group_weights_[:, hdp.component_ids_.tolist().index(1)]
    assert weights.argmax() == list(TOPICS).index("cedar")


def test_labels_that_cannot_be_used_are_refused():
    X, names, *_ = planted()
    with pytest.raises(ValueError, match="labels by one factor, got 2"):
        sampler().fit(X, groups=np.stack([names, names], axis=1))
    with pytest.raises(ValueError, match="a label for each document"):
        sampler().fit(X, groups=4)
    with pytest.raises(ValueError, match="given to fit"):
        fitted("none").transform(X, groups=names)
    with pytest.raises(AttributeError, match="no groups"):
        _ = fitted("none").groups_


def test_labels_come_by_metadata_routing():
    X, names, *_ = planted()
    model = sampler(max_iter=20)
    with config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        routed = clone(model).set_fit_request(groups=True)
        routed.set_score_request(groups=True)
        scores = cross_val_score(routed, X, params={"groups": names}, cv=KFold(2))
        alone = cross_val_score(model, X, cv=KFold(2))
    assert (scores > alone).all()
