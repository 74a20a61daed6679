"""Rows from trees of directions over epochs: shapes, laws of the draw, refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skbnp.datasets import make_dependent_trees
from skbnp.distributions import bessel_ratio

FEW = {"n_samples": 20, "n_epochs": 2, "n_features": 6, "branching": (2, 2)}


def test_truth_has_the_shapes():
    corpus = make_dependent_trees(**FEW, random_state=0)
    assert corpus.data.shape == (40, 6)
    assert_allclose(np.linalg.norm(corpus.data, axis=1), 1.0)
    assert_array_equal(corpus.epochs, np.repeat([0, 1], 20))
    assert corpus.target.max() < 7
    assert corpus.directions.shape == (2, 7, 6)
    assert_allclose(np.linalg.norm(corpus.directions, axis=2), 1.0)
    assert_array_equal(corpus.tree.parent, [-1, 0, 1, 1, 0, 4, 4])
    assert_allclose(corpus.tree.weight[0], 1.0)
    share = np.isin(corpus.target, [1, 2, 3]).mean()
    assert_allclose(corpus.tree.weight[1], share)
    assert "40 unit vectors of 6 features" in corpus.DESCR


def test_first_rows_of_an_epoch_do_not_depend_on_n_samples():
    few = make_dependent_trees(**FEW, random_state=0)
    more = make_dependent_trees(**{**FEW, "n_samples": 50}, random_state=0)
    assert_array_equal(few.directions, more.directions)
    for epoch in (0, 1):
        first = more.data[more.epochs == epoch][:20]
        assert_array_equal(few.data[few.epochs == epoch], first)


def test_rows_have_the_mean_length_around_their_direction(seed):
    """A cosine has a standard deviation below one: five errors of 4000."""
    corpus = make_dependent_trees(2000, n_epochs=2, n_features=8, random_state=seed)
    cosines = np.einsum(
        "ij,ij->i", corpus.data, corpus.directions[corpus.epochs, corpus.target]
    )
    expected = bessel_ratio(120.0, 8)
    error = cosines.std() / np.sqrt(len(cosines))
    assert abs(cosines.mean() - expected) < 5 * error
    assert abs(cosines.mean() - bessel_ratio(100.0, 8)) > 5 * error


def test_children_are_near_their_parents_and_their_past(seed):
    corpus = make_dependent_trees(
        1,
        n_epochs=2,
        n_features=8,
        branching=(2000,),
        past_weight=2.0,
        prior_concentration=20.0,
        random_state=seed,
    )
    root, children = corpus.directions[:, 0], corpus.directions[:, 1:]
    first = children[0] @ root[0]
    error = first.std() / np.sqrt(2000)
    assert abs(first.mean() - bessel_ratio(20.0, 8)) < 5 * error
    # Of the second epoch the mean direction is that of the natural parameter.
    natural = 20.0 * (root[1] + 2.0 * children[0])
    strength = np.linalg.norm(natural, axis=1)
    along = np.einsum("ij,ij->i", children[1], natural) / strength
    expected = bessel_ratio(strength, 8)
    assert abs((along - expected).mean()) < 5 * (along - expected).std() / np.sqrt(2000)
    assert abs((along - first).mean()) > 5 * error


def test_nodes_are_there_in_their_lifetimes():
    spans = np.array([[0, 3], [0, 1], [2, 3]])
    corpus = make_dependent_trees(
        40, n_epochs=4, branching=(2,), lifetimes=spans, random_state=0
    )
    for node, (first, last) in enumerate(spans):
        epochs = corpus.epochs[corpus.target == node]
        assert_array_equal(np.unique(epochs), np.arange(first, last + 1))
        lengths = np.linalg.norm(corpus.directions[:, node], axis=1)
        there = np.isin(np.arange(4), np.arange(first, last + 1))
        assert_allclose(lengths, there.astype(float))


@pytest.mark.parametrize(
    "lifetimes",
    [
        [[0, 1]],
        [[0, 1], [1, 0], [0, 1]],
        [[1, 1], [1, 1], [1, 1]],
        [[0, 1], [-1, 0], [0, 1]],
        [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]],
    ],
)
def test_lifetimes_must_be_those_of_a_tree(lifetimes):
    with pytest.raises(ValueError, match="lifetimes must hold"):
        make_dependent_trees(5, n_epochs=2, branching=(2,), lifetimes=lifetimes)


def test_branching_is_of_positive_numbers():
    with pytest.raises(ValueError, match="branching"):
        make_dependent_trees(branching=(0,))
