"""Numbers of draws of samplers that are compared with what they should sample."""

import pytest

__all__ = ["few_and_many"]


def few_and_many(few, many):
    """Parametrise a test over `n_draws`: enough to find planted bugs, and long."""
    return pytest.mark.parametrize(
        "n_draws", [few, pytest.param(many, marks=pytest.mark.long)]
    )
