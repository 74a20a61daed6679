"""Moves of dependent trees after passes: the order of their kinds.

Leaves without rows are removed; nodes merge, those of odd units before those of even
ones; once this gains little, edges are reversed, or else nodes go below other parents,
since they can merge with siblings alone; new nodes are tried. Moves of a kind are
judged one by one on the same state, made together, and kept if the bound of all rows
has risen; if not, in halves. So many moves cost one copy of the state. Proposals that
gain nothing wait for some passes. Once moves gain little, merges into the root of a
first epoch are judged with the attachments and priors that follow, and all other
parents are judged again, if the tree has changed since. The moves of the paper are
merges and births in turn, and nothing else.
"""

from collections.abc import Callable, Sequence
from functools import partial
from weakref import ref

import numpy as np

from skbnp.inference import trials
from skbnp.inference.executor import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior
from skbnp.inference.trials import Rejections, adopt, make_in_halves
from skbnp.models.dependent_trees import epoch
from skbnp.models.dependent_trees import moves as kinds
from skbnp.models.dependent_trees import records as edits
from skbnp.models.dependent_trees import state as bound
from skbnp.models.dependent_trees.epoch import EpochMoves, EpochPosterior
from skbnp.models.dependent_trees.local import Memo
from skbnp.models.dependent_trees.memory import EpochLearner
from skbnp.models.dependent_trees.moves import LEAST_EXCHANGE, Joined, Proposed
from skbnp.models.dependent_trees.records import Products, Record
from skbnp.models.dependent_trees.state import EpochState, EpochStats
from skbnp.models.dependent_trees.updates import update_sticks
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Array, Ints

# Births of dependent trees after a pass: nodes to try, proposals from their rows.


#: Fewest nodes that are tried as targets of births after a pass, of any number.
LEAST_BIRTHS = 20


def draw_targets(
    posterior: Posterior, n_tries: int, rejections: Rejections, n_passes: int
) -> Ints:
    """Draw at most `n_tries` different nodes for births, in proportion to their rows.

    Nodes whose last birth was rejected come last, and only up to `LEAST_BIRTHS`.
    """
    rng = stream(posterior.seed_entropy, Purpose.MOVE, posterior.n_steps)
    masses, ids = posterior.global_stats.masses, posterior.state.tree.ids
    able = np.flatnonzero(masses > kinds.LEAST_ROWS + epoch.NO_ROWS)
    if len(able) == 0:
        return np.empty(0, dtype=np.intp)
    shares = masses[able] / masses[able].sum()
    drawn = rng.choice(able, size=len(able), replace=False, p=shares)
    keys = [("birth", node) for node in ids[drawn].tolist()]
    waits = np.array([not rejections.is_over(key, n_passes) for key in keys])
    n_tries = min(n_tries, max(int((~waits).sum()), LEAST_BIRTHS))
    return ids[drawn[np.argsort(waits, kind="stable")[:n_tries]]]


def births_of(
    learner: EpochLearner, targets: Ints, moves: EpochMoves
) -> list[Proposed]:
    """Propose a birth of each target; the largest gain first."""
    posterior, cache = learner.posterior, learner.cache
    state, stats, n_steps = posterior.state, posterior.global_stats, posterior.n_steps
    gathered = cache.gather(
        targets.tolist(), len(state.tree), n_steps, moves.birth_rows
    )
    is_printed = moves.algorithm == "paper"  # births then need not raise the bound
    least_gain = -np.inf if is_printed else posterior.model.least_gain
    named = posterior.seed_entropy, Purpose.MOVE, n_steps
    streams = [stream(*named, one.target) for one in gathered]
    given = state, stats, posterior.model.priors, gathered, moves, least_gain, streams
    return kinds.propose_births(*given, cache.run)


class CachedProducts:
    """Products of all pairs of nodes, and gains by other pasts, in a pass of moves."""

    def __init__(self) -> None:
        """Start without products."""
        self._products: tuple[ref[EpochState], Products] | None = None
        self._pasts: Array | None = None  # products of previous directions
        self._gains: tuple[Products, Array] | None = None  # by other pasts

    def of(self, posterior: EpochPosterior) -> Products:
        """Return products of all pairs, cached for the state of the last call."""
        state, last = posterior.state, self._products
        if last is not None and last[0]() is state:
            return last[1]
        known = None if last is None else last[1]
        products = Products.of(state, posterior.model.priors, known)
        self._products = ref(state), products
        return products

    def past_gains(self, posterior: EpochPosterior) -> Array:
        """Return the gains of directions by other pasts, cached likewise."""
        state, products, last = posterior.state, self.of(posterior), self._gains
        if last is None or last[0] is not products:
            if self._pasts is None:  # which are fixed in an epoch
                self._pasts = state.previous @ state.previous.T
            gains = kinds.past_gains(state, products, self._pasts)
            self._gains = last = products, gains
        return last[1]


