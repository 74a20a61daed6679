"""Fits go on from files, whatever ended them, to the bits of the unbroken fit."""

import copy
import errno
import json
import os
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skbnp
import skbnp.dask
from checks.callbacks import Recorder, StopAfter, Trouble
from checks.estimators import (
    DAILY,
    every_estimator,
    every_kind,
    fresh,
    takes_warm_start,
)
from checks.lineages import check_lineage
from checks.long import along_diagonal, daily
from checks.states import assert_same, learned
from skbnp import HDP, DependentTrees, GibbsHDP, KnownTopics
from skbnp.callbacks import Checkpoint
from skbnp.datasets import make_bars
from skbnp.estimators import SplitMerge
from skbnp.estimators._checkpoints import FitRecord
from skbnp.inspection import report
from skbnp.utils.archive import Archive, text_of, write_archive, written
from skbnp.utils.plain import to_plain

N_PASSES = 6


def break_off(estimator, X, path, n_passes):
    """Fit until an error, with a file of the passes before."""
    estimator.set_callbacks(Checkpoint(path), Trouble(n_passes + 1, "begin"))
    with pytest.raises(OSError, match="no space left"):
        estimator.fit(X)


def check_goes_on(estimator, X, path):
    """Raise unless fits that were broken off go on to the bits of the unbroken one."""
    estimator = fresh(estimator, max_iter=N_PASSES)
    whole = clone(estimator).fit(X)
    for n_passes in (1, 4):
        break_off(clone(estimator), X, path, n_passes)
        loaded = skbnp.load(path)
        assert loaded.n_iter_ == n_passes
        assert_same(learned(whole), learned(loaded.fit(X)))
        path.unlink()


@every_estimator(daily=DAILY)
def test_a_fit_goes_on_to_the_bits_of_the_unbroken_one(estimator, rows, tmp_path):
    check_goes_on(estimator, rows, tmp_path / "fit")


MEAN_FIELD = {"variational_family": "mean_field", "warm_up": 1, "max_iter": 20}
FIXED = MEAN_FIELD | {"split_merge": False, "random_state": 0}
MOVING = {
    "no-trials": HDP(40, split_merge=False, max_iter=20, random_state=0),
    "memoized": HDP(12, learning_method="memoized", **FIXED),
    "online": HDP(12, **FIXED),
    "paper": HDP(12, split_merge=SplitMerge.paper(), random_state=0, **MEAN_FIELD),
}


@pytest.mark.long
@pytest.mark.parametrize("name", daily(1, MOVING))
def test_moves_go_on(name, tmp_path):
    estimator = MOVING[name]
    X, path = make_bars(150, side=4, random_state=1).data, tmp_path / "fit"
    whole = clone(estimator).fit(X)
    for n_passes in np.linspace(2, whole.n_iter_ - 2, 3).astype(int).tolist():
        break_off(clone(estimator), X, path, n_passes)
        assert_same(learned(whole), learned(skbnp.load(path).fit(X)))
        path.unlink()


TRIED = {
    "one split": HDP(12, random_state=0),
    "all splits": HDP(40, random_state=0),
    "memoized": HDP(12, learning_method="memoized", random_state=0, **MEAN_FIELD),
}


@pytest.mark.long
@pytest.mark.parametrize("name", daily(1, TRIED))
def test_trials_begin_again_with_the_topics_so_far(name, tmp_path, request):
    """Topics that were accepted learn on, in the passes that are left."""
    if name == "all splits":
        request.getfixturevalue("all_splits")
    estimator, path = TRIED[name], tmp_path / "fit"
    X = make_bars(150, side=4, random_state=1).data
    whole = clone(estimator).fit(X)
    for n_passes in np.linspace(2, whole.n_iter_ - 2, 3).astype(int).tolist():
        break_off(clone(estimator), X, path, n_passes)
        loaded = skbnp.load(path).fit(X)
        assert_same(learned(loaded), learned(skbnp.load(path)))  # the file has it
        assert loaded.n_iter_ <= estimator.max_iter
        assert loaded._posterior.trials_ended or estimator.max_iter == 20
        check_lineage(loaded)
        assert loaded.score(X) > whole.score(X) - 0.05
        path.unlink()


