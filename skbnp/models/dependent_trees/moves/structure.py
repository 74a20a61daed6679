"""Moves of dependent trees after passes: the order of their kinds.

Leaves without rows are removed; nodes merge, those of odd units before those of even
ones; once this gains little, edges are reversed, or else nodes go below other parents,
since they can merge with siblings alone; new nodes are tried. Moves of a kind are
judged one by one on the same state, made together, and kept if the bound of all rows
has risen; if not, in halves. So many moves cost one copy of the state. If all of them
gain little, merges into parents that gained too little by themselves are tried together
with attachments and priors that follow. Proposals that gain nothing wait for some
passes; once moves gain little, all other parents are judged again, if the tree has
changed since. The moves of the paper are merges and births in turn, and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypedDict

import numpy as np

from skbnp.inference.monitor import Monitor
from skbnp.inference.trials import Rejections, make_in_halves
from skbnp.models.dependent_trees.bound import direction_bound
from skbnp.models.dependent_trees.memory import EpochLearner
from skbnp.models.dependent_trees.moves import attachments, birth_targets, merges
from skbnp.models.dependent_trees.moves.births import Proposed, join_rows, renumbered
from skbnp.models.dependent_trees.moves.compound import KINDS, N_TURNS, CompoundMoves
from skbnp.models.dependent_trees.moves.exchanges import LEAST_GAIN, propose_exchanges
from skbnp.models.dependent_trees.moves.judging import replayed
from skbnp.models.dependent_trees.moves.records import Birth, Sort, propose_removals
from skbnp.models.dependent_trees.moves.settings import PAUSE_ROWS, EpochMoves
from skbnp.models.dependent_trees.state import EpochState, EpochStats, sorted_tree
from skbnp.utils.typing import Ints

#: Relative change of the concentration below which moves begin.
SETTLED = 0.05
#: Relative rise of the bound by the moves after a pass, from which learning continues.
SETTLED_GAIN = 4e-3
#: Passes without a birth after which nodes of epochs before may merge, at the latest.
SETTLED_BIRTHS = 3
#: Share of the nodes that are tried as targets of births after a pass.
BIRTH_SHARE = 0.1


class EditsAccount(TypedDict):
    """What other moves need to continue."""

    n_without_birth: int
    concentration: float
    is_reviewed: bool
    rejections: dict[str, list[tuple[tuple, int, int]]]


class TreeEdits(CompoundMoves):
    """Moves of dependent trees after each pass, in the order of their kinds."""

    def __init__(self, moves: EpochMoves):
        """Start with all moves due, and without rejections."""
        super().__init__(moves)
        self._concentration = np.inf
        self._n_without_birth = 0 if moves.birth else SETTLED_BIRTHS
        # Whether all parents have been judged since the tree changed last.
        self._is_reviewed = False

    def end_pass(self, learner: EpochLearner, monitor: Monitor) -> bool:
        """Try moves; return whether they gain so little that the fit may converge."""
        concentration = learner.posterior.state.concentration
        has_past = len(learner.posterior.state.places_with_past) > 0
        last, self._concentration = self._concentration, concentration
        if not abs(last - concentration) <= SETTLED * concentration:
            return False
        if self._is_printed:
            return self._end_printed_pass(learner)
        n_before, before = len(self.records), self.bound(learner.posterior)
        self._prune(learner)
        self._exchange(learner)
        self._in_turns(self._merge, learner)
        if self._gains_little(learner, before):
            self._in_turns(self._attach, learner)
        n_births = self._propose_births(learner)
        self._n_without_birth = 0 if n_births else self._n_without_birth + 1
        is_settled = self._gains_little(learner, before)
        if is_settled and self._n_without_birth < SETTLED_BIRTHS:
            self._n_without_birth = SETTLED_BIRTHS
            if has_past:  # merges of such nodes had to wait until here
                self._in_turns(self._merge, learner)
        if self._gains_little(learner, before):
            self._merge_rejected(learner)
        if self._gains_little(learner, before) and not self._is_reviewed:
            self._review_parents(learner)
            self._is_reviewed = True
        made = self.records[n_before:]
        self._is_reviewed &= not made
        if {"birth", "merge", "prune"} & {record.kind for record in made}:
            self._revive_nodes(learner, before)
        self._products.clear()
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
        """Merge in odd and in even units, then births: Algorithm 1 of the paper."""
        n_before = len(self.records)
        self._merge(learner)
        self._propose_births(learner)
        self._products.clear()
        self._present = None
        if len(self.records) > n_before:
            self._sort(learner)
        return True

    def _gains_little(self, learner: EpochLearner, before: float) -> bool:
        """Whether the bound is hardly larger than before the moves of a pass."""
        return self.bound(learner.posterior) - before <= SETTLED_GAIN * abs(before)

    def account(self) -> EditsAccount:
        """Return what other moves need to continue."""
        return {
            "n_without_birth": self._n_without_birth,
            "concentration": self._concentration,
            "is_reviewed": self._is_reviewed,
            "rejections": {
                kind: waits.account() for kind, waits in self._rejections.items()
            },
        }

    def resume(self, account: EditsAccount) -> None:
        """Continue in place from the account of other moves."""
        self._n_without_birth = account["n_without_birth"]
        self._concentration = account["concentration"]
        self._is_reviewed = account["is_reviewed"]
        self._rejections = {
            kind: Rejections.resumed(account["rejections"][kind]) for kind in KINDS
        }

    # Kinds of moves -------------------------------------------------------------------

    def _prune(self, learner: EpochLearner) -> None:
        """Remove leaves without rows, again as long as this makes new ones."""
        given = learner.posterior
        while idle := propose_removals(given.state, given.global_stats):
            self._make(learner, idle)
            self._refresh(learner)

    def _in_turns(
        self, change: Callable[[EpochLearner], None], learner: EpochLearner
    ) -> None:
        """Repeat changes of a kind until the tree is unchanged."""
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
            posterior = learner.posterior
            state, stats = posterior.state, posterior.global_stats
            if len(state.tree) == 1:
                return
            proposals = merges.propose_merges(
                state,
                stats,
                posterior.model.priors,
                self._products.of(posterior),
                parity,
                test,
                losses,
                self._places_to_keep(state, stats),
                cache.run,
            )
            moves = [
                (one.records, one.lost if self._is_printed else one.least)
                for one in proposals
            ]
            if self._keep(learner, moves):
                self._refresh(learner)
                losses = cache.losses()

    def _exchange(self, learner: EpochLearner) -> None:
        """Exchange the pasts of nodes for those that explain them best."""
        state = learner.posterior.state
        if len(state.places_with_past) == 0:
            return
        waits, n_before = self._rejections["exchange"], len(self.records)
        gains = self._products.past_gains(learner.posterior)
        proposals = [
            record
            for record in propose_exchanges(state, gains)
            if waits.is_over(record.touched, learner.n_passes)
        ]
        moves = [((one,), LEAST_GAIN * len(one.nodes)) for one in proposals]
        self._keep(learner, moves)
        made = self.records[n_before:]
        for record in proposals:
            if record not in made:
                waits.add(record.touched, learner.n_passes)

    def _revive_nodes(self, learner: EpochLearner, least_bound: float) -> None:
        """Identify new nodes with ended ones, if the bound allows.

        An ended node and a new one stay two only if this raises the bound by the least
        gain of two births. It is measured by the terms of directions alone, since the
        rows of an ended node went to the node it was merged into; but the bound does
        not fall below its value before the moves of the pass.
        """
        state = learner.posterior.state
        if len(state.ended) == 0 or len(state.places_with_past) == len(state.tree):
            return
        allowed_loss = 2.0 * learner.posterior.model.least_gain
        gains = self._products.past_gains(learner.posterior)
        for record in propose_exchanges(state, gains, allowed_loss):
            posterior = learner.posterior
            model, now = posterior.model, (posterior.state, posterior.global_stats)
            if not record.brings_back:
                continue
            new = replayed(posterior, [record])
            gain = direction_bound(*new, model.priors)
            gain -= direction_bound(*now, model.priors)
            least = LEAST_GAIN * len(record.nodes) - allowed_loss
            if gain > least and model.bound(*new) > least_bound:
                self._write(learner, [record], *new)

    def _places_to_keep(self, state: EpochState, stats: EpochStats) -> Ints:
        """Positions of nodes with a past that do not merge while births may return."""
        places = state.places_with_past
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
        """Move nodes below other parents, or reverse edges; `waits` are rejections."""
        if not self.moves.reattach:
            return
        if len(learner.posterior.state.tree) == 1:
            return
        kinds = (
            ("reversal", attachments.propose_reversals),
            ("attachment", attachments.propose_attachments),
        )
        for kind, propose in kinds:
            posterior = learner.posterior
            proposals = propose(
                posterior.state,
                posterior.global_stats,
                posterior.model.priors,
                self._products.of(posterior),
                (waits or self._rejections)[kind],
                learner.n_passes,
            )
            if self._keep(learner, [((record,), 0.0) for record, _ in proposals]):
                return

    def _review_parents(self, learner: EpochLearner) -> None:
        """Judge all nodes below other parents, also those that wait."""
        waits = {kind: Rejections() for kind in KINDS}
        self._in_turns(partial(self._attach, waits=waits), learner)

    def _propose_births(self, learner: EpochLearner) -> int:
        """Try births; return the number of nodes that are born."""
        posterior, cache = learner.posterior, learner.cache
        tree = posterior.state.tree
        n_tries = self.moves.max_births
        if n_tries is None:
            n_tries = max(birth_targets.LEAST_BIRTHS, int(BIRTH_SHARE * len(tree)))
        n_tries = int(min(n_tries, posterior.max_components - len(tree)))
        if not self.moves.birth or n_tries <= 0 or not cache.last_broadcasts:
            return 0
        targets = birth_targets.draw_targets(
            posterior, n_tries, self._rejections["birth"], learner.n_passes
        )
        n_before = len(self.records)
        n_births = self._apply_births(
            learner, birth_targets.propose_births(learner, targets, self.moves)
        )
        born = {one.target for one in self.records[n_before:] if isinstance(one, Birth)}
        for node in targets.tolist():
            if node in born:
                self._rejections["birth"].forget((node,))
            else:
                self._rejections["birth"].add((node,), learner.n_passes)
        return n_births

    def _apply_births(self, learner: EpochLearner, proposed: list[Proposed]) -> int:
        """Make births together, in halves if the bound would fall; return how many."""
        least = -np.inf if self._is_printed else 0.0

        def make(some: Sequence[Proposed]) -> bool:
            named = renumbered(some, learner.posterior.state.tree)
            made = [one.birth for one in named]
            return self._make_if_better(learner, made, least, join_rows(named))

        return make_in_halves(make, proposed)

    def _sort(self, learner: EpochLearner) -> None:
        """Sort siblings by their rows, in a first epoch."""
        posterior = learner.posterior
        if not posterior.model.is_first:
            return
        tree = sorted_tree(posterior.state, posterior.global_stats)
        if tree != posterior.state.tree:
            self._make(learner, [Sort(tree.ids)])
