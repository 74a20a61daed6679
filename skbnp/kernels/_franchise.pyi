from typing import Any

from numpy import int32, int64
from numpy.typing import NDArray

MEAL_PART: int

class Workspace:
    n_places: int
    longest: int
    def __init__(self, n_places: int, longest: int) -> None: ...

def sweep(
    seating: Any,
    work: Workspace,
    doc: int,
    stop: int,
    meal_part: int,
    bit_generator: Any,
) -> int: ...
def tidy(seating: Any, work: Workspace, renamed: NDArray[int32]) -> None: ...
def propose(
    seating: Any,
    work: Workspace,
    doc: NDArray[int32],
    table: NDArray[int32],
    first: NDArray[int64],
    bit_generator: Any,
) -> tuple[int, float, int, int]: ...
def count_of_counts(
    seating: Any, times: NDArray[int32], large: NDArray[int32]
) -> int: ...
