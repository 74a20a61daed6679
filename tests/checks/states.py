"""Exact comparison of whatever an estimator holds."""

import copy
import random
import struct
from functools import cached_property
from numbers import Real

import numpy as np

#: Wall time, which no two runs share.
TIMES = frozenset({"seconds", "_start", "_last_message"})
#: What sparse arrays note about their entries; files hold the entries alone.
NOTES = frozenset({"_has_canonical_format", "_has_sorted_indices"})
#: Which copies read the same table, which changes no number.
SHARING = "_sharing"


def snapshot(estimator):
    """Deep copy of all that the estimator holds."""
    return copy.deepcopy(vars(estimator))


def learned(estimator):
    """What fitting has written: neither parameters, callbacks nor their contexts."""
    parameters = estimator.get_params(deep=False)
    return {
        name: value
        for name, value in vars(estimator).items()
        if name not in parameters and not name.startswith(("_skl_", "_callback_"))
    }


def assert_same(left, right, ignore=TIMES | NOTES):
    """Raise unless two objects are equal bit by bit, types included.

    Entries of dicts and attributes named in `ignore` are left out.
    """
    result = list(differences(left, right, ignore))
    assert not result, "; ".join(result[:5])


def check_leaves_global_random_state(run):
    """Raise if `run` draws from the global generators of NumPy or Python."""
    before = np.random.get_state(), random.getstate()  # noqa: NPY002
    run()
    assert_same(before, (np.random.get_state(), random.getstate()))  # noqa: NPY002


def differences(left, right, ignore=TIMES, path="", visited=None):
    """Yield a line for each place where two objects differ."""
    visited = set() if visited is None else visited
    if (id(left), id(right)) in visited:
        return
    visited.add((id(left), id(right)))
    if type(left) is not type(right):
        yield f"{path}: {type(left).__name__} is not {type(right).__name__}"
    elif isinstance(left, np.ndarray) and left.dtype != object:
        yield from _array_differences(left, right, path)
    elif isinstance(left, Real):
        if _bits(left) != _bits(right):
            yield f"{path}: {left!r} is not {right!r}"
    elif isinstance(left, np.random.RandomState):
        yield from differences(
            left.get_state(), right.get_state(), ignore, f"{path}.state", visited
        )
    elif isinstance(parts := _parts(left), dict):
        yield from _part_differences(parts, _parts(right), ignore, path, visited)
    elif left != right:
        yield f"{path}: {left!r} is not {right!r}"


def _array_differences(left, right, path):
    if left.shape != right.shape or left.dtype != right.dtype:
        yield (f"{path}: {left.dtype}{left.shape} is not {right.dtype}{right.shape}")
    elif left.tobytes() != right.tobytes():
        yield f"{path}: entries differ"


def _part_differences(left, right, ignore, path, visited):
    left_out = {*ignore, SHARING}
    for name in left.keys() ^ right.keys():
        if name not in left_out:
            yield f"{path}.{name}: only on one side"
    for name in left.keys() & right.keys():
        if name not in left_out:
            yield from differences(
                left[name], right[name], ignore, f"{path}.{name}", visited
            )


def _bits(number):
    return struct.pack("<d", number) if isinstance(number, float) else number


def _parts(value):
    """Named parts of a container or object, None for a plain value."""
    if isinstance(value, dict):
        return value
    if isinstance(value, (list, tuple)) or (
        isinstance(value, np.ndarray) and value.dtype == object
    ):
        return dict(enumerate(value))
    if isinstance(value, (str, bytes, type)) or callable(value):
        return None
    slots = [
        name
        for kind in type(value).__mro__
        for name in getattr(kind, "__slots__", ())
        if name != "__weakref__" and hasattr(value, name)
    ]
    parts = {name: getattr(value, name) for name in slots}
    parts.update(getattr(value, "__dict__", {}))
    return {n: part for n, part in parts.items() if not _is_cache(value, n)} or None


def _is_cache(value, name):
    """Whether a part follows from the others, and is there once it is asked for."""
    return isinstance(getattr(type(value), name, None), cached_property)
