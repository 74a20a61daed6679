"""Where dependent trees start when rows are elsewhere: clusters of a sample.

Clusters are found among some rows, which do not depend on how rows are cut into shards;
all rows then go to the nearest, where they are.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.shards import Shard, Shards, World
from skbnp.models.dependent_trees.model import EpochState, EpochStats, TreePriors
from skbnp.models.dependent_trees.moves.births import row_keys
from skbnp.models.dependent_trees.start import (
    cluster_sums,
    nearest_centres,
    spherical_kmeans,
    start_from,
)

__all__ = ["start_shards"]

#: Rows among which clusters are found, and rows for each cluster, at the least.
SAMPLE, ROWS_PER_CLUSTER = 20_000, 10


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows with the smallest keys."""

    keys: NDArray[np.uint64]  # increasing
    X: sp.csr_array
    most: int

    def plus(self, other: "KeyedRows") -> "KeyedRows":
        """Return those with the smallest keys of both."""
        keys = np.concatenate([self.keys, other.keys])
        order = np.argsort(keys, kind="stable")[: self.most]
        X = sp.csr_array(sp.vstack([self.X, other.X], format="csr"))
        return KeyedRows(keys[order], X[order], self.most)


def sample_rows(shard: Shard, world: None, argument: tuple[int, int]) -> KeyedRows:
    """Draw rows of a shard by their numbers."""
    seed, most = argument
    numbers = shard.first_row + np.arange(shard.X.shape[0])
    keys = row_keys(seed, 0, numbers)
    order = np.argsort(keys, kind="stable")[:most]
    return KeyedRows(keys[order], shard.X[order], most)


def sum_clusters(shard: Shard, world: World, argument: None) -> EpochStats:
    """Sum rows by the nearest of some centres."""
    centres: NDArray[np.float64] = world.content
    labels = nearest_centres(shard.X, centres)
    return cluster_sums(shard.X, labels, len(centres))


def start_shards(
    shards: Shards, n_clusters: int, priors: TreePriors, rng: np.random.Generator
) -> tuple[EpochState, EpochStats]:
    """Put clusters of rows below a root that has none, and learn what is global."""
    numbers = range(len(shards.n_rows))
    seed = int(rng.integers(1 << 62))
    sample: KeyedRows = shards.total(sample_rows, numbers, None, (seed, SAMPLE))
    n_clusters = max(min(n_clusters, SAMPLE // ROWS_PER_CLUSTER), 1)
    labels = spherical_kmeans(sample.X, n_clusters, rng)
    sums = cluster_sums(sample.X, labels, int(labels.max(initial=-1)) + 1).sums[1:]
    lengths = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1)).ravel())
    centres = sums.toarray() / np.maximum(lengths, 1e-300)[:, None]
    stats: EpochStats = shards.total(sum_clusters, numbers, World(centres))
    return start_from(stats, priors)
