"""Bad input is refused by every method, with a message that says what is wrong.

Every method hands its rows to one function, `check_documents` if they are counts. So
each bad matrix is tried on one estimator of each such door, one on each method, and
each method is seen to ask. All matrices are one test, which names the one that fails.
"""

import sys
from contextlib import ExitStack
from functools import partial
from inspect import isfunction, signature
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from checks.bad_input import (
    CORRUPT,
    KINDS,
    VALUES,
    bad_matrix,
    check_refuses,
    check_refuses_structure,
    message,
)
from checks.estimators import (
    DOORS,
    EVALUATIONS,
    FIRST,
    INSTANCES,
    LEARNING,
    dense,
    door_of,
    every_estimator,
    every_kind,
    every_method,
    instance,
    readers,
    takes_counts_only,
    takes_sparse,
)
from checks.failures import of_case
from skbnp import HDP
from skbnp.utils import validation
from skbnp.utils.containers import check_before_conversion

#: Functions that check the rows of an estimator.
CHECKS = [
    name
    for name, check in vars(validation).items()
    if isfunction(check)
    and {"estimator", "X", "reset"} <= {*signature(check).parameters}
]


# -- the door --------------------------------------------------------------------------


class Asked(Exception):
    """Raised by the door, so that nothing comes after it."""


def check_asks_first(estimator, method):
    """Raise unless the method does nothing with X before its door has it.

    Under whatever name of whatever module: estimators import it one by one.
    """
    X, seen = object(), []
    defines = method.startswith("fit") or not estimator.__sklearn_is_fitted__()

    def door(check, who, given, *, reset, **others):
        seen.append((check, who is estimator, given is X, reset))
        raise Asked

    with ExitStack() as patches:
        for name, module in sys.modules.items():
            if name.startswith("skbnp.estimators."):
                for check in vars(module).keys() & {*CHECKS}:
                    asked = partial(door, check)
                    patches.enter_context(mock.patch.object(module, check, asked))
        with pytest.raises(Asked):
            getattr(estimator, method)(X)
    assert seen == [(door_of(estimator).__name__, True, True, defines)]


@pytest.mark.parametrize(
    ("estimator", "method"),
    [instance(name, e, method) for name, e in FIRST.items() for method in readers(e)],
    indirect=["estimator"],
)
def test_every_public_method_asks_at_the_door(fitted, method):
    check_asks_first(fitted, method)


@every_method(*LEARNING, among=FIRST)
def test_the_first_call_asks_at_the_door(estimator, method):
    check_asks_first(estimator, method)
    assert not estimator.__sklearn_is_fitted__()


# -- bad matrices ----------------------------------------------------------------------


@every_method("fit", "transform", among=DOORS)
def test_bad_matrix_is_refused(fitted, method, counts):
    for name, bad in (VALUES | KINDS).items():
        if bad.signed_only and not takes_counts_only(fitted):
            continue
        with of_case(name):
            X = bad.spoil(counts.copy())
            check_refuses(getattr(fitted, method), X, message(bad, X, fitted))


def test_corrupt_index_arrays_are_found_before_any_conversion(counts):
    for name, bad in CORRUPT.items():
        with of_case(name):
            check_refuses(check_before_conversion, bad.spoil(counts.copy()), bad.says)


@every_estimator(takes_sparse, among=DOORS)
def test_corrupt_index_arrays_are_refused(estimator, counts):
    for name, bad in CORRUPT.items():
        with of_case(name):
            check_refuses_structure(estimator.fit, bad.spoil(counts.copy()), bad.says)


@every_method(*LEARNING, *EVALUATIONS, among=FIRST)
def test_every_method_refuses_a_bad_value(fitted, method, counts):
    check_refuses(getattr(fitted, method), *bad_matrix(fitted, counts))


def check_refuses_width(call, X, width):
    """Raise unless documents over so many words are refused."""
    columns = np.arange(width) % X.shape[1]
    check_refuses(call, X[:, columns], f"X has {width} features, but .* expecting 24")


