"""Whether values have the types of hints, in checks of saved files."""

from collections.abc import Mapping, Sequence, Set
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
