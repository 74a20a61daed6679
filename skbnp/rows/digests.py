"""Digests of the rows that a model has learned from, by which it knows them again."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.utils.arrays import rows_of

Hashes = NDArray[np.uint64]

#: Hashes that are kept: those of all rows or, of more rows, the smallest.
MOST = 4096


def hashes_of(counts: sp.csr_array) -> Hashes:
    """Hashes of the rows that have entries, whatever the order of these, (n,)."""
    columns = counts.indices.astype(np.uint64)
    values = np.asarray(counts.data, np.float64) + 0.0
    mixed = _mix(_mix(columns) + values.view(np.uint64))
    rows = np.unique(rows_of(counts.indptr), return_index=True)[1]
    return _mix(np.add.reduceat(mixed, rows)) if len(rows) else mixed


def joined(hashes: Hashes, more: Hashes) -> Hashes:
    """Return the digest of the rows of both, the smallest hashes in order."""
    return np.union1d(hashes, more)[:MOST]


def share_known(digest: Hashes, counts: sp.csr_array) -> float:
    """Share of the rows with entries that a digest has; 0 if it cannot tell."""
    hashes = hashes_of(counts)
    if len(digest) == MOST:
        hashes = hashes[hashes <= digest[-1]]
    return float(np.isin(hashes, digest).mean()) if len(hashes) else 0.0


def _mix(x: Hashes) -> Hashes:
    """Mix the bits of numbers, splitmix64 (Steele, Lea and Flood 2014)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
