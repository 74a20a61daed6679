"""Numbers of topics below that of a fit: scores, labels, tables, figures."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import NMF
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from skbnp import HDP, GibbsHDP, StickBreakingHDP, reduce_topics
from skbnp.datasets import make_bars
from skbnp.inspection import TopicPathDisplay, topic_path
from skbnp.metrics import topic_coherence

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FITS = {
    "HDP": HDP(30, split_merge=False, max_iter=10, random_state=0),
    "GibbsHDP": GibbsHDP(30, split_merge=False, max_iter=10, random_state=0),
    "StickBreakingHDP": StickBreakingHDP(30, max_iter=10, random_state=0),
}


@pytest.fixture(scope="module")
def X():
    return make_bars(400, random_state=0).data


@pytest.fixture(scope="module")
def fits(X):
    return {name: fit.fit(X[:300]) for name, fit in FITS.items()}


@pytest.fixture(params=FITS)
def fit(request, fits):
    return fits[request.param]


@pytest.fixture(scope="module")
def path(fits, X):
    return topic_path(fits["HDP"], X[300:])


def test_scores_and_coherences_are_those_of_the_reduced_fit(fit, X):
    path = topic_path(fit, X[300:])
    n = fit.n_components_
    few = [number for number in (61, 49, 39, 31, 25, *range(20, 0, -1)) if number < n]
    assert path.scored.tolist() == [n, *few]
    for number in (n, 12, 1):
        place = path.scored.tolist().index(number)
        reduced = reduce_topics(fit, number)
        if number < n or not isinstance(fit, GibbsHDP):
            assert_allclose(path.scores[place], reduced.score(X[300:]), rtol=1e-6)
        coherence = np.nanmean(topic_coherence(reduced, X[300:]))
        assert_allclose(path.coherences[place], coherence)


def test_the_score_falls_with_merges_of_true_topics(path):
    """There are 20 bars."""
    scores = dict(zip(path.scored.tolist(), path.scores.tolist(), strict=True))
    assert scores[20] > scores[10] > scores[5] > scores[1]
    assert scores[30] - scores[20] < 0.3 * (scores[30] - scores[10])


def test_labels_are_numbers_of_the_reduced_topics_and_nested(fit):
    path = topic_path(fit)
    before = fit.component_ids_
    assert_array_equal(path.labels(fit.n_components_), before)
    for n in (15, 6, 1):
        labels = path.labels(n)
        assert set(labels) == set(reduce_topics(fit, n).component_ids_)
        assert len(set(zip(before, labels, strict=True))) == len(set(before))
        before = labels
    for n in (0, fit.n_components_ + 1):
        with pytest.raises(ValueError, match=f"n must be from 1 to .*, got {n}"):
            path.labels(n)


def test_what_is_lost_never_falls(path):
    assert path.lost[0] == 0.0
    assert (np.diff(path.lost) >= 0.0).all()
    assert path.lost[-1] > 0.5
    assert_array_equal(path.sizes, np.arange(30, 0, -1))


def test_documents_of_the_fit_are_recognised(X):
    hdp = HDP(4, split_merge=False, max_iter=3, random_state=0).fit(X[:300])
    assert topic_path(hdp, X[:30]).share_of_fit == 1.0
    assert topic_path(hdp, X[270:330]).share_of_fit == 0.5
    assert topic_path(hdp, X[300:]).share_of_fit == 0.0


def test_the_table_has_a_row_for_each_number(path):
    frame = path.to_frame()
    assert_array_equal(frame["n_components"], path.sizes)
    assert frame["ended"].tolist()[1:] == path.merges[:, 0].tolist()
    some = frame.dropna().set_index("n_components")
    assert_array_equal(some["score"][path.scored], path.scores)
    assert repr(path) == "TopicPath(30 to 1 topics, 22 scored)"


def test_texts_of_a_pipeline_are_scored():
    texts = ["sun rain snow", "rain snow", "oil coal gas", "coal gas gas"] * 10
    model = make_pipeline(CountVectorizer(), HDP(6, split_merge=False, random_state=0))
    model.fit(texts)
    path = topic_path(model, (text for text in texts))
    counts = model[0].transform(texts)
    assert_array_equal(path.scores, topic_path(model[-1], counts).scores)
    frame = pd.DataFrame(counts.toarray(), columns=model[0].get_feature_names_out())
    named = HDP(6, split_merge=False, random_state=0).fit(frame)
    assert_array_equal(topic_path(named, frame.iloc[:, ::-1]).scores, path.scores)


def test_bad_input_is_refused(fits, X):
    hdp = fits["HDP"]
    with pytest.raises(TypeError, match=r"must be an HDP, .* got NMF"):
        topic_path(NMF(2).fit(X), X)
    with pytest.raises(NotFittedError):
        topic_path(HDP(), X)
    with pytest.raises(ValueError, match="X must have a document with tokens"):
        topic_path(hdp, 0 * X[:3])
    with pytest.raises(ValueError, match="24 columns"):
        topic_path(hdp, X[:3, :24])
    with pytest.raises(ValueError, match="n must be from 1 to 30, got 31"):
        TopicPathDisplay.from_estimator(hdp, n=31)
    with pytest.raises(ValueError, match="'n' parameter"):
        TopicPathDisplay.from_estimator(hdp, n=0)


def test_the_figure_marks_the_number_of_the_fit_and_the_chosen(path):
    display = TopicPathDisplay(path=path).plot(n=10)
    assert display.ax_.get_xscale() == "log"
    assert [line.get_xdata()[0] for line in display.marks_] == [30, 10]
    assert_array_equal(display.line_.get_xdata(), path.scored)
    assert_array_equal(display.line_.get_ydata(), path.scores)
    assert display.ax_.get_ylabel() == "score (nats per token)"
    assert display.ax_.get_xlabel() == "topics"


def test_the_figure_marks_the_number_that_predicted_best(path):
    display = TopicPathDisplay(path=replace(path, n_best=45)).plot(n=10)
    assert [line.get_xdata()[0] for line in display.marks_] == [30, 45, 10]
    same = TopicPathDisplay(path=replace(path, n_best=30)).plot()
    assert len(same.marks_) == 1


def test_the_path_has_the_number_that_predicted_best(X, fits):
    hdp = HDP(min_gain=0.1, random_state=0).fit(X[:200])
    gains = hdp.n_components_gains_
    best = topic_path(hdp).n_best
    assert gains[best] == max(gains.values())
    assert best > hdp.n_components_
    assert all(topic_path(other).n_best is None for other in fits.values())


def test_the_figure_tells_of_documents_of_the_fit(fits, X):
    display = TopicPathDisplay.from_estimator(fits["HDP"], X=X[:20])
    assert "100% of documents are of the fit" in display.ax_.get_ylabel()
    assert len(display.marks_) == 1


def test_without_documents_the_figure_has_what_is_lost(fits):
    _, ax = plt.subplots()
    display = TopicPathDisplay.from_estimator(fits["HDP"], ax=ax, color="k")
    assert display.ax_ is ax
    assert display.line_.get_color() == "k"
    assert_array_equal(display.line_.get_ydata(), display.path.lost)
    assert "lost" in ax.get_ylabel()
