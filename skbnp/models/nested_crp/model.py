"""Model of the variational nested CRP of Wang and Blei (2009), [1]: globals, bound.

Symbols of [1]: node i of a tree of n_levels levels has a stick v_i ~ Beta(1, gamma),
its share of what its earlier siblings leave, and a topic W_i ~ Dirichlet(eta_l). The
posterior knows a finite part of the tree, of depth below n_levels; elsewhere it is the
prior. Each node of that part is a *stub*: the path to it if it is at the last level,
otherwise all paths that leave the known tree below it. With q(c = k) of a document for
stub k, and phi_ul for the levels l of its words u,

    q(W_i) = Dirichlet(eta + S_i),    S_iu expected counts of words,
    q(v_i) = Beta(a_i, b_i),          from m_k = sum over documents of q(c = k),

so S and m are the whole state, and the tree whose siblings are ordered by mass.

The more topics there are, and the fewer words each has, the more their factorised
posterior costs the bound. Trees of different size are therefore compared by
`collapsed_bound`, where topics and sticks are integrated out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, psi, xlogy

from skbnp.components import tree_sticks
from skbnp.components.statistics import NodeState, NodeStatistics, ended_nodes
from skbnp.components.tree_sticks import LevelPriors
from skbnp.distributions import GammaPrior, log_gamma_density
from skbnp.kernels._word_topics import expected_growth
from skbnp.trees import Tree
from skbnp.utils.ranges import LEAST_MASS, Number, Sized
from skbnp.utils.typing import Array, Ints, Ints32


@dataclass(frozen=True, slots=True)
class TopicTree(NodeState):
    """Tree, word counts and stub masses; arrays go by position in the tree."""

    tree: Tree
    word_counts: Annotated[Array, Sized("n_nodes", "n_seen")]  # S
    stub_masses: Annotated[Array, Sized("n_nodes", least=LEAST_MASS)]  # m


@dataclass(frozen=True, slots=True)
class PathStats(NodeStatistics):
    """Additive sums over documents; nodes go by position in a tree."""

    word_counts: Annotated[Array, Sized("n_nodes", "n_seen")]  # S
    word_variances: Annotated[Array, Sized("n_nodes", "n_seen")]  # R, given all paths
    stub_masses: Annotated[Array, Sized("n_nodes", least=LEAST_MASS)]  # m
    # of the same, sum of q (1 - q)
    stub_variances: Annotated[Array, Sized("n_nodes", least=LEAST_MASS)]
    # O, tokens at topics that are not in the tree
    off_tree_tokens: Annotated[Array, Sized("n_levels")]
    entropy: Number  # U, what is left of the documents' part of the ELBO

    per_node: ClassVar[tuple[str, ...]] = (
        "word_counts",
        "word_variances",
        "stub_masses",
        "stub_variances",
    )

    @classmethod
    def zero(cls, n_nodes: int, n_words: int, n_levels: int) -> "PathStats":
        """Return the statistics of no documents."""
        words, spread = np.zeros((2, n_nodes, n_words))
        masses, wavering = np.zeros((2, n_nodes))
        return cls(words, spread, masses, wavering, np.zeros(n_levels), 0.0)

    @classmethod
    def of_topics(cls, topics: TopicTree, n_levels: int) -> "PathStats":
        """Return the statistics that topics are made from, without documents' terms."""
        n_nodes, n_words = topics.word_counts.shape
        none = cls.zero(n_nodes, n_words, n_levels)
        words, masses = topics.word_counts, topics.stub_masses
        return replace(none, word_counts=words, stub_masses=masses)

    @property
    def n_tokens(self) -> float:
        """Tokens of all documents."""
        return float(self.word_counts.sum() + self.off_tree_tokens.sum())

    def with_words(self, n_words: int) -> "PathStats":
        """Return the statistics with zeros for new words, `n_words` columns."""
        more = ((0, 0), (0, n_words - self.word_counts.shape[1]))
        words, spread = (
            np.pad(values, more) for values in (self.word_counts, self.word_variances)
        )
        return replace(self, word_counts=words, word_variances=spread)

    def globals_on(self, tree: Tree) -> TopicTree:
        """Return the topics of these statistics on a tree."""
        return TopicTree(tree, self.word_counts, self.stub_masses)

    def clipped(self) -> "PathStats":
        """Return the statistics with negative values of differences set to zero."""
        names = (*self.per_node, "off_tree_tokens")
        return replace(self, **{n: np.maximum(getattr(self, n), 0.0) for n in names})

    def reindex_to(
        self, old: Tree, new: Tree, merged_into: Mapping[int, int] | None = None
    ) -> "PathStats":
        """Re-index the statistics to another tree; new nodes have zeros.

        Statistics of ended nodes are added to the nodes of `merged_into`, if these are
        given. Else their documents leave the tree at the last node of their path that
        remains, and their words at that level.
        """
        moved = self.take_nodes(old, new)
        for place, to, is_heir in ended_nodes(old, new, merged_into):
            if is_heir:
                moved.word_counts[to] += self.word_counts[place]
                moved.word_variances[to] += self.word_variances[place]
            else:
                lost = self.word_counts[place].sum()
                moved.off_tree_tokens[old.depth[place]] += lost
            moved.stub_masses[to] += self.stub_masses[place]
            moved.stub_variances[to] += self.stub_variances[place]
        return moved


