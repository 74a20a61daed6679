"""Learning a tree with memory: an exact bound that never falls, and moves."""

import copy
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from checks.states import assert_same
from reference.ncrp_topics import collapsed_terms, log_beta
from skbnp.components.tree_sticks import LevelPriors, TreeMoves, log_stick_evidence
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor, new_history
from skbnp.inference.protocols import LocalStop
from skbnp.models.nested_crp import moves as tree_edits
from skbnp.models.nested_crp.local import PathCache, PathLocalStep, TreeCorpus
from skbnp.models.nested_crp.model import NestedModel, PathStats, TopicTree
from skbnp.models.nested_crp.moves import TIDY_COST, TreeEdits, kinds_of
from skbnp.models.nested_crp.start import start_posterior
from skbnp.trees import Tree

PRIORS = LevelPriors(1.0, np.full(3, 4.0), np.full(3, 0.1))
#: Topics of few words cost little: some documents leave the tree.
FLAT = LevelPriors(1.0, np.full(3, 4.0), np.ones(3))
#: Words of a node.
BLOCK = 5
#: Two groups of two leaves.
PLANTED = Tree([0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 2, 1, 2, 2])


class Watched(Learner):
    """A learner that is looked at after each step."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.runs, self.moved, self.kept = [[]], [], None  # bounds between moves

    @property
    def trace(self):
        """Bounds after all steps, moves too."""
        return [value for run in self.runs for value in run]

    def block_hook(self):
        """Sums and bounds are those of the documents."""
        stats = afresh(self)
        check_exact(self, stats)
        self.runs[-1].append(exact_bound(self, stats))
        self.judged = judged_bound(self, stats)
        self.kept = copy.deepcopy(totals_of(self))

    def learn_round(self, round, monitor):
        super().learn_round(round, monitor)
        self.block_hook()


class WatchedMemory(PathCache):
    """A memory that is looked at after passes."""

    learner = None

    def end_pass(self, posterior):
        super().end_pass(posterior)
        self.learner.block_hook()


class WatchedEdits(TreeEdits):
    """Moves that are looked at."""

    def attempt(self, learner, proposal, *, least=None, ignores_bound=False):
        assert_same(learner.kept, totals_of(learner))
        before = learner.judged
        if not super().attempt(
            learner, proposal, least=least, ignores_bound=ignores_bound
        ):
            assert_same(learner.kept, totals_of(learner))
            return False
        learner.runs.append([])
        learner.block_hook()
        if not ignores_bound:
            rise = learner.judged - before + (0.0 if least is None else TIDY_COST)
            assert rise > -1e-9 * abs(before), f"{proposal.kind} fell by {-rise}"
        learner.moved.append(proposal.kind)
        return True


def totals_of(learner):
    """All that a move may write."""
    posterior = learner.posterior
    held = posterior.state, posterior.global_stats, posterior.model, posterior.ids
    tree = posterior.state.tree
    names = [tree.ids, tree.depth, tree.next_id]
    return [names, *held[1:], posterior.lineage, learner.corpus.memos]


def afresh(learner):
    """Sum what the documents say, one by one, without a thought of speed."""
    topics, priors = learner.posterior.state, learner.posterior.model.priors
    tree, n_levels, alpha = topics.tree, priors.n_levels, priors.level_prior
    corpus = learner.corpus
    stats = PathStats.zero(len(tree), corpus.n_words, n_levels)
    if learner.cache.others is not None:
        stats = copy.deepcopy(learner.cache.others)
    entropy = stats.entropy
    paths = {int(k): tree.positions(tree.path_to(k)) for k in tree.ids}
    for X, memo in zip(corpus.parts, corpus.memos, strict=True):
        for doc in range(X.shape[0]):
            row = slice(*X.indptr[doc : doc + 2])
            words, x = X.indices[row], X.data[row]
            tokens = memo.tokens[slice(*memo.pairs[doc : doc + 2])]
            for number, k in enumerate(range(*memo.limits[doc : doc + 2])):
                q, path = memo.shares[k], paths[int(memo.stubs[k])]
                own = tokens[number * len(x) : (number + 1) * len(x)]
                stats.stub_masses[path[-1]] += q
                stats.stub_variances[path[-1]] += q * (1.0 - q)
                for level in range(n_levels):
                    if level < len(path):
                        held = own[:, level]
                        stats.word_counts[path[level], words] += q * held
                        variances = q * held * (1.0 - held / x)
                        stats.word_variances[path[level], words] += variances
                    else:
                        stats.off_tree_tokens[level] += q * own[:, level].sum()
                phi = own / x[:, None]
                logs = np.where(phi > 0.0, np.log(np.where(phi > 0.0, phi, 1.0)), 0.0)
                levels = log_beta(alpha + own.sum(axis=0)) - log_beta(alpha)
                entropy += q * (levels - (own * logs).sum() - np.log(q))
    return replace(stats, entropy=entropy)


def exact_bound(learner, stats):
    """Bound of all documents from scratch, in nats."""
    posterior = learner.posterior
    return sum(posterior.model.objective(posterior.state, stats).values())


def judged_bound(learner, stats):
    """The same with topics and sticks integrated out: what moves must not lower."""
    posterior = learner.posterior
    priors, tree = posterior.model.priors, posterior.state.tree
    total = exact_bound(learner, stats) + collapsed_terms(tree, priors, stats)
    total -= log_stick_evidence(tree, stats.stub_masses, priors)
    for level, held in zip(tree.depth, stats.word_counts, strict=True):
        eta = np.full(len(held), priors.topic_prior[level])
        total -= log_beta(eta + held) - log_beta(eta)
    return total


def check_exact(learner, stats):
    """The totals are those of the documents, and the globals hold them."""
    posterior = learner.posterior
    global_stats, tree = posterior.global_stats, posterior.state.tree
    tree.check()
    for name in PathStats.__slots__:
        left, right = getattr(global_stats, name), getattr(stats, name)
        assert_allclose(left, right, rtol=1e-9, atol=1e-9, err_msg=name)
    assert_array_equal(posterior.state.word_counts, global_stats.word_counts)
    assert_array_equal(posterior.state.stub_masses, global_stats.stub_masses)
    assert_array_equal(posterior.ids, tree.ids)


def check_never_falls(*runs):
    for run in runs:
        falls = -np.diff(run, prepend=run[0])
        assert falls.max() <= 1e-9 * np.abs(run).max(), f"fell by {falls.max():.2e}"


# Corpora and trees --------------------------------------------------------------------


def planted(rng, n_docs=40, tree=PLANTED, length=40, levels=(50, 50, 50)):
    """Documents whose nodes have words of their own, and the leaves where they end."""
    leaves = tree.ids[tree.leaves]
    ends, counts = leaves[np.arange(n_docs) % len(leaves)], []
    for end in ends:
        sizes = rng.multinomial(length, rng.dirichlet(levels))
        counts.append(np.zeros(BLOCK * tree.next_id))
        for node, n in zip(tree.path_to(end), sizes, strict=True):
            words = rng.integers(BLOCK * node, BLOCK * (node + 1), size=n)
            np.add.at(counts[-1], words, 1.0)
    return sp.csr_array(np.array(counts)), ends


def topics_like(tree, blocks, n_words, mass=15.0):
    """Topics that hold the words of some planted nodes each: {node: nodes}."""
    words, masses = np.zeros((len(tree), n_words)), np.zeros(len(tree))
    for node, own in blocks.items():
        (place,) = tree.positions([node])
        for each in own:
            words[place, BLOCK * each : BLOCK * (each + 1)] = 100.0 / len(own)
        masses[place] = mass if place in tree.leaves else 0.0
    return TopicTree(tree, words, masses)


def learner_of(
    X,
    topics,
    *,
    memoized=False,
    family="conditional",
    moves=None,
    learn=False,
    priors=PRIORS,
    kind=Watched,
    entropy=0,
    limit=np.inf,
):
    model = NestedModel(priors, learn_concentration=learn, learn_topic_prior=learn)
    local_step = PathLocalStep(LocalStop(100, 1e-4), Executor(1), family)
    corpus = TreeCorpus(X, 16 if memoized else None)
    one = kind(
        start_posterior(model, topics, entropy, limit),
        corpus,
        corpus.schedule(n_joint=1 if memoized else np.inf),
        local_step,
        (PathCache if kind is Learner else WatchedMemory)(corpus),
    )
    one.cache.learner = one
    if moves is not None:
        one.moves = edits_of(one, moves)
    return one


def edits_of(learner, moves, **settings):
    kind = WatchedEdits if isinstance(learner, Watched) else TreeEdits
    return kind(moves, **settings)


def random_start(rng, X, tree=PLANTED):
    """Topics of random documents."""
    words = X[rng.integers(X.shape[0], size=len(tree))].toarray() * 3.0
    masses = rng.gamma(1.0, 9.0, size=len(tree))
    return TopicTree(tree, words + rng.gamma(0.3, size=words.shape), masses)


def passes(learner, n_passes):
    monitor = Monitor(new_history())
    return [learner.one_pass(monitor) for _ in range(n_passes)]


def ends_of(learner):
    """Ids of the stubs where documents most probably end."""
    return np.concatenate([memo.stubs[memo.best] for memo in learner.corpus.memos])


def same_partition(left, right):
    pairs = set(zip(left.tolist(), right.tolist(), strict=True))
    return len(pairs) == len(set(left.tolist())) == len(set(right.tolist()))


# The bound ----------------------------------------------------------------------------

FORMS = list(product((False, True), ("conditional", "factorised")))
#: Each with priors that are learned or not, so that any two settings meet.
LEARNERS = [
    (*form, learn)
    for form, learn in zip(FORMS, (True, False, False, True), strict=True)
]


@pytest.mark.parametrize(("memoized", "family", "learn"), LEARNERS)
def test_bound_is_that_of_all_documents_and_never_falls(memoized, family, learn, seed):
    rng = np.random.default_rng(seed)
    X, _ = planted(rng)
    one = learner_of(
        X,
        random_start(rng, X),
        memoized=memoized,
        family=family,
        learn=learn,
    )
    passes(one, 8)
    assert len(one.trace) >= 8 + 7 * 3 * memoized
    check_never_falls(one.trace)
    assert one.trace[-1] > one.trace[0] + 10.0
    moved = one.posterior.model.priors.concentration != 1.0
    assert moved == learn


@pytest.mark.long
@pytest.mark.parametrize(("memoized", "family", "learn"), LEARNERS)
def test_bound_rises_with_each_move_and_stays_that_of_all_documents(
    memoized, family, learn, seed
):
    """`Watched` compares at each move."""
    rng = np.random.default_rng(seed)
    X, _ = planted(rng)
    one = learner_of(
        X,
        random_start(rng, X),
        memoized=memoized,
        family=family,
        learn=learn,
        moves=TreeMoves(max_tries=3),
    )
    passes(one, 4)
    check_never_falls(*one.runs)
    assert len(one.moved) >= 2


def test_pass_that_merges_by_rule_has_not_settled(seed, monkeypatch):
    """Two leaves that share their documents."""
    rng = np.random.default_rng(seed)
    X, _ = planted(rng)
    topics = topics_like(
        PLANTED.add(1), {n: [n % 7] for n in range(7)} | {7: [2]}, X.shape[1]
    )
    one = learner_of(X, topics, moves=TreeMoves.paper(), family="factorised")
    only(monkeypatch, "merge", "grow")
    quiet = []
    while "merge" not in one.moved and len(quiet) < 10:
        quiet += passes(one, 1)
    assert "merge" in one.moved
    assert not quiet[-1]


def test_kind_waits_where_all_its_trials_are_rejected(seed, monkeypatch):
    X, _ = planted(np.random.default_rng(seed))
    topics = topics_like(PLANTED, {node: [node] for node in range(7)}, X.shape[1])
    for accepts, turns in ((False, [0, 4]), (True, [0, 1, 2, 3, 4, 5])):
        one, tried = learner_of(X, topics, kind=Learner), []
        one.moves = edits_of(one, TreeMoves(max_tries=1))

        def attempt(learner, proposal, *, ignores_bound, tried=tried, accepts=accepts):
            tried.append((learner.n_passes - 1, proposal.kind))
            return accepts

        one.moves.attempt = attempt
        only(monkeypatch, "merge")
        passes(one, 6)
        assert [n for n, _ in tried] == turns


# Moves --------------------------------------------------------------------------------

TRUTH = {node: [node] for node in PLANTED.ids.tolist()}
#: A group of two leaves, and one of a single leaf.
SMALLER = Tree([0, 1, 2, 3, 4, 5], [0, 1, 2, 2, 1, 2])
#: One branch for both groups' words.
GROUPED = Tree([0, 1, 2, 3, 5, 6], [0, 1, 2, 2, 2, 2])

#: Trees to start from, what each node holds of the planted ones, and what must happen.
MENDS = {
    "merge": (
        Tree([0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 2, 1, 2, 2, 2]),
        TRUTH | {7: [6]},
    ),
    "merge-of-groups": (
        Tree([0, 1, 2, 7, 3, 4, 5, 6], [0, 1, 2, 1, 2, 1, 2, 2]),
        TRUTH | {7: [1]},
    ),
    "reattach": (
        Tree([0, 1, 2, 3, 6, 4, 5], [0, 1, 2, 2, 2, 1, 2]),
        TRUTH,
    ),
    "split": (GROUPED, TRUTH | {1: [1, 4]}),
    "split_leaf": (
        Tree([0, 1, 2, 4, 5, 6], [0, 1, 2, 1, 2, 2]),
        TRUTH | {2: [2, 3]},
    ),
    "prune": (
        Tree([0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 2, 1, 2, 2, 2]),
        TRUTH | {7: []},
    ),
    "prune-of-a-branch": (
        Tree([0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 2, 1, 2, 2, 1, 2]),
        TRUTH | {7: [], 8: []},
    ),
    "branch": (Tree([0, 1, 2, 3], [0, 1, 2, 2]), TRUTH),
}


def only(monkeypatch, *names):
    """Let learners make some kinds of moves."""
    kinds = kinds_of
    monkeypatch.setattr(
        tree_edits,
        "kinds_of",
        lambda moves: [kind for kind in kinds(moves) if kind.name in names],
    )


def settled(X, tree, blocks, **settings):
    """A learner whose documents are on a tree, before its first move."""
    topics = topics_like(tree, {n: blocks[n] for n in tree.ids.tolist()}, X.shape[1])
    one = learner_of(X, topics, **settings)
    passes(one, 1)
    one.moves = edits_of(one, TreeMoves(max_tries=100))
    return one


def shape_of(tree, ends, of):
    """The planted nodes whose documents pass each node: the tree, without names."""
    paths = [set(tree.path_to(end).tolist()) for end in ends]
    result = set()
    for node in tree.ids.tolist():
        leaves = {leaf for leaf, path in zip(of, paths, strict=True) if node in path}
        result.add((tree.depth_of(node), frozenset(leaves)))
    return result


@pytest.mark.long
@pytest.mark.parametrize("name", MENDS)
def test_planted_fault_is_mended_by_its_move(name, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    # Leaves matter more than groups: documents stay at theirs below a wrong one.
    truth = SMALLER if name == "branch" else PLANTED
    X, ends = planted(rng, tree=truth, levels=(50, 30, 70))
    tree, blocks = MENDS[name]
    one = settled(X, tree, blocks)
    kind = name.split("-")[0]
    # More leaves may begin than stay.
    more = kind in ("branch", "split_leaf")
    kinds = [kind, "prune"] if more else [kind]
    only(monkeypatch, *kinds)
    passes(one, 10 if more else 2)
    planted_shape = shape_of(truth, ends, ends)
    assert shape_of(one.posterior.state.tree, ends_of(one), ends) == planted_shape
    recorded = {"branch": "birth", "split_leaf": "split"}
    assert recorded.get(kind, kind) in one.moved
    assert set(one.moved) <= {recorded.get(each, each) for each in kinds}


@pytest.mark.long
@pytest.mark.parametrize("name", ["prune", "merge", "reattach", "split", "branch"])
def test_planted_tree_is_left_alone(name, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X, ends = planted(rng)
    one = settled(X, PLANTED, TRUTH)
    only(monkeypatch, name)
    passes(one, 5)
    assert one.moved == []
    assert same_partition(ends_of(one), ends)


# Others -------------------------------------------------------------------------------


def with_others(rng, kind=Watched, n_docs=40):
    """A learner that knows what most documents said, and visits some."""
    X, _ = planted(rng, n_docs=120)
    first = learner_of(X[n_docs:], random_start(rng, X), kind=Learner)
    passes(first, 3)
    topics, others = first.posterior.state, first.posterior.global_stats
    one = learner_of(X[:n_docs], topics, kind=kind)
    # The start has renamed the nodes, which stand where they stood.
    one.cache.others = others
    one.moves = edits_of(one, TreeMoves(max_tries=100))
    return one


@pytest.mark.long
def test_totals_are_those_of_all_documents_whatever_moves(seed):
    """And moves never lower the bound of all."""
    one = with_others(np.random.default_rng(seed))
    before = one.cache.others.n_tokens
    passes(one, 6)
    assert {"birth", "merge"} <= set(one.moved)
    assert one.cache.others.n_tokens == pytest.approx(before, rel=1e-12)


def test_moves_that_nobody_can_tell_of_are_not_made(seed):
    """No document here is at the leaves that would move."""
    one = with_others(np.random.default_rng(seed), kind=Learner)
    passes(one, 1)
    tree, tried = one.posterior.state.tree, one.moves.attempt

    def alone(learner, proposal, *, ignores_bound):
        rows = [docs[:0] for docs in proposal.rows]
        return tried(learner, replace(proposal, rows=rows), ignores_bound=True)

    one.moves.attempt = alone
    passes(one, 2)
    assert one.posterior.state.tree == tree
