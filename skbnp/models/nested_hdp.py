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
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import psi

from skbnp.components import topic_groups
from skbnp.components.statistics import NodeState, WordsT, WordStats
from skbnp.components.topic_groups import TopicCounts
from skbnp.components.topics import HIGHEST, LOWEST, WordTopicModel
from skbnp.components.word_topics import WordRows, WordTopics
from skbnp.distributions import GammaPrior, digamma, expected_tables
from skbnp.inference.executor import Executor, commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import Collected, LocalStop, StepInput
from skbnp.kernels._nested import infer_nested
from skbnp.models.hdp import local as collapsed
from skbnp.models.hdp.burstiness import N_DOCS, Burstiness, evenly, learn_burstiness
from skbnp.models.hdp.fold_in import MeanTopics, mix
from skbnp.models.hdp.local import BlockResult, collect_blocks, doc_topic_matrix
from skbnp.rows.batch import Batch, Block, joined
from skbnp.trees import Tree
from skbnp.utils.arrays import rows_of
from skbnp.utils.ranges import In, LeastAmount, Number, Sized
from skbnp.utils.typing import Array, Ints

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
        tables = expected_tables(state.prior[through.indices], through.data)
        tables = np.bincount(through.indices, tables, len(tree)).astype(np.float64)
        tables[0] = 0.0
        further = sp.csr_array(through - doc_nodes)
        base = totals[further.indices]
        used = (base > 0.0) & (further.data > 0.0)
        base, node = base[used], further.indices[used]
        growth = digamma(base + further.data[used]) - digamma(base)
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


# The collapsed local step of the nested HDP: nodes of the documents of a batch.


#: Tokens of a node in use: in learning, and where topics are fixed.
ACTIVE, ACTIVE_FIXED = 0.5, 0.1


@dataclass(frozen=True, slots=True)
class NestedStep:
    """What all documents of a batch read in the local step, and its stopping rule."""

    state: MixedTree
    model: NestedHDPModel
    topics: Array  # (n_words, n_nodes) of the batch
    norm: Array  # (n_nodes,)
    held: Array  # (n_docs,) how often the totals count each document
    whole: bool  # whether all tokens of a word are taken out of the others
    n_features: int  # V
    stop: LocalStop
    restaurant: tuple[Any, ...]  # grid, d and c, if words have tables

    @classmethod
    def prepare(
        cls,
        given: StepInput,
        burstiness: Burstiness | None = None,
        *,
        is_fixed: bool = False,
    ) -> "NestedStep":
        """Prepare the local step of a batch from the globals of a posterior.

        What is remembered is the effective count of each document in the totals, which
        the step subtracts; None for zero. If topics are fixed, one token of a word is
        subtracted from the document's other tokens, and words have tables only of the
        `burstiness` given.
        """
        posterior, batch, stop = given.posterior, given.batch, given.stop
        words, state = posterior.global_stats.topic_words, posterior.state
        topics = MeanTopics.of(words, state.topic_word_prior)
        held = given.visit.remembered
        held = np.zeros(batch.n_docs) if held is None else held
        stop = LocalStop(
            min(stop.max_iter, collapsed.MAX_ITER), max(stop.tol, collapsed.TOL)
        )
        if state.by_tables and not is_fixed:
            burstiness = state.burstiness
        return cls(
            state,
            posterior.model,
            topics[batch.words],
            topics.norm,
            held,
            not is_fixed,
            words.shape[0],
            stop,
            collapsed.restaurant_of(burstiness, batch, words.shape[0])[1:],
        )

    def collect(self, given: StepInput) -> Collected:
        """Run the local step; return statistics and expected counts of nodes."""
        posterior, batch, executor = given.posterior, given.batch, given.executor
        shape = (len(batch.words), self.state.n_components)
        sums, doc_nodes, logs = collect_blocks(self._run, batch, shape, executor)
        stats = posterior.model.statistics(
            posterior.state,
            WordRows(batch.words, sums),
            doc_nodes,
            float(batch.n_tokens.sum()),
            logs,
        )
        return Collected(stats, batch.n_tokens, [], doc_nodes)

    def infer(
        self, batch: Batch, executor: Executor
    ) -> tuple[sp.csr_array, Array, Array]:
        """Infer the nodes of documents and the tables of their words.

        Returns expected tokens of nodes, or tables, (n_docs, n_nodes), and of each
        stored count the expected tables and the probability under the nodes, (nnz,);
        both empty without burstiness.
        """
        result = executor.map_all(self._run, batch.blocks)
        shape = batch.n_docs, self.state.n_components
        doc_nodes = doc_topic_matrix(result, shape)
        return doc_nodes, joined(result, "tables"), joined(result, "base")

    def _run(self, block: Block) -> BlockResult:
        state, model = self.state, self.model
        return BlockResult(
            *infer_nested(
                *block.arrays,
                self.topics,
                self.norm,
                state.topic_word_prior,
                state.tree.parent.astype(np.int32),
                state.prior,
                state.totals,
                state.rest,
                model.stop,
                model.go,
                np.ascontiguousarray(self.held[block.rows]),
                self.whole,
                ACTIVE if self.whole else ACTIVE_FIXED,
                *self.stop,
                float(self.n_features),
                *self.restaurant,
            )
        )


