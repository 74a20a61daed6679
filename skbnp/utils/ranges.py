"""Types, ranges and sizes of saved state, declared where a class has its attributes.

Learning keeps them; a file may be damaged, so they are checked when it is read.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from numbers import Integral, Real
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np
import scipy.sparse as sp

#: Largest count of a sampler.
MOST = 2**31 - 1
#: Largest magnitude of what is learned of counts and directions: sums of squares stay
#: doubles.
LARGE = 1e120
#: Largest magnitude of sums of squares of rows.
LARGE_SQUARE = 1e240
#: Least mass at a node: what rounding leaves of none.
LEAST_MASS = -0.5
#: Largest number of updates or rows, and of an entropy.
MOST_STEPS, MOST_ENTROPY = 2**53, 2**128 - 1
#: Largest id of a component: renaming allocates an entry for each, and the log of so
#: many takes gigabytes.
MOST_IDS = 2**24


@dataclass(frozen=True)
class In:
    """Range of a number."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"[{self.least:g}, {self.most:g}]"

    def contains(self, value: Any) -> bool:
        """Whether a number is in range; NaN is not."""
        return bool(self.least <= value <= self.most)


class NotEmpty:
    """Length of a container: one or more."""

    @staticmethod
    def contains(value: Any) -> bool:
        """Whether there is any entry."""
        return len(value) > 0


class Sized:
    """Sizes of an array, as numbers or names, and the range of its entries.

    A name stands for one number in all of a state. Doubles are by default at most
    `LARGE` in magnitude, integers from 0 to `MOST`.
    """

    number: type = np.float64  # of the entries of sparse arrays

    def __init__(
        self, *sizes: str | int, least: float | None = None, most: float | None = None
    ):
        self.sizes, self.least, self.most = sizes, least, most

    def __repr__(self) -> str:
        return f"({', '.join(map(str, self.sizes))}) with entries in range"

    def contains(self, value: Any) -> bool:
        """Whether compiled code can read an array, and its entries are in range."""
        if not sp.issparse(value):
            return value.ndim == len(self.sizes) and self._has_range(value)
        is_kind = value.data.dtype == self.number
        return is_kind and _is_canonical(value) and self._has_range(value.data)

    def _has_range(self, array: np.ndarray) -> bool:
        """Whether entries are laid out as compiled code reads them, and in range."""
        kind = array.dtype.kind
        if not _is_plain(array) or (kind == "f" and array.dtype != np.float64):
            return False
        if kind == "b" or not array.size:
            return True
        most = self.most or (LARGE if kind == "f" else MOST)
        least = self.least
        if least is None:
            least = -most if kind == "f" else 0
        return bool(array.min() >= least and array.max() <= most)


class TokenCounts(Sized):
    """Sizes of a sparse array of the whole counts of a corpus."""

    number = np.int32

    def contains(self, value: Any) -> bool:
        """Whether compiled code can read the counts, and their sum is in range."""
        return super().contains(value) and value.data.sum(dtype=np.int64) <= MOST


