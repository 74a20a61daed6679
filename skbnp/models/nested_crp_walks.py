"""State of a Gibbs sampler of the nested CRP: paths of documents and levels of tokens.

Each document has a path from the root to a leaf of a tree of fixed depth, and each of
its tokens a level of that path. Topics, sticks and level proportions are integrated
out, so that paths, levels and hyperparameters are the whole state.
"""

from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from skbnp import distributions as draws
from skbnp.components.tree_sticks import LevelPriors, stub_nodes
from skbnp.distributions import GammaPrior, log_gamma_density, log_rising
from skbnp.inference.chains import ChainStart, ChainState, GibbsChain, pieces_of, rename
from skbnp.inference.executor import RunTasks, run_in_turn
from skbnp.inference.monitor import SILENT, Reporter
from skbnp.inference.posterior import Lineage
from skbnp.kernels import _nested_crp as kernels
from skbnp.kernels._nested_crp import LEVELS, PATHS, SCORES, TOGETHER
from skbnp.models.nested_crp.model import PathGlobals
from skbnp.rows.batch import Tokens
from skbnp.trees import Tree
from skbnp.utils.arrays import members
from skbnp.utils.matching import kmeans, ward_cuts
from skbnp.utils.random import Purpose, stream
from skbnp.utils.ranges import Log, Sized, Steps, TokenCounts
from skbnp.utils.typing import Array, Ints, Ints32

