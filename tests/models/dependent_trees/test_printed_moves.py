"""Moves of a dependent tree as Algorithm 1 of Hu et al. (2015) has them."""

from dataclasses import replace

import numpy as np

from models.dependent_trees.test_moves import learner_of, passes, planted
from skbnp import DependentTrees
from skbnp.inference.monitor import discarding
from skbnp.models.dependent_trees import moves as kinds
from skbnp.models.dependent_trees import structure
from skbnp.models.dependent_trees.epoch import EpochMoves
from skbnp.models.dependent_trees.records import replay
from skbnp.models.dependent_trees.structure import EpochEdits

PAPER = EpochMoves.paper()


def converged_learner(seed, n_clusters=30):
    """A learner before its first move."""
    _, X = planted(seed)
    return passes(learner_of(X, n_clusters, seed=seed), 3)


def end_pass(learner, moves):
    """Make the moves after a pass; return the records."""
    edits = EpochEdits(moves)
    edits._concentration = learner.posterior.state.concentration
    edits.end_pass(learner, discarding())
    return edits.records


def spoil(monkeypatch, nats):
    """Let the bound fall by each birth; return what is proposed."""
    proposed, propose = [], kinds.propose_birth

    def worse(*given):
        result = propose(*given)
        if result is not None:
            proposed.append(result.target)
            result = replace(result, gain=result.gain - nats)
        return result

    monkeypatch.setattr(kinds, "propose_birth", worse)
    return proposed


def test_births_are_accepted_whatever_the_bound_says(seed, monkeypatch):
    learner, other = converged_learner(seed), converged_learner(seed)
    end_pass(other, PAPER)  # merges, and births that nobody spoils
    proposed = spoil(monkeypatch, 1e6)
    before = sum(learner.posterior.objective().values())
    records = end_pass(learner, PAPER)
    born = [one.parents[0] for one in records if one.kind == "birth"]
    assert sorted(born) == sorted(proposed)
    assert len(born) > 3
    assert learner.posterior.ids.tolist() == other.posterior.ids.tolist()
    merged = converged_learner(seed)
    end_pass(merged, replace(PAPER, birth=False))
    assert before < sum(merged.posterior.objective().values())
    records = end_pass(merged, EpochMoves(merge="none", reattach=False))
    assert "birth" not in [one.kind for one in records]


def test_a_pass_has_merges_then_births_and_nothing_else(seed):
    learner = converged_learner(seed)
    kinds = [one.kind for one in end_pass(learner, PAPER) if one.kind]
    n_merges = kinds.count("merge")
    assert n_merges > 3
    assert kinds == n_merges * ["merge"] + (len(kinds) - n_merges) * ["birth"]
    _, X = planted(seed)
    for moves, has_more in ((PAPER, False), (EpochMoves(), True)):
        learner = passes(learner_of(X, 8, EpochEdits(moves), seed=seed), 4)
        kinds = {entry.kind for entry in learner.posterior.lineage}
        assert bool(kinds - {"init", "merge", "birth"}) == has_more


def check_merges(seed, test, monkeypatch):
    """Merges are those whose statistics alone say that the bound rises.

    The entropy of rows is left out: the bound of statistics takes it for what it was.
    """
    learner, gains = converged_learner(seed, 60), []
    propose = structure.kinds.propose_merges

    def watched(state, stats, priors, *given):
        result, model = propose(state, stats, priors, *given), learner.posterior.model
        before = sum(model.objective(state, stats).values())
        for one in result:
            after = sum(
                model.objective(*replay(state, stats, priors, one.records)).values()
            )
            gains.append((after - before, one.lost))
        return result

    monkeypatch.setattr(structure.kinds, "propose_merges", watched)
    end_pass(learner, replace(PAPER, merge=test, birth=False))
    assert len(gains) > 3
    assert all(gain > -1e-6 and lost == 0.0 for gain, lost in gains)


def test_merges_are_judged_without_the_entropy_of_rows(seed, monkeypatch):
    check_merges(seed, "lax", monkeypatch)


def test_epochs_are_learned_with_merges_and_births_alone(seed):
    corpus, _ = planted(seed, n_samples=100, n_epochs=2)
    trees = DependentTrees(
        vmf_concentration=120.0,
        prior_concentration=100.0,
        past_weight=1.0,
        structure_moves=PAPER,
        max_components=30,
        max_iter=6,
        tol=0,
        random_state=seed,
    ).fit(corpus.data, epochs=corpus.epochs)
    kinds = {entry.kind for entry in trees.lineage_}
    # A merge exchanges the pasts of two topics where that of the source explains more.
    assert {"merge", "birth"} <= kinds <= {"init", "merge", "birth", "exchange"}
    assert trees.prior_concentration_ == 100.0
    assert np.isfinite(trees.score(corpus.data, epochs=corpus.epochs))
