"""The figure of the genealogy: what it shows, where, and that it can be read."""

import copy

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator

from checks.estimators import mean_field_hdp
from checks.long import daily
from inspection.test_displays import check_legible
from skbnp import GibbsHDP
from skbnp.callbacks import TopicTermsMonitor
from skbnp.datasets import make_bars
from skbnp.estimators import SplitMerge
from skbnp.inference.posterior import Lineage
from skbnp.inspection import LineageDisplay
from skbnp.inspection._displays import BLUE, GREY, VERMILION
from skbnp.inspection._lineage import ancestors, descendants, history_of, lanes_of

#: 0 and 1 begin; 0 gives 2, 2 gives 3; 1 goes into 0; 4 is born; 2 ends; 5 from 4.
STORY = [
    Lineage(0, "init", (), (0, 1)),
    Lineage(2, "split", (0,), (0, 2)),
    Lineage(3, "split", (2,), (2, 3)),
    Lineage(5, "merge", (0, 1), (0,)),
    Lineage(6, "birth", (), (4,)),
    Lineage(7, "prune", (2,), ()),
    Lineage(8, "split", (4,), (4, 5)),
]
ALL = range(6)


def words(rng, n, length=9):
    return ["m" * k for k in rng.integers(1, length + 1, n)]


def show(lineage=STORY, ids=ALL, terms=None, last_step=10, ax=None, length=9):
    rng = np.random.default_rng(0)
    living = {k for k, lane in lanes_of(lineage).items() if lane.end is None}
    return LineageDisplay(
        lineage=lineage,
        ids=ids,
        last_step=last_step,
        final_terms={name: words(rng, 5, length) for name in sorted(living)},
        terms=terms,
    ).plot(ax)


def random_lineage(n_ids, seed=0):
    """A log in which the first two topics split, merge and end at random."""
    rng = np.random.default_rng(seed)
    log, living, step = [Lineage(0, "init", (), (0, 1))], [0, 1], 0
    for name in range(2, n_ids):
        step += int(rng.integers(0, 3))
        parent = int(rng.choice(living))
        log.append(Lineage(step, "split", (parent,), (parent, name)))
        living.append(name)
        if rng.random() < 0.3:
            target, source = (int(k) for k in rng.choice(living, 2, replace=False))
            log.append(Lineage(step, "merge", (target, source), (target,)))
            living.remove(source)
        elif rng.random() < 0.2:
            log.append(Lineage(step, "prune", (living[0],), ()))
            living.remove(living[0])
    return log, step + 3


def boxes_of(display):
    """Boxes of all that is written, as drawn."""
    display.figure_.draw_without_rendering()
    ax = display.ax_
    texts = [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels()]
    texts += [ax.xaxis.label, ax.yaxis.label]
    texts += ax.get_legend().get_texts() if ax.get_legend() else []
    return [
        plt.Text.get_window_extent(text)
        for text in texts
        if text.get_visible() and text.get_text()
    ]


def segments(display, color):
    """Lines of a colour, as ((x0, y0), (x1, y1))."""
    return [
        line.get_xydata().tolist()
        for line in display.ax_.lines
        if line.get_color() == color and len(line.get_xdata()) == 2
    ]


def markers(display):
    return {
        (line.get_marker(), *line.get_xydata()[0])
        for line in display.ax_.lines
        if len(line.get_xdata()) == 1
    }


# Reading the log ----------------------------------------------------------------------


def test_a_topic_that_comes_back_lives_and_the_other_has_its_rows_under_a_name():
    log = [
        Lineage(0, "init", (), (1, 2, 18)),
        Lineage(3, "merge", (18, 1), (18,)),
        Lineage(7, "birth", (18,), (18, 29)),
        Lineage(7, "exchange", (29, 18), (18, 1)),
        Lineage(8, "exchange", (1, 2), (2, 1)),
    ]
    lanes = lanes_of(log)
    assert [lanes[name].end for name in (1, 2, 18, 29)] == [None, None, None, 7]
    assert lanes[1].target == []
    assert lanes[29].target == [18]


