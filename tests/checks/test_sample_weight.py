"""A row of weight w counts as w copies of it, to the bit."""

import numpy as np
import pytest
from sklearn.base import clone

from checks.estimators import (
    DOORS,
    FEW,
    INSTANCES,
    LEARNING,
    OF_EACH_CLASS,
    every_estimator,
    instance,
    needs_two_columns,
)
from checks.states import assert_same, learned

WEIGHTS = np.arange(60) % 4


def check_counts_as_copies(estimator, method, X, weights=WEIGHTS, copies=WEIGHTS):
    weighted, copied = clone(estimator), clone(estimator)
    getattr(weighted, method)(X, sample_weight=weights)
    getattr(copied, method)(X[np.repeat(np.arange(60), copies)])
    assert_same(learned(copied), learned(weighted))


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        instance(name, e, method, daily=FEW)
        for name, e in INSTANCES.items()
        for method in LEARNING
        if method == "fit" or name in OF_EACH_CLASS
    ],
    indirect=["estimator"],
)
def test_a_row_counts_as_so_many_copies(estimator, method, rows):
    check_counts_as_copies(clone(estimator), method, rows)


@every_estimator(needs_two_columns)
def test_rows_of_epochs_count_as_copies(estimator, rows):
    labels = np.repeat(["a", "b", "c"], 20)
    weights = np.where(labels == "b", 0, WEIGHTS)
    copies = np.repeat(np.arange(60), weights)
    weighted = clone(estimator).fit(rows, epochs=labels, sample_weight=weights)
    copied = clone(estimator).fit(rows[copies], epochs=labels[copies])
    assert_same(learned(copied), learned(weighted))
    result = clone(estimator).fit_transform(rows, epochs=labels, sample_weight=weights)
    assert_same(result, weighted.transform(rows, epochs=labels))


WRONG = {
    "must be whole numbers.* got 0.5 for row 3.* Multiply": [1, 1, 1, 0.5] * 15,
    "Negative|negative": [1, 1, 1, -1] * 15,
    "at least one non-zero": np.zeros(60),
    "at most 2e.09 copies": np.full(60, 1e9),
    "inconsistent|shape": np.ones(59),
    "1D|1d": np.ones((60, 2)),
    "NaN": np.full(60, np.nan),
}


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        instance(name, e, message, daily=FEW)
        for name, e in OF_EACH_CLASS.items()
        for message in (WRONG if name in DOORS else [*WRONG][:1])
    ],
    indirect=["estimator"],
)
def test_what_is_no_number_of_copies_is_refused(estimator, rows, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(rows, sample_weight=WRONG[message])
    assert not hasattr(estimator, "n_features_in_")
