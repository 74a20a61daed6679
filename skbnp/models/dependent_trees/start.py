"""Start of dependent trees: clusters of rows on the sphere, below one root.

Soft assignments under concentrations that are too small make all nodes alike, and
merges then end them. So the first statistics come from hard assignments, and means and
the concentration are updated in turn before the first soft step. The concentration of
the prior starts high, at V: with a small one nodes do not see where they belong.
"""

from functools import partial
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from skbnp.distributions.von_mises_fisher import inverse_bessel_ratio
from skbnp.inference.executor import RunTasks, run_in_turn
from skbnp.kernels._sphere import TILE, score_rows
from skbnp.models.dependent_trees import updates
from skbnp.models.dependent_trees.state import (
    EpochState,
    EpochStats,
    TreePriors,
    no_past,
    sort_siblings,
)
from skbnp.trees import Tree
from skbnp.utils.arrays import members
from skbnp.utils.typing import Array, Ints

#: Updates of means and concentration in turn before the first soft step.
N_ROUNDS = 3
#: Rows that one task compares with all centres, at most.
ROWS = 4096
#: Rows of a cluster at the start; least and most clusters, as multiples of
#: the square root of the number of rows.
ROWS_PER_CLUSTER, LEAST_CLUSTERS, MOST_CLUSTERS = 3, 2.0, 12.0


def n_clusters_for(n_rows: int) -> int:
    """Number of clusters to start from: many more than the nodes expected.

    n_rows / 3, but at least 2 sqrt(n_rows) and at most 12 sqrt(n_rows). Merges end
    superfluous ones. Births would not find all missing ones: with more nodes rows are
    nearer to theirs, the concentration rises, and nodes that gain under a larger
    concentration may not gain under that of a small tree.
    """
    root = n_rows**0.5
    most = min(n_rows / ROWS_PER_CLUSTER, MOST_CLUSTERS * root)
    return min(int(max(LEAST_CLUSTERS * root, most)), n_rows)


def spherical_kmeans(
    X: sp.csr_array,
    n_clusters: int,
    rng: np.random.Generator,
    max_iter: int = 20,
    run: RunTasks = run_in_turn,
) -> Ints:
    """Label rows of length one by clusters of directions.

    The sum of cosines to the cluster's mean direction rises until no row moves, Dhillon
    and Modha (2001), from rows drawn one by one with probability proportional to
    1 - cosine to the nearest so far, Arthur and Vassilvitskii (2007).

    Labels are 0 to the number of clusters found, less one, which may be fewer than
    requested; rows without words have -1.
    """
    labels = np.full(X.shape[0], -1, dtype=np.intp)
    rows = np.flatnonzero(np.diff(X.indptr) > 0)
    if len(rows) == 0:
        return labels
    X = sp.csr_array(X[rows].astype(np.float32))
    rows_of_doubles = X.astype(np.float64)
    centres = _draw_centres(X, n_clusters, rng)
    result = nearest_centres(X, centres, run)
    for _ in range(max_iter):
        sums = sp.csr_array(members(result, centres.shape[0]) @ rows_of_doubles)
        lengths = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1)).ravel())
        kept = lengths > 0.0
        sums.data /= np.repeat(np.where(kept, lengths, 1.0), np.diff(sums.indptr))
        order = np.arange(len(lengths))
        order[~kept] += len(lengths)  # those stay where they were
        centres = sp.csr_array(sp.vstack([sums, centres], format="csr")[order])
        before, result = result, nearest_centres(X, centres, run)
        if (before == result).all():
            break
    labels[rows] = np.unique(result, return_inverse=True)[1]
    return labels


def _draw_centres(
    X: sp.csr_array, n_clusters: int, rng: np.random.Generator
) -> sp.csr_array:
    """Draw rows that are far from each other as cluster centres."""
    first = int(rng.integers(X.shape[0]))
    chosen, farness = [first], np.full(X.shape[0], np.inf)
    while True:
        cosines = X @ X[[chosen[-1]]].toarray()[0]
        farness = np.minimum(farness, np.maximum(1.0 - cosines, 0.0))
        farness[farness < 1e-6] = 0.0  # the same row again
        if len(chosen) == n_clusters or not farness.any():
            return sp.csr_array(X[chosen].astype(np.float64))
        share = np.cumsum(farness, dtype=np.float64)
        draw = rng.random() * share[-1]
        at = int(np.searchsorted(share, draw, side="right"))
        chosen.append(min(at, int(np.flatnonzero(farness)[-1])))


