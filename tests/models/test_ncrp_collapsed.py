"""The collapsed nested CRP against enumeration."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import pytest
from scipy.special import logsumexp

from checks.frequencies import check_frequencies
from checks.geweke import check_joint_distribution
from checks.long import daily
from reference import nested_crp as reference
from skbnp.components.tree_sticks import LevelPriors
from skbnp.distributions import draw_by_slice
from skbnp.kernels._nested_crp import TOGETHER
from skbnp.models.nested_crp_walks import NestedPriors, NestedSample, Paths, Walks
from skbnp.rows.batch import Tokens

N_WORDS = 3
#: Documents, and levels.
CORPORA = {
    "two-levels": ([[0, 0], [0, 1, 2], [1, 2]], 2),
    "three-levels": ([[0, 0], [0, 1], [2]], 3),
}
GAMMA, ALPHA, ETA = 0.8, (2.0, 1.0, 0.5), (1.0, 0.5, 0.2)
#: Draws in which wrong moves are found.
N_DRAWS = 8_000


def walks_of(docs, n_levels, gamma=GAMMA, seed=0):
    begin = np.cumsum([0, *(len(doc) for doc in docs)])
    tokens = Tokens(np.concatenate(docs).astype(np.int32), begin, N_WORDS)
    priors = LevelPriors(gamma, np.array(ALPHA[:n_levels]), np.array(ETA[:n_levels]))
    rng = np.random.default_rng(seed)
    return Walks(tokens, priors, rng=rng)


def posterior(docs, n_levels):
    """All states of some documents, and their probabilities; found once."""
    return _posterior(tuple(map(tuple, docs)), n_levels)


@cache
def _posterior(docs, n_levels):
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


@dataclass
class Gone:
    """The first documents, as they have walked; the others go on from their counts."""

    paths: tuple = ()
    levels: tuple = ()

    def leave(self, docs, n_levels, gamma=GAMMA, seed=0):
        """Walks of the other documents, and names of nodes in the first ones' paths."""
        n_gone = len(self.paths)
        rest = walks_of(docs[n_gone:], n_levels, gamma, seed)
        if n_gone == 0:
            return rest, {}
        first = walks_of(docs[:n_gone], n_levels)
        node, names = np.zeros((n_gone, n_levels), dtype=np.int32), {}
        for level in range(n_levels):
            prefixes = [path[: level + 1] for path in self.paths]
            known = list(dict.fromkeys(prefixes))
            node[:, level] = [known.index(prefix) for prefix in prefixes]
            names |= {prefix: (level, known.index(prefix)) for prefix in known}
        first.restore(Paths(node, np.array(self.levels, dtype=np.uint8)))
        place = {
            (level, number): place
            for place, (level, number) in enumerate(sorted(names.values()))
        }
        ids = np.arange(len(place))
        sample = NestedSample.of(first, ids, log_joint=0.0, chain=0, step=0)
        nodes = sample.nodes()
        walks = Walks(rest.tokens, rest.priors, rest.paths(), nodes)
        now = sample.component_ids[sample.level_order].tolist()
        names = {
            prefix: (at[0], int(nodes.number[now.index(place[at])]))
            for prefix, at in names.items()
        }
        return walks, names


class Numbers:
    """Numbers of states; those met before are looked up."""

    def __init__(self, states, gone, names):
        self.states = {state: i for i, state in enumerate(states)}
        self.gone, self.names, self.known = gone, names, {}

    def __call__(self, walks):
        key = walks.path.tobytes() + walks.level.tobytes() + walks.first.tobytes()
        if key not in self.known:
            self.known[key] = self.states[state_of(walks, self.gone, self.names)]
        return self.known[key]


def state_of(walks, gone, names):
    """Paths and levels of all documents."""
    before = [
        tuple(
            int(walks.first[level]) + names[path[: level + 1]][1]
            for level in range(len(path))
        )
        for path in gone.paths
    ]
    paths = reference.canonical([*before, *map(tuple, walks.path.tolist())])
    return paths, (*gone.levels, *walks.level.tolist())


NOBODY = Gone()


def given(states, p, gone):
    """States in which the first documents are where they are, and their posterior."""
    paths, n = reference.canonical(gone.paths), len(gone.levels)
    kept = [
        i
        for i, (walked, levels) in enumerate(states)
        if walked[: len(paths)] == paths and levels[:n] == tuple(gone.levels)
    ]
    return [states[i] for i in kept], p[kept] / p[kept].sum()


