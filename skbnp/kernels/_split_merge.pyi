from typing import Any

from numpy import int32, int64
from numpy.typing import NDArray

from skbnp.kernels._seating import Workspace

SPLIT: int
MERGED: int

def propose(
    seating: Any,
    work: Workspace,
    words: NDArray[int32],
    begin: NDArray[int32],
    doc: NDArray[int32],
    table: NDArray[int32],
    first: NDArray[int64],
    n_scans: int,
    bit_generator: Any,
) -> tuple[int, int, int]: ...
