"""Random streams named by their purpose and place, independent of threads.

A fit draws 128 bits of entropy once. Every later draw comes from a stream that is named
by a purpose and the place of the work (step, block, chain), never by the thread or
process that does it. So there is no stream state to save or share, and the number of
threads cannot change a draw.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from skbnp.utils.arrays import row_parts
from skbnp.utils.typing import Ints

#: Rows that are drawn at most, unless another number is given.
MOST_ROWS = 4096


class Purpose(IntEnum):
    """Purpose of a stream: the first part of its name."""

    START = 0
    ORDER = 1
    SPLIT_TOKENS = 2
    MOVE = 3
    SWEEP = 4
    SOME_DOCS = 5
    BLOCKS = 6
    INTERVALS = 7


def draw_seed_entropy(random_state: int | np.random.RandomState | None) -> int:
    """Draw 128 bits from what scikit-learn accepts as `random_state`."""
    words = check_random_state(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
    return int.from_bytes(words.astype("<u4").tobytes(), "little")


def stream(entropy: int, purpose: Purpose, *place: int) -> np.random.Generator:
    """Return the random stream of one unit of work."""
    seed = np.random.SeedSequence(entropy, spawn_key=(int(purpose), *place))
    return np.random.Generator(np.random.PCG64DXSM(seed))


def some_rows(rows: Ints, rng: np.random.Generator, most: int = MOST_ROWS) -> Ints:
    """Draw rows in increasing order, or take all if there are no more."""
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


def gamma_noise(
    shape: tuple[int, int], rng: np.random.Generator, out: np.ndarray | None = None
) -> np.ndarray:
    """Draw Gamma(1, 1) noise, exponential with mean one, row by row."""
    noise = np.empty(shape) if out is None else out
    for rows in row_parts(shape):
        noise[rows] = rng.standard_gamma(1.0, size=noise[rows].shape)
    return noise


def splitmix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash numbers by mixing their bits, Steele, Lea and Flood (2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