@dataclass(frozen=True, slots=True)
class PathGlobals:
    """What the local step reads of a tree: of a posterior, or of a sample of one."""

    word_counts: Array | sp.csr_array  # (n_nodes, n_words) without the prior
    depth: Ints  # (n_nodes,)
    stub_nodes: Ints32  # (n_stubs, n_levels) -1: off the tree
    log_prior: Array  # (n_stubs,) log p(c), or E log p(c) - log q(c | stub)
    level_prior: Array  # (n_levels,) alpha
    topic_prior: Array  # (n_levels,) eta
    is_mean: bool  # logarithms of mean topics, not mean logarithms
    n_unseen: int = 0  # further words, which topics hold none of

    @property
    def n_words(self) -> int:
        """Size of the vocabulary."""
        return self.word_counts.shape[1] + self.n_unseen

    def _parameters(self, words: Ints) -> tuple[Array, Array]:
        """Dirichlet parameters of some words, (n_words, n_nodes), and sums over all.

        Words without a column have the prior alone.
        """
        eta = self.topic_prior[self.depth]
        has_column = words < self.word_counts.shape[1]
        counts = self.word_counts[:, words[has_column]]
        counts = counts if isinstance(counts, np.ndarray) else counts.toarray()
        if not has_column.all():
            known, counts = counts, np.zeros((len(eta), len(words)))
            counts[:, has_column] = known
        sums = self.word_counts.sum(axis=1) + self.n_words * eta
        return np.ascontiguousarray(counts.T + eta), np.asarray(sums, dtype=float)

    def topics(self, words: Ints) -> Array:
        """Mean probabilities of some words, (n_words, n_nodes)."""
        counts, sums = self._parameters(words)
        return counts / sums

    def log_topics(self, words: Ints) -> Array:
        """Log topics that the local step reads, (n_words, n_nodes)."""
        counts, sums = self._parameters(words)
        if self.is_mean:
            return np.log(counts) - np.log(sums)
        return psi(counts) - psi(sums)

    @property
    def off_tree(self) -> Array:
        """Log probability of a word off the tree, at each level, (n_levels,)."""
        eta, n_words = self.topic_prior, self.n_words
        if self.is_mean:
            return np.full(len(eta), -np.log(n_words))
        return psi(eta) - psi(n_words * eta)


def path_globals(
    topics: TopicTree, priors: LevelPriors, *, is_mean: bool = False
) -> PathGlobals:
    """Return what the local step reads, by posterior expectations or at the means.

    Expectations are for documents that the posterior has learned from, whose bound
    rises; means of topics and sticks, if `is_mean`, are for new documents.
    """
    tree, gamma, n_levels = topics.tree, priors.concentration, priors.n_levels
    a, b = tree_sticks.stick_parameters(tree, topics.stub_masses, gamma)
    return PathGlobals(
        topics.word_counts,
        tree.depth,
        tree_sticks.stub_nodes(tree, n_levels),
        tree_sticks.log_mean_stubs(tree, a, b, n_levels)[1]
        if is_mean
        else tree_sticks.log_stub_priors(tree, a, b, gamma, n_levels),
        priors.level_prior,
        priors.topic_prior,
        is_mean=is_mean,
        n_unseen=priors.n_unseen,
    )


def update_globals(tree: Tree, stats: PathStats) -> tuple[TopicTree, PathStats]:
    """Return topics and statistics with siblings sorted by decreasing mass.

    For given stub masses no other order has a larger ELBO. The statistics follow.
    """
    through = tree.accumulate(stats.stub_masses)
    new = tree.sort_siblings(-through)
    if not np.array_equal(new.ids, tree.ids):
        stats = stats.reindex_to(tree, new)
    return stats.globals_on(new), stats


