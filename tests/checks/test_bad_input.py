"""Bad input is refused by every method, with a message that says what is wrong.

Every method hands its rows to one function, `check_documents` if they are counts. So
each bad matrix is tried on one estimator of each such door, one on each method, and
each method is seen to ask. All matrices are one test, which names the one that fails.
"""

from contextlib import ExitStack
from functools import partial
from inspect import isfunction, signature
from unittest import mock

import pytest
from sklearn.exceptions import NotFittedError

from checks.bad_input import (
    CORRUPT,
    KINDS,
    VALUES,
    check_refuses,
    check_refuses_structure,
    message,
)
from checks.estimators import (
    DOORS,
    EVALUATIONS,
    FIRST,
    LEARNING,
    door_of,
    every_estimator,
    every_method,
    instance,
    readers,
    takes_counts_only,
    takes_sparse,
)
from checks.failures import of_case
from skbnp.utils import validation

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
    """Raise unless the method does nothing with X before its door has it."""
    X, seen = object(), []
    defines = method.startswith("fit") or not estimator.__sklearn_is_fitted__()

    def door(check, who, given, *, reset, **others):
        seen.append((check, who is estimator, given is X, reset))
        raise Asked

    with ExitStack() as patches:
        for check in CHECKS:
            asked = partial(door, check)
            patches.enter_context(mock.patch.object(validation, check, asked))
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


@every_estimator(takes_sparse, among=DOORS)
def test_corrupt_index_arrays_are_refused(estimator, counts):
    for name, bad in CORRUPT.items():
        with of_case(name):
            check_refuses_structure(estimator.fit, bad.spoil(counts.copy()), bad.says)


@every_method(*EVALUATIONS, among=FIRST)
def test_estimator_must_be_fitted_first(estimator, method, rows):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(estimator, method)(rows)
