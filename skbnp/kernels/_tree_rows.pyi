from numpy import float32, float64, int8, int32, uint8
from numpy.random import BitGenerator
from numpy.typing import NDArray

def collect(
    indptr: NDArray[int32],
    words: NDArray[int32],
    values: NDArray[float32],
    order: NDArray[int32],
    limits: NDArray[int32],
    nodes: NDArray[int32],
    gain: float,
    table: NDArray[float64],
) -> None: ...
def move_rows(
    indptr: NDArray[int32],
    words: NDArray[int32],
    values: NDArray[float32],
    queue: NDArray[int32],
    log_slices: NDArray[float64],
    place: NDArray[int32],
    members: NDArray[int32],
    log_weights: NDArray[float64],
    is_drawn: NDArray[uint8],
    keeper: NDArray[int32],
    kept: NDArray[int32],
    table: NDArray[float64],
    squares: NDArray[float64],
    own: NDArray[float64],
    strength: float,
    scores: NDArray[float64],
    order: float,
    n_steps: int,
    terms: NDArray[float64],
    bit_generator: BitGenerator,
) -> int: ...
def allocate(
    indptr: NDArray[int32],
    words: NDArray[int32],
    values: NDArray[float32],
    queue: NDArray[int32],
    side: NDArray[int8],
    is_forced: bool,
    table: NDArray[float64],
    squares: NDArray[float64],
    own: NDArray[float64],
    counts: NDArray[float64],
    strength: float,
    order: float,
    n_steps: int,
    terms: NDArray[float64],
    bit_generator: BitGenerator,
) -> float: ...
