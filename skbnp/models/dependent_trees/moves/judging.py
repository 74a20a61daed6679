"""Acceptance of moves of dependent trees, by the bound of all rows.

Records are replayed on the present state. If the bound of all rows rises by more than
the least gain, the new globals, the cache of the rows and the lineage change in one
commit; if not, nothing changes. Several moves are judged together, and in halves if the
bound would fall.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from skbnp.inference import trials
from skbnp.inference.executor import commit
from skbnp.inference.trials import adopt, make_in_halves
from skbnp.models.dependent_trees.epoch import EpochModel, EpochPosterior
from skbnp.models.dependent_trees.local import Memo
from skbnp.models.dependent_trees.memory import EpochLearner
from skbnp.models.dependent_trees.moves.births import Joined
from skbnp.models.dependent_trees.moves.records import Exchange, Record, replay
from skbnp.models.dependent_trees.state import EpochState, EpochStats
from skbnp.models.dependent_trees.updates import update_sticks

#: Relative rounding errors of a bound.
ROUNDING = 1e-12
#: Records of a move, and the nats by which the bound must rise.
Judged = tuple[tuple[Record, ...], float]
#: Of moves by which no row changes its nodes.
NOTHING: Joined = np.empty(0, dtype=np.intp), Memo.joined([])


class Judge(trials.Judge):
    """Moves of an epoch that are made if the bound of all rows rises."""

    def __init__(self) -> None:
        self.records: list[Record] = []  # all so far

    def _keep(self, learner: EpochLearner, moves: Sequence[Judged]) -> bool:
        """Make moves together, in halves if the bound would fall; return whether any.

        Each comes with the entropy that rows may lose by it, or its least gain.
        """

        def make(some: Sequence[Judged]) -> bool:
            records, least = zip(*some, strict=True)
            return self._make_if_better(learner, _exchanges_first(records), sum(least))

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
        new, kept = replayed(posterior, records)
        after = posterior.model.bound(new, kept)
        if after - lost <= before + ROUNDING * abs(before):
            return False
        self._write(learner, records, new, kept, joined)
        self._present = posterior.model, posterior.state, posterior.global_stats, after
        return True

    def _make(self, learner: EpochLearner, records: Sequence[Record]) -> None:
        """Make moves, whatever the bound."""
        self._write(learner, records, *replayed(learner.posterior, records))

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
            self.records.extend(records)

    def _refresh(self, learner: EpochLearner) -> None:
        """Sum the statistics of rows again: merges add up shares of both nodes."""
        posterior = learner.posterior
        global_stats = learner.cache.global_stats(posterior.state.tree)
        posterior.replace_globals(
            update_sticks(posterior.state, global_stats), global_stats
        )


def replayed(
    posterior: EpochPosterior, records: Sequence[Record]
) -> tuple[EpochState, EpochStats]:
    """Return state and statistics of a posterior after moves."""
    priors = posterior.model.priors
    return replay(posterior.state, posterior.global_stats, priors, records)


def replayed_with_priors(
    learner: EpochLearner, records: Sequence[Record]
) -> tuple[EpochModel, EpochState, EpochStats]:
    """Return model, state and statistics after moves, with learned priors."""
    state, stats = replayed(learner.posterior, records)
    model, state = learner.posterior.model.learn_priors(state, stats)
    return model, state, stats


def nodes_of(records: Iterable[Record]) -> set[int]:
    """Nodes that moves touch, rename or end, by their names before and after."""
    return {node for record in records for node in record.nodes_concerned}


def _exchanges_first(moves: Sequence[tuple[Record, ...]]) -> list[Record]:
    """Order records: exchanges first, so that replaying takes two turns.

    The result is the same, as no node is in two of the moves.
    """
    records = [record for move in moves for record in move]
    return sorted(records, key=lambda one: not isinstance(one, Exchange))
