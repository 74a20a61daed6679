"""Bad input is refused by every method, with a message that says what is wrong."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from checks.bad_input import (
    CORRUPT,
    KINDS,
    VALUES,
    check_refuses,
    check_refuses_structure,
)
from checks.estimators import (
    EVALUATIONS,
    INSTANCES,
    every_estimator,
    every_method,
    takes_counts_only,
)
from skbnp import HDP
from skbnp.utils.validation import check_before_conversion

LEARNING = ("fit", "partial_fit")
#: `elbo` is the sum of `elbo_terms`.
READING = tuple(name for name in EVALUATIONS if name != "elbo_terms")


def each(bad):
    return pytest.mark.parametrize("bad", bad.values(), ids=bad.keys())


def only(signed):
    """Bad inputs that estimators of counts alone refuse, or all the others."""
    return each({n: b for n, b in VALUES.items() if b.signed_only is signed})


@every_method(*LEARNING, *READING, wanted=takes_counts_only)
@only(signed=True)
def test_negative_counts_are_refused(fitted, method, bad, counts):
    check_refuses(getattr(fitted, method), bad.spoil(counts), bad.says)


@every_method(*LEARNING, *READING)
@only(signed=False)
def test_values_that_are_not_finite_are_refused(fitted, method, bad, counts):
    check_refuses(getattr(fitted, method), bad.spoil(counts), bad.says)


@every_method(*LEARNING, *READING)
@each(KINDS)
def test_what_is_no_table_of_numbers_is_refused(fitted, method, bad, counts):
    check_refuses(getattr(fitted, method), bad.spoil(counts), bad.says)


@every_method(*LEARNING)
@each(KINDS)
def test_what_is_no_table_of_numbers_is_refused_at_first(
    estimator, method, bad, counts
):
    check_refuses(getattr(estimator, method), bad.spoil(counts), bad.says)


@each(CORRUPT)
def test_corrupt_index_arrays_are_found_before_any_conversion(bad, counts):
    check_refuses(check_before_conversion, bad.spoil(counts), bad.says)


@every_method("fit", "partial_fit", "transform", "score")
@each(CORRUPT)
def test_corrupt_index_arrays_are_refused(fitted, method, bad, counts):
    check_refuses_structure(getattr(fitted, method), bad.spoil(counts), bad.says)


@every_method("partial_fit", *EVALUATIONS)
@pytest.mark.parametrize("width", [1, 23, 25])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_another_vocabulary_is_refused(fitted, method, width, kind, counts):
    columns = np.arange(width) % counts.shape[1]
    X = counts[:, columns]
    with pytest.raises(
        ValueError, match=f"X has {width} features, but .* expecting 24"
    ):
        getattr(fitted, method)(X.toarray() if kind == "dense" else X)


@every_method("partial_fit", *EVALUATIONS)
def test_other_feature_names_are_refused(estimator, method, counts):
    frame = pd.DataFrame(counts.toarray()).rename(columns="w{}".format)
    call = getattr(estimator.fit(frame), method)
    check_refuses(call, frame[frame.columns[::-1]], "feature names should match")


@every_method(*EVALUATIONS)
def test_estimator_must_be_fitted_first(estimator, method, counts):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(estimator, method)(counts)


@every_estimator()
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


@each(VALUES | KINDS)
@pytest.mark.parametrize("wrong", [AcceptsAnything, RefusesWithoutReason, Crashes])
def test_check_fails_on_an_estimator_that_does_not_refuse(wrong, bad, counts):
    with pytest.raises((pytest.fail.Exception, AssertionError, IndexError)):
        check_refuses(wrong().fit, bad.spoil(counts), bad.says)


def test_check_does_not_call_an_estimator_that_would_crash(counts):
    called = []
    with pytest.raises(pytest.fail.Exception):
        check_refuses_structure(called.append, counts, "index")
    assert not called


def test_check_of_structure_accepts_a_sound_matrix(counts):
    check_before_conversion(counts)


def test_the_list_of_estimators_is_not_empty():
    assert len(INSTANCES) >= 2
