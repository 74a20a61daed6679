"""Exchanges of the pasts of nodes of dependent trees: which node continues which.

When an epoch begins, rows of a topic that has drifted may be nearer to the past of
another topic: then that node has the rows of both, and the topic's own node has none. A
birth separates the rows, but leaves wrong names: the new node has no past, and a past
has no rows. So nodes exchange their names, pasts and shares of past rows if the bound
rises; rows, positions and directions stay. A node that has ended, in this epoch or one
of three before, may have ended because its rows were taken for those of another one: a
node that began since takes its name, or hands it on. The assignment of pasts that is
best if all directions but one are fixed is found at once, and made cycle by cycle.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

from skbnp.models.dependent_trees.directions import log_normaliser_gain
from skbnp.models.dependent_trees.moves.products import Products
from skbnp.models.dependent_trees.moves.records import Exchange
from skbnp.models.dependent_trees.state import EpochState
from skbnp.utils.typing import Array, Ints

#: Nats that each node of an exchange gains at least: their directions are updated
#: with it, and two would change pasts for ever.
LEAST_GAIN = 1.0
#: More nats than anything gains.
HUGE = 1e12


def past_gains(state: EpochState, products: Products, of_pasts: Array) -> Array:
    """Gains of directions if a node has another past, (n_nodes, n_nodes + n_ended).

    Rows are nodes, columns pasts: of nodes, then of those that have ended, if a node
    that began could replace one; the products of pasts with each other are given. The
    direction of the node is updated, all others are fixed.
    """
    everywhere = np.arange(len(state.tree))
    ended = state.ended if (state.past < 0).any() else everywhere[:0]
    if products.past is None or products.of_previous is None:
        return np.zeros((len(everywhere), len(everywhere) + len(ended)))
    k1 = state.prior_concentration * products.parent_weights[:, None]
    k2 = state.prior_concentration * products.priors.past_weight
    # E_e'mu_p; last: of what is above the root.
    along = np.hstack([products.past.T, products.of_previous[ended].T])
    pasts = np.concatenate([state.past, ended])
    has_past, there = state.past[:, None] >= 0, pasts >= 0
    both = np.where(has_past & there, of_pasts[np.ix_(state.past, pasts)], 0)
    naturals = products.naturals
    shares, spreads = naturals.shares[:, None], naturals.spreads[:, None]
    eta, of_means = naturals.lengths, np.maximum(naturals.mean_lengths, 1e-300)
    with_own = (eta / of_means)[:, None] * along[:-1]
    own = np.diagonal(with_own)[:, None]
    squares = eta[:, None] ** 2 + 2.0 * k2 * (with_own - own)
    squares += k2**2 * (has_past * 1.0 + there[None] - 2.0 * both)
    counts = np.maximum(squares, 0.0) * shares**2 + spreads
    rho = k1**2 + there[None] * (k2**2 + 2.0 * k1 * k2 * along[state.tree.parent])
    worth = log_normaliser_gain(rho, state.dimension)
    worth -= log_normaliser_gain(counts, state.dimension) / shares
    return np.asarray(worth - np.diagonal(worth)[:, None])


def propose_exchanges(
    state: EpochState, gains: Array, most_lost: float = 0.0
) -> list[Exchange]:
    """Cycles of the best assignment of pasts to nodes, the largest gain first.

    Only directions decide which past a node has: if one topic ends as another begins,
    shares of rows would give the new one any past. The root, which cannot end, takes no
    new name. `gains` are those of `past_gains`; directions lose at most `most_lost`
    nats by a cycle in which a node that has ended is revived.
    """
    if len(state.places_with_past) == 0:
        return []
    names = _assigned(gains, state, most_lost)
    ids = np.concatenate([state.tree.ids, state.past_ids[state.ended]])
    proposals = []
    for cycle in _cycles_and_chains(names):
        gain = float(gains[cycle, names[cycle]].sum())
        both = ids[cycle].tolist(), ids[names[cycle]].tolist()
        exchange = Exchange(tuple(both[0]), tuple(both[1]))
        if gain >= (-most_lost if exchange.brings_back else 0.0):
            proposals.append((gain, exchange))
    proposals.sort(key=lambda one: (-one[0], one[1].nodes))
    return [record for _, record in proposals]


def _assigned(gains: Array, state: EpochState, worth_of_return: float) -> Ints:
    """Past of each node in the best assignment; the root has one.

    All nodes with a past remain; some that began since may be replaced by nodes that
    ended, each of which counts as a gain of `worth_of_return` nats.
    """
    n_nodes, n_ended = len(gains), gains.shape[1] - len(gains)
    gains = np.vstack([gains, np.zeros((n_ended, gains.shape[1]))])
    new = np.setdiff1d(np.arange(1, n_nodes), state.places_with_past)
    gains[:n_nodes, n_nodes:] += worth_of_return
    gains[0, new] = -HUGE
    gains[n_nodes:, state.places_with_past] = -HUGE
    gains += LEAST_GAIN * np.eye(len(gains))
    _, names = linear_sum_assignment(gains, maximize=True)
    return np.asarray(names)[:n_nodes]


def _cycles_and_chains(names: Ints) -> list[Ints]:
    """Cut an assignment into cycles, and chains to names of nodes that have ended."""
    places = np.arange(len(names))
    seen, cycles = np.zeros(len(names), dtype=bool), []
    firsts = np.setdiff1d(places, names)  # of chains: no node has their names
    for first in [*firsts.tolist(), *np.flatnonzero(names != places).tolist()]:
        cycle, place = [], first
        while place < len(names) and not seen[place]:
            seen[place] = True
            cycle.append(place)
            place = int(names[place])
        if cycle:
            cycles.append(np.array(cycle))
    return cycles