def test_lanes_live_from_their_origin_to_their_end():
    lanes = lanes_of(STORY)
    lives = {name: (lane.begin, lane.end) for name, lane in lanes.items()}
    assert lives == {
        0: (0, None),
        1: (0, 5),
        2: (2, 7),
        3: (3, None),
        4: (6, None),
        5: (8, None),
    }
    assert [lanes[name].origin for name in ALL] == [[], [], [0], [2], [], [4]]
    assert lanes[1].target == [0]
    assert [name for name in ALL if lanes[name].is_born] == [4]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [([0], {0, 1}), ([3], {0, 2, 3}), ([5], {4, 5}), ([1], {1}), ([2, 4], {0, 2, 4})],
)
def test_ancestors_are_what_flowed_into_the_ids(ids, expected):
    # 1 went into 0 after 2 and 3 had left it.
    assert ancestors(STORY, ids) == expected


@pytest.mark.parametrize(
    ("ids", "expected"), [([0], {0, 2, 3}), ([1], {0, 1}), ([2], {2, 3}), ([4], {4, 5})]
)
def test_descendants_are_what_the_ids_flowed_into(ids, expected):
    # 0 had split before 1 came into it.
    assert descendants(STORY, ids) == expected


# Drawing ------------------------------------------------------------------------------


def test_lanes_connectors_and_marks_stand_where_topics_were():
    """Lanes are blue while they live, and grey when they have ended."""
    display = show()
    row = {name: y for y, name in enumerate(display.ids_)}
    blue, grey = segments(display, BLUE), segments(display, GREY)
    for name, begin in ((0, 0), (3, 3), (4, 6), (5, 8)):
        assert [[begin, row[name]], [10, row[name]]] in blue
    for name, begin, end in ((1, 0, 5), (2, 2, 7)):
        assert [[begin, row[name]], [end, row[name]]] in grey
    for step, parent, child in ((2, 0, 2), (3, 2, 3), (8, 4, 5)):
        assert [[step, row[parent]], [step, row[child]]] in segments(display, GREY)
    assert segments(display, VERMILION) == [[[5, row[1]], [5, row[0]]]]
    drawn = markers(display)
    assert {("o", 6, row[4]), ("X", 7, row[2]), ("v", 5, row[0])} <= drawn
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert sorted(legend) == ["birth", "end", "merge", "split"]


def written(display):
    """Terms by (step, id), a line each."""
    texts = {}
    for text in display.ax_.texts:
        texts.setdefault((text.xy[0], display.ids_[int(text.xy[1])]), []).append(text)
    for lines in texts.values():
        assert (np.diff([line.xyann[1] for line in lines]) < 0).all(), "run downwards"
    return {
        place: "\n".join(line.get_text() for line in lines)
        for place, lines in texts.items()
    }


def test_terms_stand_where_they_were_recorded():
    terms = {0: [(1, ["a", "b"]), (9, ["c", "d"])], 2: [(4, ["e", "f"])]}
    texts = written(show(terms=terms))
    assert texts[1, 0] == "a\nb"
    assert texts[4, 2] == "e\nf"


# Legible ------------------------------------------------------------------------------


@pytest.mark.parametrize("length", daily(1, [40, 3, 12]))
@pytest.mark.parametrize("n_ids", daily(2, [30, 2, 8]))
def test_nothing_written_overlaps_or_is_cut_off(n_ids, length):
    log, last = random_lineage(n_ids)
    display = show(log, range(n_ids), last_step=last, length=length)
    check_legible(boxes_of(display), display.figure_)


# Of an estimator ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def bars():
    return make_bars(300, side=4, random_state=0).data


@pytest.fixture(scope="module")
def split(bars):
    """A fit that splits, with the terms of its passes."""
    monitor = TopicTermsMonitor(n_terms=4)
    moves = SplitMerge.paper()
    hdp = mean_field_hdp(2, split_merge=moves, batch_size=60, warm_up=0, max_iter=6)
    hdp.set_params(random_state=0)
    return hdp.set_callbacks(monitor).fit(bars), monitor


