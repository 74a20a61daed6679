"""The collapsed nested CRP against enumeration."""

import os
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import logsumexp

from checks.geweke import check_joint_distribution
from reference import nested_crp as reference
from skbnp.models.hdp_franchise import Tokens
from skbnp.models.hyperparameters import draw_concentration
from skbnp.models.ncrp_collapsed import LevelPriors, NestedPriors, Paths, Walks

N_WORDS = 3
#: Documents, and levels: 640 and 2916 states.
CORPORA = {
    "two-levels": ([[0, 0], [0, 1, 2], [1, 2]], 2, 640),
    "three-levels": ([[0, 0], [0, 1], [2]], 3, 2916),
}
GAMMA, ALPHA, ETA = 0.8, (2.0, 1.0, 0.5), (1.0, 0.5, 0.2)
N_REFERENCE = 100_000
N_DRAWS = int(os.environ.get("SKBNP_TEST_DRAWS", N_REFERENCE))


def walks_of(docs, n_levels, gamma=GAMMA, seed=0):
    begin = np.cumsum([0, *(len(doc) for doc in docs)])
    tokens = Tokens(np.concatenate(docs).astype(np.int32), begin, N_WORDS)
    priors = LevelPriors(gamma, np.array(ALPHA[:n_levels]), np.array(ETA[:n_levels]))
    return Walks(tokens, priors, rng=np.random.default_rng(seed))


def posterior(docs, n_levels):
    states = list(reference.states([len(doc) for doc in docs], n_levels))
    log_p = np.array(
        [
            reference.log_joint(
                state, docs, GAMMA, ALPHA[:n_levels], ETA[:n_levels], N_WORDS
            )
            for state in states
        ]
    )
    return states, np.exp(log_p - logsumexp(log_p))


class Numbers:
    """Numbers of states; those met before are looked up."""

    def __init__(self, states):
        self.states = {state: i for i, state in enumerate(states)}
        self.known = {}

    def __call__(self, walks):
        key = walks.path.tobytes() + walks.level.tobytes()
        if key not in self.known:
            paths = reference.canonical([tuple(path) for path in walks.path.tolist()])
            self.known[key] = self.states[paths, tuple(walks.level.tolist())]
        return self.known[key]


def check_frequencies(docs, n_levels, move, n_draws, seed):
    """Raise unless draws have the frequencies that enumeration gives.

    States, of which independent draws have a total variation of sqrt(n / (2 pi draws))
    at the most, and the numbers of nodes with the tokens at each level, of which there
    are few.
    """
    states, p = posterior(docs, n_levels)
    kinds = [
        (len({path[: i + 1] for path in s[0] for i in range(n_levels)}), *sorted(s[1]))
        for s in states
    ]
    kind = np.unique(kinds, axis=0, return_inverse=True)[1].ravel()
    walks = walks_of(docs, n_levels, seed=seed)
    rng, number = np.random.default_rng(seed), Numbers(states)
    walks.sweep(0, len(docs), rng)
    found = np.zeros(len(states))
    for _ in range(n_draws):
        move(walks, rng)
        found[number(walks)] += 1
    difference = found / n_draws - p
    limit = 1.3 * np.sqrt(len(states) / (2 * np.pi * n_draws))
    assert np.abs(difference).sum() / 2 < limit
    limit = 3.0 * np.sqrt((kind.max() + 1) / (2 * np.pi * n_draws))
    assert np.abs(np.bincount(kind, difference)).sum() / 2 < limit


def move(walks, rng):
    walks.sweep(0, walks.n_docs, rng)


@pytest.mark.parametrize("name", CORPORA)
def test_number_of_states_and_mass_of_the_prior(name):
    docs, n_levels, n_states = CORPORA[name]
    states, _ = posterior(docs, n_levels)
    assert len(states) == n_states
    silent = [[] for _ in docs]
    trees = sorted({paths for paths, _ in states})
    mass = sum(
        np.exp(
            reference.log_joint((t, ()), silent, GAMMA, ALPHA[:n_levels], ETA, N_WORDS)
        )
        for t in trees
    )
    assert mass == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("name", CORPORA)
def test_frequencies_are_those_of_the_posterior(name, seed):
    docs, n_levels, _ = CORPORA[name]
    check_frequencies(docs, n_levels, move, N_DRAWS, seed)


@pytest.mark.parametrize("name", CORPORA)
def test_log_joint_is_that_of_the_reference(name, seed):
    docs, n_levels, _ = CORPORA[name]
    walks, rng = walks_of(docs, n_levels, seed=seed), np.random.default_rng(seed)
    for _ in range(20):
        move(walks, rng)
        paths = reference.canonical([tuple(path) for path in walks.path.tolist()])
        expected = reference.log_joint(
            (paths, tuple(walks.level.tolist())),
            docs,
            GAMMA,
            ALPHA[:n_levels],
            ETA[:n_levels],
            N_WORDS,
        )
        assert walks.log_joint() == pytest.approx(expected, rel=1e-12)


