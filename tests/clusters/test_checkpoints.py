"""Checkpoints hold data alone, and are whole whatever happens."""

import hashlib
import json
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skbnp.trees import Tree
from skbnp.utils import archive
from skbnp.utils.archive import FitFile, put_aside
from skbnp.utils.plain import from_plain, to_plain

LABEL = {"class": "A", "rows of X": "abc"}


@pytest.mark.parametrize("value", [object(), len, {1}, np.array([["a"]], object)])
def test_what_is_no_data_is_refused(value, tmp_path):
    with pytest.raises(TypeError, match="holds no"):
        write(FitFile(tmp_path / "fit", 1), {"a": value})
    assert not list(tmp_path.iterdir())


def write(file, content):
    file.write(LABEL, to_plain(content))


def test_the_last_is_kept(tmp_path):
    file = FitFile(tmp_path / "fit", 1)
    assert file.read(from_plain) is None
    for number in range(1, 5):
        write(file, {"number": number})
    assert [path.name for path in tmp_path.iterdir()] == ["fit"]
    assert file.read(from_plain) == {"number": 4}


def _content(number):
    arrays = {"array": np.arange(1000.0), "other": np.arange(1000.0)[::-1].copy()}
    return {"number": number, **arrays, "tree": Tree.from_parents([-1, 0, 0, 1])}


def _with_members(path, change):
    """Write a checkpoint again, with other members or, without a change, compressed."""
    kind = zipfile.ZIP_STORED if change else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    if change:
        change(members)
    with zipfile.ZipFile(path, "w", kind) as file:
        for name, content in members.items():
            file.writestr(name, content)


def _text(**changes):
    def damage(members):
        text = json.loads(members["text.json"]) | changes
        members["text.json"] = json.dumps(text).encode()

    return damage


def _sealed(change):
    """Damage what the digest says, too: nothing but its content can tell."""

    def damage(members):
        change(members)
        members.pop("digest.txt")
        digest = hashlib.blake2b(digest_size=16)
        for member in sorted(members):
            archive._add_member(digest, member, members[member])
        members["digest.txt"] = digest.hexdigest().encode()

    return damage


#: What the digest tells, and what is damage although the digest is right.
DAMAGES = {
    "compressed": None,
    "no digest": lambda members: members.pop("digest.txt"),
    "other array": lambda members: members.update({"a0.npy": members["a1.npy"]}),
    "no text": _sealed(lambda members: members.pop("text.json")),
    "no JSON": _sealed(lambda members: members.update({"text.json": b"{'a': 1}"})),
    "no array": _sealed(lambda members: members.pop("a0.npy")),
    "cut array": _sealed(
        lambda members: members.update({"a0.npy": members["a0.npy"][:99]})
    ),
    "other format": _sealed(_text(format="checkpoint/0")),
    "account of a number": _sealed(_text(content={"~": 5})),
    "unknown array": _sealed(_text(content={"~": "a99"})),
}


@pytest.mark.parametrize("name", sorted(DAMAGES))
def test_a_damaged_one_is_refused(tmp_path, name):
    file = FitFile(tmp_path / "fit", 1)
    write(file, _content(2))
    assert file.read(from_plain)["number"] == 2
    _with_members(file.path, DAMAGES[name])
    with pytest.raises(ValueError, match=r"fit' is damaged \(.*Remove it"):
        file.read(from_plain)


def test_any_bit_that_is_damaged_is_noticed(tmp_path, seed):
    file, rng = FitFile(tmp_path / "fit", 1), np.random.default_rng(seed)
    write(file, _content(1))
    path = file.path
    content = path.read_bytes()
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        if rng.random() < 0.1:
            damaged = damaged[: rng.integers(len(content))]
        path.write_bytes(damaged)
        try:
            read = file.read(from_plain)
        except ValueError:
            continue
        # What no archive reads: dates, say.
        assert put_aside(to_plain(read), {}) == put_aside(to_plain(_content(1)), {})
        assert_array_equal(read["array"], _content(1)["array"])


@pytest.mark.parametrize("moment", ["writestr", "replace"])
def test_an_end_at_any_moment_leaves_a_whole_one(tmp_path, moment, monkeypatch):
    file = FitFile(tmp_path / "fit", 1)
    for number in (1, 2):
        write(file, {"number": number})

    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    if moment == "writestr":
        monkeypatch.setattr(archive.zipfile.ZipFile, "writestr", fail)
    else:
        monkeypatch.setattr(archive.os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        write(file, {"number": 3})
    monkeypatch.undo()
    assert file.read(from_plain) == {"number": 2}
