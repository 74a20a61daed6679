"""Dependent trees: what they learn epoch by epoch, and what they say of rows."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from checks.long import daily
from checks.states import assert_same, snapshot
from skbnp import DependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.estimators import EpochMoves
from skbnp.inference.executor import Executor
from skbnp.models.dependent_trees import structure

#: Planted: root, 3, 6; the last node begins in epoch 2, another ends after epoch 1.
LIFETIMES = np.tile([0, 3], (10, 1))
LIFETIMES[9, 0], LIFETIMES[6, 1] = 2, 1


@pytest.fixture(scope="module")
def drawn():
    return make_dependent_trees(
        300,
        n_epochs=4,
        lifetimes=LIFETIMES,
        random_state=3,
    )


@pytest.fixture(scope="module")
def _fitted(drawn):
    return DependentTrees(random_state=0).fit(drawn.data, epochs=drawn.epochs)


@pytest.fixture
def fitted(_fitted):
    return copy.deepcopy(_fitted)


def quick(**changes):
    """An estimator with few passes and births, where the tree itself is not asked."""
    moves = EpochMoves(max_births=1, birth_rounds=2)
    few = {"structure_moves": moves, "max_iter": 3, "tol": 0.0, "random_state": 0}
    return DependentTrees(**few | changes)


def small(drawn, n=60):
    """A few rows of each epoch, and their labels."""
    rows = np.concatenate([np.flatnonzero(drawn.epochs == t)[:n] for t in range(4)])
    return drawn.data[rows], drawn.epochs[rows]


# What is learned ----------------------------------------------------------------------


@pytest.mark.long
def test_topics_keep_their_names_and_begin_and_end(fitted, drawn):
    names = {}  # of planted nodes, by epoch
    for epoch in range(4):
        rows = drawn.epochs == epoch
        record = fitted.epochs_[epoch]
        assert record.n_samples == 300
        # Nearest direction of the epoch: the names of its nodes.
        cosines = drawn.data[rows] @ record.components.toarray().T
        result = record.component_ids[cosines.argmax(axis=1)]
        target = drawn.target[rows]
        assert adjusted_rand_score(target, result) > 0.85
        for node in np.unique(target):
            most = np.bincount(result[target == node]).argmax()
            names.setdefault(node, []).append(int(most))
    for node in (0, 1, 2, 3, 4, 5, 7, 8):
        assert len(set(names[node])) == 1, node
    assert len(set(names[9])) == 1
    born = names[9][0]
    assert born not in fitted.epochs_[1].component_ids
    birth = next(entry for entry in fitted.lineage_ if born in entry.children)
    assert birth.kind == "birth"
    assert fitted.epochs_[2].first_step <= birth.step < fitted.epochs_[3].first_step
    ended = names[6][0]
    masses = [
        float(record.masses[record.component_ids == ended].sum())
        for record in fitted.epochs_.values()
    ]
    assert min(masses[:2]) > 10.0
    assert max(masses[2:]) < 1.0
    assert ended not in fitted.component_ids_


def parents_by_id(record):
    """Name of the parent of each node, -1 of the root."""
    ids, parent = record.component_ids, record.tree.parent
    above = np.where(parent >= 0, ids[parent], -1)
    return dict(zip(ids.tolist(), above.tolist(), strict=True))


def test_tree_is_the_planted_one(fitted, drawn):
    assert fitted.tree_.n_nodes == fitted.n_components_ == 9
    parents = [parents_by_id(record) for record in fitted.epochs_.values()]
    assert fitted.epochs_[0].tree.max_depth == 2
    assert parents[1] == parents[0]  # the new leaf may stand below a sibling
    assert len(parents[0].items() & parents[3].items()) >= 7
    assert fitted.tree_.weight[0] == 1.0
    assert_allclose(np.linalg.norm(fitted.components_, axis=1), 1.0)
    assert 100.0 < fitted.vmf_concentration_ < 140.0
    assert list(fitted.epochs_) == [0, 1, 2, 3]
    assert fitted.converged_


def test_trace_tells_what_happened(fitted):
    history = fitted.history_
    assert len({len(values) for values in history.values()}) == 1
    kinds = [entry.kind for entry in fitted.lineage_]
    assert kinds[0] == "init"
    assert history["n_merges"][-1] == kinds.count("merge")
    assert history["n_births"][-1] == kinds.count("birth")
    assert fitted.elbo_ == history["elbo"][-1]
    bounds, steps = np.array(history["elbo"]), np.array(history["step"])
    ends = [record.first_step for record in fitted.epochs_.values()]
    for begin, end in zip(ends, [*ends[1:], np.inf], strict=True):
        of = bounds[(steps > begin) & (steps <= end) & np.isfinite(bounds)]
        assert len(of) > 2
        assert (np.diff(of) > -1e-9 * abs(of[-1])).all()


def test_partial_fit_epoch_by_epoch_is_fit(fitted, drawn):
    trees = DependentTrees(random_state=0)
    for epoch in range(4):
        rows = drawn.epochs == epoch
        trees.partial_fit(drawn.data[rows], epochs=epoch)
    assert_array_equal(trees.components_, fitted.components_)
    assert trees.lineage_ == fitted.lineage_
    assert_array_equal(
        trees.score_samples(drawn.data, epochs=drawn.epochs),
        fitted.score_samples(drawn.data, epochs=drawn.epochs),
    )


@pytest.mark.long
def test_chunks_of_an_epoch_add_up(drawn):
    rows = drawn.data[drawn.epochs == 0]
    trees = DependentTrees(random_state=0)
    for begin in (0, 100, 200):
        trees.partial_fit(rows[begin : begin + 100], epochs=0)
        assert trees.epochs_[0].n_samples == begin + 100
    whole = DependentTrees(random_state=0).fit(rows)
    target = drawn.target[drawn.epochs == 0]
    assert adjusted_rand_score(target, trees.apply(rows)) > 0.85
    assert trees.score(rows) > whole.score(rows) - 0.5
    trees.partial_fit(rows[:100])  # of the open epoch
    assert list(trees.epochs_) == [0]


@pytest.mark.long
def test_limits_and_fixed_values_hold(drawn):
    X, epochs = small(drawn)
    for limit in (1, 2, 5):
        trees = DependentTrees(limit, random_state=0).fit(X, epochs=epochs)
        assert max(r.tree.n_nodes for r in trees.epochs_.values()) <= limit
        assert np.isfinite(trees.score(X, epochs=epochs))
    trees = DependentTrees(vmf_concentration=90.0, prior_concentration=30.0)
    trees.fit(X, epochs=epochs)
    assert trees.vmf_concentration_ == 90.0
    assert trees.prior_concentration_ == 30.0


@pytest.mark.long
@pytest.mark.parametrize("weight", daily(1, [4.0, 1.0]))
def test_past_weight_is_learned(weight):
    """From one in the second epoch; a number that is given stays."""
    corpus = make_dependent_trees(
        200, n_epochs=4, branching=(8,), past_weight=weight, random_state=1
    )
    X, epochs = corpus.data, corpus.epochs
    trees = DependentTrees(random_state=0)
    assert trees.fit(X[:200], epochs=epochs[:200]).past_weight_ == 1.0
    trees.fit(X, epochs=epochs)
    assert trees.past_weight_ == pytest.approx(weight, rel=0.4)
    trees.fit(X[:600], epochs=epochs[:600]).partial_fit(X[600:], epochs=epochs[600:])
    assert trees.past_weight_ == pytest.approx(weight, rel=0.5)
    given = DependentTrees(past_weight=2.0, random_state=0)
    given.fit(X[:400], epochs=epochs[:400])
    assert given.past_weight_ == 2.0


def test_too_few_passes_are_told(drawn):
    X, epochs = small(drawn)
    with pytest.warns(ConvergenceWarning, match=r"2 epochs \(0, 1\).*max_iter"):
        DependentTrees(max_iter=2).fit(X[epochs < 2], epochs=epochs[epochs < 2])


# What is said of rows -----------------------------------------------------------------


def test_rows_are_explained_by_the_tree_of_their_epoch(fitted, drawn):
    X, epochs = drawn.data, drawn.epochs
    own = fitted.score_samples(X, epochs=epochs)
    for epoch in range(4):
        rows = epochs == epoch
        assert_array_equal(own[rows], fitted.score_samples(X[rows], epochs=epoch))
    newest = fitted.score_samples(X)
    assert own[epochs == 0].mean() > newest[epochs == 0].mean() + 1.0
    assert_array_equal(own[epochs == 3], newest[epochs == 3])
    assert_array_equal(newest, fitted.score_samples(X, epochs=7))
    result = fitted.transform(X, epochs=epochs)
    assert_allclose(result.sum(axis=1), 1.0)
    assert result.shape == (1200, fitted.n_components_)
    # Rows of the topic that has ended are above it.
    ended = fitted.transform(X[drawn.target == 6], epochs=epochs[drawn.target == 6])
    assert np.isin(ended.argmax(axis=1), fitted.tree_.parent).mean() > 0.9


def test_bound_of_the_training_data_is_that_of_the_fit(fitted, drawn):
    """The last update follows the last visit: it may only be higher."""
    X = drawn.data[drawn.epochs == 3]
    terms = fitted.elbo_terms(X)
    assert_allclose(sum(terms.values()), fitted.elbo(X))
    assert fitted.elbo_ - 1e-6 <= fitted.elbo(X) < fitted.elbo_ + 1e-2


def test_nodes_paths_and_proportions_agree(fitted, drawn):
    X = drawn.data[:50]
    nodes, result = fitted.apply(X), fitted.transform(X)
    assert_array_equal(nodes, result.argmax(axis=1))
    paths = fitted.decision_path(X).toarray().astype(bool)
    for node, path in zip(nodes, paths, strict=True):
        assert_array_equal(np.flatnonzero(path), fitted.tree_.path(node))
    names = fitted.get_feature_names_out()
    assert names[0] == "dependenttrees0"
    sparse = fitted.set_params(sparse_output=True).transform(X)
    assert sp.issparse(sparse)
    assert_array_equal(sparse.toarray(), result)


# Awkward data -------------------------------------------------------------------------


def test_rows_without_words(drawn):
    X, epochs = small(drawn, 40)
    empty = np.zeros((3, 40))
    some = quick().fit(X, epochs=epochs)
    with_empty = clone(some).fit(
        np.vstack([empty[:1], X, empty[:2]]), epochs=[0, *epochs, 3, 3]
    )
    assert_array_equal(some.components_, with_empty.components_)
    row = some.transform(empty[:1])
    assert_allclose(row.sum(), 1.0)
    assert (row > 0.0).all()
    assert some.score_samples(empty[:1]) == 0.0
    assert some.score(empty) == 0.0
    assert some.apply(empty[:1]) == 0
    assert some.score(np.vstack([X, empty])) == some.score(X)


@pytest.mark.long
def test_epochs_without_documents(drawn):
    X, epochs = small(drawn, 40)
    middle, first = X.copy(), X.copy()
    middle[epochs == 1] = 0.0
    first[epochs == 0] = 0.0
    trees = quick().fit(middle, epochs=epochs)
    assert [r.n_samples for r in trees.epochs_.values()] == [40, 0, 40, 40]
    assert np.isfinite(trees.score(X, epochs=epochs))
    late = quick().fit(first, epochs=epochs)
    assert [r.n_samples for r in late.epochs_.values()] == [0, 40, 40, 40]
    assert late.n_components_ > 1
    assert np.isfinite(late.score_samples(X, epochs=epochs)).all()
    with pytest.warns(UserWarning, match="no row"):
        nothing = quick().fit(np.zeros((4, 5)))
    assert nothing.n_components_ == 1
    assert_allclose(nothing.score_samples(np.eye(5)), 0.0, atol=1e-2)
    nothing.partial_fit(X[:, :5], epochs=1)
    assert np.isfinite(nothing.score(X[:, :5]))


def test_epochs_that_lie_behind_are_refused(fitted, drawn):
    X = drawn.data[:20]
    before = snapshot(fitted)
    for labels in (2, np.repeat([4, 1], 10), "new"):
        with pytest.raises(ValueError, match="epochs must"):
            fitted.partial_fit(X, epochs=labels)
    for labels, message in ((-1, "first fitted epoch, 0"), ("new", "be labels like")):
        with pytest.raises(ValueError, match=message):
            fitted.transform(X, epochs=labels)
    with pytest.raises(ValueError, match="features"):
        fitted.partial_fit(X[:, :5], epochs=4)
    assert_same(before, vars(fitted), ignore=())


# Routing ------------------------------------------------------------------------------


@pytest.mark.long
def test_an_epoch_ends_when_moves_gain_little(drawn, monkeypatch):
    X = drawn.data[drawn.epochs == 0]
    trees = DependentTrees(max_iter=15, random_state=0)
    assert trees.fit(X).n_iter_ < 15
    monkeypatch.setattr(structure, "SETTLED_GAIN", -1.0)  # as if they gained much
    assert trees.fit(X).n_iter_ == 15


@pytest.mark.parametrize(
    ("shape", "batch_size", "n_parts"),
    [
        ((400, 40), None, 10),
        ((2000, 2), None, 32),
        ((3, 40), None, 1),
        ((2000, 2), 500, 4),
        ((2000, 2), 20, 100),
    ],
)
def test_a_pass_has_32_updates_at_the_most_by_default(shape, batch_size, n_parts):
    X = sp.csr_array(np.ones(shape, dtype=np.float32))
    trees = DependentTrees(batch_size=batch_size)
    trees.n_features_in_ = shape[1]
    with Executor(1) as executor:
        shards = trees._shards(X, executor)
    assert len(shards.n_rows) == n_parts
    assert shards.n_rows.sum() == shape[0]
