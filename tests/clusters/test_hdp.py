"""HDPs learned on workers: bits, faults, checkpoints, lazy evaluation."""

import warnings
from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import skbnp
from checks.judges import note_trials, with_own_words
from checks.worker_pools import ScriptedPool, scripted_workers
from clusters.fits import (
    BARS,
    CHUNKS,
    COUNTS,
    assert_same_fit,
    blocks_of,
    chunked,
    fit_hdp,
)
from clusters.fits import HDP_SETTINGS as SETTINGS
from clusters.test_faults import stopped_after
from skbnp import KnownTopics
from skbnp.callbacks import Checkpoint
from skbnp.dask import HDP
from skbnp.datasets import make_bars
from skbnp.estimators._hdp import SplitMerge
from skbnp.inference.executor import Executor
from skbnp.models.hdp.groups import LabelledDocuments, learn_groups
from skbnp.utils.labels import check_groups

FAMILIES = ["collapsed", "mean_field"]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return {"variational_family": request.param}


@pytest.fixture(scope="module")
def undisturbed(family):
    return fit_hdp(**family)


# Parity -------------------------------------------------------------------------------


def test_fitted_attributes_are_those_of_the_local_estimator(undisturbed, family):
    local = skbnp.HDP(**SETTINGS | family).fit(COUNTS)

    def learned(estimator):
        return set(vars(estimator)) - set(estimator.get_params())

    # Rows stay on workers: the fit knows no documents again.
    assert learned(undisturbed) == learned(local) - {"_digest"}


KNOWN = {
    "number": 0.05,
    "seed words": KnownTopics({"row": [0, 1], "column": [2, 6, 10]}, weight=0.5),
    "prior": 0.01 + 5.0 * make_bars(2, n_words=16, random_state=1).topic_word_distr[:2],
    "frozen": KnownTopics(
        100.0 * make_bars(2, n_words=16).topic_word_distr[:2], frozen=True
    ),
}


@pytest.mark.parametrize("known", KNOWN)
def test_a_batch_of_one_pass_is_that_of_the_local_estimator(known, family):
    """Sums by shard differ by rounding."""
    settings = {"learning_method": "batch", "split_merge": False, "max_iter": 1}
    settings |= {"n_components": 5, "init": "random", "random_state": 0, **family}
    settings |= {"topic_word_prior": KNOWN[known]}
    ours = HDP(**settings).fit(blocks_of(COUNTS))
    local = skbnp.HDP(**settings).fit(COUNTS)
    assert_allclose(ours.components_, local.components_, rtol=1e-6)
    # Those of the local estimator follow its sums once more.
    assert_allclose(ours.topic_weights_, local.topic_weights_, rtol=1e-4)


def test_no_topic_starts_from_a_document_that_judges(monkeypatch):
    begun, own = note_trials(monkeypatch), with_own_words(COUNTS)
    HDP(**SETTINGS | {"n_components": 100}).fit(blocks_of(own))
    ((topics, description),) = begun
    judges = np.unique((description.observed + description.held_out).indices)
    judges = judges[judges >= COUNTS.shape[1]]
    assert len(judges) == 30
    assert (topics[judges] == 0.0).all()
    assert (topics[COUNTS.shape[1] :].sum(axis=1) > 0.0).sum() == 90


def test_what_needs_the_memory_of_documents_is_refused():
    with pytest.raises(ValueError, match="memoized"):
        HDP(learning_method="memoized").fit(COUNTS)
    with pytest.raises(ValueError, match="whole minibatches"):
        HDP(variational_family="mean_field", split_merge=SplitMerge.paper()).fit(COUNTS)


# Groups, and streams ------------------------------------------------------------------


def labelled():
    """Blocks of documents in groups that use topics differently, and labels of rows."""
    rng = np.random.default_rng(0)
    topics, groups = (
        np.kron(np.eye(3), np.full(5, 0.2)),
        rng.integers(3, size=sum(CHUNKS)),
    )
    shares = np.array([rng.dirichlet(0.2 + 2.0 * np.eye(3)[g]) for g in groups])
    X = np.array([rng.multinomial(20, row @ topics) for row in shares])
    X[[3, 70]] = 0
    X[90:95] = 0
    return sp.csr_array(X * 1.0), np.array(["ash", "birch", "cedar"])[groups]


