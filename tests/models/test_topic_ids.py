"""Ids of topics that trials of a stream have learned anew."""

import numpy as np
import pytest
import scipy.sparse as sp

from skbnp import HDP
from skbnp.inference.executor import Executor
from skbnp.models.hdp.topic_ids import aligned_ids, shared_tokens

N_TOPICS, N_WORDS = 4, 6


def planted(groups, seed=0):
    """A posterior whose topics have the words of some groups, and documents.

    A document has the words of one group.
    """
    rng = np.random.default_rng(seed)
    words = np.kron(np.eye(N_TOPICS), np.ones(N_WORDS))
    X = sp.csr_array(rng.poisson(3.0, (80, 1)) * 1.0 * words[np.arange(80) % N_TOPICS])
    topics = np.array([words[list(group)].sum(axis=0) for group in groups])
    hdp = HDP(len(groups), split_merge=False, burstiness=False, random_state=0)
    posterior = hdp.fit(X)._posterior
    posterior.ids, columns = np.arange(len(groups)), posterior.global_stats.topic_words
    for k, topic in enumerate(topics):
        columns.put(k, 20.0 * topic[columns.seen.words])
    return posterior, X


def log_of(before, after):
    (old, X), (new, _) = planted(before), planted(after)
    new.ids = new.ids + 50  # ids of a candidate, which mean nothing here
    with Executor(None) as executor:
        return *aligned_ids(old, new, X, executor), old


@pytest.mark.parametrize(
    ("before", "after", "ids", "log"),
    [
        ([(0,), (1,), (2,), (3,)], [(2,), (0,), (3,), (1,)], [2, 0, 3, 1], []),
        (
            [(0,), (1,), (2, 3)],
            [(0,), (1,), (2,), (3,)],
            [0, 1, None, None],
            ["split"],
        ),
        ([(0,), (1,), (2,), (3,)], [(0,), (1,), (2, 3)], [0, 1, None], ["merge"]),
    ],
)
def test_topics_of_the_same_tokens_keep_their_ids(before, after, ids, log):
    """A topic in two halves goes on as one of them."""
    found, entries, old = log_of(before, after)
    assert all(n is None or n == k for n, k in zip(ids, found.tolist(), strict=True))
    assert [entry.kind for entry in entries] == log
    assert len(set(found.tolist())) == len(found)
    alive = set(old.ids.tolist())
    for entry in entries:
        assert set(entry.parents) <= alive
        alive = (alive - set(entry.parents)) | set(entry.children)
    assert alive == set(found.tolist())


def test_shared_tokens_are_sums_of_products_of_responsibilities():
    (old, X), (new, _) = planted([(0,), (1, 2), (3,)]), planted([(0, 1), (2, 3)])
    with Executor(None) as executor:
        overlap, one, other = shared_tokens(old, new, X, executor)
    assert overlap.sum() == pytest.approx(X.sum())
    by_group = np.array([X[n::N_TOPICS].sum() for n in range(N_TOPICS)])
    expected = [[by_group[0], 0], [by_group[1], by_group[2]], [0, by_group[3]]]
    assert overlap == pytest.approx(np.array(expected), rel=0.02, abs=0.02 * X.sum())
    assert one.sum() <= X.sum()
    assert other.sum() <= X.sum()
