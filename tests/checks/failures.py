"""Make the engine fail, or stop, at a chosen update."""

from contextlib import contextmanager
from unittest import mock

from skbnp.inference.chains import GibbsChain
from skbnp.inference.posterior import Visitor

__all__ = ["Failure", "failing_visit", "fit_updates"]


class Failure(Exception):
    """Raised on purpose."""


@contextmanager
def failing_visit(number, error=Failure, visited=None):
    """Let visit `number` (1 is the first) of a batch of documents raise `error`.

    Of samplers it is the sweep of that number. The posteriors that visits start from
    are handed to `visited`.
    """
    visit_batch, run_piece, calls = Visitor.visit, GibbsChain.run, []

    def visit(self, posterior, *args, **kwargs):
        calls.append(None)
        if visited is not None:
            visited(posterior)
        if len(calls) == number:
            raise error
        return visit_batch(self, posterior, *args, **kwargs)

    def run(self, piece):
        run_piece(self, piece)
        if piece < self.n_pieces - 1:
            return
        calls.append(self)
        if calls.count(self) == number:
            raise error

    with (
        mock.patch.object(Visitor, "visit", visit),
        mock.patch.object(GibbsChain, "run", run),
    ):
        yield


def fit_updates(estimator, X, n_updates, method="fit"):
    """Fit, and stop without ado after so many complete updates."""
    try:
        with failing_visit(n_updates + 1):
            getattr(estimator, method)(X)
    except Failure:
        return estimator
    raise AssertionError(f"there are not more than {n_updates} updates")