@every_kind()
def test_the_same_call_goes_on_and_then_begins_anew(estimator, rows, tmp_path):
    path = tmp_path / "folder" / "fit"
    break_off(clone(estimator), rows, path, 2)
    begun = clone(estimator).set_callbacks(Checkpoint(path, every=9), StopAfter(9))
    assert_same(learned(begun.fit(rows)), learned(clone(estimator).fit(rows)))
    assert begun.n_iter_ == estimator.max_iter
    again = clone(estimator).set_callbacks(Checkpoint(path), Trouble(2, "begin"))
    with pytest.raises(OSError, match="no space left"):  # it has made one pass
        again.fit(rows[:40])
    assert skbnp.load(path).n_iter_ == 1


@every_kind()
def test_a_file_does_not_change_the_fit(estimator, fitted, rows, tmp_path):
    path = tmp_path / "fit"
    estimator.set_callbacks(Checkpoint(path, every=2)).fit(rows)
    assert_same(learned(fitted), learned(estimator))
    assert_same(learned(fitted), learned(skbnp.load(path)))
    assert [one.name for one in tmp_path.iterdir()] == ["fit"]


@every_kind(takes_warm_start)
def test_a_warm_start_goes_on(estimator, rows, tmp_path):
    estimator.set_params(warm_start=True)
    whole = clone(estimator).fit(rows).fit(rows)
    begun, path = clone(estimator).fit(rows), tmp_path / "fit"
    break_off(begun, rows, path, 2)
    with pytest.raises(ValueError, match="with other start"):
        clone(estimator).set_callbacks(Checkpoint(path)).fit(rows)
    assert_same(learned(whole), learned(skbnp.load(path).fit(rows)))


@every_kind()
def test_a_stream_is_written_after_each_call(estimator, rows, tmp_path):
    path = tmp_path / "fit"
    whole = clone(estimator).partial_fit(rows[:30]).partial_fit(rows[30:])
    estimator.set_callbacks(Checkpoint(path)).partial_fit(rows[:30])
    assert_same(learned(estimator), learned(skbnp.load(path)))
    assert_same(learned(whole), learned(skbnp.load(path).partial_fit(rows[30:])))


@pytest.mark.parametrize("n_passes", daily(1, [5, 1, 3, 7]))
def test_trees_over_epochs_go_on_amid_any_epoch(n_passes, counts, tmp_path):
    labels, path = np.repeat(["a", "b", "c"], 20), tmp_path / "fit"
    trees = DependentTrees(max_iter=3, tol=0.0, random_state=0)
    whole = clone(trees).fit(counts, epochs=labels)
    trees.set_callbacks(Checkpoint(path), Trouble(n_passes + 1, "begin"))
    with pytest.raises(OSError, match="no space left"):
        trees.fit(counts, epochs=labels)
    with pytest.raises(ValueError, match="with other rows of X"):
        skbnp.load(path).fit(counts, epochs=labels[::-1])
    loaded = skbnp.load(path).fit(counts, epochs=labels)
    assert_same(learned(whole), learned(loaded))


# -- other fits, and damage ------------------------------------------------------------


def bars():
    return make_bars(60, side=4, random_state=0).data


def frame(names):
    return pd.DataFrame(bars().toarray(), columns=[f"{names}{j}" for j in range(16)])


OTHERS = {
    "rows of X": lambda hdp: hdp.fit(frame("a").iloc[::-1]),
    "names of columns": lambda hdp: hdp.fit(frame("b")),
    "parameter tol": lambda hdp: hdp.set_params(tol=0.5).fit(frame("a")),
    "parameter max_iter": lambda hdp: hdp.set_params(max_iter=8).fit(frame("a")),
}


