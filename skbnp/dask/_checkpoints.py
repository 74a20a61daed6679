"""What the driver has learned, on disk: arrays and JSON, nothing that is executed.

A checkpoint is written under another name, flushed, and then renamed, so that whatever
ends the process at whatever moment leaves whole ones. Two are kept. Each names its
content by a digest: one that was damaged since is passed over.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from skbnp.models.forms import from_plain, to_plain
from skbnp.utils.warnings import warn_caller

__all__ = ["Checkpoints", "decode", "encode"]

#: Names what is encoded by a dict, and members of it.
KIND = "~"
#: Checkpoints that are kept.
N_KEPT = 2
#: Version of the format.
FORMAT = "checkpoint/1"
#: Members of a file beside arrays: JSON, and the digest of all others.
TEXT, DIGEST = "text.json", "digest.txt"


class Checkpoints:
    """Checkpoints of one fit in a folder.

    Parameters
    ----------
    folder : path-like
        Made if it is not there.
    origin : dict
        What a fit must agree in that goes on from a checkpoint: names of what it
        depends on, with texts that tell values apart.
    """

    def __init__(self, folder: str | os.PathLike, origin: Mapping[str, str]):
        self.folder, self.origin = Path(folder), dict(origin)
        self.folder.mkdir(parents=True, exist_ok=True)

    def clear(self) -> None:
        """Begin anew."""
        for path in self._paths():
            path.unlink()
        self._tidy()

    def write(self, number: int, account: object) -> None:
        """Write what has been learned after so many passes."""
        arrays: dict[str, np.ndarray] = {}
        content = encode(to_plain(account), arrays)
        text = {"format": FORMAT, "origin": self.origin, "account": content}
        members = {f"{name}.npy": _bytes_of(one) for name, one in arrays.items()}
        members[TEXT] = json.dumps(text).encode()
        members[DIGEST] = _digest(members)
        path = self.folder / f"pass-{number:06d}.npz"
        draft = path.with_suffix(".part")
        with open(draft, "wb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name, one in members.items():
                    archive.writestr(name, one)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        _flush_folder(self.folder)
        for old in self._paths()[:-N_KEPT]:
            old.unlink(missing_ok=True)

    def read(self) -> Any | None:
        """Return the newest whole checkpoint; None if there is none of any kind.

        Warns of those that are damaged.

        Raises
        ------
        ValueError
            If it is of other data or of other parameters, or if all are damaged.
        """
        self._tidy()
        damaged = []
        for path in reversed(self._paths()):
            try:
                members = _members(path)
                text = json.loads(members[TEXT])
                if text["format"] != FORMAT:
                    raise ValueError(f"its format is {text['format']!r}")
                origin = dict(text["origin"])
            except Exception as error:  # whatever damage does
                damaged.append(f"{path.name} ({_reason(error)})")
                continue
            self._check(origin)
            try:
                arrays = {
                    name.removesuffix(".npy"): _array_of(one)
                    for name, one in members.items()
                    if name.endswith(".npy")
                }
                account = from_plain(decode(text["account"], arrays))
            except Exception as error:
                damaged.append(f"{path.name} ({_reason(error)})")
                continue
            if damaged:
                warn_caller(
                    f"Damaged in {str(self.folder)!r}: {', '.join(damaged)}. The fit "
                    f"goes on from {path.name}."
                )
            return account
        if damaged:
            raise ValueError(
                f"No checkpoint in {str(self.folder)!r} is whole: "
                f"{', '.join(damaged)}. Use resume=False, which begins anew."
            )
        return None

    def _check(self, origin: Mapping[str, str]) -> None:
        names = sorted(origin.keys() | self.origin.keys())
        other = [name for name in names if origin.get(name) != self.origin.get(name)]
        if other:
            raise ValueError(
                f"The checkpoint in {str(self.folder)!r} is of another fit, with other "
                f"{', '.join(other)}. Use resume=False, or another folder."
            )

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("pass-*.npz"))

    def _tidy(self) -> None:
        for draft in self.folder.glob("pass-*.part"):
            draft.unlink()


def _members(path: Path) -> dict[str, bytes]:
    """Read what a checkpoint consists of; ValueError if it is not what was written."""
    with zipfile.ZipFile(path) as archive:
        if any(info.compress_type for info in archive.infolist()):
            raise ValueError("it is compressed")  # to whatever size
        members = {name: archive.read(name) for name in archive.namelist()}
    if members.pop(DIGEST) != _digest(members):
        raise ValueError("its content is not that of its digest")
    return members


def _digest(members: Mapping[str, bytes]) -> bytes:
    whole = hashlib.blake2b(digest_size=16)
    for name in sorted(members):
        whole.update(f"{name} {len(members[name])}\n".encode())
        whole.update(members[name])
    return whole.hexdigest().encode()


def _bytes_of(array: np.ndarray) -> bytes:
    """Write an array as NumPy does."""
    file = BytesIO()
    npy.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def _array_of(content: bytes) -> np.ndarray:
    """Read an array; its size is that of the content, whatever the header says."""
    file = BytesIO(content)
    if npy.read_magic(file) != (1, 0):
        raise ValueError("an array is of another version")
    shape, is_fortran, dtype = npy.read_array_header_1_0(file)
    flat = np.frombuffer(content, dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if is_fortran else "C").copy(order="K")


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def digest_of(texts: list[str]) -> str:
    """Name a list of texts by its content."""
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).hexdigest()


def _flush_folder(folder: Path) -> None:
    """Let the new name outlast a loss of power, where folders can be opened."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        return
    finally:
        os.close(descriptor)


# Containers, numbers and arrays as JSON and arrays ------------------------------------


def encode(value: object, arrays: dict[str, np.ndarray]) -> Any:
    """Put arrays aside, and return the rest as JSON has it.

    The same list, dict or array is written once.
    """
    seen: dict[int, tuple[int, object]] = {}

    def walk(value: Any) -> Any:
        if value is None or isinstance(value, (bool, str)):
            return value
        if type(value) in (int, float):
            return value
        if id(value) in seen:
            return {KIND: "again", "of": seen[id(value)][0]}
        seen[id(value)] = len(seen), value
        number = seen[id(value)][0]
        if isinstance(value, dict):
            items = {name: walk(one) for name, one in value.items()}
            return {KIND: "dict", "n": number, "of": items}
        if type(value) in (list, tuple):
            kind = type(value).__name__
            return {KIND: kind, "n": number, "of": [walk(one) for one in value]}
        if isinstance(value, (np.ndarray, np.generic)):
            found: dict[str, object] = {KIND: "array", "n": number}
            if isinstance(value, np.generic):
                found[KIND] = "scalar"
            name = f"a{len(arrays)}"
            arrays[name] = np.asarray(value)
            if arrays[name].dtype.hasobject:
                raise TypeError("A checkpoint holds no arrays of objects.")
            return found | {"of": name}
        raise TypeError(f"A checkpoint holds no {type(value).__name__}.")

    return walk(value)


def decode(value: object, arrays: Mapping[str, np.ndarray]) -> Any:
    """Undo `encode`."""
    seen: dict[int, Any] = {}

    def walk(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        kind, of = value[KIND], value["of"]
        if kind == "again":
            return seen[of]
        seen[value["n"]] = found = made(kind, of)
        return found

    def made(kind: str, of: Any) -> Any:
        if kind == "dict":
            return {name: walk(one) for name, one in of.items()}
        if kind in ("list", "tuple"):
            found = [walk(one) for one in of]
            return found if kind == "list" else tuple(found)
        if kind == "scalar":
            return arrays[of][()]
        return arrays[of]

    return walk(value)