@pytest.mark.parametrize("n_components", [1, 3])
def test_the_heaviest_are_shown_with_their_ancestors(split, n_components):
    hdp, _ = split
    display = LineageDisplay.from_estimator(hdp, n_components=n_components)
    tokens = (hdp.components_ - hdp.topic_word_prior_).sum(axis=1)
    heaviest = hdp.component_ids_[np.argsort(-tokens)].tolist()
    lanes = lanes_of(hdp.lineage_)
    text = [
        name
        for name in heaviest
        if lanes[name].is_born or ancestors(hdp.lineage_, [name]) != {name}
    ]
    assert set(display.ids_) == ancestors(hdp.lineage_, text[:n_components])
    assert display.n_hidden == len(set(heaviest) - set(display.ids_))


def test_terms_over_time_are_those_of_the_monitor(split):
    hdp, monitor = split
    display = LineageDisplay.from_estimator(hdp, terms=monitor, n_terms=3)
    step, ids = monitor.history_["step"][0], monitor.history_["component_ids"][0]
    first = {
        int(name): [f"column {j}" for j in columns[:3]]
        for name, columns in zip(ids, monitor.history_["terms"][0], strict=True)
    }
    shown = {name: records[0] for name, records in display.terms.items()}
    assert {name: terms for name, (at, terms) in shown.items() if at == step} == first
    check_legible(boxes_of(display), display.figure_)


def test_edits_after_the_fit_are_shown(split):
    hdp = copy.deepcopy(split[0])
    a, b = hdp.component_ids_[:2].tolist()
    hdp.merge_components([a, b])
    display = LineageDisplay.from_estimator(hdp)
    assert b in display.ids_
    assert_allclose(display.last_step, hdp.lineage_[-1].step)


def test_a_topic_that_comes_back_has_a_pause():
    """1 ends; 2, born since, had its rows and ends as 1 comes back."""
    log = [
        Lineage(0, "init", (), (0, 1)),
        Lineage(3, "prune", (1,), ()),
        Lineage(5, "birth", (0,), (0, 2)),
        Lineage(7, "revive", (2,), (1,)),
    ]
    lane, other = (lanes_of(log)[name] for name in (1, 2))
    assert (lane.end, lane.pauses, lane.sources) == (None, [(3, 7)], [2])
    assert (other.end, other.target) == (7, [1])
    display = show(log, range(3))
    y = display.ids_.index(1)
    spans = [(begin, end) for (begin, a), (end, b) in segments(display, BLUE) if b == y]
    assert [begin for begin, _ in spans][:2] == [0, 3]
    assert spans[-1][1] == 10
    assert "revive" in {text.get_text() for text in display.ax_.get_legend().texts}
    assert "revive" not in {text.get_text() for text in show().ax_.get_legend().texts}


# Of a sampler -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gibbs():
    """Chains of many births and deaths; the best sample is not the last sweep."""
    X = make_bars(100, side=3, n_words=50, random_state=0).data
    monitor = TopicTermsMonitor(n_terms=4)
    model = GibbsHDP(5, max_iter=30, thin=4, n_chains=2, random_state=0)
    model.set_callbacks(monitor).fit(X)
    best = max(model.samples_, key=lambda sample: sample.log_joint)
    assert best.step < 30
    assert {"birth", "prune"} <= {entry.kind for entry in model.lineage_}
    assert max(len(entry.children) for entry in model.lineage_[1:]) > 2
    return model, monitor, best


def test_time_of_a_sampler_ends_with_the_sample_that_is_shown(gibbs):
    model, _, best = gibbs
    assert max(model.history_["step"]) > best.step
    assert history_of(model) == (model.lineage_, best.step, best.chain)
    assert LineageDisplay.from_estimator(model).last_step == best.step


def test_terms_over_time_are_those_of_the_chain_that_is_shown(gibbs):
    model, monitor, best = gibbs
    display = LineageDisplay.from_estimator(model, terms=monitor, n_terms=3)
    of_chain = zip(
        *(monitor.history_[k] for k in ("step", "chain", "component_ids")), strict=True
    )
    expected = {
        (step, name)
        for step, chain, ids in of_chain
        if chain == best.chain
        for name in ids.tolist()
    }
    recorded = {(step, name) for name, r in display.terms.items() for step, _ in r}
    assert recorded == expected


