"""Groups of documents in the HDP: what users pass, and what they get."""

import pickle
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import skbnp
from skbnp import HDP
from skbnp.callbacks import Checkpoint
from skbnp.datasets import make_bars
from skbnp.inference.executor import Executor
from skbnp.inspection import summary
from skbnp.metrics import document_completion_score, perplexity
from skbnp.models.hdp import fold_in
from skbnp.models.hdp import groups as module
from skbnp.utils.labels import check_groups

#: Fits that tests share are of daily and of long ones.
pytestmark = pytest.mark.usefixtures("one_split")

N_DOCS, N_GROUPS, N_TOPICS = 400, 4, 6


@cache
def planted(length=25, concentration=3.0):
    """Short documents of groups that use topics of ten words differently."""
    rng = np.random.default_rng(3)
    topics = np.zeros((N_TOPICS, 60))
    for k in range(N_TOPICS):
        topics[k, 10 * k : 10 * k + 10] = rng.dirichlet(np.full(10, 2.0))
    weights = rng.dirichlet(np.full(N_TOPICS, 0.4), size=N_GROUPS)
    labels = rng.integers(N_GROUPS, size=N_DOCS)
    shares = np.array(
        [rng.dirichlet(concentration * weights[g] + 0.01) for g in labels]
    )
    X = np.array([rng.multinomial(length, row @ topics) for row in shares])
    X = sp.csr_array(X.astype(float))
    names = np.array(["ash", "birch", "cedar", "date"])[labels]
    return X, names, weights, topics


@cache
def fitted(shuffled=False):
    X, names, *_ = planted()
    if shuffled:
        names = np.random.default_rng(5).permutation(names)
    return HDP(random_state=0).fit(X, groups=names)


@cache
def without():
    return HDP(random_state=0).fit(planted()[0])


def test_weights_of_planted_groups_are_learned():
    hdp, (X, names, weights, topics) = fitted(), planted()
    assert_array_equal(hdp.groups_, ["ash", "birch", "cedar", "date"])
    best = np.argmax(topics @ hdp.topic_word_distr_.T, axis=1)
    assert len(set(best)) == N_TOPICS == hdp.n_components_
    assert np.abs(hdp.group_weights_[:, best] - weights).max() < 0.1
    far = np.abs(hdp.topic_weights_[best] - weights).max(axis=1)
    assert (far > 0.15).sum() >= 3, "groups must differ from the corpus"
    corpus, own = hdp.factor_weights_
    assert own > corpus
    assert own + corpus == pytest.approx(1.0)
    assert 0.1 < hdp.group_concentration_ < 50.0
    assert hdp.score(X, groups=names) > hdp.score(X) > without().score(X)


def test_topics_do_not_depend_on_labels():
    assert_array_equal(fitted().components_, without().components_)
    assert_array_equal(fitted().component_ids_, without().component_ids_)


@pytest.mark.parametrize("labels", ["shuffled", "one"])
def test_labels_that_tell_nothing_change_no_bit(labels):
    X, names, *_ = planted()
    if labels == "shuffled":
        hdp, names = fitted(shuffled=True), names
    else:
        names = ["ash"] * N_DOCS
        hdp = HDP(random_state=0).fit(X, groups=names)
    assert_array_equal(hdp.factor_weights_, [1.0, 0.0])
    for own in hdp.group_weights_:
        assert_array_equal(own, hdp.topic_weights_)
    assert_array_equal(hdp.transform(X, groups=names), without().transform(X))
    assert hdp.score(X, groups=names) == without().score(X)