def node_shares(
    state: MixedTree, model: NestedHDPModel, doc_nodes: Array
) -> tuple[Array, Array]:
    """Probability of each node for one more token of documents, and of no node.

    `doc_nodes`, (n_docs, n_nodes), are expected tokens of documents; the second result
    is the probability of children that are not in the tree, (n_docs,).
    """
    tree, totals, prior, rest = state.tree, state.totals, state.prior, state.rest
    through = np.zeros(doc_nodes.shape[::-1])
    through += doc_nodes.T
    through = tree.accumulate(through)
    shares, onward = np.ones_like(through), np.zeros_like(through)
    left = np.zeros(len(doc_nodes))
    for u, above in enumerate(tree.parent.tolist()):
        if u:
            shares[u] = onward[above] * (through[u] + prior[u])
        if totals[u] > 0.0:
            here = doc_nodes[:, u]
            further = np.maximum(through[u] - here, 0.0)
            share = shares[u] / (here + further + model.stop + model.go)
            onward[u] = share * (further + model.go) / (further + totals[u])
            left += onward[u] * rest[u]
            shares[u] = share * (here + model.stop)
    return np.ascontiguousarray(shares.T), left  # sums of a row in one order


# The posterior of a nested HDP, with the documents of a short stream.


@dataclass(slots=True)
class NestedPosterior(Posterior[NestedHDPModel, MixedTree, NestedStats]):
    """Globals of a nested HDP, and documents that its tree may start again from."""

    #: All documents of a stream; None if they are too many, or after a fit.
    documents: (
        Annotated[sp.csr_array, Sized("n_docs", "n_features", least=0)] | None
    ) = None

    def adopt(self, other: "NestedPosterior", n_docs: int, monitor: Monitor) -> None:
        """Replace the tree in place by that of a fit of all `n_docs`: one update.

        The first tree keeps its ids; all nodes of a later one are new.
        """
        state, step = other.state, self.n_steps + 1
        log = [entry._replace(step=min(entry.step, step)) for entry in other.lineage]
        if self.n_seen > 0:
            ids = self.n_named + np.arange(len(state.tree))
            state = replace(state, tree=Tree(ids, state.tree.depth))
            ended = [Lineage(step, "prune", (n,), ()) for n in self.ids.tolist()]
            born = [Lineage(step, "birth", (), (n,)) for n in ids.tolist()]
            log = [*self.lineage, *ended, *born]
        with commit():
            self.replace_globals(state, other.global_stats)
            self.lineage, self.documents = log, other.documents
            self.n_steps, self.n_seen = step, n_docs
            self.step_origin = step + other.step_origin
            self.init_fraction = other.init_fraction
            monitor.record(self)


# Prediction by a nested HDP: documents mix the nodes of a fixed tree.


