"""scikit-learn's callbacks see each pass, may stop a fit, and cannot harm it."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from checks.bad_input import bad_matrix, check_refuses
from checks.callbacks import Keep, Recorder, StopAfter, Trouble
from checks.estimators import (
    DOORS,
    FEW,
    FIRST,
    INSTANCES,
    every_estimator,
    every_kind,
    finds_start,
    fresh,
    is_variational,
    needs_two_columns,
)
from checks.long import daily
from checks.states import NOTES, assert_same, learned
from skbnp import NestedHDP
from skbnp.callbacks import HeldOutMonitor

#: Who is searched over: one that is learned, and one that samples.
TWO = {name: INSTANCES[name] for name in ("HDP-online", "GibbsHDP")}


def search(estimator, n_jobs=None, **parameters):
    grid = parameters or {"topic_word_prior": [0.05, 0.5]}
    return GridSearchCV(estimator, grid, cv=2, n_jobs=n_jobs)


# -- what callbacks see ----------------------------------------------------------------


@every_kind()
def test_hooks_run_around_the_fit_and_around_each_pass(estimator, rows):
    recorder = Recorder()
    estimator.set_callbacks(recorder).fit(rows)
    tasks = [*["start"] * finds_start(estimator), *["pass"] * 3]
    events = [f"{hook} {task}" for task in tasks for hook in ("begin", "end")]
    assert recorder.events == ["setup", "begin fit", *events, "end fit", "teardown"]


@every_kind()
def test_callbacks_do_not_change_the_result(estimator, fitted, rows):
    before = set(vars(fitted))
    estimator.set_callbacks(Keep(), Recorder(), HeldOutMonitor(rows)).fit(rows)
    assert_same(learned(fitted), learned(estimator))
    assert set(vars(estimator)) - before == {"_skl_callbacks"}


def as_ended(estimator):
    """Number the topics of an estimator that callbacks get, as a fit that ends does."""
    if not hasattr(estimator, "merge_components"):  # a tree has no such numbers
        return estimator
    result = copy.copy(estimator)
    if hasattr(result, "samples_"):
        result._publish(result._numbered(learned(result)))
        return result
    result._number_topics(result._posterior)
    ended = result.history_, result.n_iter_, result.converged_
    vars(result).update(result._fitted_attributes(result._posterior, *ended))
    return result


def check_fitted_estimators(estimator, X):
    """Raise unless callbacks get what a fit of so many passes would give.

    And unless it stays so when the fit, and the estimator, go on.
    """
    keep = Keep()
    estimator.set_callbacks(keep).fit(X)
    estimator.set_callbacks().partial_fit(X)
    n_passes = estimator.max_iter
    assert len(keep.fitted) == n_passes
    for number, (handed, copied) in enumerate(
        zip(keep.fitted, keep.copies, strict=True)
    ):
        alone = fresh(estimator, max_iter=number + 1).fit(X)
        assert_same(learned(copied), learned(handed), ignore=NOTES)
        handed = as_ended(handed)
        assert_same(learned(alone), learned(handed))
        assert_same(alone.transform(X), handed.transform(X))
        assert alone.score(X) == handed.score(X)
        assert_same(alone.components_, handed.components_)


@every_estimator(among=FIRST, daily=FEW)
def test_callbacks_get_the_estimator_fitted_with_so_many_passes(estimator, rows):
    check_fitted_estimators(estimator, rows)


@every_kind(is_variational)
def test_end_of_the_fit_tells_whether_it_has_converged(estimator, rows):
    keep = Keep()
    estimator.set_params(tol=0.5, max_iter=60).set_callbacks(keep).fit(rows)
    assert estimator.converged_
    assert_same(learned(estimator), learned(keep.final[0]))


# -- streams ---------------------------------------------------------------------------


def n_stream_passes(estimator):
    """Passes of a call of `partial_fit`."""
    by_minibatch = is_variational(estimator) and not needs_two_columns(estimator)
    return 1 if by_minibatch else estimator.max_iter


@every_kind()
def test_hooks_run_around_partial_fit_and_around_each_pass(estimator, rows):
    recorder, y = Recorder(), np.arange(60)
    estimator.set_callbacks(recorder)
    passes = ["begin pass", "end pass"] * n_stream_passes(estimator)
    for _ in range(2):  # a first chunk, and a further one
        recorder.events.clear()
        estimator.partial_fit(rows, y)
        around = ["begin partial_fit", *passes, "end partial_fit"]
        assert recorder.events == ["setup", *around, "teardown"]
    assert all(seen[0] is rows and seen[1] is y for seen in recorder.seen)


@every_kind()
def test_callbacks_get_the_estimator_as_partial_fit_leaves_it(estimator, rows):
    """Callbacks get the estimator as each call of partial_fit leaves it.

    And unless it stays so when the stream goes on, which is as without callbacks.
    """
    keep, alone, pairs = Keep(), clone(estimator), []
    estimator.set_callbacks(keep, Recorder(), HeldOutMonitor(rows))
    for chunk in (rows[:30], rows[30:]):
        estimator.partial_fit(chunk)
        alone.partial_fit(chunk)
        assert_same(learned(alone), learned(estimator))
        for handed in (keep.fitted[-1], keep.final[-1]):
            assert_same(learned(alone), learned(handed))
        assert alone.score(rows) == keep.fitted[-1].score(rows)
        pairs.append((keep.copies[-1], keep.fitted[-1]))
    for copied, handed in pairs:
        assert_same(learned(copied), learned(handed), ignore=NOTES)


@every_kind()
def test_callback_that_raises_in_a_stream_leaves_the_last_complete_pass(
    estimator, rows
):
    trouble = Trouble(1)
    estimator.set_callbacks(trouble)
    with pytest.raises(OSError, match="no space left"):
        estimator.partial_fit(rows)
    assert trouble.closed
    # A first call of a nested HDP fits its documents, which is one pass of callbacks.
    changes = {} if isinstance(estimator, NestedHDP) else {"max_iter": 1}
    alone = fresh(estimator, **changes).set_callbacks().partial_fit(rows)
    assert_same(learned(alone), learned(estimator))


# -- stopping and failing --------------------------------------------------------------


@every_estimator(among=FIRST)
def test_callback_ends_the_fit_after_the_pass(estimator, rows):
    """By its answer, or by an error."""
    two_passes, trouble = fresh(estimator, max_iter=2).fit(rows), Trouble(2)
    raising = fresh(estimator).set_callbacks(trouble)
    with pytest.raises(OSError, match="no space left"):
        raising.fit(rows)
    assert trouble.closed
    estimator.set_params(max_iter=9).set_callbacks(StopAfter(2)).fit(rows)
    assert estimator.n_iter_ == 2
    for ended in (raising, estimator):
        assert_same(learned(two_passes), learned(ended))


# -- HeldOutMonitor --------------------------------------------------------------------


@every_estimator(among=TWO)
def test_held_out_monitor_records_the_score_of_each_pass(estimator, rows):
    monitor = HeldOutMonitor(rows[40:])
    estimator.set_callbacks(monitor).fit(rows[:40])
    expected = [
        fresh(estimator, max_iter=number).fit(rows[:40]) for number in (1, 2, 3)
    ]
    scores = [fitted.score(rows[40:]) for fitted in expected]
    assert_allclose(monitor.history_["score"], scores, rtol=1e-6)
    assert monitor.history_["step"][-1] == estimator.history_["step"][-1]
    sizes = [fitted.n_components_ for fitted in expected]
    assert monitor.history_["n_components"] == sizes
    assert (np.diff(monitor.history_["seconds"]) > 0).all()


@every_estimator(among=TWO)
@pytest.mark.parametrize("n_jobs", daily(1, [1, 2]))
def test_early_stop_acts_on_every_fit_of_a_search(estimator, n_jobs, rows):
    estimator.set_params(max_iter=9).set_callbacks(StopAfter(2))
    grid = search(estimator, n_jobs).fit(rows)
    plain = search(fresh(estimator, max_iter=2)).fit(rows)
    assert grid.best_estimator_.n_iter_ == 2
    np.testing.assert_array_equal(
        grid.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
    )


@every_estimator(among=DOORS)
def test_held_out_monitor_refuses_bad_documents_by_name(estimator, rows, counts):
    bad, says = bad_matrix(estimator, counts)
    check_refuses(estimator.set_callbacks(HeldOutMonitor(bad)).fit, rows, says)
