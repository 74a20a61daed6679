from numpy import float64, intp, uint8
from numpy.typing import NDArray

def log_constants(
    squares: NDArray[float64],
    found: NDArray[float64],
    order: float,
    n_steps: int,
    terms: NDArray[float64],
) -> None: ...
def bessel_slopes(
    squares: NDArray[float64],
    found: NDArray[float64],
    order: float,
    n_steps: int,
    terms: NDArray[float64],
) -> None: ...
def natural_lengths(
    lengths: NDArray[float64],
    spreads: NDArray[float64],
    found: NDArray[float64],
    dimension: int,
    order: float,
    n_steps: int,
    terms: NDArray[float64],
) -> None: ...
def conjugates(
    lengths: NDArray[float64],
    spreads: NDArray[float64],
    found: NDArray[float64],
    dimension: int,
    order: float,
    n_steps: int,
    terms: NDArray[float64],
) -> None: ...
def optimal_lengths(
    naturals: NDArray[float64],
    spreads: NDArray[float64],
    lengths_below: NDArray[float64],
    above: NDArray[intp],
    pull: float,
    found: NDArray[float64],
    weights: NDArray[float64],
    has_settled: NDArray[uint8],
    dimension: int,
    order: float,
    n_steps: int,
    terms: NDArray[float64],
) -> None: ...
