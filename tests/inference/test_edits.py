"""Edits of a posterior keep every invariant, in any order."""

import copy

import numpy as np
from numpy.testing import assert_allclose

from checks.lineages import replay
from skbnp.components.word_topics import WordTopics
from skbnp.inference.posterior import Lineage
from skbnp.models.hdp.model import DirectHDP, HDPState, HDPStats
from skbnp.models.hdp.posterior import HDPPosterior

N_WORDS = 6
COLUMNS = ("entropy", "n_docs_using", "weight_slope", "weight_offset")


def small_posterior(rng):
    n_topics = int(rng.integers(1, 7))
    state = HDPState(
        rng.dirichlet(np.ones(n_topics + 1)), rng.gamma(2.0) + 0.1, 1.0, 0.1
    )
    global_stats = HDPStats(
        WordTopics(rng.gamma(0.5, 4.0, size=(N_WORDS, n_topics))),
        rng.gamma(2.0, size=n_topics),
        rng.poisson(3.0, size=n_topics).astype(float),
        -rng.gamma(2.0, size=n_topics),
        rng.normal(size=n_topics),
        1.3,
        -0.7,
        100.0,
    )
    return HDPPosterior(
        DirectHDP(False, False),
        state,
        global_stats,
        np.arange(n_topics),
        [Lineage(0, "init", (), tuple(range(n_topics)))],
    )


def random_edit(rng, posterior):
    """Name and arguments of an edit, and the change of mass that it makes."""
    ids, words = posterior.ids, posterior.global_stats.topic_words
    order = rng.permutation(ids).tolist()
    kind = rng.integers(3)
    if kind == 0 and len(ids) > 1:
        n_pairs = int(rng.integers(1, len(ids) // 2 + 1))
        pairs = [(order[2 * i], order[2 * i + 1]) for i in range(n_pairs)]
        return "merge", (pairs,), 0.0
    if kind == 1 and len(ids) > 1:
        gone = order[: int(rng.integers(1, len(ids)))]
        return "remove", (gone,), -words.total[np.isin(ids, gone)].sum()
    first = float(rng.uniform(1e-6, 1.0 - 1e-6))
    topics = rng.gamma(0.5, 4.0, size=(2, N_WORDS))
    shares = np.array([first, 1.0 - first])
    parent = words.column(posterior.columns[order[0]])
    return "split", (order[0], topics, shares), topics.sum() - parent.sum()


def check_invariants(posterior, mass):
    ids, state, global_stats = posterior.ids, posterior.state, posterior.global_stats
    n_topics = len(ids)
    assert n_topics >= 1
    assert len(set(ids.tolist())) == n_topics
    assert state.weights.shape == (n_topics + 1,)
    assert global_stats.topic_words.shape == (N_WORDS, n_topics)
    assert all(getattr(global_stats, name).shape == (n_topics,) for name in COLUMNS)
    assert (state.weights >= 0.0).all()
    assert_allclose(state.weights.sum(), 1.0, rtol=1e-12)
    assert_allclose(global_stats.topic_words.total.sum(), mass, rtol=1e-9)
    dense = global_stats.topic_words.dense()
    assert (dense >= 0.0).all()
    assert_allclose(dense.sum(axis=0), global_stats.topic_words.total, rtol=1e-12)
    assert (global_stats.entropy >= 0.0).all()
    assert replay(posterior.lineage) == set(ids.tolist())
    ever = [name for entry in posterior.lineage for name in entry.children]
    assert posterior.n_named == 1 + max(ever)
    assert np.isfinite(list(posterior.objective().values())).all()


def edited(rng, n_edits=12):
    """Apply random edits one after another, and check after each."""
    posterior = small_posterior(rng)
    mass = posterior.global_stats.topic_words.total.sum()
    check_invariants(posterior, mass)
    for step in range(int(rng.integers(1, n_edits))):
        posterior.n_steps = step
        kind, given, change = random_edit(rng, posterior)
        before = posterior.columns
        words = posterior.global_stats.topic_words.dense()
        named = {n for entry in posterior.lineage for n in entry.children}
        getattr(posterior, kind)(*given)
        mass += change
        check_invariants(posterior, mass)
        born = {n for e in posterior.lineage for n in e.children} - named
        assert len(born) == (kind == "split")
        touched = born | set(np.ravel(given[0]).tolist())
        check_others(touched, posterior, before, words)


def check_others(touched, posterior, columns, words):
    """Topics that the edit does not name stay as they were."""
    for name, column in posterior.columns.items():
        if name not in touched:
            now = posterior.global_stats.topic_words.column(column)
            assert_allclose(now, words[:, columns[name]], rtol=1e-12)


def test_random_sequences_keep_every_invariant(seed):
    for case in range(100):
        edited(np.random.default_rng([seed, case]))


def test_a_split_and_the_merge_of_its_children_return_topics_and_weights(seed):
    """Where the children hold what the parent held."""
    rng = np.random.default_rng(seed)
    posterior = small_posterior(rng)
    before = copy.deepcopy(posterior)
    share = rng.random(N_WORDS)
    parent = posterior.global_stats.topic_words.column(0)
    halves = np.stack([share * parent, (1 - share) * parent])
    child = posterior.n_named
    posterior.split(0, halves, [0.3, 0.7])
    posterior.merge([(child, 0)])
    assert_allclose(posterior.state.weights, before.state.weights, rtol=1e-12)
    assert_allclose(
        posterior.global_stats.topic_words.dense(),
        before.global_stats.topic_words.dense(),
        rtol=1e-12,
    )
    for name in ("words", "weights"):
        got = posterior.objective()[name]
        assert_allclose(got, before.objective()[name], rtol=1e-10, atol=1e-12)
    assert [entry.kind for entry in posterior.lineage] == ["init", "split", "merge"]
