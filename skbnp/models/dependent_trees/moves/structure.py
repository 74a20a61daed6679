"""When the tree of an epoch changes: after passes, by records that raise the bound.

Leaves without rows end; nodes merge, those of odd units before those of even ones; once
this gains little edges are reversed, or else nodes go below other parents, for they can
merge with siblings alone; new ones are tried. Moves of a kind are judged one by one on
the same state, made together, and kept if the bound of all rows has risen; if not, in
halves. So many moves cost one copy of the state. Where all of them gain little, merges
into parents and the best birth that gained too little by themselves are tried, together
with attachments and priors that follow, a birth with exchanges.
Proposals that gain nothing wait for some passes; once moves gain little, all other
parents are judged again, if the tree has changed since. The moves of the paper are
merges and births in turn, and nothing else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from skbnp.inference.edits import Lineage
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Account, Monitor
from skbnp.inference.protocols import Moves
from skbnp.inference.trials import Rejections
from skbnp.models.dependent_trees.bound import direction_bound
from skbnp.models.dependent_trees.epoch import EpochModel
from skbnp.models.dependent_trees.local import Memo, Naturals
from skbnp.models.dependent_trees.memory import EpochLearner
from skbnp.models.dependent_trees.moves.attachments import (
    propose_attachments,
    propose_reversals,
)
from skbnp.models.dependent_trees.moves.births import (
    LEAST_ROWS,
    Proposed,
    join_rows,
    propose_birth,
    renumbered,
)
from skbnp.models.dependent_trees.moves.exchanges import (
    LEAST_GAIN,
    past_gains,
    propose_exchanges,
    propose_handover,
    propose_new_root,
)
from skbnp.models.dependent_trees.moves.merges import (
    MergeProposal,
    PairLosses,
    find_new,
    n_compound,
    propose_compound_merges,
    propose_merges,
)
from skbnp.models.dependent_trees.moves.partition import birth_units
from skbnp.models.dependent_trees.moves.products import Products
from skbnp.models.dependent_trees.moves.records import (
    Attach,
    Birth,
    Exchange,
    Merge,
    Record,
    Remove,
    Reverse,
    Sort,
    propose_removals,
    replay,
)
from skbnp.models.dependent_trees.moves.settings import (
    LEAST_EVIDENCE,
    NO_ROWS,
    PAUSE_ROWS,
    EpochMoves,
)
from skbnp.models.dependent_trees.state import EpochState, EpochStats, sorted_tree
from skbnp.models.dependent_trees.updates import update_sticks
from skbnp.utils.random import Purpose, stream

__all__ = ["TreeEdits"]

Array = NDArray[np.float64]

#: Relative change of the concentration below which moves begin.
SETTLED = 0.05
#: Relative rise of the bound by the moves after a pass, from which learning goes on.
SETTLED_GAIN = 4e-3
#: Times that moves of one kind are made after a pass.
N_TURNS = 5
#: Passes without a birth after which nodes of epochs before may merge, at the latest.
SETTLED_BIRTHS = 3
#: Share of the nodes that are tried as targets of births after a pass, and the least.
BIRTH_SHARE, LEAST_BIRTHS = 0.1, 20
#: Units of targets, whose births are tried side by side.
N_UNITS = 64
#: Kinds of moves that wait where they gain nothing: targets, nodes and parents, nodes
#: that would merge or exchange names, or all new roots. A fit may end while some wait.
KINDS = ("attachment", "birth", "exchange", "merge", "reversal", "root")
#: Relative rounding errors of a bound.
ROUNDING = 1e-12
#: Of moves by which no row says something else.
NOBODY: NDArray[np.intp] = np.empty(0, dtype=np.intp)
NO_ASSIGNMENTS = Memo.joined([])


class TreeEdits(Moves):
    """Moves after each pass.

    Parameters
    ----------
    moves : EpochMoves
    """

    def __init__(self, moves: EpochMoves):
        self.moves = moves
        self.records: list[Record] = []  # all so far
        self._concentration = np.inf
        self._rejections = {kind: Rejections() for kind in KINDS}
        self._products: tuple[ref[EpochState], Products] | None = None
        self._pasts: tuple[Array, Array] | None = None  # those, and their products
        self._gains: tuple[Products, Array] | None = None  # by other pasts
        # The best birth that gains too little by itself, and the state when it did.
        self._rejected: tuple[EpochState, Proposed] | None = None
        self._present: tuple[EpochModel, EpochState, EpochStats, float] | None = None
        self._n_without_birth = 0 if moves.birth else SETTLED_BIRTHS
        # Whether all parents have been judged since the tree changed last.
        self._is_reviewed = False

    def end_pass(self, learner: EpochLearner, monitor: Monitor) -> bool:
        """Try moves; whether they gain so little that the bound can settle."""
        concentration = learner.posterior.state.concentration
        has_past = len(learner.posterior.state.with_past) > 0
        last, self._concentration = self._concentration, concentration
        if not abs(last - concentration) <= SETTLED * concentration:
            return False
        if self._is_printed:
            return self._end_printed_pass(learner)
        n_before, before = len(self.records), self._bound(learner)
        self._prune(learner)
        self._exchange(learner)
        self._in_turns(self._merge, learner)
        if self._gains_little(learner, before):
            self._in_turns(self._attach, learner)
        if len(self.records) == n_before and has_past:
            self._change_root(learner)
        n_births = self._propose_births(learner)
        self._n_without_birth = 0 if n_births else self._n_without_birth + 1
        is_settled = self._gains_little(learner, before)
        if is_settled and self._n_without_birth < SETTLED_BIRTHS:
            self._n_without_birth = SETTLED_BIRTHS
            if has_past:  # merges of such nodes had to wait until here
                self._in_turns(self._merge, learner)
        if self._gains_little(learner, before):
            self._merge_rejected(learner)
            self._retry_best_birth(learner)
        if self._gains_little(learner, before) and not self._is_reviewed:
            self._review_parents(learner)
            self._is_reviewed = True
        made = self.records[n_before:]
        self._is_reviewed &= not made
        if any(isinstance(record, (Birth, Merge, Remove)) for record in made):
            self._revive_nodes(learner, before)
        self._products = self._gains = self._rejected = None
        if made:
            self._sort(learner)
        is_settled = self._gains_little(learner, before)
        self._present = None
        return is_settled

    @property
    def _is_printed(self) -> bool:
        """Whether moves are those of the paper."""
        return self.moves.algorithm == "paper"

    def _end_printed_pass(self, learner: EpochLearner) -> bool:
        """Merge in odd and in even units, then bear: Algorithm 1 of the paper."""
        n_before = len(self.records)
        self._merge(learner)
        self._propose_births(learner)
        self._products = self._present = self._rejected = None
        if len(self.records) > n_before:
            self._sort(learner)
        return True

    def _gains_little(self, learner: EpochLearner, before: float) -> bool:
        """Whether the bound is hardly larger than before the moves of a pass."""
        return self._bound(learner) - before <= SETTLED_GAIN * abs(before)

    def account(self) -> dict[str, object]:
        """Return what other moves need to go on alike."""
        return {
            "n_without_birth": self._n_without_birth,
            "concentration": self._concentration,
            "is_reviewed": self._is_reviewed,
            "rejections": {
                kind: waits.account() for kind, waits in self._rejections.items()
            },
        }

    def resume(self, account: Account) -> None:
        """Go on where other moves were."""
        self._n_without_birth = account["n_without_birth"]
        self._concentration = account["concentration"]
        self._is_reviewed = account["is_reviewed"]
        self._rejections = {
            kind: Rejections.resumed(account["rejections"][kind]) for kind in KINDS
        }

    # Kinds of moves -------------------------------------------------------------------

    def _prune(self, learner: EpochLearner) -> None:
        """End leaves without rows, then those that were above them."""
        posterior = learner.posterior
        while records := propose_removals(posterior.state, posterior.global_stats):
            self._make(learner, records)
            self._refresh(learner)

    def _in_turns(
        self, change: Callable[[EpochLearner], None], learner: EpochLearner
    ) -> None:
        """Make changes of a kind until there are none."""
        for _ in range(N_TURNS):
            n_made = len(self.records)
            change(learner)
            if len(self.records) == n_made:
                return

    def _merge(self, learner: EpochLearner) -> None:
        """Merge nodes, in odd units and in even ones."""
        cache, test = learner.cache, self.moves.merge
        if test == "none":
            return
        losses = cache.losses()
        for parity in (1, 0):
            if len(learner.posterior.state.tree) == 1:
                return
            proposals = self._find_merges(learner, parity, test, losses)
            moves, least = (
                [one.records for one in proposals],
                [one.least for one in proposals],
            )
            if self._is_printed:
                is_made = self._keep(learner, moves, [one.lost for one in proposals])
            else:
                is_made = self._merge_and_reassign_history(learner, proposals)
                is_made = is_made or self._keep(learner, moves, least)
            if is_made:
                self._refresh(learner)
                losses = cache.losses()

    def _find_merges(
        self,
        learner: EpochLearner,
        parity: int,
        test: Literal["safe", "lax"],
        losses: PairLosses,
    ) -> list[MergeProposal]:
        posterior = learner.posterior
        state, stats = posterior.state, posterior.global_stats
        return propose_merges(
            state,
            stats,
            posterior.model.priors,
            self._products_of(learner),
            parity,
            test,
            losses,
            self._staying(state, stats),
            learner.cache.run,
        )

    def _merge_and_reassign_history(
        self, learner: EpochLearner, result: Sequence[MergeProposal]
    ) -> bool:
        """Let a node of an epoch before merge, and its past go to others.

        If it just merged, one topic would end and another one begin: that must gain as
        much as a birth.
        """
        for one in result:
            state, ends = learner.posterior.state, one.without_past
            if state.past[state.tree.positions(ends)] < 0:
                continue
            gains = self._past_gains(learner)
            both = propose_handover(
                state, gains, one.merge, one.past_of, LEAST_EVIDENCE
            )
            if both is None:
                continue
            least = max(one.lost, self._gain(learner, one.records) - LEAST_EVIDENCE)
            if self._make_if_better(learner, both, least):
                return True
        return False

    def _products_of(self, learner: EpochLearner) -> Products:
        """Return products of all pairs, those of the last call if it was the same."""
        state, last = learner.posterior.state, self._products
        if last is not None and last[0]() is state:
            return last[1]
        products = Products.of(
            state, learner.posterior.model.priors, None if last is None else last[1]
        )
        self._products = ref(state), products
        return products

    def _past_gains(self, learner: EpochLearner) -> Array:
        """Return what directions gain by other pasts, likewise.

        Products of previous directions with each other do not change in an epoch.
        """
        products, last = self._products_of(learner), self._gains
        if last is None or last[0] is not products:
            state = learner.posterior.state
            gains = past_gains(state, products, self._products_of_pasts(state))
            self._gains = last = products, gains
        return last[1]

    def _products_of_pasts(self, state: EpochState) -> Array:
        if self._pasts is None or self._pasts[0] is not state.previous:
            self._pasts = state.previous, state.previous @ state.previous.T
        return self._pasts[1]

    def _exchange(self, learner: EpochLearner) -> None:
        """Let nodes have the pasts that explain them best."""
        state = learner.posterior.state
        if len(state.with_past) == 0:
            return
        waits, n_before = self._rejections["exchange"], len(self.records)
        proposals = [
            record
            for record in propose_exchanges(state, self._past_gains(learner))
            if waits.is_over(record.touched, learner.n_passes)
        ]
        least = [LEAST_GAIN * len(record.nodes) for record in proposals]
        self._keep(learner, [(record,) for record in proposals], least)
        made = self.records[n_before:]
        for record in proposals:
            if record not in made:
                waits.add(record.touched, learner.n_passes)

    def _revive_nodes(self, learner: EpochLearner, least_bound: float) -> None:
        """Let nodes that have ended come back in the place of others that began.

        That one topic ended and another one began must gain as much as two births.
        Directions alone are asked, as shares of past rows went to heirs; but the bound
        does not fall below one that it had before the moves of a pass.
        """
        state = learner.posterior.state
        if len(state.ended) == 0 or len(state.with_past) == len(state.tree):
            return
        most, gains = 2.0 * LEAST_EVIDENCE, self._past_gains(learner)
        for record in propose_exchanges(state, gains, most):
            posterior = learner.posterior
            model, now = posterior.model, (posterior.state, posterior.global_stats)
            if not record.brings_back:
                continue
            new = replay(*now, model.priors, [record])
            rows = np.arange(len(state.tree))
            gain = direction_bound(*new, model.priors, rows)
            gain -= direction_bound(*now, model.priors, rows)
            least = LEAST_GAIN * len(record.nodes) - most
            if gain > least and _bound(model, *new) > least_bound:
                self._write(learner, [record], *new)

    def _change_root(self, learner: EpochLearner) -> None:
        """Let another node have the root's past and place; where it may not, wait."""
        waits = self._rejections["root"]
        if not waits.is_over((), learner.n_passes):
            return
        records = propose_new_root(learner.posterior.state, self._past_gains(learner))
        if records:
            near = _nodes_of(records)
            moves = [*records, *self._attachments_near(learner, near, records)]
            if not self._make_if_better(learner, moves, LEAST_GAIN):
                waits.add((), learner.n_passes)

    def _merge_rejected(self, learner: EpochLearner) -> None:
        """Judge merges that lose little by themselves with what follows.

        Nodes next to them go below other parents, and what draws directions together
        follows.
        """
        posterior, waits = learner.posterior, self._rejections["merge"]
        state, stats = posterior.state, posterior.global_stats
        n_at_most = n_compound(len(state.tree))
        if self.moves.merge == "none" or not n_at_most or not find_new(state)[1:].any():
            return
        given = state, stats, posterior.model.priors, self._products_of(learner)
        losses, n_passes = learner.cache.losses(), learner.n_passes
        for one in propose_compound_merges(*given, losses, waits, n_passes):
            if self._make_compound(learner, [one.merge], one.lost):
                return
            waits.add((one.merge.source, one.merge.target), n_passes)

    def _retry_best_birth(self, learner: EpochLearner) -> None:
        """Judge the best birth that gains too little by itself with what follows.

        With exchanges of pasts by nodes near it, or without.
        """
        model, state = learner.posterior.model, learner.posterior.state
        if self._rejected is None or self._rejected[0] is not state:
            return
        one, least = self._rejected[1], model.least_gain
        rows = join_rows([one])
        exchanges = self._exchanges_near(learner, one.birth)
        is_made = self._make_compound(learner, [one.birth, *exchanges], least, *rows)
        if exchanges and not is_made:  # by which the bound may fall
            is_made = self._make_compound(learner, [one.birth], least, *rows)
        if is_made:
            self._rejections["birth"].forget((one.birth.target,))
            self._n_without_birth = 0

    def _make_compound(
        self,
        learner: EpochLearner,
        records: Sequence[Record],
        least: float,
        rows: NDArray[np.intp] = NOBODY,
        assignments: Memo = NO_ASSIGNMENTS,
    ) -> bool:
        """Make moves if the bound rises by `least` with them and with what follows.

        Nodes near them go below other parents, and priors are learned; what these two
        gain without the moves does not count.
        """
        before, near = self._bound(learner), _nodes_of(records)
        records = [*records, *self._attachments_near(learner, near, records)]
        after = _bound(*_replayed_with_priors(learner, records)) - least
        if after <= before + ROUNDING * abs(before):
            return False
        others = self._attachments_near(learner, near)
        if after <= _bound(*_replayed_with_priors(learner, others)):
            return False
        # Once more, as another copy of the state would have been in memory till here.
        model, state, stats = _replayed_with_priors(learner, records)
        with commit():
            self._write(learner, records, state, stats, rows, assignments)
            learner.posterior.model = model
        self._refresh(learner)
        return True

    def _exchanges_near(self, learner: EpochLearner, record: Record) -> list[Exchange]:
        """Propose exchanges of the pasts of nodes that a move touches, after it."""
        posterior = learner.posterior
        state, stats, priors = (
            posterior.state,
            posterior.global_stats,
            posterior.model.priors,
        )
        if len(state.with_past) == 0:
            return []
        state, _ = replay(state, stats, priors, [record])
        gains = past_gains(
            state,
            Products.of(state, priors, self._products_of(learner)),
            self._products_of_pasts(state),
        )
        near, proposals = _nodes_of([record]), propose_exchanges(state, gains)
        return [one for one in proposals if not near.isdisjoint(_nodes_of([one]))]

    def _attachments_near(
        self, learner: EpochLearner, near: set[int], records: Sequence[Record] = ()
    ) -> list[Record]:
        """Propose moves of or to some nodes, after records, while the bound rises."""
        posterior, priors = learner.posterior, learner.posterior.model.priors
        proposals: list[Record] = []
        if not self.moves.reattach:
            return proposals
        state, stats = replay(posterior.state, posterior.global_stats, priors, records)
        bound = _bound(posterior.model, state, stats)
        for _ in range(N_TURNS):
            products = self._products_of(learner)
            if state is not posterior.state:
                products = Products.of(state, priors, products)
            given = state, stats, priors, products, Rejections(), 0
            more = [move for move, _ in propose_attachments(*given, near)]
            del given, products  # they are as large as the state
            if not more:
                break
            state, stats = replay(state, stats, priors, more)
            before, bound = bound, _bound(posterior.model, state, stats)
            if bound <= before:
                break
            proposals += more
        return proposals

    def _staying(self, state: EpochState, stats: EpochStats) -> NDArray[np.intp]:
        """Nodes of epochs before that do not merge: while births may return to them."""
        places = state.with_past
        if self._is_printed:
            return places[:0]
        if self._n_without_birth < SETTLED_BIRTHS:
            return places
        pauses = stats.masses[places] < PAUSE_ROWS
        pauses &= state.history[places] >= PAUSE_ROWS
        return places[pauses]

    def _attach(
        self, learner: EpochLearner, waits: Mapping[str, Rejections] | None = None
    ) -> None:
        """Put nodes below other parents, or above their own.

        `waits` are those of its own if none are given.
        """
        if not self.moves.reattach:
            return
        if len(learner.posterior.state.tree) == 1:
            return
        for kind in ("reversal", "attachment"):
            moves = self._new_parents(learner, kind, (waits or self._rejections)[kind])
            if self._keep(learner, moves, [0.0] * len(moves)):
                return

    def _review_parents(self, learner: EpochLearner) -> None:
        """Judge all nodes below other parents, also those that wait."""
        waits = {kind: Rejections() for kind in KINDS}
        self._in_turns(partial(self._attach, waits=waits), learner)

    def _new_parents(
        self, learner: EpochLearner, kind: str, rejections: Rejections
    ) -> list[tuple[Record]]:
        """Find moves of this kind, each a record."""
        propose = propose_reversals if kind == "reversal" else propose_attachments
        posterior = learner.posterior
        proposals = propose(
            posterior.state,
            posterior.global_stats,
            posterior.model.priors,
            self._products_of(learner),
            rejections,
            learner.n_passes,
        )
        return [(record,) for record, _ in proposals]

    def _propose_births(self, learner: EpochLearner) -> int:
        """Try new nodes; return how many are born."""
        posterior, cache = learner.posterior, learner.cache
        tree = posterior.state.tree
        n_tries = self.moves.max_births
        if n_tries is None:
            n_tries = max(LEAST_BIRTHS, int(BIRTH_SHARE * len(tree)))
        n_tries = int(min(n_tries, posterior.max_components - len(tree)))
        if not self.moves.birth or n_tries <= 0 or not cache.is_complete:
            return 0
        targets = self._targets(learner, n_tries)
        gathered = cache.gather(
            targets.tolist(), len(tree), posterior.n_steps, self.moves.birth_rows
        )
        units = birth_units(tree, N_UNITS)[tree.positions(targets)]
        state, stats, priors = (
            posterior.state,
            posterior.global_stats,
            posterior.model.priors,
        )
        naturals = Naturals.of(state, priors).by_position(tree)
        # What is sent to processes: neither these moves nor the posterior.
        given, seed_entropy, n_steps = (
            self.moves,
            posterior.seed_entropy,
            posterior.n_steps,
        )

        def propose_births(unit: int) -> list[Proposed]:
            proposals = []
            for one in gathered:
                if one.target % N_UNITS == unit:
                    rng = stream(seed_entropy, Purpose.MOVE, n_steps, one.target)
                    proposed = propose_birth(
                        state, stats, priors, naturals, one, given, rng
                    )
                    if proposed is not None:
                        proposals.append(proposed)
            return proposals

        parts = cache.run(propose_births, np.unique(units).tolist())
        proposed = [one for part in parts for one in part]
        proposed.sort(key=lambda one: -one.gain)
        least = -np.inf if self._is_printed else posterior.model.least_gain
        n_better = sum(one.gain > least for one in proposed)
        n_before = len(self.records)
        if n_better < len(proposed):
            self._rejected = posterior.state, proposed[n_better]
        n_births = self._apply_births(learner, proposed[:n_better])
        born = {one.target for one in self.records[n_before:] if isinstance(one, Birth)}
        for node in targets.tolist():
            if node in born:
                self._rejections["birth"].forget((node,))
            else:
                self._rejections["birth"].add((node,), learner.n_passes)
        return n_births

    def _targets(self, learner: EpochLearner, n_tries: int) -> NDArray[np.intp]:
        """Draw targets by their rows, none twice.

        Those of which no birth came wait for some passes, but for as many as are tried
        at the least.
        """
        posterior = learner.posterior
        rng = stream(posterior.seed_entropy, Purpose.MOVE, posterior.n_steps)
        masses, ids = posterior.global_stats.masses, posterior.state.tree.ids
        able = np.flatnonzero(masses > LEAST_ROWS + NO_ROWS)
        if len(able) == 0:
            return np.empty(0, dtype=np.intp)
        shares = masses[able] / masses[able].sum()
        drawn = rng.choice(able, size=len(able), replace=False, p=shares)
        waits = np.array(
            [
                not self._rejections["birth"].is_over((node,), learner.n_passes)
                for node in ids[drawn].tolist()
            ]
        )
        n_tries = min(n_tries, max(int((~waits).sum()), LEAST_BIRTHS))
        return ids[drawn[np.argsort(waits, kind="stable")[:n_tries]]]

    def _apply_births(self, learner: EpochLearner, proposed: list[Proposed]) -> int:
        """Let nodes be born together, in halves where the bound would fall."""
        if not proposed:
            return 0
        renamed = renumbered(proposed, learner.posterior.state.tree)
        records = [one.birth for one in renamed]
        least = -np.inf if self._is_printed else 0.0
        if self._make_if_better(learner, records, least, *join_rows(renamed)):
            return len(records)
        if len(proposed) == 1:
            return 0
        half = len(proposed) // 2
        first = self._apply_births(learner, proposed[:half])
        return first + self._apply_births(learner, proposed[half:])

    def _sort(self, learner: EpochLearner) -> None:
        """Put siblings in order, in a first epoch."""
        posterior = learner.posterior
        if not posterior.model.is_first:
            return
        tree = sorted_tree(posterior.state, posterior.global_stats)
        if tree != posterior.state.tree:
            self._make(learner, [Sort(tree.ids)])

    # How they are made ----------------------------------------------------------------

    def _keep(
        self,
        learner: EpochLearner,
        moves: Sequence[tuple[Record, ...]],
        lost: Sequence[float],
    ) -> bool:
        """Make moves together, in halves where the bound would fall; whether any was.

        `lost` is the entropy that rows may lose by each, or the least that it gains.
        """
        if not moves:
            return False
        if self._make_if_better(learner, _exchanges_first(moves), sum(lost)):
            return True
        if len(moves) == 1:
            return False
        half = len(moves) // 2
        first = self._keep(learner, moves[:half], lost[:half])
        second = [
            (move, loss)
            for move, loss in zip(moves[half:], lost[half:], strict=True)
            if all(_fits(learner, record) for record in move)
        ]
        rest = self._keep(learner, [one for one, _ in second], [x for _, x in second])
        return first or rest

    def _make_if_better(
        self,
        learner: EpochLearner,
        records: Sequence[Record],
        lost: float,
        rows: NDArray[np.intp] = NOBODY,
        assignments: Memo = NO_ASSIGNMENTS,
    ) -> bool:
        """Make moves if the bound rises; `assignments` is what some rows say by births.

        By more than `lost`, which is what it may fall yet, or the least that counts.
        """
        posterior = learner.posterior
        model, before = posterior.model, self._bound(learner)
        new, kept = replay(
            posterior.state, posterior.global_stats, model.priors, records
        )
        after = _bound(model, new, kept)
        if after - lost <= before + ROUNDING * abs(before):
            return False
        self._write(learner, records, new, kept, rows, assignments)
        self._present = posterior.model, posterior.state, posterior.global_stats, after
        return True

    def _bound(self, learner: EpochLearner) -> float:
        """Return the bound of the present state: many proposals are judged by it."""
        posterior = learner.posterior
        seen = posterior.model, posterior.state, posterior.global_stats
        last = self._present
        if last is None or any(a is not b for a, b in zip(last, seen, strict=False)):
            self._present = last = (*seen, _bound(*seen))
        return last[3]

    def _gain(self, learner: EpochLearner, records: Sequence[Record]) -> float:
        """Rise of the bound by moves that are not made."""
        posterior = learner.posterior
        model, state, stats = posterior.model, posterior.state, posterior.global_stats
        after = _bound(model, *replay(state, stats, model.priors, records))
        return after - self._bound(learner)

    def _make(self, learner: EpochLearner, records: Sequence[Record]) -> None:
        posterior = learner.posterior
        proposals = replay(
            posterior.state, posterior.global_stats, posterior.model.priors, records
        )
        self._write(learner, records, *proposals)

    def _write(
        self, learner, records, state, stats, rows=NOBODY, assignments=NO_ASSIGNMENTS
    ) -> None:
        posterior = learner.posterior
        log = [_entry(record, posterior.n_steps) for record in records]
        with commit():
            learner.cache.keep(posterior, records, rows, assignments)
            posterior.replace_globals(state, stats)
            posterior.lineage = [*posterior.lineage, *(one for one in log if one)]
            self.records.extend(records)

    def _refresh(self, learner: EpochLearner) -> None:
        """Sum what rows say once more: merges end shares that they had in both."""
        posterior = learner.posterior
        global_stats = learner.cache.global_stats(posterior.state.tree)
        posterior.replace_globals(
            update_sticks(posterior.state, global_stats), global_stats
        )


