"""Proposals of a tree of components, their verdicts, and what they recover."""

import copy
from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from checks.states import assert_same
from skbnp.components.tree_sticks import TreeMoves
from skbnp.datasets import make_subspace_tree
from skbnp.inference.engine import Learner, learn
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor, new_history
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import NO_MOVES, BatchSchedule, Corpus
from skbnp.inference.trials import bound_of
from skbnp.models.hca.local import RowCache, RowLocalStep, sums
from skbnp.models.hca.model import Model
from skbnp.models.hca.moves import (
    ComponentEdits,
    Context,
    kinds_of,
    path_of_directions,
    propose_groups,
)
from skbnp.models.hca.state import Frame, State, Stats
from skbnp.utils.random import Purpose, stream

SERIAL = Executor(1)
MOVES = TreeMoves(max_tries=5)


def begin(X, n_levels=3, *, seed=0, max_components=np.inf, moves=MOVES, tol=1e-5):
    model = Model(n_levels, 1.0, 50.0, Frame.of_rows(X))
    state = path_of_directions(model, X, stream(seed, Purpose.START, 0))
    ids = state.tree.ids
    posterior = Posterior(
        model,
        state,
        Stats.zero(len(ids), n_levels, X.shape[1]),
        ids,
        [Lineage(0, "init", (), tuple(ids.tolist()))],
        seed_entropy=seed,
        max_components=max_components,
    )
    edits = NO_MOVES if moves is None else ComponentEdits(moves, tol)
    schedule, local_step = BatchSchedule.of_rows(len(X)), RowLocalStep(SERIAL)
    return Learner(posterior, Corpus(X), schedule, local_step, RowCache(), edits)


def run(learner, n_passes=100):
    monitor = Monitor(new_history(), tol=1e-5)
    converged = learn(learner, monitor, n_passes=n_passes)
    return monitor, converged


def true_start(learner, drawn):
    """Give the posterior the tree and directions that rows were drawn from."""
    posterior = learner.posterior
    view = drawn.tree
    tree = posterior.state.tree.from_parents(view.parent)
    n = len(tree)
    frame = posterior.model.frame
    posterior.state = State(
        tree,
        drawn.components / frame.scale,
        np.full(n, 1e-5),
        np.bincount(drawn.target, minlength=n).astype(float),
        np.zeros(n),
        np.append(0.0, np.full(n - 1, 1e-2)),
        (drawn.mean - frame.shift) / frame.scale,
        1e-5,
        100.0,
        25.0 / frame.scale**2,
    )
    posterior.global_stats = Stats.zero(
        n, posterior.model.n_levels, drawn.data.shape[1]
    )
    posterior.ids = tree.ids
    return learner


def context(learner):
    rng = np.random.default_rng(0)
    return Context(learner.posterior, rng, learner.cache, learner.corpus.X)


def attempt(learner, proposal, n_rounds, tol=1e-5):
    edits = ComponentEdits(TreeMoves(max_rounds=n_rounds), tol)
    return edits.attempt(learner, proposal)


def proposals(learner):
    given = context(learner)
    kinds = kinds_of(TreeMoves())
    for kind in sorted(kinds, key=lambda kind: not kind.grows):
        for ids in kind.candidates(given):
            proposal = kind.make(given, *ids)
            if proposal is not None:
                yield given, proposal


@pytest.fixture(scope="module")
def drawn():
    return make_subspace_tree(600, random_state=3)


@pytest.fixture
def settled(drawn):
    """A learner at the true tree, after some passes without moves."""
    learner = true_start(begin(drawn.data, moves=None), drawn)
    run(learner, 5)
    return learner


# Proposals ----------------------------------------------------------------------------


def test_proposals_are_trees_of_the_right_depth_and_touch_who_is_concerned(settled):
    kinds = set()
    memo, tree = settled.cache.memo, settled.posterior.state.tree
    for _, proposal in proposals(settled):
        kinds.add(proposal.kind)
        new = proposal.state.tree
        new.check()
        leaves = np.append(new.depth[1:], 0) <= new.depth
        assert (new.depth[leaves] == 2).all()
        gone = np.setdiff1d(tree.ids, new.ids)
        assert np.isin(memo.touching(gone), proposal.rows).all()
        for item in fields(proposal.state):
            value = getattr(proposal.state, item.name)
            if isinstance(value, np.ndarray):
                assert np.isfinite(value).all()
        if proposal.top is not None:
            passing = memo.touching(
                np.intersect1d(tree.ids, new.subtree_of(proposal.top))
            )
            assert np.isin(passing, proposal.rows).all()
    assert kinds == {"split", "prune", "merge", "reattach"}


