"""Random splits of the tokens of documents into parts, to predict one by another."""

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["MOST_UNITS", "deal_tokens", "with_values"]

#: Units that a count, or a document, is split into, at most (NumPy draws up to 10^9).
MOST_UNITS = 10**8


def with_values(X: sp.csr_array, *values: NDArray) -> list[sp.csr_array]:
    """Replace the stored counts of a matrix, for each of `values`.

    Zeros are dropped.
    """
    parts = list[sp.csr_array]()
    for counts in values:
        part = sp.csr_array((counts, X.indices.copy(), X.indptr.copy()), X.shape)
        part.eliminate_zeros()
        parts.append(part)
    return parts


def deal_tokens(
    X: sp.csr_array, n_parts: int, rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.intp], sp.csr_array, sp.csr_array]]:
    """Split the tokens of documents at random into parts.

    A fractional count c is split into ceil(c) equal units. Yields for each part the
    rows of which it and the rest have tokens, the part and the rest, of these rows.
    """
    units = np.ceil(np.minimum(X.data, MOST_UNITS)).astype(np.int64)
    dealt = rng.multinomial(units, np.full(n_parts, 1.0 / n_parts))
    for of_part in dealt.reshape(-1, n_parts).T:
        share = of_part / units
        part, rest = with_values(X, X.data * share, X.data * (1.0 - share))
        rows = np.flatnonzero((np.diff(part.indptr) > 0) & (np.diff(rest.indptr) > 0))
        yield rows, part[rows], rest[rows]
