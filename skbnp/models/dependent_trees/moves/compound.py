"""Compound moves of dependent trees: merges with what they entail.

A merge into the parent gains too little by itself. It is judged together with moves of
near nodes below other parents and with learned priors.
"""

from collections.abc import Sequence

from skbnp.inference.interrupts import commit
from skbnp.inference.trials import Rejections
from skbnp.models.dependent_trees.epoch import EpochModel
from skbnp.models.dependent_trees.memory import EpochLearner
from skbnp.models.dependent_trees.moves import judging, merges
from skbnp.models.dependent_trees.moves.attachments import propose_attachments
from skbnp.models.dependent_trees.moves.cached_products import CachedProducts
from skbnp.models.dependent_trees.moves.judging import nodes_of, replayed_with_priors
from skbnp.models.dependent_trees.moves.products import Products
from skbnp.models.dependent_trees.moves.records import Record, replay
from skbnp.models.dependent_trees.moves.settings import EpochMoves

#: Times that moves of one kind are made after a pass.
N_TURNS = 5
#: Kinds of moves that wait where they gain nothing: targets, nodes and parents, nodes
#: that would merge or exchange names. A fit may end while some wait.
KINDS = ("attachment", "birth", "exchange", "merge", "reversal")


class CompoundMoves(judging.Judge):
    """Merges with attachments and priors that follow."""

    def __init__(self, moves: EpochMoves):
        """Start without cached products and rejections."""
        super().__init__()
        self.moves = moves
        self._rejections = {kind: Rejections() for kind in KINDS}
        self._products = CachedProducts()

    def _merge_rejected(self, learner: EpochLearner) -> None:
        """Judge merges of small loss together with the moves that follow."""
        posterior, waits = learner.posterior, self._rejections["merge"]
        state, stats = posterior.state, posterior.global_stats
        n_at_most = merges.n_compound(len(state.tree))
        if self.moves.merge == "none" or not n_at_most:
            return
        if not merges.find_new(state)[1:].any():
            return
        given = state, stats, posterior.model.priors, self._products.of(posterior)
        losses, n_passes = learner.cache.losses(), learner.n_passes
        for one in merges.propose_compound_merges(*given, losses, waits, n_passes):
            if self._make_compound(learner, [one.merge], one.lost):
                return
            waits.add((one.merge.source, one.merge.target), n_passes)

    def _make_compound(
        self, learner: EpochLearner, records: Sequence[Record], least: float
    ) -> bool:
        """Make moves and those that follow if the bound rises by `least`.

        Nodes near them go below other parents, and priors are learned; what these gain
        without the moves does not count.
        """
        before, near = self.bound(learner.posterior), nodes_of(records)
        records = [*records, *self._attachments_near(learner, near, records)]
        after = EpochModel.bound(*replayed_with_priors(learner, records)) - least
        if after <= before + judging.ROUNDING * abs(before):
            return False
        others = self._attachments_near(learner, near)
        if after <= EpochModel.bound(*replayed_with_priors(learner, others)):
            return False
        # Once more, as another copy of the state would have been in memory till here.
        model, state, stats = replayed_with_priors(learner, records)
        with commit():
            self._write(learner, records, state, stats)
            learner.posterior.model = model
        self._refresh(learner)
        return True

    def _attachments_near(
        self, learner: EpochLearner, near: set[int], records: Sequence[Record] = ()
    ) -> list[Record]:
        """Propose moves of nodes in `near`, or below these, while the bound rises."""
        posterior, priors = learner.posterior, learner.posterior.model.priors
        proposals: list[Record] = []
        if not self.moves.reattach:
            return proposals
        state, stats = judging.replayed(posterior, records)
        bound = posterior.model.bound(state, stats)
        for _ in range(N_TURNS):
            products = self._products.of(posterior)
            if state is not posterior.state:
                products = Products.of(state, priors, products)
            given = state, stats, priors, products, Rejections(), 0
            more = [move for move, _ in propose_attachments(*given, near)]
            del given, products  # they are as large as the state
            if not more:
                break
            state, stats = replay(state, stats, priors, more)
            before, bound = bound, posterior.model.bound(state, stats)
            if bound <= before:
                break
            proposals += more
        return proposals