@every_method("partial_fit", *EVALUATIONS, among=FIRST)
def test_another_vocabulary_is_refused(fitted, method, rows):
    check_refuses_width(getattr(fitted, method), rows, 25)


@every_method("partial_fit", "transform", among=DOORS)
@pytest.mark.parametrize("width", [1, 23, 25])
def test_any_other_number_of_words_is_refused(fitted, method, width, rows):
    for X in [dense(rows), *[rows] * takes_sparse(fitted)]:
        check_refuses_width(getattr(fitted, method), X, width)


@every_kind()
def test_other_feature_names_are_refused(estimator, rows):
    frame = pd.DataFrame(dense(rows)).rename(columns="w{}".format)
    estimator.fit(frame)
    for method in ("partial_fit", *EVALUATIONS):
        if hasattr(estimator, method):
            call, turned = getattr(estimator, method), frame[frame.columns[::-1]]
            if method == "partial_fit" and takes_counts_only(estimator):
                continue  # its columns go by their names
            check_refuses(call, turned, "names should match")


@every_method(*EVALUATIONS, among=FIRST)
def test_estimator_must_be_fitted_first(estimator, method, rows):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(estimator, method)(rows)


@every_kind()
@pytest.mark.parametrize(
    "name",
    [
        "components_",
        "topic_word_distr_",
        "n_active_components_",
        "elbo_",
        "log_predictive_",
    ],
)
def test_fitted_attributes_do_not_exist_before_fit(estimator, name):
    with pytest.raises(AttributeError):
        getattr(estimator, name)


# -- negative controls -----------------------------------------------------------------


class AcceptsAnything(HDP):
    """Repairs what it should refuse."""

    def fit(self, X, y=None):
        return self


class RefusesWithoutReason(HDP):
    def fit(self, X, y=None):
        raise ValueError("Something is wrong.")


class Crashes(HDP):
    def fit(self, X, y=None):
        raise IndexError("index 999 is out of bounds")


class LooksFirst(HDP):
    """Takes what has a shape, and asks then."""

    def transform(self, X):
        return super().transform(np.asarray(X))


class GoesRound(HDP):
    """Converts by itself."""

    def score(self, X, y=None):
        return float(np.sum(X != 0))


@pytest.mark.parametrize(
    ("wrong", "method"), [(LooksFirst, "transform"), (GoesRound, "score")]
)
def test_check_fails_on_a_method_that_does_not_ask_first(wrong, method, counts):
    estimator = wrong(4, max_iter=1, random_state=0).fit(counts)
    check_asks_first(estimator, "fit")
    with pytest.raises((pytest.fail.Exception, AssertionError)):
        check_asks_first(estimator, method)


def test_all_methods_that_read_documents_are_known():
    assert {"fit", "fit_transform", "partial_fit", "score"} <= set(readers(HDP()))
    assert "merge_components" not in readers(HDP())
    for estimator in FIRST.values():
        assert {n for n in EVALUATIONS if hasattr(estimator, n)} <= set(
            readers(estimator)
        )


@pytest.mark.parametrize("wrong", [AcceptsAnything, RefusesWithoutReason, Crashes])
def test_check_fails_on_an_estimator_that_does_not_refuse(wrong, counts):
    for bad in (VALUES | KINDS).values():
        with pytest.raises((pytest.fail.Exception, AssertionError, IndexError)):
            check_refuses(wrong().fit, bad.spoil(counts.copy()), bad.says)


def test_check_does_not_call_an_estimator_that_would_crash(counts):
    called = []
    with pytest.raises(pytest.fail.Exception):
        check_refuses_structure(called.append, counts, "index")
    assert not called


def test_check_of_structure_accepts_a_sound_matrix(counts):
    check_before_conversion(counts)


def test_the_list_of_estimators_is_not_empty():
    assert len(INSTANCES) > len(FIRST) > len(DOORS) >= 2
    assert {"check_documents", "check_rows"} <= {*CHECKS}
