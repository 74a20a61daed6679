"""A call that fails leaves the estimator as it was, or at its last complete update."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp

from checks.bad_input import bad_matrix
from checks.estimators import (
    FEW,
    FIRST,
    INSTANCES,
    LEARNING,
    criterion,
    evaluate,
    every_estimator,
    every_method,
    fresh,
    gives_proportions,
    instance,
    is_tree,
    is_variational,
    learns_by_minibatch,
    still,
    takes_counts_only,
    takes_warm_start,
)
from checks.failures import Failure, failing_visit, fit_updates
from checks.lineages import check_lineage
from checks.states import assert_same, learned, snapshot


def check_failure_leaves(estimator, method, X, error=(ValueError, TypeError)):
    """Raise unless the call fails and nothing of the estimator has changed."""
    before = snapshot(estimator)
    with pytest.raises(error):
        getattr(estimator, method)(X)
    assert_same(before, vars(estimator), ignore=())


def check_failure_leaves_unfitted(estimator, method, X):
    """Raise unless the call fails and the estimator is not fitted afterwards."""
    with pytest.raises(Failure):
        getattr(estimator, method)(X)
    assert not estimator.__sklearn_is_fitted__()
    assert not hasattr(estimator, "n_features_in_")


def check_usable(estimator, X):
    """Raise unless topics, log and trace agree and evaluations are finite."""
    n_components = estimator.n_components_
    if takes_counts_only(estimator):
        assert len(estimator.topic_weights_) == n_components
    if is_tree(estimator):
        assert len(estimator.tree_.parent) == n_components
    assert estimator.components_.shape == (n_components, X.shape[1])
    check_lineage(estimator)
    steps = estimator.history_["step"]
    assert len({len(trace) for trace in estimator.history_.values()}) == 1
    if is_variational(estimator):
        assert (steps or [0])[-1] == estimator._posterior.n_steps
        assert np.isfinite(getattr(estimator, f"{criterion(estimator)}_"))
    if gives_proportions(estimator):
        np.testing.assert_allclose(estimator.transform(X).sum(axis=1), 1.0)
    answers = evaluate(estimator, X)
    answers.pop("elbo_terms", None)
    for answer in answers.values():
        values = answer.data if sp.issparse(answer) else answer
        assert np.isfinite(values).all()


@every_method(*LEARNING, "fit_transform", among=FIRST)
def test_every_refused_first_call_leaves_no_trace(estimator, method, counts):
    check_failure_leaves(estimator, method, bad_matrix(estimator, counts)[0])


@every_method(*LEARNING, "transform", "score", "elbo", among=FIRST)
def test_every_refused_later_call_leaves_no_trace(fitted, method, counts):
    check_failure_leaves(fitted, method, bad_matrix(fitted, counts)[0])


@every_estimator(takes_warm_start, among=FIRST)
def test_refused_warm_start_leaves_no_trace(fitted, rows):
    fitted.set_params(warm_start=True)
    check_failure_leaves(fitted, "fit", rows[:, :5])


@every_estimator(among=FIRST)
def test_failure_in_the_first_minibatch_of_a_stream_leaves_it_unfitted(estimator, rows):
    with failing_visit(1):
        check_failure_leaves_unfitted(estimator, "partial_fit", rows)


@every_estimator(among=FIRST)
def test_failure_in_the_first_minibatch_of_a_chunk_leaves_no_trace(fitted, rows):
    with failing_visit(1):
        check_failure_leaves(fitted, "partial_fit", rows, error=Failure)


@every_estimator(learns_by_minibatch)
def test_stream_goes_on_after_a_failure_as_if_the_chunk_had_ended_there(fitted, rows):
    other = copy.deepcopy(still(fitted))
    with failing_visit(2), pytest.raises(Failure):
        fitted.partial_fit(rows)
    other.partial_fit(rows[:15]).partial_fit(rows[15:])
    assert_same(learned(other), learned(fitted.partial_fit(rows[15:])))


@pytest.mark.parametrize(
    ("estimator", "error"),
    [
        instance(name, e, (Failure, KeyboardInterrupt)[at % 2])
        for at, (name, e) in enumerate(INSTANCES.items())
    ],
    indirect=["estimator"],
)
def test_failure_in_fit_leaves_the_complete_updates(estimator, error, rows):
    other = fit_updates(fresh(still(estimator)), rows, 2)
    with failing_visit(3, error), pytest.raises(error):
        estimator.fit(rows)
    assert_same(learned(other), learned(estimator))
    assert sorted(set(estimator.history_["step"])) == [1, 2]


#: Visits that fail, one for each estimator, by turns. All places in a pass of four are
#: among them.
NUMBERS = [2, 13, 3, 8, 18, 23]


@pytest.mark.parametrize(
    ("estimator", "number", "error"),
    [
        instance(name, e, number, (Failure, KeyboardInterrupt)[number % 2], daily=FEW)
        for at, (name, e) in enumerate(INSTANCES.items())
        for number in [NUMBERS[at % len(NUMBERS)]]
    ],
    indirect=["estimator"],
)
def test_failure_in_any_visit_of_a_long_fit_leaves_a_consistent_estimator(
    estimator, number, error, rows
):
    """Visits of moves and of trials, too."""
    estimator.set_params(max_iter=30)
    with failing_visit(number, error), pytest.raises(error):
        estimator.fit(rows)
    check_usable(estimator, rows)
    estimator.partial_fit(rows)
    check_usable(estimator, rows)
