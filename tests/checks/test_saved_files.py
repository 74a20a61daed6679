"""Saved files are loaded, whatever classes and fields are called now."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io as sio

import skbnp
from checks.estimators import INSTANCES
from checks.renamed import rename_internals
from data.make_saved import CHECKPOINTS, FOLDER, SAVED, rows_of
from skbnp.dask._checkpoints import Checkpoints
from skbnp.utils.plain import from_plain, registered

#: What a learner on shards shares with its driver, beside the posterior.
N_OUTSIDE = 5


def load(name):
    """Load an estimator of `tests/data`."""
    path = FOLDER / f"{name}.skops"
    types = sio.get_untrusted_types(file=path)
    assert all(one.startswith("skbnp.estimators._") for one in types)
    return sio.load(path, trusted=types)


def read(name, folder):
    """Read a checkpoint of `tests/data`; its learner too, where it has one."""
    path = folder / "pass-000001.npz"
    path.write_bytes(gzip.decompress((FOLDER / f"{name}.npz.gz").read_bytes()))
    with zipfile.ZipFile(path) as archive:
        origin = json.loads(archive.read("text.json"))["label"]
    account = Checkpoints(folder, origin).read()
    if "learner" in account:
        # Shards, the local step and what ends a fit are in no file.
        outside = account["posterior"], *N_OUTSIDE * [None]
        return account, from_plain(account["learner"], outside)
    return account, None


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_estimator_is_loaded(name):
    estimator, rows = load(name), rows_of(name)
    expected = np.load(FOLDER / f"{name}.npy")
    np.testing.assert_allclose(estimator.transform(rows[:3]), expected, atol=1e-6)
    estimator.partial_fit(rows)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_is_read(name, tmp_path):
    account, learner = read(name, tmp_path)
    assert account["posterior"].state.n_components > 0
    if name == "hdp-shards":
        assert learner.posterior.state.burstiness is not None
        assert learner.run.monitor.end_pass(1.0, is_exact_pass=True) is False


def test_there_is_a_file_of_every_estimator():
    kinds = {type(estimator) for estimator in INSTANCES.values()}
    assert kinds == {type(INSTANCES[name]) for name in SAVED.values()}


def test_files_name_no_module_but_that_of_the_estimator():
    for name in SAVED:
        with zipfile.ZipFile(FOLDER / f"{name}.skops") as archive:
            modules = re.findall(rb"skbnp\.[\w.]+", archive.read("schema.json"))
        assert set(modules) == {type(load(name)).__module__.encode()}
    for name in CHECKPOINTS:
        content = gzip.decompress((FOLDER / f"{name}.npz.gz").read_bytes())
        assert b"skbnp." not in content


def test_fields_of_files_stay_when_attributes_move():
    for tag, form in registered().items():
        shared = [name for name in form.names if name in form.attributes]
        assert shared == [name for name in form.attributes if name in form.names], tag


def test_names_of_fields_are_listed_apart_from_those_of_attributes():
    for tag, form in registered().items():
        is_inner = form.kind is not sp.csr_array and form.make is None
        has_fields = form.attributes and not tag.startswith("test-")
        assert form.is_listed or not (is_inner and has_fields), tag


@pytest.mark.long  # a copy of the package, compiled again
def test_files_are_loaded_after_classes_and_fields_are_renamed(tmp_path):
    shutil.copytree(Path(skbnp.__file__).parent, tmp_path / "skbnp", symlinks=True)
    columns = {column for name in SAVED for column in load(name).history_}
    classes, fields = rename_internals(tmp_path / "skbnp", columns)
    assert len(classes) > 50
    assert len(fields) > 100
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from checks.test_saved_files import CHECKPOINTS, SAVED, load, read, rows_of\n"
        "import skbnp\n"
        f"assert skbnp.__file__.startswith({str(tmp_path)!r})\n"
        "for name in SAVED:\n"
        "    load(name).transform(rows_of(name)[:3])\n"
        "for name in CHECKPOINTS:\n"
        f"    read(name, Path({str(tmp_path)!r}))\n"
    )
    path = os.pathsep.join([str(tmp_path), str(FOLDER.parent)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
