"""Ranges of numbers of saved state, declared where a class declares its attributes.

Learning keeps them; a file may be damaged, so they are checked when it is read.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

#: Largest count of a sampler.
MOST = 2**31 - 1
#: Largest magnitude of what is learned of counts and directions: sums of squares stay
#: doubles.
LARGE = 1e120
#: Largest magnitude of sums of squares of rows.
LARGE_SQUARE = 1e240
#: Largest number of updates or rows, and of an entropy.
MOST_STEPS, MOST_ENTROPY = 2**53, 2**128 - 1
#: Largest id of a component: renaming allocates an entry for each, and the log of so
#: many takes gigabytes.
MOST_IDS = 2**24


@dataclass(frozen=True)
class In:
    """Range of a number."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"[{self.least:g}, {self.most:g}]"

    def contains(self, value: Any) -> bool:
        """Whether a number is in range; NaN is not."""
        return bool(self.least <= value <= self.most)


#: Numbers of updates, sweeps, rows or documents.
Steps = Annotated[int, In(0, MOST_STEPS)]
Mass = Annotated[float, In(0, MOST_STEPS)]
Count = Annotated[int, In(1, MOST_STEPS)]
#: Names of components, and the next one.
Id = Annotated[int, In(0, MOST_IDS)]
Entropy = Annotated[int, In(0, MOST_ENTROPY)]
Share = Annotated[float, In(0, 1)]
#: Of priors, and of what grows with sums over documents or rows.
Positive = Annotated[float, In(1e-300, 1e100)]
Amount = Annotated[float, In(0, LARGE)]
LeastAmount = Annotated[float, In(1e-300, LARGE)]
Square = Annotated[float, In(1e-300, LARGE_SQUARE)]
Limit = Annotated[float, In(1, np.inf)]
#: A logarithm; infinite where something is impossible.
Log = Annotated[float, In(-np.inf, np.inf)]
