"""Random sample of the rows of dependent trees in shards, to choose nodes one by one.

The sample does not depend on how rows are divided into shards.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.shards import Shard, Shards
from skbnp.models.dependent_trees.moves.births import row_keys

#: Rows that are drawn at most, and rows for each cluster of a start at least.
SAMPLE, ROWS_PER_CLUSTER = 20_000, 10


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows with the smallest keys."""

    keys: NDArray[np.uint64]  # increasing
    X: sp.csr_array
    most: int

    def plus(self, other: "KeyedRows") -> "KeyedRows":
        """Return the rows of the smallest keys of both."""
        keys = np.concatenate([self.keys, other.keys])
        order = np.argsort(keys, kind="stable")[: self.most]
        X = sp.csr_array(sp.vstack([self.X, other.X], format="csr"))
        return KeyedRows(keys[order], X[order], self.most)


def sample_rows(shard: Shard, broadcast: None, argument: tuple[int, int]) -> KeyedRows:
    """Task: draw rows of a shard by keys of their numbers."""
    seed, most = argument
    numbers = shard.first_row + np.arange(shard.X.shape[0])
    keys = row_keys(seed, 0, numbers)
    order = np.argsort(keys, kind="stable")[:most]
    return KeyedRows(keys[order], shard.X[order], most)


def draw_rows(shards: Shards, rng: np.random.Generator) -> sp.csr_array:
    """Draw rows of all shards, and send them to this process."""
    seed, numbers = int(rng.integers(1 << 62)), range(len(shards.n_rows))
    sample: KeyedRows = shards.total(sample_rows, numbers, None, (seed, SAMPLE))
    return sample.X
