"""The local step of the nested CRP: documents choose paths of a tree of topics."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logsumexp

from skbnp.components.statistics import Supports
from skbnp.components.tree_sticks import LevelPriors, stub_nodes
from skbnp.components.word_topics import SeenWords
from skbnp.inference import protocols
from skbnp.inference.engine import learn_priors
from skbnp.inference.executor import Executor, commit
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus, Part, Round, StatisticsCache, Visit
from skbnp.kernels._ncrp_local import infer_paths, share_words, sum_words
from skbnp.models.nested_crp import model as trees
from skbnp.models.nested_crp.model import PathGlobals, PathStats, TopicTree
from skbnp.rows.batch import Batch, Block
from skbnp.trees import Tree
from skbnp.utils.arrays import entries_of, limits_of
from skbnp.utils.typing import Array, Ints, Ints32

#: Nats below the best of a document at which a path is left out.
PRUNE = 20.0
#: Whether levels of words depend on the path of their document.
LocalFamily = Literal["conditional", "factorised"]
Limits = NDArray[np.int64]
#: Limits of the supports, stubs, shares and levels.
Starts = tuple[Ints32, Ints32, Array, Array]


@dataclass(frozen=True, slots=True)
class DocPaths(Supports):
    """Local posterior of documents over paths: q(c), q(theta | c), q(z | c)."""

    limits: Limits  # (n_docs + 1,) of their supports
    stubs: Ints32  # (n_support,) increasing in each document
    shares: Array  # (n_support,) q(c)
    levels: Array  # (n_support, n_levels) Dirichlet parameters of theta
    pairs: Limits  # (n_docs + 1,) of pairs of a stub and a word
    tokens: Array  # (n_pairs, n_levels) x phi
    entropies: Array  # (n_docs,) U, see `share_words`
    bounds: Array  # (n_docs,) of the documents, as they were visited

    ragged: ClassVar = {"limits": ("stubs", "shares", "levels"), "pairs": ("tokens",)}

    @classmethod
    def none(cls, n_levels: int) -> "DocPaths":
        """Return the paths of no documents."""
        limits, stubs = np.zeros(1, np.int64), np.zeros(0, np.int32)
        values, by_level = np.zeros(0), np.zeros((0, n_levels))
        return cls(limits, stubs, values, by_level, limits, by_level, values, values)

    def starts(self, place: Ints) -> Starts:
        """Starts of the next local step, given the position of each entry's stub.

        Entries of position -1, whose stub has ended, are left out.
        """
        stays = place >= 0
        n_stays = np.bincount(self.row[stays], minlength=self.n_rows)
        limits = np.concatenate([[0], np.cumsum(n_stays)]).astype(np.int32)
        shares, levels = self.shares[stays], self.levels[stays]
        return limits, place[stays].astype(np.int32), shares, levels

    def add_to(
        self, total: PathStats, X: sp.csr_array, stub_nodes: Ints32
    ) -> PathStats:
        """Add the statistics of documents to `total`, in place except the entropy."""
        sum_words(
            X.indptr.astype(np.int64),
            X.indices.astype(np.int32, copy=False),
            X.data,
            self.limits,
            self.stubs,
            self.shares,
            self.pairs,
            self.tokens,
            stub_nodes,
            total.word_counts,
            total.word_variances,
            total.stub_masses,
            total.off_tree_tokens,
        )
        np.add.at(total.stub_variances, self.stubs, self.shares * (1.0 - self.shares))
        return replace(total, entropy=total.entropy + float(self.entropies.sum()))

    def proportions(self, stub_nodes: Ints32) -> Array:
        """Mean proportions of nodes in documents, (n_docs, n_nodes).

        The share of levels that leave the tree is left out.
        """
        n_nodes = len(stub_nodes)
        theta = self.levels / self.levels.sum(axis=1, keepdims=True)
        nodes = stub_nodes[self.stubs]
        known = nodes >= 0
        at = np.repeat(self.row, stub_nodes.shape[1]).reshape(nodes.shape) * n_nodes
        distr = np.zeros(self.n_rows * n_nodes)
        np.add.at(distr, (at + nodes)[known], (self.shares[:, None] * theta)[known])
        return distr.reshape(self.n_rows, n_nodes)

    def word_tokens(
        self, X: sp.csr_array, stub_nodes: Ints32
    ) -> tuple[Ints, Ints, Array, Array]:
        """Expected tokens of nodes in each stored count, as aligned arrays.

        Returns stored counts, nodes, expected tokens and shares of the proportions, one
        entry for each stub, so that pairs recur. Levels that leave the tree are left
        out.
        """
        words, ends = entries_of(X.indptr.astype(np.int64), self.row)
        entry = np.repeat(np.arange(len(self.stubs)), np.diff(ends))
        tokens = self.shares[entry, None] * self.tokens
        parts = tokens / self.levels.sum(axis=1)[entry, None]
        nodes = stub_nodes[self.stubs[entry]]
        at = np.repeat(words, nodes.shape[1]).reshape(nodes.shape)
        known = (nodes >= 0) & (tokens > 0.0)
        return at[known], nodes[known].astype(np.intp), tokens[known], parts[known]


def update_paths(
    paths: PathGlobals,
    X: sp.csr_array,
    stop: protocols.LocalStop,
    executor: Executor,
    *,
    family: LocalFamily = "conditional",
    starts: Starts | None = None,
    enter: float = np.inf,
    is_open: NDArray[np.uint8] | None = None,
) -> DocPaths:
    """Run the local step of documents: infer their paths and levels."""
    batch = Batch.from_counts(X, len(paths.log_prior))
    topics = paths.log_topics(batch.words), paths.off_tree, paths.stub_nodes
    priors = paths.log_prior, paths.level_prior
    given = topics, priors, stop, PRUNE, family == "factorised", starts, enter, is_open
    parts = executor.map_all(partial(_visit, *given), batch.blocks)
    return DocPaths.joined([DocPaths.none(len(paths.level_prior)), *parts])


def _visit(
    topics: tuple[Array, Array, Ints32],
    priors: tuple[Array, Array],
    stop: protocols.LocalStop,
    prune: float,
    factorised: bool,
    starts: Starts | None,
    enter: float,
    is_open: NDArray[np.uint8] | None,
    block: Block,
) -> DocPaths:
    """Run the local step of the documents of one block."""
    limits, stubs, shares, levels, weights, bounds = infer_paths(
        *block.arrays,
        *topics,
        *priors,
        *stop,
        prune,
        factorised,
        None if starts is None else _starts_of(block.rows, starts),
        enter,
        is_open,
    )
    tokens, by_doc = share_words(
        *block.arrays, *topics, priors[1], limits, stubs, shares, weights, factorised
    )
    pairs = limits_of([np.diff(limits) * np.diff(block.indptr)])
    known = limits.astype(np.int64), stubs, shares, levels
    return DocPaths(*known, pairs, tokens, by_doc, bounds)


def log_predictive(paths: PathGlobals, docs: DocPaths, X: sp.csr_array) -> Array:
    """Log probability of tokens given the inferred paths of documents, (n_docs,).

    log sum_k q(c = k) prod_w (sum_l E[theta_kl] E[W_klw])^x_w: the tokens of a document
    share their path.
    """
    words, at = np.unique(X.indices, return_inverse=True)
    topics = paths.topics(words)
    topics = np.column_stack([topics, np.full(len(words), 1.0 / paths.n_words)])
    theta = docs.levels / docs.levels.sum(axis=1, keepdims=True)
    nodes = paths.stub_nodes[docs.stubs]  # -1 is the last column
    entry, limits = np.arange(len(docs.stubs)), X.indptr.astype(np.int64)
    rows, ends = entries_of(limits, docs.row)
    entry = np.repeat(entry, np.diff(ends))
    mixed = np.zeros(len(rows))
    for level in range(nodes.shape[1]):
        mixed += theta[entry, level] * topics[at.ravel()[rows], nodes[entry, level]]
    logs = np.bincount(entry, X.data[rows] * np.log(mixed), len(docs.stubs))
    best = np.full(docs.n_rows, -np.inf)
    np.maximum.at(best, docs.row, logs)
    # Near 1 the difference from it: tokens that weigh little cost little.
    lost = np.expm1(logs - best[docs.row])
    small = np.bincount(docs.row, docs.shares * lost, docs.n_rows)
    with np.errstate(divide="ignore"):
        logs += np.log(docs.shares)
    used = np.full(docs.n_rows, -np.inf)
    np.maximum.at(used, docs.row, logs)
    total = np.bincount(docs.row, np.exp(logs - used[docs.row]), docs.n_rows)
    return np.where(
        small > -0.5, best + np.log1p(np.maximum(small, -0.5)), used + np.log(total)
    )


def _starts_of(rows: slice, starts: Starts) -> Starts:
    """Starts of the documents of a block."""
    limits, stubs, shares, levels = starts
    part = slice(limits[rows.start], limits[rows.stop])
    own = (limits[rows.start : rows.stop + 1] - part.start).astype(np.int32)
    return own, stubs[part], shares[part], np.ascontiguousarray(levels[part])


# Prediction by a nested CRP: documents take paths of a fixed tree.


@dataclass(frozen=True, slots=True)
class PathPredictor:
    """Predictor of documents that take a path of a tree, under each of some samples."""

    samples: Sequence[PathGlobals]
    stop: protocols.LocalStop
    family: LocalFamily = "conditional"
    seen: SeenWords | None = None  # words of the columns; None: all
    repeats: bool = False  # not read, and the next: a path has no burstiness
    learns: bool = False

    def infer(
        self, sample: PathGlobals, X: sp.csr_array, executor: Executor
    ) -> DocPaths:
        """Infer the paths and levels of documents."""
        return update_paths(
            sample, self._columns(X), self.stop, executor, family=self.family
        )

    def order(self, X: sp.csr_array) -> Ints:
        """Order of the stored counts in inference."""
        places = sp.csr_array(
            (np.arange(X.nnz, dtype=float), X.indices, X.indptr), X.shape
        )
        return self._columns(places).data.astype(np.intp)

    def log_likelihood(
        self, X_observed: sp.csr_array, X_held: sp.csr_array, executor: Executor
    ) -> float:
        """Log probability in nats of all held-out tokens, given the observed ones.

        The tokens of a document share its path.
        """
        if X_held.nnz == 0:
            return 0.0
        counts = self._columns(X_held)
        logs = [
            log_predictive(one, self.infer(one, X_observed, executor), counts)
            for one in self.samples
        ]
        mean = logsumexp(logs, axis=0) - np.log(len(logs))
        # Documents without tokens add roundings alone.
        return mean[np.diff(X_held.indptr) > 0].sum()

    def _columns(self, X: sp.csr_array) -> sp.csr_array:
        """Counts with the columns of the topics; other words are left out."""
        return X if self.seen is None else self.seen.compact(X)


# Corpus of the nested CRP in parts, and the cache of the paths of its documents.


#: Nats below the best of a document at which a path is not taken up: all of them
#: together would raise its bound by a per cent of a nat or so, and fill the memory.
ENTER = 6.0
#: Stored counts of a part, about.
PART = 1 << 16
#: Documents of each part, in increasing order.
Rows = Sequence[Ints]


@dataclass(frozen=True, slots=True)
class PathLocalStep:
    """Local step of documents on paths, with its family, stopping rule and executor."""

    stop: protocols.LocalStop
    executor: Executor
    family: LocalFamily = "conditional"

    def update_local(
        self,
        posterior: Posterior,
        X: sp.csr_array,
        visit: Visit = protocols.FIRST_VISIT,
    ) -> "PathResult":
        """Run the local step under the present globals of a posterior."""
        topics, priors = posterior.state, posterior.model.priors
        result = self.update_paths(topics, priors, X, visit.remembered)
        return PathResult(result, X, topics.tree, priors.n_levels)

    def update_paths(
        self,
        topics: TopicTree,
        priors: LevelPriors,
        X: sp.csr_array,
        memo: DocPaths | None = None,
        open_to: Ints | None = None,
    ) -> DocPaths:
        """Infer paths under given topics; stubs are numbered by their ids.

        The step starts also from a memo, and the better result is kept. `open_to` are
        ids of the stubs that a document may take besides the root and those of its
        memo; by default all.
        """
        tree = topics.tree
        starts = is_open = None
        if memo is not None:
            known, place = tree.find(memo.stubs.astype(np.intp))
            starts = memo.starts(np.where(known, place, -1))
        if open_to is not None:
            is_open = np.zeros(len(tree), dtype=np.uint8)
            is_open[tree.positions(open_to)] = is_open[0] = 1
        result = update_paths(
            trees.path_globals(topics, priors),
            X,
            self.stop,
            self.executor,
            family=self.family,
            starts=starts,
            enter=ENTER,
            is_open=is_open,
        )
        return result.renamed(tree.ids[result.stubs])


@dataclass(frozen=True, slots=True)
class PathResult:
    """Paths of the documents of a part; their large sums are computed on demand."""

    cache: DocPaths
    X: sp.csr_array
    tree: Tree
    n_levels: int

    @property
    def stats(self) -> PathStats:
        """Sums over the documents."""
        return sum_documents(self.cache, self.X, self.tree, self.n_levels)


class TreeCorpus(Corpus):
    """Corpus in parts, with the paths of documents at their last local step.

    Of canonical counts without empty rows; parts are of equal size, of at most
    `size` rows, by default of about `PART` stored counts. `scale` is the number of
    documents behind each.
    """

    def __init__(self, X: sp.csr_array, size: int | None = None, scale: float = 1.0):
        super().__init__(X)
        self.size, self.scale, n_docs = size, scale, X.shape[0]
        n_parts = -(-X.nnz // PART) if size is None else -(-n_docs // size)
        n_parts = min(max(n_parts, 1), n_docs)
        self.limits = protocols.even_limits(n_docs, n_parts)
        self.parts = [X[a:b] for a, b in pairwise(self.limits)]
        self.memos: list[DocPaths] = []
        self.n_words = X.shape[1]

    def schedule(self, n_joint: float = np.inf) -> protocols.BatchSchedule:
        """Return a schedule of passes over the parts, see `BatchSchedule`."""
        return protocols.BatchSchedule.of_rows(
            self.n_docs, len(self.parts), self.scale, n_joint
        )

    def documents(self, part: Part) -> sp.csr_array:
        """Counts of a part."""
        return self.parts[part.number]

    def sums(
        self, tree: Tree, n_levels: int, memos: list[DocPaths] | None = None
    ) -> PathStats:
        """Sum the statistics of all documents by their memos."""
        total = PathStats.zero(len(tree), self.n_words, n_levels)
        nodes = stub_nodes(tree, n_levels)
        for X, memo in zip(self.parts, memos or self.memos, strict=True):
            known = memo.renamed(tree.positions(memo.stubs))
            total = known.add_to(total, X, nodes)
        return total if self.scale == 1.0 else total.times(self.scale)

    def sum_part(
        self, memo: DocPaths, X: sp.csr_array, tree: Tree, n_levels: int
    ) -> PathStats:
        """Sum the statistics of documents times `scale`."""
        total = sum_documents(memo, X, tree, n_levels)
        return total if self.scale == 1.0 else total.times(self.scale)

    def shares(self, tree: Tree) -> sp.csc_array:
        """Shares of documents in stubs, (n_docs, n_stubs)."""
        shape = (self.n_docs, len(tree))
        limits = np.concatenate([[0], *(np.diff(m.limits) for m in self.memos)])
        stubs = tree.positions(np.concatenate([memo.stubs for memo in self.memos]))
        shares = np.concatenate([memo.shares for memo in self.memos])
        return sp.csr_array((shares, stubs, np.cumsum(limits)), shape).tocsc()

    def words(self, rows: Rows) -> Array:
        """Sum the word counts of some documents."""
        total = np.zeros(self.n_words)
        for X, docs in zip(self.parts, rows, strict=True):
            if len(docs):
                total += X[docs].sum(axis=0)
        return total

    def touching(self, ids: Ints) -> Rows:
        """Documents with a share in any of some stubs, by part."""
        return [memo.touching(ids) for memo in self.memos]

    def take(self, rows: Rows) -> tuple[sp.csr_array, DocPaths]:
        """Concatenate counts and paths of some documents."""
        used = [place for place, docs in enumerate(rows) if len(docs)]
        words = [self.parts[place][rows[place]] for place in used]
        memos = [self.memos[place].take(rows[place]) for place in used]
        X = sp.vstack(words, format="csr") if words else self.parts[0][:0]
        none = self.memos[0].take(np.arange(0))
        return sp.csr_array(X), DocPaths.joined([none, *memos])


class PathChange(NamedTuple):
    """Paths and statistics that a round changes in the cache."""

    memos: list[DocPaths]
    old: PathStats | None  # of what is taken out of the totals; None: of everything
    new: PathStats


class PathCache(StatisticsCache):
    """Cache of the paths of all documents; totals contain each document once.

    If a round updates all parts, their sum replaces the totals; else old statistics of
    the part are subtracted and new ones added.

    The corpus has the paths of its documents; `others` are statistics of documents
    that are not updated again, by the present tree.
    """

    corpus: TreeCorpus
    others: PathStats | None
    _is_exact: bool  # the totals are the sum

    def __init__(self, corpus: TreeCorpus, others: PathStats | None = None):
        self.corpus, self.others, self._is_exact = corpus, others, True

    def initial_local(self, part: Part) -> DocPaths | None:
        """Return the paths of the documents of a part."""
        return self.corpus.memos[part.number] if self.corpus.memos else None

    def prepare(
        self, posterior: Posterior, round: Round, results: Sequence[PathResult]
    ) -> PathChange:
        """Sum the new statistics, and the old ones unless all parts are updated."""
        tree, corpus = posterior.state.tree, self.corpus
        n_levels = posterior.model.priors.n_levels
        if len(round.parts) == len(corpus.parts):
            memos = [result.cache for result in results]
            return PathChange(memos, None, corpus.sums(tree, n_levels, memos=memos))
        (part,), (result,), memos = round.parts, results, list(corpus.memos)
        old = corpus.sum_part(memos[part.number], result.X, tree, n_levels)
        memos[part.number] = result.cache
        return PathChange(memos, old, result.stats.times(round.scale))

    def stochastic_update(
        self, posterior: Posterior, round: Round, change: PathChange
    ) -> None:
        """Put the new statistics into totals and cache, in place."""
        state, tree = posterior.state, posterior.state.tree
        self.corpus.memos, self._is_exact = change.memos, change.old is None
        if change.old is None:
            posterior.replace_globals(*self._updated(tree, change.new))
            return
        topics, stats = posterior.model.incremental_update(
            state, posterior.global_stats, change.old, change.new
        )
        self.reindex_to(tree, topics.tree)
        posterior.replace_globals(topics, stats)

    def end_pass(self, posterior: Posterior) -> None:
        """Sum all statistics again if parts were exchanged, and learn priors."""
        if not self._is_exact:
            tree, n_levels = posterior.state.tree, posterior.model.priors.n_levels
            stats = self.corpus.sums(tree, n_levels)
            with commit():  # rounding errors of the exchanges are gone
                posterior.replace_globals(*self._updated(tree, stats))
            self._is_exact = True
        learn_priors(posterior)

    def _updated(self, tree: Tree, stats: PathStats) -> tuple[TopicTree, PathStats]:
        """Return topics and totals of summed statistics, siblings sorted."""
        if self.others is not None:
            stats = stats.plus(self.others)
        topics, stats = trees.update_globals(tree, stats)
        self.reindex_to(tree, topics.tree)
        return topics, stats

    def reindex_to(self, old: Tree, new: Tree) -> None:
        """Re-index the statistics of other documents to another tree, in place."""
        if self.others is not None:
            self.others = self.others.reindex_to(old, new)

    def put(self, rows: Rows, memo: DocPaths) -> None:
        """Replace the paths of some documents, in place."""
        memos, first = list(self.corpus.memos), 0
        for place, docs in enumerate(rows):
            if len(docs):
                new = memo.take(np.arange(first, first + len(docs)))
                memos[place] = memos[place].replaced(docs, new)
                first += len(docs)
        self.corpus.memos = memos


def sum_documents(
    memo: DocPaths, X: sp.csr_array, tree: Tree, n_levels: int
) -> PathStats:
    """Sum the statistics of documents from their paths, with stubs by id."""
    known = memo.renamed(tree.positions(memo.stubs))
    total = PathStats.zero(len(tree), X.shape[1], n_levels)
    return known.add_to(total, X, stub_nodes(tree, n_levels))
