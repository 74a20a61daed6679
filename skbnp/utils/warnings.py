"""Warnings that point at the line that called the package."""

import re
import sys
import warnings
from types import FrameType
from weakref import WeakKeyDictionary

#: What scikit-learn's searches and cross-validations have warned of, by their object.
_WARNED: WeakKeyDictionary[object, set[str]] = WeakKeyDictionary()
#: What their tasks in other processes have, and those that have no such object.
_WARNED_ELSEWHERE: set[str] = set()


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called this package, or scikit-learn around it.

    A search or cross-validation of scikit-learn warns once, not for each fold and
    candidate, of messages that differ by numbers alone.
    """
    frame, level = sys._getframe(1), 2
    search, n_frames = None, 0
    above: FrameType | None = frame
    while above is not None:  # the outermost frame of a search
        if above.f_globals.get("__name__", "").startswith("sklearn.model_selection."):
            search, distance = above, n_frames
        above, n_frames = above.f_back, n_frames + 1
    if search is not None:
        warned, kind = _issued_warnings(search), re.sub(r"\d[\d.,e+-]*", "0", message)
        if kind in warned:
            return
        warned.add(kind)
        frame, level = search, level + distance
    inside = re.compile(r"(skbnp|sklearn)(\.|$)")
    while frame.f_back and inside.match(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _issued_warnings(search: FrameType) -> set[str]:
    """Return the warnings issued in a search; the caller adds to them."""
    if search.f_code.co_name == "_fit_and_score":  # in a process of its own
        return _WARNED_ELSEWHERE
    owner = search.f_locals.get("self", search.f_locals.get("estimator"))
    try:
        return _WARNED.setdefault(owner, set())
    except TypeError:  # no weak reference, or no hash
        return _WARNED_ELSEWHERE
