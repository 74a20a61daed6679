"""Model of the collapsed nested HDP of Paisley, Wang, Blei and Jordan (2015): globals.

Each document has its own tree: at an inner node i of level l a token stops with a share
V_ji ~ Beta(s, g), or goes on to a child by proportions ~ DP(A_l, beta_i); its word
comes from the topic of the node where it stops. Documents share the topics
phi_u ~ Dirichlet(eta) and the base weights beta_i ~ GEM(gamma) of the children of i.
Leaves have no children, so that every token stops there. [1] draws the global tree from
a nested Dirichlet process, of which beta are the shares.

Topics, V and proportions are integrated out, to zero order, by `infer_nested` of the
kernels. Let N_ju be the expected tokens of document j at node u and below, and n_ju
those at u itself; with burstiness, tables of words in place of tokens. As in the
collapsed HDP, with expected counts taken for Poisson,

    P_jc = 1 - exp(-N_jc),
    M_c = sum_j P_jc A beta_c [psi(A beta_c + N_jc / P_jc) - psi(A beta_c)],
    beta_c = M_c / (M_i + gamma),    M_i = sum of M_c over the children of i,

where gamma / (M_i + gamma) is left to children that are not in the tree. With
F_ji = N_ji - n_ji tokens that go on below i, concentrations are posterior means given
the auxiliary variables' expected logarithms, under Gamma(shape, rate) priors,

    A_l = (shape + sum_i M_i) / (rate + sum_ij [psi(A_l + F_ji) - psi(A_l)]),
    gamma = (shape + sum_c [1 - exp(-M_c)])
            / (rate + sum_i [psi(gamma + M_i) - psi(gamma)]).

Nothing here is a bound of the evidence: a fit is followed by the log probability of
each token given all others.

References
----------
.. [1] John Paisley, Chong Wang, David M. Blei and Michael I. Jordan, "Nested
   Hierarchical Dirichlet Processes", IEEE Transactions on Pattern Analysis and Machine
   Intelligence 37(2), 2015.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import psi

from skbnp.components.hyperparameters import GammaPrior
from skbnp.components.statistics import NodeState, WordsT, WordStats
from skbnp.components.topics import HIGHEST, LOWEST, WordTopicModel
from skbnp.components.word_topics import WordTopics
from skbnp.kernels._special import log_gamma
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.trees import Tree
from skbnp.utils.ranges import In, LeastAmount, Number, Sized
from skbnp.utils.typing import Array

#: No weight of a child falls below this.
SMALLEST_WEIGHT = 1e-8
#: Rounds of the fixed point of gamma.
N_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class MixedTree(NodeState):
    """Tree, weights of children and concentrations; arrays go by position."""

    tree: Tree
    # beta of a node among the children of its parent
    weights: Annotated[Array, Sized("n_components", least=0, most=1.0 + 1e-6)]
    # A of the children of nodes of a level
    concentrations: Annotated[Array, Sized("n_inner_levels", least=1e-100)]
    child_concentration: Annotated[float, In(1e-100, 1e10)]  # gamma
    topic_word_prior: Annotated[float, In(1e-100, 1e10)]  # eta
    burstiness: Burstiness | None = None  # None: documents repeat no word
    by_tables: bool = False  # whether topics explain the tables of words, not tokens

    @property
    def totals(self) -> Array:
        """A of the children of each node, 0 at leaves, (n_nodes,)."""
        totals = np.zeros(len(self.tree))
        inner = np.unique(self.tree.parent[1:])
        totals[inner] = self.concentrations[self.tree.depth[inner]]
        return totals

    @property
    def prior(self) -> Array:
        """A beta of each node among the children of its parent, (n_nodes,)."""
        return self.totals[self.tree.parent] * self.weights

    @property
    def rest(self) -> Array:
        """A beta of all children that are not in the tree, (n_nodes,)."""
        known = sums_of_children(self.tree, self.weights)
        return self.totals * np.maximum(1.0 - known, 0.0)


def sums_of_children(tree: Tree, values: Array) -> Array:
    """Sum values over the children of each node, (n_nodes,)."""
    sums = np.bincount(tree.parent[1:], values[1:], len(tree))
    return sums.astype(np.float64)


@dataclass(slots=True)
class NestedStats(WordStats[WordsT]):
    """Additive statistics of some documents, or of a corpus."""

    tables: Annotated[Array, Sized("n_components")]  # M_c
    # sum_j psi(A + F_ji) - psi(A) of inner nodes
    growth: Annotated[Array, Sized("n_components")]
    log_predictive: Number  # of each token given all others, nats
    n_tokens: Number

    columns: ClassVar[tuple[str, ...]] = ("tables", "growth")


@dataclass(frozen=True, slots=True)
class NestedHDPModel(WordTopicModel[MixedTree, NestedStats]):
    """Model of the nested HDP: statistics, updates of weights and concentrations."""

    stop: LeastAmount = 0.3  # s
    go: LeastAmount = 0.3  # g
    learn_concentrations: bool = True
    learn_topic_prior: bool = False
    child_prior: GammaPrior = (1.0, 1.0)
    doc_prior: GammaPrior = (1.0, 1.0)

    has_bound: ClassVar[bool] = False
    criterion: ClassVar[str] = "log_predictive"

    # -- local ------------------------------------------------------------------------

    def statistics(
        self,
        state: MixedTree,
        topic_words: WordsT,
        doc_nodes: sp.csr_array,
        n_tokens: float,
        log_predictive: float,
    ) -> NestedStats[WordsT]:
        """Statistics of documents from their expected counts n, (n_docs, n_nodes)."""
        tree, totals = state.tree, state.totals
        through = sp.csr_array(doc_nodes @ ancestors(tree))
        at = state.prior[through.indices]
        some = -np.expm1(-through.data)
        # psi(x) is about -1/x where x is small: psi(x) = psi(x + 1) - 1 / x.
        rise = _digamma(at + through.data / np.maximum(some, 1e-300))
        tables = some * (1.0 + at * (rise - _digamma(at + 1.0)))
        tables = np.bincount(through.indices, tables, len(tree)).astype(np.float64)
        tables[0] = 0.0
        further = sp.csr_array(through - doc_nodes)
        base = totals[further.indices]
        used = (base > 0.0) & (further.data > 0.0)
        base, node = base[used], further.indices[used]
        growth = _digamma(base + further.data[used]) - _digamma(base)
        growth = np.bincount(node, growth, len(tree)).astype(np.float64)
        return NestedStats(topic_words, tables, growth, log_predictive, n_tokens)

    # -- global -----------------------------------------------------------------------

    def start(self, state: MixedTree, topic_words: WordTopics) -> NestedStats:
        """Totals with the words of the starting topics and without documents."""
        zeros = np.zeros((2, state.n_components))
        return NestedStats(topic_words, zeros[0], zeros[1], 0.0, 0.0)

    def update(
        self, state: MixedTree, stats: NestedStats, scale: float = 1.0
    ) -> MixedTree:
        """Return the state with weights of children and concentrations updated.

        From expected tables; `scale` multiplies the statistics of documents, never a
        prior.
        """
        tree, gamma = state.tree, state.child_concentration
        tables = scale * np.maximum(stats.tables, 0.0)
        of_children = sums_of_children(tree, tables)
        inner = np.unique(tree.parent[1:])
        if tables.sum() <= 0.0:
            return state
        concentrations = state.concentrations
        if self.learn_concentrations:
            shape, rate = self.child_prior
            n_children = -np.expm1(-tables[1:]).sum()
            for _ in range(N_ROUNDS):
                growth = (psi(gamma + of_children[inner]) - psi(gamma)).sum()
                gamma = np.clip((shape + n_children) / (rate + growth), LOWEST, HIGHEST)
            shape, rate = self.doc_prior
            depth, n_levels = tree.depth[inner], len(concentrations)
            n_tables = np.bincount(depth, of_children[inner], n_levels)
            growth = scale * np.bincount(depth, stats.growth[inner], n_levels)
            learned = (shape + n_tables) / (rate + np.maximum(growth, 0.0))
            has_any = np.bincount(depth, minlength=n_levels) > 0
            learned = np.clip(learned, LOWEST, HIGHEST)
            concentrations = np.where(has_any, learned, concentrations)
        weights = np.ones(len(tree))
        weights[1:] = tables[1:] / (of_children + gamma)[tree.parent[1:]]
        return replace(
            state,
            weights=np.maximum(weights, SMALLEST_WEIGHT),
            concentrations=concentrations,
            child_concentration=float(gamma),
        )

    def blend(self, old: MixedTree, new: MixedTree, step: float) -> MixedTree:
        """Step from the old to the new state: concentrations in logarithms."""
        if step == 1.0:
            return new

        def between(one, other):
            return np.exp((1.0 - step) * np.log(one) + step * np.log(other))

        return replace(
            new,
            weights=(1.0 - step) * old.weights + step * new.weights,
            concentrations=between(old.concentrations, new.concentrations),
            child_concentration=float(
                between(old.child_concentration, new.child_concentration)
            ),
        )

    def objective(
        self, state: MixedTree, global_stats: NestedStats
    ) -> dict[str, float]:
        """Log probability of tokens, each given all others, in nats."""
        return {"log_predictive": float(global_stats.log_predictive)}


def ancestors(tree: Tree) -> sp.csr_array:
    """Indicator of the nodes above each node, and of itself, (n_nodes, n_nodes)."""
    paths = tree.paths()
    is_node = paths >= 0
    limits = np.concatenate([[0], np.cumsum(is_node.sum(axis=1))])
    n = len(tree)
    return sp.csr_array((np.ones(limits[-1]), paths[is_node], limits), (n, n))


def _digamma(x: Array) -> Array:
    """Digamma function of an array, as kernels compute it."""
    values = np.empty_like(x)
    log_gamma(np.ascontiguousarray(x), np.empty_like(x), values)
    return values
