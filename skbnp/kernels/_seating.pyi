from typing import Any

from numpy import int32, int64
from numpy.typing import NDArray

MEAL_PART: int

class Workspace:
    n_places: int
    longest: int
    def __init__(self, n_places: int, longest: int) -> None: ...

def count(seating: Any, work: Workspace) -> None: ...
def rate(seating: Any, work: Workspace) -> None: ...
def tidy(seating: Any, work: Workspace, renamed: NDArray[int32]) -> None: ...
def group(
    seating: Any, work: Workspace, words: NDArray[int32], begin: NDArray[int32]
) -> None: ...
def one_table_per_dish(
    begin: NDArray[int64],
    dish: NDArray[int32],
    n_dishes: int,
    table: NDArray[int32],
    n_tables: NDArray[int32],
    size: NDArray[int32],
    dish_of: NDArray[int32],
) -> int: ...
def count_of_counts(
    seating: Any, times: NDArray[int32], large: NDArray[int32]
) -> int: ...
