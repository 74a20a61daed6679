"""Calls of `fit` and `partial_fit`: tasks of callbacks, trace and files."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypedDict

from sklearn.base import BaseEstimator

from skbnp.estimators._checkpoints import FitRecord
from skbnp.inference.engine import PassLearner, learn
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor
from skbnp.utils.plain import to_plain
from skbnp.utils.typing import MatrixLike


class FitTasks:
    """Tasks of callbacks of scikit-learn in a call: the call itself and its passes.

    Parameters
    ----------
    estimator : estimator instance
        The one that is fitted.
    X, y : object
        As the caller gave them.
    attributes : callable
        Returns the fitted attributes as they would be had the call ended now; kept.
    n_tasks : int
        Passes, and starts, at most.
    method : {"fit", "partial_fit"}
        The name of the task that has these parts.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: object,
        attributes: Callable[[], dict[str, Any]],
        n_tasks: int,
        method: str = "fit",
    ):
        """Begin the callback task of a call of `method`."""
        self._arguments = {"estimator": estimator, "X": X, "y": y}
        self.attributes = attributes
        self._tasks = [estimator._init_callback_context(method, max_subtasks=n_tasks)]
        self._tasks[0].call_on_fit_task_begin(**self._arguments)

    @contextmanager
    def start(self) -> Iterator[None]:
        """Task of the search for a start, before the first pass."""
        task = self._tasks[0].subcontext("start", max_subtasks=None)
        task.call_on_fit_task_begin(**self._arguments)
        yield
        task.call_on_fit_task_end(**self._arguments)

    def begin_pass(self) -> None:
        """Begin the next pass."""
        self._tasks.append(self._tasks[0].subcontext("pass"))
        self._tasks[-1].call_on_fit_task_begin(**self._arguments)

    def end(self) -> bool:
        """End the pass, or else the call; return whether a callback stops the fit."""
        return self._tasks.pop().call_on_fit_task_end(
            **self._arguments,
            reconstruction_attributes=lambda: copy.deepcopy(self.attributes()),
        )


class FitAccount(TypedDict):
    """What a file has of a fit that has not ended, beside the estimator so far."""

    learner: dict  # not made again yet: it needs rows
    last: float  # value of the criterion, and its change
    change: float
    has_ended: bool
    goes_on: bool
    has_converged: bool


@dataclass(frozen=True, eq=False)
class FitSession:
    """What the passes of a variational fit need, and what they report to.

    Attributes
    ----------
    goes_on : bool
        Whether the fit begins from what the estimator has learned before.
    record : FitRecord
        Its checkpoint files.
    """

    rows: Any
    executor: Executor
    monitor: Monitor
    tasks: FitTasks
    goes_on: bool = True
    record: FitRecord = field(default_factory=FitRecord)

    def learn(
        self, learner: PassLearner, around: tuple[Any, ...], n_passes: int
    ) -> bool:
        """Make passes and write the fit after each; return whether it has converged.

        `around` is what the learner has of rows and threads, which files do not have.
        """

        def save(has_ended: bool, has_converged: bool) -> None:
            """Write the fit after a pass."""

            def account() -> FitAccount:
                return {
                    "learner": to_plain(learner, (learner.posterior, *around)),
                    "last": self.monitor.last,
                    "change": self.monitor.change,
                    "has_ended": has_ended,
                    "goes_on": self.goes_on,
                    "has_converged": has_converged,
                }

            self.record.save(self.monitor.n_passes, self.tasks.attributes, account)

        return learn(
            learner,
            self.monitor,
            n_passes=n_passes,
            begin_pass=self.tasks.begin_pass,
            end_pass=self.tasks.end,
            save=save,
        )
