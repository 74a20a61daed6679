"""Fixtures of the checks."""

import pickle

import pytest
from sklearn.base import clone

from checks.corpora import topic_counts
from checks.estimators import rows_of

_FITTED = {}


@pytest.fixture(autouse=True)
def soon_started(one_split):
    """All checks, but for what `checks` start as processes of their own."""


@pytest.fixture
def estimator(request):
    """Clone an instance of the list, see `checks.estimators`."""
    return clone(request.param)


@pytest.fixture
def rows(estimator, counts):
    """Return `counts` as the estimator takes rows; yours to change."""
    return rows_of(estimator, counts)


@pytest.fixture
def fitted(estimator):
    """Return the estimator, fitted to what `rows` holds; yours to change."""
    key = type(estimator).__name__ + repr(estimator.get_params())
    if key not in _FITTED:
        X = rows_of(estimator, topic_counts(60, 24))
        _FITTED[key] = pickle.dumps(clone(estimator).fit(X))
    return pickle.loads(_FITTED[key])
