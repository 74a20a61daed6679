"""Words of documents are shared out among topics; texts have the colours of these."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from checks.corpora import topic_counts
from checks.estimators import FIRST, fresh, is_tree, takes_counts_only
from checks.long import daily
from skbnp import HDP, GibbsHDP
from skbnp.inspection import TopicText, token_topics, topics_to_frame

KINDS = {name: e for name, e in FIRST.items() if takes_counts_only(e)}
KINDS["repeats-HDP"] = HDP(burstiness="auto", random_state=0)
KINDS["repeats-GibbsHDP"] = GibbsHDP(max_iter=40, random_state=0)
KINDS["LDA"] = LatentDirichletAllocation(4, random_state=0)


@pytest.fixture(scope="module")
def X():
    """Documents that repeat words, one of them without any, and an absent word."""
    X = sp.lil_array(topic_counts(150, 24))
    X[:, 5] = 0
    X[7] = 0
    X = sp.csr_array(X)
    often = np.random.default_rng(0).random(X.nnz) < 0.3
    X.data = X.data * (1.0 + 5.0 * often)
    return X


def expected_prior(model, X):
    """Shares of the prior alone, up to a factor of each document."""
    if hasattr(model, "doc_topic_prior_"):
        return np.ones(model.n_components)
    learned = model.doc_concentration_
    concentration = getattr(model, "prediction_concentration_", learned)
    return concentration * model.topic_weights_


@pytest.mark.parametrize("name", daily(4, KINDS))
def test_shares_of_words_and_of_the_prior_are_those_of_documents(name, X):
    model = fresh(KINDS[name]).fit(X)
    for sparse_output in (False, True):
        check_tokens(model, sparse_output, model.transform(X), X)


def check_tokens(model, sparse_output, shares, X):
    """Raise unless shares of words, and what they leave, are those of documents."""
    tokens = token_topics(fresh_output(model, sparse_output), X)
    assert tokens.shape == (*X.shape, shares.shape[1])
    assert_array_equal(tokens.documents, np.sort(tokens.documents))
    of_words = sp.coo_array((tokens.tokens, (tokens.documents, tokens.words)), X.shape)
    assert_allclose(of_words.toarray(), X.toarray(), rtol=1e-9)
    assert tokens.prior.min() > -1e-9
    if not sparse_output:
        assert_allclose(tokens.doc_topic_distr(), shares, rtol=0.0, atol=1e-6)
    if is_tree(model):
        return
    # What words leave is the prior, and no other part of shares.
    prior = expected_prior(model, X)
    wanted = prior * (tokens.prior.sum(axis=1, keepdims=True) / prior.sum())
    if not sparse_output:
        assert_allclose(tokens.prior, wanted, rtol=0.0, atol=1e-6)


def fresh_output(model, sparse_output):
    if "sparse_output" in model.get_params():
        return model.set_params(sparse_output=sparse_output)
    return model


def test_prior_of_trees_is_that_of_levels(X):
    model = fresh(KINDS["NestedCRP-batch"]).fit(X)
    tokens = token_topics(model, X)
    totals, prior = X.sum(axis=1), np.sum(model.level_prior_)
    assert_allclose(tokens.prior.sum(axis=1), prior / (totals + prior), rtol=0.05)


@pytest.mark.parametrize("burstiness", [False, "auto"])
def test_a_word_of_two_topics_is_of_that_of_its_document(burstiness):
    rng, words = np.random.default_rng(0), np.kron(np.eye(2), np.ones(5))
    words = np.column_stack([words, np.ones(2)]) / 6.0
    kinds = np.arange(200) % 2
    docs = np.array([rng.multinomial(30, words[k]) for k in kinds])
    hdp = HDP(n_components=2, split_merge=False, burstiness=burstiness, random_state=0)
    tokens = token_topics(hdp.fit(docs), docs)
    own = np.zeros((200, 11, 2))
    own[tokens.documents, tokens.words, tokens.topics] = tokens.probabilities
    of_kind = [own[0, :5, k].sum() < own[0, :5, 1 - k].sum() for k in (0, 1)]
    topic = np.where(kinds == 0, of_kind.index(False), of_kind.index(True))
    has_word = docs[:, 10] > 0
    assert own[has_word, 10, topic[has_word]].min() > 0.9
    assert own[has_word, 10, 1 - topic[has_word]].max() < 0.1


def test_counts_of_topics_sum_to_those_of_documents(X):
    model = HDP(n_components=4, random_state=0).fit(X)
    tokens = token_topics(model, X, [f"w{j}" for j in range(24)])
    total = sum(tokens.counts(number).toarray() for number in tokens.numbers)
    assert_allclose(total, X.toarray(), rtol=1e-9)
    with pytest.raises(ValueError, match="topic must be the number of one"):
        tokens.counts(10**6)
    frame = tokens.to_frame()
    assert_allclose(frame.groupby("document")["probability"].sum(), np.diff(X.indptr)[
        frame["document"].unique()
    ])  # fmt: skip
    assert set(frame["word"]) <= {f"w{j}" for j in range(24)} - {"w5"}


def test_blocks_of_documents_change_nothing(X, monkeypatch):
    model = HDP(n_components=4, random_state=0).fit(X)
    whole = token_topics(model, X)
    monkeypatch.setattr("skbnp.inspection._tokens.ENTRIES", 50)
    parts = token_topics(model, X)
    assert_array_equal(parts.topics, whole.topics)
    assert_allclose(parts.tokens, whole.tokens, atol=1e-4)


# -- texts -----------------------------------------------------------------------------

WEATHER, ENERGY = "sun rain snow wind hail", "oil coal gas peat wood"


@pytest.fixture(scope="module")
def pipeline():
    rng = np.random.default_rng(0)
    subjects = [WEATHER.split(), ENERGY.split()]
    texts = [" ".join(rng.choice(subjects[i % 2], 20)) for i in range(120)]
    hdp = HDP(n_components=2, split_merge=False, random_state=0)
    vectorizer = CountVectorizer(stop_words=["wind"], ngram_range=(1, 2))
    return make_pipeline(vectorizer, hdp).fit(texts)


TEXT = "The Sun <script>x</script> & rain, rain.\nWind! Oil of COAL; gas? No word."


def test_text_has_the_topics_of_its_words(pipeline):
    text = TopicText.from_estimator(pipeline, TEXT)
    words = [TEXT[begin:end] for begin, end in text.spans]
    assert words == ["Sun", "rain", "rain", "Oil", "COAL", "gas"]
    best = text.probabilities.argmax(axis=1)
    assert len(set(best[:3])) == len(set(best[3:])) == 1
    assert best[0] != best[3]
    of_energy = text.numbers[best[3]]
    assert text.sentences(of_energy) == ["Oil of COAL; gas?"]
    with pytest.raises(ValueError, match="topic must be the number of one"):
        text.sentences(10**6)


def test_html_of_a_text_is_escaped(pipeline):
    text = TopicText.from_estimator(pipeline, TEXT)
    html = text._repr_html_()
    assert html == text.to_html()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "&amp; " in html
    assert html.count('<span style="background') == 2 + 6
    pipeline[-1].topic_names_ = {int(text.numbers[0]): '"><img src=x>'}
    named = TopicText.from_estimator(pipeline, TEXT).to_html()
    del pipeline[-1].topic_names_
    assert "<img" not in named
    assert "&gt;&lt;img" in named


def test_text_without_a_vectorizer_is_read_by_names_of_columns(pipeline):
    hdp, names = pipeline[-1], pipeline[:-1].get_feature_names_out()
    text = TopicText.from_estimator(hdp, "Sun and oil", names)
    assert [text.text[b:e] for b, e in text.spans] == ["Sun", "oil"]
    assert TopicText.from_estimator(hdp, "", names).to_html().count("<span") == 0
    assert len(TopicText.from_estimator(pipeline, "nothing").spans) == 0


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_frames_of_transform_change_nothing(X, output):
    model = HDP(4, split_merge=False, max_iter=10, random_state=0).fit(X)
    expected = token_topics(model, X)
    frames = pd.option_context("mode.copy_on_write", True)  # memory is read-only then
    with frames, config_context(transform_output=output):
        entries = token_topics(model, X)
        weights = topics_to_frame(model, X=X)["weight"]
    assert_array_equal(entries.shares, expected.shares)
    assert_array_equal(entries.prior, expected.prior)
    assert_array_equal(weights, topics_to_frame(model, X=X)["weight"])
