from numpy import float32, float64, int32
from numpy.typing import NDArray

def compare_merges(
    indptr: NDArray[int32],
    words: NDArray[int32],
    counts: NDArray[float64],
    word_weights: NDArray[float32] | NDArray[float64],
    doc_weights: NDArray[float64],
    norms: NDArray[float64],
    doc_topic: NDArray[float64],
    growth: NDArray[float64],
    prior: NDArray[float64],
    pairs: NDArray[int32],
    sums: NDArray[float64],
) -> None: ...
