import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from checks.long import daily
from skbnp import HDP, DependentTrees
from skbnp.datasets import make_hdp
from skbnp.inspection import top_documents, top_terms

DRAWN = make_hdp(150, n_features=120, n_components=4, random_state=0)
TEXTS = ["sun sun sun rain", "sun sun rain"] * 6 + [
    "oil coal coal",
    "coal oil coal",
] * 6
TOPICS = [["coal", "oil"], ["sun", "rain"]]
MODELS = {
    "HDP": HDP(n_components=2, split_merge=False, random_state=0),
    "LDA": LatentDirichletAllocation(2, random_state=0),
}


@pytest.fixture(params=MODELS)
def topic_model(request):
    return clone(MODELS[request.param])


def shout(texts):
    return [text.upper() for text in texts]


# -- terms -----------------------------------------------------------------------------


def test_terms_are_the_most_probable_ones_in_order_of_rows(model, words):
    assert top_terms(model, words, n=2) == [
        ["sun", "rain"],
        ["snow", "sun"],
        ["hail", "wind"],
    ]


def test_ties_are_in_the_order_of_columns(model, words):
    assert top_terms(model, words, n=4)[1] == ["snow", "sun", "rain", "wind"]


def test_columns_without_names_are_called_columns(model):
    assert top_terms(model, n=2)[0] == ["column 0", "column 1"]


@pytest.mark.parametrize(
    "steps",
    [
        [CountVectorizer()],
        [CountVectorizer(), "passthrough"],
        [CountVectorizer(), VarianceThreshold()],
        [CountVectorizer(), TfidfTransformer(norm=None, use_idf=False)],
        [CountVectorizer(), FunctionTransformer(lambda X: X)],
        [FunctionTransformer(shout), CountVectorizer()],
        [FunctionTransformer(shout), CountVectorizer(), FunctionTransformer()],
    ],
    ids=["alone", "passthrough", "selected", "scaled", "densified", "cleaned", "both"],
)
def test_pipelines_know_their_vocabulary(steps, topic_model):
    pipeline = make_pipeline(*steps, topic_model).fit(TEXTS)
    assert sorted(top_terms(pipeline, n=2)) == TOPICS


def test_names_default_to_those_seen_in_fit(topic_model):
    X = pd.DataFrame([[9, 0, 0], [0, 5, 4]] * 9, columns=["sun", "oil", "coal"])
    terms = top_terms(topic_model.fit(X), n=1)
    assert sorted(terms) == [["oil"], ["sun"]]


def test_names_given_win_over_those_of_a_pipeline(topic_model):
    pipeline = make_pipeline(CountVectorizer(), topic_model).fit(TEXTS)
    terms = top_terms(pipeline, ["COAL", "OIL", "RAIN", "SUN"], n=2)
    assert sorted(terms) == [["COAL", "OIL"], ["SUN", "RAIN"]]


def test_selected_columns_keep_their_names(topic_model):
    everywhere = [text + " the" for text in TEXTS]
    pipeline = make_pipeline(CountVectorizer(), VarianceThreshold(), topic_model)
    assert sorted(top_terms(pipeline.fit(everywhere), n=2)) == TOPICS


def test_unfitted_models_have_no_terms(unfitted):
    with pytest.raises(NotFittedError):
        top_terms(unfitted)


def test_a_model_without_components_is_named():
    other = LogisticRegression().fit([[0], [1]], [0, 1])
    with pytest.raises(TypeError, match=r"components_.*LogisticRegression"):
        top_terms(other)


@pytest.mark.parametrize(
    ("names", "got"),
    [
        (["sun"] * 4, "got 4"),
        ({"sun": 0, "rain": 1, "snow": 2, "wind": 3, "hail": 4}, "got a dict"),
        ({"a", "b", "c", "d", "e"}, "got a set"),
        ("abcde", "got a str"),
    ],
    ids=["short", "dict", "set", "string"],
)
def test_names_must_be_one_per_column_and_in_order(model, names, got):
    with pytest.raises(ValueError, match=f"feature_names .* 5 names.*{got}"):
        top_terms(model, names)


@pytest.mark.parametrize("n", [0, -1, 2.0, "2", None])
def test_n_is_a_positive_integer(model, n):
    with pytest.raises(ValueError, match="'n' parameter of top_terms"):
        top_terms(model, n=n)


# -- documents -------------------------------------------------------------------------

