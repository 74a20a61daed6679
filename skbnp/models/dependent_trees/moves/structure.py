"""When the tree of an epoch changes: after passes, by records that raise the bound.

Leaves without rows end; nodes merge, those of odd units before those of even ones; once
none does, nodes go below other parents, for they can merge with siblings alone; new
ones are tried. Moves of a kind are judged one by one on the same state, made together,
and kept if the bound of all rows has risen; if not, in halves. So many moves cost one
copy of the state.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skbnp.inference.edits import Lineage
from skbnp.inference.engine import Learner
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.protocols import Moves
from skbnp.models.dependent_trees.local import Memo
from skbnp.models.dependent_trees.memory import EpochMemory
from skbnp.models.dependent_trees.model import sort_siblings, update_sticks
from skbnp.models.dependent_trees.moves.attachments import propose_attachments
from skbnp.models.dependent_trees.moves.births import (
    Collected,
    Proposed,
    collect,
    propose_birth,
    renumbered,
)
from skbnp.models.dependent_trees.moves.merges import PairLosses, propose_merges
from skbnp.models.dependent_trees.moves.partition import birth_units
from skbnp.models.dependent_trees.moves.products import Products
from skbnp.models.dependent_trees.moves.records import (
    Attach,
    Birth,
    Merge,
    Record,
    Remove,
    Sort,
    replay,
)
from skbnp.models.dependent_trees.moves.settings import EpochMoves
from skbnp.utils.random import Purpose, stream

__all__ = ["TreeEdits"]

#: Rows below which a leaf ends that has none in the window.
NO_ROWS = 1e-3
#: Relative change of the concentration below which moves begin.
SETTLED = 0.05
#: Times that merges and attachments take turns after a pass.
N_TURNS = 5
#: Passes without a birth after which the tree stays, if nothing else changes it.
PATIENCE = 3
#: Share of the nodes that are tried as targets of births after a pass, and the least.
BIRTH_SHARE, LEAST_BIRTHS = 0.1, 4
#: Units of targets, whose births are tried side by side.
N_UNITS = 64
#: Relative rounding errors of a bound.
ROUNDING = 1e-12

EpochLearner = Learner[Any, Any, Any, EpochMemory]


class TreeEdits(Moves):
    """Moves after each pass.

    Parameters
    ----------
    moves : EpochMoves
    """

    def __init__(self, moves: EpochMoves):
        self.moves = moves
        self.records: list[Record] = []  # all so far
        self._n_idle, self._concentration = 0, np.inf

    def end_pass(self, learner: EpochLearner, monitor: Monitor) -> bool:
        """Try moves; whether the tree has stayed, so that the bound can settle."""
        state = learner.posterior.state
        last, self._concentration = self._concentration, state.concentration
        if not abs(last - state.concentration) <= SETTLED * state.concentration:
            return False
        n_before = len(self.records)
        self._prune(learner)
        for _ in range(N_TURNS):
            n_made = len(self.records)
            self._merge(learner)
            if len(self.records) == n_made:
                break
        if len(self.records) == n_before:
            self._attach(learner)
        n_births = self._bear(learner)
        if len(self.records) > n_before:
            self._sort(learner)
        changed = [one for one in self.records[n_before:] if not isinstance(one, Sort)]
        self._n_idle = 0 if n_births or changed else self._n_idle + 1
        waits = self.moves.birth and self._n_idle < PATIENCE
        return not changed and not waits

    # Kinds of moves -------------------------------------------------------------------

    def _prune(self, learner: EpochLearner) -> None:
        """End leaves without rows, then those that were above them."""
        while True:
            state = learner.posterior.state
            tree, stats = state.tree, learner.posterior.totals
            is_leaf = np.bincount(tree.parent[1:], minlength=len(tree)) == 0
            idle = is_leaf & (stats.masses < NO_ROWS) & (state.history <= 0.0)
            idle[0] = False
            if not idle.any():
                return
            records = [Remove(node) for node in tree.ids[idle].tolist()]
            self._make(learner, records, learner.memory.memos)
            self._refresh(learner)

    def _merge(self, learner: EpochLearner) -> None:
        """Merge nodes, in odd units and in even ones."""
        test, memory = self.moves.merge, learner.memory
        if test == "none":
            return
        for parity in (1, 0):
            posterior = learner.posterior
            state, stats = posterior.state, posterior.totals
            if len(state.tree) == 1:
                return
            priors = posterior.model.priors
            found = propose_merges(
                state,
                stats,
                priors,
                Products.of(state, priors),
                parity,
                test,
                PairLosses.of_rows(memory.memos, has_others=memory.has_others),
                memory.executor.map,
            )
            records, lost = [one for one, _ in found], [loss for _, loss in found]
            if self._keep(learner, records, lost):
                self._refresh(learner)

    def _attach(self, learner: EpochLearner) -> None:
        """Put nodes below other parents."""
        if not self.moves.reattach:
            return
        posterior = learner.posterior
        state, priors = posterior.state, posterior.model.priors
        if len(state.tree) > 2:
            products = Products.of(state, priors)
            found = propose_attachments(state, posterior.totals, priors, products)
            self._keep(learner, [record for record, _ in found], [0.0] * len(found))

    def _bear(self, learner: EpochLearner) -> int:
        """Try new nodes; return how many are born."""
        posterior, memory = learner.posterior, learner.memory
        tree = posterior.state.tree
        n_tries = self.moves.max_births
        if n_tries is None:
            n_tries = max(LEAST_BIRTHS, int(BIRTH_SHARE * len(tree)))
        n_tries = int(min(n_tries, posterior.max_components - len(tree)))
        if not self.moves.birth or n_tries <= 0 or not memory.memos:
            return 0
        targets = self._targets(posterior, n_tries)
        gathered = self._gather(learner, targets)
        units = birth_units(tree, N_UNITS)[tree.positions(targets)]

        def bear(unit: int) -> list[Proposed]:
            state, stats = posterior.state, posterior.totals
            priors, found = posterior.model.priors, []
            for one in gathered:
                if one.target % N_UNITS == unit:
                    place = (posterior.n_steps, one.target)
                    rng = stream(posterior.entropy, Purpose.MOVE, *place)
                    proposed = propose_birth(state, stats, priors, one, self.moves, rng)
                    if proposed is not None:
                        found.append(proposed)
            return found

        parts = memory.executor.map(bear, np.unique(units).tolist())
        proposed = [one for part in parts for one in part]
        return self._deliver(learner, sorted(proposed, key=lambda one: -one.gain))

    def _targets(self, posterior: Any, n_tries: int) -> NDArray[np.intp]:
        """Draw targets by their rows, none twice."""
        rng = stream(posterior.entropy, Purpose.MOVE, posterior.n_steps)
        masses = posterior.totals.masses
        able = np.flatnonzero(masses >= 2.0)
        n_tries = min(n_tries, len(able))
        if n_tries == 0:
            return np.empty(0, dtype=np.intp)
        shares = masses[able] / masses[able].sum()
        chosen = rng.choice(able, size=n_tries, replace=False, p=shares)
        return posterior.state.tree.ids[chosen]

    def _gather(
        self, learner: EpochLearner, targets: NDArray[np.intp]
    ) -> list[Collected]:
        """Collect rows of targets; one that several want is that of the first."""
        memory, posterior = learner.memory, learner.posterior
        n_nodes, step = len(posterior.state.tree), posterior.n_steps
        most = self.moves.birth_rows
        taken = np.zeros(memory.corpus.n_docs, dtype=bool)
        gathered = []
        for target in targets.tolist():
            found = [
                collect(memo, target, n_nodes, step, int(first), most)
                for memo, first in zip(memory.memos, memory.limits, strict=False)
            ]
            rows = np.concatenate([one for one, _ in found])
            keys = np.concatenate([one for _, one in found])
            rows = rows[np.argsort(keys, kind="stable")[:most]]
            rows = np.sort(rows[~taken[rows]])
            taken[rows] = True
            memo = memory.memo_of(rows)
            gathered.append(Collected(target, rows, memory.corpus.X[rows], memo))
        return gathered

    def _deliver(self, learner: EpochLearner, proposed: list[Proposed]) -> int:
        """Let nodes be born together, in halves where the bound would fall."""
        if not proposed:
            return 0
        memory, posterior = learner.memory, learner.posterior
        tree, renamed = posterior.state.tree, []
        for one in proposed:
            renamed.append(renumbered(one, tree))
            tree = renamed[-1].birth.edit(tree)
        memos = memory.memos
        for one in renamed:
            memos = memory.said(memos, one.rows, one.memo)
        records = [one.birth for one in renamed]
        if self._make_if_better(learner, records, memos, 0.0):
            return len(records)
        if len(proposed) == 1:
            return 0
        half = len(proposed) // 2
        first = self._deliver(learner, proposed[:half])
        return first + self._deliver(learner, proposed[half:])

    def _sort(self, learner: EpochLearner) -> None:
        """Put siblings in order, in a first epoch."""
        posterior = learner.posterior
        if not posterior.model.is_first:
            return
        state, _ = sort_siblings(posterior.state, posterior.totals)
        if state.tree != posterior.state.tree:
            records = [Sort(state.tree.ids)]
            self._make(learner, records, learner.memory.memos)

    # How they are made ----------------------------------------------------------------

    def _keep(
        self, learner: EpochLearner, records: Sequence[Record], lost: Sequence[float]
    ) -> bool:
        """Make moves together, in halves where the bound would fall; whether any was.

        `lost` is the entropy that rows may lose by each.
        """
        if not records:
            return False
        memos = learner.memory.memos
        if self._make_if_better(learner, records, memos, sum(lost)):
            return True
        if len(records) == 1:
            return False
        half = len(records) // 2
        first = self._keep(learner, records[:half], lost[:half])
        second = [
            (record, loss)
            for record, loss in zip(records[half:], lost[half:], strict=True)
            if _fits(learner, record)
        ]
        rest = self._keep(learner, [one for one, _ in second], [x for _, x in second])
        return first or rest

    def _make_if_better(
        self,
        learner: EpochLearner,
        records: Sequence[Record],
        memos: list[Memo],
        lost: float,
    ) -> bool:
        posterior = learner.posterior
        model, state, stats = posterior.model, posterior.state, posterior.totals
        new, kept = replay(state, stats, model.priors, records)
        before = sum(model.objective(state, stats).values())
        after = sum(model.objective(new, kept).values())
        if after - lost <= before + ROUNDING * abs(before):
            return False
        self._write(learner, records, memos, new, kept)
        return True

    def _make(
        self, learner: EpochLearner, records: Sequence[Record], memos: list[Memo]
    ) -> None:
        posterior = learner.posterior
        found = replay(
            posterior.state, posterior.totals, posterior.model.priors, records
        )
        self._write(learner, records, memos, *found)

    def _write(self, learner, records, memos, state, stats) -> None:
        posterior = learner.posterior
        log = [_entry(record, posterior.n_steps) for record in records]
        with commit():
            learner.memory.keep(posterior, records, memos)
            posterior.replace_globals(state, stats)
            posterior.lineage = [*posterior.lineage, *(one for one in log if one)]
            self.records.extend(records)

    def _refresh(self, learner: EpochLearner) -> None:
        """Sum what rows say once more: merges end shares that they had in both."""
        posterior = learner.posterior
        totals = learner.memory.totals(posterior.state.tree)
        posterior.replace_globals(update_sticks(posterior.state, totals), totals)


def _fits(learner: EpochLearner, record: Record) -> bool:
    """Whether a move is still one after others were made."""
    tree = learner.posterior.state.tree
    if isinstance(record, Merge):
        return record.source in tree and record.target in tree
    return not isinstance(record, Attach) or not tree.is_ancestor(
        record.node, record.parent
    )


def _entry(record: Record, step: int) -> Lineage | None:
    """Return what users read of a record."""
    if isinstance(record, Birth):
        return Lineage(step, "birth", (record.target,), (record.target, record.new))
    if isinstance(record, Merge):
        return Lineage(step, "merge", (record.target, record.source), (record.target,))
    if isinstance(record, Attach):
        both = (record.node, record.parent)
        return Lineage(step, "reattach", both, both)
    if isinstance(record, Remove):
        return Lineage(step, "prune", (record.node,), ())
    return None
