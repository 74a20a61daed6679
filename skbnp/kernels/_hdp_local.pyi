from numpy import float32, float64, int32, intp
from numpy.typing import NDArray

LANES: int
SMALLEST_WORD_WEIGHT: float
ACTIVE: float
MARGIN: float

def infer_documents(
    indptr: NDArray[int32],
    words: NDArray[int32],
    counts: NDArray[float64],
    weights: NDArray[float32],
    prior: NDArray[float64],
    share: NDArray[float64],
    starts: NDArray[float32],
    remembered: bool,
    max_iter: int,
    tol: float,
    support: float,
    plain: bool = False,
    n_mean: int = 0,
) -> tuple[
    NDArray[int32], NDArray[int32], NDArray[float64], NDArray[float64], NDArray[float64]
]: ...
def word_sums(
    begin: int,
    end: int,
    columns: NDArray[int32],
    docs: NDArray[int32],
    ratios: NDArray[float64],
    log_ratios: NDArray[float64],
    limits: NDArray[int32],
    doc_topics: NDArray[int32],
    doc_weights: NDArray[float64],
    weights: NDArray[float32],
    n_topics: int,
) -> tuple[
    NDArray[int32], NDArray[int32], NDArray[float64], NDArray[float64], NDArray[float64]
]: ...
def word_weights(
    held: NDArray[float64],
    scale: float,
    words: NDArray[intp],
    norm: NDArray[float64],
    eta: float,
    mean: bool,
    table: NDArray[float32],
    tops: NDArray[float64] | None = None,
) -> None: ...
