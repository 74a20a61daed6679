"""Cache of component analysis: rows by part, their local step and statistics."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from skbnp.inference.executor import Executor
from skbnp.inference.memory import RunningAverage, learn_priors
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import StatisticsCache, Visit
from skbnp.inference.schedules import Part, Round
from skbnp.models.hca.local import Memo, sums, update_local
from skbnp.models.hca.model import Model
from skbnp.models.hca.paths import paths
from skbnp.models.hca.state import State, Stats
from skbnp.models.hca.updates import convert, coordinate_ascent, expand
from skbnp.utils.typing import Ints


@dataclass(frozen=True, slots=True)
class RowResult:
    """Result of a local step: statistics of rows, and the globals they belong to."""

    stats: Stats
    cache: Memo
    state: State


@dataclass(frozen=True, slots=True)
class RowLocalStep:
    """Local step of the rows of a part, by an executor."""

    executor: Executor

    def update_local(self, posterior: Posterior, X: NDArray, visit: Visit) -> RowResult:
        """Run the local step under the present globals of a posterior.

        If the totals are those of what is remembered, other coordinates may be better:
        see `expand`.
        """
        model, state = posterior.model, posterior.state
        if visit.remembered is not None:
            state = expand(model, state, posterior.global_stats)
        memo, stats = self.update_rows(model, state, X)
        return RowResult(stats, memo, state)

    def update_rows(self, model: Model, state: State, X: NDArray) -> tuple[Memo, Stats]:
        """Run the local step of rows under given globals; return memo and sums."""
        memo = update_local(
            paths(model, state), state.tree, X, model.frame, self.executor
        )
        return memo, sums(memo, X, state.tree, model.frame, self.executor)


class FramedAverage(RunningAverage):
    """Running averages in units of the standard deviation of all rows so far."""

    def stochastic_update(
        self, posterior: Posterior, round: Round, change: Sequence[Any]
    ) -> None:
        """Step totals and globals in place, then change the unit of the frame."""
        super().stochastic_update(posterior, round, change)
        frame = posterior.model.frame
        n_rows = sum(result.stats.n_rows for result in change)
        square = sum(result.stats.square for result in change)
        if frame.scale == 0.0 or not square > 0.0:
            return
        fresh = frame.unit * math.sqrt(square / (n_rows * len(frame.shift)))
        grown = frame.grown(fresh, n_rows, posterior.n_seen)
        posterior.model, *state_and_stats = posterior.model.in_frame(
            grown, posterior.state, posterior.global_stats
        )
        posterior.replace_globals(*state_and_stats)


class RowCache(StatisticsCache):
    """Totals contain each row once, with its statistics at its last local step.

    `scale` is the number of rows behind each, and `others` are statistics of rows
    of earlier calls, by the present tree.
    """

    scale: float
    others: Stats | None
    memo: Memo | None

    def __init__(self, scale: float = 1.0, others: Stats | None = None):
        self.scale, self.others, self.memo = scale, others, None

    def initial_local(self, part: Part) -> Memo | None:
        """Return the memo of all rows; None if there are rows of earlier calls."""
        return self.memo if self.others is None else None

    def stochastic_update(
        self, posterior: Posterior, round: Round, change: Sequence[RowResult]
    ) -> None:
        """Replace the totals by the present statistics of all rows."""
        (result,) = change
        stats = result.stats.times(self.scale)
        if self.others is not None:
            stats = stats.plus(self.others)
        model, memo = posterior.model, result.cache
        state, stats = coordinate_ascent(model, result.state, stats)
        if self.others is not None:  # which cannot be updated with other coordinates
            others = self.others.reindex_to(result.state.tree, state.tree)
            state, stats, flipped = convert(model, state, stats)
            self.others = others.changed(state.tree, flipped)
            memo = memo.changed(state.tree, flipped)
        self.memo = memo
        posterior.replace_globals(state, stats)

    def put(self, rows: Ints, memo: Memo) -> None:
        """Replace the memo of some rows, in place."""
        assert self.memo is not None
        self.memo = self.memo.replaced(rows, memo)

    def end_pass(self, posterior: Posterior) -> None:
        """Learn the hyperparameters, in place."""
        learn_priors(posterior)