def test_groups_are_those_of_the_local_estimator_for_the_same_topics():
    X, names = labelled()
    with scripted_workers(ScriptedPool(2)) as client:
        remote = HDP(**SETTINGS, client=client).fit(blocks_of(X), groups=names)
    hdp = HDP(**SETTINGS).fit(blocks_of(X), groups=chunked(names))
    used = np.diff(X.indptr) > 0
    factors = check_groups(names, len(names)).taken(used)
    with Executor(None) as executor:
        posterior = hdp._posterior
        documents = LabelledDocuments.of(posterior, X[used], executor)
        local = learn_groups(None, posterior, factors, documents, 0.5, executor)
    for ours in (hdp._posterior.groups, remote._posterior.groups):
        assert_array_equal(ours.n_docs, local.n_docs)
        assert_allclose(ours.tables.toarray(), local.tables.toarray(), rtol=1e-12)
        assert_allclose(ours.judged, local.judged, rtol=1e-12)
    assert_array_equal(hdp.groups_, ["ash", "birch", "cedar"])
    assert hdp.factor_weights_[1] > 0.5


def test_labels_are_read_in_the_order_of_blocks():
    X, names = labelled()
    hdp = HDP(**SETTINGS).fit(blocks_of(X), groups=names)
    local, mixed = hdp._local(), np.where(np.arange(len(names)) % 2, names, None)
    for labels in (names, mixed, None):
        shares = hdp.transform(blocks_of(X), groups=labels).compute()
        assert_allclose(shares, local.transform(X, groups=labels), rtol=1e-9)
        score = hdp.score(chunked(X.toarray()), groups=labels)
        assert float(score) == pytest.approx(local.score(X, groups=labels))
    frame = pd.DataFrame({"tree": names, "year": np.arange(len(names)) % 2})
    assert HDP(**SETTINGS).fit(blocks_of(X), groups=frame).groups_["year"].tolist() == [
        0,
        1,
    ]
    assert HDP(**SETTINGS).fit(blocks_of(X), groups=2).groups_.tolist() == [0, 1]
    shares = HDP(**SETTINGS).fit_transform(blocks_of(X), groups=names).compute()
    assert_array_equal(shares, hdp.transform(blocks_of(X), groups=names).compute())
    for rows in (blocks_of(X), X):
        with pytest.raises(ValueError, match="each of 120 documents, got 119"):
            hdp.transform(rows, groups=names[1:])
        with pytest.raises(ValueError, match="each of 120 documents, got 119"):
            HDP(**SETTINGS).fit(rows, groups=names[1:])
    unknown = [dask.delayed(block) for block in blocks_of(X)]
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        hdp.transform(unknown, groups=names)
    assert_array_equal(
        HDP(**SETTINGS).fit(unknown, groups=names).group_weights_, hdp.group_weights_
    )


def test_chunks_of_a_stream_are_learned_in_this_process():
    X, names = labelled()
    hdp, local = HDP(random_state=0), skbnp.HDP(random_state=0)
    for begin in (0, 60):
        rows = slice(begin, begin + 60)
        parts = da.from_array(X[rows].toarray(), chunks=(25, -1))
        hdp.partial_fit(parts, groups=da.from_array(names[rows], chunks=25))
        local.partial_fit(X[rows], groups=names[rows])
    assert_same_fit(hdp, local)
    assert_array_equal(hdp.group_weights_, local.group_weights_)
    fitted = HDP(**SETTINGS).fit(blocks_of(X), groups=names)
    n_docs = fitted._posterior.groups.n_docs
    frame = dd.from_pandas(pd.DataFrame(X.toarray()[:20]), npartitions=2)
    fitted.partial_fit(frame, groups=names[:20])
    assert fitted._posterior.groups.n_docs.sum() == n_docs.sum() + 19
    with pytest.raises(ValueError, match="features"):
        fitted.partial_fit(X[:20, :9])


