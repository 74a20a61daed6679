"""Weights of the nodes of the sampler's infinite tree, of which a few have rows.

Nodes are of two sorts. *Old* ones were there in the epoch before: they come first among
their siblings, in an order that stands, and their sticks have the priors of Hu et al.
(2015), see `dependent_trees/sticks.py`. What they leave is for *new* ones, whose sticks
are Beta(1, gamma): a Dirichlet process of concentration gamma. There is no order of the
new ones here: given n_c rows at child c or below, weights of those that have rows, and
of all others together, are Dirichlet(n_1, n_2, .., gamma), and the others break their
share by sticks again.
"""

import numpy as np
from scipy.special import betaln, gammaln

from skbnp.models.dependent_trees.state import TreePriors
from skbnp.models.dependent_trees.sticks import before, behind
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Flags


def log_prior(
    tree: Tree, masses: Array, history: Array, is_old: Flags, priors: TreePriors
) -> float:
    """Log probability of the nodes of all rows, weights integrated out.

    Of the partition of rows that the tree is: new nodes, each with a row at it or
    below, are not distinguished by their order among siblings.

    `masses` are the rows at each node, and `history` past rows: whole numbers,
    (n_nodes,).
    """
    alpha, gamma = priors.stop_concentration, priors.child_concentration
    now = tree.count(masses)
    past = tree.count(history) if history.any() else history
    both, own = now + past, masses + history
    stop = betaln(1.0 + own, alpha + (both - own))
    if history.any():
        stop -= betaln(1.0 + history, alpha + (past - history))
    else:
        stop -= betaln(1.0, alpha)
    total = stop.sum()
    old, new = is_old.copy(), ~is_old
    old[0] = new[0] = False
    if old.any():
        child = betaln(1.0 + both, gamma + behind(tree, both))
        child -= betaln(1.0 + past, gamma + behind(tree, past))
        total += child[old].sum()
    if new.any():
        parents = np.bincount(tree.parent[new], now[new], len(tree))
        parents = parents[np.bincount(tree.parent[new], minlength=len(tree)) > 0]
        total += new.sum() * np.log(gamma) + gammaln(now[new]).sum()
        total += len(parents) * gammaln(gamma) - gammaln(gamma + parents).sum()
    return float(total)


def draw_log_weights(
    tree: Tree,
    masses: Array,
    history: Array,
    is_old: Flags,
    priors: TreePriors,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Draw log weights of nodes given the nodes of rows.

    Returns log pi_e, and the log mass at each node of all children that are not in the
    tree, with all below them, (n_nodes,) each.
    """
    alpha, gamma = priors.stop_concentration, priors.child_concentration
    both = tree.count(masses + history)
    own = masses + history
    log_stay, log_leave = _draw_logs(1.0 + own, alpha + (both - own), rng)
    old, new = is_old.copy(), ~is_old
    old[0] = new[0] = False
    take, skip = np.zeros(len(tree)), np.zeros(len(tree))
    take[old], skip[old] = _draw_logs(
        1.0 + both[old], gamma + behind(tree, both)[old], rng
    )
    into = take + before(tree, skip)
    shares = np.zeros(len(tree))
    shares[new] = rng.standard_gamma(both[new])
    others = rng.standard_gamma(gamma, len(tree))
    total = others + np.bincount(tree.parent[new], shares[new], len(tree))
    parent = tree.parent[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        has_new = np.bincount(tree.parent[new], minlength=len(tree)) > 0
        share = np.where(has_new, others / total, 1.0)
        log_share = np.log(np.where(new, shares, 1.0))
        into[1:] += np.where(new[1:], log_share[1:] - np.log(total[parent]), 0.0)
        log_rest = np.log(share)
    into[1:] += log_leave[parent]
    into[0] = 0.0
    log_reach = tree.distribute(into)
    left = np.bincount(parent, skip[1:], len(tree))
    return log_reach + log_stay, log_reach + log_leave + left + log_rest


def break_rest(
    log_rest: Array,
    priors: TreePriors,
    least: float,
    limit: int,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Draw weights of new children until at most `least` is left, in logs.

    Returns log pi of the first children of each node, (n_nodes, limit), -inf for
    missing ones, and the mass of all others, (n_nodes,): more than `least` if `limit`
    children are not enough.
    """
    log_rest = log_rest.copy()
    result = np.full((len(log_rest), limit), -np.inf)
    for child in range(limit):
        more = np.flatnonzero(log_rest > least)
        ones = np.ones(len(more))
        take, skip = _draw_logs(ones, priors.child_concentration * ones, rng)
        stay, _ = _draw_logs(ones, priors.stop_concentration * ones, rng)
        result[more, child] = log_rest[more] + take + stay
        log_rest[more] += skip
    return result, log_rest


def _draw_logs(a: Array, b: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Log v and log(1 - v) of draws v from Beta(a, b), a >= 1."""
    one, other = rng.standard_gamma(a), rng.standard_gamma(b)
    with np.errstate(divide="ignore"):
        log_total = np.log(one + other)
        return np.log(one) - log_total, np.log(other) - log_total