def test_groups_are_judged_by_documents_that_they_have_not_learned_from():
    """Labels of two documents each fit these, and say nothing of others."""
    X, *_ = planted()
    labels = np.random.default_rng(8).permutation(np.arange(N_DOCS) // 2)
    hdp = HDP(random_state=0).fit(X, groups=labels)
    assert_array_equal(hdp.factor_weights_, [1.0, 0.0])
    groups = hdp._posterior.groups
    # Of the documents that they have learned from, the same groups predict well.
    rows, rng = np.arange(100), np.random.default_rng(0)
    codes = groups.codes(check_groups(labels, N_DOCS), N_DOCS)[rows]
    with Executor(None) as executor:
        sums = module._judge(groups, hdp._posterior, X[rows], codes, rng, executor)
    assert replace(groups, judged=sums).are_kept


def test_summaries_have_what_groups_gain():
    line = r"groups of documents\s+4; the priors of their documents: held-out tokens "
    assert re.search(line + r"gain 0\.0\d+ nats", " ".join(summary(fitted()).split()))
    of_none = " ".join(summary(fitted(shuffled=True)).split())
    assert "groups of documents 4; without effect: held-out tokens gain -0" in of_none
    assert "groups of documents" not in summary(without())


def test_new_labels_have_the_weights_of_the_corpus():
    X, names, *_ = planted()
    hdp, mixed = fitted(), np.where(np.arange(N_DOCS) < 9, names, "elm")
    shares = hdp.transform(X, groups=mixed)
    with pytest.MonkeyPatch.context() as patch:  # topics in use are found likewise
        patch.setattr(fold_in, "SHARED", fold_in.OWN)
        assert_array_equal(shares[9:], without().transform(X)[9:])
    assert_array_equal(shares[:9], hdp.transform(X, groups=names)[:9])
    assert np.abs(shares[:9] - without().transform(X)[:9]).max() > 0.01
    with pytest.warns(UserWarning, match="no label that fit had"):
        hdp.score(X, groups=["elm"] * N_DOCS)


@pytest.mark.parametrize("nothing", [None, np.nan])
def test_missing_labels_are_inferred(nothing):
    X, names, *_ = planted()
    hdp, labels = fitted(), names.astype(object)
    labels[::2] = nothing
    shares = hdp.transform(X, groups=labels)
    assert_array_equal(shares[1::2], hdp.transform(X, groups=names)[1::2])
    assert_array_equal(shares[::2], hdp.transform(X)[::2])
    scores = [hdp.score(X, groups=g) for g in (None, labels, names)]
    assert scores == sorted(scores)
    pair = np.column_stack([names, np.full(N_DOCS, nothing)])
    empty = HDP(random_state=0).fit(X, groups=pair)  # of a factor without labels
    assert_allclose(empty.transform(X), hdp.transform(X), atol=0.05)
    half = HDP(random_state=0).fit(X, groups=labels)
    assert_allclose(half.group_weights_, hdp.group_weights_, atol=0.15)
    assert half.factor_weights_[1] > 0.5


def test_documents_do_not_depend_on_others_or_on_the_form_of_labels():
    X, names, *_ = planted()
    hdp = fitted()
    shares = hdp.transform(X, groups=names)
    order = np.random.default_rng(0).permutation(N_DOCS)
    assert_allclose(hdp.transform(X[order], groups=names[order]), shares[order])
    forms = names.tolist(), names[:, None], pd.Series(names, dtype="category")
    for labels in forms:
        assert_array_equal(hdp.transform(X, groups=labels), shares)
    hdp = pickle.loads(pickle.dumps(hdp)).set_params(sparse_output=True)
    given = sp.csr_array(X.multiply(np.arange(N_DOCS)[:, None] > 1))
    thin = hdp.transform(given, groups=names)
    dense = hdp.set_params(sparse_output=False).transform(given, groups=names)
    assert_allclose(thin.toarray()[thin.toarray() > 0], dense[thin.toarray() > 0])
    places = [hdp.groups_.tolist().index(names[row]) for row in (0, 1)]
    own = hdp.group_weights_[places]
    corpus, weight = hdp.factor_weights_
    want = corpus * hdp.topic_weights_ + weight * own
    want /= want.sum(axis=1, keepdims=True)
    assert_allclose(thin.toarray()[:2], want)


def test_several_factors_are_columns_of_a_frame_by_name():
    X, names, *_ = planted()
    years = np.random.default_rng(7).integers(2001, 2004, N_DOCS)
    frame = pd.DataFrame({"tree": names, "year": years})
    hdp = HDP(random_state=0).fit(X, groups=frame)
    assert_array_equal(hdp.groups_["year"], [2001, 2002, 2003])
    assert hdp.group_weights_["tree"].shape == (N_GROUPS, hdp.n_components_)
    assert hdp.group_concentration_["tree"] < hdp.group_concentration_["year"]
    _, tree, year = hdp.factor_weights_
    assert tree > 0.5 > year
    other = hdp.score(X, groups=frame[["year", "tree"]])
    assert hdp.score(X, groups=frame) == other
    assert hdp.score(X, groups=frame.to_numpy()) == other
    with pytest.raises(ValueError, match="must have the factors of the fit"):
        hdp.score(X, groups=frame.rename(columns={"year": "month"}))
    with pytest.raises(ValueError, match="must have the 2 factors of the fit"):
        hdp.score(X, groups=names)


@pytest.mark.long
def test_groups_are_carried_by_files_copies_and_edits(tmp_path):
    X, names, *_ = planted()
    hdp = clone(without()).set_callbacks(Checkpoint(tmp_path / "fit.skbnp"))
    hdp.set_params(n_jobs=2).fit(X, groups=names)
    shares = fitted().transform(X, groups=names)
    for other in (hdp, skbnp.load(tmp_path / "fit.skbnp")):
        assert_array_equal(other.transform(X, groups=names), shares)
        assert_array_equal(other.groups_, fitted().groups_)
    other = pickle.loads(pickle.dumps(hdp))
    assert_array_equal(other.transform(X, groups=names), shares)
    one, two, *others = other.component_ids_.tolist()
    before = other.group_weights_
    other.merge_components([one, two])
    columns = [other.component_ids_.tolist().index(name) for name in (one, *others)]
    merged = np.column_stack([before[:, 0] + before[:, 1], before[:, 2:]])
    assert_allclose(other.group_weights_[:, columns], merged)
    other.drop_components([one])
    assert other.group_weights_.shape == (N_GROUPS, N_TOPICS - 2)
    assert not hasattr(clone(hdp), "groups_")
    assert not hasattr(other.fit(X), "groups_")


def test_streams_keep_groups_that_a_chunk_lacks_and_learn_new_ones():
    X, names, *_ = planted()
    hdp = pickle.loads(pickle.dumps(fitted()))
    before, n_before = hdp.group_weights_, hdp._posterior.groups.n_docs
    rows = np.flatnonzero(names != "date")
    labels = np.where(names == "birch", "elm", names)  # a new name
    for some in np.array_split(rows, 3):
        hdp.partial_fit(X[some], groups=labels[some])
    assert hdp.groups_.tolist() == ["ash", "birch", "cedar", "date", "elm"]
    counts = hdp._posterior.groups.n_docs - np.append(n_before, 0.0)
    sizes = [(names == name).sum() for name in ("ash", "cedar", "birch")]
    assert_array_equal(counts[[0, 2, 4]], sizes)
    assert_array_equal(counts[[1, 3]], 0.0)
    after, k = hdp.group_weights_, len(fitted().component_ids_)
    assert_array_equal(hdp.component_ids_[:k], fitted().component_ids_)
    assert_allclose(after[3, :k], before[3], atol=0.1)
    assert_allclose(after[4, :k], before[1], atol=0.1)
    hdp.partial_fit(X[:50])  # without labels
    assert_array_equal(hdp._posterior.groups.n_docs[[1, 3]], n_before[[1, 3]])
    state = pickle.dumps(hdp)
    with pytest.raises(ValueError, match="must have the 1 factors"):
        hdp.partial_fit(X[:50], groups=np.stack([names[:50]] * 2, axis=1))
    assert pickle.dumps(hdp) == state


@pytest.mark.long
def test_fit_transform_and_weights_of_rows():
    X, names, *_ = planted()
    shares = HDP(random_state=0).fit_transform(X, groups=names)
    assert_array_equal(shares, fitted().transform(X, groups=names))
    rows = np.random.default_rng(1).permutation(N_DOCS)[:300]
    weight = np.bincount(rows, minlength=N_DOCS)
    one = HDP(random_state=0).fit(X, sample_weight=weight, groups=names)
    other = HDP(random_state=0).fit(X[np.sort(rows)], groups=names[np.sort(rows)])
    assert_array_equal(one.group_weights_, other.group_weights_)


def test_labels_that_cannot_be_used_are_refused():
    X, names, *_ = planted()
    for labels, message in (
        (names[:-1], "label for each of 400 documents"),
        (np.zeros((2, 2, 2)), "a column of labels for each factor"),
        ([1, "a"] * 200, "all of one kind"),
        (np.zeros((N_DOCS, 0)), "a column of labels"),
    ):
        with pytest.raises(ValueError, match=message):
            HDP().fit(X, groups=labels)
    with pytest.raises(ValueError, match='variational_family="collapsed"'):
        HDP(variational_family="mean_field").fit(X, groups=names)
    with pytest.raises(ValueError, match="given to fit"):
        without().transform(X, groups=names)
    with pytest.raises(AttributeError, match="no groups"):
        _ = without().groups_


# Kinds of documents without labels ----------------------------------------------------


@pytest.mark.long
def test_kinds_are_those_of_planted_documents():
    X, names, *_ = planted(length=25, concentration=200.0)
    hdp = HDP(random_state=0).fit(X, groups=4)
    alone = HDP(random_state=0).fit(X, groups=names)
    assert_array_equal(hdp.components_, alone.components_)
    assert_array_equal(hdp.groups_, range(4))
    assert hdp.factor_weights_[1] > 0.5
    # Each planted group has a kind; those of ash and cedar are alike.
    distances = np.abs(hdp.group_weights_[:, None] - alone.group_weights_).sum(axis=2)
    assert len({*distances.argmin(axis=0).tolist()}) >= N_GROUPS - 1
    assert hdp.score(X) > HDP(random_state=0).fit(X).score(X)
    assert "4 kinds; the priors of their documents" in " ".join(summary(hdp).split())
    shares = HDP(random_state=0).fit_transform(X, groups=4)
    assert_array_equal(shares, hdp.transform(X))
    with pytest.raises(ValueError, match="kinds of documents are inferred"):
        hdp.transform(X, groups=names)


def test_kinds_are_judged_where_a_fifth_of_a_document_is_seen(monkeypatch):
    """By four fifths, these kinds are not judged clearly better than none."""
    X, *_ = planted(concentration=20.0)
    train, new = X[:300], X[300:]
    hdp = HDP(random_state=0).fit(train, groups=4)
    posterior, groups = hdp._posterior, hdp._posterior.groups
    assert groups.are_kept
    assert re.search(r"nats by them where a fifth is seen", summary(hdp))
    n_docs, *_, n_tokens, _ = groups.judged
    assert 0.95 < n_tokens / (4.0 * 25.0 * n_docs) <= 1.0
    more, less = (document_completion_score(hdp, new, observed=o) for o in (0.8, 0.2))
    posterior.groups = None
    more -= document_completion_score(hdp, new, observed=0.8)
    less -= document_completion_score(hdp, new, observed=0.2)
    assert less > more > 0.0
    deal = module.deal_tokens
    monkeypatch.setattr(
        module,
        "deal_tokens",
        lambda *given: ((rows, b, a) for rows, a, b in deal(*given)),
    )
    with Executor(None) as executor:
        documents = module.LabelledDocuments.of(posterior, train, executor)
        assert not module.learn_kinds(4, posterior, documents, executor).are_kept


@pytest.mark.long
@pytest.mark.parametrize("n_kinds", [2, 10])
def test_kinds_have_no_effect_where_there_are_none(n_kinds):
    X = make_bars(300, random_state=0).data
    hdp, alone = (HDP(random_state=0).fit(X, groups=n) for n in (n_kinds, None))
    assert_array_equal(hdp.factor_weights_, [1.0, 0.0])
    assert_array_equal(hdp.transform(X), alone.transform(X))
    assert hdp.score(X) == alone.score(X)


def test_kinds_are_two_or_more_and_of_fit_alone():
    X, *_ = planted()
    with pytest.raises(ValueError, match="2 kinds or more, got 1"):
        HDP().fit(X, groups=1)
    with pytest.raises(ValueError, match="fit alone infers kinds"):
        HDP().partial_fit(X, groups=3)
    with pytest.raises(ValueError, match='variational_family="collapsed"'):
        HDP(variational_family="mean_field").fit(X, groups=3)


# Scores -------------------------------------------------------------------------------


def test_scores_and_perplexities_take_labels():
    X, names, *_ = planted()
    hdp = fitted()
    score = hdp.score(X, groups=names)
    assert hdp.perplexity(X, groups=names) == np.exp(-score) < hdp.perplexity(X)
    assert document_completion_score(hdp, X, groups=names) == score
    assert perplexity(hdp, X, groups=names) == np.exp(-score)
    sticks = skbnp.StickBreakingHDP(max_iter=2).fit(X)
    with pytest.raises(ValueError, match="StickBreakingHDP has none"):
        document_completion_score(sticks, X, groups=names)
