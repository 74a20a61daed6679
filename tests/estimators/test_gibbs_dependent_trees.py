"""What `GibbsDependentTrees` promises beyond what all estimators do."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from checks.states import assert_same, learned
from skbnp import DependentTrees, GibbsDependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.models.dependent_slices import chain
from skbnp.models.dependent_trees import assignments
from skbnp.models.dependent_trees.local import log_gain


@pytest.fixture(scope="module")
def drawn():
    return make_dependent_trees(120, n_epochs=3, random_state=3)


@pytest.fixture(scope="module")
def _fitted(drawn):
    return quiet(GibbsDependentTrees(max_iter=12, thin=2, random_state=0), drawn)


@pytest.fixture
def fitted(_fitted):
    return copy.deepcopy(_fitted)


def quiet(trees, drawn, **more):
    """Fit few sweeps, of which halves need not agree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return trees.fit(drawn.data, epochs=drawn.epochs, **more)


def one_epoch(drawn, label=0):
    return drawn.data[drawn.epochs == label]


# -- what it finds ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_rows_of_a_planted_tree_end_with_their_like(seed):
    corpus = make_dependent_trees(160, random_state=seed)
    trees = quiet(GibbsDependentTrees(max_iter=60, random_state=0), corpus)
    assert adjusted_rand_score(corpus.target, trees.apply(corpus.data)) > 0.9
    assert trees.vmf_concentration_ == pytest.approx(120.0, rel=0.1)
    assert trees.tree_.max_depth >= 2


@pytest.mark.long
@pytest.mark.parametrize(("seed", "n_features"), [(0, 40), (1, 400)])
def test_planted_rows_are_predicted_as_by_the_variational_fit(seed, n_features):
    corpus = make_dependent_trees(
        400,
        n_features=n_features,
        concentration=3.0 * n_features,
        prior_concentration=2.5 * n_features,
        random_state=seed,
    )
    X, X_test = corpus.data[::2], corpus.data[1::2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        other = DependentTrees(random_state=0).fit(X)
        trees = GibbsDependentTrees(max_iter=200, random_state=0).fit(X)
    assert trees.score(X_test) > other.score(X_test) - 0.01 * abs(other.score(X_test))


@pytest.mark.long
def test_epochs_follow_each_other_and_nodes_keep_their_names(fitted, drawn):
    assert list(fitted.epochs_) == [0, 1, 2]
    assert [record.n_samples for record in fitted.epochs_.values()] == [120, 120, 120]
    names = [set(r.component_ids.tolist()) for r in fitted.epochs_.values()]
    assert len(names[0] & names[1]) > 5
    first = [record.first_step for record in fitted.epochs_.values()]
    assert first == [0, 12, 24]
    assert fitted.history_["epoch"] == [0] * 12 + [1] * 12 + [2] * 12
    directions = [r.components.toarray() for r in fitted.epochs_.values()]
    for one in directions:
        np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1.0, rtol=1e-3)
    shared = sorted(names[0] & names[1])
    rows = [
        [list(r.component_ids).index(n) for n in shared]
        for r in (fitted.epochs_[0], fitted.epochs_[1])
    ]
    cosines = (directions[0][rows[0]] * directions[1][rows[1]]).sum(axis=1)
    assert np.median(cosines) > 0.8


# -- samples ---------------------------------------------------------------------------


def test_samples_are_of_the_newest_epoch_after_burn_in(fitted):
    assert [s.step for s in fitted.samples_] == [32, 34, 36]
    assert [s.label for s in fitted.samples_] == [2, 2, 2]
    assert [s.step for s in fitted._kept] == [8, 10, 12, 20, 22, 24, 32, 34, 36]
    best = max(fitted.samples_, key=lambda s: s.log_joint)
    np.testing.assert_array_equal(fitted.component_ids_, best.component_ids)
    assert best.masses.sum() == 120
    shares = fitted.n_components_posterior_
    assert sum(shares.values()) == pytest.approx(1.0)


def test_densities_are_averaged_over_the_samples_of_an_epoch(fitted, drawn):
    for label in (0, 2):
        X = sp.csr_array(one_epoch(drawn, label)[:20].astype(np.float32))
        gains = [
            log_gain(sample.epoch.state, fitted._tree_priors(), X)
            for sample in fitted._kept
            if sample.label == label
        ]
        expected = logsumexp(gains, axis=0) - np.log(3)
        result = fitted.score_samples(X, epochs=label)
        np.testing.assert_allclose(result, expected, rtol=1e-6)
        assert np.ptp(gains, axis=0).max() > 1e-3
    later = fitted.score_samples(X, epochs=7)
    np.testing.assert_allclose(later, fitted.score_samples(X, epochs=2))


