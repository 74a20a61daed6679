"""Fits in containers and models of other packages say what they said here."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from checks.corpora import topic_counts
from checks.estimators import FIRST, fresh, takes_counts_only
from checks.long import daily
from skbnp import HDP, StickBreakingHDP
from skbnp.datasets import make_bars, make_hdp
from skbnp.inspection import to_lda, to_pyldavis
from skbnp.metrics import document_completion_score

X = topic_counts(60, 24)


DRAWN = make_hdp(150, n_features=40, n_components=3, random_state=0)
DRAWN_X = sp.csr_array(DRAWN.data)
OF_COUNTS = [name for name in FIRST if takes_counts_only(FIRST[name])]


def check_prepared(data):
    """Raise unless data pass the checks of ``pyLDAvis.prepare``, version 3.4."""
    topics, docs = data["topic_term_dists"], data["doc_topic_dists"]
    assert set(data) == {
        "topic_term_dists",
        "doc_topic_dists",
        "doc_lengths",
        "vocab",
        "term_frequency",
    }
    n_terms, n_docs = len(data["vocab"]), len(data["doc_lengths"])
    assert topics.shape == (docs.shape[1], n_terms)
    assert len(docs) == n_docs
    assert len(data["term_frequency"]) == n_terms
    assert_allclose(topics.sum(axis=1), 1.0)
    assert_allclose(docs.sum(axis=1), 1.0)
    assert data["term_frequency"].min() > 0  # its logarithm is taken
    assert data["doc_lengths"].min() > 0
    assert (data["doc_lengths"] @ docs > 0.0).all()


@pytest.mark.parametrize("name", daily(3, OF_COUNTS))
def test_pyldavis_gets_what_it_takes(name):
    rows = DRAWN_X.toarray()
    rows[:, 7] = 0
    rows[[3, 149]] = 0
    model = fresh(FIRST[name]).fit(rows)
    for container in (sp.csr_array, sp.csc_matrix, np.asarray):
        data = to_pyldavis(model, container(rows))
        check_prepared(data)
        assert_array_equal(data["doc_lengths"], np.delete(rows.sum(axis=1), [3, 149]))
        assert "column 7" not in data["vocab"]
        assert data["doc_lengths"].dtype.kind == "i"


def test_pyldavis_gets_topics_in_use_in_order():
    sticks = StickBreakingHDP(
        max_components=30, learning_method="batch", random_state=0
    ).fit(DRAWN_X)
    data = to_pyldavis(sticks, DRAWN_X)
    check_prepared(data)
    n_used = sticks.n_active_components_
    used = np.sort(np.argsort(-sticks.topic_weights_)[:n_used])
    assert len(data["topic_term_dists"]) == n_used < 30
    occurs = DRAWN_X.sum(axis=0) > 0
    expected = sticks.topic_word_distr_[used][:, occurs]
    expected /= expected.sum(axis=1, keepdims=True)
    assert_allclose(data["topic_term_dists"], expected)


def test_pyldavis_gets_names_of_a_pipeline_and_a_frame():
    texts = ["sun rain sun", "rain sun", "oil coal", "coal coal oil"] * 30
    pipeline = make_pipeline(CountVectorizer(), HDP(2, random_state=0)).fit(texts)
    data = to_pyldavis(pipeline, texts)
    check_prepared(data)
    assert data["vocab"].tolist() == ["coal", "oil", "rain", "sun"]
    frame = pd.DataFrame(DRAWN_X.toarray(), columns=[f"w{j}" for j in range(40)])
    named = HDP(4, max_iter=3, random_state=0).fit(frame)
    assert set(to_pyldavis(named, frame)["vocab"]) <= set(frame.columns)


def test_one_topic_cannot_be_placed_by_distances():
    model = HDP(1, split_merge=False, random_state=0).fit(DRAWN_X)
    with pytest.raises(ValueError, match="two topics in use or more, got 1"):
        to_pyldavis(model, DRAWN_X)


@pytest.mark.parametrize("name", daily(3, OF_COUNTS))
def test_lda_is_fitted_and_works_on(name):
    model = fresh(FIRST[name]).fit(DRAWN_X)
    lda = to_lda(model)
    assert isinstance(lda, LatentDirichletAllocation)
    assert lda.components_.shape == (model.n_active_components_, 40)
    shares = lda.transform(DRAWN_X)
    assert_allclose(shares.sum(axis=1), 1.0)
    assert np.isfinite(lda.perplexity(DRAWN_X))
    assert len(lda.get_feature_names_out()) == shares.shape[1]
    before = lda.components_.copy()
    lda.set_params(total_samples=150).partial_fit(DRAWN_X)
    assert not np.array_equal(lda.components_, before)
    assert not hasattr(clone(lda), "components_")


@pytest.mark.long
def test_lda_gives_the_shares_and_scores_of_its_topics():
    bars = make_bars(400, random_state=0).data
    model = HDP(random_state=0).fit(bars)
    lda, expected = to_lda(model), model.transform(bars)
    assert np.abs(lda.transform(bars) - expected).mean() < 0.01
    score = document_completion_score(lda, bars)
    assert score == pytest.approx(model.score(bars), abs=0.02)
    assert lda.doc_topic_prior_ == pytest.approx(
        model.prediction_concentration_ * model.topic_weights_.mean()
    )
    # Negative control: topics of another fit.
    other = LatentDirichletAllocation(model.n_components_, random_state=0).fit(bars)
    assert np.abs(other.transform(bars) - expected).mean() > 0.05
