"""What topic trees promise, whichever algorithm learns them."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from checks.long import along_diagonal, daily
from checks.states import learned
from skbnp import GibbsNestedCRP, NestedCRP, NestedHDP
from skbnp.datasets import make_tree
from skbnp.inspection import TopicTreeDisplay

#: Each class, and a fit of a moment.
TREES = {
    "variational": NestedCRP(structure_moves=False, max_iter=1, tol=0, random_state=0),
    "gibbs": GibbsNestedCRP(init="sequential", max_iter=2, random_state=0),
}

each = pytest.mark.parametrize("crp", TREES.values(), ids=TREES)
each_prior = pytest.mark.parametrize("name", ["level_prior", "topic_word_prior"])


@pytest.fixture(scope="module")
def docs():
    return make_tree(40, random_state=2).data


def start(X):
    return GibbsNestedCRP(init="sequential", max_iter=2, random_state=0).fit(X)


@each
def test_start_survives_a_clone_when_it_is_frozen(crp, docs):
    crp = clone(crp).set_params(init=FrozenEstimator(start(docs)))
    search = GridSearchCV(crp, {"topic_word_prior": [0.05, 0.2]}, cv=2)
    assert np.isfinite(search.fit(docs).best_score_)


@each
@each_prior
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ((1.0, 1.0), "one for each of max_depth=3 levels, got 2"),
        ([], "one for each of max_depth=3 levels, got 0"),
        ((1.0, np.nan, 1.0), "at each level"),
        (np.ones((3, 3)), "at each level"),
        (1e11, "at each level"),
    ],
)
def test_priors_must_be_one_or_one_for_each_level(crp, name, value, says, docs):
    crp = clone(crp).set_params(**{name: value})
    for method in (crp.fit, crp.partial_fit):
        with pytest.raises(ValueError, match=f"{name} must .*{says}"):
            method(docs)
    assert learned(crp) == {}


@each
@along_diagonal(
    ("name", "value"),
    ["level_prior", "topic_word_prior", "level_prior"],
    [2, [2, 2, 2], np.full(3, 2)],
)
def test_priors_may_be_numbers_or_sequences(crp, name, value, docs):
    crp = clone(crp).set_params(init=start(docs), learn_priors=False)
    crp.set_params(**{name: value}).fit(docs)
    np.testing.assert_array_equal(getattr(crp, f"{name}_"), np.broadcast_to(2.0, 3))


# What is shown ------------------------------------------------------------------------

#: Fits of a moment that leave nodes with one child, and nodes that few tokens use.
SHOWN = {
    "variational": NestedCRP(init="sequential", max_iter=5, tol=0),
    "gibbs": GibbsNestedCRP(max_iter=5),
    "mixed": NestedHDP(max_depth=4, max_iter=5, tol=0),
}


def lines_below(text):
    """Lines of a tree directly below each line of it."""
    depth = [line.count("|") for line in text.split("\n")]
    below, above = np.zeros(len(depth), dtype=int), []
    for line, level in enumerate(depth):
        above = [*above[:level], line]
        below[above[-2:-1]] += 1
    return below


@pytest.mark.parametrize("name", daily(1, SHOWN))
@pytest.mark.parametrize("random_state", daily(1, [1, 2, 3, 4]))
def test_no_only_child_and_no_empty_node_is_shown(name, random_state):
    X = make_tree(60, random_state=random_state).data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        crp = clone(SHOWN[name]).set_params(random_state=random_state).fit(X)
    tree, tokens = crp.tree_, crp.topic_weights_ * X.sum()
    assert not (lines_below(tree.to_text(max_leaves=None)) == 1).any()
    nodes = TopicTreeDisplay.from_estimator(crp).plot(max_leaves=None).nodes_
    plt.close("all")
    shown = set(nodes.tolist())
    for node in shown:
        other = [i for i in shown if i != node and node in tree.path(i)]
        assert len(other) != 1
    is_leaf = ~np.isin(np.arange(tree.n_nodes), tree.parent)
    assert (tokens[is_leaf & tree.in_use] >= 1.0).all()
    assert tree.in_use[[node for node in shown if is_leaf[node]]].all()