def elbo_terms(
    topics: TopicTree, priors: LevelPriors, stats: PathStats
) -> dict[str, float]:
    """Evidence lower bound of the globals and the documents behind `stats`, by terms.

    Both go by the same tree. The terms are E log p(W) - E log q(W), that of the sticks,
    and the remainder, which documents and sums over them give alike.
    """
    tree, gamma, counts = topics.tree, priors.concentration, topics.word_counts
    globals = path_globals(topics, priors)
    log_topics = globals.log_topics(np.arange(counts.shape[1])).T
    eta = priors.topic_prior[tree.depth]
    evidence = log_topic_evidence(counts, eta, priors.n_unseen)
    sticks = tree_sticks.stick_parameters(tree, topics.stub_masses, gamma)
    documents = (
        stats.entropy
        + stats.stub_masses @ globals.log_prior
        + np.vdot(stats.word_counts, log_topics)
        + stats.off_tree_tokens @ globals.off_tree
    )
    return {
        "topics": float(evidence.sum() - np.vdot(counts, log_topics)),
        "sticks": tree_sticks.stick_bound(*sticks, gamma),
        "documents": float(documents),
    }


def log_topic_evidence(word_counts: Array, eta: Array, n_unseen: int = 0) -> Array:
    """Log B(eta + S) - log B(eta) of each row, whose eta is given.

    Counts of further `n_unseen` words are zero.
    """
    n_columns, total = word_counts.shape[1], word_counts.sum(axis=1)
    words = gammaln(eta[:, None] + word_counts).sum(axis=1) - n_columns * gammaln(eta)
    n_words = n_columns + n_unseen
    return words - gammaln(n_words * eta + total) + gammaln(n_words * eta)


def collapsed_bound(tree: Tree, priors: LevelPriors, stats: PathStats) -> float:
    """Bound of a tree with topics and sticks integrated out, to compare trees.

    The evidence of topics at their posterior, log B(eta + S), gives way to
    E log B(eta + n), where n are counts under the posterior of paths and levels: a sum
    of E log Gamma(eta + n) over words and totals. It needs the variance of n, given the
    paths; `expected_growth` has the expansion, that of [2]. That of sticks, which know
    the order of siblings, gives way to `log_path_evidence`.

    References
    ----------
    .. [2] Teh, Kurihara and Welling, "Collapsed Variational Inference for HDP", NIPS
       2007.
    """
    eta, n_words = priors.topic_prior, stats.word_counts.shape[1] + priors.n_unseen
    means, variances = stats.word_counts, stats.word_variances
    words, global_stats = np.empty((2, len(tree)))
    expected_growth(means, variances, eta[tree.depth], words)
    means, variances = (a.sum(axis=1, keepdims=True) for a in (means, variances))
    expected_growth(means, variances, n_words * eta[tree.depth], global_stats)
    paths = tree_sticks.log_path_evidence(
        tree, stats.stub_masses, stats.stub_variances, priors
    )
    off_tree = stats.off_tree_tokens @ (psi(eta) - psi(n_words * eta))
    return float((words - global_stats).sum() + paths + (off_tree + stats.entropy))


@dataclass(frozen=True, slots=True)
class NestedModel:
    """Model of the nested CRP: hyperparameters, updates, learning of priors, bound."""

    priors: LevelPriors
    learn_concentration: bool = False
    learn_topic_prior: bool = False
    concentration: GammaPrior = (1.0, 1.0)
    topic: GammaPrior = (1.0, 1.0)  # of each level

    #: Whether `objective` is a bound of the evidence, and its name.
    has_bound: ClassVar[bool] = True
    criterion: ClassVar[str] = "elbo"
    parts_name: ClassVar[str] = "topics"
    unit: ClassVar[str] = "token"

    @property
    def n_levels(self) -> int:
        """Depth of the tree, root included."""
        return self.priors.n_levels

    def stochastic_update(
        self,
        topics: TopicTree,
        global_stats: PathStats,
        stats: PathStats,
        step: float,
        scale: float,
    ) -> tuple[TopicTree, PathStats]:
        """Step from totals towards scaled statistics; the topics follow."""
        blended = global_stats.blended(stats, 1.0 - step, step * scale)
        return update_globals(topics.tree, blended)

    def incremental_update(
        self, topics: TopicTree, global_stats: PathStats, old: PathStats, new: PathStats
    ) -> tuple[TopicTree, PathStats]:
        """Subtract old statistics from totals, and add new ones; the topics follow."""
        return update_globals(
            topics.tree, global_stats.plus(old, -1.0).clipped().plus(new)
        )

    def learn_priors(
        self, topics: TopicTree, global_stats: PathStats
    ) -> tuple["NestedModel", TopicTree]:
        """Return the model whose hyperparameters have the highest bound."""
        tree, priors = topics.tree, self.priors
        if self.learn_concentration and priors.n_levels > 1:

            def sticks(gamma: float) -> float:
                new = replace(priors, concentration=gamma)
                return tree_sticks.log_stick_evidence(
                    tree, global_stats.stub_masses, new
                ) + log_gamma_density(gamma, self.concentration)

            gamma = _climb(sticks, priors.concentration)
            priors = replace(priors, concentration=gamma)
        if self.learn_topic_prior:
            eta, n_unseen = priors.topic_prior.copy(), priors.n_unseen
            for level in range(priors.n_levels):
                counts = global_stats.word_counts[tree.depth == level]
                lost = global_stats.off_tree_tokens[level]

                def height(
                    eta: float, counts: Array = counts, lost: float = lost
                ) -> float:
                    """Bound and log prior as a function of one topic prior."""
                    off_tree = psi(eta) - psi((counts.shape[1] + n_unseen) * eta)
                    etas = np.full(len(counts), eta)
                    result = log_topic_evidence(counts, etas, n_unseen).sum()
                    density = log_gamma_density(eta, self.topic)
                    return float(result + lost * off_tree + density)

                eta[level] = _climb(height, float(eta[level]))
            priors = replace(priors, topic_prior=eta)
        return replace(self, priors=priors), topics

    def bound(self, topics: TopicTree, stats: PathStats) -> float:
        """Collapsed bound with log priors of what is learned, to compare trees."""
        bound = collapsed_bound(topics.tree, self.priors, stats)
        return bound + sum(self._log_priors().values())

    def objective(self, topics: TopicTree, stats: PathStats) -> dict[str, float]:
        """Terms of the bound by name."""
        return {**elbo_terms(topics, self.priors, stats), **self._log_priors()}

    def _log_priors(self) -> dict[str, float]:
        """Log prior densities of the hyperparameters that are learned, by name."""
        terms, priors = {}, self.priors
        if self.learn_concentration:
            terms["child_concentration"] = log_gamma_density(
                priors.concentration, self.concentration
            )
        if self.learn_topic_prior:
            terms["topic_word_prior"] = sum(
                log_gamma_density(eta, self.topic)
                for eta in priors.topic_prior.tolist()
            )
        return terms


