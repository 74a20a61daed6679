"""Labels of time of trees over epochs: in fits, streams, copies and evaluation."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from checks.long import along_diagonal
from skbnp import DependentTrees, GibbsDependentTrees
from skbnp.callbacks import HeldOutMonitor
from skbnp.datasets import make_dependent_trees

CORPUS = make_dependent_trees(6, n_epochs=4, random_state=0)
ROWS, EPOCHS = CORPUS.data, CORPUS.epochs


@along_diagonal(
    ("method", "cls"),
    ["fit", "fit_transform", "partial_fit"],
    [DependentTrees, GibbsDependentTrees],
)
def test_labels_of_time_given_as_y_are_named(cls, method):
    trees = cls(max_iter=2, random_state=0)
    X, epochs = ROWS, EPOCHS
    with pytest.warns(UserWarning, match="y is ignored, and epochs is None"):
        getattr(trees, method)(X, epochs)
    assert len(trees.epochs_) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        getattr(clone(trees), method)(X, np.ones(len(X)))
        getattr(clone(trees), method)(X, epochs, epochs=epochs)
        trees.transform(X)  # one epoch


@pytest.mark.parametrize("cls", [DependentTrees, GibbsDependentTrees])
def test_ordered_labels_keep_their_order_in_streams_and_copies(cls):
    X, epochs = ROWS, EPOCHS
    months = np.array(["jan", "feb", "mar", "apr"])
    named = pd.Categorical(months[epochs], categories=months, ordered=True)
    numbers = cls(max_iter=3, random_state=0).fit(X, epochs=epochs)
    trees = clone(numbers).fit(X, epochs=named)
    assert list(trees.epochs_) == months.tolist()
    stream = clone(numbers)
    for number in range(4):
        rows = epochs == number
        stream.partial_fit(X[rows], epochs=named[rows])
    assert list(stream.epochs_) == months.tolist()
    for one in (trees, pickle.loads(pickle.dumps(stream))):
        with pytest.raises(ValueError, match="older than the open epoch, 'apr'"):
            one.partial_fit(X, epochs=named[[0] * len(X)])
    assert_array_equal(trees.components_, numbers.components_)
    assert_array_equal(trees.apply(X, named), numbers.apply(X, epochs))
    periods = pd.PeriodIndex((1990 + epochs).astype(str), freq="Y")
    years = clone(numbers).fit(X, epochs=periods)
    assert list(years.epochs_) == ["1990", "1991", "1992", "1993"]
    assert_array_equal(years.apply(X, periods), numbers.apply(X, epochs))


@pytest.mark.parametrize("cls", [DependentTrees, GibbsDependentTrees])
def test_rows_of_other_epochs_are_explained_with_a_warning(cls):
    X, epochs = ROWS, EPOCHS
    trees = cls(max_iter=3, random_state=0).fit(X, epochs=1990 + 10 * epochs)
    for method in ("transform", "apply", "score", "score_samples", "decision_path"):
        ask = getattr(trees, method)
        for epoch, by in ((1995, 1990), (2021, 2020), (None, 2020)):
            with pytest.warns(UserWarning, match=f"{by}") as caught:
                result = ask(X, epochs=epoch)
            assert len(caught) == 1
            wanted = ask(X, epochs=by)
            if sp.issparse(result):
                result, wanted = result.toarray(), wanted.toarray()
            assert_array_equal(result, wanted)
        with pytest.raises(ValueError, match="first fitted epoch, 1990"):
            ask(X, epochs=1989)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ask(X, epochs=1990 + 10 * epochs)


def test_time_stamps_are_named_and_take_seconds():
    rng = np.random.default_rng(0)
    X = sp.random_array((50, 5000), density=0.002, rng=rng, format="csr")
    trees = DependentTrees(random_state=0)
    with pytest.warns(UserWarning, match="50 distinct labels"):
        trees.fit(X, epochs=np.arange(50))
    # Two bounds to compare after one of other concentrations; 100 passes before.
    assert trees.n_iter_ <= 4 * 50


def test_a_monitor_scores_by_the_newest_tree_without_a_warning():
    trees = DependentTrees(max_iter=2, random_state=0)
    monitor = HeldOutMonitor(ROWS[EPOCHS == 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        trees.set_callbacks(monitor).fit(ROWS, epochs=EPOCHS)
        assert monitor.history_["score"][-1] == trees.score(ROWS[EPOCHS == 3], epochs=3)
