"""Nodes exchange their pasts: records, gains, and names that are kept by it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from checks.epochs import PRIORS, TREE, pasts_of, unit
from skbnp.estimators import EpochMoves
from skbnp.inference.trials import WAIT
from skbnp.models.dependent_trees import moves as kinds
from skbnp.models.dependent_trees import structure
from skbnp.models.dependent_trees.epoch import (
    LEAST_EVIDENCE,
    EpochModel,
    EpochPosterior,
)
from skbnp.models.dependent_trees.local import NodeTable, sum_rows, update_local
from skbnp.models.dependent_trees.moves import past_gains, propose_exchanges
from skbnp.models.dependent_trees.records import (
    Products,
    attach,
    exchange,
    merge,
    merged_into_of,
    replay,
    replay_memo,
)
from skbnp.models.dependent_trees.state import (
    EpochState,
    EpochStats,
    direction_bound,
    next_epoch,
    objective,
)
from skbnp.models.dependent_trees.updates import update_nodes, update_sticks
from skbnp.trees import Tree

CYCLE = exchange((2, 6, 3), (6, 3, 2))


def gains_of(state):
    """A state, and what its directions gain by other pasts."""
    products = Products.of(state, PRIORS)
    return state, past_gains(state, products, state.previous @ state.previous.T)


def value_of(state, stats):
    return sum(objective(state, stats, PRIORS).values())


def propose(state, stats, source, target):
    """A merge, with the past that it keeps."""
    _, past_of = kinds._best_merge(state, stats, PRIORS, source, target)
    return kinds.MergeProposal(source, target, past_of, 0.0)


def at_optimum(rng, n_rows=200, dimension=30):
    """A state and statistics of rows, directions at their optimum; node 4 is new."""
    previous = unit(rng.standard_normal((7, dimension)))
    rows = unit(previous[rng.integers(7, size=n_rows)] + 0.1)
    X = sp.csr_array(rows.astype(np.float32))
    state = EpochState(
        TREE,
        np.full(7, 10.0),
        rng.gamma(1.0, 20.0, size=7),
        0.9 * previous,
        np.full(7, 100.0),
        previous,
        np.where(TREE.ids != 4, np.arange(7), -1),
        np.zeros(dimension),
        unit(rows.mean(axis=0)),
        60.0,
        40.0,
    )
    memo, stats = update_local(NodeTable.of(state, PRIORS), X)
    state = update_sticks(state, stats)
    for _ in range(50):
        state = update_nodes(state, stats, PRIORS, TREE.ids)
    return state, stats, memo, X


def test_rows_stay_and_names_go(seed):
    state, stats, memo, X = at_optimum(np.random.default_rng(seed))
    new, kept = replay(state, stats, PRIORS, [CYCLE])
    assert new.tree.ids.tolist() == [0, 1, 6, 3, 5, 4, 2]
    assert_array_equal(new.tree.depth, TREE.depth)
    assert_array_equal(kept.masses, stats.masses)
    for name, was in zip(CYCLE.children, CYCLE.children, strict=True):
        mine, other = new.tree.positions(name), TREE.positions(was)
        assert_array_equal(pasts_of(new)[mine], pasts_of(state)[other])
        assert new.history[mine] == state.history[other]
    recomputed = sum_rows(new.tree, replay_memo(memo, CYCLE.merged_into), X)
    assert_allclose(recomputed.masses, kept.masses)
    assert_allclose(recomputed.sums.toarray(), kept.sums.toarray())
    back, _ = replay(new, kept, PRIORS, [exchange(CYCLE.children, CYCLE.parents)])
    assert back.tree == TREE
    assert_array_equal(back.history, state.history)


def test_exchanges_in_a_row_name_nodes_as_one_after_the_other(seed):
    """Directions are updated once for all of them."""
    state, stats, _, _ = at_optimum(np.random.default_rng(seed))
    records = [CYCLE, exchange((1, 5), (5, 1)), exchange((2, 4), (4, 2))]
    new, _ = replay(state, stats, PRIORS, records)
    once = state
    for record in records:
        once, _ = replay(once, stats, PRIORS, [record])
    assert new.tree == once.tree
    assert_array_equal(new.history, once.history)
    assert_array_equal(pasts_of(new), pasts_of(once))
    assert_allclose(new.means, once.means, atol=0.05)
    reindexed, _ = replay(state, stats, PRIORS, [*records, merge(6, 3)])
    assert reindexed.tree == once.tree.merge(6, 3)


@pytest.mark.parametrize(
    "records", [[CYCLE], [merge(3, 5)], [CYCLE, merge(2, 5), attach(6, 1, 5)]]
)
def test_products_after_moves_are_those_of_the_new_state(records, seed):
    state, stats, _, _ = at_optimum(np.random.default_rng(seed))
    products = Products.of(state, PRIORS)
    new, _ = replay(state, stats, PRIORS, records)
    fresh, result = Products.of(new, PRIORS), Products.of(new, PRIORS, products)
    assert_allclose(result.means, fresh.means, atol=1e-6)
    assert_allclose(result.past, fresh.past, atol=1e-6)
    assert_allclose(result.means[:, :-1], new.means @ new.means.T, atol=1e-6)
    assert_allclose(result.past[:, :-1], pasts_of(new) @ new.means.T, atol=1e-6)


@pytest.mark.parametrize("has_ended", [False, True])
def test_gains_of_leaves_are_the_full_difference(has_ended, seed):
    """What children say to a node bends with its past, which leaves do not have."""
    state, stats, _, _ = at_optimum(np.random.default_rng(seed))
    if has_ended:
        state = with_ended(state)
        assert state.past_ids[state.ended].tolist() == [9]
    _, gains = gains_of(state)
    rows = [*state.past, *state.ended]
    assert gains.shape == (7, len(rows)) == (7, 7 + has_ended)
    before = direction_bound(state, stats, PRIORS)
    for node in np.setdiff1d(np.arange(7), TREE.parent):
        for column, row in enumerate(rows):
            pasts = state.past.copy()
            pasts[node] = row
            new = replace(state, past=pasts)
            new = update_nodes(new, stats, PRIORS, TREE.ids[[node]])
            after = direction_bound(new, stats, PRIORS)
            assert_allclose(gains[node, column], after - before, atol=2e-3)


def test_pasts_in_wrong_hands_are_found(seed):
    state, stats, _, _ = at_optimum(np.random.default_rng(seed))
    assert propose_exchanges(*gains_of(state)) == []
    wrong, _ = replay(state, stats, PRIORS, [CYCLE])
    (result,) = propose_exchanges(*gains_of(wrong))
    right, _ = replay(wrong, stats, PRIORS, [result])
    assert right.tree == TREE


def learner_of(state, stats, n_passes=0):
    """What proposals read, and are judged by."""
    posterior = EpochPosterior(
        EpochModel(PRIORS, is_first=False), state, stats, state.tree.ids, []
    )
    return SimpleNamespace(posterior=posterior, n_passes=n_passes)


@pytest.mark.parametrize("is_better", [True, False])
def test_an_exchange_is_made_or_waits(is_better, seed, monkeypatch):
    state, stats, _, _ = at_optimum(np.random.default_rng(seed))
    wrong, _ = replay(state, stats, PRIORS, [CYCLE])
    edits, learner = structure.EpochEdits(EpochMoves()), learner_of(wrong, stats, 3)
    learner.cache = SimpleNamespace(keep=lambda *given: None)
    if not is_better:
        monkeypatch.setattr(structure, "LEAST_EXCHANGE", np.inf)
    edits._exchange(learner)
    assert (learner.posterior.state.tree == TREE) == is_better
    assert [one.kind for one in edits.records] == ["exchange"] * is_better
    key = ("exchange", *propose_exchanges(*gains_of(wrong))[0].touched)
    assert edits.rejections.is_over(key, 4) == is_better
    assert edits.rejections.is_over(key, 3 + WAIT)


def test_a_merged_node_keeps_the_better_past(seed):
    """That of the source, if it is nearer to the rows of both."""
    state, stats, _, _ = at_optimum(np.random.default_rng(seed))
    before = direction_bound(state, stats, PRIORS)
    kept = []
    for source, target in ((2, 6), (6, 2), (1, 0), (3, 5), (6, 1), (4, 5)):
        proposal = propose(state, stats, source, target)
        after = replay(state, stats, PRIORS, proposal.records)
        (name,) = {source, target} & set(after[0].tree.ids.tolist())
        others = (
            [merge(source, target)],
            [
                exchange((source, target), (target, source)),
                merge(target, source),
            ],
        )
        gains = [
            direction_bound(*replay(state, stats, PRIORS, one), PRIORS)
            for one in others[: 1 + (4 not in (source, target))]  # 4 has no past
        ]
        assert_allclose(
            direction_bound(*after, PRIORS) - before,
            max(gains) - before,
            atol=1e-6,
        )
        kept.append(name == target)
    assert kept[0] != kept[1]  # of two siblings the same past is the better one
    assert kept[-1]


def test_rows_of_both_are_at_the_node_whose_past_is_kept(seed):
    state, stats, memo, X = at_optimum(np.random.default_rng(seed))
    records = kinds.MergeProposal(2, 6, "source", 0.0).records
    assert merged_into_of(records) == {2: 2, 6: 2}
    new, kept = replay(state, stats, PRIORS, records)
    assert 6 not in new.tree
    (mine,), both = new.tree.positions([2]), TREE.positions([2, 6])
    assert_array_equal(pasts_of(new)[mine], pasts_of(state)[both[0]])
    assert_allclose(new.history[mine], state.history[both].sum())
    recomputed = sum_rows(new.tree, replay_memo(memo, merged_into_of(records)), X)
    assert_allclose(recomputed.masses, kept.masses)
    assert_allclose(recomputed.masses[mine], stats.masses[both].sum())
    assert_allclose(recomputed.sums.toarray(), kept.sums.toarray(), atol=1e-12)


def with_ended(state, name=9):
    """Let the past of the rows at 4, which is new, be that of a node that has ended."""
    ids = TREE.ids.copy()
    ids[TREE.positions(4)] = name
    return replace(state, past_ids=ids, tree=Tree(state.ids, state.tree.depth, 10))


def test_a_node_that_has_ended_comes_back_as_the_one_that_was_born_instead(seed):
    state, stats, memo, X = at_optimum(np.random.default_rng(seed))
    state = with_ended(state)
    (result,) = propose_exchanges(*gains_of(state))
    assert (result.kind, result.parents, result.children) == ("revive", (4,), (9,))
    new, kept = replay(state, stats, PRIORS, [result])
    place = TREE.positions(4)
    assert new.tree.ids[place] == 9
    assert_array_equal(np.delete(new.tree.ids, place), np.delete(TREE.ids, place))
    assert_array_equal(pasts_of(new)[place], state.previous[place])
    assert new.history[place] == 0.0
    assert len(new.ended) == 0
    assert_array_equal(kept.masses, stats.masses)
    recomputed = sum_rows(new.tree, replay_memo(memo, result.merged_into), X)
    assert_allclose(recomputed.masses, kept.masses)
    assert_allclose(recomputed.sums.toarray(), kept.sums.toarray())
    gain = direction_bound(new, kept, PRIORS)
    assert gain > direction_bound(state, stats, PRIORS) + 1.0


def test_the_bound_of_a_pass_does_not_fall_when_a_node_comes_back():
    state, stats, _, _ = at_optimum(np.random.default_rng(0))
    written = []

    class Edits(structure.EpochEdits):
        def _write(self, learner, records, state, stats, *assignments):
            written.append(records)

    learner, record = learner_of(with_ended(state), stats), exchange((4,), (9,))
    edits = Edits(EpochMoves())
    model, now = learner.posterior.model, (learner.posterior.state, stats)
    after = model.bound(*replay(*now, PRIORS, [record]))
    for before, n_written in ((after + 1e-6, 0), (after - 1e-6, 1)):
        edits._revive_nodes(learner, before)
        assert len(written) == n_written
    assert [one.parents + one.children for (one,) in written] == [(4, 9)]
    edits._revive_nodes(learner_of(state, stats), -np.inf)  # nobody has ended
    assert len(written) == 1


def test_nodes_that_have_ended_may_come_back_for_some_epochs(seed):
    state, stats, _, _ = at_optimum(np.random.default_rng(seed))
    state = replace(state, past_ids=TREE.ids)
    assert len(state.ended) == 0
    after, _ = replay(state, stats, PRIORS, [merge(2, 6)])
    assert after.past_ids[after.ended].tolist() == [2]
    later = next_epoch(after, np.ones(6), np.array([2, 3]))
    assert later.past_ids[later.ended].tolist() == [2]
    assert_array_equal(later.previous[later.ended[0]], state.previous[state.past[2]])
    assert_array_equal(later.past_ids[later.past], later.tree.ids)
    for returning in (np.array([3]), np.array([], dtype=np.intp)):
        assert len(next_epoch(after, np.ones(6), returning).ended) == 0
    assert len(next_epoch(later, np.ones(6), np.array([2])).ended) == 1


def test_ends_of_topics_that_have_rows_need_evidence():
    state, stats, _, _ = at_optimum(np.random.default_rng(0))
    old = state.tree.ids[state.places_with_past].tolist()
    new = state.tree.ids[state.past < 0].tolist()
    assert len(old) > 1
    assert new
    few = stats.masses.copy()
    few[state.tree.positions(old[0])] = 0.5
    for one, other, masses, needed in (
        (old[0], old[1], stats.masses, LEAST_EVIDENCE),
        (old[1], old[0], stats.masses, LEAST_EVIDENCE),
        (new[0], old[0], stats.masses, 0.0),
        (old[0], new[0], stats.masses, 0.0),
        (old[0], old[1], few, 0.0),
        (old[1], old[0], few, 0.0),
    ):
        given = replace(stats, masses=masses), one, other
        assert kinds._evidence_of_end(state, *given) == needed
    proposal = kinds.MergeProposal(1, 2, "target", 2.0, 3.0)
    assert proposal.least == 5.0


def test_a_topic_that_pauses_does_not_end(seed):
    """Its child merges into it, and would keep its own past."""
    dimension, tree = 30, Tree([0, 1, 2, 3], [0, 1, 2, 1])
    nothing = kinds.EntropyLosses(np.empty((0, 2), dtype=np.int64), np.empty(0))
    ended = []
    for draw in range(20):
        rng = np.random.default_rng(100 * seed + draw)
        steps = unit(rng.standard_normal((4, dimension)))
        previous = unit(np.cumsum(steps[:3], axis=0))
        previous = np.vstack([previous, unit(previous[0] + steps[3])])
        nodes = np.repeat([0, 2, 3], 80)  # 1 pauses
        noise = rng.standard_normal((240, dimension)) / np.sqrt(dimension)
        rows = unit(previous[nodes] + 0.5 * noise)
        sums = np.array([rows[nodes == node].sum(axis=0) for node in range(4)])
        masses = np.bincount(nodes, minlength=4).astype(np.float64)
        stats = EpochStats(masses, sp.csr_array(sums), np.zeros(4))
        state = EpochState(
            tree,
            masses,
            np.array([80.0, 20.0, 80.0, 80.0]),
            0.9 * previous,
            np.full(4, 100.0),
            previous,
            np.arange(4),
            np.zeros(dimension),
            np.zeros(dimension),
            60.0,
            40.0,
        )
        for _ in range(50):
            state = update_nodes(state, stats, PRIORS, tree.ids)
        for stays in ([], [1]):
            products = Products.of(state, PRIORS)
            given = state, stats, PRIORS, products, 1, "safe", nothing
            result = kinds.propose_merges(*given, np.array(stays, dtype=np.intp))
            names = [one.records[-1].parents[1] for one in result]
            ended.append((bool(stays), 1 in names))
    assert (False, True) in ended  # where it may
    assert (True, True) not in ended
