"""HDPs learned on workers: bits, faults, checkpoints, lazy evaluation."""

import pickle
import warnings
from itertools import count, cycle, pairwise

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import skbnp
from checks.judges import note_trials, with_own_words
from checks.long import along_diagonal
from checks.worker_pools import (
    FAULTS,
    ScriptedPool,
    numbers_of_calls,
    scripted_workers,
)
from skbnp import KnownTopics
from skbnp.callbacks import Checkpoint
from skbnp.dask import HDP
from skbnp.datasets import make_bars
from skbnp.estimators._hdp import SplitMerge
from skbnp.utils.archive import FitFile

BARS = make_bars(120, n_words=16, random_state=0).data
EMPTY = [3, 70]
CHUNKS = (25, 0, 40, 30, 25)
LIMITS = np.cumsum((0, *CHUNKS))
FAMILIES = ["collapsed", "mean_field"]
#: A fit with births, reductions and passes over everything, in some milliseconds.
SETTINGS = {
    "n_components": 6,
    "max_iter": 11,
    "warm_up": 1,
    "batch_size": 60,
    "random_state": 0,
    "split_merge": SplitMerge(trial_passes=1),
}


@pytest.fixture(scope="module")
def counts():
    X = sp.lil_array(sp.csr_array(BARS).astype(np.float64))
    X[EMPTY] = 0.0
    return sp.csr_array(X)


def blocks_of(counts):
    return [counts[begin:end] for begin, end in pairwise(LIMITS)]


@pytest.fixture(scope="module")
def fit(counts):
    def fit(path=None, **settings):
        hdp = HDP(**SETTINGS | settings)
        if path is not None:
            hdp.set_callbacks(Checkpoint(path))
        return hdp.fit(blocks_of(counts))

    return fit


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return {"variational_family": request.param}


@pytest.fixture(scope="module")
def undisturbed(fit, family):
    return fit(**family)


@pytest.fixture(scope="module")
def collapsed(fit):
    return fit()


def assert_same_fit(one, other):
    assert_array_equal(one.components_, other.components_)
    assert_array_equal(one.component_ids_, other.component_ids_)
    assert_array_equal(one.topic_weights_, other.topic_weights_)
    assert one.lineage_ == other.lineage_
    assert (one.converged_, one.n_iter_) == (other.converged_, other.n_iter_)
    for name, values in one.history_.items():
        if name != "seconds":
            assert_array_equal(values, other.history_[name])


# Parity -------------------------------------------------------------------------------


def test_fitted_attributes_are_those_of_the_local_estimator(
    undisturbed, family, counts
):
    local = skbnp.HDP(**SETTINGS | family).fit(counts)

    def learned(estimator):
        return set(vars(estimator)) - set(estimator.get_params())

    # Rows stay on workers: the fit knows no documents again.
    assert learned(undisturbed) == learned(local) - {"_digest"}


@pytest.mark.parametrize(
    ("n_workers", "settings"),
    [
        (2, {"shards_per_round": 2}),
        pytest.param(4, {}, marks=pytest.mark.long),
    ],
)
def test_bits_do_not_depend_on_workers(n_workers, settings, fit, family):
    alone = fit(**settings | family)
    pool = ScriptedPool(n_workers)
    with scripted_workers(pool) as client:
        assert_same_fit(fit(**settings | family, client=client), alone)
    assert pool.is_closed
    assert {entry.kind for entry in alone.lineage_} > {"init"}


