"""Checks of settings: groups of moves, gamma priors, values for each level."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["check_gamma_prior", "check_per_level", "check_settings", "repr_settings"]

#: Range of concentrations and Dirichlet parameters.
SMALLEST_PRIOR, LARGEST_PRIOR = 1e-100, 1e10
#: Largest shape and rate of a Gamma prior: its width is the rounding of a number.
MOST_CERTAIN = 1e20


def check_gamma_prior(name: str, value: Any) -> tuple[float, float]:
    """Check the (shape, rate) pair of a Gamma prior."""
    try:
        shape, rate = (float(x) if isinstance(x, Real) else -1.0 for x in value)
    except (TypeError, ValueError):
        shape = rate = -1.0
    if not all(SMALLEST_PRIOR <= x <= MOST_CERTAIN for x in (shape, rate)):
        raise ValueError(
            f"{name} must be a (shape, rate) pair of two positive numbers, in "
            f"[{SMALLEST_PRIOR:g}, {MOST_CERTAIN:g}], got {value!r}."
        )
    return shape, rate


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
    """Return the code that makes a settings record, by a preset or its changes.

    Parameters
    ----------
    settings : dataclass instance
    preset : callable
        A class method that makes one of its settings.

    Returns
    -------
    text : str
        Python code that makes an equal one.
    """
    name = type(settings).__name__
    if settings == preset():
        return f"{name}.{preset.__name__}()"
    values = [(item, getattr(settings, item.name)) for item in fields(settings)]
    changed = [
        f"{item.name}={value!r}" for item, value in values if value != item.default
    ]
    return f"{name}({', '.join(changed)})"


def check_per_level(name: str, value: Any, max_depth: int) -> NDArray[np.float64]:
    """Check a prior: a number for all levels of a tree, or a sequence of one for each.

    Returns an array of one for each level.
    """
    values = np.asarray(value, dtype=object)
    values = np.full(max_depth, value) if values.ndim == 0 else values
    if len(values) != max_depth:
        raise ValueError(
            f"{name} must be a number, or have one for each of max_depth={max_depth} "
            f"levels, got {len(values)}."
        )
    numbers = [float(x) if isinstance(x, Real) else np.nan for x in values]
    if not all(SMALLEST_PRIOR <= x <= LARGEST_PRIOR for x in numbers):
        raise ValueError(
            f"{name} must be in [{SMALLEST_PRIOR:g}, {LARGEST_PRIOR:g}] at each level, "
            f"got {value!r}."
        )
    return np.array(numbers)
