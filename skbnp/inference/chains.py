"""The one loop of all samplers: independent chains, sweep by sweep, side by side."""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from skbnp.inference.executor import Executor
from skbnp.inference.interrupts import commit

__all__ = ["Chain", "ChainMonitor", "run_chains"]

logger = logging.getLogger(__name__)


class Chain(Protocol):
    """What a sampler brings."""

    @property
    def n_pieces(self) -> int:
        """Pieces of a sweep, a fraction of a second each."""

    def run(self, piece: int) -> None:
        """Run one piece, without the interpreter lock; the last ends the sweep."""

    def accept(self) -> None:
        """Let the sweep that was run be the last complete one."""

    def rewind(self) -> None:
        """Go back to the last complete sweep."""

    def trace(self) -> dict[str, Any]:
        """Tell about the last complete sweep, by columns of the history."""


class ChainMonitor:
    """Record sweeps, one entry per chain.

    Parameters
    ----------
    history : dict of lists
        Trace to extend.
    verbose : int
        Sweeps between messages; 0 for none.
    """

    def __init__(self, history: dict[str, list], *, verbose: int = 0):
        self.history, self.verbose = history, verbose
        self.n_sweeps = 0
        before = history["seconds"][-1] if history["seconds"] else 0.0
        self._start = time.perf_counter() - before

    def record(self, chains: Sequence[Chain]) -> None:
        """Add an entry for each chain."""
        self.n_sweeps += 1
        seconds = time.perf_counter() - self._start
        for chain in chains:
            for name, value in {"seconds": seconds, **chain.trace()}.items():
                self.history[name].append(value)
        if self.verbose and self.n_sweeps % self.verbose == 0:
            n = len(chains)
            logger.info(
                "sweep %d: %s topics, %s nats per token, %.1f s",
                self.history["step"][-1],
                ", ".join(str(k) for k in self.history["n_components"][-n:]),
                ", ".join(f"{value:.5f}" for value in self.history["log_joint"][-n:]),
                seconds,
            )


def run_chains(
    chains: Sequence[Chain],
    n_sweeps: int,
    executor: Executor,
    monitor: ChainMonitor,
    *,
    begin_sweep: Callable[[], Any],
    keep: Callable[[], Any],
    end_sweep: Callable[[], bool],
) -> None:
    """Let every chain make some sweeps, on the threads of an executor.

    Where it has processes instead, chains run one after the other: they change in
    place. After an error or an interrupt each chain is at its last complete sweep.

    Parameters
    ----------
    begin_sweep : callable
        Runs before each sweep.
    keep : callable
        Runs after each sweep, together with its record or not at all.
    end_sweep : callable
        Runs then, and says whether to stop.
    """
    try:
        with executor:
            run = executor.map if executor.shares_memory else map
            for _ in range(n_sweeps):
                begin_sweep()
                for piece in range(max(chain.n_pieces for chain in chains)):
                    # The longest wait for an interrupt is one piece.
                    deque(run(_Piece(piece), chains), maxlen=0)
                with commit():
                    for chain in chains:
                        chain.accept()
                    monitor.record(chains)
                    keep()
                if end_sweep():
                    break
    except BaseException:
        for chain in chains:  # all threads have ended
            chain.rewind()
        raise


class _Piece:
    """Run a piece of a chain."""

    def __init__(self, number: int):
        self.number = number

    def __call__(self, chain: Chain) -> None:
        if self.number < chain.n_pieces:
            chain.run(self.number)