#: Columns of a level in reserve, beyond a quarter of those in use.
SPARE_NODES = 8
#: Counts whose logarithms are looked up.
COMMON_COUNTS = 1024
#: Dirichlet parameter of the shares of levels in the sum of level priors. Without it, a
#: level that texts have no use for would have no tokens, and branches would be free.
LEVEL_SHARES = 10.0
#: No density but that of the measure, d alpha.
FLAT = (1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Paths:
    """Nodes on the path of each document, and the level of each token."""

    node: Ints32  # (n_docs, n_levels) number within the level; -1: none yet
    level: NDArray[np.uint8]  # (n_tokens,)

    @classmethod
    def at_random(
        cls,
        tokens: Tokens,
        priors: LevelPriors,
        rng: np.random.Generator,
        node: Ints32 | None = None,
    ) -> "Paths":
        """Return tokens at random levels; `node` are paths, by default none yet."""
        if node is None:
            node = np.full((len(tokens.begin) - 1, priors.n_levels), -1, dtype=np.int32)
        share = priors.level_prior / priors.level_prior.sum()
        level = rng.choice(priors.n_levels, size=len(tokens), p=share)
        return cls(node, level.astype(np.uint8))


@dataclass(frozen=True, slots=True)
class Nodes:
    """Counts of nodes by documents before, level by level."""

    depth: Ints  # (n_nodes,) rising
    parent: Ints  # (n_nodes,) place of each node's parent, -1 at the root
    docs: Ints32  # (n_nodes,) documents through them
    counts: sp.csr_array  # (n_nodes, n_words)

    @property
    def number(self) -> Ints:
        """Number of each node within its level."""
        first = np.searchsorted(self.depth, self.depth)
        return np.arange(len(self.depth)) - first


@dataclass(frozen=True, slots=True)
class Numbers:
    """Multiset of positive integers: values that occur, and their frequencies."""

    value: Ints
    times: Ints

    @classmethod
    def of(cls, counts: NDArray) -> "Numbers":
        """Return the values of an array and their frequencies, without zeros."""
        value, times = np.unique(counts[counts > 0], return_counts=True)
        return cls(value, times)

    def log_rising(self, x: float) -> float:
        """Sum of the logarithms of x (x + 1) ... (x + n - 1)."""
        return float(log_rising(x, self.value) @ self.times)


class Walks:
    """Paths of documents and levels of tokens, with all counts of these.

    The kernel changes the arrays; `tidy` closes gaps, so that they depend on `Paths`
    alone.

    Without `paths`, no document has one yet, and `rng` draws the levels of tokens.
    `before` are nodes of documents that are gone, the first ones of each level.
    """

    def __init__(
        self,
        tokens: Tokens,
        priors: LevelPriors,
        paths: Paths | None = None,
        before: Nodes | None = None,
        rng: np.random.Generator | None = None,
    ):
        """Allocate the arrays that kernels read and write, and restore the paths."""
        self.tokens, self.priors, self.before = tokens, priors, before
        if before is not None:
            n_tokens = before.counts.sum(dtype=np.int64)
            tokens.check_after(max(n_tokens, before.docs.max(initial=0)))
        rng = rng or np.random.default_rng(0)
        self.restore(paths or Paths.at_random(tokens, priors, rng))

    # -- going back and forth ---------------------------------------------------------

    def paths(self) -> Paths:
        """Return a copy of paths and levels."""
        seated = self.path[:, :1] >= 0
        shift = np.where(seated, self.first[:-1], 0).astype(np.int32)
        return Paths(self.path - shift, self.level.copy())

    def restore(self, paths: Paths) -> None:
        """Set given paths in place, nodes numbered without gaps, and count."""
        n_levels, before = self.priors.n_levels, self.before
        self.level = paths.level.copy()
        self.n_nodes = (paths.node.max(axis=0, initial=-1) + 1).astype(np.int32)
        if before is not None:
            least = np.bincount(before.depth, minlength=n_levels)
            self.n_nodes = np.maximum(self.n_nodes, least).astype(np.int32)
        self.n_nodes[0] = 1
        self.n_known = self.n_nodes.copy()
        self.first = _limits(self.n_nodes + self.n_nodes // 4 + SPARE_NODES)
        seated = paths.node[:, :1] >= 0
        shift = np.where(seated, self.first[:-1], 0)
        self.path = (paths.node + shift).astype(np.int32)
        n_columns = int(self.first[-1])
        self.docs, self.node_tokens, self.is_new = np.zeros(
            (3, n_columns), dtype=np.int32
        )
        self.parent = np.full(n_columns, -1, dtype=np.int32)
        self.counts = np.zeros((self.tokens.n_words, n_columns), dtype=np.int32)
        if before is not None:
            columns = self.first[before.depth] + before.number
            self.docs[columns] = before.docs
            self.parent[columns[1:]] = columns[before.parent[1:]]
            held = before.counts.tocoo()
            self.counts[held.col, columns[held.row]] = held.data
        walked = self.path[seated[:, 0]]
        self.docs += np.bincount(walked.ravel(), minlength=n_columns).astype(np.int32)
        for level in range(1, n_levels):
            self.parent[walked[:, level]] = walked[:, level - 1]
        doc = self.tokens.doc
        node = self.path[doc, self.level]
        counted = node >= 0
        np.add.at(self.counts, (self.tokens.words[counted], node[counted]), 1)
        self.node_tokens += self.counts.sum(axis=0, dtype=np.int32)
        self.set_priors(self.priors)

    def set_priors(self, priors: LevelPriors) -> None:
        """Set the hyperparameters in place."""
        self.priors = priors
        counts = np.arange(COMMON_COUNTS)
        logs = np.log(counts + self.priors.topic_prior[:, None])
        self.log_counts = logs.astype(np.float32)

    def tidy(self) -> Ints:
        """Renumber nodes in place, so that numbers of a level have no gaps.

        Returns the number of each node at the last `tidy`, level by level, and -1 for
        new ones. The root is always there.
        """
        column, known = self.columns, _limits(self.n_known)
        level = np.searchsorted(self.first, column, side="right") - 1
        number = column - self.first[level]
        is_new = (self.is_new[column] > 0) | (number >= self.n_known[level])
        is_new[0] = False
        former = np.where(is_new, -1, known[level] + number)
        n_nodes = np.bincount(level, minlength=self.priors.n_levels).astype(np.int32)
        start = np.searchsorted(level, level)
        into = number.copy()
        moves = number >= n_nodes[level]
        for at in range(self.priors.n_levels):
            here = level == at
            gaps = np.setdiff1d(np.arange(n_nodes[at]), number[here])
            into[here & moves] = gaps
        if moves.any():
            self._move(column[moves], (self.first[level] + into)[moves])
        self.n_nodes, self.n_known = n_nodes, n_nodes.copy()
        self.is_new[:] = 0
        placed = np.empty_like(former)
        placed[start + into] = former
        return placed

    def _move(self, columns: Ints, targets: Ints) -> None:
        """Move the counts of nodes to other columns, which are free."""
        onto = np.arange(len(self.docs) + 1)
        onto[-1] = -1
        onto[columns] = targets
        self.path = onto[self.path].astype(np.int32)
        for array in (self.docs, self.node_tokens, self.parent):
            array[targets] = array[columns]
        self.docs[columns] = self.node_tokens[columns] = 0
        self.parent[columns] = -1
        self.parent = onto[self.parent].astype(np.int32)
        self.counts[:, targets] = self.counts[:, columns]
        self.counts[:, columns] = 0

    @property
    def columns(self) -> Ints:
        """Columns of the nodes, level by level; the root is always there."""
        used = self.docs > 0
        used[0] = True
        return np.flatnonzero(used)

    def leave_one_out(self, rng: np.random.Generator, n_tries: int) -> Array:
        """Log p(words and path of each document | all others), (n_docs,).

        Levels are integrated out by the mean of `n_tries` draws.
        """
        scores = np.zeros(self.n_docs)
        self.sweep(0, self.n_docs, rng, SCORES, scores, n_tries)
        return scores

    def sweep(
        self,
        begin: int,
        stop: int,
        rng: np.random.Generator,
        kind: int = PATHS,
        *more: Any,
    ) -> None:
        """Draw paths of documents given levels, in place, then levels.

        Kinds of the kernel: `PATHS` given levels, which rarely leave the path that the
        levels fit; `TOGETHER` with levels; `LEVELS` alone, where paths stay. The arrays
        are enlarged when they are full.
        """
        while begin < stop:
            begin = kernels.sweep(
                self.tokens.begin,
                self.tokens.words,
                self.level,
                self.path,
                self.first,
                self.n_nodes,
                self.counts,
                self.node_tokens,
                self.docs,
                self.parent,
                self.is_new,
                self.priors.concentration,
                self.priors.level_prior,
                self.priors.topic_prior,
                self.priors.n_unseen,
                self.log_counts,
                begin,
                stop,
                kind,
                rng.bit_generator,
                *more,
            )
            if begin < stop:
                self._make_room()

    def _make_room(self) -> None:
        """Rebuild the arrays with more columns; documents without path keep none."""
        first, is_new, n_known = self.first, self.is_new, self.n_known
        self.restore(self.paths())
        self.n_known = n_known
        for level in range(self.priors.n_levels):
            known = is_new[first[level] : first[level + 1]]
            at = self.first[level]
            n = min(len(known), int(self.first[level + 1] - at))
            self.is_new[at : at + n] = known[:n]

    # -- what it says -----------------------------------------------------------------

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return len(self.tokens.begin) - 1

    @property
    def n_words(self) -> int:
        """Size of the vocabulary."""
        return self.tokens.n_words + self.priors.n_unseen

    def tree(self) -> tuple[Tree, Ints]:
        """Return the tree, siblings with most documents first, and its columns."""
        used = self.columns
        position = np.full(len(self.docs), -1)
        position[used] = np.arange(len(used))
        parent = np.where(
            self.parent[used] < 0, -1, position[np.maximum(self.parent[used], 0)]
        )
        tree = Tree.from_parents(parent)
        tree = tree.sort_siblings(-self.docs[used][tree.ids])
        return tree, used[tree.ids]

    def log_joint(self) -> float:
        """Log p(paths, levels, words) of present documents, others given, nats."""
        joint = self._log_prior_of_levels() + self._log_joint_of_nodes()
        return joint if self.before is None else joint - self._log_joint_before()

    def _log_joint_of_nodes(self) -> float:
        """Log p(paths) + log p(words | paths, levels), with those before, nats."""
        used = self.docs > 0
        inner = used & (np.arange(len(used)) < self.first[-2])
        return _log_prior_of_paths(
            self.docs[used & (self.parent >= 0)],
            self.docs[inner],
            self.priors.concentration,
        ) + sum(
            _log_evidence(eta, self.n_words, *self.word_counts(level))
            for level, eta in enumerate(self.priors.topic_prior.tolist())
        )

    def _log_joint_before(self) -> float:
        """Log joint of the nodes and words from before, in nats."""
        assert self.before is not None
        docs, depth, held = self.before.docs, self.before.depth, self.before.counts
        inner = (docs > 0) & (depth < self.priors.n_levels - 1)
        joint = _log_prior_of_paths(docs[1:], docs[inner], self.priors.concentration)
        for level, eta in enumerate(self.priors.topic_prior.tolist()):
            part = held[depth == level]
            counts = Numbers.of(part.data), Numbers.of(part.sum(axis=1))
            joint += _log_evidence(eta, self.n_words, *counts)
        return joint

    def _log_prior_of_levels(self) -> float:
        """Log p(levels of tokens), level proportions integrated out, nats."""
        alpha, (levels, lengths) = self.priors.level_prior, self.level_counts()
        parts = (n.log_rising(a) for a, n in zip(alpha.tolist(), levels, strict=True))
        return sum(parts) - lengths.log_rising(alpha.sum())

    def level_counts(self) -> tuple[list["Numbers"], "Numbers"]:
        """Counts of tokens of documents at each level, and of whole documents."""
        n_levels = self.priors.n_levels
        at = self.tokens.doc * n_levels + self.level
        counts = np.bincount(at, minlength=self.n_docs * n_levels)
        counts = counts.reshape(self.n_docs, n_levels)
        return [Numbers.of(n) for n in counts.T], Numbers.of(counts.sum(axis=1))

    def word_counts(self, level: int) -> tuple["Numbers", "Numbers"]:
        """Counts of each word at nodes of a level, and of all words at nodes."""
        part = slice(*self.first[level : level + 2])
        return Numbers.of(self.counts[:, part]), Numbers.of(self.node_tokens[part])


def _limits(n_columns: Ints32) -> NDArray[np.int64]:
    """First columns of levels of `n_columns` columns each, and the end."""
    return np.concatenate([[0], np.cumsum(n_columns)]).astype(np.int64)


def _log_prior_of_paths(children: NDArray, inner: NDArray, gamma: float) -> float:
    """Log p(paths), from documents of nodes with a parent, and of their parents."""
    total = len(children) * np.log(gamma) + gammaln(children).sum()
    return float(total - log_rising(gamma, inner).sum())


def _log_evidence(
    eta: float, n_words: int, counts: Numbers, node_tokens: Numbers
) -> float:
    """Log p(words | nodes of tokens), topics integrated out, nats."""
    return counts.log_rising(eta) - node_tokens.log_rising(n_words * eta)


@dataclass(frozen=True, slots=True)
class NestedPriors:
    """Gamma(shape, rate) priors of the hyperparameters that are learned."""

    learn_concentration: bool
    learn_topic_prior: bool
    concentration: GammaPrior = (1.0, 1.0)
    topic: GammaPrior = (1.0, 1.0)  # of each level
    learn_level_prior: bool = False
    level: GammaPrior = (1.0, 1.0)  # of their mean

    def resample(self, walks: Walks, rng: np.random.Generator) -> None:
        """Draw the learned hyperparameters, in place, given paths and levels."""
        priors = walks.priors
        if self.learn_concentration and priors.n_levels > 1:
            inner = walks.docs[: walks.first[-2]]
            children = (walks.docs > 0) & (walks.parent >= 0)
            gamma = draws.draw_concentration(
                priors.concentration,
                inner[inner > 0],
                int(children.sum()),
                self.concentration,
                rng,
            )
            priors = replace(priors, concentration=gamma)
        if self.learn_topic_prior:
            eta = priors.topic_prior.copy()
            for level in range(priors.n_levels):
                counts, node_tokens = walks.word_counts(level)
                evidence = partial(
                    _log_evidence,
                    n_words=walks.n_words,
                    counts=counts,
                    node_tokens=node_tokens,
                )
                eta[level] = draws.draw_by_slice(
                    float(eta[level]), evidence, self.topic, rng
                )
            priors = replace(priors, topic_prior=eta)
        if self.learn_level_prior and priors.n_levels > 1:
            (levels, lengths), alpha = walks.level_counts(), priors.level_prior.copy()
            for level, counts in enumerate(levels):

                def height(
                    own: float, level: int = level, counts: Numbers = counts
                ) -> float:
                    """Log density of one topic prior, given the counts of its level."""
                    alpha[level] = own
                    result = counts.log_rising(own) - lengths.log_rising(alpha.sum())
                    return result + self.log_level_density(alpha)

                own = draws.draw_by_slice(float(alpha[level]), height, FLAT, rng)
                alpha[level] = own
            priors = replace(priors, level_prior=alpha)
        walks.set_priors(priors)

    def log_density(self, walks: Walks) -> float:
        """Log prior density of the hyperparameters that are learned."""
        total, priors = 0.0, walks.priors
        if self.learn_concentration:
            total += log_gamma_density(priors.concentration, self.concentration)
        if self.learn_topic_prior:
            total += sum(
                log_gamma_density(eta, self.topic) for eta in priors.topic_prior
            )
        if self.learn_level_prior and priors.n_levels > 1:
            total += self.log_level_density(priors.level_prior)
        return total

    def log_level_density(self, alpha: Array) -> float:
        """Log density of level priors: that of their sum, and Dirichlet of shares."""
        total, n_levels, c = float(alpha.sum()), len(alpha), LEVEL_SHARES
        shares = gammaln(c * n_levels) - n_levels * gammaln(c)
        shares += (c - 1.0) * np.log(alpha / total).sum()
        mean = log_gamma_density(total / n_levels, self.level) - np.log(n_levels)
        return float(mean + shares - (n_levels - 1.0) * np.log(total))


# Samples of the nested CRP: what prediction reads of a state of the sampler.


@dataclass(frozen=True, slots=True)
class NestedSample:
    """Tree and counts of a state, by position; siblings by decreasing documents."""

    component_ids: Annotated[Ints, Sized("n_nodes")]  # names, depth first
    depth: Annotated[Ints, Sized("n_nodes")]
    # int32
    topic_word_counts: Annotated[sp.csr_array, TokenCounts("n_nodes", "n_features")]
    doc_counts: Annotated[Ints32, Sized("n_nodes")]  # documents through each node
    child_concentration: float  # gamma
    level_prior: Annotated[Array, Sized("n_levels", least=1e-300)]  # alpha
    topic_word_prior: Annotated[Array, Sized("n_levels", least=1e-300)]  # eta
    log_joint: Log  # nats per token
    chain: Steps
    step: Steps  # sweeps made

    @classmethod
    def of(
        cls, walks: Walks, ids: Ints, log_joint: float, chain: int, step: int
    ) -> "NestedSample":
        """Copy from tidy walks, whose nodes have ids, level by level."""
        tree, columns = walks.tree()
        priors, counts = walks.priors, sp.csr_array(walks.counts.T[columns])
        counts.sum_duplicates()  # notes that there are none, before anybody asks
        return cls(
            component_ids=ids[tree.ids],
            depth=tree.depth.copy(),
            topic_word_counts=counts,
            doc_counts=walks.docs[columns],
            child_concentration=priors.concentration,
            level_prior=priors.level_prior.copy(),
            topic_word_prior=priors.topic_prior.copy(),
            log_joint=log_joint,
            chain=chain,
            step=step,
        )

    @property
    def priors(self) -> LevelPriors:
        """Hyperparameters in force."""
        return LevelPriors(
            self.child_concentration, self.level_prior, self.topic_word_prior
        )

    @property
    def tree(self) -> Tree:
        """The tree of node ids, in the order of the arrays."""
        return Tree(self.component_ids, self.depth)

    @property
    def n_tokens(self) -> NDArray:
        """Tokens of each node."""
        return np.asarray(self.topic_word_counts.sum(axis=1)).ravel()

    @property
    def topic_weights(self) -> Array:
        """Share of tokens of each node."""
        return self.n_tokens / max(self.n_tokens.sum(), 1)

    @property
    def log_weights(self) -> Array:
        """Log probability that the path of a further document passes each node.

        Sum of log d_i / (d_parent + gamma) from the root down.
        """
        docs, tree = self.doc_counts.astype(np.float64), self.tree
        own, above = np.zeros(len(docs)), docs[tree.parent[1:]]
        own[1:] = np.log(docs[1:]) - np.log(above + self.child_concentration)
        return tree.distribute(own)

    @property
    def log_stub_priors(self) -> Array:
        """Log p(stub) of a further document, (n_nodes,); they sum to one.

        A node of the last level is a path, any other stands for all paths that leave
        the tree below it: gamma / (d_i + gamma) of those that pass it.
        """
        gamma = self.child_concentration
        docs = self.doc_counts.astype(np.float64)
        leaves = np.log(gamma) - np.log(docs + gamma)
        is_inner = self.depth < len(self.level_prior) - 1
        return self.log_weights + np.where(is_inner, leaves, 0.0)

    def for_prediction(self) -> PathGlobals:
        """Return what the local step of new documents reads."""
        return PathGlobals(
            word_counts=self.topic_word_counts,
            depth=self.depth,
            stub_nodes=stub_nodes(self.tree, len(self.level_prior)),
            log_prior=self.log_stub_priors,
            level_prior=self.level_prior,
            topic_prior=self.topic_word_prior,
            is_mean=True,
        )

    def nodes(self) -> Nodes:
        """Return counts level by level, from which walks of new documents start."""
        order = self.level_order
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        parent = self.tree.parent[order]
        return Nodes(
            depth=self.depth[order],
            parent=np.where(parent < 0, -1, place[parent]),
            docs=self.doc_counts[order],
            counts=self.topic_word_counts[order],
        )

    @property
    def level_order(self) -> Ints:
        """Positions of nodes level by level."""
        return np.argsort(self.depth, kind="stable")


# Start of the sampler of the nested CRP: good leaves, grouped in many ways.
#
# Documents that draw paths and levels together, one after another, find good leaves in
# a few sweeps, but not the nodes above: the words of a node keep its documents there.
# So leaves are grouped in many ways, from one path for all to a parent for each leaf;
# levels are drawn again in each tree, and the tree with the highest probability of each
# document given all others is kept. The log joint of a state would prefer trees of too
# many nodes, whose levels are the sharpest.


#: Times that documents find leaves from nothing.
N_STARTS = 4
#: Sweeps in which documents find leaves, and in which they move in a new tree.
LEAF_SWEEPS, TREE_SWEEPS = 8, 4
#: Sweeps over levels alone in a new tree.
START_LEVEL_SWEEPS = 20
#: Such sweeps from one draw of the priors to the next.
LEARN_EVERY = 8
#: Levels that the probability of a document is averaged over.
N_TRIES = 4
#: Times that leaves are grouped again, at most.
MOST_ROUNDS = 5
#: Groups that are compared, and further ones by this factor.
GROUPS, FURTHER = 8, 2.0
#: Documents that trees are compared on, at most.
MOST_DOCS = 600
#: Levels whose numbers of nodes are compared; the others go evenly to the leaves.
MOST_SEARCHED = 2
#: Of a word's frequency below a node, the least share that a level may have.
LEAST_SHARE = 0.02


def start_walks(
    tokens: Tokens,
    priors: LevelPriors,
    learned: NestedPriors,
    rng: np.random.Generator,
    reporter: Reporter = SILENT,
) -> Walks:
    """Return walks of all documents on the tree that is best for some of them."""
    n_docs = len(tokens.begin) - 1
    some = np.sort(rng.permutation(n_docs)[:MOST_DOCS])
    walks, _ = find_start(tokens.take(some), priors, learned, rng, reporter)
    if len(some) == n_docs:
        return walks
    paths = Paths.at_random(tokens, walks.priors, rng)
    result = walks.paths()
    paths.node[some] = result.node
    is_known = np.isin(tokens.doc, some)
    paths.level[is_known] = result.level
    walks = Walks(tokens, walks.priors, paths)
    for doc in np.flatnonzero(paths.node[:, 0] < 0).tolist():
        walks.sweep(doc, doc + 1, rng, TOGETHER)
    return walks


def find_start(
    tokens: Tokens,
    priors: LevelPriors,
    learned: NestedPriors,
    rng: np.random.Generator,
    reporter: Reporter = SILENT,
) -> tuple[Walks, float]:
    """Return the best walks of several trees, and the log probability of documents.

    That is the sum over documents of log p(words, path | all other documents).
    """
    best = Walks(tokens, priors, rng=rng), -np.inf
    if tokens.begin[-1] == 0:
        return best

    def compare(walks: Walks) -> float:
        """Score walks by leaving one document out; put them into `best` if better."""
        nonlocal best
        score = float(walks.leave_one_out(rng, N_TRIES).sum())
        if score > best[1]:
            best = walks, score
        n_nodes = len(walks.columns)
        reporter.remind(f"start: {n_nodes} nodes, {best[1] / len(tokens):.4f} at best")
        return score

    def explore(labels: Ints) -> None:
        """Compare trees of walks over given leaves, level by level."""
        sizes = [1] * priors.n_levels
        sizes[1:] = [int(labels.max()) + 1] * (priors.n_levels - 1)
        forest = Forest(tokens, labels)
        # Level by level, each with the best number of nodes above.
        for level in range(1, min(max(priors.n_levels - 1, 2), MOST_SEARCHED + 1)):
            scores: dict[tuple[int, ...], float] = {}
            for n in numbers_between(sizes[level - 1], sizes[-1]):
                tried = level_sizes(sizes[:level], n, priors.n_levels, sizes[-1])
                if tuple(tried) in scores:
                    continue
                walks = Walks(tokens, best[0].priors, forest.paths(tried, rng))
                for sweep in range(START_LEVEL_SWEEPS):
                    walks.sweep(0, walks.n_docs, rng, LEVELS)
                    if sweep % LEARN_EVERY == 0:
                        learned.resample(walks, rng)
                scores[tuple(tried)] = compare(walks)
            sizes = list(max(scores.items(), key=itemgetter(1))[0])

    for _ in range(N_STARTS):
        walks = Walks(tokens, priors, rng=rng)
        _sweep(walks, learned, rng, LEAF_SWEEPS)
        compare(walks)
        if priors.n_levels == 1:
            return best
        explore(_leaves(walks))
    explore(np.zeros(walks.n_docs, dtype=np.intp))
    explore(kmeans(_counts(tokens), usual_leaves(walks.n_docs), rng))
    for _ in range(MOST_ROUNDS):
        before = best[1]
        walks = Walks(tokens, best[0].priors, best[0].paths())
        _sweep(walks, learned, rng, TREE_SWEEPS)
        compare(walks)
        explore(_leaves(walks))
        if best[1] <= before:
            break
    return best


def _sweep(
    walks: Walks, learned: NestedPriors, rng: np.random.Generator, n_sweeps: int
) -> None:
    """Make `n_sweeps` sweeps of walks and hyperparameters, in place."""
    for _ in range(n_sweeps):
        walks.sweep(0, walks.n_docs, rng, TOGETHER)
        walks.tidy()
        learned.resample(walks, rng)


def _leaves(walks: Walks) -> Ints:
    return np.unique(walks.path[:, -1], return_inverse=True)[1].ravel()


def _counts(tokens: Tokens) -> sp.csr_array:
    """Document-term matrix of tokens, without words that do not occur."""
    words = np.unique(tokens.words, return_inverse=True)[1].ravel()
    counts = sp.csr_array((np.ones(len(tokens)), words, tokens.begin.copy()))
    counts.sum_duplicates()
    return counts


def usual_leaves(n_docs: int) -> int:
    """Number of clusters of `n_docs` documents, more than the leaves expected."""
    return int(max(2, min(4.0 * np.sqrt(n_docs / 2.0), n_docs / 10.0)))


def numbers_between(least: int, most: int) -> list[int]:
    """Numbers of nodes to compare: all small ones, then a geometric series."""
    numbers = [*range(least, min(most, least + GROUPS - 1) + 1)]
    while (more := round(FURTHER * numbers[-1])) < most:
        numbers.append(more)
    return sorted({*numbers, most})


def level_sizes(above: list[int], n: int, n_levels: int, n_leaves: int) -> list[int]:
    """Nodes of each level: those of `above`, then `n`, then evenly to the leaves."""
    n_below = n_levels - len(above)
    if n_below == 1:
        return [*above, n_leaves]
    sizes = np.rint(np.geomspace(n, n_leaves, n_below))
    return [*above, *sizes.astype(int).tolist()]


class Forest:
    """Trees over the same leaves, whose nodes are cut from Ward's tree of these.

    Leaves are compared by the square roots of word frequencies.

    `labels` are the leaves of documents, (n_docs,), numbered without gaps.
    """

    def __init__(self, tokens: Tokens, labels: Ints):
        """Count the words of the leaves, and cluster the leaves."""
        self.labels, leaf = labels, labels[tokens.doc]
        words, word = np.unique(tokens.words, return_inverse=True)
        self.pooled = np.zeros((int(labels.max()) + 1, len(words)))
        np.add.at(self.pooled, (leaf, word.ravel()), 1.0)
        frequent = self.pooled + 0.5 / len(words)
        self.logs = np.log(frequent / frequent.sum(axis=1, keepdims=True))
        # Words of leaves, and which of them each token is.
        self.leaf, self.word = np.nonzero(self.pooled)
        order = np.zeros(self.pooled.shape, dtype=np.intp)
        order[self.leaf, self.word] = np.arange(len(self.leaf))
        self.entry = order[leaf, word.ravel()]

    def paths(self, sizes: list[int], rng: np.random.Generator) -> Paths:
        """Put documents on paths of a tree with `sizes` nodes on each level.

        Tokens draw levels by the excess of the frequency of their word at a node over
        that of its parent, see `_shares`.
        """
        cuts = ward_cuts(self.pooled, sizes)
        cuts = np.column_stack(
            [np.unique(cut, return_inverse=True)[1].ravel() for cut in cuts.T]
        )
        limits = np.cumsum(self._shares(cuts), axis=0)[:-1, self.entry]
        level = (rng.random(len(self.entry)) > limits).sum(axis=0)
        return Paths(cuts[self.labels].astype(np.int32), level.astype(np.uint8))

    def _shares(self, cuts: Ints) -> Array:
        """Shares of levels in the words of each leaf, (n_levels, n_entries).

        The frequency of a word at a node is the geometric mean over its leaves, minus
        that at its parent.
        """
        common = []
        for cut in cuts.T:
            size = np.bincount(cut)
            means = (members(cut, len(size)) @ self.logs) / size[:, None]
            common.append(np.exp(means[cut[self.leaf], self.word]))
        lowest = np.minimum.accumulate(np.array(common)[::-1], axis=0)[::-1]
        parts = np.diff(lowest, axis=0, prepend=0.0) + LEAST_SHARE * lowest[-1]
        return parts / parts.sum(axis=0)


# Gibbs chain of the collapsed nested CRP: the steps of one sweep.


#: Columns of the history of a fit.
COLUMNS = (
    "step",
    "chain",
    "seconds",
    "n_components",
    "n_leaves",
    "log_joint",
    "child_concentration",
    "topic_word_prior",
)
#: Tokens of a piece of a sweep, about: 0.1 s where there are ten thousand nodes.
TOKENS_PER_PIECE = 1 << 14
#: Sweeps over levels alone, where documents start on paths that they are told.
LEVEL_SWEEPS = 50
#: Of so many sweeps one draws paths and levels together.
TOGETHER_EVERY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedStart(ChainStart):
    """Paths that a chain starts from, with the lineage until then.

    Documents start on the best tree of a search (`start_walks`), or tokens at random
    levels; then documents without a path take one, one after another, given those
    before.
    """

    priors: LevelPriors
    is_sought: bool = False  # whether a tree is looked for; not after a chunk
    node: Ints32 | None = None  # (n_docs, n_levels) as in `Paths`
    ids: Ints | None = None  # names of these nodes, level by level
    ended: Ints | None = None  # names that end if no node has them


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedState(ChainState):
    """State of a chain between two sweeps; its components are nodes, level by level."""

    paths: Paths
    priors: LevelPriors


class NestedChain(GibbsChain[NestedState]):
    """One Gibbs chain of the nested CRP: paths, levels and hyperparameters.

    `priors` are what is learned of the hyperparameters, `start` is where to go on,
    `number` that of the chain, where it starts, and `before` has counts of
    documents that are gone.
    """

    def __init__(
        self,
        tokens: Tokens,
        priors: NestedPriors,
        seed_entropy: int,
        start: NestedStart | NestedState,
        *,
        number: int = 0,
        before: NestedSample | None = None,
    ):
        """Restore a saved state, or start from paths, and name the nodes."""
        self.priors, self.seed_entropy = priors, seed_entropy
        self.pieces = pieces_of(tokens.begin, TOKENS_PER_PIECE)
        nodes = None if before is None else before.nodes()
        if isinstance(start, NestedState):
            _check_paths(start, tokens)
            self.walks = Walks(tokens, start.priors, start.paths, nodes)
            self.state = replace(start, lineage=list(start.lineage))
            return
        # Each document takes a path.
        rng = stream(seed_entropy, Purpose.START, number, start.step)
        if start.is_sought and nodes is None:
            self.walks = start_walks(tokens, start.priors, priors, rng)
        else:
            paths = Paths.at_random(tokens, start.priors, rng, start.node)
            self.walks = Walks(tokens, start.priors, paths, nodes)
        for _ in range(1 if start.node is None else LEVEL_SWEEPS):
            for begin, stop in self.pieces:
                self.walks.sweep(begin, stop, rng, LEVELS)
        ids = start.ids if before is None else before.component_ids[before.level_order]
        names = _named(self.walks.tidy(), ids)
        ended = np.zeros(0, np.intp) if start.ended is None else start.ended
        ids, next_id, log = rename(ended, names, start.next_id, start.step)
        if not start.lineage:
            log = [Lineage(start.step, "init", (), tuple(ids.tolist()))]
        self.state = NestedState(
            number=number,
            step=start.step,
            ids=ids,
            next_id=next_id,
            lineage=[*start.lineage, *log],
            begin=start.step,
            log_joint=self._log_joint(),
            paths=self.walks.paths(),
            priors=self.walks.priors,
        )

    # -- one sweep --------------------------------------------------------------------

    def _sweep(self, begin: int, stop: int, rng: np.random.Generator) -> None:
        """Resample paths and levels of one piece of the documents."""
        is_together = (self.state.step + 1) % TOGETHER_EVERY == 0
        self.walks.sweep(begin, stop, rng, TOGETHER if is_together else PATHS)

    def _end(self, rng: np.random.Generator) -> tuple[NestedState, list[Lineage]]:
        """Give nodes ids, draw hyperparameters; return the next state and its log."""
        state, walks = self.state, self.walks
        step, names = state.step + 1, _named(walks.tidy(), state.ids)
        ids, next_id, log = rename(state.ids, names, state.next_id, step)
        self.priors.resample(walks, rng)
        ended = replace(
            state,
            step=step,
            ids=ids,
            next_id=next_id,
            log_joint=self._log_joint(),
            paths=walks.paths(),
            priors=walks.priors,
        )
        return ended, log

    def _log_joint(self) -> float:
        total = self.walks.log_joint() + self.priors.log_density(self.walks)
        return total / max(len(self.walks.tokens), 1)

    def _restore(self, state: NestedState) -> None:
        self.walks.set_priors(state.priors)
        self.walks.restore(state.paths)

    # -- what it tells ----------------------------------------------------------------

    def trace(self) -> dict[str, object]:
        """Return the entries of the last complete sweep in the history."""
        priors, n_leaves = self.state.priors, int(self.walks.n_nodes[-1])
        return {
            **super().trace(),
            "n_leaves": max(n_leaves, 1),
            "child_concentration": priors.concentration,
            "topic_word_prior": tuple(priors.topic_prior.tolist()),
        }

    def sample(self, run: RunTasks = run_in_turn) -> NestedSample:
        """Copy what prediction reads of the present state."""
        state = self.state
        record = state.log_joint, state.number, state.step
        return NestedSample.of(self.walks, state.ids, *record)


def _named(former: Ints, ids: Ints | None) -> Ints:
    """Ids of nodes by their former numbers; -1 for new ones."""
    if ids is None:
        return np.full_like(former, -1)
    return np.where(former < 0, -1, ids[former])


def _check_paths(state: NestedState, tokens: Tokens) -> None:
    """Raise ValueError if saved paths are none of these documents."""
    node, level = state.paths.node, state.paths.level
    n_docs, n_levels = len(tokens.begin) - 1, state.priors.n_levels
    is_sound = (
        isinstance(node, np.ndarray)
        and isinstance(level, np.ndarray)
        and (node.dtype, node.shape) == (np.int32, (n_docs, n_levels))
        and (level.dtype, level.shape) == (np.uint8, (len(tokens),))
        and (level < n_levels).all()
        and all(
            (np.diff(np.unique(column), prepend=-1) == 1).all() for column in node.T
        )
        and len(state.ids) == max(int((node.max(axis=0, initial=-1) + 1).sum()), 1)
    )
    if not is_sound:
        raise ValueError("The saved paths of a chain are damaged.")