@pytest.mark.parametrize("ids", [[], 3, [0.5], "0", [[0]]])
def test_ids_are_a_list_of_integers(split, ids):
    with pytest.raises(ValueError, match="ids must be one or more integers"):
        LineageDisplay.from_estimator(split[0], ids=ids)


# What is drawn unasked ----------------------------------------------------------------


class Told(BaseEstimator):
    """A model with this log, all of whose topics live."""

    def __init__(self, lineage=(), n_topics=1):
        self.lineage, self.n_topics = lineage, n_topics
        self.lineage_ = lineage
        self.component_ids_ = np.arange(n_topics)
        self.components_ = np.eye(n_topics) + np.linspace(0.2, 0.1, n_topics)[:, None]
        self.topic_weights_ = np.full(n_topics, 1 / n_topics)
        self.history_ = {"step": [5]}

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True


def test_only_topics_with_a_story_are_drawn():
    log = [Lineage(0, "init", (), tuple(range(30))), Lineage(2, "split", (4,), (4, 30))]
    display = LineageDisplay.from_estimator(
        Told([*log, Lineage(3, "birth", (), (31,))], 32)
    )
    assert set(display.ids_) == {4, 30, 31}
    assert display.ax_.get_xlabel() == "step (not drawn: 29 other topics)"


def test_the_figure_is_no_higher_than_a_page():
    log = [Lineage(0, "init", (), (0,)), Lineage(1, "birth", (), tuple(range(1, 90)))]
    model, monitor = Told(log, 90), TopicTermsMonitor(n_terms=5)
    for terms in (None, monitor):
        if terms is not None:
            monitor.record(model)
        display = LineageDisplay.from_estimator(model, terms=terms, n_components=90)
        assert display.figure_.get_figheight() <= 11.0
        assert len(display.ids_) + display.n_hidden == 90


def test_a_node_that_is_born_below_another_is_no_split():
    log = [Lineage(0, "init", (), (0, 1)), Lineage(2, "birth", (0,), (0, 2))]
    lanes = lanes_of(log)
    assert lanes[2].is_born
    assert lanes[2].origin == [0]
    display = show(log, ids=range(3))
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["birth"]
    row = {name: y for y, name in enumerate(display.ids_)}
    assert ("o", 2, row[2]) in markers(display)


def test_topics_that_soon_ended_are_counted_and_lines_are_as_wide_as_topics():
    log = [
        Lineage(0, "init", (), (0, 1)),
        Lineage(50, "birth", (), (2, 3, 4)),
        Lineage(51, "merge", (2, 3), (2,)),
        Lineage(90, "merge", (2, 4), (2,)),
    ]
    model = Told(log, 3)
    model.history_, model.topic_weights_ = {"step": [100]}, np.array([0.5, 0.1, 0.4])
    display = LineageDisplay.from_estimator(model)
    assert set(display.ids_) == {2, 4}
    assert display.ax_.get_xlabel() == (
        "step (not drawn: 2 other topics and 1 that soon ended)"
    )
    assert set(LineageDisplay.from_estimator(model, ids=[2]).ids_) == {2, 3, 4}
    everything = LineageDisplay.from_estimator(model, ids=[0, 1, 2])
    width = {}
    for line in everything.ax_.lines:
        if len(line.get_xdata()) == 2 and line.get_ydata()[0] == line.get_ydata()[1]:
            width[everything.ids_[int(line.get_ydata()[0])]] = line.get_linewidth()
    assert width[0] > width[2] > width[1] >= width[3]


def test_living_nodes_of_a_tree_are_called_by_their_row():
    model = Told([Lineage(0, "init", (), (0, 1)), Lineage(1, "birth", (0,), (0, 7))], 3)
    model.component_ids_ = np.array([0, 7, 1])
    model.tree_ = "a tree"
    display = LineageDisplay.from_estimator(model)
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert dict(zip(display.ids_, labels, strict=True)) == {0: "0", 7: "1"}
    assert display.ax_.get_ylabel() == "node"
