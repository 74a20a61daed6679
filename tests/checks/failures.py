"""Make the engine fail, or stop, at a chosen update."""

from contextlib import contextmanager
from unittest import mock

from skbnp.inference.posterior import Visitor

__all__ = ["Failure", "failing_visit", "fit_updates"]


class Failure(Exception):
    """Raised on purpose."""


@contextmanager
def failing_visit(number, error=Failure, visited=None):
    """Let visit `number` (1 is the first) of a batch of documents raise `error`.

    The posteriors that visits start from are handed to `visited`.
    """
    original, calls = Visitor.visit, []

    def visit(self, posterior, *args, **kwargs):
        calls.append(None)
        if visited is not None:
            visited(posterior)
        if len(calls) == number:
            raise error
        return original(self, posterior, *args, **kwargs)

    with mock.patch.object(Visitor, "visit", visit):
        yield


def fit_updates(estimator, X, n_updates, method="fit"):
    """Fit, and stop without ado after so many complete updates."""
    try:
        with failing_visit(n_updates + 1):
            getattr(estimator, method)(X)
    except Failure:
        return estimator
    raise AssertionError(f"there are not more than {n_updates} updates")
