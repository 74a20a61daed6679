"""Fixtures of the checks."""

import pickle

import pytest
from sklearn.base import clone

from checks.corpora import topic_counts
from checks.estimators import takes_sparse

_FITTED = {}


@pytest.fixture
def estimator(request):
    """Clone an instance of the list, see `checks.estimators`."""
    return clone(request.param)


@pytest.fixture
def rows(estimator, counts):
    """Return `counts` as the estimator takes them."""
    return counts if takes_sparse(estimator) else counts.toarray()


@pytest.fixture
def fitted(estimator):
    """Return the estimator, fitted to what `rows` holds; yours to change."""
    key = type(estimator).__name__ + repr(estimator.get_params())
    if key not in _FITTED:
        X = topic_counts(60, 24)
        X = X if takes_sparse(estimator) else X.toarray()
        _FITTED[key] = pickle.dumps(clone(estimator).fit(X))
    return pickle.loads(_FITTED[key])
