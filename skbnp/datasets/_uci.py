"""Reader of the bag-of-words format of the UCI repository."""

import os
import warnings
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from sklearn.utils import Bunch

from skbnp.datasets._counts import count_matrix
from skbnp.datasets._ldac import open_text, read_vocabulary
from skbnp.utils.validation import validate_params


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
