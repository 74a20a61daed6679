"""Slow references for rows at nodes of an infinite tree, on the circle.

A tree is the name of the root (None of a new node), rows there, and trees of its
children: old ones as they come, new ones in a fixed order.
"""

import numpy as np
from scipy.special import ive


def size(tree):
    return 1 + sum(size(child) for child in tree[2])


def rows_in(tree):
    return len(tree[1]) + sum(rows_in(child) for child in tree[2])


def canonical(name, rows, children):
    """A tree: name of an old node or None, rows, children; new ones are sorted."""
    old = [child for child in children if child[0] is not None]
    new = sorted((c for c in children if c[0] is None), key=repr)
    return name, tuple(sorted(rows)), (*old, *new)


def grow(n_rows, most_nodes, start):
    """All trees of some rows with so many nodes at the most, from one without rows."""
    trees = {start}
    for row in range(n_rows):
        trees = {
            t for tree in trees for t in with_row(tree, row, most_nodes - size(tree))
        }
    return sorted(trees, key=repr)


def with_row(tree, row, room):
    name, rows, children = tree
    yield canonical(name, (*rows, row), children)
    for at, child in enumerate(children):
        for other in with_row(child, row, room):
            yield canonical(name, rows, (*children[:at], other, *children[at + 1 :]))
    if room > 0:
        for chain in range(1, room + 1):
            below = (None, (row,), ())
            for _ in range(chain - 1):
                below = (None, (), (below,))
            yield canonical(name, rows, (*children, below))


def past_rows(name, history, below):
    """Past rows at an old node and below."""
    return history[name] + sum(past_rows(c, history, below) for c in below[name])


def log_prior(tree, history, below, alpha, gamma):
    """Log probability of a tree, rows coming one by one by predictive probabilities.

    `history` has past rows of old nodes by name, `below` names of their old children.
    """
    everything = all_rows(tree)
    return sum(
        log_step(pruned(tree, everything[:at]), tree, row, history, below, alpha, gamma)
        for at, row in enumerate(everything)
    )


def all_rows(tree):
    return sorted([*tree[1], *(r for child in tree[2] for r in all_rows(child))])


def pruned(tree, rows):
    """The tree with some rows alone; new nodes without any stay, with no rows."""
    kept = tuple(r for r in tree[1] if r in rows)
    return tree[0], kept, tuple(pruned(child, rows) for child in tree[2])


def log_step(now, full, row, history, below, alpha, gamma):
    """Log probability that a row goes where it is, given rows before it."""
    name, rows, children = now
    past_here = history[name] if name is not None else 0.0
    past_all = past_rows(name, history, below) if name is not None else 0.0
    here, there = len(rows) + past_here, rows_in(now) + past_all
    stay = (1 + here) / (1 + here + alpha + there - here)
    if row in full[1]:
        return np.log(stay)
    total = np.log(1 - stay)

    def weight(child):
        past = past_rows(child[0], history, below) if child[0] is not None else 0.0
        return rows_in(child) + past

    old = [c for c in children if c[0] is not None]
    new = [c for c in children if c[0] is None]
    at = next(i for i, child in enumerate(full[2]) if row in all_rows(child))
    for i, child in enumerate(old):
        later = sum(map(weight, old[i + 1 :])) + sum(map(weight, new))
        take = (1 + weight(child)) / (1 + weight(child) + gamma + later)
        if i == at:
            return (
                total
                + np.log(take)
                + log_step(child, full[2][at], row, history, below, alpha, gamma)
            )
        total += np.log(1 - take)
    mine, others = weight(children[at]), sum(map(weight, new))
    total += np.log((mine if mine > 0 else gamma) / (others + gamma))
    return total + log_step(
        children[at], full[2][at], row, history, below, alpha, gamma
    )


class Circle:
    """Densities of rows on the circle, directions integrated out on a grid."""

    def __init__(self, x, beta, kappa0, past=None, k1=1.0, k2=1.0, n=256):
        angle = 2 * np.pi * np.arange(n) / n
        self.grid = np.column_stack([np.cos(angle), np.sin(angle)])
        self.x, self.beta, self.kappa0 = x, beta, kappa0
        self.past, self.k1, self.k2 = past or {}, k1, k2

    def density(self, natural, at):
        k = np.linalg.norm(natural, axis=-1)
        scale = 2 * np.pi * ive(0, k)
        return np.exp(natural @ at.T - k[..., None]) / scale[..., None]

    def likelihood(self, tree):
        """p(rows at a node or below | its direction), (n,)."""
        result = np.ones(len(self.grid))
        for row in tree[1]:
            result *= self.density(self.beta * self.grid, self.x[[row]])[:, 0]
        for child in tree[2]:
            result *= self.message(child, self.grid)
        return result

    def message(self, tree, parents):
        """p(rows at a node or below | direction of its parent); zeros: no parent."""
        natural = self.kappa0 * self.k1 * parents
        if tree[0] is not None:
            natural = natural + self.kappa0 * self.k2 * self.past[tree[0]]
        weights = self.density(natural, self.grid) * (2 * np.pi / len(self.grid))
        return weights @ self.likelihood(tree)

    def log_evidence(self, tree):
        nothing = np.zeros((1, 2))  # above the root
        return float(np.log(self.message(tree, nothing)[0]))