def test_a_copy_of_the_paths_is_the_whole_state(seed):
    docs = [sorted(np.random.default_rng(n).integers(0, 3, 9)) for n in range(30)]
    walks, rng = walks_of(docs, 3), np.random.default_rng(seed)
    for _ in range(3):
        move(walks, rng)
    walks.tidy()
    copied = Walks(walks.tokens, walks.priors, walks.paths())
    for one in (walks, copied):
        move(one, np.random.default_rng(7))
        one.tidy()
    one, two = walks.paths(), copied.paths()
    np.testing.assert_array_equal(one.node, two.node)
    np.testing.assert_array_equal(one.level, two.level)


def check_counts(walks):
    """Raise unless counts are those of paths and levels."""
    again = Walks(walks.tokens, walks.priors, walks.paths())
    used = walks.docs > 0
    assert sorted(walks.docs[used]) == sorted(again.docs[again.docs > 0])
    assert walks.log_joint() == pytest.approx(again.log_joint(), rel=1e-12)
    assert (walks.counts.sum(axis=0) == walks.totals).all()
    assert walks.totals.sum() == len(walks.tokens)


@pytest.mark.parametrize("n_levels", [1, 2, 3])
@pytest.mark.parametrize("gamma", [1e-9, 1.0, 1e9])
def test_counts_are_those_of_paths_and_levels(gamma, n_levels, seed):
    docs = [sorted(np.random.default_rng(n).integers(0, 3, 7)) for n in range(40)]
    walks, rng = walks_of(docs, n_levels, gamma), np.random.default_rng(seed)
    for _ in range(5):
        move(walks, rng)
        check_counts(walks)
        walks.tidy()
        check_counts(walks)


@pytest.mark.parametrize("gamma", [1.0, 1e9])
def test_new_nodes_are_those_that_were_not_there(gamma, seed):
    docs = [sorted(np.random.default_rng(n).integers(0, 3, 7)) for n in range(60)]
    walks, rng = walks_of(docs, 3, gamma), np.random.default_rng(seed)
    move(walks, rng)
    walks.tidy()
    for _ in range(5):
        n_before = len(walks.columns)
        members = {
            column: set(np.flatnonzero((walks.path == column).any(axis=1)))
            for column in walks.columns
        }
        walks.sweep(0, 1, rng)  # one document: it leaves a path and takes one
        gone = [c for c in members if walks.docs[c] == 0]
        columns, is_new = walks.tidy()
        assert len(columns) == n_before - len(gone) + is_new.sum()
        for column in columns[~is_new]:
            assert column in members


def test_tree_has_the_nodes_that_documents_walk(seed):
    docs = [sorted(np.random.default_rng(n).integers(0, 3, 7)) for n in range(40)]
    walks, rng = walks_of(docs, 3), np.random.default_rng(seed)
    for _ in range(5):
        move(walks, rng)
    tree, columns = walks.tree()
    assert len(tree) == (walks.docs > 0).sum()
    assert walks.docs[columns[0]] == len(docs)
    np.testing.assert_array_equal(columns[tree.parent[1:]], walks.parent[columns[1:]])


# -- Geweke's test ---------------------------------------------------------------------

LENGTHS = (3, 4, 2, 5, 1, 3)
LEARN = NestedPriors(True, True, (4.0, 3.0), (6.0, 8.0))


@dataclass
class World:
    """Hyperparameters, paths, levels and words."""

    gamma: float
    eta: np.ndarray
    paths: list  # of each document, names of nodes within their parent
    levels: list  # of each document
    docs: list

    @classmethod
    def draw(cls, rng):
        gamma = rng.gamma(4.0, 1.0 / 3.0)
        eta = rng.gamma(6.0, 1.0 / 8.0, size=3)
        through, paths, levels = {}, [], []
        for length in LENGTHS:
            path = (0,)
            for _ in range(2):
                sizes = through.setdefault(path, [])
                masses = np.cumsum([*sizes, gamma])
                k = int(np.searchsorted(masses, rng.random() * masses[-1], "right"))
                if k == len(sizes):
                    sizes.append(0)
                sizes[k] += 1
                path = (*path, k)
            paths.append(path)
            share = rng.dirichlet(ALPHA)
            levels.append(rng.choice(3, size=length, p=share).tolist())
        world = cls(gamma, eta, paths, levels, [])
        world.draw_words(rng)
        return world

    def draw_words(self, rng):
        held, self.docs = {}, []
        for path, own in zip(self.paths, self.levels, strict=True):
            words = []
            for level in own:
                start = np.full(N_WORDS, self.eta[level])
                counts = held.setdefault(path[: level + 1], start)
                sums = np.cumsum(counts)
                word = int(np.searchsorted(sums, rng.random() * sums[-1], "right"))
                counts[word] += 1.0
                words.append(word)
            self.docs.append(words)


