"""Trace of a fit: records of updates, messages, and the test of convergence."""

import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Any

logger = logging.getLogger(__name__)

History = dict[str, list]
#: State from which another object continues with the same bits, by name.
Account = Mapping[str, Any]

#: Seconds without a message after which long work logs its progress.
SILENCE = 2.0


def new_history(criterion: str = "elbo") -> History:
    """Return an empty trace; `criterion` is the name of the monitored quantity."""
    names = ("step", "seconds", "n_components", criterion)
    moves = ("n_births", "n_splits", "n_merges")
    return {name: [] for name in names + moves}


def started(history: History) -> float:
    """Return the moment at which the seconds of a trace began."""
    return time.perf_counter() - (history["seconds"] or [0.0])[-1]


#: Entries of the history of a stream, at most: those of a year of calls each hour.
MOST_ENTRIES = 10_000


def thin(history: History) -> None:
    """Drop every second step of the older half of the history of a long stream."""
    n = len(history["step"])
    if n <= MOST_ENTRIES:
        return
    steps = history["step"][: n // 2]
    dropped = set(sorted(set(steps))[1::2])
    kept = [i for i, step in enumerate(steps) if step not in dropped]
    for values in history.values():
        values[: n // 2] = [values[i] for i in kept]


@dataclass(eq=False, repr=False, kw_only=True)
class Reporter:
    """Messages of a fit, shown if it is verbose.

    Parameters
    ----------
    verbose : int
        Passes between messages; 0 for none.
    """

    verbose: int = 0
    _last_message: float = field(default_factory=lambda: time.perf_counter())  # seconds

    def report(self, text: str) -> None:
        """Show a message about the progress of a fit."""
        if self.verbose:
            logger.info(text)
            self._last_message = time.perf_counter()

    def remind(self, text: str) -> None:
        """Show a message where there was none for some seconds."""
        if self.verbose and time.perf_counter() - self._last_message > SILENCE:
            self.report(text)


#: For work whose progress is not shown.
SILENT = Reporter()


@dataclass(eq=False, repr=False)
class Monitor(Reporter):
    """Record of updates in the history of a fit, and test of convergence.

    Parameters
    ----------
    history : dict of lists
        Trace to extend.
    tol : float
        Relative change of the bound between passes that ends the fit; so does a change
        smaller than `least_change`.
    verbose : int
        Passes between messages; 0 for none.
    criterion : str
        Column of the trace for the bound, or for the quantity monitored instead.
    parts_name, unit : str
        Name of components in messages, and the unit that the bound is divided by.
    size : float or None
        Unit of changes of the bound, its absolute value by default.
    """

    history: History
    tol: float = field(default=0.0, kw_only=True)
    criterion: str = field(default="elbo", kw_only=True)
    parts_name: str = field(default="topics", kw_only=True)
    unit: str = field(default="token", kw_only=True)
    size: float | None = field(default=None, kw_only=True)
    least_change: float = 0.0
    change: float = nan
    n_passes: int = 0
    last: float = nan  # value of the criterion
    _n_updates: int = 0  # in the trace, at the end of the last pass
    _start: float = field(init=False)  # seconds

    def __post_init__(self) -> None:
        """Go on with the seconds of the trace."""
        self._start = started(self.history)

    def record(self, posterior: Any) -> None:
        """Add an update of a posterior to the trace; its bound is not known yet."""
        step, seconds = posterior.n_steps, time.perf_counter() - self._start
        n_components = posterior.state.n_components
        entry = {"step": step, "seconds": seconds, "n_components": n_components}
        entry |= {self.criterion: nan, **posterior.n_moves}
        for name, value in entry.items():
            self.history[name].append(value)
        self.remind(f"update {step}: {n_components} {self.parts_name}, {seconds:.1f} s")

    def recount(self, posterior: Any, n_logged: int = -1) -> None:
        """Correct the last entry if a posterior has logged more than `n_logged`."""
        if len(posterior.lineage) > n_logged:
            counts = {"n_components": posterior.state.n_components}
            for name, value in (counts | posterior.n_moves).items():
                self.history[name][-1] = value

    def forget(self) -> None:
        """Compare the next value with none: what is learned is something else."""
        self.change = self.last = nan

    def end_pass(
        self, value: float, *, is_exact_pass: bool, has_ended: bool = False
    ) -> bool:
        """Note the criterion after the last update of a pass; whether it has converged.

        `is_exact_pass`: the pass was an exact one: one of a warm-up or a trial
        neither converges nor serves as the value to compare with. `has_ended`:
        the learner has nothing left to do, which converges unless `tol` is zero.
        """
        self.n_passes += 1
        trace = self.history[self.criterion]
        if trace:
            trace[-1] = value
        difference = abs(value - self.last)
        size = abs(value) if self.size is None else self.size
        self.change = difference / max(size, 1e-300) if is_exact_pass else nan
        is_small = isfinite(self.change) and (
            self.change < self.tol
            or (self.tol > 0.0 and difference < self.least_change)
        )
        converged = is_small or (has_ended and self.tol > 0.0)
        self.last = value if is_exact_pass else nan
        is_beside, self._n_updates = len(trace) == self._n_updates, len(trace)
        if self.verbose and self.n_passes % self.verbose == 0:
            parts = f"{self.history['n_components'][-1]} {self.parts_name}"
            what = f"{parts}, {value:.5f} nats per {self.unit}"
            if is_beside:
                what = f"of a trial beside {parts}"
            seconds = time.perf_counter() - self._start
            self.report(f"pass {self.n_passes}: {what}, {seconds:.1f} s")
        return converged


def discarding(criterion: str = "elbo") -> Monitor:
    """Return a monitor whose trace is discarded, for updates of a candidate."""
    return Monitor(new_history(criterion), criterion=criterion)


@contextmanager
def shown(verbose: int) -> Iterator[None]:
    """Show messages on standard output while the lines inside run.

    Not if logging shows them already.
    """
    package = logging.getLogger("skbnp")
    is_handled = logger.hasHandlers() and logger.isEnabledFor(logging.INFO)
    if not verbose or is_handled:
        yield
        return
    handler = logging.StreamHandler(sys.stdout)
    level, propagate = package.level, package.propagate
    handler.setFormatter(logging.Formatter("[skbnp] %(message)s"))
    package.addHandler(handler)
    package.setLevel(logging.INFO)
    package.propagate = False  # what hears warnings alone shall not hear these
    try:
        yield
    finally:
        package.removeHandler(handler)
        package.setLevel(level)
        package.propagate = propagate