#: Relative rounding errors of a bound.
ROUNDING = 1e-12
#: Records of a move, and the nats by which the bound must rise.
Judged = tuple[Sequence[Record], float]
#: Of moves by which no row changes its nodes.
NOTHING: Joined = np.empty(0, dtype=np.intp), Memo.joined([])
#: Times that moves of one kind are made after a pass.
N_TURNS = 5
#: Relative change of the concentration below which moves begin.
SETTLED = 0.05
#: Relative rise of the bound by the moves after a pass, from which learning continues.
SETTLED_GAIN = 4e-3
#: Passes without a birth after which nodes of epochs before may merge, at the latest.
SETTLED_BIRTHS = 3
#: Share of the nodes that are tried as targets of births after a pass.
BIRTH_SHARE = 0.1
#: Merges into the root that are judged with what follows, at most, pairs of nodes for
#: all of them, as each takes time in their number, and nats that one may lose itself.
ROOT_MERGES, ROOT_PAIRS, ROOT_SLACK = 6, 1 << 22, 30.0


class EpochEdits(trials.Judge):
    """Moves of dependent trees after each pass, in the order of their kinds.

    Records are replayed on the present state. If the bound of all rows rises by more
    than the least gain, the new globals, the cache of the rows and the lineage change
    in one commit; if not, nothing changes.
    """

    moves: EpochMoves
    rejections: Rejections
    _concentration: float
    _n_without_birth: int
    _is_reviewed: bool  # all parents have been judged since the tree changed last

    records: Sequence[Record] = ()  # made after the last pass

    def __init__(self, moves: EpochMoves):
        """Start with all moves due, and without rejections."""
        self.moves, self.rejections = moves, Rejections()
        self._concentration = np.inf
        self._n_without_birth = 0 if moves.birth else SETTLED_BIRTHS
        self._is_reviewed = False
        self._products = CachedProducts()  # of one pass

    def end_pass(self, learner: EpochLearner, monitor: Monitor) -> bool:
        """Try moves; return whether they gain so little that the fit may converge."""
        concentration = learner.posterior.state.concentration
        last, self._concentration = self._concentration, concentration
        if not abs(last - concentration) <= SETTLED * concentration:
            return False
        self.records, self._products = [], CachedProducts()
        before = self.bound(learner.posterior)
        if self._is_printed:  # Algorithm 1: in odd and in even units, then births
            self._merge(learner)
            self._propose_births(learner)
        else:
            self._try_kinds(learner, before)
        self._products = CachedProducts()
        if self.records:
            self._sort(learner)
        is_settled = self._is_printed or self._gains_little(learner, before)
        self._present = None
        return is_settled

    def _try_kinds(self, learner: EpochLearner, before: float) -> None:
        """Make moves of each kind; `before` is the bound without them."""
        has_past = len(learner.posterior.state.places_with_past) > 0
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
            self._merge_into_root(learner)
        if self._gains_little(learner, before) and not self._is_reviewed:
            self._review_parents(learner)
            self._is_reviewed = True
        self._is_reviewed &= not self.records
        if {"birth", "merge", "prune"} & {record.kind for record in self.records}:
            self._revive_nodes(learner, before)

    @property
    def _is_printed(self) -> bool:
        """Whether moves are those of the paper."""
        return self.moves.algorithm == "paper"

    def _gains_little(self, learner: EpochLearner, before: float) -> bool:
        """Whether the bound is hardly larger than before the moves of a pass."""
        return self.bound(learner.posterior) - before <= SETTLED_GAIN * abs(before)

    # Acceptance -----------------------------------------------------------------------

    def _keep(self, learner: EpochLearner, moves: Sequence[Judged]) -> bool:
        """Make moves together, in halves if the bound would fall; return whether any.

        Each comes with the entropy that rows may lose by it, or its least gain.
        """

        def make(some: Sequence[Judged]) -> bool:
            records = [record for move, _ in some for record in move]
            # Exchanges first, so that replaying takes two turns: the result is the
            # same, as no node is in two of the moves.
            records.sort(key=lambda one: not one.is_exchange)
            return self._make_if_better(learner, records, sum(one for _, one in some))

        def is_possible(one: Judged) -> bool:
            tree = learner.posterior.state.tree
            return all(record.is_possible(tree) for record in one[0])

        return make_in_halves(make, moves, is_possible) > 0

    def _make_if_better(
        self,
        learner: EpochLearner,
        records: Sequence[Record],
        lost: float,
        joined: Joined = NOTHING,
    ) -> bool:
        """Make moves if the bound rises, and assign the `joined` rows of births.

        `lost` is the least rise: entropy that the rows may lose, or evidence.
        """
        posterior, before = learner.posterior, self.bound(learner.posterior)
        new, kept = _replayed(posterior, records)
        after = posterior.model.bound(new, kept)
        if after - lost <= before + ROUNDING * abs(before):
            return False
        self._write(learner, records, new, kept, joined)
        self._present = posterior.model, posterior.state, posterior.global_stats, after
        return True

    def _make(self, learner: EpochLearner, records: Sequence[Record]) -> None:
        """Make moves, whatever the bound."""
        self._write(learner, records, *_replayed(learner.posterior, records))

    def _write(
        self,
        learner: EpochLearner,
        records: Sequence[Record],
        state: EpochState,
        stats: EpochStats,
        joined: Joined = NOTHING,
    ) -> None:
        """Change globals, cache and lineage by moves, in place in one commit."""
        posterior = learner.posterior
        log = [record.entry(posterior.n_steps) for record in records]
        with commit():
            learner.cache.keep(posterior, records, joined)
            adopt(posterior, state, stats, [one for one in log if one])
            self.records = [*self.records, *records]

    def _refresh(self, learner: EpochLearner) -> None:
        """Sum the statistics of rows again: merges add up shares of both nodes."""
        posterior = learner.posterior
        global_stats = learner.cache.global_stats(posterior.state.tree)
        posterior.replace_globals(
            update_sticks(posterior.state, global_stats), global_stats
        )

    # Kinds of moves -------------------------------------------------------------------

    def _prune(self, learner: EpochLearner) -> None:
        """Remove leaves without rows, again as long as this makes new ones."""
        given = learner.posterior
        while idle := edits.propose_removals(given.state, given.global_stats):
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
            proposals = kinds.propose_merges(
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

    def _merge_into_root(self, learner: EpochLearner) -> None:
        """Merge a node into the root of a first epoch, judged with what follows.

        Clusters start below a root without rows. The merge of the node that belongs
        there may lose by itself, until nodes are below other parents and priors are
        learned; what priors gain without it does not count.
        """
        posterior, now = learner.posterior, learner.n_passes
        model, state, stats = posterior.model, posterior.state, posterior.global_stats
        tree, priors = state.tree, model.priors
        sources = np.flatnonzero(tree.parent == 0)
        if self.moves.merge == "none" or not model.is_first or len(sources) == 0:
            return
        products, targets = self._products.of(posterior), np.zeros_like(sources)
        gains = products.exact_merges(sources, targets)
        gains += kinds.stick_gains(state, priors, sources, targets)
        order = np.argsort(-gains, kind="stable")[: (gains > -ROOT_SLACK).sum()]
        ids = tree.ids[sources[order]].tolist()
        ids = [one for one in ids if self.rejections.is_over(("root", one), now)]
        ids = ids[: min(ROOT_MERGES, ROOT_PAIRS // len(tree) ** 2)]
        if not ids:
            return
        others, alone = model.learn_priors(state, stats)
        least = max(self.bound(posterior), others.bound(alone, stats))
        losses = learner.cache.losses()
        for source in ids:
            both = source, int(tree.ids[0])
            gain = kinds.merge_gain(state, stats, priors, *both)
            records = [edits.merge(*both)]
            new, kept = edits.replay(state, stats, priors, records)
            for _ in range(N_TURNS if self.moves.reattach else 0):
                given = new, kept, priors, Products.of(new, priors, products)
                more = kinds.propose_attachments(*given, Rejections(), 0)
                if not more:
                    break
                new, kept = edits.replay(new, kept, priors, more)
                records += more
            learned, new = model.learn_priors(new, kept)
            after = learned.bound(new, kept) - losses.of(*both, gain)
            if after > least + ROUNDING * abs(least):
                with commit():
                    self._write(learner, records, new, kept)
                    posterior.model = learned
                self._refresh(learner)
                return
            self.rejections.add(("root", source), now)

    def _exchange(self, learner: EpochLearner) -> None:
        """Exchange the pasts of nodes for those that explain them best."""
        state = learner.posterior.state
        if len(state.places_with_past) == 0:
            return
        gains, now = self._products.past_gains(learner.posterior), learner.n_passes
        keys = {
            record: ("exchange", *record.touched)
            for record in kinds.propose_exchanges(state, gains)
        }
        proposals = [one for one in keys if self.rejections.is_over(keys[one], now)]
        moves = [([one], LEAST_EXCHANGE * len(one.touched)) for one in proposals]
        self._keep(learner, moves)
        for record in proposals:
            if record not in self.records:
                self.rejections.add(keys[record], now)

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
        for record in kinds.propose_exchanges(state, gains, allowed_loss):
            posterior = learner.posterior
            model, now = posterior.model, (posterior.state, posterior.global_stats)
            if record.kind != "revive":
                continue
            new = _replayed(posterior, [record])
            gain = bound.direction_bound(*new, model.priors)
            gain -= bound.direction_bound(*now, model.priors)
            least = LEAST_EXCHANGE * len(record.touched) - allowed_loss
            if gain > least and model.bound(*new) > least_bound:
                self._write(learner, [record], *new)

    def _places_to_keep(self, state: EpochState, stats: EpochStats) -> Ints:
        """Positions of nodes with a past that do not merge while births may return."""
        places = state.places_with_past
        if self._is_printed:
            return places[:0]
        if self._n_without_birth < SETTLED_BIRTHS:
            return places
        pauses = stats.masses[places] < epoch.PAUSE_ROWS
        pauses &= state.history[places] >= epoch.PAUSE_ROWS
        return places[pauses]

    def _attach(self, learner: EpochLearner, waits: Rejections | None = None) -> None:
        """Reverse edges, or else move nodes below other parents."""
        if not self.moves.reattach or len(learner.posterior.state.tree) == 1:
            return
        for propose in (kinds.propose_reversals, kinds.propose_attachments):
            posterior = learner.posterior
            records = propose(
                posterior.state,
                posterior.global_stats,
                posterior.model.priors,
                self._products.of(posterior),
                waits or self.rejections,
                learner.n_passes,
            )
            if self._keep(learner, [([record], 0.0) for record in records]):
                return

    def _review_parents(self, learner: EpochLearner) -> None:
        """Judge all nodes below other parents, also those that wait."""
        self._in_turns(partial(self._attach, waits=Rejections()), learner)

    def _propose_births(self, learner: EpochLearner) -> int:
        """Try births; return the number of nodes that are born."""
        posterior, cache = learner.posterior, learner.cache
        tree = posterior.state.tree
        n_tries = self.moves.max_births
        if n_tries is None:
            n_tries = max(LEAST_BIRTHS, int(BIRTH_SHARE * len(tree)))
        n_tries = int(min(n_tries, posterior.max_components - len(tree)))
        if not self.moves.birth or n_tries <= 0 or not cache.last_broadcasts:
            return 0
        now = learner.n_passes
        targets = draw_targets(posterior, n_tries, self.rejections, now)
        proposed = births_of(learner, targets, self.moves)
        n_births = self._apply_births(learner, proposed)
        made = [one.parents[0] for one in self.records if one.kind == "birth"]
        for node in targets.tolist():
            if node in made:
                self.rejections.forget(("birth", node))
            else:
                self.rejections.add(("birth", node), now)
        return n_births

    def _apply_births(self, learner: EpochLearner, proposed: list[Proposed]) -> int:
        """Make births together, in halves if the bound would fall; return how many."""
        least = -np.inf if self._is_printed else 0.0

        def make(some: Sequence[Proposed]) -> bool:
            named = kinds.renumbered(some, learner.posterior.state.tree)
            made = [one.record for one in named]
            return self._make_if_better(learner, made, least, kinds.join_rows(named))

        return make_in_halves(make, proposed)

    def _sort(self, learner: EpochLearner) -> None:
        """Sort siblings by their rows, in a first epoch."""
        posterior = learner.posterior
        if not posterior.model.is_first:
            return
        tree = bound.sorted_tree(posterior.state, posterior.global_stats)
        if tree != posterior.state.tree:
            self._make(learner, [edits.sort(tree.ids)])


def _replayed(
    posterior: EpochPosterior, records: Sequence[Record]
) -> tuple[EpochState, EpochStats]:
    """Return state and statistics of a posterior after moves."""
    priors = posterior.model.priors
    return edits.replay(posterior.state, posterior.global_stats, priors, records)
