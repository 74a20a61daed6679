"""New nodes for rows of another, against a slow twin."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from kernels.test_directions import PRIORS, TREE, unit
from kernels.test_interrupts import check_is_interrupted
from reference import dependent_trees as trees
from reference import tree_births as reference
from skbnp import DependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.models.dependent_trees import moves
from skbnp.models.dependent_trees.epoch import EpochMoves
from skbnp.models.dependent_trees.local import Memo, Naturals, sum_rows
from skbnp.models.dependent_trees.moves import (
    LEAST_ROWS,
    N_SEEDS,
    SHARE,
    Collected,
    propose_birth,
)
from skbnp.models.dependent_trees.state import EpochState, EpochStats, natural_lengths
from skbnp.models.dependent_trees.updates import natural_of


def epoch_with_rows(seed, dimension, target, n_rows=24, n_best=3):
    """An epoch, and rows around a node and around a direction where there is none.

    A third of the features are in no row.
    """
    rng, n = np.random.default_rng(seed), len(TREE)
    means = rng.uniform(0.3, 0.95, (n, 1)) * unit(rng.standard_normal((n, dimension)))
    past = np.array([2, 0, -1, 1, -1, -1, -1])
    state = EpochState(
        TREE,
        rng.gamma(2.0, 50.0, size=n),
        rng.gamma(1.0, 20.0, size=n),
        means,
        natural_lengths(np.linalg.norm(means, axis=1), 0.0, dimension),
        unit(rng.standard_normal((3, dimension))),
        past,
        0.5 * unit(rng.standard_normal(dimension)),
        np.zeros(dimension),
        2.0 * dimension,
        1.5 * dimension,
    )
    place = int(TREE.positions(target))
    centres = np.array([means[place], rng.standard_normal(dimension)])
    X = 3.0 * unit(centres)[np.arange(n_rows) % 2]
    X += 0.5 * unit(rng.standard_normal((n_rows, dimension)))
    X[:, : dimension // 3] = 0.0
    X[:, 1:-1][rng.random((n_rows, dimension - 2)) < 0.2] = 0.0
    X = unit(X).astype(np.float32)
    weights = rng.dirichlet(np.full(n_best, 0.1), size=n_rows).astype(np.float32)
    weights = -np.sort(-weights, axis=1)
    weights[::3, 1:] = 0.0
    others = TREE.ids[TREE.ids != target]
    nodes = np.array([rng.permutation(others)[:n_best] for _ in range(n_rows)])
    nodes[:, 0] = target
    nodes[weights == 0.0] = -1
    memo = Memo(nodes.astype(np.int32), weights)
    X = sp.csr_array(X)
    stats = sum_rows(TREE, memo, X)
    local_stats = EpochStats(state.masses, 2.0 * stats.sums, stats.entropies)
    collected = Collected(target, np.arange(n_rows), X, memo)
    return state, local_stats, collected


def seen(state, stats, collected):
    """What the twin reads, and shares of rows by position in the tree with the node."""
    tree = TREE.add(collected.target)
    new, target = (
        int(tree.positions(node)) for node in (TREE.next_id, collected.target)
    )
    naturals = Naturals.of(state, PRIORS).by_position(TREE)
    scale = naturals.lengths / naturals.mean_lengths
    near = reference.Near(
        new,
        target,
        tree.parent.tolist(),
        np.insert(state.masses, new, 0.0),
        np.insert(state.history, new, 0.0),
        np.insert(state.means, new, 0.0, axis=0),
        np.insert(scale[:, None] * state.means, new, 0.0, axis=0),
        np.insert(naturals.shares, new, 1.0),
        np.insert(naturals.spreads, new, 0.0),
        natural_of(state, stats, PRIORS, target),
        state.concentration,
        state.prior_concentration * PRIORS.parent_weight,
        (PRIORS.stop_concentration, PRIORS.child_concentration),
    )
    return near, by_position(tree, collected.memo)


def by_position(tree, memo):
    shares, result = memo.shares(), np.zeros((len(memo.nodes), len(tree)))
    rows, columns = np.nonzero(shares)
    places = tree.positions(memo.nodes[rows, columns])
    result[rows, places] = shares[rows, columns]
    return result


def propose(state, stats, collected, seed, n_rounds, least_gain=-10.0):
    naturals = Naturals.of(state, PRIORS).by_position(state.tree)
    rng = np.random.default_rng(seed)
    moves = EpochMoves(birth_rounds=n_rounds)
    given = state, stats, PRIORS, naturals, collected, moves
    return propose_birth(*given, least_gain, rng)


def find_by_twin(near, state, collected, q, seed, n_rounds):
    rows, n = collected.X.toarray().astype(np.float64), len(collected.rows)
    uniforms = np.random.default_rng(seed).random(N_SEEDS)
    at = [node for node, up in enumerate(near.parent) if up == near.target]
    at = [near.target, *(node for node in at if node != near.new)]
    eta = np.insert(state.concentrations, near.new, 0.0)[at]
    lengths = trees.bessel_ratio(eta, rows.shape[1])
    far = near.means[at], lengths
    seeds = [reference.far_row(rows, *far, uniform) for uniform in uniforms]
    given = seeds, max(LEAST_ROWS, int(SHARE * n)), n_rounds
    return reference.find_birth(near, rows, q, *given, collected.memo.nodes.shape[1])


@pytest.mark.parametrize(
    ("dimension", "target", "n_rounds"),
    [(4, 0, 10), (30, 1, 10), (4, 3, 1), (30, 3, 10), (30, 0, 1)],
)
def test_births_are_those_of_the_twin(dimension, target, n_rounds, seed):
    state, stats, collected = epoch_with_rows(seed, dimension, target)
    near, q = seen(state, stats, collected)
    result = propose(state, stats, collected, seed, n_rounds)
    given = state, collected, q, seed, n_rounds
    gain, after = find_by_twin(near, *given)
    assert (result is None) == (gain <= -10.0)
    if result is None:
        return
    assert_allclose(result.gain, gain, rtol=3e-8, atol=5e-7)
    tree = result.record.edit(TREE)
    shares = by_position(tree, result.memo)
    assert_allclose(shares, after, rtol=1e-5, atol=1e-11)
    assert_array_equal(shares > 0.0, after > 0.0)  # not what is negligible
    change = (after - q).sum(axis=0)
    concerned = tree.positions(result.ids)
    assert_allclose(result.change.masses, change[concerned], atol=1e-6)
    assert_allclose(np.delete(change, concerned), 0.0, atol=1e-12)
    for name, value in (
        ("pull", 1.01 * near.pull),
        ("shares", 0.5 * near.shares),
        ("spreads", 1.5 * near.spreads),
        ("history", 1.1 * near.history),
        ("beta", 1.01 * near.beta),
    ):
        wrong, _ = find_by_twin(replace(near, **{name: value}), *given)
        assert not np.isclose(wrong, gain, rtol=1e-7, atol=1e-6)


def test_births_gain_more_than_the_least(seed):
    state, stats, collected = epoch_with_rows(seed, 30, 1)
    gain = propose(state, stats, collected, seed, 10).gain
    assert propose(state, stats, collected, seed, 10, gain) is None
    assert propose(state, stats, collected, seed, 10, gain - 1e-9).gain == gain


def test_many_rows_look_for_interrupts():
    state, stats, collected = epoch_with_rows(0, 200, 1, n_rows=3000)
    check_is_interrupted(lambda: propose(state, stats, collected, 0, 10))


@pytest.mark.long
def test_a_topic_is_found_by_one_of_several_seeds(monkeypatch):
    corpus = make_dependent_trees(200, n_epochs=50, past_weight=3.0, random_state=1108)
    X = corpus.data[corpus.epochs == 0]
    assert DependentTrees(random_state=1108).fit(X).n_components_ == 10
    monkeypatch.setattr(moves, "FIRST_SEEDS", 1)
    assert DependentTrees(random_state=1108).fit(X).n_components_ == 9
