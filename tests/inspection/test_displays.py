import sys
from itertools import combinations
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from checks.long import along_diagonal
from skbnp.inspection import HistoryDisplay, TopicTermsDisplay, top_terms

DISPLAYS = [TopicTermsDisplay, HistoryDisplay]


def texts_of(display):
    """Boxes of all that is written, as drawn."""
    display.figure_.draw_without_rendering()
    texts = []
    for panel in display.axes_:
        limit = panel.get_xlim()[1]
        ticks = [
            text for text in panel.get_xticklabels() if text.get_position()[0] < limit
        ]
        texts += [*panel.get_yticklabels(), *ticks]
        texts += [artist for artist in panel.get_children() if is_title(artist)]
    texts = [text for text in texts if text.get_visible() and text.get_text()]
    return [text.get_window_extent() for text in texts]


def is_title(artist):
    return isinstance(artist, plt.Text) and artist.get_text().startswith("topic")


def overlaps(a, b, tolerance=0.5):
    """Whether two boxes share more than half a pixel each way."""
    return (
        min(a.x1, b.x1) - max(a.x0, b.x0) > tolerance
        and min(a.y1, b.y1) - max(a.y0, b.y0) > tolerance
    )


def check_legible(boxes, figure):
    """Raise if a text covers another one, or is cut off at the edge of the figure."""
    whole = figure.bbox
    assert not any(overlaps(a, b) for a, b in combinations(boxes, 2))
    assert all(box.x0 >= 0 and box.y0 >= 0 for box in boxes)
    assert all(box.x1 <= whole.x1 and box.y1 <= whole.y1 for box in boxes)


def many_topics(n_topics, length):
    """A display of `n_topics` topics of 8 terms of up to `length` letters."""
    rng = np.random.default_rng(0)
    return TopicTermsDisplay(
        terms=[
            ["m" * n for n in rng.integers(1, length + 1, 8)] for _ in range(n_topics)
        ],
        probabilities=list(np.sort(rng.uniform(0.001, 0.04, (n_topics, 8)))[:, ::-1]),
        weights=np.full(n_topics, 1 / n_topics),
        labels=np.arange(n_topics) + 100,
    )


# -- terms -----------------------------------------------------------------------------


def test_bars_are_as_long_as_probabilities(model):
    display = TopicTermsDisplay.from_estimator(model)
    widths = [[bar.get_width() for bar in panel.patches] for panel in display.axes_]
    expected = np.sort(model.topic_word_distr_[[2, 1, 0]], axis=1)
    assert_allclose(np.sort(widths, axis=1), expected)


def test_terms_stand_at_their_bars_best_on_top(model, words):
    display = TopicTermsDisplay.from_estimator(model, words, n_terms=3)
    terms = top_terms(model, words, n=3, relevance=0.6)
    for panel, k in zip(display.axes_, [2, 1, 0], strict=True):
        assert [text.get_text() for text in panel.get_yticklabels()] == terms[k]
        assert panel.yaxis.get_inverted()


def test_titles_tell_topic_and_weight_those_that_tell_most_first(model):
    display = TopicTermsDisplay.from_estimator(model, n_components=2)
    titles = [panel.get_title("left") for panel in display.axes_]
    assert titles == ["topic 2 – 25.0 %", "topic 1 – 50.0 %"]


def test_marks_are_at_the_probability_in_all_and_relations_say_what_is_shared(model):
    display = TopicTermsDisplay.from_estimator(model)
    distr, weights = model.topic_word_distr_, model.topic_weights_
    for panel, k in zip(display.axes_, [2, 1, 0], strict=True):
        marks = [path.vertices[0, 0] for path in panel.collections[0].get_paths()]
        columns = [int(t.get_text()[7:]) for t in panel.get_yticklabels()]
        assert_allclose(marks, (weights @ distr)[columns])
        overlap = [np.minimum(distr[k], row).sum() for row in distr]
        overlap[k] = 0.0
        best = int(np.argmax(overlap))
        expected = f"{100 * overlap[best]:.0f} % shared with topic {best}"
        assert expected in [text.get_text() for text in panel.texts]


def test_a_step_with_several_records_is_drawn_once():
    """As a tree, which is recorded before and after its moves."""
    display = HistoryDisplay(
        step=[1, 1, 2, 2],
        seconds=[0.1, 0.2, 0.3, 0.4],
        bound=[np.nan, -3.0, np.nan, -2.0],
        n_components=[9, 5, 5, 4],
    ).plot()
    line, (topics,) = display.line_, display.twin_ax_.get_lines()
    assert_array_equal(line.get_xydata(), [[1, -3], [2, -2]])
    assert_array_equal(topics.get_xydata(), [[1, 5], [2, 4]])


@along_diagonal(("n_topics", "length"), [11, 1, 8], [14, 120, 2])
def test_nothing_written_overlaps_or_is_cut_off(n_topics, length):
    display = many_topics(n_topics, length).plot()
    check_legible(texts_of(display), display.figure_)


# -- history ---------------------------------------------------------------------------


@pytest.mark.parametrize(("x", "at"), [("step", [2, 4]), ("seconds", [1.0, 2.25])])
def test_bound_is_drawn_where_it_is_known(model, x, at):
    display = HistoryDisplay.from_estimator(model, x=x)
    assert_array_equal(display.line_.get_xydata(), np.c_[at, [-2.5, -2.0]])


def recorded_scores():
    """A monitor that looked twice."""
    return SimpleNamespace(
        history_={
            "step": [2, 4],
            "seconds": [0.75, 1.5],
            "score": [-3.0, -2.75],
            "n_components": [2, 3],
        }
    )


@pytest.mark.parametrize(("x", "at"), [("step", [2, 4]), ("seconds", [0.75, 1.5])])
def test_the_score_of_a_monitor_is_drawn_in_place_of_the_bound(model, x, at):
    display = HistoryDisplay.from_estimator(model, monitor=recorded_scores(), x=x)
    assert_array_equal(display.line_.get_xydata(), np.c_[at, [-3.0, -2.75]])
    assert display.ax_.get_ylabel() == "held-out score (nats per token)"
    (line,) = display.twin_ax_.lines
    assert_array_equal(line.get_xydata(), np.c_[at, [2, 3]])


@pytest.mark.parametrize("x", ["step", "seconds"])
def test_log_joint_has_a_line_for_each_chain(sampler, x):
    display = HistoryDisplay.from_estimator(sampler, x=x)
    history = sampler.history_
    assert display.lines_[0] is display.line_
    for number, line in enumerate(display.lines_):
        expected = np.c_[history[x], history["log_joint"]][number::2]
        assert_array_equal(line.get_xydata(), expected)
    assert display.ax_.get_ylabel() == "log joint (nats per token)"


# -- both ------------------------------------------------------------------------------


@pytest.mark.parametrize("display", DISPLAYS)
def test_given_axes_are_used(display, model):
    figure, ax = plt.subplots()
    drawn = display.from_estimator(model, ax=ax)
    assert (drawn.ax_, drawn.figure_) == (ax, figure)
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize("display", DISPLAYS)
def test_unfitted_models_are_not_drawn(display, unfitted):
    with pytest.raises(NotFittedError):
        display.from_estimator(unfitted)


@pytest.mark.parametrize("display", DISPLAYS)
def test_missing_matplotlib_says_what_to_install(display, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install .skbnp\[plot\]"):
        display.from_estimator(model)
