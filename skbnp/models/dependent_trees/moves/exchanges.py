"""Which node has which past.

When an epoch begins, rows of a topic that has drifted may be nearer to the past of
another one: then this has the rows of both, and the topic itself has none. A birth
tells them apart again, but names are in wrong hands then: what is born has no past, and
a past has no rows. So nodes exchange their names, pasts and shares of past rows where
the bound rises; rows, places and directions stay. The assignment that is best if all
directions but one stay is found at once, and made cycle by cycle.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from skbnp.models.dependent_trees.directions import log_normaliser_gain
from skbnp.models.dependent_trees.local import Naturals
from skbnp.models.dependent_trees.model import (
    EpochState,
    TreePriors,
    past_of,
)
from skbnp.models.dependent_trees.moves.records import Exchange

__all__ = ["past_gains", "propose_exchanges", "with_past"]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

#: Nats that each node of an exchange gains at the least: their directions are updated
#: with it, and two would change pasts for ever.
LEAST_GAIN = 1.0
#: More nats than anything gains.
HUGE = 1e12


def with_past(state: EpochState) -> Ints:
    """Places of nodes that were there in the epoch before."""
    places = np.arange(len(state.tree))
    return np.flatnonzero(past_of(state.previous, places).any(axis=1))


def past_gains(state: EpochState, priors: TreePriors) -> Array:
    """What directions gain if a node has the past of another, (n_nodes, n_nodes).

    Rows are nodes, columns pasts. The direction of the node follows, all others stay.
    """
    everywhere = np.arange(len(state.tree))
    k1 = state.prior_concentration * state.parent_weights(everywhere, priors)[:, None]
    k2 = state.prior_concentration * priors.past_weight
    past = state.previous.astype(np.float32)
    means = np.vstack([state.means, state.above]).astype(np.float32)
    products = (means @ past.T).astype(np.float64)  # E_e'mu_p
    both = (past @ past.T).astype(np.float64)
    there = np.asarray(past.any(axis=1))
    naturals = Naturals.of(state, priors).by_position(state.tree)
    shares, spreads = naturals.shares[:, None], naturals.spreads[:, None]
    eta, of_means = naturals.lengths, np.maximum(naturals.mean_lengths, 1e-300)
    with_own = (eta / of_means)[:, None] * products[:-1]
    own = np.diagonal(with_own)[:, None]
    squares = eta[:, None] ** 2 + 2.0 * k2 * (with_own - own)
    squares += k2**2 * (there[:, None] * 1.0 + there[None] - 2.0 * both)
    counts = np.maximum(squares, 0.0) * shares**2 + spreads
    rho = k1**2 + there[None] * (k2**2 + 2.0 * k1 * k2 * products[state.tree.parent])
    worth = log_normaliser_gain(rho, state.dimension)
    worth -= log_normaliser_gain(counts, state.dimension) / shares
    return np.asarray(worth - np.diagonal(worth)[:, None])


def propose_exchanges(state: EpochState, priors: TreePriors) -> list[Exchange]:
    """Find the cycles of the best assignment of pasts, those of most gain first.

    Directions alone tell whose past a node has: where one topic ends as another begins,
    shares of rows would give the new one the past of any. The root, which cannot end,
    takes no name that is new.
    """
    old = with_past(state)
    if len(old) == 0:
        return []
    directions = past_gains(state, priors)
    gains = directions + LEAST_GAIN * np.eye(len(directions))
    gains[0, np.setdiff1d(np.arange(1, len(gains)), old)] = -HUGE
    _, names = linear_sum_assignment(gains, maximize=True)
    found = []
    for cycle in _cycles(names):
        gain = float(gains[cycle, names[cycle]].sum())
        if directions[cycle, names[cycle]].sum() < 0.0:
            continue
        ids = state.tree.ids[cycle], state.tree.ids[names[cycle]]
        found.append((gain, Exchange(*(tuple(one.tolist()) for one in ids))))
    found.sort(key=lambda one: (-one[0], one[1].nodes))
    return [record for _, record in found]


def _cycles(permutation: Ints) -> list[Ints]:
    """Cut a permutation into cycles, those of one left out."""
    seen, cycles = np.zeros(len(permutation), dtype=bool), []
    for first in np.flatnonzero(permutation != np.arange(len(permutation))).tolist():
        cycle, place = [], first
        while not seen[place]:
            seen[place] = True
            cycle.append(place)
            place = int(permutation[place])
        if cycle:
            cycles.append(np.array(cycle))
    return cycles
