"""The variational nested CRP of topics of Wang and Blei (2009), [1]: what is global.

Symbols of [1]: node i of a tree of n_levels levels has a stick v_i ~ Beta(1, gamma),
its share of what its earlier siblings leave, and a topic W_i ~ Dirichlet(eta_l). The
posterior knows a finite part of the tree, of depth below n_levels; elsewhere it is the
prior. Each node of that part is a *stub*: the path to it if it is at the last level,
otherwise all paths that leave the known tree below it. With q(c = k) of a document for
stub k, and phi_ul for the levels l of its words u,

    q(W_i) = Dirichlet(eta + S_i),    S_iu expected counts of words,
    q(v_i) = Beta(a_i, b_i),          from m_k = sum over documents of q(c = k),

so S and m are the whole state, and the tree whose siblings are ordered by mass.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln, psi

from skbnp.models.ncrp_collapsed import LevelPriors
from skbnp.trees import Tree

__all__ = [
    "PathStats",
    "TopicTree",
    "elbo_terms",
    "expected_log_sticks",
    "expected_log_topics",
    "log_geometric_sum",
    "log_stub_priors",
    "stick_parameters",
    "stub_nodes",
    "update",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TopicTree:
    """The globals; arrays go by position in the tree."""

    tree: Tree
    word_counts: Array  # (n_nodes, n_words) S
    stub_masses: Array  # (n_nodes,) m


@dataclass(frozen=True, slots=True)
class PathStats:
    """Sums over documents, additive."""

    word_counts: Array  # (n_nodes, n_words) S
    stub_masses: Array  # (n_nodes,) m
    off_tree_tokens: Array  # (n_levels,) O, tokens at topics that are not in the tree
    entropy: float  # U, what is left of the documents' part of the ELBO


def stub_nodes(tree: Tree, n_levels: int) -> NDArray[np.int32]:
    """List the nodes above each stub, itself included: (n_nodes, n_levels).

    Positions in the tree, -1 for the levels below the stub.
    """
    if tree.max_depth >= n_levels:
        raise ValueError(
            f"n_levels must be > {tree.max_depth}, the depth of the tree, "
            f"got {n_levels}."
        )
    nodes = np.full((len(tree), n_levels), -1, dtype=np.int32)
    nodes[:, : tree.max_depth + 1] = tree.paths()
    return nodes


def log_geometric_sum(concentration: float) -> float:
    """Log of the sum of exp E log p(child) over the children of a node of the prior.

    They are E log v + t E log(1 - v), t = 0, 1, ..; the sum at the end of Eq. (13)
    of [1].
    """
    log_stay = psi(1.0) - psi(1.0 + concentration)
    return float(log_stay - np.log(-np.expm1(-1.0 / concentration)))


def _behind(tree: Tree, values: Array) -> Array:
    """Sum of values over the later siblings of each node."""
    totals = np.zeros(len(tree))
    later = np.zeros(len(tree))  # by parent: what has been passed, from the end
    for place in range(len(tree) - 1, 0, -1):
        parent = tree.parent[place]
        totals[place] = later[parent]
        later[parent] += values[place]
    return totals


def stick_parameters(
    tree: Tree, stub_masses: Array, concentration: float
) -> tuple[Array, Array]:
    """Posteriors of the sticks, Eq. (11) of [1] with the infinite sum done.

    Documents that leave the tree below the parent pass by all children that it has. The
    root has no stick; its entries are the prior's.
    """
    through = tree.accumulate(stub_masses)
    a = 1.0 + through
    b = concentration + _behind(tree, through) + stub_masses[tree.parent]
    a[0], b[0] = 1.0, concentration
    return a, b


def expected_log_sticks(a: Array, b: Array) -> tuple[Array, Array]:
    """E log v and E log(1 - v)."""
    both = psi(a + b)
    return psi(a) - both, psi(b) - both


def log_stub_priors(
    tree: Tree, a: Array, b: Array, concentration: float, n_levels: int
) -> Array:
    """Log of the sum of exp E log p(c) over the paths of each stub, Eq. (13) of [1].

    Each level below a stub is one geometric series.
    """
    log_stay, log_pass = expected_log_sticks(a, b)
    own = np.zeros(len(tree))
    passed_all = np.zeros(len(tree))
    for place in range(1, len(tree)):  # earlier siblings come first
        parent = tree.parent[place]
        own[place] = log_stay[place] + passed_all[parent]
        passed_all[parent] += log_pass[place]
    missing = n_levels - 1 - tree.depth
    below = passed_all + missing * log_geometric_sum(concentration)
    return tree.distribute(own) + np.where(missing > 0, below, 0.0)


def expected_log_topics(topics: TopicTree, priors: LevelPriors) -> tuple[Array, Array]:
    """E log W, word by word (n_words, n_nodes), and that of topics not in the tree."""
    eta, n_words = priors.topic_prior, topics.word_counts.shape[1]
    own = eta[topics.tree.depth]
    total = psi(n_words * own + topics.word_counts.sum(axis=1))
    log_topics = psi(topics.word_counts.T + own) - total
    return np.ascontiguousarray(log_topics), psi(eta) - psi(n_words * eta)


def update(topics: TopicTree, stats: PathStats) -> TopicTree:
    """Take over statistics, and sort siblings by decreasing mass.

    For given stub masses no other order has a larger ELBO.
    """
    through = topics.tree.accumulate(stats.stub_masses)
    tree = topics.tree.sort_siblings(-through)
    order = topics.tree.positions(tree.ids)
    return TopicTree(tree, stats.word_counts[order], stats.stub_masses[order])


def elbo_terms(
    topics: TopicTree, priors: LevelPriors, stats: PathStats
) -> dict[str, float]:
    """Evidence lower bound of the globals and the documents behind `stats`.

    Both go by the same tree. The terms are E log p(W) - E log q(W), the same of the
    sticks, and what is left, by document or from sums over them alike.
    """
    tree, gamma = topics.tree, priors.concentration
    n_words = topics.word_counts.shape[1]
    log_topics, off_tree = expected_log_topics(topics, priors)
    eta, held = priors.topic_prior[tree.depth], topics.word_counts
    log_norm = gammaln(eta[:, None] + held).sum(axis=1)
    log_norm -= gammaln(n_words * eta + held.sum(axis=1))
    log_norm -= n_words * gammaln(eta) - gammaln(n_words * eta)
    a, b = stick_parameters(tree, topics.stub_masses, gamma)
    log_stay, log_pass = expected_log_sticks(a, b)
    sticks = betaln(a, b) - betaln(1.0, gamma)
    sticks += (1.0 - a) * log_stay + (gamma - b) * log_pass
    log_prior = log_stub_priors(tree, a, b, gamma, priors.n_levels)
    documents = (
        stats.entropy
        + stats.stub_masses @ log_prior
        + np.vdot(stats.word_counts, log_topics.T)
        + stats.off_tree_tokens @ off_tree
    )
    return {
        "topics": float(log_norm.sum() - np.vdot(held, log_topics.T)),
        "sticks": float(sticks[1:].sum()),
        "documents": float(documents),
    }
