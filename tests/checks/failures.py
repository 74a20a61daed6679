"""Make the engine fail, or stop, at a chosen update; name the case that fails."""

from contextlib import ExitStack, contextmanager
from unittest import mock

from skbnp import NestedHDP
from skbnp.inference.chains import GibbsChain
from skbnp.inference.engine import Learner
from skbnp.inference.protocols import DocumentLocalStep
from skbnp.models.dependent_slices.chain import SliceChain
from skbnp.models.dependent_trees import memory as dependent_trees
from skbnp.models.hca.local import RowLocalStep
from skbnp.models.nested_crp.local import PathLocalStep


class Failure(Exception):
    """Raised on purpose."""


@contextmanager
def of_case(*names):
    """Add the names of a case to whatever error, or failure of a test, comes of it."""
    try:
        yield
    except BaseException as error:
        error.add_note("case: " + ", ".join(map(repr, names)))
        raise


#: Methods by which trees visit rows, in rounds and in trials of moves alike, and the
#: place of what a visit starts from among their arguments.
TREE_VISITS = [
    (PathLocalStep, "update_paths", 0),
    (RowLocalStep, "update_rows", 1),
    (dependent_trees.RowLocalStep, "update_local", 0),
]


@contextmanager
def failing_visit(number, error=Failure, visited=None):
    """Let visit `number` (1 is the first) of a batch of rows raise `error`.

    Of samplers it is the sweep of that number; the parts of a round are one visit,
    since they are one update. What visits start from, posteriors or globals of trees,
    is handed to `visited`. Of a nested HDP those of its flat start do not count.
    """
    visit_batch, run_piece, calls = DocumentLocalStep.update_local, GibbsChain.run, []
    learn_round, quiet = Learner.learn_round, []
    end_sweep = SliceChain._learn
    flat_posterior, starting = NestedHDP._flat_posterior, []

    def start_flat(self, *args):
        starting.append(None)
        try:
            return flat_posterior(self, *args)
        finally:
            starting.pop()

    def tick(start):
        if starting:
            return
        calls.append(None)
        if visited is not None:
            visited(start)
        if len(calls) == number:
            raise error

    def visit(self, posterior, *args, **kwargs):
        tick(posterior)
        return visit_batch(self, posterior, *args, **kwargs)

    def visit_tree(method, place):
        def visit(self, *args, **kwargs):
            if quiet:
                quiet.pop()
            else:
                tick(args[place])
            return method(self, *args, **kwargs)

        return visit

    def begin_round(self, round, monitor):
        visits_each = not isinstance(self, dependent_trees.EpochLearner)
        quiet[:] = round.parts[1:] if visits_each else ()
        learn_round(self, round, monitor)

    def run(self, piece):
        run_piece(self, piece)
        if piece < self.n_pieces - 1:
            return
        calls.append(self)
        if calls.count(self) == number:
            raise error

    def end(self):
        end_sweep(self)
        calls.append(self)
        if calls.count(self) == number:
            raise error

    with ExitStack() as patches:
        for kind, name, new in [
            (DocumentLocalStep, "update_local", visit),
            (GibbsChain, "run", run),
            (SliceChain, "_learn", end),
            (Learner, "learn_round", begin_round),
            (NestedHDP, "_flat_posterior", start_flat),
            *(
                (kind, name, visit_tree(getattr(kind, name), place))
                for kind, name, place in TREE_VISITS
            ),
        ]:
            patches.enter_context(mock.patch.object(kind, name, new))
        yield


def fit_updates(estimator, X, n_updates, method="fit"):
    """Fit, and stop without ado after so many complete updates."""
    try:
        with failing_visit(n_updates + 1):
            getattr(estimator, method)(X)
    except Failure:
        return estimator
    raise AssertionError(f"there are not more than {n_updates} updates")
