"""Slow twins of what directions of a tree that are drawn say to those next to them."""

import numpy as np

from reference.dependent_trees import bessel_ratio, log_normaliser


def prior_products(tree, theta, past, node):
    """Products of a direction, its parent's, and that of the epoch before, if any."""
    nothing = np.zeros(theta.shape[1])
    above = theta[tree.parent[node]] if node else nothing
    m = past.get(node, nothing)
    return above @ theta[node], m @ theta[node], above @ m, m @ m


def integrated_out(tree, node, theta, sums, past, strengths):
    """Log of what a node and all below make of rows, and its slope in its parent.

    The direction of the node is integrated out given that of its parent; of children
    there is the tangent at its present direction. `strengths` are beta, and those of
    parents and of the past.
    """
    beta, pull, pull_of_past = strengths
    v, total, g = theta.shape[1], 0.0, beta * sums[node]
    for child in np.flatnonzero(tree.parent == node):
        result, slope = integrated_out(tree, child, theta, sums, past, strengths)
        total, g = total + result, g + slope
    prior = np.zeros(v)
    if node in past:
        prior = prior + pull_of_past * past[node]
    above = theta[tree.parent[node]] if node else np.zeros(v)
    prior = prior + pull * above
    # log C(k) - log C(|k + g|), less its tangent at zero: what is left is linear.
    before, after = np.linalg.norm(prior), np.linalg.norm(prior + g)
    total += log_normaliser(max(before, 1e-9), v) - log_normaliser(max(after, 1e-9), v)
    if node == 0:
        return total, None
    slope = pull * bessel_ratio(after, v) / after * (prior + g)
    slope -= pull * bessel_ratio(before, v) / before * prior
    # Along the sphere: parts of the slope in direction of the parent itself are those
    # of squares of its length, which is one.
    squares = pull**2 * bessel_ratio(after, v) / after
    squares -= pull**2 * bessel_ratio(before, v) / before
    slope -= squares * above
    return total - slope @ above, slope
