"""Rows of other units and of outlying length: fits in proper scales, and warnings."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from checks.corpora import topic_counts
from checks.estimators import INSTANCES
from checks.long import daily
from skbnp import HDP, GibbsHDP, NestedCRP, NestedHDP, StickBreakingHDP
from skbnp.dask import HDP as DaskHDP

COUNTS = topic_counts(60, 30, length=150.0)
FITTED = {
    "HDP": HDP(8, split_merge=False, max_iter=4, random_state=0),
    "GibbsHDP": GibbsHDP(max_iter=4, random_state=0),
    "StickBreakingHDP": StickBreakingHDP(8, max_iter=4, random_state=0),
    "NestedCRP": NestedCRP(max_iter=4, random_state=0),
}
UNIT, LONG, ALONE = "values in X are multiples", "Row 60 of X holds", "connect no two"


@pytest.fixture(params=daily(2, FITTED))
def estimator(request):
    return clone(FITTED[request.param])


def long_row(n_tokens):
    own = np.zeros(30)
    own[:5] = n_tokens / 5.0
    return sp.csr_array(sp.vstack([COUNTS, own[None]]))


def messages(fit, X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(X)
    return " ".join(str(warning.message) for warning in caught)


@pytest.mark.parametrize("scale", ["times ten", "per million"])
def test_topics_do_not_depend_on_the_unit_of_counts(estimator, scale):
    X = 10.0 * COUNTS
    if scale == "per million":
        X = COUNTS.multiply(1e6 / COUNTS.sum(axis=1)[:, None]).tocsr()
    expected = clone(estimator).fit(COUNTS).components_
    assert UNIT in messages(estimator.fit, X)
    np.testing.assert_array_equal(estimator.components_, expected)
    other = clone(estimator).partial_fit(COUNTS).components_
    estimator = clone(estimator)
    assert UNIT in messages(estimator.partial_fit, X)
    np.testing.assert_array_equal(estimator.components_, other)
    assert UNIT in messages(estimator.partial_fit, X)


def test_no_row_outweighs_all_others(estimator):
    X = long_row(1e6)
    assert LONG in messages(estimator.fit, X)
    estimator = clone(estimator).partial_fit(COUNTS)
    assert LONG in messages(estimator.partial_fit, X)
    row = np.ones(61, int)
    row[60] = 3
    assert LONG in messages(lambda X: clone(estimator).fit(X, sample_weight=row), X)
    assert "Row" not in messages(clone(estimator).fit, long_row(500.0))


@pytest.mark.parametrize("n_tokens", daily(1, [1e6, 1e4]))
@pytest.mark.parametrize(
    "estimator",
    [
        HDP(random_state=0),
        HDP(variational_family="mean_field", random_state=0),
        NestedHDP(random_state=0),
    ],
    ids=["collapsed", "mean_field", "nested"],
)
def test_a_long_row_leaves_the_topics_of_all_others(estimator, n_tokens):
    r = np.random.default_rng(2)
    topics = r.dirichlet(np.full(60, 0.15), 5)
    shares = r.dirichlet(np.full(4, 0.6), 120)
    X = np.array([r.multinomial(250, share @ topics[:4]) for share in shares])
    row = r.multinomial(int(n_tokens), 0.9 * topics[4] + 0.1 * topics[0])
    with pytest.warns(UserWarning, match="Row 120 of X"):
        found = clone(estimator).fit(np.vstack([X, row])).topic_word_distr_
    norms = np.linalg.norm(found, axis=1)[:, None] * np.linalg.norm(topics, axis=1)
    assert ((found @ topics.T) / norms).max(axis=0)[:4].min() > 0.9
    assert len(found) <= 10


@pytest.mark.parametrize("name", ["HDP-online", "NestedCRP-batch", "GibbsHDP"])
def test_columns_of_one_document_are_warned_of(name):
    own = np.kron(np.eye(30), np.ones((1, 4)))
    assert "100% of the tokens" in messages(clone(INSTANCES[name]).fit, own)
    assert ALONE not in messages(clone(INSTANCES[name]).fit, COUNTS)
    estimator = clone(INSTANCES[name])
    if hasattr(estimator, "partial_fit"):
        assert ALONE in messages(estimator.partial_fit, own)


def test_blocks_on_a_cluster_are_warned_of():
    hdp = DaskHDP(8, split_merge=False, max_iter=2, random_state=0)
    assert LONG in messages(hdp.fit, long_row(1e6))
    assert UNIT in messages(clone(hdp).fit, 10.0 * COUNTS)
    own = sp.csr_array(np.kron(np.eye(30), np.ones((1, 4))))
    assert ALONE in messages(clone(hdp).fit, own)


def test_shares_of_no_unit_are_warned_of_unless_they_are_percentages():
    rates = COUNTS.toarray() * np.random.default_rng(0).gamma(2.0, size=30)
    shares, hdp = rates / rates.sum(axis=1, keepdims=True), clone(FITTED["HDP"])
    assert "All rows of X sum to 1e+06" in messages(hdp.fit, 1e6 * shares)
    assert "All rows" not in messages(hdp.fit, 100.0 * shares)