def test_densities_at_a_node_are_a_distribution(fitted):
    # In two dimensions, on a grid of the circle.
    rng = np.random.default_rng(0)
    angle = rng.vonmises(0.0, 4.0, 60)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trees = GibbsDependentTrees(max_iter=10, thin=2, random_state=0).fit(X)
    at = 2 * np.pi * np.arange(720) / 720
    grid = np.column_stack([np.cos(at), np.sin(at)])
    assert np.exp(trees.score_samples(grid)).mean() == pytest.approx(1.0, rel=1e-3)


# -- starts and going on ---------------------------------------------------------------


def test_start_is_that_of_dependent_trees(drawn, monkeypatch):
    """The clusters of which the rows then choose their nodes."""
    monkeypatch.setattr(assignments, "N_VISITS", 1)
    monkeypatch.setattr(assignments, "N_PASSES", 0)
    monkeypatch.setattr(assignments.records, "propose_removals", lambda *given: [])
    X = one_epoch(drawn)
    trees = GibbsDependentTrees(max_iter=1, random_state=0).fit(X)
    other = DependentTrees(max_iter=1, random_state=0, structure_moves=False).fit(X)
    assert trees.lineage_[0] == other.lineage_[0]
    few = GibbsDependentTrees(4, max_iter=1, random_state=0).fit(X)
    assert few.lineage_[0].children == (0, 1, 2, 3, 4)


@pytest.mark.long
def test_chunks_of_an_epoch_join_and_later_ones_close_it(drawn):
    trees = GibbsDependentTrees(max_iter=6, random_state=0)
    X = one_epoch(drawn)
    trees.partial_fit(X[:60], epochs=0).partial_fit(X[60:], epochs=0)
    assert trees.epochs_[0].n_samples == 120
    assert trees.samples_[0].masses.sum() == 120
    trees.partial_fit(one_epoch(drawn, 1), epochs=1)
    assert list(trees.epochs_) == [0, 1]
    assert trees.samples_[0].masses.sum() == 120
    assert trees.n_iter_ == 3
    with pytest.raises(ValueError, match="must not be older"):
        trees.partial_fit(X, epochs=0)
    other = pickle.loads(pickle.dumps(trees))
    assert_same(
        learned(other.partial_fit(one_epoch(drawn, 2), epochs=2)),
        learned(trees.partial_fit(one_epoch(drawn, 2), epochs=2)),
    )


def test_rows_that_are_gone_keep_their_nodes(drawn):
    trees = GibbsDependentTrees(max_iter=4, random_state=0)
    X = one_epoch(drawn)
    masses = dict(
        zip(
            trees.partial_fit(X[:80]).component_ids_.tolist(),
            trees.samples_[0].masses.tolist(),
            strict=True,
        )
    )
    trees.partial_fit(X[80:90])
    (sample,) = trees.samples_
    after = dict(
        zip(sample.component_ids.tolist(), sample.masses.tolist(), strict=True)
    )
    assert all(after[name] >= n for name, n in masses.items() if n)


@pytest.mark.long
def test_past_weight_is_learned():
    """From one in the second epoch; a number that is given stays."""
    corpus = make_dependent_trees(
        200, n_epochs=3, branching=(8,), past_weight=4.0, random_state=1
    )
    trees = GibbsDependentTrees(max_iter=15, random_state=0)
    quiet(trees, corpus)
    weights = np.array(trees.history_["past_weight"])
    assert (weights[:15] == 1.0).all()
    assert trees.past_weight_ in weights[30:]
    assert weights[30:].mean() == pytest.approx(4.0, rel=0.4)
    quiet(trees.set_params(past_weight=2.0), corpus)
    assert set(trees.history_["past_weight"]) == {2.0}
    assert trees.past_weight_ == 2.0


def with_an_empty_epoch(drawn):
    X = np.vstack([one_epoch(drawn)[:40], np.zeros((3, 40)), one_epoch(drawn, 2)[:40]])
    return X, np.repeat([0, 1, 2], [40, 3, 40])


def test_an_interrupt_after_an_epoch_without_rows_leaves_the_last_sweep(
    drawn, monkeypatch
):
    """What the first sweep of an epoch writes is not what the one before has left."""
    X, epochs = with_an_empty_epoch(drawn)
    alone = GibbsDependentTrees(max_iter=3, random_state=0).fit(X[:40])
    change = chain.SliceChain._change_tree

    def interrupted(slices):
        change(slices)
        if slices.opened.closed:
            raise KeyboardInterrupt

    monkeypatch.setattr(chain.SliceChain, "_change_tree", interrupted)
    trees = GibbsDependentTrees(max_iter=3, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        trees.fit(X, epochs=epochs)
    assert list(trees.epochs_) == [0]
    (last,), (result,) = alone._last, trees._last
    np.testing.assert_array_equal(result.tree.ids, last.tree.ids)
    np.testing.assert_array_equal(
        result.directions.gathered(), last.directions.gathered()
    )
