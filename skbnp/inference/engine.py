"""The variational loop: passes over the documents until the bound has settled."""

from collections.abc import Callable
from typing import Protocol

from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior

__all__ = ["PassLearner", "learn"]


class PassLearner(Protocol):
    """What makes passes: a learner, or trials of several."""

    posterior: Posterior

    @property
    def n_updates(self) -> int:
        """Updates made, by which step sizes have decreased."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left to do, however the bound still changes."""

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; whether nothing is left but to converge."""


def learn(
    learner: PassLearner,
    monitor: Monitor,
    *,
    n_passes: int,
    begin_pass: Callable[[], None] = lambda: None,
    end_pass: Callable[[], bool] = lambda: False,
) -> bool:
    """Visit the documents `n_passes` times, or until the bound has settled.

    `begin_pass` and `end_pass` are called around each pass; the latter may ask to stop.
    Whether the bound has converged is returned.
    """
    for _ in range(n_passes):
        begin_pass()
        settling = learner.one_pass(monitor)
        if not monitor.history["step"]:  # no round to record
            learner.posterior.record(monitor)
        value = sum(learner.posterior.objective().values())
        converged = monitor.end_pass(
            value, settling=settling, has_ended=learner.has_ended
        )
        if end_pass() or converged:
            return converged
    return False
