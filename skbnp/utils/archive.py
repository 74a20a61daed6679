"""Files of trees of `to_plain`: arrays and JSON, nothing that is executed.

A file is written under a name of its own, flushed, and then renamed, so that whatever
ends the process at whatever moment leaves a whole one. It names its content by
a digest: one that was damaged since is refused.
"""

import hashlib
import json
import os
import secrets
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from skbnp.utils.plain import ATOMS

T = TypeVar("T")

#: Key of a dict that stands for an array; its value is the name of that.
ARRAY = "~"
#: Version of the format.
FORMAT = "checkpoint/3"
#: Members of a file other than arrays: JSON, and the digest of all others.
TEXT, DIGEST = "text.json", "digest.txt"
#: What damage of a content causes; other errors are of disks, or of workers.
DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
#: Begin of the names of files that are not whole yet.
DRAFT = ".skbnp-"
#: Seconds without a change after which nobody writes a draft: a day.
ABANDONED = 86400.0


@dataclass(frozen=True)
class Archive:
    """A file that was read as a whole: its label, and its content, not decoded yet.

    Attributes
    ----------
    label : dict of str to str
        Class, version and data that the content depends on.
    """

    path: Path
    label: Mapping[str, str]
    encoded: Any
    members: Mapping[str, bytes]

    @classmethod
    def read(cls, path: Path) -> "Archive":
        """Read a file; raises if it is not what was written."""
        members = _members(path)
        text = json.loads(members.pop(TEXT))
        if text["format"] != FORMAT:
            raise ValueError(f"its format is {text['format']!r}")
        return cls(path, dict(text["label"]), text["content"], members)

    def content(self) -> Any:
        """Return the tree that was written."""
        arrays = {
            name.removesuffix(".npy"): _array_of(one)
            for name, one in self.members.items()
        }
        return put_back(self.encoded, arrays)


