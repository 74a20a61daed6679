"""Rows by part, who visits them, and what they are remembered by."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.statistics import Weighting
from skbnp.inference.executor import Executor
from skbnp.inference.memory import Remembered
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus
from skbnp.inference.schedules import Part, Round, even_limits
from skbnp.models.dependent_trees.epoch import settle
from skbnp.models.dependent_trees.local import Memo, NodeTable, recall, visit
from skbnp.models.dependent_trees.model import EpochState, EpochStats
from skbnp.models.dependent_trees.moves.records import (
    Record,
    followed,
    heirs_of,
    replay_memo,
)
from skbnp.trees import Tree

__all__ = ["EpochMemory", "FoundRows", "RowVisitor"]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """What the rows of a part say."""

    stats: EpochStats
    memory: Memo
    seen: list[Any] = field(default_factory=list)


class RowVisitor:
    """Visits rows.

    Parameters
    ----------
    executor : Executor
        On which threads.
    """

    def __init__(self, executor: Executor):
        self.executor = executor
        self._last: tuple[EpochState, NodeTable] | None = None

    def visit(
        self,
        posterior: Posterior,
        X: sp.csr_array,
        *,
        weighting: Weighting = Weighting.EXPECTED_LOG,
        remembered: Memo | None = None,
        look: None = None,
    ) -> FoundRows:
        """Visit rows under the present globals of a posterior."""
        del weighting, look, remembered  # each row is scored under each node
        memo, stats = visit(self.table(posterior), X, run=self.executor.map)
        return FoundRows(stats, memo)

    def table(self, posterior: Posterior) -> NodeTable:
        """Return what rows see; parts of a round see the same."""
        state = posterior.state
        if self._last is None or self._last[0] is not state:
            self._last = None  # not two of them at a time
            self._last = state, NodeTable.of(state, posterior.model.priors)
        return self._last[1]


class EpochMemory(Remembered):
    """Totals hold each row once, with what it said at its last visit.

    The first pass visits all rows under the globals of the start.

    Parameters
    ----------
    corpus : Corpus
    n_parts : int
        Parts of about equal size that are visited in turns.
    others : EpochStats
        What rows of the epoch said that are not at hand any more, by the present tree.
    executor : Executor
    """

    def __init__(
        self, corpus: Corpus, n_parts: int, others: EpochStats, executor: Executor
    ):
        super().__init__(n_forgetful=1)
        self.corpus, self.others, self.executor = corpus, others, executor
        self.limits = even_limits(corpus.n_docs, n_parts)

    def recall(self, part: Part) -> Memo | None:
        """Return what the rows of a part said."""
        return self.memos[part.number] if self.is_complete else None

    def _memo(self, found: FoundRows) -> Memo:
        return found.memory

    def absorb(self, posterior: Posterior, round: Round, change: Sequence[Any]) -> None:
        """Let rows say something else, and the globals follow."""
        model, state, totals = posterior.model, posterior.state, posterior.totals
        new = reduce(EpochStats.plus, (said.stats for said in change))
        if self.is_complete:
            old = [self._recalled(part.number, state.tree) for part in round.parts]
            found = model.exchange(state, totals, reduce(EpochStats.plus, old), new)
            for part, said in zip(round.parts, change, strict=True):
                self.memos[part.number] = said.memory
        else:
            found = settle(model, state, self.others.plus(new))
            self.memos = [said.memory for said in change]
        self._follow(state.tree, found[0].tree)
        posterior.replace_globals(*found)

    def keep(
        self, posterior: Posterior, records: Sequence[Record], memos: list[Memo]
    ) -> None:
        """Remember what rows say after moves, by the tree of the posterior."""
        old, new = posterior.state.tree, self._edited(posterior.state.tree, records)
        self._follow(old, new, heirs_of(records))
        self.memos = [replay_memo(memo, records) for memo in memos]

    def totals(self, tree: Tree) -> EpochStats:
        """Sum what all rows say."""
        total = self.others
        for number in range(len(self.memos)):
            total = total.plus(self._recalled(number, tree))
        return total

    @property
    def has_others(self) -> bool:
        """Whether there are rows that are not at hand."""
        return bool(self.others.masses.any())

    def rows(self, number: int) -> sp.csr_array:
        """Rows of a part."""
        begin, end = self.limits[number], self.limits[number + 1]
        return self.corpus.documents(Part(number, np.arange(begin, end)))

    def memo_of(self, rows: NDArray[np.intp]) -> Memo:
        """Return what some rows said, in increasing order of their numbers."""
        cut = np.searchsorted(rows, self.limits)
        parts = [
            memo.taken(rows[cut[number] : cut[number + 1]] - self.limits[number])
            for number, memo in enumerate(self.memos)
        ]
        return Memo.joined(parts)

    def said(self, memos: list[Memo], rows: NDArray[np.intp], said: Memo) -> list[Memo]:
        """Return memos in which some rows say something else."""
        cut, new = np.searchsorted(rows, self.limits), list(memos)
        for number, memo in enumerate(memos):
            own = np.arange(cut[number], cut[number + 1])
            if len(own):
                at = rows[own] - self.limits[number]
                new[number] = memo.replaced(at, said.taken(own))
        return new

    def _recalled(self, number: int, tree: Tree) -> EpochStats:
        rows = self.rows(number)
        return recall(tree, self.memos[number], rows, run=self.executor.map)

    def _sum_afresh(self, posterior: Posterior) -> None:
        posterior.replace_globals(posterior.state, self.totals(posterior.state.tree))

    def _follow(self, old: Tree, new: Tree, heirs: dict[int, int] | None = None):
        self.others = followed(self.others, old, new, heirs or {})

    @staticmethod
    def _edited(tree: Tree, records: Sequence[Record]) -> Tree:
        for record in records:
            tree = record.edit(tree)
        return tree
