from numpy import float32, float64
from numpy.typing import NDArray

MOST_TOKENS: int

def n_grid_rows(most: float) -> int: ...
def expected_tables_grid(discount: float, n_rows: int) -> NDArray[float32]: ...
def tables_of(
    counts: NDArray[float64],
    mass: NDArray[float64],
    grid: NDArray[float32],
    discount: float,
) -> NDArray[float64]: ...
def leave_one_out(
    counts: NDArray[float64],
    tables: NDArray[float64],
    base: NDArray[float64],
    doc_tables: NDArray[float64],
    doc_tokens: NDArray[float64],
    grid: NDArray[float32],
    discount: float,
    concentration: float,
) -> NDArray[float64]: ...
