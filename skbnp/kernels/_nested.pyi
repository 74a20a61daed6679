from numpy import float32, float64, int32, intp
from numpy.typing import NDArray

N_START: int
ACTIVE_SHARE: float
LEAST: float

def infer_nested(
    indptr: NDArray[int32],
    words: NDArray[int32],
    counts: NDArray[float64],
    topics: NDArray[float64],
    norm: NDArray[float64],
    eta: float,
    parent: NDArray[int32],
    prior: NDArray[float64],
    total: NDArray[float64],
    rest: NDArray[float64],
    stop: float,
    go: float,
    held: NDArray[float64],
    whole: bool,
    active: float,
    max_iter: int,
    tol: float,
    n_features: float,
    grid: NDArray[float32] | None = None,
    discount: float = 1.0,
    concentration: float = 0.0,
) -> tuple[
    NDArray[int32],
    NDArray[int32],
    NDArray[float64],
    NDArray[intp],
    NDArray[int32],
    NDArray[float64],
    float,
    NDArray[float64],
    NDArray[float64],
]: ...
