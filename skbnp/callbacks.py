"""Callbacks for scikit-learn's callback interface (`estimator.set_callbacks`)."""

import time
from numbers import Integral
from typing import Any

from skbnp.metrics import document_completion_score

__all__ = ["HeldOutMonitor"]


class HeldOutMonitor:
    """Record the held-out score of a topic model while it is fitted.

    Attach it with ``estimator.set_callbacks(HeldOutMonitor(X_valid))``. After each
    pass, or every few passes, the validation documents are scored by
    :func:`skbnp.metrics.document_completion_score`. The time this takes is not counted
    in `seconds`. Clones share the callback: in a search with threads, set it on the
    final model alone.

    Parameters
    ----------
    X_valid : {array-like, sparse matrix} of shape (n_samples, n_features)
        Validation documents, as the estimator itself sees them (inside a pipeline:
        counts, not text).
    every : int, default=1
        Passes between scores.

    Attributes
    ----------
    history_ : dict of lists
        One entry per score of the latest fit: `step` (updates made), `seconds`
        (elapsed wall time of the fit), `score` (nats per token) and `n_components`.

    See Also
    --------
    sklearn.callback.ProgressBar : Shows progress.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.callbacks import HeldOutMonitor
    >>> from skbnp.datasets import make_bars
    >>> X = make_bars(300, random_state=0).data
    >>> monitor = HeldOutMonitor(X[200:])
    >>> hdp = HDP(max_iter=3, random_state=0).set_callbacks(monitor).fit(X[:200])
    >>> len(monitor.history_["score"])
    3
    """

    def __init__(self, X_valid: Any, every: int = 1):
        if not isinstance(every, Integral) or isinstance(every, bool) or every < 1:
            raise ValueError(f"every must be a positive integer, got {every!r}.")
        self.X_valid: Any = X_valid
        self.every: int = every

    def setup(self, estimator: Any, context: Any) -> None:
        """Forget the previous fit.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that begins.
        """
        self.history_: dict[str, list] = {
            "step": [],
            "seconds": [],
            "score": [],
            "n_components": [],
        }
        self._n_passes = 0
        self._start = time.perf_counter()

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing: there is nothing to release.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that has ended.
        """

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing before a pass.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that begins.
        """

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        """Score the model as it stands after a pass.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that has ended.
        fitted_estimator : estimator instance
            The model as it would be had the fit ended here.
        """
        is_pass = context.parent is not None and context.task_name == "pass"
        if fitted_estimator is None or not is_pass:
            return
        self._n_passes += 1
        if self._n_passes % self.every:
            return
        begin = time.perf_counter()
        score = document_completion_score(fitted_estimator, self.X_valid)
        trace = fitted_estimator.history_
        entry = {
            "step": trace["step"][-1],
            "seconds": begin - self._start,
            "score": score,
            "n_components": fitted_estimator.n_components_,
        }
        for name, value in entry.items():
            self.history_[name].append(value)
        self._start += time.perf_counter() - begin
