"""Fixtures of the checks."""

import pickle

import pytest
from sklearn.base import clone

from checks.corpora import topic_counts

_FITTED = {}


@pytest.fixture
def estimator(request):
    """Clone an instance of the list, see `checks.estimators`."""
    return clone(request.param)


@pytest.fixture
def fitted(estimator):
    """Return the estimator, fitted to what `counts` holds; yours to change."""
    key = repr(estimator.get_params())
    if key not in _FITTED:
        _FITTED[key] = pickle.dumps(clone(estimator).fit(topic_counts(60, 24)))
    return pickle.loads(_FITTED[key])
