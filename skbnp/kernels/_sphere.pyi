from numpy import float32, float64, int32
from numpy.typing import NDArray

TILE: int
NEGLIGIBLE: float

def score_rows(
    indptr: NDArray[int32],
    words: NDArray[int32],
    values: NDArray[float32],
    table: NDArray[float32],
    prior: NDArray[float64],
    strength: float,
    nodes: NDArray[int32],
    scores: NDArray[float64],
    rest: NDArray[float64],
    drift: NDArray[float64] | None = None,
) -> int: ...
