"""Warnings that point at the line of whoever called the package."""

import sys
import warnings

__all__ = ["warn_caller"]


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, outside of this package and of scikit-learn, which may stand between."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_inside(module: str) -> bool:
    return module.split(".")[0] in ("skbnp", "sklearn")
