"""Trees as arrays: every edit and every array against a tree of dicts."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from reference.trees import DictTree
from skbnp.trees import Tree

#: 0 above 1, 2, 3; 1 above 4, 5; 4 above 6; 3 above 7.
SMALL = Tree([0, 1, 4, 6, 5, 2, 3, 7], [0, 1, 2, 3, 2, 1, 1, 2])


def check_invariants(tree):
    """No orphan, no cycle, depths and order right, whatever made the arrays."""
    parent, depth, n = tree.parent, tree.depth, len(tree.ids)
    assert len(parent) == len(depth) == n > 0
    assert len(set(tree.ids.tolist())) == n, "ids are unique"
    assert parent[0] == -1, "the root comes first"
    assert depth[0] == 0
    for i in range(1, n):
        assert 0 <= parent[i] < i, "parents come before children"
        assert depth[i] == depth[parent[i]] + 1
        # Depth first: what comes before is the parent or in a sibling's subtree.
        j = i - 1
        while j > parent[i]:
            j = parent[j]
        assert j == parent[i], "subtrees are slices"


def random_edit(tree, slow, rng):
    """Edit both trees alike; return the one that does not change."""
    ids = slow.subtree()
    node, other = (int(k) for k in rng.choice(ids, 2))
    kind = rng.integers(8)
    if kind <= 2 or len(ids) < 3 or node == 0:
        slow.add(node)
        return tree.add(node)
    if kind == 3:
        depth = slow.depth(node) + int(rng.integers(1, 4))
        slow.add_chain(node, depth)
        return tree.add(node, depth=depth)
    if kind == 4 and len(slow.subtree(node)) < 5:
        if rng.integers(2):
            slow.remove_upwards(node)
            return tree.remove_upwards(node)
        slow.remove(node)
        return tree.remove(node)
    if kind == 5:
        above = slow.parent[node]
        others = [k for k in [above, *slow.children[above]] if k != node]
        target = int(rng.choice(others))
        slow.merge(node, target)
        return tree.merge(node, target)
    if kind == 6 and node not in slow.path(other):
        slow.move(node, other)
        return tree.move(node, other)
    values = rng.integers(4, size=len(ids))
    slow.sort_siblings(dict(zip(ids, values, strict=True)))
    return tree.sort_siblings(values)


def random_pair(seed, n_edits):
    rng = np.random.default_rng(seed)
    tree, slow = Tree(), DictTree()
    for _ in range(n_edits):
        tree = random_edit(tree, slow, rng)
    return tree, slow


# Against the reference ----------------------------------------------------------------


@pytest.mark.weekly
def test_1000_random_sequences_of_edits_equal_the_tree_of_dicts():
    for seed in range(1000):
        tree, slow = random_pair(seed, 20 + seed % 20)
        tree.check()
        check_invariants(tree)
        assert tree.ids.tolist() == slow.subtree()
        assert tree.depth.tolist() == [slow.depth(node) for node in tree.ids]
        assert tree.next_id == slow.next_id


@pytest.mark.parametrize("seed", range(5))
def test_queries_equal_the_tree_of_dicts(seed):
    tree, slow = random_pair(seed, 60)
    ids = slow.subtree()
    for node in ids:
        assert tree.parent_of(node) == slow.parent[node]
        assert tree.children_of(node).tolist() == slow.children[node]
        assert tree.path_to(node).tolist() == slow.path(node)
        assert tree.subtree_of(node).tolist() == slow.subtree(node)
        assert tree.depth_of(node) == slow.depth(node)


@pytest.mark.parametrize("seed", range(5))
def test_arrays_equal_the_tree_of_dicts(seed):
    tree, slow = random_pair(seed, 60)
    ids = slow.subtree()
    assert tree.size.tolist() == [len(slow.subtree(node)) for node in ids]
    leaves = [node for node in ids if not slow.children[node]]
    assert tree.ids[tree.leaves].tolist() == leaves
    for depth, rows in enumerate(tree.levels):
        level = [node for node in ids if slow.depth(node) == depth]
        assert tree.ids[rows].tolist() == level
    assert len(tree.levels) == tree.max_depth + 1
    for node, path in zip(ids, tree.paths(), strict=True):
        assert tree.ids[path[path >= 0]].tolist() == slow.path(node)
        assert (path[slow.depth(node) + 1 :] == -1).all()
    assert_array_equal(tree.paths(tree.leaves), tree.paths()[tree.leaves])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_sums_go_up_and_down_the_tree(seed, shape):
    tree, slow = random_pair(seed, 60)
    values = np.random.default_rng(seed).normal(size=(len(tree), *shape))
    before, by_id = values.copy(), dict(zip(slow.subtree(), values, strict=True))
    up = [slow.total(by_id, node) for node in tree.ids]
    down = [slow.along(by_id, node) for node in tree.ids]
    assert_allclose(tree.accumulate(values), up, atol=1e-12)
    assert_allclose(tree.distribute(values), down, atol=1e-12)
    assert_array_equal(values, before)
    if shape == ():
        for numbers in (10.0 * values).astype(int), np.round(10.0 * values):
            result = tree.count(numbers)
            assert result.dtype == numbers.dtype
            assert_array_equal(result, tree.accumulate(numbers))


# Edits --------------------------------------------------------------------------------


def test_edits_leave_the_tree_as_it_was():
    tree = Tree(SMALL.ids, SMALL.depth)
    for edited in (
        tree.add(2),
        tree.remove(3),
        tree.merge(1, 3),
        tree.move(1, 3),
        tree.sort_siblings(-tree.ids),
    ):
        assert edited != tree
        assert tree == SMALL


def test_an_id_never_returns():
    tree = Tree().add(0)
    assert tree.remove(1).add(0).ids.tolist() == [0, 2]


def test_an_edge_is_reversed():
    tree = SMALL.reverse(1, 0)
    check_invariants(tree)
    assert tree.ids.tolist() == [1, 4, 6, 5, 0, 2, 3, 7]
    assert tree.depth.tolist() == [0, 1, 2, 1, 1, 2, 2, 3]
    below = SMALL.reverse(4, 1)
    check_invariants(below)
    assert below.parent_of(4) == 0
    assert below.parent_of(1) == 4
    assert below.children_of(4).tolist() == [6, 1]
    assert below.children_of(1).tolist() == [5]
    # Children keep their parents, so that a second reversal is the way back.
    back = below.reverse(1, 4)
    assert back.sort_siblings(back.ids) == SMALL.sort_siblings(SMALL.ids)
    with pytest.raises(ValueError, match="root"):
        SMALL.reverse(0, 0)
    with pytest.raises(ValueError, match="not the parent"):
        SMALL.reverse(4, 0)


def test_nodes_exchange_names_and_siblings_have_the_order_of_a_list():
    tree = SMALL.rename([1, 4], [4, 1])
    check_invariants(tree)
    assert tree.ids.tolist() == [0, 4, 1, 6, 5, 2, 3, 7]
    assert_array_equal(tree.depth, SMALL.depth)
    with pytest.raises(ValueError, match="one id"):
        SMALL.rename([1], [4])
    order = SMALL.sort_siblings(-SMALL.ids)
    assert SMALL.sorted_as(order.ids) == order != SMALL


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda: SMALL.add(9), "no node 9"),
        (lambda: SMALL.add(4, depth=2), "depth must be >= 3"),
        (lambda: SMALL.remove(0), "is the root"),
        (lambda: SMALL.merge(0, 1), "is the root"),
        (lambda: SMALL.merge(1, 4), "no sibling or parent"),
        (lambda: SMALL.move(0, 2), "is the root"),
        (lambda: SMALL.move(1, 6), "a part of it"),
        (lambda: SMALL.sort_siblings([1, 2]), "key must have 8 values"),
        (lambda: SMALL.accumulate([1, 2]), "8 nodes have values"),
        (lambda: SMALL.positions([4, 9, 1]), r"no node \[9\]"),
    ],
)
def test_what_cannot_be_done_is_refused(edit, message):
    with pytest.raises(ValueError, match=message):
        edit()


# Building, copying --------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_parents_in_any_order_make_the_tree(seed):
    rng = np.random.default_rng(seed)
    tree, _ = random_pair(seed, 60)
    place = rng.permutation(len(tree))  # where each node stands in the list
    parent, ids = (np.empty(len(tree), dtype=int) for _ in range(2))
    parent[place] = np.where(tree.parent < 0, -1, place[tree.parent])
    ids[place] = tree.ids
    built = Tree.from_parents(parent, ids, tree.next_id)
    check_invariants(built)
    assert set(built.ids) == set(tree.ids)
    assert built.sort_siblings(tree.positions(built.ids)) == tree


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, pickle.loads])
def test_copies_are_equal(twin):
    given = pickle.dumps(SMALL) if twin is pickle.loads else SMALL
    assert twin(given) == SMALL
    assert not twin(given).ids.flags.writeable


@pytest.mark.parametrize("name", ["ids", "depth", "parent", "size", "leaves"])
def test_arrays_cannot_be_written_to(name):
    with pytest.raises(ValueError, match="read-only"):
        getattr(SMALL.add(0), name)[0] = 1


# Negative controls --------------------------------------------------------------------


def test_digests_name_trees():
    tree = Tree([0, 1, 5, 4], [0, 1, 2, 1])
    assert tree.digest() == Tree([0, 1, 5, 4], [0, 1, 2, 1]).digest()
    others = [
        Tree([0, 1, 4, 5], [0, 1, 2, 1]),
        Tree([0, 1, 5, 4], [0, 1, 1, 1]),
        Tree([0, 1, 5, 4], [0, 1, 2, 1], next_id=7),
    ]
    assert len({tree.digest(), *(other.digest() for other in others)}) == 4
