"""Sticks of dependent trees, whose rows may stop at any node, with past epochs.

Symbols of Hu et al. (2015), [1], and of Adams, Ghahramani and Jordan (2010): a row at
node e stays there with probability nu_e, else it goes to a child, the i-th with
probability phi_i = psi_i prod_{j < i} (1 - psi_j). Of an epoch, with X_e rows at node e
and Y_e below it, hX_e and hY_e the same summed over the epochs of the window,

    nu_e  ~ Beta(1 + hX_e, alpha + hY_e),
    psi_i ~ Beta(1 + hX_i + hY_i, gamma + sum_{j > i} (hX_j + hY_j)),

and their posteriors have X and Y beside hX and hY. The main text of [1] leaves the rows
below later siblings out of its Eq. (4); its supplement has them.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from skbnp.components.tree_sticks import expected_log_sticks
from skbnp.kernels import _sticks as kernels
from skbnp.trees import Tree
from skbnp.utils.ranges import Amount, Positive
from skbnp.utils.typing import Array


@dataclass(frozen=True, slots=True)
class TreePriors:
    """Concentrations of sticks, and weights of the priors of directions."""

    child_concentration: Positive = 0.5  # gamma
    stop_concentration: Positive = 0.5  # alpha
    parent_weight: Amount = 1.0  # k1
    past_weight: Amount = 1.0  # k2


@dataclass(frozen=True, slots=True)
class Sticks:
    """Beta parameters by position in the tree; the root has no child stick."""

    stop: tuple[Array, Array]  # delta of [1]: of nu
    child: tuple[Array, Array]  # sigma of [1]: of psi

    @classmethod
    def given(cls, tree: Tree, masses: Array, priors: TreePriors) -> "Sticks":
        """Posterior parameters given the number of rows at each node."""
        result = np.empty((4, len(tree)))
        stop, child = priors.stop_concentration, priors.child_concentration
        kernels.beta_parameters(tree.parent, masses, stop, child, result)
        return cls((result[0], result[1]), (result[2], result[3]))

    def log_weights(self, tree: Tree) -> Array:
        """E log pi_e of each node."""
        given, result = np.stack([*self.stop, *self.child]), np.empty(len(tree))
        kernels.expected_log_weights(
            tree.parent, given, np.empty((6, len(tree))), result
        )
        return result

    def mean_weights(self, tree: Tree) -> Array:
        """E pi_e of each node; the remaining mass is that of nodes not in the tree."""
        (a, b), (c, d) = self.stop, self.child
        into = np.log(c / (c + d)) + before(tree, np.log(d / (c + d)))
        into[1:] += np.log(b / (a + b))[tree.parent[1:]]
        into[0] = 0.0
        return np.exp(tree.distribute(into)) * (a / (a + b))

    def mean_weights_below(self, tree: Tree, priors: TreePriors) -> Array:
        """E pi of a new child of each node, after all present ones."""
        (a, b), (c, d) = self.stop, self.child
        rest = np.log(d / (c + d))[1:]
        left = np.bincount(tree.parent[1:], rest, minlength=len(tree))
        into = self.mean_weights(tree) * (b / a) * np.exp(left)
        child = 1.0 + priors.child_concentration
        return into / (child * (1.0 + priors.stop_concentration))

    def divergence(self, prior: "Sticks") -> float:
        """KL(q || p) of all sticks, in nats."""
        stop = beta_divergence(self.stop, prior.stop)
        child = beta_divergence(self.child, prior.child)
        return float(stop.sum() + child[1:].sum())


def beta_divergence(q: tuple[Array, Array], p: tuple[Array, Array]) -> Array:
    """KL(q || p) of Beta distributions, element by element."""
    log_share, log_rest = expected_log_sticks(*q)
    moved = (q[0] - p[0]) * log_share + (q[1] - p[1]) * log_rest
    return betaln(*p) - betaln(*q) + moved


def behind(tree: Tree, values: Array) -> Array:
    """Sum values over the later siblings of each node."""
    order, groups = tree.siblings
    sums, later = np.cumsum(values[order]), np.zeros(len(tree))
    if len(order):
        ends = np.append(groups[1:], len(order))
        later[order] = np.repeat(sums[ends - 1], ends - groups) - sums
    return later


def before(tree: Tree, values: Array) -> Array:
    """Sum values over the earlier siblings of each node."""
    order, groups = tree.siblings
    own, earlier = values[order], np.zeros(len(tree))
    before = np.cumsum(own) - own
    first = np.repeat(before[groups], np.diff(groups, append=len(order)))
    earlier[order] = before - first
    return earlier