@dataclass(frozen=True, slots=True)
class NestedPredictor:
    """Predictor of documents that mix the nodes of a fixed tree."""

    posterior: Posterior
    stop: LocalStop
    repeats: bool = False  # whether a document predicts its own words
    learns: bool = False  # whether how much is learned where the model does not know

    def counts(self, X: sp.csr_array, executor: Executor) -> tuple[sp.csr_array, Array]:
        """Infer the expected uses of nodes in documents, and those of words.

        Uses are tables with burstiness, otherwise tokens; (n_docs, n_nodes), (nnz,).
        """
        burstiness = self.posterior.state.burstiness
        doc_nodes, tables, _ = self._infer(X, burstiness, executor)
        return doc_nodes, X.data if burstiness is None else tables

    def infer(self, X: sp.csr_array, executor: Executor) -> tuple[Array, Array]:
        """Infer the shares of nodes, and of children that are not in the tree."""
        return self._shares(self.counts(X, executor)[0])

    def log_likelihood(
        self, X_observed: sp.csr_array, X_held: sp.csr_array, executor: Executor
    ) -> float:
        """Log probability in nats of all held-out tokens, given the observed ones.

        Children that are not in the tree predict each word with equal probability.
        """
        burstiness = self._burstiness(X_observed, executor)
        doc_nodes, tables, _ = self._infer(X_observed, burstiness, executor)
        rows = rows_of(X_held.indptr)
        shares, left = self._shares(doc_nodes)
        state, words = self.posterior.state, self.posterior.global_stats.topic_words
        topics = MeanTopics.of(words, state.topic_word_prior)
        mixed = mix(shares, topics, X_held) + left[rows] / X_held.shape[1]
        if burstiness is not None:
            repeated, fresh = burstiness.repeats(X_observed, tables, X_held)
            mixed = repeated + fresh[rows] * mixed
        with np.errstate(divide="ignore"):
            return float((X_held.data * np.log(np.minimum(mixed, 1.0))).sum())

    def _burstiness(self, X: sp.csr_array, executor: Executor) -> Burstiness | None:
        """Return the burstiness by which documents predict their own words."""
        burstiness = self.posterior.state.burstiness
        if not self.repeats or X.nnz == 0:
            return None
        if burstiness is not None or not self.learns:
            return burstiness
        some = X[evenly(X.shape[0], N_DOCS)]
        return learn_burstiness(some, lambda b: self._infer(some, b, executor)[1:])

    def _shares(self, doc_nodes: sp.csr_array) -> tuple[Array, Array]:
        posterior = self.posterior
        return node_shares(posterior.state, posterior.model, doc_nodes.toarray())

    def _infer(
        self, X: sp.csr_array, burstiness: Burstiness | None, executor: Executor
    ) -> tuple[sp.csr_array, Array, Array]:
        """Infer expected uses of nodes, tables of words and their probabilities."""
        batch = Batch.from_counts(X, self.posterior.state.n_components)
        given = StepInput(self.posterior, batch, self.stop, executor)
        step = NestedStep.prepare(given, burstiness, is_fixed=True)
        return step.infer(batch, executor)


# Pruning of the nested HDP: leaves that no document uses join their parents.


#: Expected tables M_c of a leaf that no document uses.
UNUSED = 0.5


def prune(
    model: NestedHDPModel, state: MixedTree, stats: NestedStats[WordTopics]
) -> tuple[MixedTree, NestedStats[WordTopics], list[tuple[int, int]]]:
    """The tree without leaves that no document uses, and its statistics.

    And pairs of ids: a leaf, and the node that it is merged into. A leaf whose siblings
    have all ended is merged into its parent too, unless that is the root.
    """
    into = merge_targets(state, stats.tables)
    tree, stays = state.tree, into == np.arange(len(into))
    if stays.all():
        return state, stats, []
    pairs = [
        (int(tree.ids[leaf]), int(tree.ids[into[leaf]]))
        for leaf in np.flatnonzero(~stays)[::-1].tolist()
    ]
    for leaf, _ in pairs:  # the deepest first
        tree = tree.remove(leaf)
    column = (np.cumsum(stays) - 1)[into]
    member = sp.csr_array((np.ones(len(into)), (np.arange(len(into)), column)))
    words = stats.topic_words
    stats = replace(
        stats,
        topic_words=WordTopics(words.seen_counts() @ member, words.seen),
        tables=stats.tables[stays],
        growth=stats.growth[stays],
    )
    state = replace(
        state,
        tree=tree,
        weights=state.weights[stays],
        concentrations=state.concentrations[: max(tree.max_depth, 1)],
    )
    return model.update(state, stats), stats, pairs


def merge_targets(state: MixedTree, tables: Array) -> Ints:
    """Position of the node that takes the tokens of each node, (n_nodes,)."""
    parent, n = state.tree.parent, len(state.tree)
    into, n_children = np.arange(n), np.bincount(parent[1:], minlength=n)
    had = n_children.copy()
    for node in range(n - 1, 0, -1):  # children before their parents
        if n_children[node] == 0 and tables[node] < UNUSED:
            into[node] = parent[node]
            n_children[parent[node]] -= 1
    for node in range(n - 1, 0, -1):
        above = parent[node]
        is_alone = above > 0 and n_children[above] == 1 < had[above]
        if into[node] == node and n_children[node] == 0 and is_alone:
            into[node] = above
            n_children[above] = 0
    for node in range(n):  # parents before their children
        into[node] = into[into[node]]
    return into