KNOWN = {
    "number": 0.05,
    "seed words": KnownTopics({"row": [0, 1], "column": [2, 6, 10]}, weight=0.5),
    "prior": 0.01 + 5.0 * make_bars(2, n_words=16, random_state=1).topic_word_distr[:2],
    "frozen": KnownTopics(
        100.0 * make_bars(2, n_words=16).topic_word_distr[:2], frozen=True
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("known", list(KNOWN)[1:])
def test_known_topics_do_not_depend_on_workers(known, fit, family):
    settings = {"topic_word_prior": KNOWN[known], "learn_priors": True, **family}
    alone = fit(**settings)
    with scripted_workers(ScriptedPool(2)) as client:
        result = fit(**settings, client=client)
    assert_same_fit(result, alone)
    assert_array_equal(result.component_ids_[:2], [0, 1])
    if known == "frozen":
        assert_array_equal(result.components_[:2], KNOWN[known].topics)
    if known == "seed words":
        names = result.get_feature_names_out()
        assert names[:2].tolist() == ["row", "column"]


@pytest.mark.parametrize("known", KNOWN)
def test_a_batch_of_one_pass_is_that_of_the_local_estimator(known, counts, family):
    """Sums by shard differ by rounding."""
    settings = {"learning_method": "batch", "split_merge": False, "max_iter": 1}
    settings |= {"n_components": 5, "init": "random", "random_state": 0, **family}
    settings |= {"topic_word_prior": KNOWN[known]}
    ours = HDP(**settings).fit(blocks_of(counts))
    local = skbnp.HDP(**settings).fit(counts)
    assert_allclose(ours.components_, local.components_, rtol=1e-6)
    # Those of the local estimator follow its sums once more.
    assert_allclose(ours.topic_weights_, local.topic_weights_, rtol=1e-4)


def test_no_topic_starts_from_a_document_that_judges(counts, fit, monkeypatch):
    begun, own = note_trials(monkeypatch), with_own_words(counts)
    HDP(**SETTINGS | {"n_components": 100}).fit(blocks_of(own))
    ((topics, description),) = begun
    judges = np.unique((description.observed + description.held_out).indices)
    judges = judges[judges >= counts.shape[1]]
    assert len(judges) == 30
    assert (topics[judges] == 0.0).all()
    assert (topics[counts.shape[1] :].sum(axis=1) > 0.0).sum() == 90


@pytest.mark.weekly
def test_fits_of_both_kinds_predict_alike():
    """All bars are found, and no more. Scores of two fits differ by .003 (s.d.)."""
    settings, gains = {"random_state": 0}, []
    for seed in (1, 2):
        X = make_bars(1000, random_state=seed).data
        ours = HDP(30, **settings).fit(da.from_array(X[:800], chunks=(200, -1)))
        local = skbnp.HDP(30, **settings).fit(X[:800])
        gains.append(ours.score(X[800:]) - local.score(X[800:]))
        assert ours.n_components_ == local.n_components_ == 20
    assert abs(np.mean(gains)) < 0.006


def test_what_needs_the_memory_of_documents_is_refused(counts):
    with pytest.raises(ValueError, match="memoized"):
        HDP(learning_method="memoized").fit(counts)
    with pytest.raises(ValueError, match="whole minibatches"):
        HDP(variational_family="mean_field", split_merge=SplitMerge.paper()).fit(counts)
    assert not hasattr(HDP(), "partial_fit")


def test_a_warm_start_goes_on(counts, family):
    settings = SETTINGS | family | {"split_merge": False, "max_iter": 2}
    hdp = HDP(**settings, warm_start=True).fit(blocks_of(counts))
    n_steps = hdp.history_["step"][-1]
    hdp.fit(blocks_of(counts))
    assert hdp.history_["step"][-1] == 2 * n_steps
    with pytest.raises(ValueError, match="features"):
        hdp.fit(counts[:, :9])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lambda X: np.log1p(30.0 * X), r"np\.log1p"),
        (lambda X: np.insert(X, 2, np.arange(len(X)), axis=1), "Column 2 .*numbers"),
        (lambda X: np.insert(X, 2, 2001.0, axis=1), "Column 2 .*of all tokens"),
        (lambda X: np.repeat(X[:2], 60, axis=0), "few documents, 2 "),
    ],
)
def test_blocks_warn_as_one_matrix_does(rows, message):
    X = da.from_array(rows(BARS.toarray()), chunks=(30, -1))
    with pytest.warns(UserWarning, match=message):
        HDP(**SETTINGS).fit(X)


