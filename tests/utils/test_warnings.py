"""Warnings point at the line that called, through whatever stands between."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skbnp import HDP, GibbsHDP, StickBreakingHDP
from skbnp.datasets import make_bars

X = np.tile([[3.0, 1.0, 0.0], [0.0, 2.0, 4.0]], (5, 1))
BATCH = StickBreakingHDP(3, 2, learning_method="batch", max_iter=2, random_state=0)
CASES = {
    "one document": (BATCH, X[:1], UserWarning, "say nothing"),
    "few documents": (BATCH, X, ConvergenceWarning, "few documents"),
    "small weights": (BATCH, X / 100, UserWarning, "stand for tokens"),
    "passes": (BATCH, X, ConvergenceWarning, "Increase max_iter"),
    "trials": (HDP(3, max_iter=1), np.tile(X, (9, 1)), ConvergenceWarning, "trials"),
    "tokens": (GibbsHDP(3, max_iter=2), X + 0.4, DataConversionWarning, "rounded"),
}


@pytest.mark.parametrize(
    "call",
    [
        lambda estimator, X: estimator.fit(X),
        lambda estimator, X: estimator.fit_transform(X),
        lambda estimator, X: make_pipeline(FunctionTransformer(), estimator).fit(X),
    ],
    ids=["fit", "fit_transform", "pipeline"],
)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_warning_points_at_the_caller(case, call):
    estimator, documents, category, text = case
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(estimator, documents)
    result = [w for w in caught if w.category is category and text in str(w.message)]
    assert [w.filename for w in result] == [__file__]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_search_warns_once_and_points_at_its_caller(n_jobs):
    X = make_bars(60, random_state=0).data
    grid = {"max_iter": [1, 2]}

    def search():
        return GridSearchCV(HDP(3), grid, cv=2, n_jobs=n_jobs)

    for call in (lambda: search().fit(X), lambda: cross_validate(search(), X, cv=2)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert {w.filename for w in caught} == {__file__}
        few, no_time = (str(w.message) for w in caught)  # of both kinds one
        assert "few documents" in few
        assert "no time for further trials" in no_time


def test_fits_outside_of_a_search_warn_each_time():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            HDP(3, max_iter=1).fit(np.tile(X, (9, 1)))
    times = [w for w in caught if "no time for further trials" in str(w.message)]
    assert len(times) == 2
