"""Equal and short rows: a concentration that follows from them is named."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import skbnp.dask
from checks.long import daily
from skbnp import DependentTrees, GibbsDependentTrees
from skbnp.datasets import make_dependent_trees

ESTIMATORS = [
    DependentTrees(max_iter=12, random_state=0),
    GibbsDependentTrees(max_iter=12, random_state=0),
    skbnp.dask.DependentTrees(max_iter=12, random_state=0),
]
every_tree = pytest.mark.parametrize(
    "trees", ESTIMATORS, ids=["variational", "sampler", "dask"]
)


def blocks(n_tokens=5, n_words=15, n_rows=120, seed=0):
    """Counts of three disjoint vocabularies, as many rows of each."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n_rows, 3 * n_words))
    for row, counts in enumerate(X):
        words = rng.integers(0, n_words, n_tokens) + row % 3 * n_words
        np.add.at(counts, words, 1)
    return X


def messages_of(trees, X, method="fit"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(trees, method)(X)
    return [str(one.message) for one in caught if "was learned" in str(one.message)]


@every_tree
@pytest.mark.parametrize("method", daily(1, ["fit", "partial_fit"]))
def test_short_rows_are_named(trees, method):
    (message,) = messages_of(clone(trees), blocks(), method)
    assert "4 features" in message
    assert "set vmf_concentration=" in message


@pytest.mark.parametrize("seed", daily(1, range(2)))
def test_the_cure_that_is_named_leaves_few_nodes(seed):
    X = blocks(seed=seed)
    (message,) = messages_of(trees := DependentTrees(random_state=0), X)
    cure = float(message.split("set vmf_concentration=")[1].split()[0])
    cured = DependentTrees(vmf_concentration=cure, random_state=0)
    assert not messages_of(cured, X)
    assert 3 * cured.n_components_ < trees.n_components_


@every_tree
def test_copies_are_named(trees):
    X = make_dependent_trees(60, random_state=0).data
    assert not messages_of(clone(trees), X)
    (message,) = messages_of(clone(trees), np.vstack([X, X]))
    assert "50% of the rows" in message
    assert "Drop duplicates" in message


def test_no_false_alarm_on_topics_of_long_rows():
    """Planted directions of many features, and counts of a hundred words a row."""
    for n_features in (40, 400):
        drawn = make_dependent_trees(
            200,
            n_features=n_features,
            concentration=3.0 * n_features,
            prior_concentration=2.5 * n_features,
            random_state=0,
        )
        assert not messages_of(DependentTrees(random_state=0), drawn.data)
    assert not messages_of(DependentTrees(random_state=0), blocks(100, 60))
