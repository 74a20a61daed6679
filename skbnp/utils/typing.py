"""Types of what users give."""

from typing import Any

from numpy.random import RandomState

#: What scikit-learn takes for a matrix: an array-like, a sparse matrix, a data frame.
MatrixLike = Any
RandomStateLike = int | RandomState | None
