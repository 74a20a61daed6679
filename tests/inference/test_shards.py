"""Shards in this process, and sums whose bits do not depend on who added what."""

from dataclasses import dataclass

import numpy as np
import pytest

from skbnp.inference.shards import Broadcast, LocalShards, ProcessCache, add_up


@dataclass(frozen=True)
class Sum:
    """Tells the order in which it was added."""

    text: str

    def plus(self, other):
        return Sum(f"({self.text}{other.text})")


def letters(shard, broadcast, argument):
    return Sum(chr(97 + shard.number))


def describe(shard, broadcast, argument):
    return shard.number, shard.first_row, shard.X.sum() * broadcast.content + argument


@pytest.fixture
def shards():
    X = np.arange(10.0)[:, None]
    return LocalShards([X[:4], X[4:4], X[4:9], X[9:]], n_features=1)


def test_replies_come_in_the_order_of_numbers(shards):
    result = shards.map(describe, [0, 1, 3], Broadcast(2.0), 0.5)
    assert result == [(0, 0, 12.5), (1, 4, 0.5), (3, 9, 18.5)]
    assert shards.n_rows.tolist() == [4, 0, 5, 1]


@pytest.mark.parametrize("n", range(1, 18))
def test_sums_do_not_depend_on_who_added_what(n):
    rng = np.random.default_rng(n)
    replies = [Sum(chr(97 + place)) for place in range(n)]
    whole = LocalShards([np.zeros((1, 1))] * n, n_features=1).total(letters, range(n))
    for n_holders in (1, 2, 3, n):
        holder = rng.integers(n_holders, size=n)
        sums = {}
        for one in rng.permutation(n_holders):
            own = {}
            for place in rng.permutation(np.flatnonzero(holder == one)).tolist():
                add_up(own, n, {(0, place): replies[place]})
            add_up(sums, n, own)
        assert list(sums.values()) == [whole]


def test_shards_of_a_process_make_what_they_share_once():
    cache, made = ProcessCache(), []

    def make(name, value):
        made.append((name, value))
        return len(made)

    one, other = Broadcast(None), Broadcast(None)
    kept = [cache.follow(broadcast, make) for broadcast in (one, one, other)]
    assert kept == [1, 1, 2]
    assert made == [(None, None), (one.name, 1)]
    assert ProcessCache().follow(other, make) == 3
    assert cache.follow(one, lambda name, value: None) is None
    assert cache.follow(other.emptied(), make) == 2
