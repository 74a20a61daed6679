from numpy import float32, float64, int32, intp, uint8
from numpy.typing import NDArray

def assign_rows(
    indptr: NDArray[int32],
    words: NDArray[int32],
    values: NDArray[float32],
    sequence: NDArray[intp],
    naturals: NDArray[float64],
    squares: NDArray[float64],
    shares: NDArray[float64],
    spreads: NDArray[float64],
    log_weights: NDArray[float64],
    log_weights_below: NDArray[float64],
    masses: NDArray[float64],
    lasting: NDArray[uint8],
    parent: NDArray[intp],
    places: NDArray[intp],
    n_nodes: int,
    strength: float,
    pull: float,
    least: float,
    order: float,
    n_steps: int,
    terms: NDArray[float64],
) -> int: ...
