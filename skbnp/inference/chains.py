"""The loop of all Gibbs samplers: independent chains in parallel, sweep by sweep."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Annotated, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from skbnp.inference.executor import Executor, RunTasks, commit, run_in_turn
from skbnp.inference.monitor import History, Reporter, started
from skbnp.inference.posterior import Lineage, Log
from skbnp.utils.random import Purpose, stream
from skbnp.utils.ranges import MOST_IDS, Id, Sized, Steps
from skbnp.utils.typing import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStart:
    """Lineage and ids of a chain before its first sweep."""

    lineage: Sequence[Lineage] = ()
    next_id: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    """State of a chain between two sweeps: all that the next one needs."""

    number: Steps
    step: Steps  # sweeps made
    ids: Annotated[Ints, Sized("n_components", most=MOST_IDS)]  # names
    next_id: Id
    lineage: Log  # grows with the chain
    begin: Steps  # sweeps made by others before
    log_joint: float  # nats per token


State = TypeVar("State", bound=ChainState)


class Chain(ABC, Generic[State]):
    """Base of chains of samplers: tasks of a sweep, accept and rewind."""

    seed_entropy: int  # of the fit
    state: State  # after the last complete sweep

    @property
    @abstractmethod
    def n_pieces(self) -> int:
        """Number of pieces of a sweep, a fraction of a second each."""

    @abstractmethod
    def tasks(self, piece: int) -> Sequence[Callable[[], object]]:
        """List the tasks of a piece; the last piece ends the sweep.

        Tasks run in parallel, without the interpreter lock, and none reads what another
        one writes. The list is empty if the sweep has fewer pieces.
        """

    @abstractmethod
    def accept(self) -> None:
        """Make the sweep that was run the last complete one."""

    @abstractmethod
    def _restore(self, state: State) -> None:
        """Restore counts and hyperparameters of a state."""

    def rewind(self) -> None:
        """Restore the state of the last complete sweep."""
        self._restore(self.state)

    def trace(self) -> dict[str, object]:
        """Return the entries of the last complete sweep in the history."""
        state = self.state
        return {
            "step": state.step,
            "chain": state.number,
            "n_components": max(len(state.ids), 1),
            "log_joint": state.log_joint,
        }

    def saved_state(self, run: RunTasks = run_in_turn) -> State:
        """Return what an estimator keeps of the last complete sweep, to continue."""
        return self.state


class GibbsChain(Chain[State]):
    """Base of chains that sweep over documents in order, then stage a new state.

    Streams are named by the number of the chain and of the sweep, and a sweep depends
    on nothing but the state before: a chain continues with the same bits from a copy
    of its state.
    """

    pieces: list[tuple[int, int]]  # ranges of documents
    _staged: tuple[State, list[Lineage]]

    @abstractmethod
    def _sweep(self, begin: int, stop: int, rng: np.random.Generator) -> None:
        """Sweep over some documents."""

    @abstractmethod
    def _end(self, rng: np.random.Generator) -> tuple[State, list[Lineage]]:
        """End a sweep; return the state with the old log, and new log entries."""

    @property
    def n_pieces(self) -> int:
        """Number of pieces of a sweep, a fraction of a second each."""
        return len(self.pieces)

    def tasks(self, piece: int) -> Sequence[Callable[[], object]]:
        """List the tasks of a piece: one, over documents in order."""
        return [partial(self.run, piece)] if piece < self.n_pieces else []

    def run(self, piece: int) -> None:
        """Run one piece; the last ends the sweep."""
        if piece == 0:
            place = self.state.number, self.state.step + 1
            self._rng = stream(self.seed_entropy, Purpose.SWEEP, *place)
        self._sweep(*self.pieces[piece], self._rng)
        if piece == len(self.pieces) - 1:
            self._staged = self._end(self._rng)

    def accept(self) -> None:
        """Make the sweep that was run the last complete one."""
        self.state, entries = self._staged
        self.state.lineage.extend(entries)


def pieces_of(begin: NDArray[np.int64], n_tokens: int) -> list[tuple[int, int]]:
    """Ranges of documents, given their limits, of about `n_tokens` tokens each."""
    ends = np.searchsorted(begin, np.arange(n_tokens, begin[-1], n_tokens))
    limits = np.unique([0, *ends.tolist(), len(begin) - 1]).tolist()
    return list(pairwise(limits)) or [(0, 0)]


def birth_entries(step: int, ids: Ints) -> list[Lineage]:
    """Return the log entry of the birth of components, if any."""
    return [Lineage(step, "birth", (), tuple(ids.tolist()))] if len(ids) else []


def end_entries(step: int, ids: Ints) -> list[Lineage]:
    """Return the log entry of the end of components, if any."""
    return [Lineage(step, "prune", tuple(ids.tolist()), ())] if len(ids) else []


def rename(
    ids: Ints, names: Ints, next_id: int, step: int
) -> tuple[Ints, int, list[Lineage]]:
    """Give ids to new components (-1 in `names`), and log births and ends.

    Returns the ids, the next one, and the log entries.
    """
    is_new = names < 0
    n_new = int(is_new.sum())
    names = names.copy()
    names[is_new] = np.arange(next_id, next_id + n_new)
    log = birth_entries(step, names[is_new])
    gone = sorted(set(ids.tolist()).difference(names.tolist()))
    log += end_entries(step, np.array(gone, dtype=np.intp))
    return names, next_id + n_new, log


@dataclass(eq=False, repr=False)
class ChainMonitor(Reporter):
    """Record of sweeps in the history of a fit, one entry for each chain.

    Parameters
    ----------
    history : dict of lists
        Trace to extend.
    verbose : int
        Sweeps between messages; 0 for none.
    """

    history: History
    n_sweeps: int = 0

    def __post_init__(self) -> None:
        """Go on with the seconds of the trace."""
        self._start = started(self.history)

    def record(self, chains: Sequence[Chain]) -> None:
        """Add an entry of the last sweep for each chain, in place."""
        self.n_sweeps += 1
        seconds = time.perf_counter() - self._start
        for chain in chains:
            for name, value in {"seconds": seconds, **chain.trace()}.items():
                self.history[name].append(value)
        if self.verbose and self.n_sweeps % self.verbose == 0:
            n = len(chains)
            topics = ", ".join(str(k) for k in self.history["n_components"][-n:])
            values = ", ".join(f"{x:.5f}" for x in self.history["log_joint"][-n:])
            self.report(
                f"sweep {self.history['step'][-1]}: {topics} topics, {values} nats per "
                f"token, {seconds:.1f} s"
            )


def run_chains(
    chains: Sequence[Chain],
    n_sweeps: int,
    executor: Executor,
    monitor: ChainMonitor,
    *,
    begin_sweep: Callable[[], object],
    keep: Callable[[], object],
    end_sweep: Callable[[], bool],
) -> None:
    """Make `n_sweeps` sweeps of every chain, in parallel on the threads of an executor.

    All tasks of all chains run side by side, piece by piece. Where the executor has
    processes instead, they run one after the other: chains change in place. After an
    error or an interrupt each chain is at its last complete sweep.

    Parameters
    ----------
    begin_sweep : callable
        Runs before each sweep.
    keep : callable
        Runs after each sweep, together with its record or not at all.
    end_sweep : callable
        Runs then, and returns whether to stop.
    """
    try:
        with executor:
            for _ in range(n_sweeps):
                begin_sweep()
                n_pieces = max(chain.n_pieces for chain in chains)
                for piece in range(n_pieces):
                    monitor.remind(
                        f"{monitor.n_sweeps} sweeps, and {piece / n_pieces:.0%} of the "
                        "next"
                    )
                    tasks = [task for chain in chains for task in chain.tasks(piece)]
                    # The longest wait for an interrupt is one piece.
                    executor.run(tasks)
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
