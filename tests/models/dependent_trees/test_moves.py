"""Moves of dependent trees: records, partitions, gains, and learning with them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from reference import dependent_trees as reference
from skbnp import DependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import discarding
from skbnp.inference.posterior import Lineage
from skbnp.inference.protocols import NO_MOVES, BatchSchedule, Part, even_limits
from skbnp.inference.shards import LocalShards
from skbnp.inference.trials import WAIT, Rejections
from skbnp.models.dependent_trees import moves as kinds
from skbnp.models.dependent_trees import structure
from skbnp.models.dependent_trees.epoch import (
    EpochModel,
    EpochMoves,
    EpochPosterior,
    close_epoch,
)
from skbnp.models.dependent_trees.local import (
    Memo,
    Naturals,
    NodeTable,
    sum_rows,
    update_local,
)
from skbnp.models.dependent_trees.memory import (
    Edit,
    EpochCache,
    EpochLearner,
    LastBroadcast,
    RowLocalStep,
    ShardCorpus,
    remembered,
)
from skbnp.models.dependent_trees.moves import (
    N_UPDATES,
    EntropyLosses,
    MergeGain,
    attachment_gains,
    collect,
    merge_units,
    propose_attachments,
    propose_birth,
    propose_merges,
    propose_reversals,
    reverse_gain,
)
from skbnp.models.dependent_trees.records import (
    Products,
    attach,
    birth,
    merge,
    merged_into_of,
    remove,
    replay,
    replay_memo,
    reverse,
    sort,
)
from skbnp.models.dependent_trees.state import EpochStats, TreePriors, stick_evidence
from skbnp.models.dependent_trees.structure import EpochEdits
from skbnp.models.dependent_trees.updates import (
    spherical_kmeans,
    start_tree,
    update_means,
    update_nodes,
    update_sticks,
)
from skbnp.trees import Tree
from skbnp.utils.plain import from_plain, to_plain

PRIORS = TreePriors(0.7, 0.4, 1.1, 0.8)


def planted(seed=0, n_features=40, **settings):
    corpus = make_dependent_trees(
        n_features=n_features,
        concentration=3.0 * n_features,
        prior_concentration=2.5 * n_features,
        random_state=seed,
        **settings,
    )
    return corpus, sp.csr_array(corpus.data.astype(np.float32))


def posterior_of(state, stats, seed):
    """Of a first epoch under given weights."""
    log = [Lineage(0, "init", (), tuple(state.tree.ids.tolist()))]
    model = EpochModel(PRIORS, learns_past_weight=False)
    return EpochPosterior(model, state, stats, state.tree.ids, log, seed_entropy=seed)


def learner_of(*args, **settings):
    return learner_and_executor(*args, **settings)[0]


def learner_and_executor(X, start=30, moves=NO_MOVES, n_parts=1, seed=0, n_jobs=1):
    """Learner from so many clusters, or from labels of rows."""
    labels = start
    if np.isscalar(start):
        labels = spherical_kmeans(X, start, np.random.default_rng(seed))
    state, stats = start_tree(X, labels, PRIORS)
    posterior = posterior_of(state, stats, seed)
    executor = Executor(n_jobs)
    shards = shards_of(X, n_parts, executor.map)
    others = EpochStats.zero(len(state.tree), X.shape[1])
    return epoch_learner(posterior, shards, others, moves, executor.map), executor


def shards_of(X, n_parts=1, run=map):
    """Parts of equal size."""
    limits = even_limits(X.shape[0], n_parts)
    blocks = [X[begin:end] for begin, end in pairwise(limits)]
    return LocalShards(blocks, X.shape[1], run)


def epoch_learner(
    posterior, shards, others, moves=NO_MOVES, run=map, shards_per_round=1
):
    """Learner of one part after the other."""
    parts = tuple(map(Part, range(len(shards.n_rows))))
    schedule = BatchSchedule(parts, n_joint=1, n_together=shards_per_round)
    return EpochLearner(
        posterior,
        ShardCorpus(shards),
        schedule,
        RowLocalStep(shards),
        EpochCache(shards, others, run),
        moves,
    )


def memos_of(cache):
    """What the rows of each shard say."""
    return [
        cache.shards.map(
            remembered, [number], update_local.broadcast, update_local.edits
        )[0]
        for number, update_local in enumerate(cache.last_broadcasts)
    ]


def rows_of(shard, broadcast, argument):
    """Task: the rows of a shard."""
    return shard.X


def passes(learner, n):
    for _ in range(n):
        learner.one_pass(discarding())
    return learner


def bound(learner):
    posterior = learner.posterior
    terms = posterior.model.objective(posterior.state, posterior.global_stats)
    return sum(terms.values())


def next_epoch_of(learner, X):
    """Go on with rows of a later epoch."""
    posterior = learner.posterior
    shards = shards_of(X)
    close_epoch(posterior, 1)
    others = EpochStats.zero(len(posterior.state.tree), X.shape[1])
    return epoch_learner(posterior, shards, others, learner.moves)


def settled(seed, *, past=False, n_clusters=12):
    """Posterior of planted rows, no move made but that some nodes hang lower."""
    corpus, X = planted(seed, n_epochs=2)
    rows = corpus.epochs == 0
    learner = passes(learner_of(X[rows], n_clusters, seed=seed), 3)
    state, stats = learner.posterior.state, learner.posterior.global_stats
    ids = state.tree.ids
    records = [attach(int(ids[5]), 0, int(ids[1])), attach(int(ids[7]), 0, int(ids[3]))]
    state, stats = replay(state, stats, PRIORS, records)
    learner.posterior.replace_globals(state, stats)
    passes(learner, 2)
    if past:
        learner = passes(next_epoch_of(learner, X[~rows]), 2)
    return learner


# Learning on the common loop ----------------------------------------------------------


def test_memoized_totals_are_those_of_a_fresh_visit(seed):
    """After a pass whose globals stayed: they do not move by parts of one thread."""
    _, X = planted(seed)
    learner = passes(learner_of(X, 12, n_parts=4, seed=seed), 4)
    posterior, cache = learner.posterior, learner.cache
    result = learner.local_step.update_local(posterior, range(4))
    cache.last_broadcasts = [LastBroadcast(result.broadcast)] * 4
    global_stats = cache.global_stats(posterior.state.tree)
    _, fresh = update_local(NodeTable.of(posterior.state, PRIORS), X)
    assert_allclose(global_stats.masses, fresh.masses, rtol=1e-10, atol=1e-10)
    assert_allclose(global_stats.entropies, fresh.entropies, rtol=1e-10, atol=1e-10)
    assert_allclose(global_stats.sums.toarray(), fresh.sums.toarray(), atol=1e-10)
    assignments = memos_of(cache)[1].taken([5, 5, 5])
    edit = Edit({}, 100 + np.arange(3), assignments)
    cache.last_broadcasts = [LastBroadcast(result.broadcast, (edit,))] * 4
    wrong = cache.global_stats(posterior.state.tree)
    assert not np.allclose(wrong.masses, fresh.masses, atol=1e-6)


def test_rows_not_at_hand_keep_what_they_said(seed):
    """The statistics of a chunk count on while another one is learned."""
    _, X = planted(seed)
    learner = passes(learner_of(X[:200], 20, EpochEdits(EpochMoves()), seed=seed), 3)
    posterior, edits = learner.posterior, EpochEdits(EpochMoves())
    again = epoch_learner(
        posterior, shards_of(X[200:], 2), posterior.global_stats, edits
    )
    cache = again.cache
    before = -np.inf
    for _ in range(6):
        again.one_pass(discarding())
        assert_allclose(posterior.global_stats.n_tokens, 400.0, rtol=1e-12)
        assert bound(again) >= before - 1e-9 * abs(before)
        before = bound(again)
    assert cache.others.masses.shape == posterior.ids.shape
    assert_allclose(cache.others.n_tokens, 200.0)


# Records ------------------------------------------------------------------------------


def propose(learner, target):
    posterior, cache = learner.posterior, learner.cache
    (chosen,) = cache.gather([target], 2, 0, 1000)
    state, stats = posterior.state, posterior.global_stats
    streams = map(np.random.default_rng, range(5))
    naturals = Naturals.of(state, PRIORS).by_position(state.tree)
    result = [
        propose_birth(state, stats, PRIORS, naturals, chosen, EpochMoves(), -10.0, rng)
        for rng in streams
    ]
    return max(filter(None, result), key=lambda one: one.gain, default=None)


def with_two_in_one(seed=0, **settings):
    """Posterior in which one node has the rows of two."""
    corpus, X = planted(seed)
    labels = np.unique(corpus.target, return_inverse=True)[1]
    labels[labels == 9] = 8
    return passes(learner_of(X, labels, seed=seed, **settings), 3), corpus


def shared_node(learner, corpus):
    """The node that has the rows of two."""
    result = memos_of(learner.cache)[0].nodes[:, 0]
    return int(np.bincount(result[corpus.target == 9]).argmax())


def test_replay_on_a_copy_gives_the_same_tree(seed):
    learner, corpus = with_two_in_one(seed)
    state, stats = learner.posterior.state, learner.posterior.global_stats
    born = propose(learner, shared_node(learner, corpus)).record
    tree = born.edit(state.tree)
    level = [int(node) for node in tree.children_of(0)]
    records = [
        born,
        sort(tree.sort_siblings(-np.arange(len(tree))).ids),
        attach(level[1], 0, level[0]),
        merge(level[3], level[2]),
        merge(level[2], 0),
    ]
    new, kept = replay(state, stats, PRIORS, records)
    copy = replace(state, means=state.means.copy(), tree=Tree(*tree_of(state)))
    again, same = replay(copy, stats, PRIORS, records)
    assert new.tree.digest() == again.tree.digest() != state.tree.digest()
    assert_array_equal(new.means, again.means)
    assert_array_equal(kept.sums.toarray(), same.sums.toarray())
    assert_allclose(kept.n_tokens, stats.n_tokens, rtol=1e-12)
    assert_allclose(new.history.sum(), state.history.sum())
    other, _ = replay(state, stats, PRIORS, [*records[:3], merge(level[2], level[3])])
    assert other.tree.digest() != new.tree.digest()
    assert merged_into_of(records) == {level[3]: 0, level[2]: 0}


def tree_of(state):
    return state.tree.ids.copy(), state.tree.depth.copy(), state.tree.next_id


def test_memos_follow_records():
    nodes = np.array([[3, 5, 7, -1], [5, 7, -1, -1], [7, 3, -1, -1], [1, -1, -1, -1]])
    weights = np.array(
        [[0.5, 0.25, 0.25, 0], [0.5, 0.5, 0, 0], [0.75, 0.25, 0, 0], [1, 0, 0, 0]]
    )
    weights = weights.astype(np.float32)
    memo = Memo(nodes.astype(np.int32), weights)
    result = replay_memo(memo, merged_into_of([merge(5, 7), merge(7, 3)]))
    assert result.nodes[:, 0].tolist() == [3, 3, 3, 1]
    assert_array_equal(result.weights[:, 0], 1.0)
    assert (result.weights[:, 1:] == 0.0).all()
    gone = replay_memo(memo, remove(3).merged_into)
    assert_allclose(gone.shares().sum(axis=1), 1.0)
    assert 3 not in gone.nodes
    assert_array_equal(memo.nodes, nodes)


# Partitions ---------------------------------------------------------------------------


def random_tree(rng, n_nodes):
    tree = Tree()
    for _ in range(n_nodes - 1):
        tree = tree.add(int(rng.choice(tree.ids)))
    return tree


def check_units(tree, units, parity):
    parent, depth = tree.parent, tree.depth
    below = np.arange(1, len(tree))
    for node in below:
        siblings = np.flatnonzero(parent == parent[node])
        assert (units[siblings] == units[node]).all(), "a list is cut"
        if depth[node] % 2 == parity:
            assert units[node] == units[parent[node]], "apart from the parent"
        else:
            is_top = depth[node] == 1 and parity == 1
            assert is_top or units[node] != units[parent[node]], "two levels more"
        if units[node] >= 0:
            assert depth[node] - depth[units[node]] in (1, 2)


def test_units_of_merges_do_not_meet(seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        tree = random_tree(rng, 60)
        for parity in (0, 1):
            check_units(tree, merge_units(tree, parity), parity)
        # Every edge is in a unit of one of the two.
        together = [
            merge_units(tree, parity)[1:] == merge_units(tree, parity)[tree.parent[1:]]
            for parity in (0, 1)
        ]
        assert (together[0] | together[1]).all()
        with pytest.raises(AssertionError):
            check_units(tree, tree.parent, 0)  # each list by itself
    with pytest.raises(ValueError, match="parity"):
        merge_units(tree, 2)


# Gains --------------------------------------------------------------------------------


def full_gain(learner, records, touched):
    """What records change in the objective, one update of some nodes there and here."""
    posterior = learner.posterior
    state, stats = posterior.state, posterior.global_stats
    ids = np.array(touched)
    before = update_nodes(state, stats, PRIORS, ids)
    tree = state.tree
    for record in records:
        tree = record.edit(tree)
    places = state.tree.positions(tree.ids)
    moved = replace(
        state,
        tree=tree,
        masses=state.masses[places],
        history=state.history[places],
        means=state.means[places],
        concentrations=state.concentrations[places],
        past=state.past[places],
    )
    kept = stats.taken(places)
    after = update_nodes(moved, kept, PRIORS, ids)
    objective = posterior.model.objective
    return sum(objective(after, kept).values()) - sum(objective(before, stats).values())


@pytest.mark.parametrize("past", [False, True])
def test_attachment_is_worth_the_full_difference(past, seed):
    learner = settled(seed, past=past)
    state, stats = learner.posterior.state, learner.posterior.global_stats
    tree = state.tree
    moves = moves_of(tree)
    gains = gains_of(state, stats, moves)
    for move, result in zip(moves, gains, strict=True):
        wanted = full_gain(learner, [move], move.first)
        assert_allclose(result, wanted, rtol=1e-8, atol=1e-7)
    assert len(moves) > 50
    # The sticks alone are another number.
    best = int(np.argmax(np.abs(gains)))
    move, result = moves[best], gains[best]
    moved = move.edit(tree)
    places = tree.positions(moved.ids)
    masses, history = state.masses[places], state.history[places]
    sticks = stick_evidence(moved, masses, history, PRIORS)
    sticks -= stick_evidence(tree, state.masses, state.history, PRIORS)
    assert abs(sticks - result) > 1e-3


def moves_of(tree):
    """All nodes below all others that are no part of them."""
    return [
        attach(node, int(tree.parent_of(node)), parent)
        for node in tree.ids[1:].tolist()
        for parent in tree.ids.tolist()
        if parent not in (tree.parent_of(node), *tree.subtree_of(node))
    ]


def gains_of(state, stats, moves):
    pairs = [move.parents for move in moves]
    nodes, parents = state.tree.positions(pairs).T.copy()
    return attachment_gains(state, stats, PRIORS, nodes, parents)


def settled_in_turn(learner, record, n_updates):
    """Make a move, and update what it touches so often, those above first."""
    posterior = learner.posterior
    old = posterior.state
    new, kept = replay(old, posterior.global_stats, PRIORS, [record])
    at = old.tree.positions(new.tree.ids)
    given = {"means": old.means[at], "concentrations": old.concentrations[at]}
    new = replace(new, **given)
    for _ in range(n_updates):
        new = update_nodes(new, kept, PRIORS, np.array(record.touched))
    return sum(posterior.model.objective(new, kept).values())


@pytest.mark.parametrize("past", [False, True])
def test_reversal_is_worth_the_full_difference(past, seed):
    learner = settled(seed, past=past)
    posterior = learner.posterior
    state, stats = posterior.state, posterior.global_stats
    for node in state.tree.ids[1:].tolist():
        record = reverse(node, int(state.tree.parent_of(node)))
        result = reverse_gain(state, stats, PRIORS, node)
        old = state
        for _ in range(N_UPDATES):
            old = update_nodes(old, stats, PRIORS, np.array(record.touched))
        before = sum(posterior.model.objective(old, stats).values())
        wanted = settled_in_turn(learner, record, N_UPDATES) - before
        assert_allclose(result, wanted, rtol=1e-8, atol=1e-7)
        assert abs(settled_in_turn(learner, record, 0) - before - result) > 1e-6


@pytest.mark.parametrize(
    ("propose", "judge"),
    [
        (propose_attachments, "attachment_gains"),
        (propose_reversals, "reverse_gain"),
    ],
)
def test_what_gains_nothing_waits_and_nothing_else(propose, judge, seed, monkeypatch):
    learner = settled(seed)
    state, stats = learner.posterior.state, learner.posterior.global_stats
    products, rejections, judged = Products.of(state, PRIORS), Rejections(), []

    def judge_all(n_passes, gain):
        """Return what is judged in a pass if all gain as much."""
        judged.clear()

        def worth(state, stats, priors, *places):
            judged.extend(np.column_stack(places).tolist())
            return np.full(np.shape(places[0]), gain)

        monkeypatch.setattr(kinds, judge, worth)
        propose(state, stats, PRIORS, products, rejections, n_passes)
        return list(judged)

    candidates = judge_all(1, gain=10.0)
    assert candidates
    assert not rejections._waits
    assert judge_all(1, gain=0.0) == candidates
    assert len(rejections._waits) == len(candidates)
    for n_passes in range(2, 1 + WAIT):
        assert judge_all(n_passes, gain=10.0) == []
    assert judge_all(1 + WAIT, gain=10.0) == candidates


def test_nodes_with_a_past_do_not_go_deeper(seed, monkeypatch):
    """They may where they have none: the best parents are deeper for some."""
    learner = settled(seed)
    state = learner.posterior.state
    tree, n_nodes = state.tree, len(state.tree)
    monkeypatch.setattr(kinds, "N_PARENTS", n_nodes)
    monkeypatch.setattr(kinds, "PARENT_SLACK", 1e300)

    def pairs(has_past):
        products = replace(Products.of(state, PRIORS), has_past=has_past)
        nodes, parents = kinds._best_parents(tree, products)
        deeper = tree.depth[parents] > tree.depth[tree.parent[nodes]]
        result = zip(nodes.tolist(), parents.tolist(), deeper.tolist(), strict=True)
        return set(result)

    free = pairs(np.zeros(n_nodes, dtype=bool))
    assert any(deeper for *_, deeper in free)
    has_past = np.arange(n_nodes) % 2 == 0
    kept = {one for one in free if not (has_past[one[0]] and one[2])}
    assert kept < free
    assert pairs(has_past) == kept


@pytest.mark.parametrize("gain", [0.0, 1e3])
def test_parents_are_reviewed_after_the_tree_has_changed(gain, seed, monkeypatch):
    """Once, and not while moves gain much."""
    learner = settled(seed)
    edits, looks = EpochEdits(EpochMoves(birth=False)), []
    edits._concentration = learner.posterior.state.concentration
    monkeypatch.setattr(EpochEdits, "_review_parents", lambda *given: looks.append(1))
    monkeypatch.setattr(EpochEdits, "_in_turns", lambda *given: None)
    rise = iter(range(100))
    monkeypatch.setattr(EpochEdits, "bound", lambda *given: 1e3 + gain * next(rise))
    record = sort(learner.posterior.state.tree.ids)
    for n_looks, made in ((1, []), (1, []), (1, [record]), (2, []), (2, [])):
        monkeypatch.setattr(
            EpochEdits,
            "_prune",
            lambda edits, learner, made=made: setattr(edits, "records", made),
        )
        edits.end_pass(learner, discarding("elbo"))
        assert len(looks) == (n_looks if gain == 0.0 else 0)
        other = from_plain(to_plain(edits))
        assert other._is_reviewed == (gain == 0.0 and not made)


def test_reversals_put_a_tree_right_that_hangs_on_a_wrong_node(seed):
    learner = settled(seed)
    posterior, model = learner.posterior, learner.posterior.model
    before = bound(learner)
    node = int(posterior.state.tree.children_of(posterior.state.tree.ids[0])[0])
    wrong = reverse(node, int(posterior.state.tree.ids[0]))
    state, stats = replay(posterior.state, posterior.global_stats, PRIORS, [wrong])
    for _ in range(20):
        state = update_means(state, stats, PRIORS)
    assert sum(model.objective(state, stats).values()) < before - 1.0
    while True:
        products = Products.of(state, PRIORS)
        result = propose_reversals(state, stats, PRIORS, products, Rejections(), 1)
        if not result:
            break
        state, stats = replay(state, stats, PRIORS, result)
        for _ in range(20):
            state = update_means(state, stats, PRIORS)
    assert sum(model.objective(state, stats).values()) > before - 1.0


# Merges into the root -----------------------------------------------------------------


def unlearned(seed):
    """A learner whose prior concentration is not the best one."""
    learner = settled(seed)
    posterior = learner.posterior
    kappa = 2.0 * posterior.state.prior_concentration
    state = replace(posterior.state, prior_concentration=kappa)
    posterior.replace_globals(state, posterior.global_stats)
    return learner


@pytest.fixture
def into_root(seed, monkeypatch):
    """Try merges into the root that lose so much entropy; what has come of it."""
    monkeypatch.setattr(structure, "ROOT_SLACK", np.inf)
    monkeypatch.setattr(structure, "ROOT_MERGES", 2)
    monkeypatch.setattr(EpochEdits, "_refresh", lambda *given: None)

    def merged_into_root(lost, edits=None, **settings):
        monkeypatch.setattr(EntropyLosses, "of", lambda *given: lost)
        learner, edits = unlearned(seed), edits or EpochEdits(EpochMoves(**settings))
        edits._products = structure.CachedProducts()
        edits._merge_into_root(learner)
        return learner, edits

    return merged_into_root


def test_merges_into_the_root_are_made_with_what_follows(into_root, seed):
    old, (learner, edits) = unlearned(seed).posterior, into_root(-1e9)
    new, (first, *others) = learner.posterior, edits.records
    assert (first.kind, first.children) == ("merge", (old.state.tree.ids[0],))
    assert {one.kind for one in others} <= {"reattach"}
    assert len(new.state.tree) == len(old.state.tree) - 1
    assert new.state.prior_concentration != old.state.prior_concentration
    assert_allclose(new.global_stats.n_tokens, old.global_stats.n_tokens)
    for settings in ({"merge": "none"}, {"merge": "safe", "reattach": False}):
        _, edits = into_root(-1e9, **settings)
        assert len(edits.records) == (settings["merge"] == "safe")


def test_what_priors_gain_without_a_merge_does_not_count(into_root, seed):
    posterior = unlearned(seed).posterior
    given = posterior.state, posterior.global_stats
    model, new = posterior.model.learn_priors(*given)
    alone, before = model.bound(new, given[1]), posterior.model.bound(*given)
    assert alone > before + 1.0
    learner, edits = into_root(-1e9)
    after = edits.bound(learner.posterior)
    assert not into_root(after - alone + 1e-4)[1].records
    assert into_root(after - alone - 1e-4)[1].records


def test_merges_into_the_root_that_gain_nothing_wait(into_root):
    learner, edits = into_root(1e9)
    assert not edits.records
    assert len(edits.rejections._waits) == 2
    into_root(1e9, edits)  # two others
    assert len(edits.rejections._waits) == 4
    assert {key[0] for key in edits.rejections._waits} == {"root"}
    assert set(ids_of(edits)) <= set(learner.posterior.state.tree.children_of(0))


def ids_of(edits):
    return [key[1] for key in edits.rejections._waits]


@pytest.mark.long
def test_the_root_of_planted_trees_has_rows(monkeypatch):
    """Without, it stays a node without rows, and the planted root is below it."""

    def n_without_rows(seed):
        corpus = make_dependent_trees(random_state=seed)
        trees = DependentTrees(random_state=seed).fit(corpus.data)
        (record,) = trees.epochs_.values()
        return int((record.masses < 2.0).sum())

    seeds = 177, 922
    assert sum(map(n_without_rows, seeds)) == 0
    monkeypatch.setattr(EpochEdits, "_merge_into_root", lambda *given: None)
    assert sum(map(n_without_rows, seeds)) == len(seeds)


class KnownGains:
    """In the place of products: gains of merges by pair."""

    def __init__(self, gains):
        self.gains = gains

    def merges(self, sources, targets):
        return self.gains[sources, targets]


@pytest.mark.parametrize("n_pairs", [kinds.PAIRS_PER_BLOCK, 7])
def test_pairs_that_are_judged_are_those_of_the_reference(seed, n_pairs, monkeypatch):
    """Nodes with a past, infinitely heavy, among others, ties, nodes that stay."""
    monkeypatch.setattr(kinds, "PAIRS_PER_BLOCK", n_pairs)
    rng = np.random.default_rng(seed)
    differ = np.zeros(3, dtype=bool)
    least = -kinds.MOST_STICKS - kinds.MOST_OFF
    for _ in range(30):
        n_nodes = int(rng.integers(2, 30))
        tree = Tree([0], [0])
        for node in range(1, n_nodes):
            tree = tree.add(int(rng.integers(node)))
        heavy = rng.integers(1, 4, n_nodes) + 10.0 * (rng.random(n_nodes) < 0.3)
        # Rounded, so that many are equal.
        gains = rng.normal(least, 99.0, (30, 30)).round(-2) + 1.0
        units = rng.integers(2, size=n_nodes)
        nodes = np.flatnonzero(rng.random(n_nodes) < 0.8)
        pairs = kinds._ranked(tree, nodes, units, heavy, KnownGains(gains))
        result = list(zip(*(places.tolist() for places in pairs), strict=True))
        given = tree.parent.tolist(), nodes.tolist(), units
        n_targets = kinds.N_TARGETS
        wanted = reference.ranked_merges(*given, heavy, gains, n_targets, least)
        assert result == wanted
        others = (
            reference.ranked_merges(*given, heavy, gains, n_targets, least + 10.0),
            reference.ranked_merges(*given, heavy % 10.0, gains, n_targets, least),
            reference.ranked_merges(*given, heavy, gains, n_targets + 1, least),
        )
        differ |= [result != other for other in others]
    assert differ.all()


def test_proposed_moves_raise_the_bound_together(seed):
    learner = settled(seed, n_clusters=25)
    posterior = learner.posterior
    state, stats, model = posterior.state, posterior.global_stats, posterior.model
    before, products = bound(learner), Products.of(state, PRIORS)
    losses = learner.cache.losses()
    (memo,), (X,) = memos_of(learner.cache), learner.cache.shards.map(rows_of, [0])
    units = {parity: merge_units(state.tree, parity) for parity in (0, 1)}
    n_merges = 0
    for parity in (1, 0):
        merges = propose_merges(
            state, stats, PRIORS, products, parity, "safe", losses, []
        )
        if not merges:
            continue
        n_merges += len(merges)
        records = [record for one in merges for record in one.records]
        ids = [node for record in records for node in record.parents]
        assert len(set(ids)) == len(ids)
        for record in records:
            places = state.tree.positions(record.parents)
            assert len(set(units[parity][places].tolist())) == 1
        new, kept = replay(state, stats, PRIORS, records)
        exact = sum_rows(new.tree, replay_memo(memo, merged_into_of(records)), X)
        after = sum(model.objective(update_sticks(new, exact), exact).values())
        assert after > before
        lost = kept.entropies.sum() - exact.entropies.sum()
        assert -1e-6 <= lost <= sum(one.lost for one in merges) + 1e-5
    assert n_merges > 5
    moves = propose_attachments(state, stats, PRIORS, products, Rejections(), 1)
    assert moves
    new, kept = replay(state, stats, PRIORS, moves)
    assert sum(model.objective(new, kept).values()) > before


def test_losses_are_those_of_the_rows(seed):
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(4, 0.5), size=30).astype(np.float32)
    order = np.argsort(-q, axis=1)
    q = np.take_along_axis(q, order, axis=1)
    memo = Memo(order.astype(np.int32), q)
    losses = EntropyLosses.of_rows(memo.taken(slice(0, 9)))
    losses = losses.plus(EntropyLosses.of_rows(memo.taken(slice(9, 30))))
    sure, unsure = MergeGain(0.0, 0.0), MergeGain(0.0, np.inf)
    shares = np.zeros((30, 4))
    np.put_along_axis(shares, order, memo.shares(), axis=1)

    def f(x):
        return (x * np.log(x)).sum()

    for one in range(4):
        for other in range(one):
            a, b = shares[:, one], shares[:, other]
            wanted = f(a + b) - f(a) - f(b)
            for both in ((one, other), (other, one)):
                assert_allclose(losses.of(*both, unsure), wanted, rtol=1e-9)
                assert losses.of(*both, sure) == 0.0
    assert losses.of(2, 4, unsure) == 0.0  # no row is at both
    assert replace(losses, has_others=True).of(2, 4, unsure) == np.inf


# Births -------------------------------------------------------------------------------


def test_rows_of_births_do_not_depend_on_parts(seed):
    _, X = planted(seed)
    (memo,) = memos_of(passes(learner_of(X, 5, seed=seed), 2).cache)
    targets = np.unique(memo.nodes[:, 0]).tolist()
    of_whole = collect(memo, targets, 6, 3, 0, 20)
    of_parts = [
        collect(memo.taken(slice(0, 150)), targets, 6, 3, 0, 20),
        collect(memo.taken(slice(150, 400)), targets, 6, 3, 150, 20),
    ]
    later = collect(memo, targets, 6, 4, 0, 20)
    for number, (target, (whole, keys)) in enumerate(
        zip(targets, of_whole, strict=True)
    ):
        rows = np.concatenate([part[number][0] for part in of_parts])
        joined = np.concatenate([part[number][1] for part in of_parts])
        assert_array_equal(rows[np.argsort(joined, kind="stable")[:20]], whole)
        assert (np.diff(keys.astype(object)) > 0).all()
        shares = np.where(memo.nodes == target, memo.shares(), 0.0).sum(axis=1)
        able = np.flatnonzero(shares >= 1.0 / np.sqrt(6) - 1e-6)
        if len(able) <= 20:
            assert_array_equal(np.sort(whole), able)
        else:
            assert len(whole) == 20
            assert np.isin(whole, able).all()
            assert not np.array_equal(later[number][0], whole)
    assert len(targets) > 1


def test_birth_finds_the_rows_of_another_node(seed):
    learner, corpus = with_two_in_one(seed)
    result = propose(learner, shared_node(learner, corpus))
    before = bound(learner)
    posterior, cache = learner.posterior, learner.cache
    new, kept = replay(posterior.state, posterior.global_stats, PRIORS, [result.record])
    objective = posterior.model.objective
    assert sum(objective(new, kept).values()) - before > 0.95 * result.gain > 5.0
    pair = np.array([result.target, result.new])
    for _ in range(5):
        new = update_nodes(new, kept, PRIORS, pair)
    rise = sum(objective(new, kept).values()) - before
    assert rise >= result.gain - 1e-6
    # Rows count once.
    cache.keep(posterior, [result.record], (result.rows, result.memo))
    recomputed = cache.sum_cached([0], new.tree)
    assert_allclose(kept.masses, recomputed.masses, atol=1e-9)
    assert_allclose(kept.entropies, recomputed.entropies, atol=1e-9)
    assert_allclose(kept.sums.toarray(), recomputed.sums.toarray(), atol=1e-9)
    born = result.rows[result.memo.nodes[:, 0] == result.new]
    assert len(born) > 20
    assert np.bincount(corpus.target[born]).max() > 0.9 * len(born)
    # A record that leaves out what they said before counts them twice.
    change = replace(result.change, masses=np.maximum(result.change.masses, 0.0))
    record = replace(result, change=change).record
    twice = replay(posterior.state, posterior.global_stats, PRIORS, [record])[1]
    assert twice.n_tokens > learner.corpus.n_docs + 20.0


# Settings -----------------------------------------------------------------------------


def test_births_change_sums_together_as_one_by_one(seed):
    rng, posterior = np.random.default_rng(seed), settled(seed).posterior
    state, stats = posterior.state, posterior.global_stats
    first, second = state.tree.ids[np.argsort(-stats.masses)[:2]].tolist()
    new = state.tree.next_id
    births = []
    for number, target in enumerate((first, first, second)):
        row = sp.random_array((1, state.dimension), density=0.3, rng=rng)
        change = EpochStats(
            rng.uniform(0.1, 0.5) * np.array([-1.0, 1.0]),
            sp.csr_array(sp.vstack([-row, row])),
            rng.random(2),
        )
        births.append((target, np.array([target, new + number]), change))
    records = [birth(target, ids[1], ids, change) for target, ids, change in births]
    new_tree, kept = replay(state, stats, PRIORS, [*records, merge(new + 1, first)])
    ids = [*state.tree.ids.tolist(), new, new + 2]
    wanted = {
        node: [np.zeros(1), np.zeros(state.dimension), np.zeros(1)] for node in ids
    }

    def add(node, one, place):
        wanted[node][0] += one.masses[place]
        wanted[node][1] += one.sums[[place]].toarray()[0]
        wanted[node][2] += one.entropies[place]

    for place, node in enumerate(state.tree.ids.tolist()):
        add(node, stats, place)
    for _, ids, change in births:
        for place, node in enumerate(ids.tolist()):
            add(first if node == new + 1 else node, change, place)
    for place, node in enumerate(new_tree.tree.ids.tolist()):
        result = (
            kept.masses[place],
            kept.sums[[place]].toarray()[0],
            kept.entropies[place],
        )
        for one, other in zip(result, wanted[node], strict=True):
            assert_allclose(np.atleast_1d(one), other, rtol=1e-10, atol=1e-10)
