"""Order of values, with ties that do not depend on the machine."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["largest"]


def largest(values: NDArray, n: int) -> NDArray[np.intp]:
    """Find the `n` largest values: indices, largest first, ties in order of index."""
    n = min(n, len(values))
    candidates = np.flatnonzero(values >= np.partition(values, -n)[-n])
    return candidates[np.argsort(-values[candidates], kind="stable")][:n]