def nearest_centres(
    X: sp.csr_array, centres: sp.csr_array | Array, run: RunTasks = run_in_turn
) -> Ints:
    """Centre of largest cosine for each row; of equal ones the first, (n_rows,)."""
    centres = sp.csr_array(centres)
    n_centres, n_features = centres.shape
    n_tiles = -(-n_centres // TILE)
    table = np.zeros((n_tiles, n_features, TILE), dtype=np.float32)
    tile, lane = divmod(np.arange(n_centres), TILE)
    counts = np.diff(centres.indptr)
    table[np.repeat(tile, counts), centres.indices, np.repeat(lane, counts)] = (
        centres.data
    )
    there = np.full(n_tiles * TILE, -np.inf)
    there[:n_centres] = 0.0
    nodes = np.empty((X.shape[0], 1), dtype=np.int32)
    indptr, words = X.indptr.astype(np.int32), X.indices.astype(np.int32)

    def score(begin: int, stop: int) -> None:
        result, limits = nodes[begin:stop], indptr[begin : stop + 1]
        some = slice(limits[0], limits[-1])
        scores, rest = np.empty(result.shape), np.empty(len(result))
        score_rows(
            limits - limits[0],
            words[some],
            X.data[some],
            table,
            there,
            1.0,
            result,
            scores,
            rest,
        )

    # A table is read once for each block of rows; two threads, or four, end together.
    n_blocks = 4 * -(-X.shape[0] // (4 * ROWS)) if X.shape[0] > ROWS else 1
    ends = np.linspace(0, X.shape[0], n_blocks + 1).astype(np.intp).tolist()
    run([partial(score, *limits) for limits in pairwise(ends)])
    return nodes[:, 0].astype(np.intp)


def node_sums(X: sp.csr_array, places: Ints, n_nodes: int) -> EpochStats:
    """Sum rows that are at one node each, by position; -1 for rows at no node."""
    sums = sp.csr_array(members(places, n_nodes) @ X.astype(np.float64))
    masses = np.bincount(places[places >= 0], minlength=n_nodes).astype(np.float64)
    return EpochStats(masses, sums, np.zeros(n_nodes))


def start_tree(
    X: sp.csr_array,
    labels: Ints,
    priors: TreePriors,
    run: RunTasks = run_in_turn,
    n_unseen: int = 0,
) -> tuple[EpochState, EpochStats]:
    """Return a tree of clusters of rows below an empty root, with learned globals.

    `labels` are 0 to the number of clusters less one, -1 for rows without a cluster;
    `n_unseen` columns of the rows are left out of `X`, all zero.
    """
    n_nodes, width = int(labels.max(initial=-1)) + 2, X.shape[1]
    stats = node_sums(X, np.where(labels >= 0, labels + 1, -1), n_nodes)
    dimension = width + n_unseen
    tree = Tree.from_parents([-1, *([0] * (n_nodes - 1))])
    masses, sums = stats.masses, stats.sums
    total = np.asarray(sums.sum(axis=0)).ravel()
    lengths = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1)).ravel())
    within = min(lengths.sum() / max(masses.sum(), 1.0), 1.0)
    beta = inverse_bessel_ratio(within, dimension)
    state = EpochState(
        tree,
        masses,
        np.zeros(n_nodes),
        np.zeros((n_nodes, width)),
        np.zeros(n_nodes),
        *no_past(n_nodes, width),
        np.zeros(width),
        total / max(float(np.linalg.norm(total)), 1e-300),
        float(np.clip(beta, updates.LOWEST, updates.HIGHEST)),
        float(dimension),
        n_unseen=n_unseen,
    )
    for _ in range(N_ROUNDS):
        state = updates.update_own_means(state, stats, priors, run)
        state = updates.learn_concentration(state, stats)
    return sort_siblings(state, stats)
