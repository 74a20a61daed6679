"""Types of what users give, of arrays, of frames and of figures."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
    from pandas import DataFrame as DataFrame
else:  # these packages are imported where a frame or a figure is made
    Axes = Figure = DataFrame = Any

#: Arrays of numbers, of positions or ids, and of truth values.
Array = NDArray[np.float64]
Ints = NDArray[np.intp]
Ints32 = NDArray[np.int32]
Flags = NDArray[np.bool_]

#: What scikit-learn takes for a matrix: an array-like, a sparse matrix, a data frame.
MatrixLike = Any
RandomStateLike = int | RandomState | None
