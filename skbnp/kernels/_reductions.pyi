from numpy import float64, int64
from numpy.typing import NDArray

def add_losses(
    counts: NDArray[float64],
    rows: NDArray[int64],
    theta: NDArray[float64],
    topics: NDArray[float64],
    rest: NDArray[float64],
    shown: NDArray[float64],
    opens: NDArray[float64],
    corpus: NDArray[float64],
    elsewhere: float,
    one: NDArray[int64],
    other: NDArray[int64],
    of_one: NDArray[float64],
    of_other: NDArray[float64],
    less: NDArray[float64],
    ends: NDArray[float64],
    heard: NDArray[float64],
    merges: NDArray[float64],
) -> None: ...