def check_moves(docs, n_levels, move, n_draws, seed, gone=NOBODY):
    """Raise unless draws have the frequencies that enumeration gives.

    States, and the numbers of nodes with the tokens at each level, of which there are
    few.
    """
    states, p = given(*posterior(docs, n_levels), gone)
    kinds = [
        (len({path[: i + 1] for path in s[0] for i in range(n_levels)}), *sorted(s[1]))
        for s in states
    ]
    walks, names = gone.leave(docs, n_levels, seed=seed)
    rng, number = np.random.default_rng(seed), Numbers(states, gone, names)
    walks.sweep(0, walks.n_docs, rng)
    drawn = []
    for _ in range(n_draws):
        move(walks, rng)
        drawn.append(number(walks))
    check_frequencies(drawn, p)
    kind = np.unique(kinds, axis=0, return_inverse=True)[1].ravel()
    check_frequencies(drawn, p, kind)


def move(walks, rng):
    walks.sweep(0, walks.n_docs, rng)


def move_together(walks, rng):
    walks.sweep(0, walks.n_docs, rng, TOGETHER)


each_move = pytest.mark.parametrize("move", [move, move_together])


@pytest.mark.parametrize("name", CORPORA)
@each_move
def test_frequencies_are_those_of_the_posterior(move, name, seed):
    docs, n_levels = CORPORA[name]
    check_moves(docs, n_levels, move, N_DRAWS, seed)


#: Documents that have gone, the rest of the corpus.
LEFT = {
    "one": (Gone(((0, 0),), (1, 1)), [[0, 0], [0, 1, 2], [1, 2]]),
    "two": (Gone(((0, 0), (0, 1)), (0, 1, 1)), [[0, 0], [1], [0, 1], [1, 2]]),
    "many": (Gone(((0, 0),) * 3, (0, 1, 1)), [[0], [0], [1], [0, 1], [1, 2]]),
    "deep": (
        Gone(((0, 0, 0), (0, 0, 1)), (2, 1, 0, 1)),
        [[0, 0], [0, 1], [2, 1], [0]],
    ),
}


@pytest.mark.parametrize("name", daily(1, ["many", "deep", "one", "two"]))
@each_move
def test_frequencies_given_counts_before_are_those_of_the_posterior(move, name, seed):
    gone, docs = LEFT[name]
    check_moves(docs, len(gone.paths[0]), move, N_DRAWS, seed, gone)


ALL = {name: (NOBODY, corpus[0]) for name, corpus in CORPORA.items()}
ALL |= LEFT


@pytest.mark.parametrize("name", ALL)
def test_log_joint_is_that_of_the_reference(name, seed):
    gone, docs = ALL[name]
    n_levels = len(gone.paths[0]) if gone.paths else CORPORA[name][1]
    hyper = GAMMA, ALPHA[:n_levels], ETA[:n_levels], N_WORDS
    walks, names = gone.leave(docs, n_levels, seed=seed)
    before = reference.canonical(gone.paths), gone.levels
    known = reference.log_joint(before, docs[: len(gone.paths)], *hyper)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        move(walks, rng)
        state = state_of(walks, gone, names)
        expected = reference.log_joint(state, docs, *hyper) - known
        assert walks.log_joint() == pytest.approx(expected, rel=1e-11)


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
    again = Walks(walks.tokens, walks.priors, walks.paths(), walks.before)
    used = walks.docs > 0
    assert sorted(walks.docs[used]) == sorted(again.docs[again.docs > 0])
    assert walks.log_joint() == pytest.approx(again.log_joint(), rel=1e-12)
    assert (walks.counts.sum(axis=0) == walks.node_tokens).all()
    assert walks.node_tokens[~used].sum() == 0
    n_before = 0 if walks.before is None else walks.before.counts.sum()
    assert walks.node_tokens.sum() == len(walks.tokens) + n_before


def random_walks(n_docs, n_levels, gamma, seed, before=None):
    docs = [
        sorted(np.random.default_rng([seed, n]).integers(0, 3, 7))
        for n in range(n_docs)
    ]
    walks = walks_of(docs, n_levels, gamma, seed)
    return Walks(walks.tokens, walks.priors, walks.paths(), before)


