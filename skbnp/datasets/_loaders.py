"""Readers of the formats of lda-c and of the bags of words of the UCI repository."""

import gzip
import os
import re
import warnings
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.utils import Bunch

from skbnp.utils.validation import POSITIVE, validate_params

#: At most 18 digits, so that every number fits 64 bits.
_PAIR = re.compile(r"([0-9]{1,18}):([0-9]{1,18})")
_NUMBER = re.compile(r"[0-9]{1,18}")


@validate_params(
    {
        "path": [str, os.PathLike],
        "vocabulary": [str, os.PathLike, "array-like", None],
        "n_features": [POSITIVE, None],
    },
    prefer_skip_nested_validation=True,
)
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


@validate_params(
    {"path": [str, os.PathLike], "vocabulary": [str, os.PathLike, "array-like", None]},
    prefer_skip_nested_validation=True,
)
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
    arrays = get_config()["sparse_interface"] == "sparray"
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
