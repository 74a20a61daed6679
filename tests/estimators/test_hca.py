"""Hierarchical component analysis: what it learns, and what it says of rows."""

import copy
import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

from skbnp import HierarchicalComponentAnalysis
from skbnp.datasets import make_subspace_tree
from skbnp.estimators import TreeMoves
from skbnp.models.hca import local


@pytest.fixture(scope="module")
def drawn():
    return make_subspace_tree(600, random_state=5)


@pytest.fixture(scope="module")
def fitted(drawn):
    return HierarchicalComponentAnalysis(random_state=0).fit(drawn.data)


# What is learned ----------------------------------------------------------------------


@pytest.mark.long
def test_the_tree_is_found(fitted, drawn):
    assert fitted.converged_
    assert fitted.n_components_ == fitted.n_active_components_ == 13
    leaves = fitted.apply(drawn.data)
    assert adjusted_rand_score(drawn.target, leaves) > 0.9
    groups = [fitted.tree_.path(int(leaf))[1] for leaf in leaves]
    assert adjusted_rand_score(drawn.path[:, 1], groups) > 0.85
    assert_allclose(fitted.noise_variance_, 0.25, rtol=0.05)
    # Directions of the leaves are known up to those above.
    assert fitted.components_.shape == (13, 30)
    rows = np.arange(13)
    largest = np.abs(fitted.components_).argmax(axis=1)
    assert (fitted.components_[rows, largest] > 0.0).all()


@pytest.mark.long
def test_the_trace_tells_what_happened(fitted):
    history = fitted.history_
    assert len({len(values) for values in history.values()}) == 1
    assert history["n_components"][-1] == fitted.n_components_
    kinds = [entry.kind for entry in fitted.lineage_]
    assert kinds[0] == "init"
    assert history["n_splits"][-1] == kinds.count("split")
    assert history["n_merges"][-1] == kinds.count("merge")
    bounds = np.array(history["elbo"])
    bounds = bounds[np.isfinite(bounds)]
    assert np.diff(bounds).min() > -1e-9 * abs(bounds[-1])
    assert fitted.elbo_ == bounds[-1]


def test_bound_of_the_training_data_is_that_of_the_fit(fitted, drawn):
    """The last update follows the last visit: it may only be higher."""
    terms = fitted.elbo_terms(drawn.data)
    assert_allclose(sum(terms.values()), fitted.elbo(drawn.data))
    assert fitted.elbo_ <= fitted.elbo(drawn.data) < fitted.elbo_ + 1e-3


def test_messages_speak_of_nodes_and_rows(drawn, capsys):
    hca = HierarchicalComponentAnalysis(verbose=1, max_iter=2, tol=0.0)
    hca.fit(drawn.data)
    told = capsys.readouterr().out
    assert "learns from 600 rows of 30 features" in told
    assert re.search(r"pass 2: \d+ nodes, -\d+\.\d+ nats per row, ", told)
    assert "topics" not in told
    assert "token" not in told


def test_limits_hold(drawn):
    for limit in (1, 4, 7):
        hca = HierarchicalComponentAnalysis(max_components=limit, random_state=0)
        assert hca.fit(drawn.data).n_components_ <= max(limit, 3)


def test_without_moves_the_path_stays(drawn):
    hca = HierarchicalComponentAnalysis(structure_moves=False).fit(drawn.data)
    assert hca.tree_.parent.tolist() == [-1, 0, 1]
    assert len(hca.lineage_) == 1


@pytest.mark.parametrize("name", ["grow", "merge"])
def test_moves_of_topics_are_refused(name, drawn):
    moves = TreeMoves(**{name: {"grow": "neutral", "merge": "cosine"}[name]})
    hca = HierarchicalComponentAnalysis(structure_moves=moves)
    with pytest.raises(ValueError, match=rf"structure_moves\.{name}"):
        hca.fit(drawn.data)


