"""The docstrings of NumPy, SciPy and scikit-learn as a corpus."""

import gzip
import importlib
import inspect
import json
import os
import pkgutil
import re
import sys
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import numpy as np
import scipy
import sklearn
from sklearn.datasets import get_data_home
from sklearn.utils import Bunch

from skbnp.utils.archive import written
from skbnp.utils.validation import validate_params

_PACKAGES = (np, scipy, sklearn)
_ROOTS = tuple(package.__name__ for package in _PACKAGES)

#: Modules whose names look public but which document no interface: tests, build tools,
#: vendored code, old names, switches that change the library when imported.
_SKIPPED = frozenset(
    {
        "conftest",
        "core",
        "cython_special",
        "distutils",
        "estimator_checks",
        "experimental",
        "externals",
        "f2py",
        "mypy_plugin",
        "print_coercion_tables",
        "tests",
        "testutils",
    }
)

#: What `remove` may name. An example ends at a blank line; sections have no indent.
_REMOVABLE = {
    "code": re.compile(r"^[ ]*>>>.*(?:\n[ ]*\S.*)*\n?", re.M),
    "references": re.compile(r"^References\n-+\n(?:(?!.+\n-+$).*(?:\n|\Z))*", re.M),
}

_DESCR = """\
Docstrings of the public functions and classes of {versions}.

{n_samples} documents in {n_labels} subpackages. A document is the docstring as written,
without its common indent; its label is the subpackage where users find the object, and
its module path places it in the tree of modules. Objects with the same text are one
document, under the shortest name."""


