from numpy import float64, int32, int64, uint8
from numpy.typing import NDArray

CHEAP_ITERATIONS: int
MOST_NATS: float

def infer_paths(
    indptr: NDArray[int32],
    words: NDArray[int32],
    counts: NDArray[float64],
    log_weights: NDArray[float64],
    off_tree: NDArray[float64],
    stub_nodes: NDArray[int32],
    log_prior: NDArray[float64],
    level_prior: NDArray[float64],
    max_iter: int,
    tol: float,
    prune: float = 20.0,
    factorised: bool = False,
    starts: tuple[NDArray[int32], NDArray[int32], NDArray[float64], NDArray[float64]]
    | None = None,
    enter: float = ...,
    is_open: NDArray[uint8] | None = None,
) -> tuple[
    NDArray[int32],
    NDArray[int32],
    NDArray[float64],
    NDArray[float64],
    NDArray[float64],
    NDArray[float64],
]: ...
def share_words(
    indptr: NDArray[int32],
    words: NDArray[int32],
    counts: NDArray[float64],
    log_weights: NDArray[float64],
    off_tree: NDArray[float64],
    stub_nodes: NDArray[int32],
    level_prior: NDArray[float64],
    limits: NDArray[int32],
    stubs: NDArray[int32],
    shares: NDArray[float64],
    weights: NDArray[float64],
    factorised: bool = False,
) -> tuple[NDArray[float64], NDArray[float64]]: ...
def sum_words(
    indptr: NDArray[int64],
    words: NDArray[int32],
    counts: NDArray[float64],
    limits: NDArray[int64],
    stubs: NDArray[int32],
    shares: NDArray[float64],
    pairs: NDArray[int64],
    tokens: NDArray[float64],
    stub_nodes: NDArray[int32],
    word_sums: NDArray[float64],
    variances: NDArray[float64],
    masses: NDArray[float64],
    off_tokens: NDArray[float64],
) -> None: ...
