"""Checkpoint files of unfinished fits, and resuming from them."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypedDict

import numpy as np
from sklearn.base import BaseEstimator

from skbnp.estimators._base import OF_CALLBACKS, files_of
from skbnp.inference.engine import PassLearner, learn
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Account, Monitor
from skbnp.utils import archive
from skbnp.utils.plain import to_plain
from skbnp.utils.typing import MatrixLike

#: What a fit may go on with that began with another value.
FREE = {"n_jobs", "verbose", "client", "timeout", "checkpoint_dir", "resume"}
#: The cure where fits share a path.
SIDE_BY_SIDE = (
    "Fits side by side, as in a search with n_jobs, need a path each: put {fit} into "
    'it, as in Checkpoint("fits/{fit}.skbnp").'
)


class Saved(NamedTuple):
    """Content of a checkpoint file."""

    estimator: Any  # as it was when the file was written
    account: Account | None  # state of the learner; None if the fit had ended
    every: int  # passes between two files


class FitRecord:
    """Checkpoint files of one call of `fit`, of callbacks with a `FitFile`, if any.

    `rows` are what learning reads, as `rows_digest` or their own `digest` names it;
    `goes_on` is whether the fit begins from what the estimator has learned before;
    `restore` returns what goes on of an account and its estimator. A file for which it
    fails is damaged.

    Attributes
    ----------
    account : dict or None
        State of the learner that an earlier call has left.
    estimator : estimator instance or None
        The estimator that the call has left.
    restored : object
        What `restore` has made of both.
    """

    account: Account | None = None
    estimator: Any = None
    restored: Any = None

    def __init__(
        self,
        estimator: Any = None,
        rows: object = None,
        goes_on: bool = False,
        restore: Callable[[Account, Any], object] = lambda account, before: None,
    ):
        """Read the unfinished fit of the files, if any."""
        self._fitted, self._restore = estimator, restore
        self._files, self._stamps = files_of(estimator), dict[archive.FitFile, Any]()
        if not self._files:
            return
        _check_can_resume(estimator)
        start = "anew"
        if goes_on:
            trace = {n: v for n, v in estimator.history_.items() if n != "seconds"}
            start = archive.digest_of([repr(trace), repr(estimator.lineage_)])
        self._label = _fingerprint_of(estimator, rows, start)
        self._files = [file.of(self._label) for file in self._files]
        for file in self._files:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            saved = self._unfinished(file)
            if saved is not None:
                self.account, self.estimator = saved.account, saved.estimator
                break

    def _unfinished(self, file: archive.FitFile) -> Saved | None:
        """Return the unfinished fit in a file; raise if it is of another fit."""
        saved = file.read(self._restored, lambda label: self._check(label, file))
        has_account = saved is not None and saved.account is not None
        if file.is_loaded and not has_account:
            raise ValueError(
                f"{str(file.path)!r} no longer has the unfinished fit that this "
                "estimator was loaded from. Fit sklearn.base.clone(...) of it to begin "
                "anew."
            )
        return saved if has_account else None

    def _restored(self, content: Any) -> Saved:
        """Return what a file has, after restoring the unfinished fit in it."""
        saved = saved_in(content, type(self._fitted))
        if saved.account is not None:
            self.restored = self._restore(saved.account, saved.estimator)
        return saved

    def _check(self, label: Mapping[str, str], file: archive.FitFile) -> None:
        """Raise unless the label of a file is that of this fit."""
        if "rows of X" not in label:  # the fit has ended
            return
        other = self._differing(label, file)
        if other:
            raise ValueError(
                f"{str(file.path)!r} is a checkpoint of another fit that has not "
                f"ended, with other {', '.join(other)}. Fit with the same to go on, "
                "or give another path, or remove the file, to begin anew. "
                f"{SIDE_BY_SIDE}"
            )

    def _differing(self, label: Mapping[str, str], file: archive.FitFile) -> list[str]:
        """Names of parameters or data that differ between this fit and a label."""
        names = sorted(label.keys() | self._label.keys())
        names = [name for name in names if label.get(name) != self._label.get(name)]
        return [name for name in names if not (file.is_loaded and name == "start")]

    def _refuse_other(self, file: archive.FitFile) -> None:
        """Raise if another fit has written the file since this fit began."""
        is_first = file not in self._stamps
        if not is_first and self._stamps[file] in (None, archive.stamp_of(file.path)):
            return
        label = archive.label_in(file.path) or {}
        is_other = bool(label) and bool(self._differing(label, file))
        if is_other and not (is_first and "rows of X" not in label):
            raise ValueError(
                f"{str(file.path)!r} is written by another fit at the same time. "
                f"{SIDE_BY_SIDE}"
            )

    def save(
        self,
        n_passes: int,
        attributes: Callable[[], dict[str, Any]],
        account: Callable[[], Account],
    ) -> None:
        """Write the files that are due after `n_passes` passes.

        `attributes` are those of the estimator fitted so far, `account` the state of
        the learner.
        """
        due = [file for file in self._files if n_passes % file.every == 0]
        if not due:
            return
        state = {**vars(self._fitted), **attributes()}
        for file in due:
            self._refuse_other(file)
            content = content_of(self._fitted, state, account(), file.every)
            file.write(self._label, content)
            self._stamps[file] = archive.stamp_of(file.path)

    def end(self) -> None:
        """Write the fitted estimator.

        Raises ValueError if another fit has written the file since this one began; the
        estimator is fitted all the same.
        """
        for file in self._files:
            self._refuse_other(file)
            content = content_of(self._fitted, vars(self._fitted), None, file.every)
            file.write(kind_label(self._fitted), content)
            file.is_loaded = False


def save_chunk(estimator: BaseEstimator, n_calls: int) -> None:
    """Write an estimator after a chunk of a stream, if a callback has a file."""
    for file in files_of(estimator):
        file = file.of(_parameters_of(estimator))
        if n_calls % file.every == 0:
            content = content_of(estimator, vars(estimator), None, file.every)
            file.write(kind_label(estimator), content)


def content_of(
    estimator: BaseEstimator,
    state: Mapping[str, Any],
    account: Account | None,
    every: int,
) -> Any:
    """Return the content of a checkpoint file as plain data."""
    result = object.__new__(type(estimator))
    vars(result).update(
        {n: value for n, value in state.items() if not n.startswith(OF_CALLBACKS)}
    )
    return {"estimator": result.__getstate__(), "account": account, "every": every}


def saved_in(content: Any, kind: type[BaseEstimator]) -> Saved:
    """Return the checked content of a checkpoint file of a class."""
    estimator = object.__new__(kind)
    estimator.__setstate__(content["estimator"])
    every, account = content["every"], content["account"]
    if not (isinstance(every, int) and every >= 1):
        raise ValueError(f"it has every={every!r}")
    return Saved(estimator, account, every)


def _check_can_resume(estimator: BaseEstimator) -> None:
    """Raise unless parameters are data, so that a file can have them."""
    for name, value in estimator.get_params(deep=False).items():
        if name in FREE:
            continue
        try:
            archive.put_aside(to_plain(value), {})
        except TypeError as error:
            raise TypeError(
                f"Checkpoint writes data alone, and {name}={value!r:.80} is none: "
                f"{error}"
            ) from error


def kind_label(estimator: BaseEstimator) -> dict[str, str]:
    """Return the label of a file with an estimator alone."""
    kind = type(estimator)
    place = "dask." if kind.__module__.startswith("skbnp.dask") else ""
    return {"class": f"{place}{kind.__name__}"}


def _parameters_of(estimator: BaseEstimator) -> dict[str, str]:
    """Return texts of the parameters that must be equal to resume."""
    return {
        f"parameter {name}": archive.text_of(value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in FREE
    }


def _fingerprint_of(estimator: BaseEstimator, rows: Any, start: str) -> dict[str, str]:
    """Return what must be equal to resume a fit: class, parameters, data, start."""
    names = getattr(estimator, "feature_names_in_", np.zeros(0))
    parameters = _parameters_of(estimator)
    digest = rows.digest if hasattr(rows, "digest") else archive.rows_digest(rows)
    return {
        **kind_label(estimator),
        **parameters,
        "rows of X": digest,
        "names of columns": archive.digest_of(map(str, names)),
        "start": start,
    }


# Calls of `fit` and `partial_fit`: tasks of callbacks, trace and files.


class FitAccount(TypedDict):
    """What a file has of a fit that has not ended, beside the estimator so far."""

    learner: dict | None  # as plain data, if it is saved: it needs rows
    last: float  # value of the criterion, and its change
    change: float
    has_ended: bool
    goes_on: bool
    has_converged: bool


class FitSession:
    """One call of `fit` or `partial_fit`: its tasks for callbacks, trace and files.

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
    record : FitRecord or None
        Checkpoint files of `fit`.
    **given : object
        What else the passes need, see the attributes.

    Attributes
    ----------
    rows, executor, monitor : object
        What is learned from, threads, and the trace.
    goes_on : bool
        Whether the fit begins from what the estimator has learned before.
    """

    rows: Any
    executor: Executor
    monitor: Monitor
    goes_on: bool = True

    def __init__(
        self,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: object,
        attributes: Callable[[], dict[str, Any]],
        n_tasks: int,
        method: str = "fit",
        record: FitRecord | None = None,
        **given: Any,
    ):
        """Begin the callback task of a call of `method`."""
        self._arguments = {"estimator": estimator, "X": X, "y": y}
        self.attributes, self.record = attributes, record or FitRecord()
        vars(self).update(given)
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

    def save(self, n_passes: int, account: Callable[[], Account]) -> None:
        """Write the files that are due, with the state of what learns."""
        self.record.save(n_passes, self.attributes, account)

    def learn(
        self, learner: PassLearner, around: tuple[Any, ...], n_passes: int
    ) -> bool:
        """Make passes and write the fit after each; return whether it has converged.

        `around` is what the learner has of rows and threads, which files do not have.
        """

        def end_pass(has_converged: bool) -> bool:
            """End a pass, and write the fit; return whether learning ends."""
            has_ended = self.end() or has_converged

            def account() -> FitAccount:
                known = learner.posterior, *around
                return {
                    "learner": to_plain(learner, known) if learner.is_saved else None,
                    "last": self.monitor.last,
                    "change": self.monitor.change,
                    "has_ended": has_ended,
                    "goes_on": self.goes_on,
                    "has_converged": has_converged,
                }

            self.save(self.monitor.n_passes, account)
            return has_ended

        given = learner, self.monitor, n_passes
        return learn(*given, begin_pass=self.begin_pass, end_pass=end_pass)
