from numpy import float64, int32
from numpy.typing import NDArray

SMALLEST_WORD_WEIGHT: float

def infer_documents(
    indptr: NDArray[int32],
    words: NDArray[int32],
    counts: NDArray[float64],
    weights: NDArray[float64],
    prior: NDArray[float64],
    share: NDArray[float64],
    doc_topic: NDArray[float64],
    remembered: bool,
    word_topic: NDArray[float64],
    entropy: NDArray[float64],
    work: NDArray[float64],
    max_iter: int,
    tol: float,
    support: float,
) -> None: ...
