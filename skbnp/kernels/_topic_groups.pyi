from numpy import float64, int32
from numpy.typing import NDArray

def rising_sums(
    tokens: NDArray[float64],
    bases: NDArray[float64],
    sums: NDArray[float64],
) -> None: ...
def shared_gains(
    docs: NDArray[int32],
    tokens: NDArray[float64],
    indptr: NDArray[int32],
    topics: NDArray[int32],
    counts: NDArray[float64],
    groups: NDArray[int32],
    own: int,
    bases: NDArray[float64],
    inner: float,
    sums: NDArray[float64],
    seen: NDArray[int32],
    gains: NDArray[float64],
) -> None: ...
