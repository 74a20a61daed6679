"""Checkpoints hold data alone, and are whole whatever happens."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from skbnp.dask import _checkpoints
from skbnp.dask._checkpoints import Checkpoints, decode, encode
from skbnp.inference.edits import Lineage
from skbnp.inference.shards import World
from skbnp.models.dependent_trees.model import EpochStats
from skbnp.trees import Tree

ORIGIN = {"class": "A", "rows of X": "abc"}


def through(value):
    arrays = {}
    return decode(encode(value, arrays), arrays)


def test_values_come_back_as_they_were():
    shared = np.arange(3.0)
    value = {
        "numbers": [1, 2**100, 0.1, float("inf"), True, None, "text"],
        "nested": ({"a": (1, [2.5])}, (), []),
        "shared": [shared, shared],
        "scalars": (np.float64(0.1), np.datetime64("2020-01-05")),
        "matrix": sp.csr_array(np.eye(3)[[0, 2, 1]]),
    }
    found = through(value)
    assert found["numbers"] == value["numbers"]
    assert list(map(type, found["numbers"])) == list(map(type, value["numbers"]))
    assert found["nested"] == value["nested"]
    assert found["shared"][0] is found["shared"][1]
    assert found["scalars"] == value["scalars"]
    assert isinstance(found["scalars"][1], np.datetime64)
    assert_array_equal(found["matrix"].toarray(), value["matrix"].toarray())


@pytest.mark.parametrize("value", [object(), len, {1}, np.array([{}]), b"bytes"])
def test_what_is_no_data_is_refused(value):
    with pytest.raises(TypeError, match="holds no"):
        encode([value], {})


def test_objects_of_the_package_come_back(tmp_path):
    tree = Tree.from_parents([-1, 0, 0, 1])
    stats = EpochStats.zero(4, 6)
    account = {"tree": tree, "stats": [stats, stats], "world": World(stats)}
    account["log"] = [Lineage(0, "init", (), (1, 2))]
    checkpoints = Checkpoints(tmp_path, ORIGIN)
    checkpoints.write(3, account)
    found = checkpoints.read()
    assert found["tree"] == tree
    assert found["stats"][0] is found["stats"][1]
    assert found["world"].name == account["world"].name
    assert found["world"].content is found["stats"][0]
    assert found["log"] == account["log"]


@dataclass
class Strange:
    """None of the package's."""

    value: int


def test_other_objects_are_refused(tmp_path):
    with pytest.raises(TypeError, match="Strange"):
        Checkpoints(tmp_path, ORIGIN).write(1, {"a": Strange(1)})
    assert not list(tmp_path.glob("*.npz"))


def test_two_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, ORIGIN)
    for number in range(1, 5):
        checkpoints.write(number, {"number": number})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "pass-000003.npz",
        "pass-000004.npz",
    ]
    assert checkpoints.read() == {"number": 4}
    checkpoints.clear()
    assert checkpoints.read() is None


@pytest.mark.parametrize("damage", ["cut", "empty", "bits", "draft"])
def test_a_damaged_one_is_passed_over(tmp_path, damage):
    checkpoints = Checkpoints(tmp_path, ORIGIN)
    for number in (1, 2):
        checkpoints.write(number, {"number": number, "array": np.arange(1000.0)})
    path = tmp_path / "pass-000002.npz"
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "bits":
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    else:
        path.rename(path.with_suffix(".part"))
    assert checkpoints.read()["number"] == 1
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("moment", ["savez", "replace", "unlink"])
def test_an_end_at_any_moment_leaves_a_whole_one(tmp_path, moment, monkeypatch):
    checkpoints = Checkpoints(tmp_path, ORIGIN)
    for number in (1, 2):
        checkpoints.write(number, {"number": number})

    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    if moment == "savez":
        monkeypatch.setattr(_checkpoints.np, "savez", fail)
    elif moment == "replace":
        monkeypatch.setattr(_checkpoints.os, "replace", fail)
    else:
        monkeypatch.setattr(_checkpoints.Path, "unlink", fail)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.write(3, {"number": 3})
    monkeypatch.undo()
    wanted = 3 if moment == "unlink" else 2
    assert checkpoints.read() == {"number": wanted}


def test_another_fit_is_refused(tmp_path):
    Checkpoints(tmp_path, ORIGIN).write(1, {})
    other = Checkpoints(tmp_path, ORIGIN | {"rows of X": "abe", "parameter tol": "0"})
    with pytest.raises(ValueError, match=r"with other parameter tol, rows of X\."):
        other.read()