@validate_params(
    {
        "data_home": [str, os.PathLike, None],
        "remove": [tuple, list],
        "return_X_y": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def load_docstrings(
    *,
    data_home: str | os.PathLike[str] | None = None,
    remove: Sequence[str] = (),
    return_X_y: bool = False,
) -> Bunch | tuple[list[str], np.ndarray]:
    """Load the docstrings of NumPy, SciPy and scikit-learn as a corpus.

    Every documented public function, ufunc, distribution and class of the installed
    versions is a document, its subpackage the label and its module path a true
    hierarchy. Nothing is downloaded.

    Parameters
    ----------
    data_home : str, path-like or None, default=None
        Folder of the cache; None for the folder of scikit-learn's data sets. The first
        call imports the public modules of the three libraries and takes seconds, later
        ones read a compressed file. A folder that cannot be written is not an error.
    remove : tuple, default=()
        What to drop from every text, any of

        - ``"code"``: examples, that is lines from ``>>>`` to the next blank line;
        - ``"references"``: the sections of that name.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` alone.

    Returns
    -------
    corpus : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : list of str
            The texts, ordered by name.
        target : ndarray of shape (n_samples,)
            Subpackage of each document, an index of `target_names`.
        target_names : list of str
            Subpackages, such as ``"scipy.stats"``. A library's own name stands for what
            lives at its top.
        names : list of str
            Public name of each object, such as ``"scipy.stats.qmc.Sobol"``. Each once.
        module_paths : list of str
            Module of each object, such as ``"scipy.stats.qmc"``.
        versions : dict
            Version of each library.
        DESCR : str
            Description of the corpus.

    (data, target) : tuple, if `return_X_y`
        The two attributes of these names.

    Raises
    ------
    ValueError
        If `remove` names something else.
    RuntimeError
        If Python runs without docstrings (``-OO``) and no cache exists.

    See Also
    --------
    sklearn.datasets.fetch_20newsgroups : Posts in 20 newsgroups, downloaded.

    Notes
    -----
    With NumPy 2.4, SciPy 1.17 and scikit-learn 1.9: 3,227 documents of 1.22 million
    words, 1,027, 1,581 and 619 from the three, in 73 subpackages of 1 to 423 documents
    and 124 modules. Methods are not documents of their own, and deprecated names are
    left out. SciPy draws some numbers of its examples when it is imported: until the
    cache is written, a handful of texts differ in them from process to process.
    """
    unknown = set(remove) - set(_REMOVABLE)
    if unknown:
        raise ValueError(
            f"remove may hold {sorted(_REMOVABLE)}, got {sorted(map(repr, unknown))}."
        )
    documents = _read_cache(data_home)
    if documents is None:
        documents = _collect()
        _write_cache(data_home, documents)
    names, data = list(documents), list(documents.values())
    for part in remove:
        data = [_REMOVABLE[part].sub("", text) for text in data]
    module_paths = [name.rpartition(".")[0] for name in names]
    labels = [".".join(module.split(".")[:2]) for module in module_paths]
    target_names, target = np.unique(labels, return_inverse=True)
    if return_X_y:
        return data, target
    versions = {package.__name__: package.__version__ for package in _PACKAGES}
    return Bunch(
        data=data,
        target=target,
        target_names=target_names.tolist(),
        names=names,
        module_paths=module_paths,
        versions=versions,
        DESCR=_DESCR.format(
            versions=", ".join(
                f"{name} {version}" for name, version in versions.items()
            ),
            n_samples=len(data),
            n_labels=len(target_names),
        ),
    )


def _collect() -> dict[str, str]:
    """Return the docstrings by public name, sorted; each text under one name."""
    if sys.flags.optimize > 1:
        raise RuntimeError("load_docstrings: Python -OO drops the docstrings.")
    homes: dict[str, str] = {}
    with warnings.catch_warnings():
        # What warns of its end when it is imported or asked for is left out.
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", DeprecationWarning)
        warnings.simplefilter("error", PendingDeprecationWarning)
        for module in _public_modules():
            for name, text in _documented_members(module):
                known = homes.get(text, name)
                homes[text] = min(known, name, key=lambda n: (n.count("."), n))
    return {
        name: text for text, name in sorted(homes.items(), key=lambda item: item[1])
    }


def _public_modules() -> Iterator[ModuleType]:
    """Yield the public modules of the packages."""
    pending = list(_ROOTS)
    while pending:
        try:
            module = importlib.import_module(pending.pop())
        except Exception:  # a dependency is missing, or the name is deprecated
            continue
        yield module
        for child in pkgutil.iter_modules(
            getattr(module, "__path__", ()), f"{module.__name__}."
        ):
            leaf = child.name.rpartition(".")[2]
            if not leaf.startswith("_") and leaf not in _SKIPPED:
                pending.append(child.name)


def _documented_members(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield names and docstrings of the public members of a module."""
    declared = getattr(module, "__all__", None)
    for name in sorted(vars(module) if declared is None else declared):
        try:
            member = getattr(module, name)
        except Exception:  # deprecated, or waits for a switch to be imported
            continue
        home = getattr(member, "__module__", None) or module.__name__
        if declared is None and home != module.__name__:
            continue
        if name.startswith("_") or not callable(member):
            continue
        if home.split(".")[0] in _ROOTS and (text := _text(member)):
            yield f"{module.__name__}.{name}", text


def _text(member: object) -> str:
    """Return the docstring of a member, cleaned."""
    text = getattr(member, "__doc__", None)
    if not isinstance(text, str) or "from sklearn.experimental import" in text:
        # The experimental is there or not, by what the program has imported before.
        return ""
    return inspect.cleandoc(text).strip()


def _cache_path(data_home: str | os.PathLike | None) -> Path:
    """Return the path of the cache; the number in it changes with what we collect."""
    versions = "-".join(f"{p.__name__}-{p.__version__}" for p in _PACKAGES)
    return Path(get_data_home(data_home)) / f"skbnp-docstrings-1-{versions}.json.gz"


def _read_cache(data_home: str | os.PathLike | None) -> dict[str, str] | None:
    """Return the cached documents, None if there are none or the file is broken."""
    try:
        documents = json.loads(gzip.decompress(_cache_path(data_home).read_bytes()))
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    well_formed = isinstance(documents, dict) and len(documents) > 0
    if well_formed and all(isinstance(text, str) for text in documents.values()):
        return documents
    return None


def _write_cache(
    data_home: str | os.PathLike | None, documents: dict[str, str]
) -> None:
    """Write the documents in one step, so that no process reads half a file."""
    with suppress(OSError):
        with written(_cache_path(data_home)) as file:
            file.write(gzip.compress(json.dumps(documents).encode(), mtime=0))
