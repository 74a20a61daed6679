"""Warnings point at the line that called, through whatever stands between."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skbnp import HDP, GibbsHDP, StickBreakingHDP

X = np.tile([[3.0, 1.0, 0.0], [0.0, 2.0, 4.0]], (5, 1))
BATCH = StickBreakingHDP(3, 2, learning_method="batch", max_iter=2, random_state=0)
CASES = {
    "few documents": (BATCH, X[:1], UserWarning, "say nothing"),
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
    found = [w for w in caught if w.category is category and text in str(w.message)]
    assert [w.filename for w in found] == [__file__]
