"""The local step of the nested CRP: documents choose paths of a tree of topics."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.statistics import Supports
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import LocalStop
from skbnp.kernels._ncrp_local import infer_paths, share_words, sum_words
from skbnp.models.nested_crp.model import PathGlobals, PathStats
from skbnp.rows.batch import Batch, Block
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

    @property
    def best(self) -> Ints32:
        """Most probable stub of each document; of equal ones the first."""
        order = np.lexsort((self.stubs, -self.shares, self.row))
        return self.stubs[order[self.limits[:-1]]]

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
    stop: LocalStop,
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
    stop: LocalStop,
    prune: float,
    factorised: bool,
    starts: Starts | None,
    enter: float,
    is_open: NDArray[np.uint8] | None,
    block: Block,
) -> DocPaths:
    """Run the local step of the documents of one block."""
    corpus = block.indptr, block.indices, block.counts
    limits, stubs, shares, levels, weights, bounds = infer_paths(
        *corpus,
        *topics,
        *priors,
        stop.max_iter,
        stop.tol,
        prune,
        factorised,
        None if starts is None else _starts_of(block.rows, starts),
        enter,
        is_open,
    )
    tokens, by_doc = share_words(
        *corpus, *topics, priors[1], limits, stubs, shares, weights, factorised
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
