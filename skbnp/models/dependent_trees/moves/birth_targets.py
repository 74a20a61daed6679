"""Births of dependent trees after a pass: nodes to try, proposals from their rows."""

import numpy as np

from skbnp.inference.posterior import Posterior
from skbnp.inference.trials import Rejections
from skbnp.models.dependent_trees.memory import EpochLearner
from skbnp.models.dependent_trees.moves import births
from skbnp.models.dependent_trees.moves.settings import NO_ROWS, EpochMoves
from skbnp.models.dependent_trees.node_table import Naturals
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Ints

#: Fewest nodes that are tried as targets of births after a pass, of any number.
LEAST_BIRTHS = 20
#: Units of targets, whose births are proposed side by side.
N_UNITS = 64


def draw_targets(
    posterior: Posterior, n_tries: int, rejections: Rejections, n_passes: int
) -> Ints:
    """Draw at most `n_tries` different nodes for births, in proportion to their rows.

    Nodes whose last birth was rejected come last, and only up to `LEAST_BIRTHS`.
    """
    rng = stream(posterior.seed_entropy, Purpose.MOVE, posterior.n_steps)
    masses, ids = posterior.global_stats.masses, posterior.state.tree.ids
    able = np.flatnonzero(masses > births.LEAST_ROWS + NO_ROWS)
    if len(able) == 0:
        return np.empty(0, dtype=np.intp)
    shares = masses[able] / masses[able].sum()
    drawn = rng.choice(able, size=len(able), replace=False, p=shares)
    waits = np.array(
        [not rejections.is_over((node,), n_passes) for node in ids[drawn].tolist()]
    )
    n_tries = min(n_tries, max(int((~waits).sum()), LEAST_BIRTHS))
    return ids[drawn[np.argsort(waits, kind="stable")[:n_tries]]]


def propose_births(
    learner: EpochLearner, targets: Ints, moves: EpochMoves
) -> list[births.Proposed]:
    """Propose a birth of each target, in tasks by unit; the largest gain first."""
    posterior, cache = learner.posterior, learner.cache
    state, stats = posterior.state, posterior.global_stats
    tree, priors = state.tree, posterior.model.priors
    seed_entropy, n_steps = posterior.seed_entropy, posterior.n_steps
    gathered = cache.gather(targets.tolist(), len(tree), n_steps, moves.birth_rows)
    naturals = Naturals.of(state, priors).by_position(tree)
    is_printed = moves.algorithm == "paper"  # births then need not raise the bound
    least_gain = -np.inf if is_printed else posterior.model.least_gain

    def propose_of(unit: int) -> list[births.Proposed]:
        """Proposals of the targets of one unit; sent to processes: without learner."""
        proposals = []
        for one in gathered:
            if one.target % N_UNITS == unit:
                rng = stream(seed_entropy, Purpose.MOVE, n_steps, one.target)
                proposal = births.propose_birth(
                    state, stats, priors, naturals, one, moves, least_gain, rng
                )
                if proposal is not None:
                    proposals.append(proposal)
        return proposals

    parts = cache.run(propose_of, np.unique(targets % N_UNITS).tolist())
    proposed = [proposal for part in parts for proposal in part]
    return sorted(proposed, key=lambda proposal: -proposal.gain)
