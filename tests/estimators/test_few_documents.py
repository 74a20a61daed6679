"""Fits to next to nothing: they succeed, with a warning."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from checks.estimators import INSTANCES
from skbnp import HDP

NAMES = ("HDP-online", "StickBreakingHDP-batch", "NestedCRP-batch", "GibbsHDP")
WARNING = "the topics of this fit say nothing"


@pytest.mark.parametrize("name", [*NAMES, "GibbsNestedCRP"])
def test_fit_to_nothing_warns(name):
    for X in (np.zeros((4, 6)), [[0, 2, 0, 1, 0, 3]]):
        estimator = clone(INSTANCES[name])
        with pytest.warns(UserWarning, match=WARNING) as caught:
            estimator.fit(X)
        assert caught[0].filename == __file__
        np.testing.assert_allclose(estimator.transform(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("name", NAMES)
def test_fit_to_documents_does_not_warn_of_their_number(name, counts):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "The bound|The log_predictive|max_iter=")
        clone(INSTANCES[name]).fit(counts).partial_fit(counts[:1])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_weights_that_are_no_counts_warn_and_name_the_cure(method, counts):
    weights = counts * 0.1
    with pytest.warns(UserWarning, match="tf-idf.*CountVectorizer"):
        getattr(HDP(3, max_iter=2), method)(weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        getattr(HDP(3, max_iter=2), method)(counts)