def write_archive(path: Path, label: Mapping[str, str], content: object) -> None:
    """Write a tree of `to_plain` to a file, whole or not at all."""
    arrays: dict[str, np.ndarray] = {}
    encoded = put_aside(content, arrays)
    text = json.dumps({"format": FORMAT, "label": dict(label), "content": encoded})
    digest = hashlib.blake2b(digest_size=16)
    with written(path) as file, zipfile.ZipFile(file, "w") as archive:

        def add(name: str, member: bytes) -> None:
            _add_member(digest, name, member)
            archive.writestr(name, member)

        for name in sorted(arrays):
            member = BytesIO()
            npy.write_array(member, arrays[name], allow_pickle=False)
            add(f"{name}.npy", member.getvalue())
        add(TEXT, text.encode())
        archive.writestr(DIGEST, digest.hexdigest())


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that gets the name `path` once it is whole and on the disk.

    Until then it has a name of its own beside `path`, so that others may write `path`
    at the same time; an error removes it. What is no file, such as a pipe, is written
    as it is.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        with open(path, "wb") as file:
            yield file
        return
    remove_drafts(path.parent)
    draft = path.with_name(f"{DRAFT}{secrets.token_hex(8)}.part")
    try:
        with open(draft, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def remove_drafts(folder: Path) -> None:
    """Remove the drafts that processes have left when they were killed."""
    for draft in folder.glob(f"{DRAFT}*.part"):
        with suppress(OSError):  # others remove it, too
            if time.time() - draft.stat().st_mtime > ABANDONED:
                draft.unlink()


#: What the digest of a fit stands for in a path.
OF_FIT = "{fit}"


def stamp_of(path: Path) -> tuple[int, ...] | None:
    """Return inode, time and size, which identify a file; None without one."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def label_in(path: Path) -> Mapping[str, str] | None:
    """Return the label of a file; None if there is no undamaged one."""
    try:
        return Archive.read(path).label
    except Exception:  # a damaged one gives way
        return None


class FitFile:
    """The file of a fit.

    Parameters
    ----------
    path : path-like
        With `OF_FIT` in it, the path of many, see `of`.
    every : int
        Passes between two files.

    Attributes
    ----------
    is_loaded : bool
        Whether the fit continues from the file, however it began.
    """

    def __init__(self, path: str | os.PathLike, every: int):
        self.path, self.every, self.is_loaded = Path(path), every, False

    def of(self, label: Mapping[str, str]) -> "FitFile":
        """Return the file of the fit with a label, if `path` has a place for it."""
        name = digest_of(f"{key} {label[key]}" for key in sorted(label))
        path = Path(str(self.path).replace(OF_FIT, name))
        return self if path == self.path else FitFile(path, self.every)

    def write(self, label: Mapping[str, str], content: object) -> None:
        """Write the file anew."""
        write_archive(self.path, label, content)

    def read(
        self,
        make: Callable[[Any], T],
        check: Callable[[Mapping[str, str]], None] = lambda label: None,
    ) -> T | None:
        """Return what `make` makes of the content; None if there is no file.

        `check` may refuse a label; errors of `make` that are among `DAMAGE` count as
        such.

        Raises
        ------
        ValueError
            If the file is damaged.
        """
        try:
            archive = Archive.read(self.path)
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever damage does
            raise self._damaged(error) from error
        check(archive.label)
        try:
            return make(archive.content())
        except DAMAGE as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> ValueError:
        return ValueError(
            f"{str(self.path)!r} is damaged ({type(error).__name__}: {error}). Remove "
            "it to begin anew, or give another path."
        )


# What tells data and values apart -----------------------------------------------------


def digest_of(texts: Iterable[str]) -> str:
    """Digest of texts: a name by content."""
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).hexdigest()


def rows_digest(rows: Any) -> str:
    """Digest of rows, dense or sparse: a name by content."""
    if sp.issparse(rows):
        return digest_of(
            [str(rows.shape), *map(rows_digest, (rows.data, rows.indices, rows.indptr))]
        )
    array = np.ascontiguousarray(rows)
    if array.dtype.kind == "i":  # whatever size indices have
        array = array.astype(np.int64)
    whole = hashlib.blake2b(f"{array.dtype} {array.shape} ".encode(), digest_size=16)
    whole.update(array.reshape(-1).view(np.uint8).data)
    return whole.hexdigest()


def text_of(value: object) -> str:
    """Return a text that differs for different values, random generators apart."""
    if isinstance(value, np.random.RandomState):
        return "a generator"
    if is_dataclass(value) and not isinstance(value, type):
        pairs = [(one.name, getattr(value, one.name)) for one in fields(value)]
        inner = ", ".join(f"{name}={text_of(of)}" for name, of in pairs)
        return f"{type(value).__qualname__}({inner})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {text_of(value[key])}' for key in value)}}}"
    if hasattr(value, "columns") and hasattr(value, "to_numpy"):
        return f"{list(value.columns)} {text_of(value.to_numpy())}"
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return repr(value.tolist())
    is_array = isinstance(value, np.ndarray) or sp.issparse(value)
    return rows_digest(value) if is_array else repr(value)


# Members of a file --------------------------------------------------------------------


def _add_member(digest: hashlib.blake2b, name: str, member: bytes) -> None:
    """Add a member to the digest of a file, in place."""
    digest.update(f"{name} {len(member)}\n".encode())
    digest.update(member)


def _members(path: Path) -> dict[str, bytes]:
    """Read the members of a file; ValueError if it is damaged."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        if any(info.compress_type for info in infos):
            raise ValueError("it is compressed")  # to whatever size
        if sum(info.file_size for info in infos) > path.stat().st_size:
            raise ValueError("its members overlap")
        members = {name: archive.read(name) for name in archive.namelist()}
    digest, result = hashlib.blake2b(digest_size=16), members.pop(DIGEST)
    for name in sorted(members):
        _add_member(digest, name, members[name])
    if result != digest.hexdigest().encode():
        raise ValueError("its content is not that of its digest")
    return members


def _array_of(content: bytes) -> np.ndarray:
    """Read an array from bytes; the size in its header is not trusted."""
    file = BytesIO(content)
    if npy.read_magic(file) != (1, 0):
        raise ValueError("an array is of another version")
    shape, is_fortran, dtype = npy.read_array_header_1_0(file)
    flat = np.frombuffer(content, dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if is_fortran else "C").copy(order="K")


# Trees as JSON and arrays -------------------------------------------------------------


def put_aside(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return a tree of `to_plain` as JSON values, its arrays put into `arrays`."""
    if type(tree) is list:
        return [put_aside(item, arrays) for item in tree]
    if type(tree) is dict:
        return {key: put_aside(item, arrays) for key, item in tree.items()}
    if type(tree) in ATOMS:
        return tree
    if type(tree) is not np.ndarray or tree.dtype.hasobject:
        is_array = isinstance(tree, np.ndarray)
        what = "arrays of objects but texts" if is_array else type(tree).__name__
        raise TypeError(f"A checkpoint holds no {what}.")
    name = f"a{len(arrays)}"
    arrays[name] = tree
    return {ARRAY: name}


def put_back(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Undo `put_aside`."""
    if type(tree) is list:
        return [put_back(item, arrays) for item in tree]
    if type(tree) is not dict:
        return tree
    if tree.keys() == {ARRAY}:
        return arrays[tree[ARRAY]]
    return {key: put_back(item, arrays) for key, item in tree.items()}
