"""Rows that choose their nodes one by one before the first visit of an epoch."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

from skbnp import DependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.models.dependent_trees import assignments, epoch
from skbnp.models.dependent_trees.assignments import Assigned, assign_rows
from skbnp.models.dependent_trees.epoch import EpochModel, EpochMoves, close_epoch
from skbnp.models.dependent_trees.local import NodeTable, sum_rows, update_local
from skbnp.models.dependent_trees.records import remove
from skbnp.models.dependent_trees.state import EpochStats, TreePriors, next_epoch
from skbnp.models.dependent_trees.updates import node_sums, spherical_kmeans, start_tree

PRIORS = TreePriors()


def grouped(seed, n_rows=150, n_groups=40):
    """Small groups in a thousand dimensions, where means hold their rows fast."""
    rng = np.random.default_rng(seed)
    target = rng.integers(n_groups, size=n_rows)
    rows = 1.2 * rng.standard_normal((n_groups, 1000))[target]
    rows += rng.standard_normal(rows.shape)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return target, sp.csr_array(rows.astype(np.float32))


def assigned(X, n_clusters, seed, moves=EpochMoves(), others=None, limit=np.inf, **run):  # noqa: B008
    """Begin with clusters; others are by the tree of these."""
    rng = np.random.default_rng(seed)
    labels = spherical_kmeans(X, n_clusters, rng)
    state, _ = start_tree(X, labels, PRIORS)
    if others is None:
        others = EpochStats.zero(len(state.tree), X.shape[1])
    return state, assign_rows(
        EpochModel(PRIORS), state, others, X, moves, limit, rng, **run
    )


def test_rows_open_the_nodes_that_clusters_lack(seed):
    target, X = grouped(seed)
    _, result = assigned(X, 10, seed)
    assert adjusted_rand_score(target, result.nodes) > 0.6
    _, closed = assigned(X, 10, seed, None)
    assert len(closed.state.tree) <= 11
    assert adjusted_rand_score(target, closed.nodes) < 0.45


def test_passes_of_single_rows_raise_the_bound(seed, monkeypatch):
    _, X = grouped(seed)

    def bound():
        _, result = assigned(X, 50, seed)
        return sum(result.model.objective(result.state, result.stats).values())

    one_by_one = bound()
    monkeypatch.setattr(assignments, "N_PASSES", 0)
    assert one_by_one > 1.05 * bound()


def test_statistics_are_those_of_rows_at_their_nodes(seed):
    _, X = grouped(seed)
    rng = np.random.default_rng(seed)
    stay = node_sums(X[:50], rng.integers(5, size=50), 5)
    before, result = assigned(X[50:], 4, seed, others=stay)
    tree = result.state.tree
    own = node_sums(X[50:], tree.positions(result.nodes), len(tree))
    whole = own.plus(result.others)
    assert_allclose(result.stats.masses, whole.masses, atol=1e-9)
    assert_allclose(result.stats.sums.toarray(), whole.sums.toarray(), atol=1e-9)
    assert_array_equal(result.state.masses, result.stats.masses)
    for node, mass in zip(before.tree.ids, stay.masses, strict=True):  # they stay
        assert result.others.masses[tree.positions(node)] == pytest.approx(mass)
    assert result.others.masses.sum() == pytest.approx(50.0)


def test_lineage_tells_what_has_become_of_nodes(seed):
    _, X = grouped(seed)
    before, result = assigned(X, 3, seed)
    log = result.lineage_since(before.tree, 7)
    known = set(before.tree.ids.tolist())
    for step, kind, parents, children in log:
        assert step == 7
        if kind == "birth":
            assert parents[0] in known  # those above first
            assert result.state.tree.parent_of(children[1]) == parents[0]
            known.add(children[1])
        elif kind == "prune":
            known.remove(parents[0])
    assert known == set(result.state.tree.ids.tolist())
    assert sum(one.kind == "birth" for one in log) > 2
    assert result.lineage_since(result.state.tree, 7) == []


def test_new_nodes_of_later_epochs_need_evidence(seed, monkeypatch):
    target, X = grouped(seed)
    _, result = assigned(X[target < 20], 20, seed)
    rows = X[target >= 20]
    model = EpochModel(PRIORS, is_first=False)
    state = next_epoch(result.state, result.stats.masses)
    none = EpochStats.zero(len(state.tree), X.shape[1])
    rng, counts = np.random.default_rng(seed), []
    for least in (0.0, np.inf):
        monkeypatch.setattr(epoch, "LEAST_EVIDENCE", least)
        given = model, state, none, rows, EpochMoves(), np.inf, rng
        after = assign_rows(*given).state.tree
        counts.append(len(np.setdiff1d(after.ids, state.tree.ids)))
    assert counts[0] > counts[1] == 0


# Births at the start of an epoch ------------------------------------------------------


def planted_drift(seed, until):
    """Epochs of a tree of which one leaf begins in epoch 2, and another ends then."""
    lifetimes = np.tile([0, 5], (10, 1))
    lifetimes[9, 0], lifetimes[6, 1] = 2, 2
    corpus = make_dependent_trees(
        300, n_epochs=6, lifetimes=lifetimes, past_weight=3.0, random_state=seed
    )
    some = corpus.epochs <= until
    trees = DependentTrees(random_state=seed)
    return corpus, trees.fit(corpus.data[some], epochs=corpus.epochs[some])


def name_of(corpus, trees, epoch, node):
    """The name that most rows of a planted node have in an epoch."""
    record = trees.epochs_[epoch]
    rows = corpus.data[(corpus.epochs == epoch) & (corpus.target == node)]
    nearest = (rows @ record.components.T).argmax(axis=1)
    return record.component_ids[np.bincount(nearest).argmax()]


@pytest.fixture(scope="module")
def drifts():
    """Posteriors whose third epoch, in which a topic begins, is open; and its rows."""
    result = {}
    for seed in (294, 1374):
        corpus, trees = planted_drift(seed, until=1)
        close_epoch(trees._posterior, 2)
        X = corpus.data[corpus.epochs == 2].astype(np.float32)
        result[seed] = trees._posterior, sp.csr_array(X)
    return result


@pytest.fixture
def opened(drifts):
    """Begin the third epoch; ids of new nodes, and what rows have chosen."""

    def begin(seed, moves=EpochMoves(), limit=np.inf, **run):  # noqa: B008
        posterior, X = copy.deepcopy(drifts[seed])
        before = posterior.model, posterior.state, posterior.global_stats
        rng = np.random.default_rng(seed)
        result = assign_rows(*before, X, moves, limit, rng, **run)
        return np.setdiff1d(result.state.tree.ids, posterior.state.tree.ids), result

    return begin


@pytest.mark.long
def test_a_topic_is_born_before_directions_follow_its_rows(monkeypatch):
    """If not, it has the node of its parent, whose rows are at other nodes then."""

    def is_new():
        corpus, trees = planted_drift(1306, until=2)
        return name_of(corpus, trees, 2, 9) not in trees.epochs_[1].component_ids

    assert is_new()
    monkeypatch.setattr(assignments, "_propose_births", lambda *given: [])
    assert not is_new()


@pytest.mark.long
def test_what_has_the_higher_bound_stays(opened, monkeypatch):
    def sizes(bounds):
        """Count new nodes where so many have these bounds."""
        n_nodes = 9 + np.arange(3)
        bound_of = dict(zip(n_nodes.tolist(), bounds, strict=True))
        monkeypatch.setattr(
            Assigned, "bound", property(lambda result: bound_of[len(result.state.tree)])
        )
        new, _ = opened(294)
        return len(new)

    assert sizes([0.0, 0.0, 1.0]) == 2
    assert sizes([1.0, 1.0, 1.0]) == 0


def test_births_are_tried_where_there_may_be_some(opened, monkeypatch):
    """Not in a first epoch, without moves or births, or where nodes are enough."""
    tried, with_births = [], assignments._with_births

    def note(visited, births):
        tried.append(len(births))
        return with_births(visited, births)

    monkeypatch.setattr(assignments, "_with_births", note)
    _, X = grouped(0)
    assigned(X, 10, 0)
    opened(294, None)
    opened(294, EpochMoves(birth=False))
    opened(294, limit=9)
    assert tried == []
    opened(294, limit=10)
    assert tried == [1]
    opened(294)
    assert tried[1] == 2


def test_rows_that_are_not_at_hand_stay_where_births_are(drifts, monkeypatch):
    monkeypatch.setattr(Assigned, "bound", property(lambda one: len(one.state.tree)))
    posterior, X = copy.deepcopy(drifts[1374])
    state = posterior.state
    nearest = (X @ state.means.T).argmax(axis=1)
    others = node_sums(X[:100], nearest[:100], len(state.tree))
    result = assign_rows(
        posterior.model,
        state,
        others,
        X[100:],
        EpochMoves(),
        np.inf,
        np.random.default_rng(0),
    )
    tree = result.state.tree
    assert len(np.setdiff1d(tree.ids, state.tree.ids)) > 0
    assert result.others.masses.sum() == pytest.approx(100.0)
    own = node_sums(X[100:], tree.positions(result.nodes), len(tree))
    assert_allclose(result.stats.masses, own.plus(result.others).masses, atol=1e-9)


def test_what_rows_say_is_of_the_nodes_that_are_left(monkeypatch):
    """A leaf ends though rows have a part in it."""
    _, X = grouped(0)
    state, _ = assigned(X, 4, 0, None)
    state = replace(state, concentration=1.0)
    ends = int(state.tree.ids[-1])
    memo, _ = update_local(NodeTable.collapsed(state, PRIORS), X)
    assert (memo.weights[memo.nodes == ends] > 0.0).any()
    monkeypatch.setattr(
        assignments.records,
        "propose_removals",
        lambda state, stats: [remove(ends)] if ends in state.tree else [],
    )
    none = EpochStats.zero(len(state.tree), X.shape[1])
    visited, memo = assignments._score_all(EpochModel(PRIORS), state, none, X, map)
    assert ends not in visited.state.tree
    new_assignments = sum_rows(visited.state.tree, memo, X)
    assert_allclose(new_assignments.masses.sum(), X.shape[0])
