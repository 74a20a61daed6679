from typing import Any

from skbnp.kernels._seating import Workspace

def sweep(
    seating: Any,
    work: Workspace,
    doc: int,
    stop: int,
    meal_part: int,
    bit_generator: Any,
) -> int: ...