def test_too_few_passes_are_told(drawn):
    hca = HierarchicalComponentAnalysis(max_iter=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        hca.fit(drawn.data)
    assert hca.n_iter_ == 2


def test_one_path_without_noise_is_pca(seed):
    """Reconstruction by one path is that of PCA with as many components."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(800, 4)) @ rng.normal(size=(4, 10)) * 3.0 + 5.0
    X += 0.3 * rng.normal(size=X.shape)
    hca = HierarchicalComponentAnalysis(3, structure_moves=False, tol=1e-9).fit(X)
    pca = PCA(3).fit(X)
    ours = hca.inverse_transform(hca.transform(X))
    theirs = pca.inverse_transform(pca.transform(X))
    assert_allclose(((X - ours) ** 2).sum(), ((X - theirs) ** 2).sum(), rtol=1e-4)
    assert_allclose(hca.score(X), pca.score(X), rtol=1e-3)


@pytest.mark.long
def test_scale_of_loadings_can_be_learned(drawn):
    """Data of another unit need not be scaled then, but for the prior of the noise."""
    found = [
        HierarchicalComponentAnalysis(loading_variance="auto", random_state=0).fit(
            factor * drawn.data
        )
        for factor in (1.0, 1000.0)
    ]
    assert [hca.n_components_ for hca in found] == [13, 13]
    one, other = (hca.loading_variance_ for hca in found)
    assert_allclose(other / one, 1e6, rtol=0.05)
    assert 4.0 < one < 14.0  # directions were drawn with variance 9


def test_offsets_change_nothing(drawn):
    X = drawn.data
    hca = HierarchicalComponentAnalysis(max_components=7, random_state=0)
    one, other = clone(hca).fit(X), clone(hca).fit(X + 1e7)
    assert one.tree_.parent.tolist() == other.tree_.parent.tolist()
    assert_allclose(other.mean_ - 1e7, one.mean_, atol=1e-4)
    assert_allclose(other.score(X + 1e7), one.score(X), rtol=1e-5)


# What goes on -------------------------------------------------------------------------


@pytest.mark.parametrize("moves", [True, False])
def test_what_is_learned_is_laid_out_as_files_must_be(moves, drawn):
    """A copy, as callbacks get it, keeps the layout that a file is checked for."""
    hca = HierarchicalComponentAnalysis(structure_moves=moves, max_iter=3, tol=0.0)
    hca.fit(drawn.data[:100])
    other = HierarchicalComponentAnalysis()
    other.__setstate__(copy.deepcopy(hca).__getstate__())
    assert_array_equal(other.components_, hca.components_)
    hca.partial_fit(drawn.data[100:200])
    other.__setstate__(copy.deepcopy(hca).__getstate__())


@pytest.mark.parametrize("n_calls", [1, 2, 40])
def test_an_interrupt_leaves_the_last_complete_update(n_calls, drawn, monkeypatch):
    """Whenever it comes: in passes, in trials of moves, before the first update."""
    visit, calls = local._visit, []

    def interrupted(*args, **options):
        calls.append(args)
        if len(calls) == n_calls:
            raise KeyboardInterrupt
        return visit(*args, **options)

    hca = HierarchicalComponentAnalysis(max_components=7, random_state=0)
    with monkeypatch.context() as patch:
        patch.setattr(local, "_visit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            hca.fit(drawn.data)
    assert np.isfinite(hca.elbo_)
    assert len(hca.history_["step"]) == len(hca.history_["elbo"])
    assert hca.transform(drawn.data).shape == (600, hca.n_components_)
    totals, tree = hca._posterior.totals, hca._posterior.state.tree
    assert len(totals.stub_masses) == len(tree) == hca.n_components_
    assert_array_equal(hca.component_ids_, tree.ids)
    if n_calls > 1:
        assert_allclose(totals.stub_masses.sum(), 600.0)
    bound = hca.elbo(drawn.data)
    hca.set_params(warm_start=True, max_iter=2).fit(drawn.data)
    assert hca.elbo_ > bound - 1e-9 * abs(bound)


def test_damaged_files_are_refused(fitted):
    state = fitted.__getstate__()
    state["_posterior"]["__holds__"]["ids"] = np.arange(13)
    with pytest.raises(ValueError, match="damaged"):
        HierarchicalComponentAnalysis().__setstate__(state)


@pytest.mark.long
def test_a_warm_start_goes_on(drawn):
    hca = HierarchicalComponentAnalysis(random_state=0, max_iter=5, warm_start=True)
    with pytest.warns(ConvergenceWarning):
        hca.fit(drawn.data)
    n_steps, bound = len(hca.history_["step"]), hca.elbo_
    hca.set_params(max_iter=100).fit(drawn.data)
    assert len(hca.history_["step"]) > n_steps
    assert hca.elbo_ > bound
    with pytest.raises(ValueError, match="max_depth=2, but the tree"):
        hca.set_params(max_depth=2).fit(drawn.data)


# What is said of rows -----------------------------------------------------------------


def test_coordinates_are_on_one_path(fitted, drawn):
    X = drawn.data
    coordinates, paths = fitted.transform(X), fitted.decision_path(X)
    assert ((coordinates != 0) <= (paths.toarray() > 0)).all()
    assert (paths.sum(axis=1) == 3).all()
    assert_array_equal(paths[np.arange(len(X)), fitted.apply(X)], 1)
    # They are least squares: the rest is orthogonal to the directions of the path.
    rest = X - fitted.inverse_transform(coordinates)
    products = (rest @ fitted.components_.T)[paths.toarray() > 0]
    assert np.abs(products).max() < 1e-8


def test_output_is_sparse_on_request(fitted, drawn):
    other = copy.deepcopy(fitted).set_params(sparse_output=True)
    sparse = other.transform(drawn.data)
    assert sp.issparse(sparse)
    assert sparse.nnz <= 3 * len(drawn.data)
    assert_allclose(sparse.toarray(), fitted.transform(drawn.data))
    assert_allclose(
        other.inverse_transform(sparse), fitted.inverse_transform(sparse.toarray())
    )
    with pytest.raises(ValueError, match=r"shape \(n_samples, 13\)"):
        fitted.inverse_transform(sparse[:, :5])


def test_paths_have_probabilities(fitted, drawn):
    distr = fitted.doc_paths(drawn.data)
    assert_allclose(distr.sum(axis=1), 1.0)
    assert_array_equal(
        np.asarray(distr.argmax(axis=1)).ravel(), fitted.apply(drawn.data)
    )


def test_densities_of_new_rows_favour_the_right_tree(fitted, drawn):
    new = make_subspace_tree(900, random_state=5).data[600:]
    path = HierarchicalComponentAnalysis(structure_moves=False).fit(drawn.data)
    assert fitted.score(new) > path.score(new) + 5.0
    assert_allclose(fitted.score(new), fitted.score_samples(new).mean())
    assert abs(fitted.score(new) - fitted.score(drawn.data)) < 1.5


def test_single_precision_is_kept(fitted, drawn):
    X = drawn.data.astype(np.float32)
    coordinates = fitted.transform(X)
    assert coordinates.dtype == np.float32
    assert fitted.inverse_transform(coordinates).dtype == np.float32
    assert_allclose(coordinates, fitted.transform(drawn.data), atol=1e-3)
    assert fitted.transform(drawn.data).dtype == np.float64


def test_sets_of_names_and_outputs(drawn):
    hca = HierarchicalComponentAnalysis(2, structure_moves=False).fit(drawn.data)
    names = ["hierarchicalcomponentanalysis0", "hierarchicalcomponentanalysis1"]
    assert hca.get_feature_names_out().tolist() == names


# What is refused ----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_sparse_rows_are_refused_with_a_sentence(method, drawn):
    hca = HierarchicalComponentAnalysis()
    with pytest.raises(TypeError, match=rf"{method} takes dense rows, got a sparse X"):
        getattr(hca, method)(sp.csr_array(drawn.data))
    with pytest.raises(NotFittedError):
        hca.transform(drawn.data)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e101])
@pytest.mark.parametrize("method", ["fit", "partial_fit", "transform", "score"])
def test_values_that_are_no_numbers_are_refused(value, method, drawn, fitted):
    X = drawn.data.copy()
    X[3, 4] = value
    hca = (
        fitted if method in ("transform", "score") else HierarchicalComponentAnalysis()
    )
    with pytest.raises(ValueError, match=r"NaN|infinity|below 1e\+100"):
        getattr(hca, method)(X)
    assert hasattr(hca, "n_features_in_") == (hca is fitted)


@pytest.mark.parametrize("bad", ["nan", "inf", "corrupt-csr", "timedelta"])
def test_bad_coordinates_are_refused(bad, fitted):
    X = np.zeros((5, 13))
    if bad == "corrupt-csr":
        X = sp.csr_array(X + 1.0)
        X.indices[3] = 10**6
    elif bad == "timedelta":
        X = X.astype("m8[s]")
    else:
        X[3, 4] = float(bad)
    with pytest.raises((ValueError, TypeError), match=r"NaN|infinity|index 10|dates"):
        fitted.inverse_transform(X)


def test_dates_are_refused():
    with pytest.raises(TypeError, match="must hold numbers, got dates"):
        HierarchicalComponentAnalysis().fit(np.zeros((3, 2), dtype="M8[D]"))


# Streams ------------------------------------------------------------------------------


@pytest.mark.long
def test_streams_find_the_tree():
    """Chunk by chunk, the tree grows and is put in order."""
    drawn = make_subspace_tree(900, random_state=6)
    hca = HierarchicalComponentAnalysis(
        max_components=24, random_state=0, batch_size=128
    )
    for chunk in np.array_split(drawn.data, 3):
        hca.partial_fit(chunk)
    assert hca.n_iter_ == 3
    assert 13 <= hca.n_components_ <= 16
    assert adjusted_rand_score(drawn.target, hca.apply(drawn.data)) > 0.9
    batch = HierarchicalComponentAnalysis(random_state=0).fit(drawn.data)
    assert hca.score(drawn.data) > batch.score(drawn.data) - 1.0


@pytest.mark.long
def test_first_rows_of_a_long_stream_do_not_ask_for_a_tree_of_their_noise(drawn):
    """They stand for many, but are no more than they are."""
    hca = HierarchicalComponentAnalysis(total_samples=100_000, random_state=0)
    hca.set_params(max_components=40).partial_fit(drawn.data[:300])
    assert 13 <= hca.n_components_ <= 16
    assert adjusted_rand_score(drawn.target, hca.apply(drawn.data)) > 0.9


# The paper's digits -------------------------------------------------------------------

#: Levels: nodes of the paper, then train and test errors to stay below.
TABLE_2 = {
    2: (9, 585.0, 610.0),
    3: (14, 465.0, 495.0),
    4: (18, 400.0, 435.0),
    5: (22, 350.0, 385.0),
}


@pytest.mark.long
@pytest.mark.parametrize("max_depth", [2, 5])
def test_digits_of_the_paper_are_reconstructed(max_depth, seed, data_folder):
    """Table 2 of Wang and Blei (2009), at their numbers of nodes.

    `benchmarks/papers/wang2009.py` has all depths and five seeds: each is below these
    errors.
    """
    digits = np.load(data_folder / "optdigits.npz")
    limit, *most = TABLE_2[max_depth]
    hca = HierarchicalComponentAnalysis(
        max_depth, max_components=limit, random_state=seed
    ).fit(digits["X_train"])
    assert hca.n_components_ <= limit
    for X, largest in zip((digits["X_train"], digits["X_test"]), most, strict=True):
        rest = X - hca.inverse_transform(hca.transform(X))
        assert np.sum(rest**2, axis=1).mean() <= largest