def statistics(world):
    nodes = Counter(path[: i + 1] for path in world.paths for i in range(3))
    flat = [level for own in world.levels for level in own]
    at = np.bincount(flat, minlength=3)
    state = reference.canonical(world.paths), tuple(flat)
    log_p = reference.log_joint(
        state, world.docs, world.gamma, ALPHA, tuple(world.eta), N_WORDS
    )
    words = np.bincount(np.concatenate(world.docs).astype(int), minlength=N_WORDS)
    below = [n for prefix, n in nodes.items() if len(prefix) == 2]
    leaves = [n for prefix, n in nodes.items() if len(prefix) == 3]
    return {
        "gamma": world.gamma,
        "gamma^2": world.gamma**2,
        "log gamma": np.log(world.gamma),
        "eta 0": world.eta[0],
        "eta 1": world.eta[1],
        "eta 2": world.eta[2],
        "eta 2^2": world.eta[2] ** 2,
        "log eta 1": np.log(world.eta[1]),
        "eta 0 by eta 2": world.eta[0] * world.eta[2],
        "log joint": log_p,
        "log joint^2": log_p**2,
        "nodes": len(nodes),
        "nodes^2": len(nodes) ** 2,
        "children of the root": len(below),
        "largest child": max(below),
        "leaves": len(leaves),
        "largest leaf": max(leaves),
        "leaves of one": leaves.count(1),
        "at the root": at[0],
        "at the leaves": at[2],
        "at the leaves^2": at[2] ** 2,
        "squares of words": (words**2).sum(),
        "repeated words": sum(len(d) - len(set(d)) for d in world.docs),
        "first two meet": world.paths[0][:2] == world.paths[1][:2],
        "first two end together": world.paths[0] == world.paths[1],
        "gamma by nodes": world.gamma * len(nodes),
    }


def walk(world):
    """The same as arrays; tokens of a document by word."""
    begin = np.cumsum([0, *LENGTHS])
    order = [np.argsort(words, kind="stable") for words in world.docs]
    words = [np.array(w)[o] for w, o in zip(world.docs, order, strict=True)]
    levels = [np.array(own)[o] for own, o in zip(world.levels, order, strict=True)]
    node = np.zeros((len(LENGTHS), 3), dtype=np.int32)
    for level in range(1, 3):
        names = {}
        for doc, path in enumerate(world.paths):
            node[doc, level] = names.setdefault(path[: level + 1], len(names))
    tokens = Tokens(np.concatenate(words).astype(np.int32), begin, N_WORDS)
    paths = Paths(node, np.concatenate(levels).astype(np.uint8))
    return Walks(tokens, LevelPriors(world.gamma, np.array(ALPHA), world.eta), paths)


def moved(world, rng, priors=LEARN):
    walks = walk(world)
    walks.sweep(0, len(LENGTHS), rng)
    priors.resample(walks, rng)
    split = walks.tokens.begin[1:-1]
    return World(
        walks.priors.concentration,
        walks.priors.topic_prior,
        [tuple(path) for path in walks.path.tolist()],
        [own.tolist() for own in np.split(walks.level, split)],
        [own.tolist() for own in np.split(walks.tokens.words, split)],
    )


N_GEWEKE = N_DRAWS // 1000 * 40


def test_geweke(seed):
    check_joint_distribution(World.draw, statistics, moved, N_GEWEKE, seed)


class CountsLeavesAsRestaurants(NestedPriors):
    def resample(self, walks, rng):
        NestedPriors.resample(self, walks, rng)
        children = int(((walks.docs > 0) & (walks.parent >= 0)).sum())
        gamma = draw_concentration(
            walks.priors.concentration,
            walks.docs[walks.docs > 0],
            children,
            self.concentration,
            rng,
        )
        walks.set_priors(replace(walks.priors, concentration=gamma))


class SharesTopicPrior(NestedPriors):
    """Draws one topic prior, from the leaves, for all levels."""

    def resample(self, walks, rng):
        NestedPriors.resample(self, walks, rng)
        same = np.full(3, walks.priors.topic_prior[2])
        walks.set_priors(replace(walks.priors, topic_prior=same))


@pytest.mark.parametrize("bug", [CountsLeavesAsRestaurants, SharesTopicPrior])
def test_geweke_finds_planted_bugs(bug):
    wrong = bug(True, True, (4.0, 3.0), (6.0, 8.0))
    with pytest.raises(AssertionError):
        check_joint_distribution(
            World.draw,
            statistics,
            lambda world, rng: moved(world, rng, wrong),
            2_000,
            0,
        )


# -- negative controls -----------------------------------------------------------------


def forget_to_move(walks, rng):
    walks.sweep(0, 1, rng)


def keep_paths(walks, rng):
    walks.sweep(0, walks.n_docs, rng, with_paths=False)


def wrong_prior(walks, rng):
    kept, priors = walks.priors, walks.priors
    walks.priors = LevelPriors(2 * GAMMA, priors.level_prior, priors.topic_prior)
    walks.sweep(0, walks.n_docs, rng)
    walks.priors = kept


@pytest.mark.parametrize("wrong", [forget_to_move, keep_paths, wrong_prior])
def test_check_finds_wrong_moves(wrong):
    docs, n_levels, _ = CORPORA["two-levels"]
    with pytest.raises(AssertionError):
        check_frequencies(docs, n_levels, wrong, 20_000, 0)
