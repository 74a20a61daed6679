"""Work in steps, between which it can be put aside."""

from collections.abc import Generator
from typing import TypeVar

__all__ = ["Steps", "completed"]

T = TypeVar("T")
#: Yields before each step what it costs; returns the result.
Steps = Generator[float, None, T]


def completed(steps: Steps[T]) -> T:
    """Take all steps that are left; return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
