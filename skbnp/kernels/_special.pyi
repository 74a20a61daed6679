from numpy import float64
from numpy.typing import NDArray

def log(x: NDArray[float64], out: NDArray[float64]) -> None: ...
def log_gamma(
    x: NDArray[float64], log_gammas: NDArray[float64], digammas: NDArray[float64]
) -> None: ...
