"""Slow twins of kernels by which rows go from node to node; dense rows."""

import numpy as np

from reference.dependent_trees import log_normaliser


def log_density(x, natural, beta):
    """Log p(x) of a node whose direction has a natural parameter, without C_V(beta)."""
    v = len(x)
    before, after = (np.linalg.norm(g) for g in (natural, natural + beta * x))
    return log_normaliser(before, v) - log_normaliser(after, v)


def probabilities(x, naturals, drawn, beta, log_weights, log_slice, now):
    """Probability of each node; the row is at `now`, whose parameter is with it."""
    scores = np.full(len(naturals), -np.inf)
    for node, natural in enumerate(naturals):
        if node != now and log_weights[node] <= log_slice:
            continue
        if drawn[node]:
            scores[node] = beta * natural @ x
        else:
            rest = natural - beta * x if node == now else natural
            scores[node] = log_density(x, rest, beta)
    scores -= scores.max()
    return np.exp(scores) / np.exp(scores).sum()


def allocation(rows, sides, naturals, beta):
    """Log probability of sides of rows, one by one, and the parameters at the end."""
    naturals, counts, total = naturals.copy(), np.ones(2), 0.0
    for x, side in zip(rows, sides, strict=True):
        scores = [
            np.log(counts[k]) + log_density(x, naturals[k], beta) for k in range(2)
        ]
        total += scores[side] - np.logaddexp(*scores)
        naturals[side] += beta * x
        counts[side] += 1
    return total, naturals


def natural_parameter(node, X, place, tree, directions, past, gone, strengths):
    """Natural parameter of a node given its rows and the directions of all others.

    `past` has its previous direction, if it has one; `gone` the sums of further rows;
    `strengths` are beta, and those of parents and of the past.
    """
    beta, pull, pull_of_past = strengths
    natural = beta * (X[place == node].sum(axis=0) + gone[node])
    if node:
        natural = natural + pull * directions[tree.parent[node]]
    if node in past:
        natural = natural + pull_of_past * past[node]
    for child in np.flatnonzero(tree.parent == node):
        natural = natural + pull * directions[child]
    return natural
