"""Sticks of a tree of components: priors of paths and levels, and their evidence.

Symbols are those of Wang and Blei (2009), [1] below: see `models.nested_crp.model`.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from scipy.special import betaln, gammaln, psi

from skbnp.components.word_topics import SeenWords
from skbnp.trees import Tree
from skbnp.utils.ranges import Positive, Sized
from skbnp.utils.typing import Array, Ints32
from skbnp.utils.validation import check_settings, repr_settings


@dataclass(frozen=True, slots=True)
class LevelPriors:
    """Hyperparameters of topics, sticks and levels of a tree."""

    concentration: Positive  # gamma
    # alpha, Dirichlet of a document's levels
    level_prior: Annotated[Array, Sized("n_levels", least=1e-300)]
    # eta, Dirichlet of topics over words
    topic_prior: Annotated[Array, Sized("n_levels", least=1e-300)]
    seen: SeenWords | None = None  # words that topics have columns for; None: all

    @property
    def n_unseen(self) -> int:
        """Number of words without a column, of which topics have no counts."""
        return 0 if self.seen is None else self.seen.n_unseen

    @property
    def n_levels(self) -> int:
        """Depth of the tree, root included."""
        return len(self.level_prior)


def stub_nodes(tree: Tree, n_levels: int) -> Ints32:
    """Positions of the nodes on the path to each stub, (n_nodes, n_levels).

    The stub's own node is included; -1 for the levels below it.
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

    They are E log v + t E log(1 - v), t = 0, 1, ..: the factor of Eq. (13) of [1] that
    each level below the known tree contributes.
    """
    log_stay = psi(1.0) - psi(1.0 + concentration)
    return float(log_stay - np.log(-np.expm1(-1.0 / concentration)))


def _behind(tree: Tree, values: Array) -> Array:
    """Sum of values over the later siblings of each node."""
    sums = np.zeros(len(tree))
    later = np.zeros(len(tree))  # by parent: what has been passed, from the end
    for place in range(len(tree) - 1, 0, -1):
        parent = tree.parent[place]
        sums[place] = later[parent]
        later[parent] += values[place]
    return sums


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


def stick_bound(a: Array, b: Array, concentration: float) -> float:
    """E log p - E log q of the sticks, those of all nodes but the root."""
    log_stay, log_pass = expected_log_sticks(a, b)
    sticks = betaln(a, b) - betaln(1.0, concentration)
    sticks += (1.0 - a) * log_stay + (concentration - b) * log_pass
    return float(sticks[1:].sum())


def log_stub_priors(
    tree: Tree, a: Array, b: Array, concentration: float, n_levels: int
) -> Array:
    """Log of the sum of exp E log p(c) over the paths of each stub, Eq. (13) of [1].

    Each level below a stub is one geometric series.
    """
    to_here, passed_all = _log_breaks(tree, *expected_log_sticks(a, b))
    missing = n_levels - 1 - tree.depth
    below = passed_all + missing * log_geometric_sum(concentration)
    return to_here + np.where(missing > 0, below, 0.0)


def log_mean_stubs(
    tree: Tree, a: Array, b: Array, n_levels: int
) -> tuple[Array, Array]:
    """Logs of the probabilities to pass a node and to take its stub, by mean sticks."""
    log_stay, log_pass = np.log(a) - np.log(a + b), np.log(b) - np.log(a + b)
    passing, left = _log_breaks(tree, log_stay, log_pass)
    return passing, passing + np.where(tree.depth < n_levels - 1, left, 0.0)


def passing_probabilities(
    tree: Tree, stub_masses: Array, concentration: float, n_levels: int
) -> Array:
    """Probability that a path passes each node, by mean sticks."""
    sticks = stick_parameters(tree, stub_masses, concentration)
    return np.exp(log_mean_stubs(tree, *sticks, n_levels)[0])


def _log_breaks(tree: Tree, log_stay: Array, log_pass: Array) -> tuple[Array, Array]:
    """Sums of the logarithms of sticks: to each node, and past all of its children."""
    own, passed_all = np.zeros((2, len(tree)))
    for place in range(1, len(tree)):  # earlier siblings come first
        parent = tree.parent[place]
        own[place] = log_stay[place] + passed_all[parent]
        passed_all[parent] += log_pass[place]
    return tree.distribute(own), passed_all


def log_stick_evidence(tree: Tree, stub_masses: Array, priors: LevelPriors) -> float:
    """What the sticks and stubs add to the bound at their optimum."""
    gamma = priors.concentration
    a, b = stick_parameters(tree, stub_masses, gamma)
    missing = priors.n_levels - 1 - tree.depth
    sticks = betaln(a[1:], b[1:]).sum() - (len(tree) - 1) * betaln(1.0, gamma)
    return float(sticks + stub_masses @ missing * log_geometric_sum(gamma))


def log_path_evidence(
    tree: Tree, masses: Array, variances: Array, priors: LevelPriors
) -> float:
    """Log probability of paths with sticks integrated out, siblings unordered.

    For m_k documents in the children of a node, n in all, the Chinese restaurant
    process has gamma^K Gamma(gamma) prod_k Gamma(m_k) / Gamma(gamma + n). Documents
    that leave the tree there are alone in their branch. Counts m_k are taken for
    binomial ones: with the probability P that m is positive, gamma Gamma(E m / P) to
    the power of P. It is exact if all paths are certain. Variances are those of stubs,
    added up: a document divided between two stubs below a node is counted as if it were
    uncertain about the node, too.
    """
    gamma, through = priors.concentration, tree.accumulate(masses)
    inner = tree.depth < priors.n_levels - 1
    nodes = gammaln(gamma) - gammaln(gamma + through[inner])
    nodes += masses[inner] * np.log(gamma)
    there = np.flatnonzero(through > 1e-12)[1:]
    mean, variance = through[there], tree.accumulate(variances)[there]
    ratio = np.clip(variance / mean, 1e-300, 1.0 - 1e-12)
    some = -np.expm1(mean * np.log(ratio) / (1.0 - ratio))
    some[variance <= 0.0] = 1.0
    some = np.minimum(some, mean)  # fractions of documents are none for certain
    branches = some * (np.log(gamma) + gammaln(mean / some))
    return float(nodes.sum() + branches.sum())


# Settings of the moves of topic trees (nested CRP, component analysis) for users.


CHOICES = {"algorithm": ("default", "paper")}
LEAST = {"max_tries": 1, "max_rounds": 1}


@dataclass(frozen=True, slots=True, repr=False)
class TreeMoves:
    """What an expert may set of the moves of a topic tree.

    `TreeMoves.paper()` are those of Wang and Blei (2009).

    Parameters
    ----------
    algorithm : {"default", "paper"}
        "paper": prune, merge and grow by the printed rules, whatever the bound, and no
        other moves, see `paper`. `reattach` and `split` have no effect then.
    reattach, split : bool
        Whether nodes are tried below other parents, and nodes as two; with `split` also
        branches for some of the documents of a node. Without, a tree does not grow.
    max_tries : int
        Moves of a kind that are tried after a pass, of those that a bound judges.
    max_rounds : int
        Visits of the documents that a move touches before it is judged.
    """

    algorithm: Literal["default", "paper"] = "default"
    reattach: bool = True
    split: bool = True
    max_tries: int = 10
    max_rounds: int = 4

    @classmethod
    def paper(cls) -> "TreeMoves":
        """Return the moves of section 3.2 of Wang and Blei (2009) [1]_, as printed.

        For `NestedCRP` with ``init="sequential"``, ``local_family="factorised"`` and
        ``learning_method="batch"``. After each pass, whatever the bound is,

        - prune: a leaf ends if sum_n q(c_n = leaf) < 1e-6;
        - merge: of any two paths i and j to leaves whose vectors P_i = (q(c_n = i))_n
          have a cosine above 0.95 the second joins the first, level by level;
        - grow: of some documents, one in a hundred, one path each is drawn from
          q(c_n), and one inner path in proportion to g(c) = sum_n q(c_n = c); each that
          ends at an inner node becomes one to a new leaf.

        What is left to choose in the paper, and how it is chosen: the number of
        documents (there "several"), at most a quarter of the nodes; and new nodes have
        the prior as their posterior, by which the bound hardly changes.

        Returns
        -------
        moves : TreeMoves

        References
        ----------
        .. [1] Chong Wang and David M. Blei, "Variational Inference for the Nested
           Chinese Restaurant Process", Advances in Neural Information Processing
           Systems 22, 2009.
        """
        return cls(algorithm="paper", reattach=False, split=False, max_rounds=1)

    def __post_init__(self) -> None:
        check_settings(self, CHOICES, LEAST)

    def __repr__(self) -> str:
        return repr_settings(self, self.paper)
