"""Checks and texts of settings of moves, which users make."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def check_settings(
    settings: "DataclassInstance",
    choices: Mapping[str, Sequence[str]],
    least: Mapping[str, int],
) -> None:
    """Check the fields of a settings record that users make.

    Parameters
    ----------
    settings : dataclass instance
    choices : dict
        Texts that fields may be.
    least : dict
        Least values of whole numbers, by default 0; also of flags that may be numbers.

    Raises
    ------
    ValueError
        If a field has another type, or a value that is not allowed.
    """
    for item in fields(settings):
        name, value, default = item.name, getattr(settings, item.name), item.default
        if name in choices:
            needed = f"one of {', '.join(map(repr, choices[name]))}"
            is_right = value in choices[name]
        elif isinstance(default, bool) and name not in least:
            needed, is_right = "a bool", isinstance(value, bool)
        elif isinstance(default, float):
            needed = "a number >= 0"
            is_right = isinstance(value, (int, float)) and 0 <= value < np.inf
        else:
            needed = f"an integer >= {least.get(name, 0)}"
            is_right = isinstance(value, Integral) and int(value) >= least.get(name, 0)
            is_right = is_right or value is default is None
        if not is_right:
            raise ValueError(f"{name} must be {needed}, got {value!r}.")


def repr_settings(settings: "DataclassInstance", preset: Callable[[], object]) -> str:
    """Return the code that makes an equal settings record, by a preset or its changes.

    `preset` is a class method that makes one.
    """
    name = type(settings).__name__
    if settings == preset():
        return f"{name}.{preset.__name__}()"
    values = [(item, getattr(settings, item.name)) for item in fields(settings)]
    changed = [
        f"{item.name}={value!r}" for item, value in values if value != item.default
    ]
    return f"{name}({', '.join(changed)})"
