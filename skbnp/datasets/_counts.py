"""Document-term matrices that loaders and generators of data sets return."""

from itertools import accumulate

import numpy as np
import scipy.sparse as sp
from sklearn import get_config


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
