from typing import TypeVar

from numpy import float64, intp
from numpy.typing import NDArray

_Number = TypeVar("_Number", intp, float64)

def find_parents(
    depth: NDArray[intp], last: NDArray[intp], parent: NDArray[intp]
) -> None: ...
def add_up(parent: NDArray[intp], totals: NDArray[_Number]) -> None: ...
