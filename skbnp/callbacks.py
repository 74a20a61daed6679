"""Callbacks for scikit-learn's callback interface (`estimator.set_callbacks`).

They need scikit-learn 1.9 or later, but for `Checkpoint`.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from skbnp.metrics import document_completion_score
from skbnp.utils.archive import FitFile
from skbnp.utils.arrays import largest
from skbnp.utils.sklearn import CallbackContext
from skbnp.utils.typing import MatrixLike
from skbnp.utils.validation import check_is_fitted

__all__ = ["AlertMonitor", "Checkpoint", "HeldOutMonitor", "TopicTermsMonitor"]


def __dir__() -> list[str]:
    return __all__


def _check_positive(name: str, value: object) -> int:
    """Check that a parameter is a positive integer."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")
    return int(value)


class _FitCallback:
    """Base of callbacks: hooks that do nothing."""

    def setup(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Do nothing before a fit.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that begins.
        """

    def teardown(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Do nothing: there is nothing to release.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that has ended.
        """

    def on_fit_task_begin(
        self, estimator: BaseEstimator, context: CallbackContext
    ) -> None:
        """Do nothing before a pass.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that begins.
        """

    def on_fit_task_end(
        self, estimator: BaseEstimator, context: CallbackContext
    ) -> None:
        """Do nothing after a pass.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that has ended.
        """


class Checkpoint(_FitCallback):
    """Write a fit to a file while it goes on, so that it can go on later.

    Attach it with ``estimator.set_callbacks(Checkpoint(path))``. Whatever ends the
    process, the same call of `fit` then goes on from the file, and so does ``fit`` of
    what :func:`skbnp.load` reads from it, to the bits of a fit that nothing has broken
    off. Once the fit has ended, the file holds the fitted estimator, and a further fit
    starts again.

    Parameters
    ----------
    path : path-like
        The file; its folder is made if it is not there. ``{fit}`` in it stands for a
        digest of the parameters and of `X`: each fit of a search has its own file.
    every : int, default=1
        Passes (sweeps of samplers, calls of `partial_fit`) between two files.

    See Also
    --------
    skbnp.load : Reads the file.
    skbnp.save : Writes an estimator.

    Notes
    -----
    The file holds data alone, arrays and JSON: all that learning needs but the rows of
    `X`, of which it has a digest. A fit with other rows, names of columns or parameters
    than those of the file, but for `n_jobs` and `verbose`, raises ValueError: the file
    stays as it is. So do two damaged files; where one is damaged, the fit goes on from
    the other, with a warning. A random generator as `random_state` is one like any
    other; the fit goes on with what was drawn.

    A stream, `partial_fit`, is written after each call as the estimator that it leaves;
    nothing of it is left to go on with but further chunks.

    Clones share the callback, and so the path: in a search, put ``{fit}`` into it, and
    each candidate goes on by itself. Fits side by side that write one file are refused.
    Monitors see the passes from where a fit goes on. Estimators of `skbnp.dask` write
    the file in the process that calls `fit`, and go on with the same blocks, with
    another `client` or none.

    Examples
    --------
    >>> import skbnp, tempfile
    >>> from skbnp.callbacks import Checkpoint
    >>> from skbnp.datasets import make_bars
    >>> X = make_bars(200, side=4, random_state=0).data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/fit.skbnp"
    ...     hdp = skbnp.HDP(random_state=0).set_callbacks(Checkpoint(path, every=5))
    ...     hdp = hdp.fit(X)  # the same line goes on after an end of the process
    ...     loaded = skbnp.load(path)
    >>> loaded.n_iter_ == hdp.n_iter_
    True
    """

    def __init__(self, path: str | os.PathLike, every: int = 1):
        self.file = FitFile(path, _check_positive("every", every))

    @property
    def path(self) -> str:
        """The file."""
        return str(self.file.path)

    @property
    def every(self) -> int:
        """Passes between two files."""
        return self.file.every

    def setup(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Refuse an estimator that does not write the file.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that begins.

        Raises
        ------
        TypeError
            If the estimator is of no class of `skbnp`.
        """
        if not type(estimator).__module__.startswith("skbnp."):
            raise TypeError(
                "Checkpoint must be set on an estimator of skbnp, which writes the "
                f"file, got {type(estimator).__name__}."
            )


class _PassMonitor(_FitCallback):
    """Base of callbacks that evaluate the model every few passes of a fit or stream."""

    fields: Sequence[str]  # of `history_`

    def __init__(self, every: int):
        self.every: int = _check_positive("every", every)

    def setup(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Forget the previous fit; `partial_fit` of a fitted estimator goes on.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that begins.
        """
        goes_on = context.task_name == "partial_fit" and hasattr(estimator, "history_")
        if goes_on and hasattr(self, "history_"):
            self._forget_after(_last_update(estimator))
        else:
            self._forget()

    def _forget(self) -> None:
        self.history_: dict[str, list] = {name: [] for name in self.fields}
        self._n_passes = 0

    def _forget_after(self, step: int) -> None:
        """Remove entries of later steps, which belong to another fit."""
        while self.history_["step"] and self.history_["step"][-1] > step:
            for values in self.history_.values():
                values.pop()

    def on_fit_task_end(
        self,
        estimator: BaseEstimator,
        context: CallbackContext,
        *,
        fitted_estimator: BaseEstimator | None = None,
    ) -> None:
        """Look at the model as it stands after a pass.

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
        if self._n_passes % self.every == 0:
            self._look(fitted_estimator)

    def _look(self, fitted_estimator: BaseEstimator) -> None:
        raise NotImplementedError

    def _add(self, **entry: object) -> None:
        """Append an entry of the columns `fields`."""
        for name in self.fields:
            self.history_[name].append(entry[name])


class HeldOutMonitor(_PassMonitor):
    """Record the held-out score of a model while it is fitted.

    Attach it with ``estimator.set_callbacks(HeldOutMonitor(X_valid))``. After each
    pass, or every few passes, the validation documents are scored by
    :func:`skbnp.metrics.document_completion_score`, and rows that are no counts by the
    `score` of the model. The time this takes is not counted in `seconds`. A call of
    `partial_fit` is one pass, or `max_iter` passes of a sampler and of trees over
    epochs, and goes on with the record of the calls before. Clones share the callback:
    in a search with threads, set it on the final model alone. Of a sampler the score is
    that of the samples kept so far, before the first that of the present states, and
    takes time in proportion to their number.

    Parameters
    ----------
    X_valid : {array-like, sparse matrix} of shape (n_samples, n_features)
        Validation documents or rows, as the estimator itself sees them (inside a
        pipeline: counts, not text). Trees over epochs score them by the newest tree.
    every : int, default=1
        Passes between scores.

    Attributes
    ----------
    history_ : dict of lists
        One entry per score of the latest fit, or of the stream: `step` (updates made),
        `seconds` (elapsed wall time of the fit and of all calls of `partial_fit`),
        `score` (nats per token, or per row) and `n_components`.

    See Also
    --------
    TopicTermsMonitor : Records the terms of the topics.
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

    fields = ("step", "seconds", "score", "n_components")
    _elapsed: float  # seconds of earlier calls

    def __init__(self, X_valid: MatrixLike, every: int = 1):
        super().__init__(every)
        self.X_valid: MatrixLike = X_valid

    def setup(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Forget the previous fit, or go on with a stream, and start the clock.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that begins.
        """
        super().setup(estimator, context)
        self._start = time.perf_counter() - self._elapsed

    def teardown(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Stop the clock.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that has ended.
        """
        self._elapsed = time.perf_counter() - self._start

    def _forget(self) -> None:
        super()._forget()
        self._elapsed = 0.0

    def _look(self, fitted_estimator: BaseEstimator) -> None:
        """Score the held-out documents and record the score."""
        begin = time.perf_counter()
        self._add(
            step=_last_update(fitted_estimator),
            seconds=begin - self._start,
            score=_score(fitted_estimator, self.X_valid),
            n_components=fitted_estimator.n_components_,
        )
        self._start += time.perf_counter() - begin


def _score(model: BaseEstimator, X: MatrixLike) -> float:
    """Score held-out documents, or rows that are not counts."""
    if get_tags(model).input_tags.positive_only:
        return document_completion_score(model, X)
    labels = getattr(model, "_labels", None)  # of time: the newest is being learned
    return model.score(X) if labels is None else model.score(X, epochs=labels[-1])


class TopicTermsMonitor(_PassMonitor):
    """Record the top terms of all topics while a model is fitted.

    Attach it with ``estimator.set_callbacks(TopicTermsMonitor())``; it looks after each
    pass, or every few passes, of `fit` and of a stream: a call of `partial_fit` goes on
    with the record of those before. :meth:`record` keeps the topics at any other time.
    :class:`skbnp.inspection.LineageDisplay` shows what was recorded. Of a sampler it
    records the latest of `samples_`, one entry per chain: every sweep of the burn-in up
    to the first kept sample, then the kept ones.

    Parameters
    ----------
    n_terms : int, default=10
        Terms of each topic.
    every : int, default=1
        Passes between records.

    Attributes
    ----------
    history_ : dict of lists
        One entry per record: `step` (updates made), `chain` (0 but for samplers),
        `component_ids` (array of shape (n_components,)) and `terms` (array of shape
        (n_components, n_terms), the columns of the most probable terms, most probable
        first). `fit` starts anew.

    See Also
    --------
    HeldOutMonitor : Records the held-out score.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.callbacks import TopicTermsMonitor
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 9
    >>> monitor = TopicTermsMonitor(n_terms=2)
    >>> hdp = HDP(2, max_iter=4, random_state=0).set_callbacks(monitor).fit(X)
    >>> monitor.history_["step"]
    [1, 2, 3, 4]
    >>> monitor.history_["terms"][-1]
    array([[2, 0],
           [0, 1]])
    """

    fields = ("step", "chain", "component_ids", "terms")

    def __init__(self, n_terms: int = 10, every: int = 1):
        super().__init__(every)
        self.n_terms: int = _check_positive("n_terms", n_terms)

    def record(self, estimator: BaseEstimator) -> None:
        """Record the topics of a fitted model as they are now.

        Parameters
        ----------
        estimator : fitted topic model
            With `component_ids_`, `components_` and `history_`. Records of the same and
            of later steps are replaced: they are of another fit, or were edited.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the model is not fitted.
        """
        check_is_fitted(estimator)
        if not hasattr(self, "history_"):
            self._forget()
        self._forget_after(_latest_step(estimator) - 1)
        self._look(estimator)

    def rename_components(self, names: np.ndarray) -> None:
        """Call topics by other numbers, as a fit does when it ends.

        Parameters
        ----------
        names : ndarray of int
            The new number of each id.
        """
        history = getattr(self, "history_", {"component_ids": []})
        history["component_ids"][:] = [names[ids] for ids in history["component_ids"]]

    def _look(self, fitted_estimator: BaseEstimator) -> None:
        """Record the top terms of all topics after a pass."""
        step = _latest_step(fitted_estimator)
        if step in self.history_["step"][-1:]:
            return  # no sample was kept since
        for chain, ids, topics in _present_topics(fitted_estimator, step):
            self._add(
                step=step,
                chain=chain,
                component_ids=ids.copy(),
                terms=np.array(
                    [largest(np.abs(topic), self.n_terms) for topic in topics]
                ),
            )


class AlertMonitor(_PassMonitor):
    """Record the topics of a stream that are new, or have faded, each once.

    Attach it to an :class:`skbnp.HDP` with ``hdp.set_callbacks(AlertMonitor())``; after
    a call of `partial_fit`, or every few calls, it lists what
    :func:`skbnp.inspection.emerging_topics` does. `fit` has no alerts.

    Parameters
    ----------
    n_calls : int or None, default=None
        Calls of the stream among which topics are new. None: half of those of which
        documents are kept.
    report : callable or None, default=None
        Called with one line of text for each alert, as ``logging.warning``.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of the columns in these lines. None takes `feature_names_in_`, if any.
    n_terms : int, default=5
        Terms of each topic.
    every : int, default=1
        Calls between alerts.

    Attributes
    ----------
    history_ : dict of lists
        One entry per alert: `step` (updates made), `call`, `kind` ("new" or "faded"),
        `begin` (the first call with the topic, or without), `topic` (id, -1 if the
        model has none yet), `n_documents` (kept ones), `p_value`, `terms` (columns by
        which it differs most from older topics) and `line`.

    See Also
    --------
    skbnp.inspection.emerging_topics : The same of a stream as it is.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.callbacks import AlertMonitor
    >>> from skbnp.datasets import make_bars
    >>> corpus = make_bars(900, side=5, random_state=0)
    >>> share = corpus.doc_topic_distr[:, 0]
    >>> old, late = corpus.data[share < 0.01], corpus.data[share > 0.3]
    >>> monitor = AlertMonitor(n_calls=1)
    >>> hdp = HDP(random_state=0).set_callbacks(monitor)
    >>> for chunk in (old[:200], old[200:], late[:50]):
    ...     hdp = hdp.partial_fit(chunk)
    >>> monitor.history_["kind"][0], monitor.history_["begin"][0]
    ('new', 3)
    """

    fields = "step call kind begin topic n_documents p_value terms line".split()
    _reported: list[Any]  # changes of the entries

    def __init__(
        self,
        n_calls: int | None = None,
        report: Callable[[str], object] | None = None,
        feature_names: ArrayLike | None = None,
        n_terms: int = 5,
        every: int = 1,
    ):
        super().__init__(every)
        self.n_calls = None if n_calls is None else _check_positive("n_calls", n_calls)
        self.report = report
        self.feature_names = feature_names
        self.n_terms: int = _check_positive("n_terms", n_terms)

    def setup(self, estimator: BaseEstimator, context: CallbackContext) -> None:
        """Forget the previous fit, or go on with a stream.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is fitted.
        context : sklearn.callback.CallbackContext
            The task that begins.

        Raises
        ------
        TypeError
            If the estimator keeps no documents of streams.
        """
        if not hasattr(type(estimator), "_kept_documents"):
            raise TypeError(
                "AlertMonitor must be set on an HDP, which keeps documents of streams, "
                f"got {type(estimator).__name__}."
            )
        super().setup(estimator, context)
        if not self.history_["step"]:
            self._reported = []
        del self._reported[len(self.history_["step"]) :]

    def _look(self, fitted_estimator: BaseEstimator) -> None:
        """Record changes that were not recorded before."""
        model: Any = fitted_estimator
        kept = model._kept_documents
        if kept is None:
            return
        call, since = model.n_iter_, None
        if self.n_calls is not None:
            since = max(call - self.n_calls, int(kept[1].min()))
        if since is not None and since >= call:
            return
        names: Any = self.feature_names
        if names is None:
            names = getattr(model, "feature_names_in_", None)
        for change in model._changes(since):
            if any(change.is_like(other) for other in self._reported):
                continue
            columns = change.leading(self.n_terms)
            terms = [f"column {j}" if names is None else str(names[j]) for j in columns]
            given = getattr(model, "topic_names_", {})
            line = change.line(terms, given.get(change.topic))
            self._reported.append(change)
            shared = "kind", "begin", "topic", "n_documents", "p_value"
            entry = {name: getattr(change, name) for name in shared}
            step = _latest_step(model)
            self._add(step=step, call=call, terms=columns, line=line, **entry)
            if self.report is not None:
                self.report(line)


def _latest_step(model: BaseEstimator) -> int:
    """Step at which the present topics of a model were made."""
    samples = getattr(model, "samples_", None)
    if samples:
        return max(sample.step for sample in samples)
    return _last_update(model)


def _last_update(model: BaseEstimator) -> int:
    """Number of updates that a fitted model has made."""
    return max(model.history_["step"], default=0)


def _present_topics(model: BaseEstimator, step: int) -> Iterator[tuple[int, Any, Any]]:
    """Yield chain, ids and term weights of the present topics, chain by chain."""
    samples = getattr(model, "samples_", None)
    if not samples or not hasattr(samples[0], "topic_word_counts"):
        yield 0, model.component_ids_, model.components_
        return
    for sample in samples:
        if sample.step == step:
            counts = sample.topic_word_counts.toarray()
            yield sample.chain, sample.component_ids, counts
