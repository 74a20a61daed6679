"""Coherence of topics equals gensim's, and tells topics from shuffled ones."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skbnp import HDP, StickBreakingHDP
from skbnp.datasets import make_hdp
from skbnp.metrics import topic_coherence, topic_diversity
from skbnp.models.hdp_sticks import BoundMerges

#: The nine titles of Deerwester et al. (1990), as in gensim.test.utils.common_texts.
TITLES = [
    ["human", "interface", "computer"],
    ["survey", "user", "computer", "system", "response", "time"],
    ["eps", "user", "interface", "system"],
    ["system", "human", "system", "eps"],
    ["user", "response", "time"],
    ["trees"],
    ["graph", "trees"],
    ["graph", "minors", "trees"],
    ["graph", "minors", "survey"],
]
TOPICS = [
    ["human", "computer", "system", "interface"],
    ["graph", "minors", "trees", "eps"],
    ["user", "response", "time", "survey", "system"],
]
#: gensim 4.4.0: CoherenceModel(topics=TOPICS, texts=TITLES, dictionary=..., coherence=,
#: window_size=).get_coherence_per_topic(), "u_mass" by corpus=, c_npmi with windows
#: longer than titles.
OF_DOCUMENTS = {
    "umass": [-0.7607246985689725, -13.449306461738571, -0.578074351572033],
    "npmi": [0.2768026848266368, -0.22115650535534148, 0.4397971827002244],
}
#: What gensim adds to probabilities takes part in cancelling terms.
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
MEASURES = list(OF_DOCUMENTS)


@pytest.fixture(scope="module")
def counts():
    """Counts of the titles, and their columns."""
    vectorizer = CountVectorizer(analyzer=list)
    return vectorizer.fit_transform(TITLES), vectorizer.get_feature_names_out()


@pytest.mark.parametrize("measure", MEASURES)
def test_coherence_is_that_of_gensim(measure, counts):
    X, names = counts
    phi = np.zeros((len(TOPICS), len(names)))
    for row, terms in zip(phi, TOPICS, strict=True):
        for rank, term in enumerate(terms):
            row[list(names).index(term)] = 9.0 - rank
    for topics in (phi, sp.csr_array(phi), pd.DataFrame(phi, columns=names)):
        for rows in (X, sp.coo_array(X), X.toarray(), pd.DataFrame(X.toarray())):
            result = topic_coherence(topics, rows, measure=measure)
            assert_allclose(result, OF_DOCUMENTS[measure], **CLOSE)


def test_pipelines_and_searches_read_texts():
    texts = ["sun rain sun", "rain sun", "oil coal", "coal coal oil"] * 30
    pipeline = make_pipeline(CountVectorizer(), HDP(2, random_state=0))
    fitted = pipeline.fit(texts)
    counts = fitted[0].transform(texts)
    expected = topic_coherence(fitted[-1], counts, n_terms=2)
    assert_allclose(topic_coherence(fitted, texts, n_terms=2), expected)
    search = GridSearchCV(pipeline, {"hdp__max_iter": [5]}, cv=2).fit(texts)
    assert np.isfinite(topic_coherence(search, texts, n_terms=2)).all()


def test_absent_terms_are_left_out_with_a_warning_if_they_are_many():
    topics = np.array([[3.0, 2.0, 1.0, 0.5], [3.0, 0.0, 2.0, 0.0]])
    X = np.array([[1, 0, 1, 1], [1, 0, 0, 1], [0, 0, 1, 0]])
    with pytest.warns(UserWarning, match="1 topics or more occur in no document"):
        result = topic_coherence(topics, X, n_terms=2)
    assert np.isnan(result[0])
    assert np.isfinite(result[1])
    quiet = topic_coherence(topics[:1], X)
    assert_allclose(quiet, topic_coherence([[3.0, 0.0, 1.0, 0.5]], X))


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"X": np.ones((3, 4))}, ValueError, "X has 4 columns"),
        ({"X": np.zeros((3, 2))}, ValueError, "must have a document with tokens"),
        ({"topics": -np.eye(2)}, ValueError, "topics must not be negative"),
        ({"measure": "c_uci"}, ValueError, "measure"),
        ({"n_terms": 1}, ValueError, "n_terms"),
    ],
)
def test_what_cannot_be_measured_is_named(given, error, says):
    call = {"topics": np.eye(2), "X": np.eye(2)} | given
    with pytest.raises(error, match=says):
        topic_coherence(**call)


def test_diversity_counts_different_terms():
    assert topic_diversity([[2, 1, 0]] * 4) == 0.25
    assert topic_diversity(np.eye(3)) == 1.0  # terms without probability are none
    assert topic_diversity(np.ones((5, 30)), n_terms=10) == 0.2


def test_diversity_is_that_of_topics_in_use(monkeypatch):
    monkeypatch.setattr(BoundMerges, "end_pass", lambda *args: True)
    X = make_hdp(150, n_features=40, n_components=3, random_state=0).data
    hdp = StickBreakingHDP(
        max_components=30, learning_method="batch", random_state=0
    ).fit(X)
    heaviest = np.argsort(-hdp.topic_weights_)[: hdp.n_active_components_]
    expected = topic_diversity(hdp.topic_word_distr_[heaviest], n_terms=5)
    assert topic_diversity(hdp, n_terms=5) == expected
    assert topic_diversity(hdp.topic_word_distr_, n_terms=5) < 0.9 * expected