@along_diagonal(("name", "is_loaded"), OTHERS, [True, False])
def test_another_fit_is_refused_and_the_file_stays(name, is_loaded, tmp_path):
    path, X = tmp_path / "fit", frame("a")
    hdp = HDP(4, max_iter=9, random_state=np.random.RandomState(0))
    break_off(clone(hdp), X, path, 2)
    content = path.read_bytes()
    other = clone(hdp).set_callbacks(Checkpoint(path))
    other = skbnp.load(path) if is_loaded else other
    with pytest.raises(ValueError, match=f"with other .*{name}.* give another path"):
        OTHERS[name](other)
    assert path.read_bytes() == content
    other = (
        skbnp.load(path) if is_loaded else clone(hdp).set_callbacks(Checkpoint(path))
    )
    assert other.set_params(n_jobs=2, verbose=0).fit(sp_frame(X)).n_iter_ > 2


@pytest.mark.parametrize(
    "made",
    [
        lambda values: values,
        sp.csr_array,
        pd.DataFrame,
        lambda values: KnownTopics(values, frozen=True),
        lambda values: {"a": values[0]},
        lambda values: {"a": values[0].astype(object)},
    ],
    ids=["array", "sparse", "frame", "known", "mapping", "objects"],
)
def test_parameters_with_arrays_differ_where_one_entry_does(made):
    """Their texts leave out the middle of a large array."""
    values = np.ones((3, 2000))
    other = values.copy()
    other[0, 1000] = 2.0
    assert text_of(made(values)) == text_of(made(values.copy()))
    assert text_of(made(values)) != text_of(made(other))


def sp_frame(X):
    """The same rows and names, as a sparse frame of other numbers."""
    return X.astype(np.float32).astype(pd.SparseDtype(np.float32, 0.0))


class WriteBeside(Recorder):
    """Let another fit, which has not ended, write the file before a pass."""

    def __init__(self, path, n_passes):
        super().__init__()
        self.path, self.n_passes = path, n_passes

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        super().on_fit_task_begin(estimator, context)
        if self.events[-1] == "begin pass":
            self.n_passes -= 1
            if self.n_passes == 0:
                other = self.path.with_name("other")
                break_off(HDP(5, max_iter=9), bars(), other, 2)
                os.replace(other, self.path)


@pytest.mark.parametrize(("every", "n_passes"), [(1, 1), (1, 4), (9, 1)])
def test_fits_side_by_side_are_refused_one_file(every, n_passes, tmp_path):
    """Amid a fit, or at its end, where the file of the other stays."""
    path, hdp = tmp_path / "fit", HDP(4, max_iter=6, random_state=0)
    hdp.set_callbacks(Checkpoint(path, every=every), WriteBeside(path, n_passes))
    with pytest.raises(ValueError, match=r"at the same time.*\{fit\}\.skbnp"):
        hdp.fit(bars())
    assert hdp.n_iter_ >= n_passes
    assert "rows of X" in Archive.read(path).label


@pytest.mark.parametrize("n_jobs", daily(1, [1, 2]))
def test_candidates_of_a_search_have_files_of_their_own(n_jobs, tmp_path):
    path = tmp_path / "fits" / "{fit}.skbnp"
    hdp = HDP(4, max_iter=3, random_state=0).set_callbacks(Checkpoint(path))
    search = GridSearchCV(hdp, {"n_components": [3, 4]}, cv=2, n_jobs=n_jobs)
    search.fit(bars())
    files = sorted(path.parent.iterdir())
    assert len(files) == 5  # of two folds each, and of all rows
    starts = [len(skbnp.load(file).lineage_[0].children) for file in files]
    assert sorted(starts) in ([3, 3, 3, 4, 4], [3, 3, 4, 4, 4])
    best = clone(search.best_estimator_)
    break_off(best.set_params(max_iter=9), bars(), path, 2)
    assert len(list(path.parent.iterdir())) > 5
    going = best.set_callbacks(Checkpoint(path)).fit(bars())
    whole = HDP(**best.get_params()).fit(bars())
    assert_array_equal(going.components_, whole.components_)


