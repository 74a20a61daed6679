from numpy import float64, int32, intp
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
def prior_slope(
    kappa: float,
    lengths: NDArray[float64],
    products: NDArray[float64],
    mean_lengths: NDArray[float64],
    spreads: NDArray[float64],
    dimension: int,
    order: float,
    n_steps: int,
    terms: NDArray[float64],
) -> float: ...
def optimal_length(
    natural: float,
    spread: float,
    lengths_below: NDArray[float64],
    pull: float,
    dimension: int,
    order: float,
    n_steps: int,
    terms: NDArray[float64],
) -> float: ...
def natural_parameter(
    row: int,
    natural: NDArray[float64],
    means: NDArray[float64],
    previous: NDArray[float64],
    past: NDArray[intp],
    above: NDArray[float64],
    centroid: NDArray[float64],
    parent: NDArray[intp],
    children: NDArray[intp],
    limits: NDArray[intp],
    indptr: NDArray[int32],
    words: NDArray[int32],
    values: NDArray[float64],
    strength: float,
    pull: float,
    pull_of_past: float,
    order: float,
    n_steps: int,
    terms: NDArray[float64],
) -> None: ...
def update_directions(
    rows: NDArray[intp],
    concentrations: NDArray[float64],
    natural: NDArray[float64],
    lengths_below: NDArray[float64],
    squares: NDArray[float64],
    means: NDArray[float64],
    previous: NDArray[float64],
    past: NDArray[intp],
    above: NDArray[float64],
    centroid: NDArray[float64],
    parent: NDArray[intp],
    children: NDArray[intp],
    limits: NDArray[intp],
    indptr: NDArray[int32],
    words: NDArray[int32],
    values: NDArray[float64],
    strength: float,
    pull: float,
    pull_of_past: float,
    order: float,
    n_steps: int,
    terms: NDArray[float64],
) -> None: ...
def inner_products(
    rows: NDArray[intp],
    means: NDArray[float64],
    previous: NDArray[float64],
    past: NDArray[intp],
    above: NDArray[float64],
    parent: NDArray[intp],
    found: NDArray[float64],
) -> None: ...
def fits(
    rows: NDArray[intp],
    means: NDArray[float64],
    indptr: NDArray[int32],
    words: NDArray[int32],
    values: NDArray[float64],
    found: NDArray[float64],
) -> None: ...
def place_draws(
    rows: NDArray[intp],
    cosines: NDArray[float64],
    normals: NDArray[float64],
    table: NDArray[float64],
) -> None: ...
