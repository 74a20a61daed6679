"""Types of what users give, and of arrays."""

from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

#: Arrays of numbers, of positions or ids, and of truth values.
Array = NDArray[np.float64]
Ints = NDArray[np.intp]
Ints32 = NDArray[np.int32]
Flags = NDArray[np.bool_]

#: What scikit-learn takes for a matrix: an array-like, a sparse matrix, a data frame.
MatrixLike = Any
RandomStateLike = int | RandomState | None
