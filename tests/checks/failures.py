"""Make the engine fail, or stop, at a chosen update."""

from contextlib import contextmanager
from unittest import mock

from skbnp.inference.chains import GibbsChain
from skbnp.inference.engine import Learner
from skbnp.inference.local import DocumentVisitor
from skbnp.models.nested_crp.memory import PathVisitor

__all__ = ["Failure", "failing_visit", "fit_updates"]


class Failure(Exception):
    """Raised on purpose."""


@contextmanager
def failing_visit(number, error=Failure, visited=None):
    """Let visit `number` (1 is the first) of a batch of documents raise `error`.

    Of samplers it is the sweep of that number; the parts of a round are one visit,
    since they are one update. What visits start from, posteriors or topics of trees, is
    handed to `visited`.
    """
    visit_batch, run_piece, calls = DocumentVisitor.visit, GibbsChain.run, []
    visit_paths, learn_round, quiet = PathVisitor.visit_paths, Learner.learn_round, []

    def tick(start):
        calls.append(None)
        if visited is not None:
            visited(start)
        if len(calls) == number:
            raise error

    def visit(self, posterior, *args, **kwargs):
        tick(posterior)
        return visit_batch(self, posterior, *args, **kwargs)

    def visit_tree(self, topics, *args, **kwargs):
        if quiet:
            quiet.pop()
        else:
            tick(topics)
        return visit_paths(self, topics, *args, **kwargs)

    def begin_round(self, round, monitor):
        quiet[:] = round.parts[1:]
        learn_round(self, round, monitor)

    def run(self, piece):
        run_piece(self, piece)
        if piece < self.n_pieces - 1:
            return
        calls.append(self)
        if calls.count(self) == number:
            raise error

    with (
        mock.patch.object(DocumentVisitor, "visit", visit),
        mock.patch.object(GibbsChain, "run", run),
        mock.patch.object(PathVisitor, "visit_paths", visit_tree),
        mock.patch.object(Learner, "learn_round", begin_round),
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