def test_wrong_parents_are_found_first(settled, drawn):
    """A leaf below another group is the first that is proposed below its own."""
    learner = settled
    tree = learner.posterior.state.tree
    group, other = tree.children_of(0)[:2]
    leaf = int(tree.children_of(int(group))[0])
    wrong = learner.posterior.state.reindex_to(tree.move(leaf, int(other)))
    true_start(learner, drawn)
    learner.posterior.state = wrong
    learner.posterior.ids = wrong.tree.ids
    learner.cache.memo = None
    run(learner, 3)
    kind = next(k for k in kinds_of(MOVES) if k.name == "reattach")
    assert kind.candidates(context(learner))[0] == (leaf, int(group))
    bound = bound_of(learner.posterior)
    assert attempt(learner, kind.make(context(learner), leaf, int(group)), 4)
    assert bound_of(learner.posterior) > bound + 100.0


def test_duplicates_merge(drawn):
    """A group that was learned twice becomes one, with the children of both."""
    learner = true_start(begin(drawn.data, moves=None), drawn)
    state = learner.posterior.state
    tree = state.tree.add(0)
    leaf = int(tree.children_of(1)[-1])
    tree = tree.move(leaf, 13)
    twice = state.reindex_to(tree)
    twice.loadings[tree.positions(13)] = -state.loadings[1]
    twice.loading_variances[tree.positions(13)] = 1e-3
    learner.posterior.state, learner.posterior.ids = twice, tree.ids
    run(learner, 2)
    merge = next(k for k in kinds_of(MOVES) if k.name == "merge")
    pairs = merge.candidates(context(learner))
    assert set(pairs[0]) == {1, 13}
    assert attempt(learner, merge.make(context(learner), *pairs[0]), 4)
    assert len(learner.posterior.state.tree) == 13


# Verdicts -----------------------------------------------------------------------------


def test_rejected_moves_change_nothing(settled):
    """At the truth fewer nodes are worse; more would have to be far better."""
    posterior, memo = settled.posterior, settled.cache.memo
    before = copy.deepcopy(posterior)
    for _, proposal in list(proposals(settled))[:30]:
        assert not attempt(settled, proposal, 3, tol=1.0)
    assert_same(before, posterior)
    assert settled.cache.memo is memo


def test_a_gain_is_the_difference_of_two_full_objectives(settled):
    """Of each kind: statistics of all rows are summed afresh by their memos."""
    posterior, X, kinds = settled.posterior, settled.corpus.X, set()
    model, before = posterior.model, bound_of(posterior)
    edits = ComponentEdits(MOVES, 1e-5)
    for _, proposal in proposals(settled):
        if proposal.kind in kinds:
            continue
        kinds.add(proposal.kind)
        gain, result = edits.judge(settled, proposal, 0.0)
        one = settled.fork(replace(posterior), copy.copy(settled.cache))
        edits.make(one, proposal, result)
        state = one.posterior.state
        stats = sums(one.cache.memo, X, state.tree, model.frame, SERIAL)
        assert_allclose(model.bound(state, stats) - before, gain, atol=1e-6)
    assert kinds == {"split", "prune", "merge", "reattach"}


# Groups by means ----------------------------------------------------------------------


def blobs(seed):
    rng = np.random.default_rng(seed)
    target = rng.integers(3, size=150)
    centres = np.array([[0.0, 9.0, 0.0], [9.0, 0.0, 0.0], [-9.0, -9.0, 3.0]])
    return centres[target] + rng.normal(size=(150, 3)), target


def test_groups_begin_with_their_means(seed):
    X, target = blobs(seed)
    learner = begin(X, seed=seed, moves=None)
    run(learner, 2)
    proposal = propose_groups(context(learner), 3)
    state, tree = proposal.state, proposal.tree
    paths_ = tree.paths(tree.leaves)
    means = state.mean + np.einsum(
        "kl,kld->kd", state.centres[paths_], state.loadings[paths_]
    )
    rows = learner.posterior.model.frame.enter(X)
    expected = [rows[target == group].mean(axis=0) for group in range(3)]
    order = np.argmin(np.linalg.norm(means[:, None] - expected, axis=2), axis=1)
    assert sorted(order) == [0, 1, 2]
    assert_allclose(means, np.array(expected)[order], atol=0.02)
