"""Cases that are made every day, and those that take long: `pytest -m long`."""

import pytest

__all__ = ["daily", "each_pair", "few_and_many"]


def daily(number, values):
    """Values of a parameter, those after the first `number` of them marked as long."""
    values = list(values)
    long = [pytest.param(value, marks=pytest.mark.long) for value in values[number:]]
    return values[:number] + long


def each_pair(names, first, second):
    """Parametrise over all pairs of values of two parameters, of which many are long.

    Every day each value stands in a pair, as on the diagonal of a table.
    """
    first, second = list(first), list(second)
    most = max(len(first), len(second))
    every_day = {(i % len(first), i % len(second)) for i in range(most)}
    return pytest.mark.parametrize(
        names,
        [
            pytest.param(a, b, marks=[] if (i, j) in every_day else [pytest.mark.long])
            for i, a in enumerate(first)
            for j, b in enumerate(second)
        ],
    )


def few_and_many(few, many):
    """Parametrise a test over `n_draws`: enough to find planted bugs, and long."""
    return pytest.mark.parametrize("n_draws", daily(1, [few, many]))
