"""Checkpoints hold data alone, and are whole whatever happens."""

import hashlib
import json
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import skbnp.dask
from skbnp.datasets import make_bars
from skbnp.trees import Tree
from skbnp.utils import archive
from skbnp.utils.archive import FitFile, encode
from skbnp.utils.plain import from_plain, to_plain

LABEL = {"class": "A", "rows of X": "abc"}


@pytest.mark.parametrize(
    "value", [object(), len, {1}, np.array([{}]), np.array([["a"]], object)]
)
def test_what_is_no_data_is_refused(value):
    with pytest.raises(TypeError, match="holds no"):
        encode([value], {})


@dataclass
class Strange:
    """None of the package's."""

    value: int


def test_other_objects_are_refused(tmp_path):
    with pytest.raises(TypeError, match="Strange"):
        write(FitFile(tmp_path / "fit", 1), {"a": Strange(1)})
    assert not list(tmp_path.iterdir())


def write(file, content):
    file.write(LABEL, to_plain(content))


def test_two_are_kept(tmp_path):
    file = FitFile(tmp_path / "fit", 1)
    assert file.read(from_plain) is None
    for number in range(1, 5):
        write(file, {"number": number})
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["fit", "fit.previous"]
    assert file.read(from_plain) == {"number": 4}
    (tmp_path / "fit").unlink()
    assert file.read(from_plain) == {"number": 3}


def _content(number):
    arrays = {"array": np.arange(1000.0), "other": np.arange(1000.0)[::-1].copy()}
    return {"number": number, **arrays, "tree": Tree.from_parents([-1, 0, 0, 1])}


def _with_members(path, change):
    """Write a checkpoint again, with other members."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)


def _swap(members):
    members["a0.npy"], members["a1.npy"] = members["a1.npy"], members["a0.npy"]


def _text(change):
    def damage(members):
        text = json.loads(members["text.json"])
        changed = change(text)
        members["text.json"] = json.dumps(text if changed is None else changed).encode()

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


MEMBERS = {
    "no digest": lambda members: members.pop("digest.txt"),
    "other digest": lambda members: members.update({"digest.txt": b"abc"}),
    "no text": lambda members: members.pop("text.json"),
    "no JSON": lambda members: members.update({"text.json": b"{'a': 1}"}),
    "no array": lambda members: members.pop("a0.npy"),
    "cut array": lambda members: members.update({"a0.npy": members["a0.npy"][:99]}),
    "swapped arrays": _swap,
    **{
        name: _text(change)
        for name, change in {
            "no account": lambda text: text.pop("content") and None,
            "no format": lambda text: text.pop("format") and None,
            "other format": lambda text: text.update(format="checkpoint/0"),
            "a list": lambda text: [text],
            "account of a number": lambda text: text.update(content={"~": 5}),
            "unknown array": lambda text: text.update(
                content={"~": "array", "n": 0, "of": "a99"}
            ),
        }.items()
    },
}  # fmt: skip
#: What is damage although the digest is right.
TOLD_BY_DIGEST = {"no digest", "other digest", "swapped arrays"}


def _of_file(path, damage):
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "bits":
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    elif damage == "compressed":
        with zipfile.ZipFile(path) as file:
            members = {name: file.read(name) for name in file.namelist()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, one in members.items():
                file.writestr(name, one)


DAMAGES = {
    **{
        f"file: {name}": partial(_of_file, damage=name)
        for name in ("cut", "bits", "compressed")
    },
    **{name: partial(_with_members, change=change) for name, change in MEMBERS.items()},
    **{
        f"{name}, sealed": partial(_with_members, change=_sealed(MEMBERS[name]))
        for name in MEMBERS.keys() - TOLD_BY_DIGEST
    },
}


@pytest.mark.parametrize("name", sorted(DAMAGES))
def test_a_damaged_one_is_passed_over(tmp_path, name):
    file = FitFile(tmp_path / "fit", 1)
    for number in (1, 2):
        write(file, _content(number))
    assert file.read(from_plain)["number"] == 2
    DAMAGES[name](file.path)
    message = r"fit \(.*\)\. The fit goes on from fit.previous"
    with pytest.warns(UserWarning, match=message):
        content = file.read(from_plain)
    assert content["number"] == 1
    assert content["tree"] == _content(1)["tree"]
    DAMAGES[name](file.previous)
    message = "is whole: fit .* fit.previous .* Remove it"
    with pytest.raises(ValueError, match=message):
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
        assert encode(to_plain(read), {}) == encode(to_plain(_content(1)), {})
        assert_array_equal(read["array"], _content(1)["array"])


@pytest.mark.parametrize("moment", ["writestr", "replace", "unlink"])
def test_an_end_at_any_moment_leaves_a_whole_one(tmp_path, moment, monkeypatch):
    file = FitFile(tmp_path / "fit", 1)
    for number in (1, 2):
        write(file, {"number": number})

    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    if moment == "writestr":
        monkeypatch.setattr(archive.zipfile.ZipFile, "writestr", fail)
    elif moment == "replace":
        monkeypatch.setattr(archive.os, "replace", fail)
    else:
        monkeypatch.setattr(Path, "unlink", fail)
    with pytest.raises(KeyboardInterrupt):
        file.write_last(LABEL, {"number": 3})
    monkeypatch.undo()
    wanted = 3 if moment == "unlink" else 2
    assert file.read(from_plain) == {"number": wanted}


class StoppedError(BaseException):
    """End of a process, in a test."""


def test_a_folder_has_the_checkpoint_of_a_fit(tmp_path, monkeypatch):
    """It goes on if it `resume`s, else begins anew, whatever fit the file is of."""
    X = make_bars(60, side=4, random_state=0).data
    blocks = [X[:30], X[30:]]
    settings = {"n_components": 5, "split_merge": False, "max_iter": 6}
    settings |= {"tol": 0.0, "random_state": 0}
    alone = skbnp.dask.HDP(**settings).fit(blocks)
    settings["checkpoint_dir"] = tmp_path / "fits"
    write, n_written, begun = FitFile.write, [], []

    def write_two(self, *args):
        write(self, *args)
        n_written.append(1)
        if len(n_written) == 2:
            raise StoppedError

    def stop():
        n_written.clear()
        with monkeypatch.context() as patch:
            patch.setattr(FitFile, "write", write_two)
            with pytest.raises(StoppedError):
                skbnp.dask.HDP(**settings).fit(blocks)

    stop()
    with pytest.raises(ValueError, match="n_components"):
        skbnp.dask.HDP(**settings | {"n_components": 4, "resume": True}).fit(blocks)
    for resume, n_more in ((True, 5), (False, 7)):  # the last with the fit
        stop()
        del begun[:]
        monkeypatch.setattr(
            FitFile, "write", lambda self, *args: (begun.append(1), write(self, *args))
        )
        fit = skbnp.dask.HDP(**settings, resume=resume).fit(blocks)
        monkeypatch.setattr(FitFile, "write", write)
        assert len(begun) == n_more
        assert_array_equal(fit.components_, alone.components_)
        loaded = skbnp.load(tmp_path / "fits" / "fit.skbnp")
        assert_array_equal(loaded.components_, alone.components_)
    with pytest.raises(ValueError, match="needs a checkpoint_dir"):
        skbnp.dask.HDP(resume=True).fit(blocks)