def nodes_of(walks):
    """Sample of tidy walks and its nodes, which are called by their places."""
    ids = np.arange(len(walks.columns))
    sample = NestedSample.of(walks, ids, log_joint=0.0, chain=0, step=0)
    return sample, sample.nodes()


@pytest.mark.parametrize("n_levels", [1, 2, 3])
@pytest.mark.parametrize("gamma", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("is_left", [False, True])
def test_counts_are_those_of_paths_and_levels(gamma, n_levels, is_left, seed):
    rng, before = np.random.default_rng(seed), None
    if is_left:
        gone = random_walks(20, n_levels, gamma, 1)
        move(gone, rng)
        gone.tidy()
        _, before = nodes_of(gone)
    walks = random_walks(40, n_levels, gamma, seed, before)
    for _ in range(5):
        move(walks, rng)
        check_counts(walks)
        walks.tidy()
        check_counts(walks)
        again = Walks(walks.tokens, walks.priors, walks.paths(), before)
        assert (walks.n_nodes == again.n_nodes).all()
        for level, n in enumerate(walks.n_nodes):
            one, two = (np.arange(n) + w.first[level] for w in (walks, again))
            for name in ("docs", "node_tokens"):
                left, right = getattr(walks, name)[one], getattr(again, name)[two]
                np.testing.assert_array_equal(left, right)
            np.testing.assert_array_equal(walks.counts[:, one], again.counts[:, two])


def members(walks):
    """Documents through each node, level by level, and the place of its parent."""
    place = {column: i for i, column in enumerate(walks.columns.tolist())}
    return [
        (
            set(np.flatnonzero((walks.path == column).any(axis=1))),
            place.get(int(walks.parent[column]), -1),
        )
        for column in walks.columns
    ]


@pytest.mark.parametrize("n_levels", [2, 3, 5])
@pytest.mark.parametrize("gamma", [1.0, 1e9])
def test_tidy_tells_where_nodes_have_been(gamma, n_levels, seed):
    walks, rng = random_walks(60, n_levels, gamma, seed), np.random.default_rng(seed)
    move(walks, rng)
    assert (walks.tidy()[1:] == -1).all()
    n_moved = 0
    for doc in range(60):
        before = members(walks)
        walks.sweep(doc, doc + 1, rng)  # it leaves a path and takes one
        former, after = walks.tidy(), members(walks)
        assert len(former) == len(after)
        kept = former[former >= 0]
        assert len(set(kept)) == len(kept)
        for place, (docs, parent) in enumerate(after):
            if former[place] < 0:
                assert docs == {doc}
                continue
            assert docs ^ before[former[place]][0] <= {doc}
            if parent >= 0:  # a node has the parent that it had
                assert former[parent] == before[former[place]][1]
        for place in set(range(len(before))) - set(kept):
            assert before[place][0] == {doc}
        n_moved += (former != np.arange(len(former))).any()
    assert n_moved > 0 or gamma > 1.0


# -- Geweke's test ---------------------------------------------------------------------

LENGTHS = (3, 4, 2, 5, 1, 3)
#: Of all hyperparameters.
PRIORS = (4.0, 3.0), (6.0, 8.0), True, (5.0, 4.0)
LEARN = NestedPriors(True, True, *PRIORS)


@dataclass
class SamplerState:
    """Hyperparameters, paths, levels and words."""

    gamma: float
    eta: np.ndarray
    alpha: np.ndarray
    paths: list  # of each document, names of nodes within their parent
    levels: list  # of each document
    docs: list

    @classmethod
    def draw(cls, rng):
        gamma = rng.gamma(4.0, 1.0 / 3.0)
        eta = rng.gamma(6.0, 1.0 / 8.0, size=3)
        alpha = 3.0 * rng.gamma(5.0, 1.0 / 4.0) * rng.dirichlet(np.full(3, 10.0))
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
            share = rng.dirichlet(alpha)
            levels.append(rng.choice(3, size=length, p=share).tolist())
        state = cls(gamma, eta, alpha, paths, levels, [])
        state.draw_words(rng)
        return state

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


def statistics(sampler_state):
    nodes = Counter(path[: i + 1] for path in sampler_state.paths for i in range(3))
    flat = [level for own in sampler_state.levels for level in own]
    at = np.bincount(flat, minlength=3)
    state = reference.canonical(sampler_state.paths), tuple(flat)
    log_p = reference.log_joint(
        state,
        sampler_state.docs,
        sampler_state.gamma,
        tuple(sampler_state.alpha),
        tuple(sampler_state.eta),
        N_WORDS,
    )
    words = np.bincount(
        np.concatenate(sampler_state.docs).astype(int), minlength=N_WORDS
    )
    leaves = [n for prefix, n in nodes.items() if len(prefix) == 3]
    return {
        "gamma": sampler_state.gamma,
        "log gamma": np.log(sampler_state.gamma),
        "eta 2": sampler_state.eta[2],
        "alpha": sampler_state.alpha.sum(),
        "alpha 0 by alpha 2": sampler_state.alpha[0] * sampler_state.alpha[2],
        "log joint": log_p,
        "nodes": len(nodes),
        "leaves": len(leaves),
        "leaves of one": leaves.count(1),
        "at the root": at[0],
        "at the leaves": at[2],
        "squares of words": (words**2).sum(),
        "repeated words": sum(len(d) - len(set(d)) for d in sampler_state.docs),
        "first two end together": sampler_state.paths[0] == sampler_state.paths[1],
        "gamma by nodes": sampler_state.gamma * len(nodes),
    }


def walk(state):
    """The same as arrays; tokens of a document by word."""
    begin = np.cumsum([0, *LENGTHS])
    order = [np.argsort(words, kind="stable") for words in state.docs]
    words = [np.array(d)[o] for d, o in zip(state.docs, order, strict=True)]
    levels = [np.array(d)[o] for d, o in zip(state.levels, order, strict=True)]
    node = np.zeros((len(LENGTHS), 3), dtype=np.int32)
    for level in range(3):
        names = {}
        for doc, path in enumerate(state.paths):
            node[doc, level] = names.setdefault(path[: level + 1], len(names))
    tokens = Tokens(np.concatenate(words).astype(np.int32), begin, N_WORDS)
    paths = Paths(node, np.concatenate(levels).astype(np.uint8))
    return Walks(tokens, LevelPriors(state.gamma, state.alpha, state.eta), paths)


def moved(state, rng, priors=LEARN, sweep=Walks.sweep):
    walks = walk(state)
    sweep(walks, 0, len(LENGTHS), rng)
    priors.resample(walks, rng)
    split = walks.tokens.begin[1:-1]
    return SamplerState(
        walks.priors.concentration,
        walks.priors.topic_prior,
        walks.priors.level_prior,
        [tuple(path) for path in walks.path.tolist()],
        [own.tolist() for own in np.split(walks.level, split)],
        [own.tolist() for own in np.split(walks.tokens.words, split)],
    )


def moved_together(state, rng, priors=LEARN):
    return moved(state, rng, priors, partial(Walks.sweep, kind=TOGETHER))


#: Draws in which bugs are found.
N_FEW = 2_000


@pytest.mark.weekly
@pytest.mark.parametrize("move", [moved, moved_together])
def test_geweke(move, seed):
    check_joint_distribution(SamplerState.draw, statistics, move, N_FEW, seed)


class SharesTopicPrior(NestedPriors):
    """Draws one topic prior, from the leaves, for all levels."""

    def resample(self, walks, rng):
        NestedPriors.resample(self, walks, rng)
        same = np.full(3, walks.priors.topic_prior[2])
        walks.set_priors(replace(walks.priors, topic_prior=same))


@pytest.mark.weekly
def test_geweke_finds_a_planted_bug():
    wrong = SharesTopicPrior(True, True, *PRIORS)
    with pytest.raises(AssertionError):
        check_joint_distribution(
            SamplerState.draw,
            statistics,
            lambda state, rng: moved(state, rng, wrong),
            N_FEW,
            0,
        )


@pytest.mark.parametrize("scale", [1.0, 1e30])  # where height is lost by rounding
@pytest.mark.parametrize("value", [1e18, 1e-200])
def test_a_slice_from_beyond_the_range_ends_within_it(value, scale):
    rng, calls = np.random.default_rng(0), []

    def log_density(x):
        calls.append(x)
        return scale * -np.log1p(x)

    drawn = draw_by_slice(value, log_density, (1.0, 0.0), rng)
    assert 1e-100 <= drawn <= 1e10
    assert len(calls) < 500