def test_a_warm_start_goes_on(family):
    settings = SETTINGS | family | {"split_merge": False, "max_iter": 2}
    hdp = HDP(**settings, warm_start=True).fit(blocks_of(COUNTS))
    n_steps = hdp.history_["step"][-1]
    hdp.fit(blocks_of(COUNTS))
    assert hdp.history_["step"][-1] == 2 * n_steps
    with pytest.raises(ValueError, match="features"):
        hdp.fit(COUNTS[:, :9])


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
        HDP(**SETTINGS | {"max_iter": 1}).fit(X)


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


# Checkpoints --------------------------------------------------------------------------


def test_checkpoints_of_other_fits_are_refused(tmp_path):
    path = tmp_path / "fit"
    assert stopped_after(2, fit_hdp, path=path)
    with pytest.raises(ValueError, match="n_components"):
        fit_hdp(path=path, n_components=7)
    with pytest.raises(ValueError, match="rows of X"):
        HDP(**SETTINGS).set_callbacks(Checkpoint(path)).fit(COUNTS)


def test_a_file_of_a_fit_on_a_cluster_is_loaded(tmp_path):
    """As it is so far, and goes on without a cluster."""
    path = tmp_path / "fit"
    fit = partial(fit_hdp, split_merge=False)
    assert stopped_after(3, fit, path=path)
    loaded = skbnp.load(path)
    assert isinstance(loaded, HDP)
    assert loaded.n_iter_ == 3
    whole = fit()
    assert_same_fit(loaded.fit(blocks_of(COUNTS)), whole)
    assert_same_fit(skbnp.load(path), whole)


@pytest.mark.parametrize("kind", [skbnp.HDP, HDP])
def test_dask_names_and_copies_what_was_learned(kind):
    """By fields of a dataclass, fits of the same parameters would be the same."""
    fits = [kind(3, split_merge=False, random_state=0) for _ in range(2)]
    fits[0].fit(COUNTS), fits[1].fit(COUNTS[::2])
    assert dask.base.tokenize(fits[0]) != dask.base.tokenize(fits[1])
    copied = dask.compute(dask.delayed(len)([]), [fits[0], dask.delayed(len)([])])
    assert_array_equal(copied[1][0].components_, fits[0].components_)


def test_a_folder_has_the_checkpoint_of_a_fit(tmp_path):
    """It goes on if it `resume`s, else begins anew, whatever fit the file is of."""
    fit = partial(fit_hdp, split_merge=False)
    folder, alone = {"checkpoint_dir": tmp_path / "fits"}, fit()
    for resume in (True, False):
        assert stopped_after(4, fit, **folder)
        with pytest.raises(ValueError, match="n_components"):
            fit(**folder, n_components=4, resume=True)
        # Eleven passes and the fit are written, or what is left of them.
        assert stopped_after(9, fit, **folder, resume=resume) == (not resume)
        assert_same_fit(fit(**folder, resume=True), alone)
        assert_same_fit(skbnp.load(tmp_path / "fits" / "fit.skbnp"), alone)
    with pytest.raises(ValueError, match="needs a checkpoint_dir"):
        fit_hdp(resume=True)


# Evaluation ---------------------------------------------------------------------------


def test_evaluation_is_lazy_where_rows_are(undisturbed):
    blocks = da.from_array(COUNTS.toarray(), chunks=(CHUNKS, (COUNTS.shape[1],)))
    result = undisturbed.transform(blocks)
    assert isinstance(result, da.Array)
    assert result.shape == (120, undisturbed.n_components_)
    assert_array_equal(result.compute(), undisturbed.transform(COUNTS))
    score = undisturbed.score(blocks)
    assert isinstance(score, da.Array)
    assert_allclose(score.compute(), undisturbed.score(COUNTS), rtol=1e-12)
