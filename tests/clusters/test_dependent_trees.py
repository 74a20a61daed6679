"""Trees learned on workers: bits, faults, checkpoints, lazy evaluation."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask.delayed import Delayed
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import check_estimator

import skbnp
from checks.worker_pools import ScriptedPool, scripted_workers
from clusters.fits import CHUNKS, CORPUS, EPOCHS, X, assert_same_fit, chunked, fit_trees
from clusters.fits import TREE_SETTINGS as SETTINGS
from skbnp.dask import DependentTrees
from skbnp.models.dependent_trees import updates


@pytest.fixture(scope="module", autouse=True)
def few_clusters():
    """Begin with fewer clusters than there are nodes, for births."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(updates, "n_clusters_for", lambda n_rows: 4)
        yield


@pytest.fixture(scope="module")
def undisturbed():
    return fit_trees()


# Parity -------------------------------------------------------------------------------


@pytest.mark.long
def test_fitted_attributes_are_those_of_the_local_estimator(undisturbed):
    local = skbnp.DependentTrees(**SETTINGS).fit(CORPUS.data, epochs=CORPUS.epochs)

    def public(estimator):
        return {name for name in dir(estimator) if name[-1] == "_" != name[0]}

    assert public(undisturbed) == public(local)
    assert not [name for name in vars(undisturbed) if name == "_session"]


def test_trees_are_those_of_the_local_estimator():
    """Where neither the start nor the moves nor sums by part tell rows apart."""
    settings = SETTINGS | {"batch_size": 120, "structure_moves": False}
    rows, more = CORPUS.data[:60], {"max_components": 2, "vmf_concentration": 30.0}
    local = skbnp.DependentTrees(**settings | more).fit(rows)
    ours = DependentTrees(**settings | more).fit(rows)
    assert_allclose(ours.components_, local.components_, rtol=1e-12)


# Faults -------------------------------------------------------------------------------


def test_columns_that_rows_show_are_found_on_workers():
    """Whatever becomes of these: directions that are sent have no others."""
    rows = np.zeros((len(CORPUS.data), 1000))
    rows[:, -12:] = CORPUS.data
    alone = DependentTrees(**SETTINGS).fit(chunked(rows), epochs=EPOCHS)
    assert alone._posterior.state.means.shape[1] == 12
    pool = ScriptedPool(3, {6: "dies", 8: "restarts"})
    with scripted_workers(pool) as client:
        result = DependentTrees(client=client, **SETTINGS)
        result.fit(chunked(rows), epochs=EPOCHS)
    assert not pool.script
    assert_same_fit(result, alone)


# Evaluation ---------------------------------------------------------------------------


def test_evaluation_of_blocks_is_lazy(undisturbed):
    trees, data, epochs = undisturbed, CORPUS.data, CORPUS.epochs
    for name in ("transform", "apply", "score_samples"):
        result = getattr(trees, name)(X, epochs=EPOCHS)
        assert isinstance(result, da.Array)
        assert result.chunks[0] == tuple(filter(None, CHUNKS))
        wanted = getattr(trees, name)(data, epochs=epochs)
        assert_allclose(result.compute(), wanted, rtol=1e-12)
        assert result.dtype == wanted.dtype
    score = trees.score(X, epochs=EPOCHS)
    assert isinstance(score, da.Array)
    assert_allclose(float(score), trees.score(data, epochs=epochs), rtol=1e-12)
    paths = trees.decision_path(X, epochs=EPOCHS).to_delayed().ravel()
    wanted = trees.decision_path(data, epochs=epochs).toarray()
    result = np.vstack([part.compute().toarray() for part in paths])
    assert_array_equal(result, wanted)


# Habits of scikit-learn ---------------------------------------------------------------


@pytest.mark.weekly
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_s_checks_pass():
    trees = DependentTrees(max_iter=2, structure_moves=False)
    result = check_estimator(trees, on_fail=None)
    assert len(result) > 40
    assert not [one for one in result if one["status"] == "failed"]


def test_chunks_of_a_stream_are_learned():
    trees = DependentTrees(**SETTINGS)
    trees.partial_fit(X[:65], epochs=0)
    trees.partial_fit(X[65:], epochs=1)
    assert list(trees.epochs_) == [0, 1]
    with pytest.raises(ValueError, match="older"):
        trees.partial_fit(X, epochs=0)


@pytest.mark.parametrize(
    "labels",
    [
        CORPUS.epochs,
        pd.Series(CORPUS.epochs),
        da.from_array(CORPUS.epochs[:, None], chunks=(50, 1)),
    ],
)
def test_labels_stand_one_for_each_row_beside_chunks(labels, undisturbed):
    trees = DependentTrees(**SETTINGS).fit(X, epochs=labels)
    assert_same_fit(trees, undisturbed)
    wanted = undisturbed.apply(X, epochs=EPOCHS).compute()
    assert_array_equal(trees.apply(X, epochs=labels).compute(), wanted)


def test_blocks_of_other_epochs_are_explained_with_a_warning(undisturbed):
    newest = undisturbed.apply(X, epochs=1).compute()
    for labels, message in (
        (5, "5 by 1"),
        (None, "newest of 2"),
        ([2] * 120, "2 by 1"),
    ):
        with pytest.warns(UserWarning, match=message) as caught:
            result = undisturbed.apply(X, epochs=labels).compute()
        assert len(caught) == 1
        assert_array_equal(result, newest)
    with pytest.raises(ValueError, match="first fitted epoch, 0"):
        undisturbed.apply(X, epochs=-1)


def test_a_client_that_cannot_be_waited_for_is_refused():
    with scripted_workers(ScriptedPool(1)) as client:
        client.asynchronous = True
        with pytest.raises(ValueError, match="synchronous"):
            fit_trees(client=client)
        client.asynchronous, client.status = False, "closed"
        with pytest.raises(ValueError, match="closed"):
            fit_trees(client=client)


def test_a_failed_fit_leaves_no_session():
    trees = DependentTrees(**SETTINGS)
    with pytest.raises(ValueError, match="columns"):
        trees.fit([sp.csr_array((2, 3)), sp.csr_array((2, 4))])
    assert "_session" not in vars(trees)
    assert isinstance(X.to_delayed()[0, 0], Delayed)
