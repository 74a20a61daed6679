"""The nested HDP: its document step, statistics and start against slow twins."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from checks.grids import on_grid
from reference import nested_hdp as reference
from skbnp.components.word_topics import WordRows, WordTopics
from skbnp.kernels._nested import infer_nested
from skbnp.kernels._restaurant import expected_tables_grid, n_grid_rows
from skbnp.models.nested_hdp import (
    MixedTree,
    NestedHDPModel,
    NestedStats,
    grouped_start,
    prune,
)
from skbnp.trees import Tree

#: Sums and products of doubles, passed on by ten iterations.
NEAR = {"rtol": 1e-9, "atol": 1e-12}
#: Tables are read from a grid in single precision, where a mass may round otherwise.
SINGLE = 2e-5
#: Trees by depths: of one node, flat, of one path, and of several levels.
TREES = {
    "root": [0],
    "flat": [0, 1, 1, 1],
    "path": [0, 1, 2],
    "deep": [0, 1, 2, 3, 3, 2, 1, 2, 2, 1],
}
each_tree = pytest.mark.parametrize("depth", TREES.values(), ids=TREES)


def random_state(rng, depth):
    tree = Tree(np.arange(len(depth)), depth)
    weights = np.ones(len(depth))
    for node in np.unique(tree.parent[1:]):
        children = np.flatnonzero(tree.parent == node)
        weights[children] = rng.dirichlet(np.full(len(children) + 1, 2.0))[:-1]
    n_levels = max(tree.max_depth, 1)
    return MixedTree(tree, weights, rng.gamma(2.0, 1.0, n_levels) + 0.1, 1.3, 0.07)


def twin_of(state, model):
    children = [
        np.flatnonzero(state.tree.parent == node).tolist()
        for node in range(state.n_components)
    ]
    return reference.Tree(children, state.weights, state.totals, model.stop, model.go)


def run(
    state,
    model,
    counts,
    topic_words,
    held=1.0,
    *,
    whole=True,
    max_iter=10,
    tol=1e-9,
    words=(),
):
    counts = np.atleast_2d(counts)
    X, eta = sp.csr_array(counts), state.topic_word_prior
    norm = len(topic_words) * eta + topic_words.sum(axis=0)
    return infer_nested(
        X.indptr.astype(np.int32),
        X.indices.astype(np.int32),
        X.data.astype(float),
        (topic_words + eta) / norm,
        norm,
        eta,
        state.tree.parent.astype(np.int32),
        state.prior,
        state.totals,
        state.rest,
        model.stop,
        model.go,
        np.full(len(counts), held),
        whole,
        0.5,
        max_iter,
        tol,
        float(len(topic_words)),
        *words,
    )


@each_tree
@pytest.mark.parametrize("whole", [True, False], ids=["types", "tokens"])
@pytest.mark.parametrize("discount", [None, 0.0, 0.6])
def test_step_is_that_of_the_slow_twin(discount, depth, whole, seed):
    """Of tokens, or of tables of words that documents repeat."""
    rng = np.random.default_rng([seed, 1])
    state, model = random_state(rng, depth), NestedHDPModel(stop=0.4, go=0.8)
    counts = rng.poisson(0.8, size=(5, 30)) * rng.geometric(0.4, size=(5, 30))
    counts[2], counts[3] = 0, np.minimum(counts[3], 1)
    counts = counts * (1.0 if discount is not None else rng.choice([1.0, 0.5, 7.0]))
    topic_words = rng.gamma(0.3, 5.0, size=(30, len(depth)))
    topic_words += counts.sum(axis=0)[:, None]
    held, near, words, repeats = 0.9 if whole else 0.0, NEAR, (), None
    if discount is not None:
        grid = expected_tables_grid(discount, n_grid_rows(counts.max()))
        words, near = (grid, discount, 20.0), {"rtol": SINGLE, "atol": SINGLE}
        repeats = reference.Repeats(discount, 20.0, on_grid(grid))
    limits, nodes, tokens, ends, used, sums, logs, tables, base = run(
        state, model, counts, topic_words, held, whole=whole, words=words
    )
    doc_nodes = sp.csr_array((tokens, nodes, limits), (5, len(depth))).toarray()
    stored = sp.csr_array((sums, used, ends), (len(ends) - 1, len(depth))).toarray()
    expected_logs, at = 0.0, 0
    for doc in np.flatnonzero(counts.any(axis=1)):
        row = counts[doc]
        twin = reference.local_step(
            twin_of(state, model),
            row,
            topic_words,
            state.topic_word_prior,
            held,
            whole=whole,
            active=0.5,
            max_iter=10,
            tol=1e-9,
            repeats=repeats,
        )
        seen = np.flatnonzero(row)
        here = slice(at, at + len(seen))
        of_words = row if discount is None else twin.tables
        assert_allclose(stored[here], of_words[seen, None] * twin.shares[seen], **near)
        assert_allclose(doc_nodes[doc], twin.tokens, **near)
        if discount is not None:
            assert_allclose(tables[here], twin.tables[seen], rtol=SINGLE)
            assert_allclose(base[here], twin.base[seen], rtol=SINGLE)
        expected_logs, at = expected_logs + twin.log_predictive, at + len(seen)
    # The twin reads no grid there.
    assert_allclose(logs, expected_logs, rtol=1e-9 if discount is None else 1e-4)
    of_all = counts[counts > 0.0] if discount is None else tables
    assert_allclose(stored.sum(axis=1), of_all, rtol=1e-12)
    assert discount is None or tables.sum() < 0.95 * counts.sum()


@each_tree
def test_tables_are_those_of_the_slow_twin(depth, seed):
    rng = np.random.default_rng(seed)
    state, model = random_state(rng, depth), NestedHDPModel()
    doc_nodes = rng.gamma(0.5, 3.0, size=(7, len(depth)))
    doc_nodes *= rng.random(doc_nodes.shape) < 0.6
    words = WordRows(np.arange(1), sp.csr_array(doc_nodes.sum(axis=0)[None]))
    result = model.statistics(state, words, sp.csr_array(doc_nodes), 1.0, 0.0)
    tables, growth = reference.tables(twin_of(state, model), doc_nodes)
    assert_allclose(result.tables, tables, rtol=1e-9, atol=1e-12)
    assert_allclose(result.growth, growth, rtol=1e-9, atol=1e-12)


def test_update_leaves_children_that_are_not_in_the_tree_their_share():
    state, model = (
        random_state(np.random.default_rng(0), TREES["deep"]),
        NestedHDPModel(),
    )
    global_stats = model.start(state, WordTopics(np.ones((3, 10))))
    global_stats.tables[1:] = np.arange(1.0, 10.0)
    new = model.update(state, global_stats)
    gamma, above = new.child_concentration, state.tree.parent
    for node in np.unique(above[1:]):
        children = np.flatnonzero(above == node)
        masses = global_stats.tables[children]
        expected = masses / (masses.sum() + gamma)
        assert_allclose(new.weights[children], expected, rtol=1e-12)
    assert (new.rest[np.unique(above[1:])] > 0.0).all()


# The start ----------------------------------------------------------------------------


def grouped_counts(rng, n_docs=300):
    """Six topics, of which documents have those of one half."""
    counts = np.zeros((n_docs, 6))
    counts[::2, :3] = rng.dirichlet([1.0, 1.0, 1.0], len(counts[::2]))
    counts[1::2, 3:] = rng.dirichlet([1.0, 1.0, 1.0], len(counts[1::2]))
    return sp.csr_array(rng.poisson(40.0 * counts).astype(float))


def start_of(rng, doc_topic, max_depth, **changes):
    topics = WordTopics(rng.gamma(0.2, 1.0, size=(40, 6)))
    given = {"n_groups": None, "concentration": (1.0, 1.0), "eta": 0.05} | changes
    model = NestedHDPModel()
    begun = grouped_start(model, topics, doc_topic, max_depth=max_depth, **given)
    return topics, begun


@pytest.mark.parametrize(("max_depth", "n_nodes"), [(1, 1), (2, 7), (3, 9)])
def test_start_has_the_groups_of_the_documents_and_all_their_words(max_depth, n_nodes):
    rng = np.random.default_rng(0)
    topics, begun = start_of(rng, grouped_counts(rng), max_depth)
    tree = begun.state.tree
    assert len(tree) == n_nodes
    assert tree.max_depth == max_depth - 1
    assert_allclose(
        begun.global_stats.topic_words.dense().sum(axis=1), topics.dense().sum(axis=1)
    )
    if max_depth == 3:
        assert (np.bincount(tree.parent[1:], minlength=9)[tree.parent[1:]] >= 2).all()


def pruned(depth, tables, words):
    rng = np.random.default_rng(0)
    state, model = random_state(rng, depth), NestedHDPModel()
    tables = np.array(tables, dtype=float)
    stats = NestedStats(WordTopics(words), tables, np.ones(len(depth)), 0.0, 1.0)
    return state, *prune(model, state, stats)


def test_leaves_that_no_document_uses_join_the_nodes_above(seed):
    words = np.random.default_rng(seed).gamma(0.5, 2.0, size=(9, 7))
    # 0 above 1, 5, 6; 1 above 2, 3, 4
    depth, tables = [0, 1, 2, 2, 2, 1, 1], [0, 9, 4, 0.3, 3, 0.4, 5]
    before, state, stats, pairs = pruned(depth, tables, words)
    assert pairs == [(5, 0), (3, 1)]
    assert state.tree.ids.tolist() == [0, 1, 2, 4, 6]
    result = stats.topic_words.seen_counts()
    assert_allclose(result[:, 0], words[:, 0] + words[:, 5])
    assert_allclose(result[:, 1], words[:, 1] + words[:, 3])
    assert_allclose(result[:, 2:], words[:, [2, 4, 6]])
    assert stats.tables.tolist() == [0, 9, 4, 3, 5]
    assert before.tree.ids.tolist() == [*range(7)]
