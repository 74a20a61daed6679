from numpy import float64, int32
from numpy.typing import NDArray

def rising_sums(
    means: NDArray[float64],
    some: NDArray[float64],
    bases: NDArray[float64],
    sums: NDArray[float64],
) -> None: ...
def merge_gains(
    docs: NDArray[int32],
    tokens: NDArray[float64],
    indptr: NDArray[int32],
    topics: NDArray[int32],
    counts: NDArray[float64],
    labels: NDArray[int32],
    own: int,
    outer: float,
    inner: float,
    weights: NDArray[float64],
    tables: NDArray[float64],
    offsets: NDArray[float64],
    nodes: NDArray[float64],
    factors: NDArray[float64],
    sums: NDArray[float64],
    seen: NDArray[int32],
    gains: NDArray[float64],
) -> None: ...
