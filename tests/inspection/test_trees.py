"""The figure of a tree of topics: what stands where, and that it can be read."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.transforms import Bbox
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator

from checks.long import daily
from inspection.test_displays import check_legible, overlaps
from skbnp.inspection import TopicTreeDisplay
from skbnp.inspection._displays import FONT
from skbnp.inspection._trees import tidy
from skbnp.trees import Tree, TreeView

RNG = np.random.default_rng(3)
#: Parents of 50 nodes, but for the last.
SHAPES = {
    "three levels": [
        -1,
        *[0] * 9,
        *np.repeat(range(1, 10), [9, 7, 6, 5, 4, 4, 3, 1, 1]),
    ],
    "star": [-1, *[0] * 49],
    "chain": range(-1, 49),
    "bushy": [-1, *(int(RNG.integers(i)) for i in range(1, 50))],
    "deep": [-1, *(int(RNG.integers(max(0, i - 4), i)) for i in range(1, 50))],
    "binary": [-1, *((i - 1) // 2 for i in range(1, 50))],
    "root": [-1],
}


class FakeTreeModel(BaseEstimator):
    """A fitted tree; the terms of a topic start with its row, "<row>a" comes first."""

    def __init__(self, parent=SHAPES["three levels"], length=9):
        self.parent, self.length = parent, length

    def fit(self, X=None, y=None):
        rng = np.random.default_rng(0)
        tree = Tree.from_parents(self.parent)
        n, weight = len(tree), np.ones(len(tree))
        for i in range(n):
            children = np.flatnonzero(tree.parent == i)
            weight[children] = weight[i] * rng.dirichlet(np.ones(len(children) + 1))[1:]
        self.tree_ = TreeView(tree.parent, weight, tree.ids)
        names, distr = [], np.zeros((n, 6 * n))
        for i in range(n):
            for rank, letter in enumerate("abcdef"):
                distr[i, len(names)] = 6.0 - rank
                names.append(f"{i}{letter}" + "m" * int(rng.integers(self.length)))
        columns = rng.permutation(6 * n)
        self.components_ = distr[:, columns] / 21.0
        self.feature_names_in_ = np.array(names, dtype=object)[columns]
        self.n_features_in_ = 6 * n
        return self


@pytest.fixture
def model():
    return FakeTreeModel().fit()


def check_readable(display):
    """Raise if a text covers another one, or a disc, or is cut off."""
    display.figure_.draw_without_rendering()
    texts = [*display.texts_, *display.ax_.get_legend().get_texts()]
    boxes = [plt.Text.get_window_extent(text) for text in texts]
    check_legible(boxes, display.figure_)
    discs = [Bbox([[x - r, y - r], [x + r, y + r]]) for x, y, r in discs_of(display)]
    assert not any(overlaps(box, disc) for box in boxes for disc in discs)


def discs_of(display):
    """Centre and radius of each node in pixels."""
    (discs,) = (c for c in display.ax_.collections if len(c.get_sizes()))
    centres = display.ax_.transData.transform(discs.get_offsets())
    radius = np.sqrt(discs.get_sizes()) / 2 * display.figure_.dpi / 72
    return np.column_stack([centres, np.broadcast_to(radius, len(centres))])


# What stands where --------------------------------------------------------------------


@pytest.mark.parametrize("shape", daily(2, SHAPES))
def test_terms_stand_at_their_node(shape):
    model = FakeTreeModel(SHAPES[shape]).fit()
    display = TopicTreeDisplay.from_estimator(model, n_terms=3, fold_chains=False)
    display.figure_.draw_without_rendering()
    discs = discs_of(display)
    assert display.nodes_.tolist() == list(range(model.tree_.n_nodes))
    for i, text in enumerate(display.texts_):
        row, terms = text.get_text().split(": ")
        assert row == str(i)
        heads = [term[: len(row) + 1] for term in terms.replace("\n", " ").split(", ")]
        assert heads == [f"{i}a", f"{i}b", f"{i}c"]
        # The nearest disc on the left of the text, at its height, is that of the node.
        box = plt.Text.get_window_extent(text)
        level = np.abs(discs[:, 1] - (box.y0 + box.y1) / 2) < 2.0
        left = np.where(level & (discs[:, 0] < box.x0), box.x0 - discs[:, 0], np.inf)
        assert left.argmin() == i
        assert left.min() < 2 * FONT * display.figure_.dpi / 72


@pytest.mark.parametrize("shape", daily(2, SHAPES))
def test_levels_run_to_the_right_and_siblings_downwards(shape):
    model = FakeTreeModel(SHAPES[shape]).fit()
    display = TopicTreeDisplay.from_estimator(model, fold_chains=False)
    tree, (x, y, _) = model.tree_, discs_of(display).T
    for i in range(1, tree.n_nodes):
        assert x[i] > x[tree.parent[i]]
        assert (x[i] == x[tree.depth == tree.depth[i]]).all()
        later = tree.children(tree.parent[i])
        assert (y[later[later > i]] < y[i]).all()


def test_areas_are_weights_down_to_a_least_dot(model):
    display = TopicTreeDisplay.from_estimator(model, fold_chains=False)
    area, weight = discs_of(display)[:, 2] ** 2, model.tree_.weight
    large = area > area.min() * 1.001
    assert 2 < large.sum() < len(weight)
    assert_allclose(area[large] / area[0], weight[large])
    assert (weight[~large] < 1.01 * area.min() / area[0]).all()


@pytest.mark.parametrize("kwargs", [{"min_weight": 0.02}, {"max_depth": 1}])
def test_nodes_left_out_are_counted(model, kwargs):
    display = TopicTreeDisplay.from_estimator(model, **kwargs, fold_chains=False)
    nodes, hidden = model.tree_.select(**kwargs)
    assert display.nodes_.tolist() == nodes.tolist()
    assert 1 < len(nodes) < 50
    for i, n, text in zip(nodes, hidden, display.texts_, strict=True):
        assert text.get_text().startswith(f"{i}: {i}a")
        assert text.get_text().endswith(f" ({n} more)") == (n > 0)
    check_readable(display)


# Legible ------------------------------------------------------------------------------


@pytest.mark.parametrize("length", daily(1, [40, 1]))
@pytest.mark.parametrize("shape", daily(1, SHAPES))
def test_nothing_written_overlaps_or_is_cut_off(shape, length):
    model = FakeTreeModel(SHAPES[shape], length).fit()
    check_readable(TopicTreeDisplay.from_estimator(model))


# As a display -------------------------------------------------------------------------


def test_depth_50_is_drawn_and_deeper_than_200_refused():
    tree, terms = TreeView(np.arange(-1, 201), np.ones(202)), [["a"]] * 202
    display = TopicTreeDisplay(tree=tree, terms=terms)
    check_readable(display.plot(max_depth=50, fold_chains=False))
    with pytest.raises(ValueError, match="max_depth must be at most 200"):
        display.plot(fold_chains=False)


def test_nodes_without_tokens_are_not_drawn():
    in_use = [True, False, True, False]
    tree = TreeView([-1, 0, 1, 0], [1.0, 0.6, 0.6, 0.4], in_use=in_use)
    terms = [["sun"], ["aa"], ["oil"], ["aa"]]
    display = TopicTreeDisplay(tree=tree, terms=terms).plot(fold_chains=False)
    assert display.nodes_.tolist() == [0, 1, 2]
    assert [text.get_text() for text in display.texts_] == ["0: sun", "1: ", "2: oil"]


# Folds --------------------------------------------------------------------------------


def test_a_node_and_its_only_child_are_one():
    tree = TreeView([-1, 0, 1, 2, 2, 0, 5], np.r_[1.0, 0.7, 0.7, 0.4, 0.3, 0.3, 0.3])
    terms = [[f"{letter}{k}" for k in range(4)] for letter in "abcdefg"]
    display = TopicTreeDisplay(tree=tree, terms=terms).plot()
    assert display.nodes_.tolist() == [0, 1, 3, 4, 5]
    texts = [text.get_text().replace("\n", "") for text in display.texts_]
    assert texts[1].replace(" ", "") == "1:b0,b1\u203a2:c0,c1"
    assert texts[4].replace(" ", "") == "5:f0,f1\u203a6:g0,g1"
    assert len(display.plot(fold_chains=False).nodes_) == 7
    check_readable(display.plot())


@pytest.mark.parametrize("max_leaves", [1, 7, 20])
def test_no_more_leaves_are_drawn_than_asked(max_leaves):
    rng = np.random.default_rng(0)
    weight = np.r_[1.0, np.sort(rng.dirichlet(np.ones(80)))[::-1]]
    tree = TreeView([-1, *[0] * 80], weight)
    display = TopicTreeDisplay(tree=tree, terms=[["a"]] * 81)
    assert len(display.plot(max_leaves=max_leaves, fold_chains=False).nodes_) == (
        max_leaves + 1
    )
    assert display.texts_[0].get_text() == f"0: a ({80 - max_leaves} more)"
    assert len(display.plot().nodes_) == 51
    assert len(display.plot(max_leaves=None).nodes_) == 81


def random_parents(n_nodes, seed):
    rng = np.random.default_rng(seed)
    reach = int(rng.integers(1, 30))
    return [-1, *(int(rng.integers(max(0, i - reach), i)) for i in range(1, n_nodes))]


def test_neighbours_stand_in_order_at_least_one_apart():
    for seed in range(100):
        parent = random_parents(2 + seed % 60, seed)
        place, tree = tidy(parent), Tree.from_parents(parent)
        for rows in tree.levels:
            assert (np.diff(place[tree.ids[rows]]) > 1 - 1e-9).all(), seed


@pytest.mark.parametrize("seed", range(20))
def test_parents_stand_amid_their_children(seed):
    parent = random_parents(40, seed)
    place = tidy(parent)
    assert place.min() == 0.0
    for i in set(parent[1:]):
        children = place[np.array(parent) == i]
        assert place[i] == pytest.approx((children[0] + children[-1]) / 2)