# Start of the nested HDP: a tree of grouped topics of a flat HDP.
#
# With S_kw expected tokens of word w in topic k of a flat HDP, and N_jk of topic k in
# document j, topics are grouped by the evidence of N (`group_topics`), and in each
# group the heaviest topics are above the others. A group is an inner node without a
# topic of its own; a group of one topic is a leaf instead. Tokens of word w and topic k
# are then divided over the nodes on the path to topic k. With p_u(w) the word
# distribution of all topics at u or below, half of them is divided by p_u(w); of the
# other half a node gets the excess of the lowest p(w) from there down over that of its
# parent, so that words are moved up as far as they are as frequent there.


#: Updates of weights and concentrations from the counts of the start.
N_UPDATES = 5
#: Topics that stand above others: about as many as people read.
N_READABLE = 40


class Start(NamedTuple):
    """Globals and expected counts of nodes at the start of a nested HDP."""

    state: MixedTree
    global_stats: NestedStats[WordTopics]


def outline(
    doc_topic: sp.csr_array, topics: Array, max_depth: int, n_groups: int | None
) -> tuple[list[int], Ints]:
    """Group topics into a tree: return parents of nodes, and the node of each topic.

    The root comes first, parents before their children. Its children are groups by the
    evidence of documents, or `n_groups` of them; if there is one group, its topics are
    below the root. In a group the heaviest topics, about `N_READABLE` of all groups
    together, are above the others, each of which is below the most similar one, see
    `likeness`; `topics` are counts (K, n_words).
    """
    n = doc_topic.shape[1]
    parent, place = [-1], np.zeros(n, dtype=np.intp)
    tokens = np.bincount(doc_topic.indices, doc_topic.data, n)
    likes = likeness(doc_topic, topics) if max_depth > 2 else np.zeros((n, n))

    def put(above: int, members: Ints, n_levels: int) -> None:
        """Put topics below the node `above` of the outline in place, on `n_levels`."""
        share = tokens[members].sum() / max(tokens.sum(), 1e-300)
        number = max(round(N_READABLE * share), 1)
        heads = members
        if n_levels > 1 and number < len(members):
            heads = members[np.argsort(-tokens[members], kind="stable")[:number]]
        others = np.setdiff1d(members, heads)
        nearest = likes[np.ix_(others, heads)].argmax(axis=1) if len(others) else others
        for i, head in enumerate(heads.tolist()):
            place[head] = len(parent)
            parent.append(above)
            if len(below := others[nearest == i]):
                put(int(place[head]), below, n_levels - 1)

    if max_depth == 1:
        return parent, place
    labels = np.zeros(n, dtype=int)
    if max_depth > 2:
        labels = _grouped(doc_topic, n_groups)
    is_used = tokens > 0.0
    if len(np.unique(labels[is_used])) <= 1:  # one group is none
        put(0, np.arange(n), max(max_depth - 2, 1))
        return parent, place
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) > 1:
            parent.append(0)
            put(len(parent) - 1, members, max_depth - 2)
        else:
            put(0, members, 1)
    return parent, place


def likeness(doc_topic: sp.csr_array, topics: Array) -> Array:
    """Similarity of a flat fit's topics in documents and in words, (K, K).

    The correlation of P_jk, and the cosine of square roots of mean topics, both without
    their component along the square root of the word distribution of all topics.
    """
    whole = np.sqrt(topics.sum(axis=0) / max(topics.sum(), 1e-300))
    roots = np.sqrt(topics / np.maximum(topics.sum(axis=1, keepdims=True), 1e-300))
    roots -= np.outer(roots @ whole, whole)
    cosines = topic_groups.normalised(roots @ roots.T)
    return topic_groups.presence_correlations(doc_topic) + cosines


def _grouped(doc_topic: sp.csr_array, n_groups: int | None) -> Ints:
    """Group of each topic of a flat fit by their evidence; one without evidence, (K,).

    Topics without tokens are groups by themselves.
    """
    counts, n = doc_topic.copy(), doc_topic.shape[1]
    counts.eliminate_zeros()
    used = np.flatnonzero(np.bincount(counts.indices, counts.data, n) > 0.0)
    labels = np.full(n, -1)
    number = None if n_groups is None else min(n_groups, len(used))
    if len(used) > 1:
        counts = counts[:, used]
        counts = counts[np.diff(counts.indptr) > 0]
        result = topic_groups.group_topics(TopicCounts.of(counts), number)
        is_grouped = number is not None or result.is_worth_it
        labels[used] = result.labels if is_grouped else 0
    alone = np.flatnonzero(labels < 0)
    labels[alone] = labels.max() + 1 + np.arange(len(alone))
    return labels


