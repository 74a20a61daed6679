"""Births that gain too little by themselves, and what makes up for it."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from models.dependent_trees.test_exchanges import (
    PRIORS,
    at_optimum,
    name_of,
    planted_drift,
)
from skbnp import DependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.models.dependent_trees.epoch import EpochModel, EpochPosterior
from skbnp.models.dependent_trees.local import Memo
from skbnp.models.dependent_trees.moves import compound, structure
from skbnp.models.dependent_trees.moves.exchanges import past_gains
from skbnp.models.dependent_trees.moves.products import Products
from skbnp.models.dependent_trees.moves.records import Attach, Birth, Exchange, replay
from skbnp.models.dependent_trees.moves.settings import LEAST_EVIDENCE, EpochMoves


def first_epoch_of(seed):
    corpus = make_dependent_trees(200, n_epochs=50, past_weight=3.0, random_state=seed)
    return corpus.data[corpus.epochs == 0]


def edits_with_rejected(monkeypatch, is_first=True, is_made=False, exchanges=()):
    """A birth that gains too little, and how it is judged once more."""
    state, stats, _, _ = at_optimum(np.random.default_rng(0))
    if is_first:
        state = state.without_past()
    model = EpochModel(PRIORS, is_first=is_first)
    posterior = EpochPosterior(model, state, stats, state.tree.ids, [])
    learner, judged = SimpleNamespace(posterior=posterior, n_passes=0), []

    def make(edits, learner, records, least, joined):
        rows, assignments = joined
        rest = assignments.rest.tolist()
        judged.append((len(records), least, rows.tolist(), rest))
        return is_made

    monkeypatch.setattr(structure.TreeEdits, "_make_compound", make)
    monkeypatch.setattr(
        structure.TreeEdits, "_exchanges_near", lambda *given: list(exchanges)
    )
    edits, birth = structure.TreeEdits(EpochMoves()), SimpleNamespace(target=2)
    rows, none = np.array([7, 3, 5]), np.zeros((3, 8), dtype=np.float32)
    memo = Memo(none.astype(np.int32), none, none, np.arange(3))
    edits._rejected = state, SimpleNamespace(birth=birth, rows=rows, memo=memo)
    edits._rejections["birth"].add((2,), 0)
    edits._n_without_birth = 2
    return edits, learner, judged


@pytest.mark.parametrize("is_first", [True, False])
def test_a_birth_is_judged_once_more(is_first, monkeypatch):
    edits, learner, judged = edits_with_rejected(monkeypatch, is_first)
    edits._retry_best_birth(learner)
    least = 0.0 if is_first else LEAST_EVIDENCE
    assert judged == [(1, least, [3, 5, 7], [1, 2, 0])]


@pytest.mark.parametrize("is_made", [True, False])
def test_exchanges_that_do_not_help_are_left_out(is_made, monkeypatch):
    edits, learner, judged = edits_with_rejected(
        monkeypatch, is_made=is_made, exchanges=["exchange"]
    )
    edits._retry_best_birth(learner)
    assert [n_records for n_records, *_ in judged] == ([2] if is_made else [2, 1])


def test_exchanges_are_those_of_nodes_that_a_move_touches(monkeypatch):
    state, stats, _, _ = at_optimum(np.random.default_rng(0))
    posterior = EpochPosterior(EpochModel(PRIORS), state, stats, state.tree.ids, [])
    learner, edits = (
        SimpleNamespace(posterior=posterior),
        structure.TreeEdits(EpochMoves()),
    )
    move = Attach(2, 1, 3)
    near, far = Exchange((2, 6), (6, 2)), Exchange((0, 5), (5, 0))
    back = Exchange((3,), (7,))  # of a node that has ended

    def propose(result, gains):
        after, _ = replay(state, stats, PRIORS, [move])
        assert result.tree == after.tree
        of_pasts = after.previous @ after.previous.T
        expected = past_gains(after, Products.of(after, PRIORS), of_pasts)
        assert_allclose(gains, expected, rtol=1e-9, atol=1e-8)
        return [near, far, back]

    monkeypatch.setattr(compound, "propose_exchanges", propose)
    assert edits._exchanges_near(learner, move) == [near, back]
    posterior.state = state.without_past()
    assert edits._exchanges_near(learner, move) == []


@pytest.mark.long
def test_a_topic_is_found_where_priors_must_follow(monkeypatch):
    """By itself its birth loses .6 nats, with learned priors it gains seven."""
    X = first_epoch_of(94)
    assert DependentTrees(random_state=94).fit(X).n_components_ == 10
    monkeypatch.setattr(structure.TreeEdits, "_retry_best_birth", lambda *given: None)
    assert DependentTrees(random_state=94).fit(X).n_components_ == 9


@pytest.mark.long
def test_rows_say_what_a_birth_and_exchanges_left(monkeypatch):
    """Statistics of moves together are those of the rows that they concern."""
    result = []
    refresh, write = structure.TreeEdits._refresh, structure.TreeEdits._write

    def write_and_note(edits, learner, records, *given):
        write(edits, learner, records, *given)
        result.append({type(record) for record in records})

    def refresh_and_compare(edits, learner):
        kinds, kept = result[-1], learner.posterior.global_stats
        refresh(edits, learner)
        if Birth in kinds:
            result[-1] = (kinds, kept, learner.posterior.global_stats)

    monkeypatch.setattr(structure.TreeEdits, "_write", write_and_note)
    monkeypatch.setattr(structure.TreeEdits, "_refresh", refresh_and_compare)
    planted_drift(1307, until=2)
    compared = [one for one in result if isinstance(one, tuple)]
    assert any(Exchange in kinds for kinds, _, _ in compared)
    for _, kept, summed in compared:
        assert_allclose(summed.masses, kept.masses, rtol=1e-6, atol=1e-5)
        assert_allclose(
            summed.sums.toarray(), kept.sums.toarray(), rtol=1e-6, atol=1e-5
        )
        assert_allclose(summed.entropies, kept.entropies, rtol=1e-6, atol=1e-4)


@pytest.mark.long
def test_a_topic_is_born_that_has_the_name_of_another(monkeypatch):
    """Its neighbours are two in one node until it hands the name on."""

    def is_new():
        corpus, trees = planted_drift(1307, until=2)
        return name_of(corpus, trees, 2, 9) not in trees.epochs_[1].component_ids

    assert is_new()
    monkeypatch.setattr(structure.TreeEdits, "_exchanges_near", lambda *given: [])
    assert not is_new()
