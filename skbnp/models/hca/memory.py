"""Rows by part, who visits them, and what they are remembered by."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from skbnp.components.statistics import Weighting
from skbnp.inference.executor import Executor
from skbnp.inference.local import Look
from skbnp.inference.memory import RunningAverage, learn_priors
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Memory
from skbnp.inference.schedules import Part, Round
from skbnp.models.hca.local import Memo, sums, visit
from skbnp.models.hca.model import Model, State, Stats, convert, expand, paths, settle
from skbnp.trees import Tree

__all__ = ["FoundRows", "FramedAverage", "RowMemory", "RowVisitor"]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """What the rows of a part say, and of which globals."""

    stats: Stats
    memory: Memo
    state: State


@dataclass(frozen=True, slots=True)
class RowVisitor:
    """Visits rows, on which threads."""

    executor: Executor

    def visit(
        self,
        posterior: Posterior,
        X: NDArray,
        *,
        weighting: Weighting = Weighting.EXPECTED_LOG,
        remembered: Memo | None = None,
        look: Look | None = None,
    ) -> FoundRows:
        """Visit rows under the present globals of a posterior.

        If the totals are what they remember, other coordinates may be better: see
        `expand`.
        """
        del weighting, look  # there is no warm-up, and no moves look at blocks
        model, state = posterior.model, posterior.state
        if remembered is not None:
            state = expand(model, state, posterior.totals)
        memo, stats = self.visit_rows(model, state, X)
        return FoundRows(stats, memo, state)

    def visit_rows(self, model: Model, state: State, X: NDArray) -> tuple[Memo, Stats]:
        """Visit rows under given globals; return what they say, and its sums."""
        memo = visit(paths(model, state), state.tree, X, model.frame, self.executor)
        return memo, self.sums(memo, X, state.tree, model)

    def sums(self, memo: Memo, X: NDArray, tree: Tree, model: Model) -> Stats:
        """Sum what rows said."""
        return sums(memo, X, tree, model.frame, self.executor)


class FramedAverage(RunningAverage):
    """Running averages in units of the standard deviation of all rows so far."""

    def absorb(self, posterior: Posterior, round: Round, change: Sequence[Any]) -> None:
        """Move totals and globals, then put them in the unit that follows."""
        super().absorb(posterior, round, change)
        frame = posterior.model.frame
        n_rows = sum(said.stats.n_rows for said in change)
        square = sum(said.stats.square for said in change)
        if frame.scale == 0.0 or not square > 0.0:
            return
        fresh = frame.unit * math.sqrt(square / (n_rows * len(frame.shift)))
        grown = frame.grown(fresh, n_rows, posterior.n_seen)
        posterior.model, *held = posterior.model.in_frame(
            grown, posterior.state, posterior.totals
        )
        posterior.replace_globals(*held)


class RowMemory(Memory):
    """Totals hold each row once, with what it said at its last visit.

    Parameters
    ----------
    scale : float
        Rows behind each.
    others : Stats or None
        What rows said that are not visited again, by the present tree.
    """

    scale: float
    others: Stats | None
    memo: Memo | None

    def __init__(self, scale: float = 1.0, others: Stats | None = None):
        self.scale, self.others, self.memo = scale, others, None

    def recall(self, part: Part) -> Memo | None:
        """Return what all rows said, if there are no others."""
        return self.memo if self.others is None else None

    def absorb(
        self, posterior: Posterior, round: Round, change: Sequence[FoundRows]
    ) -> None:
        """Let the totals be what all rows say now."""
        (said,) = change
        stats = said.stats.times(self.scale)
        if self.others is not None:
            stats = stats.plus(self.others)
        model, memo = posterior.model, said.memory
        state, stats = settle(model, said.state, stats)
        if self.others is not None:  # who cannot be visited with other coordinates
            others = self.others.follow(said.state.tree, state.tree)
            state, stats, turned = convert(model, state, stats)
            self.others = others.changed(state.tree, turned)
            memo = memo.changed(state.tree, turned)
        self.memo = memo
        posterior.replace_globals(state, stats)

    def end_pass(self, posterior: Posterior) -> None:
        """Learn priors."""
        learn_priors(posterior)
