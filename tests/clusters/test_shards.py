"""Workers that are lost cost time, and change no bit."""

from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count

import numpy as np
import pytest

from checks.worker_pools import FAULTS, ScriptedPool
from skbnp.dask import _shards
from skbnp.dask._inputs import RowBlock
from skbnp.dask._shards import DaskShards, WorkerShards, WorkersLostError
from skbnp.inference.shards import Broadcast, LocalShards

RNG = np.random.default_rng(0)
ROWS = [RNG.standard_normal((n, 3)) for n in (4, 0, 7, 1, 5)]


@dataclass(frozen=True)
class Sum:
    """A sum of floats, whose bits tell its order."""

    value: np.ndarray

    def plus(self, other):
        return Sum(self.value + other.value)


def read(X, labels):
    return {"all": X, "some": X[:2]}


def add(shard, broadcast, argument):
    """Task: remembers what can be made again."""
    scale = shard.cache.setdefault(broadcast.name, broadcast.content)
    return Sum(scale * shard.X.sum(axis=0) + argument)


def describe(shard, broadcast, argument):
    return shard.number, shard.first_row, float(shard.X.sum())


def refuse(shard, broadcast, argument):
    raise ValueError(f"shard {shard.number} is refused")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(_shards, "LOOK", 1e-4)


def shards_on(pool, blocks=ROWS, timeout=5.0, label="all"):
    blocks = [RowBlock(X if len(X) else None) for X in blocks]
    workers = WorkerShards(pool, blocks, read, timeout)
    workers.load()
    return DaskShards(workers, label)


def conversation(shards):
    """Some calls, of two broadcasts."""
    numbers = range(len(shards.n_rows))
    result = []
    for scale in (0.1, 0.7):
        broadcast = Broadcast(scale)
        result.append(shards.total(add, numbers, broadcast, 0.3).value)
        result.append(shards.map(describe, [0, 2]))
        result.append(shards.total(add, [1, 2, 3], broadcast, np.arange(3) / 7).value)
    return result


def wanted():
    return conversation(LocalShards([X for X in ROWS if len(X)], 3))


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def without_numbers(result):
    return [
        [one[1:] for one in part] if isinstance(part, list) else part for part in result
    ]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_any_call_changes_no_bit(fault):
    """At every third one, by turns of the faults."""
    local = without_numbers(wanted())
    for number in count(1 + [*FAULTS].index(fault) % 3, 3):
        pool = ScriptedPool(3, {number: fault})
        result = without_numbers(conversation(shards_on(pool)))
        assert same(result, local), (fault, number)
        if pool.script:  # there were fewer calls
            break
    assert number > 15


def test_no_worker_left_is_an_error():
    pool = ScriptedPool(2)
    shards = shards_on(pool)
    pool.sites.clear()
    with pytest.raises(WorkersLostError, match=r"for 5 seconds: none is left"):
        conversation(shards)
    assert pool.now < 60.0


def test_a_scheduler_that_is_gone_is_an_error():
    pool = ScriptedPool(2)
    shards = shards_on(pool)
    pool.n_absent = 10**6
    conversation(shards)  # for some seconds nobody minds
    with pytest.raises(WorkersLostError, match="does not answer") as raised:
        conversation(shards)
    assert isinstance(raised.value.__cause__, OSError)


def test_a_task_that_ends_its_worker_is_an_error():
    pool = ScriptedPool(2, {n: "dies" for n in range(8, 200)})
    with pytest.raises(WorkersLostError, match="was lost with its worker 6 times"):
        conversation(shards_on(pool))
    assert len(pool.calls) < 120


def test_errors_of_tasks_are_raised_at_once():
    pool = ScriptedPool(2)
    shards = shards_on(pool)
    n_calls = len(pool.calls)
    with pytest.raises(ValueError, match=r"shard \d is refused"):
        shards.map(refuse, [0, 1, 2])
    assert len(pool.calls) <= n_calls + 2


def test_rows_that_have_changed_are_refused():
    pool = ScriptedPool(2, {9: "dies"})
    shards = shards_on(pool)
    shards.workers.blocks = [RowBlock(X + 1.0 if len(X) else None) for X in ROWS]
    with pytest.raises(ValueError, match="holds other rows now"):
        conversation(shards)


class RelayingPool(ScriptedPool):
    """What is sent lies on one worker, from which the others fetch it."""

    def send(self, content, workers):
        return workers[0], content

    def submit(self, worker, method, *args):
        sent = [one for one in args if isinstance(one, tuple)]
        args = [one[1] if isinstance(one, tuple) else one for one in args]
        if any(holder in self.silent for holder, _ in sent):
            self.calls.append((worker, method))
            return Future()  # for ever
        return super().submit(worker, method, *args)


def test_workers_that_wait_for_a_lost_one_keep_their_blocks(monkeypatch):
    monkeypatch.setattr(_shards, "LARGE", 0)
    pool = RelayingPool(3, {len(ROWS) + 1: "stops"})
    shards = shards_on(pool)
    holders = [worker for worker, _ in pool.calls]
    assert same(without_numbers(conversation(shards)), without_numbers(wanted()))
    again = [method for _, method in pool.calls[len(ROWS) :]].count("load")
    # Of two blocks of the one that stopped, one has no rows.
    assert holders.count(holders[0]) == 2
    assert again == 1


def test_a_reply_that_comes_twice_counts_once():
    """A sum that listens to late replies is another one."""
    pool = ScriptedPool(3, {7: "wakes"})
    shards = shards_on(pool)
    broadcast = Broadcast(1.0)
    result = shards.total(add, range(4), broadcast, 0.0).value
    assert not pool.waiting  # it woke up
    local = LocalShards([X for X in ROWS if len(X)], 3).total(
        add, range(4), Broadcast(1.0), 0.0
    )
    assert np.array_equal(result, local.value)
    assert not np.array_equal(result + ROWS[0].sum(axis=0), local.value)


def test_worlds_are_sent_once_and_dropped_with_the_driver_s():
    pool = ScriptedPool(2)
    shards, broadcast = shards_on(pool), Broadcast(np.zeros(10**5))
    for _ in range(3):
        shards.total(add_nothing, range(4), broadcast)
    n_bytes = shards.workers.n_bytes_sent
    assert 2 * broadcast.content.nbytes < n_bytes < 2 * broadcast.content.nbytes + 1e4
    del broadcast
    other = Broadcast(0.0)
    shards.total(add_nothing, range(4), other)
    assert [list(site.broadcasts) for site in pool.sites.values()] == [[other.name]] * 2


def add_nothing(shard, broadcast, argument):
    return Sum(np.zeros(1))


def test_labels_are_shards_of_their_own():
    pool = ScriptedPool(2)
    shards = shards_on(pool, label="some")
    assert shards.n_rows.tolist() == [2, 2, 1, 2]
    assert shards.map(describe, [2])[0][1] == 4