def _bound(model: EpochModel, state: EpochState, stats: EpochStats) -> float:
    return sum(model.objective(state, stats).values())


def _replayed_with_priors(
    learner: EpochLearner, records: Sequence[Record]
) -> tuple[EpochModel, EpochState, EpochStats]:
    """Return model, state and statistics after moves, with learned priors."""
    posterior = learner.posterior
    model, state, stats = posterior.model, posterior.state, posterior.global_stats
    state, stats = replay(state, stats, model.priors, records)
    model, state = model.learn_priors(state, stats)
    return model, state, stats


def _nodes_of(records: Iterable[Record]) -> set[int]:
    """Nodes that moves touch or end, by their names before and after."""
    nodes: set[int] = set()
    for record in records:
        nodes.update(record.touched)
        if isinstance(record, Exchange):
            nodes.update(record.nodes)
        if isinstance(record, Merge):
            nodes.add(record.source)
    return nodes


def _exchanges_first(moves: Sequence[tuple[Record, ...]]) -> list[Record]:
    """Order records so that exchanges are one turn and all else is another.

    That changes nothing, as no node is in two of the moves.
    """
    records = [record for move in moves for record in move]
    return sorted(records, key=lambda one: not isinstance(one, Exchange))


def _fits(learner: EpochLearner, record: Record) -> bool:
    """Whether a move is still one after others were made."""
    tree = learner.posterior.state.tree
    if isinstance(record, Merge):
        return record.source in tree and record.target in tree
    if isinstance(record, Reverse):
        return tree.parent_of(record.node) == record.parent
    return not isinstance(record, Attach) or not tree.is_ancestor(
        record.node, record.parent
    )


def _entry(record: Record, step: int) -> Lineage | None:
    """Return what users read of a record."""
    if isinstance(record, Birth):
        return Lineage(step, "birth", (record.target,), (record.target, record.new))
    if isinstance(record, Merge):
        return Lineage(step, "merge", (record.target, record.source), (record.target,))
    if isinstance(record, (Attach, Reverse)):
        both = (record.node, record.parent)
        return Lineage(step, "reattach", both, both)
    if isinstance(record, Exchange):
        kind = "revive" if record.brings_back else "exchange"
        return Lineage(step, kind, record.nodes, record.names)
    if isinstance(record, Remove):
        return Lineage(step, "prune", (record.node,), ())
    return None
