"""The nested CRP with topics, sticks and level proportions integrated out.

Each document has a path from the root to a leaf of a tree of fixed depth, and each of
its tokens a level of that path. Paths, levels and hyperparameters are the whole state.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from skbnp.kernels._nested_crp import sweep
from skbnp.models.hdp_franchise import Tokens
from skbnp.models.hyperparameters import (
    GammaPrior,
    draw_by_slice,
    draw_concentration,
    log_gamma_density,
    log_rising,
)
from skbnp.trees import Tree

__all__ = ["LevelPriors", "NestedPriors", "Paths", "Walks"]

Array = NDArray[np.float64]

#: Columns of a level in reserve, beyond a quarter of those in use.
SPARE_NODES = 8
#: Counts whose logarithms are looked up.
COMMON_COUNTS = 1024


@dataclass(frozen=True, slots=True)
class LevelPriors:
    """Hyperparameters in force."""

    concentration: float  # gamma
    level_prior: Array  # (n_levels,) alpha, Dirichlet of a document's levels
    topic_prior: Array  # (n_levels,) eta, Dirichlet of topics over words

    @property
    def n_levels(self) -> int:
        """Depth of the tree, root included."""
        return len(self.level_prior)


@dataclass(frozen=True, slots=True)
class Paths:
    """Which nodes each document walks through, and at which level its tokens are."""

    node: NDArray[np.int32]  # (n_docs, n_levels) number of the node within its level
    level: NDArray[np.uint8]  # (n_tokens,)


class Walks:
    """Documents on their paths, and all counts of them.

    The kernel changes the arrays; `tidy` closes gaps, so that they depend on `Paths`
    alone.

    Parameters
    ----------
    tokens : Tokens
    priors : LevelPriors
    paths : Paths or None
        None: nobody has walked yet; tokens are at random levels.
    rng : Generator or None
        Draws those levels.
    """

    def __init__(
        self,
        tokens: Tokens,
        priors: LevelPriors,
        paths: Paths | None = None,
        rng: np.random.Generator | None = None,
    ):
        self.tokens, self.priors = tokens, priors
        n_docs, n_levels = len(tokens.begin) - 1, priors.n_levels
        if paths is None:
            node = np.full((n_docs, n_levels), -1, dtype=np.int32)
            share = priors.level_prior / priors.level_prior.sum()
            rng = rng or np.random.default_rng(0)
            level = rng.choice(n_levels, size=len(tokens), p=share).astype(np.uint8)
            paths = Paths(node, level)
        self.restore(paths)

    # -- going back and forth ---------------------------------------------------------

    def paths(self) -> Paths:
        """Return a copy of the state."""
        seated = self.path[:, :1] >= 0
        shift = np.where(seated, self.first[:-1], 0).astype(np.int32)
        return Paths(self.path - shift, self.level.copy())

    def restore(self, paths: Paths) -> None:
        """Walk the given paths, whose nodes have numbers without gaps, and count."""
        n_levels, n_words = self.priors.n_levels, self.tokens.n_words
        self.level = paths.level.copy()
        self.n_nodes = (paths.node.max(axis=0, initial=-1) + 1).astype(np.int32)
        room = self.n_nodes + self.n_nodes // 4 + SPARE_NODES
        self.first = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
        seated = paths.node[:, :1] >= 0
        shift = np.where(seated, self.first[:-1], 0)
        self.path = (paths.node + shift).astype(np.int32)
        n_columns = int(self.first[-1])
        self.docs, self.totals, self.is_new = np.zeros((3, n_columns), dtype=np.int32)
        self.parent = np.full(n_columns, -1, dtype=np.int32)
        self.counts = np.zeros((n_words, n_columns), dtype=np.int32)
        walked = self.path[seated[:, 0]]
        self.docs += np.bincount(walked.ravel(), minlength=n_columns).astype(np.int32)
        for level in range(1, n_levels):
            self.parent[walked[:, level]] = walked[:, level - 1]
        doc = self.tokens.doc
        node = self.path[doc, self.level]
        counted = node >= 0
        np.add.at(self.counts, (self.tokens.words[counted], node[counted]), 1)
        self.totals += self.counts.sum(axis=0, dtype=np.int32)
        self._note_priors()

    def set_priors(self, priors: LevelPriors) -> None:
        """Put other hyperparameters in force."""
        self.priors = priors
        self._note_priors()

    def _note_priors(self) -> None:
        counts = np.arange(COMMON_COUNTS)
        logs = np.log(counts + self.priors.topic_prior[:, None])
        self.log_counts = logs.astype(np.float32)

    def tidy(self) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Close the gaps that nodes have left, and make room for more.

        Returns the former columns of the nodes, level by level, and which are new.
        """
        columns = self.columns
        is_new = self.is_new[columns].astype(bool)
        paths = self.paths()
        for level in range(self.priors.n_levels):
            used = np.unique(paths.node[:, level])
            paths.node[:, level] = np.searchsorted(used, paths.node[:, level])
        self.restore(paths)
        return columns, is_new

    @property
    def columns(self) -> NDArray[np.intp]:
        """Columns of the nodes, level by level."""
        return np.flatnonzero(self.docs > 0)

    def sweep(
        self,
        begin: int,
        stop: int,
        rng: np.random.Generator,
        *,
        with_paths: bool = True,
    ) -> None:
        """Draw paths and levels of some documents anew."""
        while begin < stop:
            begin = sweep(
                self.tokens.begin,
                self.tokens.words,
                self.level,
                self.path,
                self.first,
                self.n_nodes,
                self.counts,
                self.totals,
                self.docs,
                self.parent,
                self.is_new,
                self.priors.concentration,
                self.priors.level_prior,
                self.priors.topic_prior,
                self.log_counts,
                begin,
                stop,
                with_paths,
                rng.bit_generator,
            )
            if begin < stop:
                self._make_room()

    def _make_room(self) -> None:
        """Rebuild with more columns; documents that have not walked stay so."""
        first, is_new = self.first, self.is_new
        self.restore(self.paths())
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

    def tree(self) -> tuple[Tree, NDArray[np.intp]]:
        """Return the tree, most documents first, and the columns of its nodes."""
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
        """Log p(paths) + log p(levels) + log p(words | both), in nats."""
        return (
            self._log_prior_of_paths()
            + self._log_prior_of_levels()
            + self.log_evidence()
        )

    def _log_prior_of_paths(self) -> float:
        gamma, used = self.priors.concentration, self.docs > 0
        children = used & (self.parent >= 0)
        inner = used & (np.arange(len(used)) < self.first[-2])
        total = children.sum() * np.log(gamma) + gammaln(self.docs[children]).sum()
        return float(total - log_rising(gamma, self.docs[inner]).sum())

    def _log_prior_of_levels(self) -> float:
        alpha, n_levels = self.priors.level_prior, self.priors.n_levels
        at = np.bincount(
            self.tokens.doc * n_levels + self.level, minlength=self.n_docs * n_levels
        ).reshape(self.n_docs, n_levels)
        lengths = at.sum(axis=1)
        levels = sum(
            log_rising(a, n[n > 0]).sum() for a, n in zip(alpha, at.T, strict=True)
        )
        return float(levels - log_rising(alpha.sum(), lengths[lengths > 0]).sum())

    def log_evidence(self) -> float:
        """Log p(words | paths, levels), topics integrated out."""
        return sum(
            self.log_evidence_of(level, eta)
            for level, eta in enumerate(self.priors.topic_prior.tolist())
        )

    def log_evidence_of(self, level: int, eta: float) -> float:
        """Log p(words of a level | paths, levels) for a topic prior."""
        part, n_words = slice(*self.first[level : level + 2]), self.tokens.n_words
        held, totals = self.counts[:, part], self.totals[part]
        words = log_rising(eta, held[held > 0]).sum()
        return float(words - log_rising(n_words * eta, totals[totals > 0]).sum())


@dataclass(frozen=True, slots=True)
class NestedPriors:
    """What is learned of the hyperparameters, under Gamma(shape, rate) priors."""

    learn_concentration: bool
    learn_topic_prior: bool
    concentration: GammaPrior = (1.0, 1.0)
    topic: GammaPrior = (1.0, 1.0)  # of each level

    def resample(self, walks: Walks, rng: np.random.Generator) -> None:
        """Draw what is learned given paths and levels."""
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
            topic_prior = [
                draw_by_slice(
                    eta, partial(walks.log_evidence_of, level), self.topic, rng
                )
                for level, eta in enumerate(priors.topic_prior.tolist())
            ]
            priors = replace(priors, topic_prior=np.array(topic_prior))
        walks.set_priors(priors)

    def log_density(self, walks: Walks) -> float:
        """Log density of what is learned."""
        total, priors = 0.0, walks.priors
        if self.learn_concentration:
            total += log_gamma_density(priors.concentration, self.concentration)
        if self.learn_topic_prior:
            total += sum(
                log_gamma_density(eta, self.topic) for eta in priors.topic_prior
            )
        return total