def fields_of(account):
    """Fields of the learner of an account, a dict that stands for another."""
    return account["learner"]["__holds__"]


DAMAGED_ACCOUNTS = {
    "no posterior": lambda account, fitted: fitted.pop("_posterior"),
    "no cache": lambda account, fitted: fields_of(account).update(cache=[]),
    "no whole number": lambda account, fitted: fields_of(account).update(
        n_passes=1e300
    ),
}


@pytest.mark.parametrize("name", DAMAGED_ACCOUNTS)
def test_a_learner_that_cannot_go_on_is_refused(name, tmp_path):
    X, path = bars(), tmp_path / "fit"
    hdp = HDP(4, max_iter=6, split_merge=False, random_state=0)
    break_off(clone(hdp), X, path, 4)
    read = Archive.read(path)
    content = read.content()
    DAMAGED_ACCOUNTS[name](content["account"], content["estimator"])
    write_archive(path, read.label, content)
    going = clone(hdp).set_callbacks(Checkpoint(path))
    with pytest.raises(ValueError, match="is damaged"):
        going.fit(X)


def test_sweeps_beyond_those_of_the_fit_are_refused(tmp_path):
    path, gibbs = tmp_path / "fit", GibbsHDP(max_iter=4, random_state=0)
    for change in ({"n_sweeps": 2**40}, {"goes_on": np.zeros(0)}):
        break_off(clone(gibbs), bars(), path, 2)
        read = Archive.read(path)
        content = read.content()
        content["account"].update(change)
        write_archive(path, read.label, content)
        with pytest.raises(ValueError, match="is damaged"):
            clone(gibbs).set_callbacks(Checkpoint(path)).fit(bars())
        path.unlink()


# -- how files are written -------------------------------------------------------------


def test_two_write_one_path_at_the_same_time(tmp_path):
    path = tmp_path / "fit"
    with written(path) as one:
        one.write(b"one")
        with written(path) as other:
            other.write(b"other")
        assert path.read_bytes() == b"other"
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


