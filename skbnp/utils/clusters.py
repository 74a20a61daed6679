"""Clusters of rows, by scikit-learn and SciPy."""

import warnings

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, ward
from sklearn.exceptions import ConvergenceWarning

from skbnp.utils.arrays import libraries


def kmeans(X: sp.csr_array, n_clusters: int, rng: np.random.Generator) -> NDArray:
    """Label rows by k-means on the square roots of their frequencies.

    Labels are 0 to the number of clusters found, less one, which may be fewer than
    requested.
    """
    rows = sp.csr_matrix(X / X.sum(axis=1)[:, None]).sqrt()
    return cluster_rows(rows, n_clusters, rng)


def cluster_rows(
    rows: NDArray | sp.csr_matrix, n_clusters: int, rng: np.random.Generator
) -> NDArray:
    """Label rows by k-means; there may be fewer clusters than requested."""
    from sklearn.cluster import KMeans  # much to import, for a start of some models

    seed = int(rng.integers(2**31))
    model = KMeans(min(n_clusters, rows.shape[0]), n_init=1, random_state=seed)
    with warnings.catch_warnings(), libraries().limit(limits=1, user_api="openmp"):
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows that are equal
        labels = model.fit_predict(rows)
    return np.unique(labels, return_inverse=True)[1]


def ward_cuts(counts: NDArray, sizes: list[int]) -> NDArray:
    """Label rows by cutting Ward's tree of the square roots of their frequencies.

    Returns labels (n_rows, n_sizes), nested partitions, one for each of `sizes`.
    """
    if len(counts) == 1:
        return np.zeros((1, len(sizes)), dtype=np.intp)
    linkage = ward(np.sqrt(counts / counts.sum(axis=1, keepdims=True)))
    cuts = [fcluster(linkage, size, criterion="maxclust") - 1 for size in sizes]
    return np.column_stack(cuts)
