"""Cases that are made every day, and those of each week: `pytest -m weekly`."""

import pytest


def daily(number, values):
    """Values of a parameter, those after the first `number` of them marked weekly."""
    values = list(values)
    others = [
        pytest.param(value, marks=pytest.mark.weekly) for value in values[number:]
    ]
    return values[:number] + others


def along_diagonal(names, first, second):
    """Parametrise over pairs of values of two parameters: each value is in a pair."""
    first, second = list(first), list(second)
    most = max(len(first), len(second))
    pairs = [(first[i % len(first)], second[i % len(second)]) for i in range(most)]
    return pytest.mark.parametrize(names, pairs)
