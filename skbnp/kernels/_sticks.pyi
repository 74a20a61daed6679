from numpy import float64, intp
from numpy.typing import NDArray

def beta_parameters(
    parent: NDArray[intp],
    masses: NDArray[float64],
    stop: float,
    child: float,
    found: NDArray[float64],
) -> None: ...
def expected_log_weights(
    parent: NDArray[intp],
    parameters: NDArray[float64],
    work: NDArray[float64],
    found: NDArray[float64],
) -> None: ...
def merge_gains(
    sources: NDArray[intp],
    targets: NDArray[intp],
    parent: NDArray[intp],
    children: NDArray[intp],
    limits: NDArray[intp],
    masses: NDArray[float64],
    history: NDArray[float64],
    stop: float,
    child: float,
    work: NDArray[float64],
    found: NDArray[float64],
) -> None: ...
