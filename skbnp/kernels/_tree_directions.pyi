from numpy import float64, int32, intp
from numpy.typing import NDArray

def products(
    rows: NDArray[intp],
    directions: NDArray[float64],
    vectors: NDArray[float64],
    found: NDArray[float64],
) -> None: ...
def sparse_products(
    rows: NDArray[intp],
    directions: NDArray[float64],
    indptr: NDArray[int32],
    words: NDArray[int32],
    values: NDArray[float64],
    found: NDArray[float64],
) -> None: ...
def prior_products(
    nodes: NDArray[intp],
    directions: NDArray[float64],
    direction: NDArray[intp],
    parent: NDArray[intp],
    previous: NDArray[float64],
    past: NDArray[intp],
    found: NDArray[float64],
) -> None: ...
def integrate_out(
    begin: int,
    end: int,
    depth: NDArray[intp],
    parent: NDArray[intp],
    directions: NDArray[float64],
    direction: NDArray[intp],
    previous: NDArray[float64],
    past: NDArray[intp],
    indptr: NDArray[int32],
    words: NDArray[int32],
    values: NDArray[float64],
    strength: float,
    pull: float,
    pull_of_past: float,
    below: NDArray[float64],
    order: float,
    n_steps: int,
    terms: NDArray[float64],
) -> float: ...