X = np.array([[8, 1, 1], [0, 9, 1], [4, 4, 2], [8, 1, 1], [1, 0, 9]])


def test_documents_have_the_largest_shares_best_first(model):
    assert_array_equal(top_documents(model, X, n=2), [[0, 3], [1, 2], [4, 2]])


def test_documents_end_with_those_that_have_tokens_of_the_topic(model):
    documents, shares = top_documents(model, X, n=99, return_shares=True)
    assert_array_equal(
        documents, [[0, 3, 2, 4, -1], [1, 2, -1, -1, -1], [4, 2, 0, 1, 3]]
    )
    assert_array_equal(np.isnan(shares), documents < 0)


def test_shares_belong_to_their_documents(model):
    documents, shares = top_documents(model, X, n=2, return_shares=True)
    expected = [model.transform(X)[rows, k] for k, rows in enumerate(documents)]
    assert_array_equal(shares, expected)


def test_documents_of_a_pipeline_are_texts(topic_model):
    pipeline = make_pipeline(CountVectorizer(), topic_model).fit(TEXTS)
    coal = top_terms(pipeline, n=1).index(["coal"])
    documents = top_documents(pipeline, ["sun rain", "coal oil coal coal"], n=1)
    assert documents[coal] == 1


def test_a_pipeline_that_ends_in_a_classifier_is_cut_to_its_topics():
    X, y = np.array([[9, 0], [5, 1], [0, 8], [1, 9]] * 9), [0, 0, 1, 1] * 9
    hdp = HDP(n_components=2, split_merge=False, random_state=0)
    pipeline = make_pipeline(hdp, LogisticRegression()).fit(X, y)
    with pytest.raises(TypeError, match=r"up to HDP, pipeline\[:-1\]"):
        top_terms(pipeline)
    assert top_terms(pipeline[:-1]) == top_terms(pipeline[0])
    with pytest.raises(TypeError, match=r"LogisticRegression has not\.$"):
        top_terms(pipeline[-1])


def test_relevant_terms_are_those_that_a_topic_has_tokens_of():
    texts = ["sun rain", "oil coal gas", "wheat"] * 40
    hdp = HDP(3, split_merge=False, random_state=0)
    model = make_pipeline(CountVectorizer(), hdp).fit(texts)
    own = sorted(map(sorted, top_terms(model, n=4, relevance=0.6)))
    assert own == [["coal", "gas", "oil"], ["rain", "sun"], ["wheat"]]
    assert all(len(terms) == 4 for terms in top_terms(model, n=4))


# -- relevance -------------------------------------------------------------------------


def relevance_by_hand(phi, weights, r):
    total = weights @ phi
    return r * np.log(phi) + (1.0 - r) * np.log(phi / total)


@pytest.mark.parametrize("relevance", daily(2, [0.6, 0.0, 0.3, 1.0]))
def test_terms_are_ranked_by_relevance(relevance):
    hdp = HDP(random_state=0).fit(DRAWN.data)
    tokens = (hdp.components_ - hdp.topic_word_prior_).sum(axis=1)
    tokens /= tokens.sum()
    expected = relevance_by_hand(hdp.topic_word_distr_, tokens, relevance)
    result = top_terms(hdp, n=6, relevance=relevance)
    for terms, row in zip(result, expected, strict=True):
        columns = [int(term.removeprefix("column ")) for term in terms]
        assert_array_equal(columns, np.argsort(-row, kind="stable")[:6])


def test_rows_of_an_array_are_weighed_by_their_sums():
    counts = np.array([[50.0, 30.0, 20.0], [1.0, 2.0, 3.0]])
    phi, weights = counts / counts.sum(axis=1, keepdims=True), counts.sum(axis=1) / 106
    order = np.argsort(-relevance_by_hand(phi, weights, 0.2), axis=1)
    expected = [[f"column {j}" for j in row] for row in order]
    assert top_terms(counts, relevance=0.2) == expected


def test_directions_have_no_relevance():
    trees = DependentTrees(random_state=0, max_iter=3).fit(DRAWN.data)
    with pytest.raises(TypeError, match=r"must be 1 for directions, got 0\.6"):
        top_terms(trees, relevance=0.6)
    for wrong in (-0.1, 1.1, "all"):
        with pytest.raises(ValueError, match="'relevance' parameter of top_terms"):
            top_terms(np.eye(2), relevance=wrong)
