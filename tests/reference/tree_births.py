"""Slow twin of births in a dependent tree: dense rows, directions in all dimensions."""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, xlogy

from reference import dependent_trees as trees


@dataclass(frozen=True)
class Near:
    """What a birth sees of an epoch, by position in the tree with the new node.

    Of the new node, all is zero.
    """

    new: int
    target: int
    parent: list
    masses: np.ndarray
    history: np.ndarray
    means: np.ndarray  # (n_nodes, n_words)
    naturals: np.ndarray  # (n_nodes, n_words) along the means, see `Naturals`
    shares: np.ndarray  # of these that count
    spreads: np.ndarray
    natural: np.ndarray  # of the target
    beta: float
    pull: float
    sticks: tuple  # stop and child concentrations

    @property
    def below(self):
        """Lengths of means of the children of the target."""
        nodes = [node for node, up in enumerate(self.parent) if up == self.target]
        return [np.linalg.norm(self.means[node]) for node in nodes if node != self.new]

    def spread_below(self, mean):
        return self.pull**2 * (1.0 - mean @ mean)

    def follow(self, stats, mean):
        """Mean of the new node, given what rows say and the mean of the target."""
        return mean_of(stats + self.pull * mean, self.spread_below(mean))

    def log_weights(self, masses):
        children = trees.children_of(self.parent)
        return trees.log_weights(
            children, np.maximum(masses, 0.0), self.history, *self.sticks
        )

    def evidence(self, masses):
        """Of the sticks."""
        children = trees.children_of(self.parent)
        given = children, np.maximum(masses, 0.0), self.history, *self.sticks
        stops, chosen = trees.stick_parameters(*given)
        pairs = [*stops.values(), *chosen.values()]
        return sum(betaln(*q) - betaln(*p) for q, p in pairs)


def mean_of(natural, spread):
    k, dimension = np.sqrt(natural @ natural + spread), len(natural)
    return natural * trees.bessel_ratio(k, dimension) / k


def row_gain(natural, row, own, beta, share, spread):
    """H of a natural parameter with a row, less h without the part that it has."""

    def h(vector):
        length = share * np.linalg.norm(vector)
        return trees.spread_normaliser(length, spread, len(row))

    without = natural - beta * own * row
    return (h(without + beta * row) - h(without)) / share


def far_row(rows, means, lengths, uniform):
    """Draw a row that is far from directions."""
    cosines = np.maximum((rows @ means.T / lengths).max(axis=1), -1.0)
    weights = np.cumsum(np.maximum(1.0 - cosines, 0.0) ** 2 + 1e-12)
    return int(np.argmax(weights > uniform * weights[-1]))


def scores_of(near, rows, q, taken, mean):
    """Follow rows that are taken: scores of all nodes, and the mean of the target."""
    beta, new, target = near.beta, near.new, near.target
    stats = beta * taken @ rows
    moved = near.natural - beta * (taken * q[:, target]) @ rows
    moved = moved + near.pull * near.follow(stats, mean)
    mean = mean_of(near.shares[target] * moved, near.spreads[target])
    masses = near.masses - taken @ q
    masses[new] = taken.sum()
    logs, scores = near.log_weights(masses), np.full(q.shape, -np.inf)
    own, spread = stats + near.pull * mean, near.spread_below(mean)
    for at, row in enumerate(rows):
        for node in np.flatnonzero(q[at]).tolist():
            given = near.shares[node], near.spreads[node]
            part, natural = q[at, node], near.naturals[node]
            if node == target:
                part, natural = part * (1.0 - taken[at]), moved
            scores[at, node] = row_gain(natural, row, part, beta, *given)
        scores[at, new] = row_gain(own, row, taken[at], beta, 1.0, spread)
    return logs + scores, mean


def softmax(scores):
    q = np.exp(scores - scores.max(axis=1, keepdims=True))
    return q / q.sum(axis=1, keepdims=True)


def choose(scores, n_best):
    """Shares of the best nodes, in single precision before they add up to one."""
    order = np.argsort(-scores, axis=1, kind="stable")
    scores = scores.copy()
    np.put_along_axis(scores, order[:, n_best:], -np.inf, axis=1)
    scores[scores < scores.max(axis=1, keepdims=True) - 40.0] = -np.inf
    q = softmax(scores).astype(np.float32).astype(np.float64)
    return q / q.sum(axis=1, keepdims=True)


def gain_of(near, rows, q, after, mean):
    """Rise of the bound; the new node is there if the target has another mean."""
    new, target, beta = near.new, near.target, near.beta
    gain = xlogy(q, q).sum() - xlogy(after, after).sum()
    moved = after - q
    fits = rows @ near.means.T
    fits[:, [new, target]] = 0.0
    gain += beta * (moved * fits).sum()
    gain += near.evidence(near.masses + moved.sum(axis=0))
    gain -= near.evidence(near.masses)
    before, spread, below = near.means[target], near.spreads[target], near.below
    gain -= near.natural @ before
    gain += trees.conjugate(np.linalg.norm(before), spread, len(before))
    for length in below:
        spread_below = near.spread_below(before)
        gain += trees.conjugate(length, spread_below, len(before))
    natural = near.natural + beta * moved[:, target] @ rows
    if mean is not None:
        stats = beta * after[:, new] @ rows
        own = near.follow(stats, mean)
        gain += stats @ own + trees.log_normaliser(near.pull, len(own))
        natural = natural + near.pull * own
        below = [*below, np.linalg.norm(own)]
    length = np.linalg.norm(natural)
    return gain + trees.worth_above(length, spread, below, near.pull, len(before))


def find_birth(near, rows, q, seeds, n_first, n_rounds, n_best):
    """Gain of the best seed, and shares of rows then; None if no seed keeps a row.

    `q` are shares before, (n_rows, n_nodes); nodes without one stay without.
    """
    result = [(-np.inf, None)]
    for seed in seeds:
        order = np.argsort(-(rows @ rows[seed]), kind="stable")
        taken, mean, mass = np.zeros(len(rows)), near.means[near.target], 0.0
        taken[order[:n_first]] = 1.0
        for _ in range(n_rounds):
            if (mass := taken.sum()) < 1.0:
                break
            scores, mean = scores_of(near, rows, q, taken, mean)
            taken = softmax(scores)[:, near.new]
            if abs(taken.sum() - mass) < 1e-3 * mass:
                break
        after = choose(scores, n_best)
        if mass >= 1.0 and after[:, near.new].sum() >= 1.0:
            result.append((gain_of(near, rows, q, after, mean), after))
    gain, after = max(result, key=lambda one: one[0])
    if after is None:
        return gain, None
    means = np.where(q > 0.0, near.beta * rows @ near.means.T, -np.inf)
    again = choose(near.log_weights(near.masses) + means, n_best)
    return gain - gain_of(near, rows, q, again, None), after
