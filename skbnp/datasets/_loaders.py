"""Readers of the formats of lda-c and of the bags of words of the UCI repository."""

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
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
import scipy
import scipy.sparse as sp
import sklearn
from sklearn import get_config
from sklearn.datasets import get_data_home
from sklearn.utils import Bunch

from skbnp.utils.archive import written
from skbnp.utils.validation import validated

#: At most 18 digits, so that every number fits 64 bits.
_PAIR = re.compile(r"([0-9]{1,18}):([0-9]{1,18})")
_NUMBER = re.compile(r"[0-9]{1,18}")


@validated()
def load_ldac(
    path: str | os.PathLike[str],
    *,
    vocabulary: str | os.PathLike[str] | Sequence[str] | None = None,
    n_features: int | None = None,
) -> Bunch:
    r"""Load a corpus in the format of lda-c.

    Each line is a document, ``M term:count term:count ...``: the number of distinct
    terms, then M pairs of term index, from 0, and count. An empty document is ``0``.

    Parameters
    ----------
    path : str or path-like
        File to read; decompressed if its name ends in ``.gz``.
    vocabulary : str, path-like, array-like of str or None, default=None
        The terms, or a file with one term per line (UTF-8, ``.gz`` too), in the order
        of their indices.
    n_features : int or None, default=None
        Number of terms. None takes the length of `vocabulary`, and without one the
        largest index found plus one.

    Returns
    -------
    corpus : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : sparse matrix or array in CSR format, (n_samples, n_features)
            Word counts, int64; scikit-learn's `sparse_interface` setting chooses
            matrix or array.
        feature_names : list of str or None
            The terms, if a vocabulary was given.

    Raises
    ------
    ValueError
        If a line is malformed: M is missing or differs from the number of pairs, a
        pair is not two numbers, a count is not positive, a term comes twice or lies
        outside of the vocabulary. The message names the line. Also if `n_features`
        differs from the length of `vocabulary`.
    OSError
        If a file cannot be read.

    See Also
    --------
    load_uci_bag_of_words : Load a corpus in the format of the UCI repository.
    sklearn.datasets.load_svmlight_file : Load a matrix in svmlight format.

    References
    ----------
    .. [1] D. M. Blei, A. Y. Ng and M. I. Jordan, "Latent Dirichlet allocation", Journal
       of Machine Learning Research 3, 2003. Its program lda-c defines the format.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skbnp.datasets import load_ldac
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "corpus.dat"
    ...     _ = path.write_text("2 0:3 2:1\n0\n1 1:2\n")
    ...     corpus = load_ldac(path, vocabulary=["tree", "leaf", "path"])
    >>> corpus.data.toarray()
    array([[3, 0, 1],
           [0, 0, 0],
           [0, 2, 0]])
    """
    feature_names = read_vocabulary(vocabulary, n_features)
    if feature_names is not None:
        n_features = len(feature_names)
    terms, counts, indptr = array("q"), array("q"), array("q", [0])
    with open_text(path, errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                document = _parse(line, n_features)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
            terms.extend(document.keys())
            counts.extend(document.values())
            indptr.append(len(terms))
    if n_features is None:
        n_features = max(terms, default=-1) + 1
    arrays = [np.array(part, dtype=np.int64) for part in (counts, terms, indptr)]
    data = count_matrix(arrays[0], arrays[1], arrays[2], n_features)
    return Bunch(data=data, feature_names=feature_names)


def _parse(line: str, n_features: int | None) -> dict[int, int]:
    """Return the counts of one document by term, or raise what is wrong with it."""
    declared, *pairs = line.split() or [""]
    if not _NUMBER.fullmatch(declared):
        raise ValueError(f"expected the number of terms first, got {declared!r}.")
    document: dict[int, int] = {}
    for pair in pairs:
        if not (match := _PAIR.fullmatch(pair)):
            raise ValueError(f"expected term:count, got {pair!r}.")
        term, count = map(int, match.groups())
        if n_features is not None and term >= n_features:
            raise ValueError(f"term {term} is outside of the {n_features} terms.")
        if count == 0:
            raise ValueError(f"the count of term {term} must be positive, got 0.")
        if term in document:
            raise ValueError(f"term {term} comes twice.")
        document[term] = count
    if int(declared) != len(pairs):
        raise ValueError(f"{declared} terms declared, {len(pairs)} found.")
    return document


def read_vocabulary(vocabulary: Any, n_features: int | None) -> list[str] | None:
    """Return the terms, from a file if need be; check their number if it is known."""
    if vocabulary is None:
        return None
    if isinstance(vocabulary, str | os.PathLike):
        with open_text(vocabulary) as lines:
            terms = [line.rstrip("\n") for line in lines]
    else:
        terms = [str(term) for term in vocabulary]
    if n_features is not None and n_features != len(terms):
        raise ValueError(
            f"vocabulary has {len(terms)} terms, n_features is {n_features}."
        )
    return terms


def open_text(path: str | os.PathLike[str], errors: str = "strict") -> IO[str]:
    """Open a UTF-8 text file for reading, compressed or not."""
    opener: Any = gzip.open if os.fspath(path).endswith(".gz") else open
    return opener(path, "rt", encoding="utf-8", errors=errors)


@validated()
def load_uci_bag_of_words(
    path: str | os.PathLike[str],
    *,
    vocabulary: str | os.PathLike[str] | Sequence[str] | None = None,
) -> Bunch:
    r"""Load a corpus in the bag-of-words format of the UCI repository.

    Three lines give the numbers of documents, terms and pairs; then each line is
    ``document term count``, both indices from 1.

    Parameters
    ----------
    path : str or path-like
        File to read, such as ``docword.kos.txt``; decompressed if its name ends in
        ``.gz``.
    vocabulary : str, path-like, array-like of str or None, default=None
        The terms, or a file with one term per line (UTF-8, ``.gz`` too), such as
        ``vocab.kos.txt``.

    Returns
    -------
    corpus : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : sparse matrix or array in CSR format, (n_samples, n_features)
            Word counts, int64; scikit-learn's `sparse_interface` setting chooses
            matrix or array.
        feature_names : list of str or None
            The terms, if a vocabulary was given.

    Raises
    ------
    ValueError
        If the first three lines are not numbers, a later line is not three numbers, an
        index is out of range, a count is not positive, a pair comes twice, their number
        is not the one declared, or `vocabulary` has another length than declared.
    OSError
        If a file cannot be read.

    See Also
    --------
    load_ldac : Load a corpus in the format of lda-c.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skbnp.datasets import load_uci_bag_of_words
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "docword.txt"
    ...     _ = path.write_text("2\n3\n3\n1 1 3\n1 3 1\n2 2 2\n")
    ...     corpus = load_uci_bag_of_words(path)
    >>> corpus.data.toarray()
    array([[3, 0, 1],
           [0, 2, 0]])
    """
    with open_text(path, errors="replace") as lines:
        try:
            n_samples, n_features, n_pairs = (int(line) for line in islice(lines, 3))
        except ValueError:
            n_samples = n_features = n_pairs = -1
        if min(n_samples, n_features, n_pairs) < 0:
            raise ValueError(f"{path}: the first three lines must be numbers.")
        triples = _read_triples(path, lines)
    if len(triples) != n_pairs:
        raise ValueError(f"{path}: {n_pairs} pairs declared, {len(triples)} found.")
    feature_names = read_vocabulary(vocabulary, n_features)
    documents, terms, counts = triples.T
    for name, values, largest in (
        ("document", documents, n_samples),
        ("term", terms, n_features),
        ("count", counts, np.inf),
    ):
        outside = np.flatnonzero((values < 1) | (values > largest))
        if len(outside):
            raise ValueError(
                f"{path}, pair {outside[0] + 1}: {name} must be in 1..{largest}, "
                f"got {values[outside[0]]}."
            )
    order = np.argsort(documents, kind="stable")
    lengths = np.bincount(documents, minlength=n_samples + 1)
    data = count_matrix(counts[order], terms[order] - 1, lengths.cumsum(), n_features)
    if data.nnz != n_pairs:
        raise ValueError(f"{path}: {n_pairs - data.nnz} pairs come twice.")
    return Bunch(data=data, feature_names=feature_names)


def _read_triples(path: str | os.PathLike[str], lines: Iterable[str]) -> np.ndarray:
    """Return the pairs behind the header, (n_pairs, 3)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")
        try:
            triples = np.loadtxt(lines, dtype=np.int64, comments=None, ndmin=2)
        except ValueError as error:
            raise ValueError(f"{path}, after the first three lines: {error}") from None
    if triples.size == 0:
        return np.empty((0, 3), dtype=np.int64)
    if triples.shape[1] != 3:
        raise ValueError(f"{path}: expected lines of three numbers from the fourth on.")
    return triples


def count_matrix(
    counts: np.ndarray, terms: np.ndarray, indptr: np.ndarray, n_features: int
) -> sp.csr_array | sp.csr_matrix:
    """Return integer counts as canonical CSR, in the family scikit-learn is set to."""
    fits = max(n_features, len(terms)) <= np.iinfo(np.int32).max
    index = np.int32 if fits else np.int64
    terms, indptr = terms.astype(index, copy=False), indptr.astype(index, copy=False)
    arrays = get_config().get("sparse_interface") == "sparray"  # since 1.9
    family = sp.csr_array if arrays else sp.csr_matrix
    matrix = family((counts, terms, indptr), shape=(len(indptr) - 1, n_features))
    matrix.sum_duplicates()
    return matrix


def count_words(
    documents: list[np.ndarray], n_features: int
) -> sp.csr_array | sp.csr_matrix:
    """Return the counts of documents given as arrays of words, one entry per token."""
    words = np.concatenate([np.empty(0, dtype=np.int64), *documents])
    indptr = np.fromiter(accumulate(map(len, documents), initial=0), dtype=np.int64)
    return count_matrix(np.ones(len(words), dtype=np.int64), words, indptr, n_features)


# The docstrings of NumPy, SciPy and scikit-learn as a corpus.


_PACKAGES = (np, scipy, sklearn)
_ROOTS = tuple(package.__name__ for package in _PACKAGES)

#: Modules whose names look public but which document no interface: tests, build tools,
#: vendored code, old names, switches that change the library when imported.
_SKIPPED = frozenset(
    "conftest core cython_special distutils estimator_checks experimental externals "
    "f2py mypy_plugin print_coercion_tables tests testutils".split()
)

#: What `remove` may name. An example ends at a blank line; sections have no indent.
_REMOVABLE = {
    "code": re.compile(r"^[ ]*>>>.*(?:\n[ ]*\S.*)*\n?", re.M),
    "references": re.compile(r"^References\n-+\n(?:(?!.+\n-+$).*(?:\n|\Z))*", re.M),
}


@validated(
    data_home=[str, os.PathLike, None], remove=[tuple, list], return_X_y=["boolean"]
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
        # In one step, so that no process reads half a file.
        with suppress(OSError), written(_cache_path(data_home)) as file:
            file.write(gzip.compress(json.dumps(documents).encode(), mtime=0))
    names, data = list(documents), list(documents.values())
    for part in remove:
        data = [_REMOVABLE[part].sub("", text) for text in data]
    module_paths = [name.rpartition(".")[0] for name in names]
    labels = [".".join(module.split(".")[:2]) for module in module_paths]
    target_names, target = np.unique(labels, return_inverse=True)
    if return_X_y:
        return data, target
    versions = {package.__name__: package.__version__ for package in _PACKAGES}
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return Bunch(
        data=data,
        target=target,
        target_names=target_names.tolist(),
        names=names,
        module_paths=module_paths,
        versions=versions,
        DESCR=f"Docstrings of the public functions and classes of {listed}.\n\n"
        f"{len(data)} documents in {len(target_names)} subpackages. A document is the "
        "docstring as written,\nwithout its common indent; its label is the "
        "subpackage where users find the object, and\nits module path places it in the "
        "tree of modules. Objects with the same text are one\ndocument, under the "
        "shortest name.",
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
            vars(module).get("__path__", ()), f"{module.__name__}."
        ):
            leaf = child.name.rpartition(".")[2]
            if not leaf.startswith("_") and leaf not in _SKIPPED:
                pending.append(child.name)


def _documented_members(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield names and docstrings of the public members of a module."""
    declared = vars(module).get("__all__")  # no attribute that warns
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
