"""Pairs of rows, by their cosines or a gain, and clusters of rows."""

import warnings
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from skbnp.utils.arrays import libraries
from skbnp.utils.typing import Array, Ints


def matched(similarity: Array, least: float) -> tuple[Ints, Ints]:
    """Match rows and columns of at least `least` similarity, with the largest sum."""
    gain = np.where(similarity >= least, similarity + 1.0, 0.0)
    rows, columns = linear_sum_assignment(gain, maximize=True)
    good = similarity[rows, columns] >= least
    return rows[good], columns[good]


def best_disjoint(
    pairs: Sequence[Sequence[int]], gains: Sequence[float] | Array
) -> Ints:
    """Positions of pairs with positive gain, best first, that share no member."""
    chosen: list[int] = []
    taken: set[int] = set()
    for index in np.argsort(-np.asarray(gains), kind="stable").tolist():
        if gains[index] <= 0.0:
            break
        if taken.isdisjoint(pairs[index]):
            taken |= set(pairs[index])
            chosen.append(index)
    return np.array(chosen, dtype=np.intp)


def most_similar(similarity: Array, least: float) -> tuple[Ints, Ints]:
    """Match rows and columns of at least `least` similarity, the largest first."""
    rows, columns = np.nonzero(similarity >= least)
    pairs = np.column_stack([rows, len(similarity) + columns])
    chosen = best_disjoint(pairs.tolist(), similarity[rows, columns])
    return rows[chosen], columns[chosen]


def unit_rows(rows: Array) -> Array:
    """Scale rows to length one; those without mass stay zero."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)


def cosines(a: Array, b: Array) -> Array:
    """Compute the cosines of rows, 0 of rows without mass."""
    return np.clip(unit_rows(a) @ unit_rows(b).T, -1.0, 1.0)


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
    from scipy.cluster.hierarchy import fcluster, ward  # much to import, as above

    if len(counts) == 1:
        return np.zeros((1, len(sizes)), dtype=np.intp)
    linkage = ward(np.sqrt(counts / counts.sum(axis=1, keepdims=True)))
    cuts = [fcluster(linkage, size, criterion="maxclust") - 1 for size in sizes]
    return np.column_stack(cuts)
