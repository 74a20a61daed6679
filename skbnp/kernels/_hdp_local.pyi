from numpy import float64, int32
from numpy.typing import NDArray

SMALLEST_WORD_WEIGHT: float
ACTIVE: float

def document_work(indptr: NDArray[int32], n_topics: int) -> int: ...
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
    doc_weights: NDArray[float64],
    norms: NDArray[float64],
    work: NDArray[float64],
    max_iter: int,
    tol: float,
    support: float,
    prune: bool = True,
) -> None: ...
def word_weights(
    table: NDArray[float64],
    norm: NDArray[float64],
    eta: float,
    work: NDArray[float64],
    mean: bool,
) -> None: ...
def exp_digamma(x: NDArray[float64], out: NDArray[float64]) -> None: ...
