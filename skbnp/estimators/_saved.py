"""Checks of what comes out of a file, before compiled code trusts it.

Learning keeps shapes, types and ranges; a file may be damaged. So they are checked
once, when the state of an estimator is set.
"""

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from skbnp.kernels._nested_crp import MAX_LEVELS

__all__ = [
    "HUGE",
    "check_array",
    "check_concentrations",
    "check_counts",
    "check_level_priors",
    "check_number",
    "check_sparse",
]

#: Largest count of a sampler, and largest double.
MOST, HUGE = 2**31 - 1, float(np.finfo(np.float64).max)


def check_array(
    name: str, array: Any, shape: tuple[int, ...], *, kind: str = "f", least: float = 0
) -> None:
    """Raise unless an array has a shape and numbers from `least` on.

    Parameters
    ----------
    kind : {"f", "i"}
        Finite doubles, or integers of any size up to `MOST`.
    """
    types = "iu" if kind == "i" else "f"
    if not isinstance(array, np.ndarray) or array.shape != shape:
        raise _damaged(name, f"is no array of shape {shape}")
    if array.dtype.kind not in types or (kind == "f" and array.dtype != np.float64):
        raise _damaged(name, f"has dtype {array.dtype}")
    if not (array.dtype.isnative and array.flags.c_contiguous and array.flags.aligned):
        raise _damaged(name, "is not laid out as it was saved")
    most = MOST if kind == "i" else HUGE
    if array.size and not (array.min() >= least and array.max() <= most):
        raise _damaged(name, f"has entries out of [{least:g}, {most:g}]")


def check_counts(name: str, counts: Any, shape: tuple[int, int]) -> None:
    """Raise unless a sparse array of whole counts has a shape and is in order."""
    check_sparse(name, counts, shape, kind="i")
    if counts.data.dtype != np.int32 or counts.data.sum(dtype=np.int64) > MOST:
        raise _damaged(name, "holds something else than counts of a corpus")


def check_sparse(name: str, counts: Any, shape: tuple[int, int], *, kind: str) -> None:
    """Raise unless a sparse array of numbers >= 0 has a shape and is in order.

    `kind` is that of `check_array`.
    """
    if not isinstance(counts, sp.csr_array) or counts.shape != shape:
        raise _damaged(name, f"is no csr_array of shape {shape}")
    kinds = {"indptr": "i", "indices": "i", "data": kind}
    for part, its_kind in kinds.items():
        values = getattr(counts, part)
        if not isinstance(values, np.ndarray):
            raise _damaged(name, "does not consist of arrays")
        check_array(name, values, (values.size,), kind=its_kind)
    try:
        # Another object: the check tidies up.
        arrays = (counts.data, counts.indices, counts.indptr)
        sp.csr_array(arrays, shape).check_format(full_check=True)
    except ValueError as error:
        raise _damaged(name, str(error)) from error
    if (np.diff(counts.indptr) < 0).any():  # not looked at where the last one is zero
        raise _damaged(name, "has limits of rows that fall")


def check_number(name: str, value: Any, *, least: float, most: float) -> None:
    """Raise unless a number is in a range."""
    if not (isinstance(value, Real) and least <= float(value) <= most):
        raise _damaged(name, f"is {value!r}, not in [{least:g}, {most:g}]")


def check_concentrations(state: Any, names: Iterable[str]) -> None:
    """Raise unless concentrations and priors are numbers that one may take a log of."""
    for name in names:
        check_number(name, getattr(state, name), least=1e-300, most=1e100)


def check_level_priors(priors: Any) -> int:
    """Raise unless priors of a topic tree are one per level; return how many."""
    n_levels = len(priors.level_prior)
    check_number("max_depth", n_levels, least=1, most=MAX_LEVELS)
    check_concentrations(priors, ("concentration",))
    for name in ("level_prior", "topic_prior"):
        check_array(name, getattr(priors, name), (n_levels,), least=1e-300)
    return n_levels


def _damaged(name: str, how: str) -> ValueError:
    return ValueError(f"The saved {name} is damaged: it {how}.")
