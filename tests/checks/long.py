"""Cases that are made every day, and those that take long: `pytest -m long`."""

import pytest

__all__ = ["along_diagonal", "daily"]


def daily(number, values):
    """Values of a parameter, those after the first `number` of them marked as long."""
    values = list(values)
    long = [pytest.param(value, marks=pytest.mark.long) for value in values[number:]]
    return values[:number] + long


def along_diagonal(names, first, second):
    """Parametrise over pairs of values of two parameters: each value is in a pair."""
    first, second = list(first), list(second)
    most = max(len(first), len(second))
    pairs = [(first[i % len(first)], second[i % len(second)]) for i in range(most)]
    return pytest.mark.parametrize(names, pairs)
