"""The fitted tree as users read it: arrays, text, dict, table, graph."""

import copy
import json
import pickle
import re
import sys

import networkx as nx
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skbnp.trees import Tree, TreeView
from skbnp.utils.plain import from_plain, to_plain

#: 0 above 1, 2, 3; 1 above 4, 5; 4 above 6; rows by level, ids not in order.
PARENT = [-1, 0, 0, 0, 1, 1, 4]
WEIGHT = [1.0, 0.5, 0.3, 0.2, 0.35, 0.05, 0.3]
IDS = [0, 7, 3, 9, 4, 12, 5]
LABELS = ["all", "one", "two", "three", "four", "five", "six"]


@pytest.fixture
def view():
    return TreeView(PARENT, WEIGHT, IDS)


def chain(depth):
    return TreeView(np.arange(-1, depth), np.ones(depth + 1))


def test_arrays_are_those_given(view):
    assert_array_equal(view.parent, PARENT)
    assert_array_equal(view.weight, WEIGHT)
    assert_array_equal(view.ids, IDS)
    assert_array_equal(view.depth, [0, 1, 1, 1, 2, 2, 3])
    assert_array_equal(view.leaves, [2, 3, 5, 6])
    assert (view.n_nodes, view.max_depth) == (7, 3)
    assert repr(view) == "TreeView(n_nodes=7, n_leaves=4, max_depth=3)"


def test_children_and_paths(view):
    assert [view.children(i).tolist() for i in (0, 1, 4, 6)] == [
        [1, 2, 3],
        [4, 5],
        [6],
        [],
    ]
    assert view.path(0).tolist() == [0]
    assert view.path(6).tolist() == [0, 1, 4, 6]


@pytest.mark.parametrize("name", ["parent", "depth", "weight", "ids", "leaves"])
@pytest.mark.parametrize(
    "twin", [lambda v: v, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))]
)
def test_arrays_cannot_be_written_to(view, name, twin):
    with pytest.raises(ValueError, match="read-only"):
        getattr(twin(view), name)[0] = 1


def test_a_tree_by_id_calls_its_nodes_by_their_ids_in_texts_and_copies():
    by_id = TreeView(PARENT, WEIGHT, IDS, by_id=True)
    assert_array_equal(by_id.numbers, IDS)
    assert_array_equal(TreeView(PARENT, WEIGHT, IDS).numbers, range(7))
    assert by_id != TreeView(PARENT, WEIGHT, IDS)
    rows, ids = (
        [int(re.search(r"\d+", line)[0]) for line in text.split("\n")]
        for text in (TreeView(PARENT, WEIGHT, IDS).to_text(), by_id.to_text())
    )
    assert ids == [IDS[row] for row in rows] != rows
    for made in (pickle.loads(pickle.dumps(by_id)), from_plain(to_plain(by_id))):
        assert made == by_id


def test_a_tree_publishes_its_rows():
    tree = Tree().add(0).add(0).add(1, depth=3)
    view = TreeView(tree.parent, np.ones(5), tree.ids)
    assert_array_equal(view.depth, tree.depth)
    assert_array_equal(view.leaves, tree.leaves)
    assert [view.ids[view.path(i)].tolist() for i in range(5)] == [
        tree.path_to(node).tolist() for node in tree.ids
    ]


@pytest.mark.parametrize(
    ("parent", "weight", "message"),
    [
        ([], [], "a value for each node"),
        ([0, 0], [1.0, 1.0], "-1 at row 0"),
        ([-1, 2, 0], [1.0, 1.0, 1.0], "a row before"),
    ],
)
def test_what_is_no_tree_is_refused(parent, weight, message):
    with pytest.raises(ValueError, match=message):
        TreeView(parent, weight)


# Text ---------------------------------------------------------------------------------


def test_text_has_an_indented_line_for_each_node_depth_first(view):
    assert view.to_text(LABELS, fold_chains=False).split("\n") == [
        "0 (100.0 %) all",
        "|--- 1 (50.0 %) one",
        "|   |--- 4 (35.0 %) four",
        "|   |   |--- 6 (30.0 %) six",
        "|   |--- 5 (5.0 %) five",
        "|--- 2 (30.0 %) two",
        "|--- 3 (20.0 %) three",
    ]


def test_a_node_and_its_only_child_share_a_line(view):
    assert view.to_text(LABELS).split("\n")[1:4] == [
        "|--- 1 (50.0 %) one",
        "|   |--- 4 > 6 (35.0 %) four > six",
        "|   |--- 5 (5.0 %) five",
    ]
    assert chain(50).to_text() == "0 > 1 > 50 (100.0 %)"


@pytest.mark.parametrize("labels", [LABELS[:-1], "abcdefg"])
@pytest.mark.parametrize("method", ["to_text", "to_dict", "to_frame", "to_networkx"])
def test_every_node_has_a_label(view, method, labels):
    with pytest.raises(ValueError, match="one text for each of 7 nodes"):
        getattr(view, method)(labels)


# Dict, table, graph -------------------------------------------------------------------


def test_dicts_are_nested_as_the_nodes_are(view):
    root = view.to_dict(LABELS)
    assert [child["node"] for child in root["children"]] == [1, 2, 3]
    four = root["children"][0]["children"][0]
    six = {"node": 6, "id": 5, "weight": 0.3, "label": "six", "children": []}
    assert four["children"] == [six]
    assert json.loads(json.dumps(root)) == root
    assert "label" not in view.to_dict()


@pytest.mark.parametrize("labels", [None, LABELS])
def test_frame_has_a_row_for_each_node(view, labels):
    frame = view.to_frame(labels)
    assert frame.index.tolist() == list(range(7))
    for name in ("id", "parent", "depth", "weight"):
        expected = getattr(view, "ids" if name == "id" else name)
        assert_array_equal(frame[name], expected)
    assert ("label" in frame) == (labels is not None)
    assert labels is None or frame["label"].tolist() == labels


@pytest.mark.parametrize("labels", [None, LABELS])
def test_graph_is_the_tree(view, labels):
    graph = view.to_networkx(labels)
    assert nx.is_arborescence(graph)
    assert list(graph) == list(range(7))
    for i in range(7):
        assert list(graph.successors(i)) == view.children(i).tolist()
        expected = {"id": IDS[i], "weight": WEIGHT[i]}
        expected |= {} if labels is None else {"label": labels[i]}
        assert graph.nodes[i] == expected


@pytest.mark.parametrize(
    ("method", "library"), [("to_frame", "pandas"), ("to_networkx", "networkx")]
)
def test_a_missing_library_says_what_to_install(view, method, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"`{method}` needs {library}.*\[export\]"):
        getattr(view, method)()


# Nodes without tokens -----------------------------------------------------------------


@pytest.fixture
def idle():
    """Node 1 has a child in use and no tokens; nodes 3 and 4 have neither."""
    in_use = [True, False, True, False, False]
    return TreeView([-1, 0, 1, 0, 3], [1.0, 0.6, 0.6, 0.4, 0.4], in_use=in_use)


def test_nodes_without_tokens_are_left_out_and_not_counted(idle):
    nodes, n_hidden = idle.select()
    assert nodes.tolist() == [0, 1, 2]
    assert n_hidden.tolist() == [0, 0, 0]
    assert idle.select(max_depth=1)[1].tolist() == [1]


def test_what_is_in_use_survives_pickling_and_tells_trees_apart(idle):
    assert pickle.loads(pickle.dumps(idle)) == idle
    assert idle != TreeView(idle.parent, idle.weight, idle.ids)
