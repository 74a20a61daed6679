from typing import Any

from numpy import float32, float64, int32, int64, uint8
from numpy.typing import NDArray

MAX_LEVELS: int
LEVELS: int
PATHS: int
TOGETHER: int
SCORES: int

def sweep(
    begin: NDArray[int64],
    words: NDArray[int32],
    level: NDArray[uint8],
    path: NDArray[int32],
    first: NDArray[int64],
    n_nodes: NDArray[int32],
    counts: NDArray[int32],
    totals: NDArray[int32],
    docs: NDArray[int32],
    parent: NDArray[int32],
    is_new: NDArray[int32],
    concentration: float,
    level_prior: NDArray[float64],
    topic_prior: NDArray[float64],
    n_unseen: int,
    log_counts: NDArray[float32],
    doc: int,
    stop: int,
    kind: int,
    bit_generator: Any,
    scores: NDArray[float64] | None = None,
    n_tries: int = 1,
) -> int: ...
