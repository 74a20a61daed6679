from numpy import float32, float64, int32, intp
from numpy.typing import NDArray

N_START: int
ACTIVE: float
ACTIVE_SHARE: float
LEAST: float

def infer_collapsed(
    indptr: NDArray[int32],
    words: NDArray[int32],
    counts: NDArray[float64],
    weights: NDArray[float32],
    tops: NDArray[float64],
    norm: NDArray[float64],
    eta: float,
    prior: NDArray[float64],
    rest: float,
    share: NDArray[float64],
    held: NDArray[float64],
    max_iter: int,
    tol: float,
    n_features: float = 1.0,
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
def infer_zero_order(
    indptr: NDArray[int32],
    words: NDArray[int32],
    counts: NDArray[float64],
    weights: NDArray[float32],
    prior: NDArray[float64],
    active: float,
    max_iter: int,
    tol: float,
    tops: NDArray[float64] | None = None,
    rest: float = 0.0,
    n_features: float = 1.0,
    grid: NDArray[float32] | None = None,
    discount: float = 1.0,
    concentration: float = 0.0,
) -> tuple[
    NDArray[int32], NDArray[int32], NDArray[float64], NDArray[float64], NDArray[float64]
]: ...
def collapsed_sums(
    begin: int,
    end: int,
    columns: NDArray[int32],
    stored: NDArray[intp],
    limits: NDArray[intp],
    topics: NDArray[int32],
    sums: NDArray[float64],
    n_topics: int,
) -> tuple[NDArray[int32], NDArray[int32], NDArray[float64]]: ...
