from typing import Any

from numpy import float32, float64, int32, intp
from numpy.typing import NDArray

MARGIN: float
EMPTY: float
SUPPORT: float

def infer_tables(
    indptr: NDArray[int32],
    words: NDArray[int32],
    counts: NDArray[float64],
    logs: NDArray[float32],
    log_beta: NDArray[float64],
    concentration: float,
    n_tables: int,
    remembered: Any,
    max_iter: int,
    tol: float,
) -> tuple[
    NDArray[int32],
    NDArray[float64],
    NDArray[intp],
    NDArray[int32],
    NDArray[float64],
    NDArray[float64],
]: ...
def table_sums(
    begin: int,
    end: int,
    columns: NDArray[int32],
    docs: NDArray[int32],
    counts: NDArray[float64],
    places: NDArray[intp],
    zeta: NDArray[float64],
    tables: NDArray[int32],
    limits: NDArray[intp],
    table_topics: NDArray[int32],
    phi: NDArray[float64],
    n_topics: int,
) -> tuple[NDArray[int32], NDArray[int32], NDArray[float64]]: ...
def log_weights(
    held: NDArray[float64],
    scale: float,
    words: NDArray[intp],
    norm: NDArray[float64],
    eta: float,
    mean: bool,
    table: NDArray[float32],
) -> None: ...