def _climb(function: Callable[[float], float], start: float) -> float:
    """Argument of the maximum within a factor of e of a start, or the start."""
    result = minimize_scalar(
        lambda log: -function(float(np.exp(log))),
        bounds=(np.log(start) - 1.0, np.log(start) + 1.0),
        method="bounded",
        options={"xatol": 1e-3},
    )
    best = float(np.exp(result.x))
    return best if function(best) > function(start) else start


# Gain of a document of the nested CRP by a branch of its own.


#: Iterations that fit new topics to a document.
N_ITERATIONS = 10


@dataclass(frozen=True, slots=True)
class BranchScores:
    """Scores and topics of branches below inner stubs, fitted to one document."""

    stubs: Ints  # (n_inner,)
    scores: Array  # (n_inner,) bound of the document, less what the topics cost
    tokens: Array  # (n_inner, n_words, n_levels) x phi


def score_branches(
    paths: PathGlobals, log_topics: Array, counts: Array
) -> BranchScores:
    """Score a branch below each inner stub for a document.

    For each, the topics of the missing levels are those of the document alone,
    Dirichlet(eta + x phi), and

        score_k = log_prior_k + B_k - sum_l KL(q(W_l) || p(W_l)),

    the bound of the document if the branch were opened, less what it costs.

    `log_topics` are E log W of the words of the document, (n_unique, n_nodes), and
    `counts` x.
    """
    nodes, alpha, eta = paths.stub_nodes, paths.level_prior, paths.topic_prior
    n_words = paths.n_words
    stubs = np.flatnonzero(nodes[:, -1] < 0)
    is_new = (nodes[stubs] < 0)[:, None, :]  # (n_inner, 1, n_levels)
    known = np.concatenate([log_topics, np.zeros((len(counts), 1))], axis=1)
    known = known[:, nodes[stubs]].transpose(1, 0, 2)  # (n_inner, n_unique, n_levels)
    x = counts[None, :, None]
    share = np.broadcast_to(alpha / alpha.sum(), known.shape)
    for _ in range(N_ITERATIONS):
        tokens = x * share
        global_stats = tokens.sum(axis=1, keepdims=True)
        own = psi(eta + tokens) - psi(n_words * eta + global_stats)
        logs = np.where(is_new, own, known) + psi(alpha + global_stats)
        share = np.exp(logs - logs.max(axis=2, keepdims=True))
        share /= share.sum(axis=2, keepdims=True)
    tokens = x * share
    global_stats = tokens.sum(axis=1)
    seed_entropy = -xlogy(tokens, share).sum(axis=(1, 2))
    evidence = (gammaln(eta + tokens) - gammaln(eta)).sum(axis=1)
    evidence += gammaln(n_words * eta) - gammaln(n_words * eta + global_stats)
    words = np.where(is_new[:, 0], evidence, (tokens * known).sum(axis=1)).sum(axis=1)
    levels = gammaln(alpha + global_stats).sum(axis=1) - gammaln(alpha).sum()
    levels += gammaln(alpha.sum()) - gammaln(alpha.sum() + counts.sum())
    scores = paths.log_prior[stubs] + words + seed_entropy + levels
    return BranchScores(stubs, scores, tokens)
