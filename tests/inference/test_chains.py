"""The loop of samplers runs all tasks of all chains, piece by piece."""

import threading
from functools import partial

import pytest

from skbnp.inference.chains import ChainMonitor, run_chains
from skbnp.inference.executor import Executor


class Parts:
    """A chain whose pieces consist of several tasks, and which sums what they say."""

    def __init__(self, sizes):
        self.sizes, self.state, self.order = sizes, 0, []
        self._staged = {}

    @property
    def n_pieces(self):
        return len(self.sizes)

    def tasks(self, piece):
        if piece >= self.n_pieces:
            return []
        return [partial(self.run, piece, part) for part in range(self.sizes[piece])]

    def run(self, piece, part):
        self.order.append((piece, part))
        self._staged[piece, part] = 10**part

    def accept(self):
        self.state += sum(self._staged.values())
        self._staged.clear()

    def rewind(self):
        self._staged.clear()

    def trace(self):
        return {"n_components": self.state}


def sweep(chains, n_jobs, n_sweeps=2):
    history = {"seconds": [], "n_components": []}
    run_chains(
        chains,
        n_sweeps,
        Executor(n_jobs),
        ChainMonitor(history),
        begin_sweep=lambda: None,
        keep=lambda: None,
        end_sweep=lambda: False,
    )
    return history["n_components"]


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_every_task_of_every_piece_runs_once_in_a_sweep(n_jobs):
    chains = [Parts([3, 1]), Parts([2]), Parts([1, 1, 4])]
    assert sweep(chains, n_jobs) == [112, 11, 1113, 224, 22, 2226]
    for chain in chains:
        tasks = [(i, j) for i, size in enumerate(chain.sizes) for j in range(size)]
        assert sorted(chain.order) == sorted(2 * tasks)
        pieces = [piece for piece, _ in chain.order]
        assert pieces[: len(tasks)] == sorted(pieces[: len(tasks)])


def test_tasks_of_one_chain_run_side_by_side():
    barrier = threading.Barrier(2, timeout=30)
    chain = Parts([2])
    chain.run = lambda piece, part: barrier.wait()
    sweep([chain], 2, n_sweeps=1)
    assert not barrier.broken


def test_a_task_that_fails_rewinds_all_chains():
    chains = [Parts([1]), Parts([1])]
    chains[1].run = lambda piece, part: 1 / 0
    with pytest.raises(ZeroDivisionError):
        sweep(chains, 1)
    assert [chain.state for chain in chains] == [0, 0]
    assert not chains[0]._staged
