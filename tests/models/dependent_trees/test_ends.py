"""Nodes with less than two rows end, together with new parents of those near them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from skbnp import DependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.inference.trials import WAIT, Rejections
from skbnp.models.dependent_trees.epoch import EpochModel, EpochPosterior
from skbnp.models.dependent_trees.model import (
    EpochState,
    EpochStats,
    TreePriors,
    merge_gain,
    update_nodes,
    update_sticks,
)
from skbnp.models.dependent_trees.moves import merges, structure
from skbnp.models.dependent_trees.moves.products import Products
from skbnp.models.dependent_trees.moves.records import Attach, Merge
from skbnp.models.dependent_trees.moves.settings import EpochMoves
from skbnp.trees import Tree

PRIORS = TreePriors(0.5, 0.5, 1.0, 1.0)
#: Node 1 has two children, node 4 one; node 3 is a leaf.
TREE = Tree.from_parents([-1, 0, 1, 1, 0, 4, 0])
NO_LOSSES = merges.PairLosses(np.empty((0, 2), dtype=np.int64), np.empty(0))


def state_of(masses, past=None, history=None, dimension=20):
    """Rows around directions of their own, each node at its optimum."""
    rng, n = np.random.default_rng(0), len(TREE)
    directions = rng.standard_normal((n, dimension)) + 1.0
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    masses = np.asarray(masses, dtype=float)
    state = EpochState(
        TREE,
        masses,
        np.zeros(n) if history is None else history,
        0.9 * directions,
        np.full(n, 50.0),
        directions if past is not None else np.zeros((0, dimension)),
        np.full(n, -1) if past is None else past,
        np.zeros(dimension),
        directions[0],
        60.0,
        40.0,
    )
    sums = sp.csr_array(masses[:, None] * directions * 0.9)
    stats = EpochStats(masses, sums, np.zeros(n))
    state = update_sticks(state, stats)
    for _ in range(20):
        state = update_nodes(state, stats, PRIORS, TREE.ids)
    return state, stats


def propose(state, stats, losses=NO_LOSSES, rejections=None, n_passes=0):
    waits = Rejections() if rejections is None else rejections
    products = Products.of(state, PRIORS)
    given = state, stats, PRIORS, products, losses, waits, n_passes
    return merges.propose_ends(*given)


def pairs(found):
    return [(one.merge.source, one.merge.target) for one in found]


@pytest.fixture(autouse=True)
def _no_slack(request, monkeypatch):
    """Let all ends be judged: these trees are small, and lose much."""
    if "slack" not in request.node.name:
        monkeypatch.setattr(merges, "END_SLACK", np.inf)


@pytest.mark.parametrize("mass", [0.0, 1.9])
def test_nodes_with_less_than_two_rows_merge_with_their_neighbours(mass):
    state, stats = state_of([9, mass, 9, 9, 9, 9, 9])
    found = pairs(propose(state, stats))
    assert len(found) == merges.N_TARGETS
    assert set(found) < {(1, 0), (2, 1), (3, 1)}
    gains = [merge_gain(state, stats, PRIORS, *pair).gain for pair in found]
    assert gains == sorted(gains, reverse=True)
    assert pairs(propose(*state_of([9, 2, 9, 9, 9, 9, 9]))) == []


def test_the_root_takes_the_rows_of_a_child_and_a_chain_is_cut():
    assert set(pairs(propose(*state_of([0, 9, 9, 9, 9, 9, 9])))) < {
        (1, 0),
        (4, 0),
        (6, 0),
    }
    assert set(pairs(propose(*state_of([9, 9, 9, 9, 0, 9, 9])))) == {(4, 0), (5, 4)}


def test_as_many_as_are_judged_are_proposed_none_twice(monkeypatch):
    """Nodes 0 and 1, and 4 and 5, are idle, one below the other."""
    state, stats = state_of([0, 0, 9, 9, 0, 0, 0])
    for n_ends in (2, 4):
        monkeypatch.setattr(merges, "N_ENDS", n_ends)
        found = pairs(propose(state, stats))
        assert len(set(found)) == len(found) == n_ends
    monkeypatch.setattr(merges, "N_ENDS", 100)
    monkeypatch.setattr(merges, "N_TARGETS", 100)
    every = {(1, 0), (2, 1), (3, 1), (4, 0), (5, 4), (6, 0)}
    found = pairs(propose(state, stats))
    assert len(found) == len(every)
    assert set(found) == every


def test_what_waits_leaves_its_place_to_others():
    state, stats = state_of([0, 0, 9, 9, 0, 0, 0])
    first = pairs(propose(state, stats))
    waits = Rejections()
    for pair in first:
        waits.add(pair, 0)
    second = pairs(propose(state, stats, rejections=waits, n_passes=1))
    assert second
    assert set(second).isdisjoint(first)
    assert pairs(propose(state, stats, rejections=waits, n_passes=WAIT)) == first


def test_an_end_that_loses_more_than_the_slack_is_not_judged(monkeypatch):
    state, stats = state_of([9, 0, 9, 9, 9, 9, 9])
    monkeypatch.setattr(merges, "END_SLACK", np.inf)
    everything = pairs(propose(state, stats))
    gains = [merge_gain(state, stats, PRIORS, *pair).gain for pair in everything]
    monkeypatch.setattr(merges, "END_SLACK", -0.5 * sum(gains))
    assert gains[0] > 0.5 * sum(gains) > gains[1]
    assert pairs(propose(state, stats)) == everything[:1]


def test_entropy_that_rows_lose_is_asked_for(monkeypatch):
    state, stats = state_of([9, 1.5, 9, 9, 9, 9, 9])
    (one, *_) = propose(state, stats)
    pair = sorted((one.merge.source, one.merge.target))
    found = merge_gain(state, stats, PRIORS, one.merge.source, one.merge.target)
    stats = replace(stats, entropies=np.full(7, 100.0))
    asked = []

    def make(edits, learner, records, least):
        asked.append(least)
        return True

    monkeypatch.setattr(structure.TreeEdits, "_make_compound", make)
    for value in (0.25, 1e6):
        losses = merges.PairLosses(np.array([pair]), np.array([value]))
        learner = learner_of(state, stats)
        learner.memory.losses = lambda losses=losses: losses
        structure.TreeEdits(EpochMoves())._end_idle(learner)
    most = merge_gain(state, stats, PRIORS, *(one.merge.source, one.merge.target))
    assert found.most_lost == 0.0
    assert 0.25 < most.most_lost < 1e6
    assert asked == [0.25, most.most_lost]


def test_a_child_with_a_past_stays_below_a_node_that_has_none():
    is_old = np.arange(7) == 5
    state, stats = state_of([9, 9, 9, 9, 0, 9, 9], past=np.where(is_old, 5, -1))
    assert pairs(propose(state, stats)) == [(4, 0)]


def test_fewer_are_judged_in_trees_of_many_nodes(monkeypatch):
    assert merges.n_ends(800) == merges.N_ENDS
    assert merges.n_ends(2048) == 1
    assert merges.n_ends(2049) == 0
    state, stats = state_of([0, 0, 9, 9, 0, 0, 0])
    monkeypatch.setattr(merges, "END_PAIRS", 3 * len(TREE) ** 2)
    assert len(set(pairs(propose(state, stats)))) == 3
    monkeypatch.setattr(merges, "END_PAIRS", len(TREE) ** 2 - 1)
    edits, learner = structure.TreeEdits(EpochMoves()), learner_of(state, stats)
    edits._end_idle(learner)
    assert edits._products is None
    assert edits.records == []


@pytest.mark.parametrize("kind", ["past", "history"])
def test_nodes_of_before_stay(kind):
    is_old = np.arange(7) == 1
    past, history = np.where(is_old, 1, -1), np.where(is_old, 3.0, 0.0)
    given = {"past": past} if kind == "past" else {"history": history}
    assert pairs(propose(*state_of([9, 0, 9, 9, 9, 9, 9], **given))) == []


def learner_of(state, stats, n_passes=0):
    posterior = EpochPosterior(EpochModel(PRIORS), state, stats, state.tree.ids, [])
    memory = SimpleNamespace(
        losses=lambda: NO_LOSSES, keep=lambda *given: None, totals=lambda tree: stats
    )
    return SimpleNamespace(posterior=posterior, n_passes=n_passes, memory=memory)


@pytest.mark.parametrize(
    "masses", [[9, 0, 9, 9, 9, 9, 9], [0, 9, 9, 9, 9, 9, 9]], ids=["inner", "root"]
)
def test_an_end_by_which_the_bound_does_not_rise_waits(masses, monkeypatch):
    """All pairs are tried, also two with one target."""
    state, stats = state_of(masses)
    monkeypatch.setattr(structure, "_replayed_with_priors", lambda *given: given)
    monkeypatch.setattr(structure, "_bound", lambda *given: 0.0)
    tried = []

    def attach(edits, learner, near, records):
        tried.append((learner.n_passes, near))
        return []

    monkeypatch.setattr(structure.TreeEdits, "_attachments_near", attach)
    edits, learner = structure.TreeEdits(EpochMoves()), learner_of(state, stats)
    edits._end_idle(learner)
    assert len(tried) == merges.N_TARGETS
    edits._end_idle(learner)  # the third one
    n_pairs = merges.N_TARGETS + 1
    assert len(tried) == n_pairs
    edits._end_idle(learner)
    assert len(tried) == n_pairs
    assert edits.records == []
    assert learner.posterior.state is state
    again = structure.TreeEdits(EpochMoves())
    again.resume(edits.account())
    again._end_idle(learner_of(state, stats))
    assert len(tried) == n_pairs
    structure.TreeEdits(EpochMoves(merge="none"))._end_idle(learner)
    assert len(tried) == n_pairs


def test_an_end_is_made_with_the_priors_that_follow(monkeypatch):
    state, stats = state_of([9, 0, 9, 9, 9, 9, 9])
    monkeypatch.setattr(structure.TreeEdits, "_refresh", lambda *given: None)
    make = structure.TreeEdits._make_compound
    monkeypatch.setattr(
        structure.TreeEdits,
        "_make_compound",
        lambda edits, learner, records, least: make(edits, learner, records, -np.inf),
    )
    edits, learner = structure.TreeEdits(EpochMoves()), learner_of(state, stats)
    edits._end_idle(learner)
    new = learner.posterior.state
    assert len(new.tree) == len(TREE) - 1
    assert new.prior_concentration != state.prior_concentration
    assert_array_equal(new.masses.sum(), stats.masses.sum())


def test_what_priors_gain_without_a_move_does_not_count(monkeypatch):
    state, stats = state_of([9, 0, 9, 9, 9, 9, 9])
    monkeypatch.setattr(structure.TreeEdits, "_refresh", lambda *given: None)
    edits = structure.TreeEdits(EpochMoves(reattach=False))
    (one, *_) = propose(state, stats)

    def is_made(least):
        learner = learner_of(state, stats)
        return edits._make_compound(learner, [one.merge], least), edits._bound(learner)

    learner = learner_of(state, stats)
    model, new = learner.posterior.model.learn_priors(state, stats)
    alone = sum(model.objective(new, stats).values())
    assert alone > edits._bound(learner) + 1.0
    _, after = is_made(-np.inf)
    assert is_made(after - alone - 1e-6)[0]
    assert not is_made(after - alone + 1e-6)[0]


def test_what_new_parents_gain_without_a_move_does_not_count(monkeypatch):
    """A child of the node that ends is below the wrong parent: that pays for no end."""
    state, stats = state_of([9, 0, 9, 9, 9, 9, 9])
    edits, worth, bound = structure.TreeEdits(EpochMoves()), 50.0, structure._bound
    learner = learner_of(state, stats)
    model = learner.posterior.model
    monkeypatch.setattr(
        EpochModel, "learn_priors", lambda model, state, stats: (model, state)
    )

    def raised(model, state, stats):
        """Return a bound that node 2 gains by its parent."""
        return bound(model, state, stats) + worth * (state.tree.parent_of(2) == 5)

    def propose(state, stats, priors, products, rejections, n_passes, near):
        move = Attach(2, state.tree.parent_of(2), 5)
        is_near = not near.isdisjoint(move.touched) and move.old != 5
        return [(move, worth)] if is_near else []

    monkeypatch.setattr(structure, "_bound", raised)
    monkeypatch.setattr(structure, "propose_attachments", propose)
    monkeypatch.setattr(structure.TreeEdits, "_refresh", lambda *given: None)
    end = Merge(1, 0)
    least = edits._gain(learner, [end]) + 0.5 * worth
    assert not edits._make_compound(learner, [end], least)
    assert learner.posterior.model is model
    assert learner.posterior.state is state
    attach = structure.TreeEdits._attachments_near
    monkeypatch.setattr(
        structure.TreeEdits,
        "_attachments_near",
        lambda edits, learner, near, records=(): (
            attach(edits, learner, near, records) if records else []
        ),
    )
    assert edits._make_compound(learner, [end], least)


@pytest.mark.long
def test_the_root_of_planted_trees_has_rows(monkeypatch):
    """Without, it stays a node without rows, and the planted root is below it."""

    def n_without_rows(seed):
        corpus = make_dependent_trees(
            400,
            n_features=40,
            concentration=120.0,
            prior_concentration=100.0,
            random_state=seed,
        )
        trees = DependentTrees(random_state=seed).fit(corpus.data)
        (record,) = trees.epochs_.values()
        return int((record.masses < 2.0).sum())

    seeds = 177, 181, 206, 224, 231, 287, 434, 464
    assert sum(map(n_without_rows, seeds)) == 0
    monkeypatch.setattr(structure.TreeEdits, "_end_idle", lambda *given: None)
    assert sum(map(n_without_rows, seeds)) == len(seeds)
