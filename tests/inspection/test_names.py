"""Names that users give to topics: where they stand, and how long they last."""

import copy
import pickle
from functools import cache

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from checks.corpora import topic_counts
from checks.estimators import FIRST, each_class, fresh, gives_proportions, rows_of
from skbnp import HDP, GibbsHDP, NestedCRP
from skbnp.inspection import (
    LineageDisplay,
    TopicTermsDisplay,
    TopicTreeDisplay,
    consensus_components,
    set_topic_names,
    summary,
    top_documents,
    top_terms,
    topic_groups,
    topics_to_frame,
)
from skbnp.metrics import topic_coherence

X = topic_counts(60, 24)


@cache
def _fitted(name):
    return fresh(FIRST[name]).fit(rows_of(FIRST[name], X))


def fitted(name):
    """Rows, and a fit to these of the test's own."""
    return rows_of(FIRST[name], X), copy.deepcopy(_fitted(name))


@pytest.fixture
def hdp():
    return fitted("HDP-online")[1]


def number_of(model, row=0):
    return int(model._topic_numbers[row])


# -- where names stand -----------------------------------------------------------------


@each_class
def test_columns_have_the_names_of_topics(name):
    rows, model = fitted(name)
    model.set_output(transform="pandas")
    before = model.get_feature_names_out()
    assert set_topic_names(model, {number_of(model, -1): "sun"}) is None
    after = model.get_feature_names_out()
    assert after[-1] == "sun"
    assert_array_equal(after[:-1], before[:-1])
    assert model.transform(rows).columns.tolist() == after.tolist()


def test_names_stand_in_the_account_and_the_frame(hdp):
    set_topic_names(hdp, {number_of(hdp): "weather", number_of(hdp, 1): "sea"})
    assert f"{number_of(hdp):5}" in summary(hdp)
    assert "%  weather: column" in summary(hdp)
    assert topics_to_frame(hdp)["name"].tolist()[:2] == ["weather", "sea"]


def test_names_stand_in_figures(hdp):
    set_topic_names(
        hdp, ["weather $1"] + [f"n{k}" for k in range(1, hdp.n_components_)]
    )
    display = TopicTermsDisplay.from_estimator(hdp)
    titles = [panel.get_title(loc="left") for panel in display.axes_]
    assert any(title.startswith("weather $1 – ") for title in titles)
    assert not any("topic" in title for title in titles)
    lanes = LineageDisplay.from_estimator(hdp)
    assert any(text.get_text().startswith("weather $1: ") for text in lanes.ax_.texts)
    display.figure_.draw_without_rendering()
    lanes.figure_.draw_without_rendering()
    tree = NestedCRP(max_iter=5, random_state=0).fit(X)
    set_topic_names(tree, {0: "all of them"})
    texts = TopicTreeDisplay.from_estimator(tree).texts_
    assert texts[0].get_text().startswith("all of them: ")
    plt.close("all")


# -- how long they last ----------------------------------------------------------------


def test_names_stay_with_topics_in_streams_edits_copies_and_files(hdp):
    last = hdp.component_ids_[-1]
    set_topic_names(hdp, {int(last): "sun"})
    for other in (copy.copy(hdp), copy.deepcopy(hdp), pickle.loads(pickle.dumps(hdp))):
        assert other.get_feature_names_out()[-1] == "sun"
    hdp.partial_fit(X[:20])
    first = hdp.component_ids_[hdp.component_ids_ != last][0]
    hdp.drop_components([first])
    row = hdp.component_ids_.tolist().index(last)
    assert hdp.get_feature_names_out()[row] == "sun"
    assert (hdp.get_feature_names_out() == "sun").sum() == 1


@each_class
def test_a_new_fit_has_no_names(name):
    rows, model = fitted(name)
    fresh_names = model.get_feature_names_out()
    set_topic_names(model, {number_of(model): "sun"})
    assert not hasattr(clone(model), "topic_names_")
    assert_array_equal(model.fit(rows).get_feature_names_out(), fresh_names)


def test_a_fit_that_goes_on_keeps_names_but_where_another_chain_may_be_shown():
    for n_chains, kept in ((1, True), (2, False)):
        sampler = GibbsHDP(
            4, max_iter=6, n_chains=n_chains, warm_start=True, random_state=0
        ).fit(X)
        set_topic_names(sampler, {number_of(sampler): "sun"})
        assert hasattr(sampler.fit(X), "topic_names_") == kept
    hdp = HDP(4, max_iter=3, warm_start=True, random_state=0).fit(X)
    set_topic_names(hdp, {number_of(hdp): "sun"})
    assert hdp.fit(X).topic_names_ == {int(hdp.component_ids_[0]): "sun"}


def test_names_can_be_changed_and_taken_away(hdp):
    plain = hdp.get_feature_names_out()
    set_topic_names(hdp, {number_of(hdp): "sun"})
    set_topic_names(hdp, {number_of(hdp): "rain"})
    assert hdp.get_feature_names_out()[0] == "rain"
    set_topic_names(hdp, {number_of(hdp): ""})
    assert_array_equal(hdp.get_feature_names_out(), plain)
    set_topic_names(hdp, {number_of(hdp): "rain"})
    set_topic_names(hdp, None)
    assert_array_equal(hdp.get_feature_names_out(), plain)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({99_999: "a"}, "names must be of topics in .*, got .99999."),
        ({"0": "a"}, "integers as keys"),
        (["a"], "one for each row of components_, got 1"),
        ("abcd", "one for each row of components_, got 'abcd'"),
        (["a", "a", "b", "c"], "names must differ, got 'a' for topics"),
        (["a", "b", "c", "hdp777"], "those of other columns, got 'hdp777'"),
    ],
)
def test_names_that_cannot_be_are_refused_and_change_nothing(names, says, hdp):
    set_topic_names(hdp, {number_of(hdp): "sun"})
    with pytest.raises(ValueError, match=says):
        set_topic_names(hdp, names)
    assert hdp.topic_names_ == {int(hdp.component_ids_[0]): "sun"}


