"""Trees learned on workers: bits, faults, checkpoints, lazy evaluation."""

import pickle

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask.delayed import Delayed
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import check_estimator

import skbnp
from checks.long import along_diagonal
from checks.worker_pools import (
    FAULTS,
    ScriptedPool,
    numbers_of_calls,
    scripted_workers,
)
from skbnp.callbacks import Checkpoint
from skbnp.dask import DependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.estimators import _dependent_trees
from skbnp.estimators._dependent_trees import EpochMoves
from skbnp.models.dependent_trees import start
from skbnp.utils.archive import FitFile

CORPUS = make_dependent_trees(60, n_epochs=2, n_features=12, random_state=0)
CHUNKS = (25, 0, 40, 30, 25)
#: The fit of a few milliseconds.
SETTINGS = {
    "max_iter": 3,
    "tol": 0.0,
    "random_state": 0,
    "structure_moves": EpochMoves(max_births=2, birth_rounds=4),
}


@pytest.fixture(scope="module", autouse=True)
def few_clusters():
    """Begin with fewer clusters than there are nodes, for births."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_dependent_trees, "n_clusters_for", lambda n_rows: 4)
        yield


def chunked(array, chunks=CHUNKS):
    """A Dask array of such chunks, sparse if it has two dimensions."""
    if array.ndim == 1:
        return da.from_array(array, chunks=(chunks,))
    blocks = da.from_array(array, chunks=(chunks, (array.shape[1],)))
    return blocks.map_blocks(sp.csr_array, meta=sp.csr_array((0, array.shape[1])))


X, EPOCHS = chunked(CORPUS.data), chunked(CORPUS.epochs)


def fitted(path=None, **settings):
    trees = DependentTrees(**SETTINGS | settings)
    if path is not None:
        trees.set_callbacks(Checkpoint(path))
    return trees.fit(X, epochs=EPOCHS)


@pytest.fixture(scope="module")
def undisturbed(few_clusters):
    return fitted()


def assert_same_fit(one, other):
    assert_array_equal(one.components_, other.components_)
    assert_array_equal(one.component_ids_, other.component_ids_)
    assert one.lineage_ == other.lineage_
    assert one.elbo_ == other.elbo_
    assert one.converged_ == other.converged_
    for name, values in one.history_.items():
        if name != "seconds":
            assert_array_equal(values, other.history_[name])
    assert list(one.epochs_) == list(other.epochs_)


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


@pytest.mark.parametrize(
    ("shards_per_round", "n_workers"),
    [
        (None, 4),
        (2, 1),
        pytest.param(None, 1, marks=pytest.mark.long),
        pytest.param(2, 4, marks=pytest.mark.long),
    ],
)
def test_bits_do_not_depend_on_workers(shards_per_round, n_workers):
    alone = fitted(shards_per_round=shards_per_round)
    pool = ScriptedPool(n_workers, n_threads=n_workers)
    with scripted_workers(pool) as client:
        result = fitted(shards_per_round=shards_per_round, client=client)
    assert_same_fit(result, alone)
    assert pool.is_closed
    assert {entry.kind for entry in result.lineage_} & {"merge", "birth"}


@pytest.mark.long
def test_planted_trees_are_found():
    corpus = make_dependent_trees(600, random_state=0)
    trees = DependentTrees(random_state=0, max_iter=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_dependent_trees, "n_clusters_for", start.n_clusters_for)
        trees.fit(chunked(corpus.data, (200,) * 3))
    assert trees.n_components_ == 10
    assert trees.score(corpus.data) > 20.0


# Faults -------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, -1])
def test_faults_change_no_bit(order, undisturbed):
    """All kinds in one fit; `test_shards` has each call of a conversation."""
    pool = ScriptedPool(4, dict(zip(range(3, 60, 7), FAULTS[::order], strict=False)))
    with scripted_workers(pool) as client:
        assert_same_fit(fitted(client=client), undisturbed)
    assert not pool.script


@pytest.mark.weekly
@along_diagonal(("fault", "shards_per_round"), FAULTS, [None, 1])
def test_a_fault_at_any_call_changes_no_bit(fault, shards_per_round):
    """Every other call meets one; in `test_shards` each call meets each."""
    alone = fitted(shards_per_round=shards_per_round)
    for number in numbers_of_calls(fault, shards_per_round):
        pool = ScriptedPool(3, {number: fault})
        with scripted_workers(pool) as client:
            result = fitted(client=client, shards_per_round=shards_per_round)
        assert_same_fit(result, alone)
        if pool.script:
            break
    assert number > 50


def test_errors_of_the_data_are_raised_at_once():
    rows = CORPUS.data.copy()
    rows[50, 3] = np.nan
    pool = ScriptedPool(2)
    with scripted_workers(pool) as client, pytest.raises(ValueError, match="NaN"):
        DependentTrees(client=client).fit(chunked(rows))
    assert len(pool.calls) <= len(CHUNKS)


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


# Checkpoints --------------------------------------------------------------------------


class KilledError(BaseException):
    """The driver has died."""


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("shards_per_round", "moves", "numbers"),
    [
        (2, SETTINGS["structure_moves"], range(1, 7)),
        (None, SETTINGS["structure_moves"], (2, 5)),
        (None, False, (3, 6)),
    ],
)
def test_a_fit_goes_on_from_any_checkpoint(tmp_path, shards_per_round, moves, numbers):
    """As if nothing had stopped it, in this process or on workers."""
    settings = {"shards_per_round": shards_per_round, "structure_moves": moves}
    alone = fitted(**settings)
    write = FitFile.write
    settings |= {"path": tmp_path / "fit"}
    for number in numbers:
        n_written = []

        def write_some(self, *args, number=number, n_written=n_written):
            write(self, *args)
            n_written.append(None)
            if len(n_written) == number:  # of six
                raise KilledError

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FitFile, "write", write_some)
            with pytest.raises(KilledError):
                fitted(**settings)
        if number % 2:
            result = fitted(**settings)
        else:
            with scripted_workers(ScriptedPool(2)) as client:
                result = fitted(**settings, client=client)
        assert_same_fit(result, alone)
    assert len(list(tmp_path.iterdir())) == 1


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


def test_saved_estimators_have_no_client(undisturbed):
    with scripted_workers(ScriptedPool(1)) as client:
        trees = fitted(client=client)
        again = pickle.loads(pickle.dumps(trees))
    assert again.client is None
    assert_same_fit(again, undisturbed)


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
        CORPUS.epochs[:, None],
        list(CORPUS.epochs),
        pd.Series(CORPUS.epochs),
        da.from_array(CORPUS.epochs, chunks=7),
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
            fitted(client=client)
        client.asynchronous, client.status = False, "closed"
        with pytest.raises(ValueError, match="closed"):
            fitted(client=client)


def test_a_failed_fit_leaves_no_session():
    trees = DependentTrees(**SETTINGS)
    with pytest.raises(ValueError, match="columns"):
        trees.fit([sp.csr_array((2, 3)), sp.csr_array((2, 4))])
    assert "_session" not in vars(trees)
    assert isinstance(X.to_delayed()[0, 0], Delayed)