FIT = HDP(4, max_iter=2, random_state=0)
WRITERS = {
    "save": lambda path: skbnp.save(FIT, path),
    "checkpoint": lambda path: clone(FIT).set_callbacks(Checkpoint(path)).fit(bars()),
    "report": lambda path: report(clone(FIT).fit(bars()), bars(), path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_file_of_before_alone(name, tmp_path, monkeypatch):
    path = tmp_path / "fit"
    WRITERS[name](path)
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}

    def fail(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        WRITERS[name](path)
    assert before == {one.name: one.read_bytes() for one in tmp_path.iterdir()}


def test_drafts_of_killed_processes_are_removed_after_a_day(tmp_path):
    old, young = (tmp_path / f".skbnp-{name}.part" for name in ("old", "young"))
    for draft in (old, young):
        draft.write_bytes(b"")
    os.utime(old, (0, 0))
    skbnp.save(HDP(4), tmp_path / "fit")
    assert not old.exists()
    assert young.exists()


def test_what_is_no_file_is_written_as_it_is(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "fit")
    skbnp.save(HDP(4), link)
    assert link.is_symlink()
    with written(Path(os.devnull)) as file:
        file.write(b"a")
    assert not Path(os.devnull).is_file()


def test_members_that_overlap_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "fit"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a0.npy", bytes(2**20))
        for number in range(1, 2000):
            info = copy.copy(archive.infolist()[0])
            info.filename = f"a{number}.npy"
            archive.filelist.append(info)
    assert path.stat().st_size < 2**21
    with pytest.raises(ValueError, match="its members overlap"):
        skbnp.load(path)


def test_a_file_that_is_gone_is_missed(tmp_path):
    hdp, path = HDP(4, max_iter=6, random_state=0), tmp_path / "fit"
    break_off(clone(hdp), bars(), path, 2)
    loaded = skbnp.load(path)
    content = path.read_bytes()
    for one in tmp_path.iterdir():
        one.unlink()
    with pytest.raises(ValueError, match="no longer has the unfinished fit"):
        loaded.fit(bars())
    path.write_bytes(content)
    assert_same(learned(clone(hdp).fit(bars())), learned(loaded.fit(bars())))
    assert_same(learned(loaded), learned(loaded.fit(bars())))  # anew


def test_files_hold_data_alone(tmp_path):
    path = tmp_path / "fit"
    break_off(HDP(4, max_iter=40, random_state=0), bars(), path, 20)
    with zipfile.ZipFile(path) as file:
        names = file.namelist()
        assert set(names[-2:]) == {"text.json", "digest.txt"}
        assert all(name.endswith(".npy") for name in names[:-2])
        assert "skbnp." not in json.dumps(json.loads(file.read("text.json")))
        arrays = [np.load(file.open(n), allow_pickle=False) for n in names[:-2]]
    rows = sp.csr_array(bars())
    assert not any(
        np.array_equal(array, rows.data[: array.size])
        for array in arrays
        if array.size > 40
    )  # no row of X


# -- what is saved and loaded ----------------------------------------------------------


@every_kind()
def test_an_estimator_is_saved_and_loaded(estimator, fitted, rows, tmp_path):
    path = tmp_path / "fit"
    skbnp.save(fitted, path)
    loaded = skbnp.load(path)
    assert_same(learned(fitted), learned(loaded))
    assert repr(loaded) == repr(fitted)
    assert_same(loaded.transform(rows), fitted.transform(rows))
    skbnp.save(estimator, path)
    assert not hasattr(skbnp.load(path), "n_iter_")


def test_names_and_models_to_start_from_are_saved(tmp_path):
    hdp = HDP(4, max_iter=2, random_state=np.random.RandomState(3)).fit(frame("a"))
    gibbs = GibbsHDP(init=hdp, max_iter=2, random_state=0).fit(frame("a"))
    skbnp.inspection.set_topic_names(gibbs, {gibbs.component_ids_[0]: "first"})
    skbnp.save(gibbs, tmp_path / "fit")
    loaded = skbnp.load(tmp_path / "fit")
    assert loaded.feature_names_in_.tolist() == gibbs.feature_names_in_.tolist()
    assert loaded.topic_names_ == gibbs.topic_names_
    assert_same(learned(loaded.init), learned(hdp))
    assert_same(loaded.init.random_state, hdp.random_state)
    assert_same(learned(loaded.fit(frame("a"))), learned(gibbs.fit(frame("a"))))


def test_what_is_no_file_of_an_estimator_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        skbnp.load(tmp_path / "fit")
    with pytest.raises(ValueError, match="is damaged"):
        skbnp.load(tmp_path)
    (tmp_path / "fit").write_text("a")
    with pytest.raises(ValueError, match=r"is damaged \(BadZipFile"):
        skbnp.load(tmp_path / "fit")
    with pytest.raises(TypeError, match=r"in a Pipeline or a search, .* joblib\.dump"):
        skbnp.save(make_pipeline(HDP()), tmp_path / "other")
    write_archive(tmp_path / "fit", {"class": "dict"}, to_plain({}))
    with pytest.raises(ValueError, match="'dict', which is no estimator"):
        skbnp.load(tmp_path / "fit")


def test_who_does_not_write_a_file_says_so(tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit")
    for every in (0, 1.5, True):
        with pytest.raises(ValueError, match="every must be a positive integer"):
            Checkpoint(tmp_path / "fit", every=every)
    with pytest.raises(TypeError, match="got LogisticRegression"):
        checkpoint.setup(LogisticRegression(), None)
    hdp = HDP(total_samples=partial(int))
    hdp._validate_params = lambda: None
    with pytest.raises(TypeError, match=r"total_samples=.* is none: .*no partial"):
        FitRecord(hdp.set_callbacks(checkpoint), sp.csr_array(bars()))
    assert not list(tmp_path.iterdir())
