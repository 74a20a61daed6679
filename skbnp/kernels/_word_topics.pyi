from numpy import float64, int32, int64, intp
from numpy.typing import NDArray

def add_rows(
    table: NDArray[float64],
    words: NDArray[intp],
    limits: NDArray[int32],
    topics: NDArray[int32],
    values: NDArray[float64],
    factor: float,
    lowest: float,
    total: NDArray[float64],
) -> None: ...
def mix_topics(
    table: NDArray[float64],
    scale: float,
    eta: NDArray[float64],
    norm: NDArray[float64],
    shares: NDArray[float64],
    limits: NDArray[int64],
    words: NDArray[intp],
    mixed: NDArray[float64],
) -> None: ...
def growth(
    table: NDArray[float64],
    scale: float,
    eta: float,
    growths: NDArray[float64],
    moments: NDArray[float64],
) -> None: ...
def joint_growth(
    table: NDArray[float64], scale: float, eta: float, one: int, other: int
) -> float: ...
def expected_growth(
    means: NDArray[float64],
    variances: NDArray[float64],
    eta: NDArray[float64],
    totals: NDArray[float64],
) -> None: ...
