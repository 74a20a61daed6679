"""Make the engine fail, or stop, at a chosen update."""

from contextlib import contextmanager
from unittest import mock

from skbnp.inference.chains import GibbsChain
from skbnp.inference.posterior import Visitor
from skbnp.inference.tree_corpus import PathVisitor
from skbnp.inference.tree_learning import TreeLearner

__all__ = ["Failure", "failing_visit", "fit_updates"]


class Failure(Exception):
    """Raised on purpose."""


@contextmanager
def failing_visit(number, error=Failure, visited=None):
    """Let visit `number` (1 is the first) of a batch of documents raise `error`.

    Of samplers it is the sweep of that number; the first pass of a tree with memory is
    one visit, since it is one update. What visits start from, posteriors or topics of
    trees, is handed to `visited`.
    """
    visit_batch, run_piece, calls = Visitor.visit, GibbsChain.run, []
    visit_paths, visit_part, quiet = PathVisitor.visit, TreeLearner._found, []

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
        if not quiet:
            tick(topics)
        return visit_paths(self, topics, *args, **kwargs)

    def visit_tree_part(self, place):
        begins = self.memoized and not self.corpus.memos
        if begins and place < len(self.corpus.parts) - 1:
            quiet.append(None)
        found = visit_part(self, place)
        quiet.clear()
        return found

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
        mock.patch.object(PathVisitor, "visit", visit_tree),
        mock.patch.object(TreeLearner, "_found", visit_tree_part),
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
