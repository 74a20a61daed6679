import numpy as np
import pytest
from sklearn.decomposition import PCA, LatentDirichletAllocation
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from skbnp import HDP
from skbnp.datasets import make_bars
from skbnp.inspection import summary
from skbnp.metrics import document_completion_score

ACCOUNT = """\
FakeHDP()

vocabulary            5 terms
topics                3
fit                   2 passes, converged, 2.2 seconds
bound                 -2.0000 nats per token
corpus_concentration  2.5
doc_concentration     1.25
topic_word_prior      0.05

  row   weight  terms
    1   50.0 %  snow, sun, rain, wind, hail
    2   25.0 %  hail, wind, snow, rain, sun
    0   20.0 %  sun, rain, snow, wind, hail"""


def rows_of_topics(text):
    table = text.split("terms\n")[-1].splitlines()
    return [line for line in table if line[:5].strip().isdigit()]


def test_account_of_a_fit(model, words):
    assert summary(model, words) == ACCOUNT


def test_missing_facts_are_left_out(model):
    for name in ("history_", "converged_", "n_iter_", "elbo_", "doc_concentration_"):
        delattr(model, name)
    facts = summary(model).split("\n\n")[1]
    assert [line.split()[0] for line in facts.splitlines()] == [
        "vocabulary",
        "topics",
        "corpus_concentration",
        "topic_word_prior",
    ]


def test_bound_that_is_not_known_is_left_out(model):
    model.elbo_ = np.nan
    assert "bound" not in summary(model)


def test_moves_are_told_where_the_history_has_them(model):
    model.history_ |= {"n_splits": [0, 0, 2, 2], "n_merges": [0, 0, 0, 1]}
    assert "2 splits, 1 merge accepted" in summary(model)


def test_idle_topics_are_counted_but_not_printed(model):
    model.n_active_components_ = 2
    text = summary(model)
    assert "2 in use of 3 represented" in text
    assert len(rows_of_topics(text)) == 2


def test_topics_left_out_are_summed_up(model):
    assert summary(model, n_components=1).endswith(
        "and 2 lighter topics, 45.0 % together"
    )


def test_number_of_terms_is_that_asked_for(model, words):
    text = summary(model, words, n_terms=2)
    assert rows_of_topics(text)[0].endswith("%  snow, sun")


def test_lines_fit_a_terminal(model):
    names = [f"a-rather-long-word-{j:020}" for j in range(5)]
    assert max(map(len, summary(model, names).splitlines())) <= 80


def test_terms_of_several_words_are_not_broken(model):
    names = [f"the {j}th of several words" for j in range(5)]
    text = summary(model, names)
    assert all(text.count(name) == 3 for name in names)


def test_at_most_twenty_topics_are_printed_unasked():
    X = make_bars(50, random_state=0).data
    lda = LatentDirichletAllocation(25, max_iter=1, random_state=0).fit(X)
    assert len(rows_of_topics(summary(lda))) == 20


def test_weights_without_an_attribute_are_shares_of_tokens():
    lda = LatentDirichletAllocation(2, random_state=0).fit(np.eye(2) * [[30], [10]])
    lda.components_ = np.array([[30.0, 0.0], [0.0, 10.0]]) + lda.topic_word_prior_
    assert [row.split()[1] for row in rows_of_topics(summary(lda))] == ["75.0", "25.0"]


@pytest.fixture(params=["HDP", "LDA"])
def fitted(request):
    X = make_bars(60, random_state=0).data
    models = {
        "HDP": HDP(n_components=5, max_iter=3, random_state=0),
        "LDA": LatentDirichletAllocation(5, max_iter=3, random_state=0),
    }
    return models[request.param].fit(X)


def test_score_is_that_of_document_completion(fitted):
    X = make_bars(20, random_state=1).data
    score = document_completion_score(fitted, X)
    text = summary(fitted, X=X)
    assert f"20 documents, {X.sum():,.0f} tokens" in text
    assert f"{score:.4f} nats per held-out token" in text


def test_score_of_a_pipeline_takes_texts():
    texts = ["sun sun rain rain sun", "oil coal oil coal coal"] * 5
    pipeline = make_pipeline(CountVectorizer(), HDP(2, max_iter=3, random_state=0))
    text = summary(pipeline.fit(texts), X=texts)
    score = pipeline.score(texts)
    assert f"{score:.4f} nats per held-out token" in text


def test_looking_does_not_change_the_model(fitted):
    X = make_bars(20, random_state=1).data
    before = set(vars(fitted)), fitted.components_.copy()
    summary(fitted, X=X)
    assert set(vars(fitted)) == before[0]
    np.testing.assert_array_equal(fitted.components_, before[1])


def test_unfitted_models_have_no_account(unfitted):
    with pytest.raises(NotFittedError):
        summary(unfitted)


def test_signed_components_are_no_topics():
    pca = PCA(2).fit(np.random.default_rng(0).normal(size=(9, 4)))
    with pytest.raises(TypeError, match=r"non-negative `components_`.*PCA"):
        summary(pca)


@pytest.mark.parametrize("name", ["n_components", "n_terms"])
def test_numbers_are_positive(model, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter of summary"):
        summary(model, **{name: 0})