# -- names by a callable ---------------------------------------------------------------


TEXTS = ["sun rain sun", "rain sun", "oil coal", "coal coal oil"] * 30


@cache
def _of_texts():
    hdp = HDP(2, split_merge=False, random_state=0)
    return make_pipeline(CountVectorizer(), hdp).fit(TEXTS)


def texts_of_two_topics():
    return TEXTS, copy.deepcopy(_of_texts())


def test_a_callable_gets_terms_and_documents_of_each_topic():
    texts, model = texts_of_two_topics()
    calls = []

    def label(terms, documents):
        calls.append((terms, documents))
        return "fuel" if "coal" in terms[:2] else "weather"

    set_topic_names(model, label, iter(texts), n_terms=2, n_documents=3)
    assert [terms for terms, _ in calls] == topics_to_frame(model, n_terms=2)[
        "terms"
    ].tolist()
    best = top_documents(model, texts, 3)
    assert [documents for _, documents in calls] == [
        [texts[row] for row in rows] for rows in best
    ]
    assert sorted(model.get_feature_names_out()) == ["fuel", "weather"]
    calls.clear()
    set_topic_names(model[-1], label, feature_names=model[0].get_feature_names_out())
    assert [documents for _, documents in calls] == [[], []]
    calls.clear()
    counts = model[0].transform(texts)
    names = model[0].get_feature_names_out()
    set_topic_names(model[-1], label, counts, feature_names=names, n_documents=3)
    assert [documents for _, documents in calls] == best.tolist()
    calls.clear()
    set_topic_names(model, label, texts, documents=range(120), n_documents=1)
    assert [documents for _, documents in calls] == [[str(row)] for row in best[:, 0]]


def test_names_that_a_callable_returns_twice_get_numbers():
    texts, model = texts_of_two_topics()
    set_topic_names(model, lambda terms, documents: "a topic", texts)
    names = [f"a topic ({number})" for number in model[-1].component_ids_]
    assert model.get_feature_names_out().tolist() == names
    set_topic_names(model, lambda terms, documents: "coal" * ("coal" in terms[0]))
    assert list(model[-1].topic_names_.values()) == ["coal"]


def test_a_callable_that_fails_changes_nothing():
    texts, model = texts_of_two_topics()
    set_topic_names(model, ["a", "b"])

    def no_answer(terms, documents):
        raise ConnectionError

    for wrong, says in (
        (no_answer, ConnectionError),
        (lambda terms, documents: None, ValueError),
        (lambda terms, documents: [], ValueError),
    ):
        with pytest.raises(says):
            set_topic_names(model, wrong, texts)
    assert model.get_feature_names_out().tolist() == ["a", "b"]


# -- frames ----------------------------------------------------------------------------


@each_class
def test_frames_have_the_rows_of_components(name):
    rows, model = fitted(name)
    given = {"X": rows} if gives_proportions(model) else {}
    frame = topics_to_frame(model, n_documents=3, **given)
    assert len(frame) == model.n_components_
    assert_array_equal(frame["topic"], model._topic_numbers)
    if hasattr(model, "tree_") and not hasattr(model, "inverse_transform"):
        assert_allclose(frame["weight"], model.topic_weights_)
    elif not hasattr(model, "tree_"):
        tokens, shares = X.sum(axis=1), model.transform(X)
        assert_allclose(frame["weight"], tokens @ shares / tokens.sum(), atol=0.03)
    assert sorted(frame["rank"]) == list(range(len(frame)))
    is_signed = model.components_.min() < 0.0 or hasattr(model, "vmf_concentration_")
    terms = top_terms(model, n=10, relevance=1.0 if is_signed else 0.6)
    assert frame["terms"].tolist() == terms
    if given:
        best = top_documents(model, rows, 3)
        assert frame["documents"].tolist() == [row[row >= 0].tolist() for row in best]


def test_frames_read_pipelines_and_other_models():
    lda = LatentDirichletAllocation(2, random_state=0)
    others = make_pipeline(CountVectorizer(), lda).fit(TEXTS)
    for pipeline in (copy.deepcopy(_of_texts()), others):
        frame = topics_to_frame(pipeline, X=TEXTS, n_terms=2)
        assert sorted(map(sorted, frame["terms"])) == [["coal", "oil"], ["rain", "sun"]]
        set_topic_names(pipeline, ["a", "b"])
        assert topics_to_frame(pipeline)["name"].tolist() == ["a", "b"]
        assert "%  a: " in summary(pipeline)
    assert isinstance(frame, pd.DataFrame)


def test_documents_that_can_be_read_once():
    texts, model = texts_of_two_topics()
    for function in (
        lambda X: topics_to_frame(model, X=X)[["weight", "rank", "documents"]],
        lambda X: topic_groups(model, X).weights,
        lambda X: consensus_components([model, model], X).doc_topic_distr_,
        lambda X: topic_coherence(model, X),
    ):
        assert_array_equal(function(iter(texts)), function(texts))
