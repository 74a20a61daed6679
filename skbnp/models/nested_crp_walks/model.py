"""State of a Gibbs sampler of the nested CRP: paths of documents and levels of tokens.

Each document has a path from the root to a leaf of a tree of fixed depth, and each of
its tokens a level of that path. Topics, sticks and level proportions are integrated
out, so that paths, levels and hyperparameters are the whole state.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from skbnp.components.hyperparameters import (
    GammaPrior,
    draw_by_slice,
    draw_concentration,
    log_gamma_density,
    log_rising,
)
from skbnp.components.tree_sticks import LevelPriors
from skbnp.kernels import _nested_crp as kernels
from skbnp.kernels._nested_crp import PATHS, SCORES
from skbnp.rows.tokens import Tokens
from skbnp.trees import Tree
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
            gamma = draw_concentration(
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
                eta[level] = draw_by_slice(float(eta[level]), evidence, self.topic, rng)
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

                own = draw_by_slice(float(alpha[level]), height, FLAT, rng)
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
