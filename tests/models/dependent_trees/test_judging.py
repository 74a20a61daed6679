"""Moves are made if the bound of all rows rises enough, or they change nothing."""

import pickle

import pytest

from models.dependent_trees.test_moves import bound, settled
from skbnp.models.dependent_trees.epoch import EpochMoves
from skbnp.models.dependent_trees.records import (
    attach,
    exchange,
    merge,
    replay,
    reverse,
)
from skbnp.models.dependent_trees.structure import EpochEdits


def moves_of(tree):
    """A move of each kind that keeps the rows of each node together."""
    depth, ids = tree.depth.tolist(), tree.ids.tolist()
    low = next(node for node, level in zip(ids, depth, strict=True) if level == 2)
    above = tree.parent_of(low)
    one, other = (node for node in tree.children_of(0).tolist()[:2])
    return {
        "merge": merge(low, above),
        "attach": attach(low, above, 0),
        "reverse": reverse(low, above),
        "exchange": exchange((one, other), (other, one)),
    }


def bits(learner, judge):
    """Globals, lineage, and what rows and records are, as bytes."""
    cache = learner.cache
    return pickle.dumps(
        (learner.posterior, cache.last_broadcasts, cache.others, judge.records)
    )


@pytest.fixture
def learner(seed):
    return settled(seed, past=True)


KINDS = ("merge", "attach", "reverse", "exchange")


def gain_of(learner, move):
    """Difference of two full objectives by a move that is not made."""
    posterior = learner.posterior
    model, now = posterior.model, (posterior.state, posterior.global_stats)
    after = model.bound(*replay(*now, model.priors, [move]))
    return after - model.bound(*now)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rejected_move_leaves_every_bit(kind, learner):
    """One that is accepted raises the bound by the difference of full objectives."""
    judge, before = EpochEdits(EpochMoves()), bound(learner)
    move = moves_of(learner.posterior.state.tree)[kind]
    gain = gain_of(learner, move)
    assert abs(gain) > 1e-3
    kept = bits(learner, judge)
    assert not judge._keep(learner, [((move,), gain + 1e-3)])
    assert bits(learner, judge) == kept
    assert judge._keep(learner, [((move,), gain - 1e-3)])
    assert bits(learner, judge) != kept
    assert judge.records == [move]
    assert bound(learner) - before == pytest.approx(gain, abs=1e-6)
    assert learner.posterior.lineage[-1].kind == move.entry(0).kind


def test_a_move_that_gains_is_made_without_one_that_loses(seed):
    """Of two that are judged together; as if the other had not been proposed."""
    one, other = settled(seed, past=True), settled(seed, past=True)
    moves = moves_of(one.posterior.state.tree)
    good, bad = moves["attach"], moves["exchange"]
    both, alone = EpochEdits(EpochMoves()), EpochEdits(EpochMoves())
    gain = gain_of(other, good)
    assert both._keep(one, [((bad,), 1e9), ((good,), gain - 1e-3)])
    assert alone._keep(other, [((good,), gain - 1e-3)])
    assert both.records == alone.records == [good]
    assert (one.posterior.state.means == other.posterior.state.means).all()
    assert one.posterior.state.tree == other.posterior.state.tree
