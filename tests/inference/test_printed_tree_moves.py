"""Moves of a topic tree as Wang and Blei (2009) print them, against their rules."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from inference.test_tree_learning import (
    FLAT,
    PLANTED,
    learner_of,
    passes,
    planted,
    topics_like,
)
from reference import wang2009 as reference
from skbnp.components.tree_sticks import TreeMoves
from skbnp.inference.engine import Learner
from skbnp.inference.monitor import Monitor, new_history
from skbnp.models.nested_crp.moves import Context, TreeEdits, kinds_of
from skbnp.utils.random import Purpose, stream

PAPER = TreeMoves.paper()
#: The leaf 6 of PLANTED is like 2, and 4 like 1; 7 is like no document.
BLOCKS = {0: [0], 1: [1], 2: [2], 3: [3], 4: [1], 5: [5], 6: [2], 7: [8]}


def visited(seed, family="factorised"):
    """A learner of two copies of a path and of an empty one, before any move."""
    rng = np.random.default_rng(seed)
    X, _ = planted(rng, n_docs=60, length=30)
    X.resize((60, 45))
    topics = topics_like(PLANTED.add(4), BLOCKS, 45, mass=10.0)
    topics.word_counts[7] *= 1e4
    one = learner_of(X, topics, family=family, priors=FLAT, kind=Learner)
    passes(one, 1)
    return one


def shares_of(learner):
    """What documents said, one by one: q(c_n) by node, and the parents of nodes."""
    tree = learner.posterior.state.tree
    shares = {int(node): [0.0] * learner.corpus.n_docs for node in tree.ids}
    doc = 0
    for memo in learner.corpus.memos:
        for begin, end in zip(memo.limits[:-1], memo.limits[1:], strict=True):
            for place in range(begin, end):
                shares[int(memo.stubs[place])][doc] += memo.shares[place]
            doc += 1
    return {int(node): tree.parent_of(int(node)) for node in tree.ids}, shares


def candidates(learner, name, moves=PAPER):
    posterior = learner.posterior
    rng = stream(posterior.seed_entropy, Purpose.MOVE, posterior.n_steps)
    context = Context(posterior, rng, learner.corpus)
    (kind,) = [kind for kind in kinds_of(moves) if kind.name == name]
    return context, kind, kind.candidates(context)


def check_rules(learner):
    """What ends and what merges are what the paper says."""
    parent, shares = shares_of(learner)
    _, _, prunes = candidates(learner, "prune")
    assert sorted(prunes) == [
        (node,) for node in sorted(reference.ended(parent, shares))
    ]
    _, _, merges = candidates(learner, "merge")
    assert set(merges) == set(reference.similar_paths(parent, shares))
    return prunes, merges


def test_paths_end_and_merge_by_the_rules_of_the_paper(seed):
    prunes, merges = check_rules(visited(seed))
    assert (7,) in prunes
    assert (2, 6) in merges  # below different parents


def test_a_pass_of_the_paper_ends_merges_and_grows(seed):
    """Whatever the bound says, and as many as there are."""
    one = visited(seed)
    ends = reference.ended(*shares_of(one))
    TreeEdits(PAPER).end_pass(one, Monitor(new_history()))
    log = one.posterior.lineage[1:]
    assert [entry.parents[-1] for entry in log if entry.kind == "prune"] == ends
    merges = [entry.parents[:2] for entry in log if entry.kind == "merge"]
    assert (2, 6) in merges
    assert {entry.kind for entry in log} <= {"prune", "merge", "birth"}
    alive = set(one.posterior.state.tree.ids.tolist())
    assert alive.isdisjoint({6, 7})
    assert_allclose(one.posterior.global_stats.stub_masses.sum(), one.corpus.n_docs)


def check_growth(learner, expected, n_draws=4000):
    """Nodes are opened as often as both heuristics say."""
    context, kind, _ = candidates(learner, "grow")
    result = dict.fromkeys(expected, 0)
    for _ in range(n_draws):
        for (node,) in kind.candidates(context):
            result[node] += 1
    for node, wanted in expected.items():
        error = np.sqrt(max(2.0 * wanted, 1e-9) / n_draws)
        assert abs(result[node] / n_draws - wanted) < 5.0 * error + 1e-3


def test_nodes_grow_by_both_heuristics(seed):
    one = visited(seed)
    parent, shares = shares_of(one)
    expected = reference.expected_growth(parent, shares, 60, 1)
    assert sum(expected.values()) > 1.0
    check_growth(one, expected)
    with pytest.raises(AssertionError):  # by documents alone
        check_growth(one, {node: mass - 1.0 / 3 for node, mass in expected.items()})
