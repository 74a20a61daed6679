from numpy import float64, int32
from numpy.typing import NDArray

def late_topics_step(
    indptr: NDArray[int32],
    words: NDArray[int32],
    counts: NDArray[float64],
    old: NDArray[float64],
    shares: NDArray[float64],
    topics: NDArray[float64],
    tokens: NDArray[float64],
    sums: NDArray[float64],
) -> None: ...
