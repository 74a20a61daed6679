"""Rows that choose their nodes one by one, written from the conditional distribution.

All is dense, vectors are of all words, and what a row says is left out by subtraction.
"""

from dataclasses import dataclass, field

import numpy as np

from reference.dependent_trees import bessel_ratio, log_normaliser


@dataclass
class Nodes:
    """Nodes by position, the new ones behind all others."""

    naturals: list  # of (n_words,) n
    shares: list  # of n, that count
    spreads: list  # v
    log_weights: list
    log_weights_below: list  # of a new child
    masses: list
    lasting: list
    parent: list
    strength: float  # beta
    pull: float  # kappa0 k1
    least: float
    capacity: int
    closed: set = field(default_factory=set)

    def mean(self, node, natural):
        share = self.shares[node]
        length = np.sqrt(share**2 * (natural @ natural) + self.spreads[node])
        return bessel_ratio(length, len(natural)) / length * share * natural

    def n_children(self, node):
        return sum(
            above == node and child not in self.closed
            for child, above in enumerate(self.parent)
        )


def worth(natural, share, spread, n_words):
    """h of a natural parameter, of which a share counts."""
    square = share**2 * (natural @ natural) + spread
    return -log_normaliser(np.sqrt(square), n_words) / share


def gain(natural, row, strength, share, spread):
    both = worth(natural + strength * row, share, spread, len(row))
    return both - worth(natural, share, spread, len(row))


def without(nodes, own, row):
    """Natural parameters, and means, without what a row says in its node."""
    naturals = [natural.copy() for natural in nodes.naturals]
    means = [nodes.mean(*both) for both in enumerate(nodes.naturals)]
    if own < 0:
        return naturals, means
    naturals[own] -= nodes.strength * row
    part, node = nodes.strength, own
    while node >= 0:
        # A mean is a multiple of its natural parameter, which is held fixed.
        lengths = np.linalg.norm([means[node], nodes.naturals[node]], axis=1)
        part *= lengths[0] / lengths[1]
        means[node] = means[node] - part * row
        for child, above in enumerate(nodes.parent):
            if above == node:
                naturals[child] -= nodes.pull * part * row
        part *= nodes.pull
        node = nodes.parent[node]
    return naturals, means


def choose(nodes, own, row):
    """Let a row choose its node; return it."""
    naturals, means = without(nodes, own, row)
    strength, pull = nodes.strength, nodes.pull
    alone = (
        own > 0
        and nodes.masses[own] < 1.001
        and not nodes.lasting[own]
        and nodes.n_children(own) == 0
    )
    scores = {}
    for node, natural in enumerate(naturals):
        if node in nodes.closed:
            continue
        weight = nodes.log_weights[node]
        if node == own and alone:
            weight = nodes.log_weights_below[nodes.parent[own]] - nodes.least
        elif node == own and nodes.masses[own] > 1.001:
            weight += np.log((nodes.masses[own] - 1.0) / nodes.masses[own])
        share, spread = nodes.shares[node], nodes.spreads[node]
        scores[node] = weight + gain(natural, row, strength, share, spread)
    best = max(scores, key=lambda node: (scores[node], node == own, -node))
    below = {}
    for node, mean in enumerate(means):
        if node in nodes.closed or (alone and node in (own, nodes.parent[own])):
            continue
        spread = pull**2 * (1.0 - mean @ mean)
        below[node] = nodes.log_weights_below[node] - nodes.least
        below[node] += gain(pull * mean, row, strength, 1.0, spread)
    above = max(below, key=lambda node: (below[node], -node), default=-1)
    if (
        above >= 0
        and len(nodes.parent) < nodes.capacity
        and below[above] > scores[best]
    ):
        best = len(nodes.parent)
        mean = nodes.mean(above, nodes.naturals[above])
        nodes.naturals.append(pull * mean)
        nodes.shares.append(1.0)
        nodes.spreads.append(pull**2 * (1.0 - mean @ mean))
        nodes.log_weights.append(nodes.log_weights_below[above])
        nodes.log_weights_below.append(-np.inf)
        nodes.masses.append(0.0)
        nodes.lasting.append(False)
        nodes.parent.append(above)
    if best == own:
        return own
    if own >= 0:
        nodes.naturals[own] = nodes.naturals[own] - strength * row
        nodes.masses[own] -= 1.0
        if alone:
            nodes.closed.add(own)
    nodes.naturals[best] = nodes.naturals[best] + strength * row
    nodes.masses[best] += 1.0
    return best