def _is_plain(array: Any) -> bool:
    """Whether a value is an array of numbers in the order of the processor."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        return False
    flags = array.flags
    return array.dtype.isnative and flags.c_contiguous and flags.aligned


def _is_canonical(counts: Any) -> bool:
    """Whether rows of a sparse array are within its entries, columns in its shape."""
    limits, columns = counts.indptr, counts.indices
    if not all(map(_is_plain, (limits, columns, counts.data))):
        return False
    # SciPy allows for entries behind the last limit; kernels do not.
    return bool(
        limits.dtype.kind == columns.dtype.kind == "i"
        and limits.shape == (counts.shape[0] + 1,)
        and columns.shape == counts.data.shape == (limits[-1],)
        and limits[0] == 0
        and (np.diff(limits) >= 0).all()
        and columns.min(initial=0) >= 0
        and columns.max(initial=-1) < counts.shape[1]
    )


#: Numbers of updates, sweeps, rows or documents.
Steps = Annotated[int, In(0, MOST_STEPS)]
Mass = Annotated[float, In(0, MOST_STEPS)]
Count = Annotated[int, In(1, MOST_STEPS)]
#: Numbers of components, and of columns.
Size = Annotated[int, In(1, MOST)]
#: Names of components, and the next one.
Id = Annotated[int, In(0, MOST_IDS)]
Entropy = Annotated[int, In(0, MOST_ENTROPY)]
Share = Annotated[float, In(0, 1)]
#: Of priors, and of what grows with sums over documents or rows.
Positive = Annotated[float, In(1e-300, 1e100)]
Amount = Annotated[float, In(0, LARGE)]
LeastAmount = Annotated[float, In(1e-300, LARGE)]
Number = Annotated[float, In(-LARGE, LARGE)]
SignedSquare = Annotated[float, In(-LARGE_SQUARE, LARGE_SQUARE)]
Square = Annotated[float, In(1e-300, LARGE_SQUARE)]
Limit = Annotated[float, In(1, np.inf)]
Unlimited = Annotated[float, In(0, np.inf)]
#: A logarithm; infinite where something is impossible.
Log = Annotated[float, In(-np.inf, np.inf)]

# Whether a value has the type of a hint -----------------------------------------------

#: Largest integer in the place of a double: more, and sums of both overflow.
MOST_WHOLE = 2**53
#: Hints of numbers, by the class that counts for them.
NUMBERS: dict[object, type] = {float: Real, int: Integral}
#: What is no object of a class with methods of its own.
PLAIN = (type(None), str, bytes, Real, np.ndarray)


def fits(value: object, hint: Any) -> bool:
    """Whether a value has a type, members of containers included.

    Arrays are of a kind of numbers, of any size; protocols and bounds of type variables
    match any object that is no number, text, array or container.
    """
    if isinstance(hint, TypeVar):
        if hint.__constraints__:
            return any(fits(value, one) for one in hint.__constraints__)
        return hint.__bound__ is None or _is_object(value)
    kind, args = get_origin(hint) or hint, get_args(hint)
    if hasattr(kind, "__value__"):  # a name of a hint, as NDArray is from NumPy 2.5 on
        return fits(value, kind.__value__[args] if args else kind.__value__)
    if kind is Annotated:
        return fits(value, args[0]) and all(one.contains(value) for one in args[1:])
    if kind in (Union, UnionType):
        return any(fits(value, one) for one in args)
    if kind is Literal:
        return isinstance(value, str) and value in args
    if is_typeddict(kind):
        hints = get_type_hints(kind)
        if not isinstance(value, dict) or value.keys() != hints.keys():
            return False
        return all(fits(value[name], hints[name]) for name in hints)
    if kind in NUMBERS:
        is_truth = isinstance(value, (bool, np.bool_))
        is_number = isinstance(value, NUMBERS[kind]) and not is_truth
        is_whole = kind is float and isinstance(value, int)
        return is_number and not (is_whole and abs(cast(int, value)) > MOST_WHOLE)
    if kind is bool:
        return isinstance(value, (bool, np.bool_))
    if kind is None:
        return value is None
    if kind is np.ndarray:
        return isinstance(value, np.ndarray) and _has_kind(value, args)
    if hint is Any or not isinstance(kind, type):
        return True
    if getattr(kind, "_is_protocol", False):
        return _is_object(value)
    return isinstance(value, kind) and _holds(value, args)


def _is_object(value: object) -> bool:
    """Whether a value is of a class with methods of its own."""
    return not isinstance(value, PLAIN) and type(value) not in (list, tuple, dict)


def _has_kind(array: np.ndarray, args: tuple[Any, ...]) -> bool:
    """Whether an array has the kind of numbers of `NDArray[...]`."""
    (number,) = get_args(args[1]) if args else (Any,)
    if not (isinstance(number, type) and issubclass(number, np.generic)):
        return not array.dtype.hasobject
    return array.dtype.kind == np.dtype(number).kind


def _holds(value: Any, args: tuple[Any, ...]) -> bool:
    """Whether the members of a container have its types."""
    if not args or isinstance(value, str):
        return True
    if isinstance(value, Mapping):
        return all(fits(k, args[0]) and fits(v, args[1]) for k, v in value.items())
    if isinstance(value, tuple) and args[-1] is not ...:
        if len(value) != len(args):
            return False
        return all(fits(*pair) for pair in zip(value, args, strict=True))
    if isinstance(value, (Sequence, Set)):
        return all(fits(item, args[0]) for item in value)
    return True
