"""Cases that are made every day, and those that take long: `pytest -m long`."""

import pytest

__all__ = ["daily", "few_and_many"]


def daily(number, values):
    """Values of a parameter, those after the first `number` of them marked as long."""
    values = list(values)
    long = [pytest.param(value, marks=pytest.mark.long) for value in values[number:]]
    return values[:number] + long


def few_and_many(few, many):
    """Parametrise a test over `n_draws`: enough to find planted bugs, and long."""
    return pytest.mark.parametrize("n_draws", daily(1, [few, many]))