def grouped_start(
    model: NestedHDPModel,
    flat: WordTopics,
    doc_topic: sp.csr_array,
    eta: float,
    max_depth: int,
    n_groups: int | None,
    concentration: tuple[float, float],
    max_components: float = np.inf,
) -> Start:
    """Return a start of the nested HDP: a tree of the topics of a flat fit.

    `flat` is S of the flat fit, (n_words, K), and `doc_topic` N of the documents,
    (n_docs, K). The tree has `max_depth` levels, the root included, `n_groups`
    children of the root, if given, and at most `max_components` nodes.
    `concentration` are those of children, gamma, and of documents, A, to start
    from.
    """
    topics = flat.seen_counts().T
    parent, leaf = outline(doc_topic, topics, max_depth, n_groups)
    parent, leaf = fold_leaves(parent, leaf, flat.total, max_components)
    weight = np.bincount(leaf, flat.total, len(parent))
    tree = Tree.from_parents(parent)
    tree = tree.sort_siblings(-tree.accumulate(weight[tree.ids]))
    leaf = tree.positions(leaf)
    words, shares = _split(tree, leaf, topics)
    doc_nodes = sp.csr_array(doc_topic @ shares)
    tree = Tree(np.arange(len(tree)), tree.depth)
    tokens = np.asarray(doc_nodes.sum(axis=0)).ravel()
    through = np.maximum(tree.accumulate(tokens), 1e-8)
    weights = np.ones(len(tree))
    weights[1:] = through[1:] / through[tree.parent[1:]]
    gamma, a = concentration
    n_levels = max(int(tree.depth.max()), 1)
    state = MixedTree(tree, 0.9 * weights, np.full(n_levels, a), gamma, eta)
    of_words = WordTopics(words.T.copy(), flat.seen)
    for _ in range(N_UPDATES):
        stats = model.statistics(state, of_words, doc_nodes, float(tokens.sum()), 0.0)
        state = model.update(state, stats)
    return Start(state, stats)


def fold_leaves(
    parent: list[int], place: Ints, tokens: Array, most: float
) -> tuple[list[int], Ints]:
    """Merge the lightest leaves of a start into parents until `most` nodes are left."""
    above, place = np.array(parent), place.copy()
    held = np.bincount(place, np.maximum(tokens, 0.0), len(parent))
    n_children = np.bincount(above[1:], minlength=len(parent))
    stays = np.ones(len(parent), dtype=bool)
    while stays.sum() > max(most, 1.0):
        leaves = np.flatnonzero(stays & (n_children == 0))
        gone = leaves[held[leaves].argmin()]
        stays[gone] = False
        place[place == gone] = above[gone]
        held[above[gone]] += held[gone]
        n_children[above[gone]] -= 1
    new = np.cumsum(stays) - 1
    kept = np.flatnonzero(stays)
    return [-1, *new[above[kept[1:]]].tolist()], new[place]


def _split(tree: Tree, leaf: Ints, topics: Array) -> tuple[Array, sp.csr_array]:
    """Divide the tokens of topics over their paths: words of nodes, and shares.

    `topics` are counts (K, n_words). Shares are those of each topic's tokens in nodes,
    (K, n_nodes).
    """
    words = np.zeros((len(tree), topics.shape[1]))
    np.add.at(words, leaf, topics)
    pooled = tree.accumulate(words)
    pooled /= np.maximum(pooled.sum(axis=1, keepdims=True), 1e-300)
    split, shares = np.zeros_like(words), sp.lil_array((len(topics), len(tree)))
    above = ancestors(tree)
    for k, node in enumerate(leaf.tolist()):
        path = above.indices[above.indptr[node] : above.indptr[node + 1]]
        among = pooled[path]
        lowest = np.minimum.accumulate(among[::-1], axis=0)[::-1]
        excess = np.diff(lowest, axis=0, prepend=0.0)
        parts = excess / np.maximum(lowest[-1], 1e-300)
        parts += among / np.maximum(among.sum(axis=0), 1e-300)
        parts *= 0.5 * topics[k]
        split[path] += parts
        sums = parts.sum(axis=1)
        shares[k, path] = sums / max(sums.sum(), 1e-300)
    return split, sp.csr_array(shares)