def test_a_frame_is_learned_from_by_its_partitions():
    frame = pd.DataFrame(BARS.toarray()).add_prefix("w")
    lazy = dd.from_pandas(frame, npartitions=3)
    hdp = HDP(**SETTINGS).fit(lazy)
    blocks = [sp.csr_array(part.compute()) for part in lazy.to_delayed()]
    assert_array_equal(hdp.components_, HDP(**SETTINGS).fit(blocks).components_)
    assert hdp.feature_names_in_.tolist() == frame.columns.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shares = hdp.transform(lazy).compute()
        assert float(hdp.score(lazy)) < 0.0
    assert_allclose(shares, hdp.transform(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        hdp.transform(lazy.rename(columns={"w0": "v0"})).compute()
    assert not hasattr(hdp.fit(blocks), "feature_names_in_")


# Faults -------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, -1])
def test_faults_change_no_bit(order, fit, collapsed):
    """All kinds in one fit; `test_shards` has each call of a conversation."""
    script = dict(zip(range(5, 80, 9), FAULTS[::order], strict=False))
    disturbed = ScriptedPool(4, script)
    with scripted_workers(disturbed) as client:
        assert_same_fit(fit(client=client), collapsed)
    assert not disturbed.script


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("fault", "shards_per_round", "family"),
    zip(FAULTS, cycle([None, None, 1, 1]), cycle(FAMILIES), strict=False),
)
def test_a_fault_at_any_call_changes_no_bit(fault, shards_per_round, fit, family):
    """Every other call meets one; in `test_shards` each call meets each."""
    settings = {"shards_per_round": shards_per_round, "max_iter": 8}
    settings["variational_family"] = family
    alone = fit(**settings)
    for number in numbers_of_calls(fault, shards_per_round):
        pool = ScriptedPool(3, {number: fault})
        with scripted_workers(pool) as client:
            assert_same_fit(fit(**settings, client=client), alone)
        if pool.script:
            break
    assert number > 50


def test_errors_of_the_data_are_raised_at_once():
    rows = BARS.astype(np.float64)
    rows[50, 3] = -1.0
    pool = ScriptedPool(2)
    with (
        scripted_workers(pool) as client,
        pytest.raises(ValueError, match="Negative"),
    ):
        HDP(client=client).fit(da.from_array(rows, chunks=(25, -1)))
    assert len(pool.calls) <= 5


# Checkpoints --------------------------------------------------------------------------


class KilledError(BaseException):
    """The driver has died."""


def stopped_after(n_passes, fit, **settings):
    """Whether a fit that is killed after so many checkpoints was."""
    write, n_written = FitFile.write, []

    def write_some(self, *args):
        write(self, *args)
        n_written.append(None)
        if len(n_written) == n_passes:
            raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FitFile, "write", write_some)
        try:
            fit(**settings)
        except KilledError:
            return True
    return False


@pytest.mark.weekly
@along_diagonal(("family", "method"), FAMILIES, ["online", "batch"])
def test_a_fit_goes_on_from_any_checkpoint(tmp_path, family, method, fit):
    """As if nothing had stopped it, in this process or on workers."""
    settings = {"variational_family": family, "learning_method": method}
    alone = fit(**settings)
    settings |= {"path": tmp_path / "fit"}
    for place, number in enumerate(count(1)):
        if not stopped_after(number, fit, **settings):
            break
        if place % 2:
            result = fit(**settings)
        else:
            with scripted_workers(ScriptedPool(2)) as client:
                result = fit(**settings, client=client)
        assert_same_fit(result, alone)
    assert number > alone.n_iter_ >= 8


def test_checkpoints_of_other_fits_are_refused(tmp_path, fit, counts):
    path = tmp_path / "fit"
    assert stopped_after(2, fit, path=path)
    with pytest.raises(ValueError, match="n_components"):
        fit(path=path, n_components=7)
    with pytest.raises(ValueError, match="rows of X"):
        HDP(**SETTINGS).set_callbacks(Checkpoint(path)).fit(counts)


def test_a_file_of_a_fit_on_a_cluster_is_loaded(tmp_path, fit, counts):
    """As it is so far, and goes on without a cluster."""
    path = tmp_path / "fit"
    assert stopped_after(3, fit, path=path)
    loaded = skbnp.load(path)
    assert isinstance(loaded, HDP)
    assert loaded.n_iter_ == 3
    whole = fit()
    assert_same_fit(loaded.fit(blocks_of(counts)), whole)
    assert_same_fit(skbnp.load(path), whole)


# Evaluation ---------------------------------------------------------------------------


def test_evaluation_is_lazy_where_rows_are(undisturbed, counts):
    blocks = da.from_array(counts.toarray(), chunks=(CHUNKS, (counts.shape[1],)))
    result = undisturbed.transform(blocks)
    assert isinstance(result, da.Array)
    assert result.shape == (120, undisturbed.n_components_)
    assert_array_equal(result.compute(), undisturbed.transform(counts))
    score = undisturbed.score(blocks)
    assert isinstance(score, da.Array)
    assert_allclose(score.compute(), undisturbed.score(counts), rtol=1e-12)


def test_a_pickle_leaves_the_client_behind(undisturbed, counts):
    again = pickle.loads(pickle.dumps(undisturbed))
    assert_array_equal(again.transform(counts), undisturbed.transform(counts))
    assert again.client is None
