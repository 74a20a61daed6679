"""Split a topic of the HDP in two (section 3.1 of Bryant and Sudderth 2012).

The responsibilities r of the topic stay; the children share them, r' + r'' = r. (The
paper normalises the children over all topics while the others stay frozen; then
responsibilities do not sum to one.) The exact difference of the bound judges the
children on the documents that they are fitted to, which is biased towards splitting.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, gammaln, psi, xlogy

from skbnp.distributions.dirichlet import log_growth
from skbnp.models.hdp.local import BlockVisit
from skbnp.utils.typing import Array, Ints

#: Sweeps over the documents with the children's topics fixed; updates of the topics.
N_INNER, N_OUTER = 6, 4
#: Tokens of topics below which no move is tried: gains are as small.
NEGLIGIBLE = 1e-9
#: Expected tokens of the corpus that each child has, at least.
LEAST_TOKENS = 1.0
#: Neither child takes less of the parent's weight; clipping keeps the step an ascent.
SMALLEST_SHARE = 1e-6


@dataclass(frozen=True, slots=True)
class Parts:
    """Counts and responsibilities of one topic in some documents."""

    words: Ints  # (n,) columns of the corpus
    rows: Ints  # (n,) documents
    mass: Array  # (n,) n_jw r_jwk

    @classmethod
    def joined(cls, parts: Sequence["Parts"]) -> "Parts":
        """Concatenate the parts of several blocks."""
        return cls(
            np.concatenate([part.words for part in parts]),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.mass for part in parts]),
        )


@dataclass(frozen=True, slots=True)
class Collection:
    """Block hook that copies the responsibilities of some topics."""

    columns: list[int]

    def __call__(self, block_visit: BlockVisit) -> list[Parts]:
        """Return the parts of each topic in a block."""
        block, row = block_visit.block, block_visit.row
        doc_weights = block_visit.doc_weights
        words, norms = block.words[block.indices], block_visit.documents.norms
        parts = []
        for column in self.columns:
            weights = doc_weights[:, column]
            here = weights[row] > 0.0
            mass = (
                weights[row[here]]
                * block_visit.word_weights[block.indices[here], column]
            )
            mass *= block.counts[here] / norms[here]
            in_use = mass > NEGLIGIBLE
            rows = row[here][in_use] + block.rows.start
            parts.append(Parts(words[here][in_use], rows, mass[in_use]))
        return parts


@dataclass(frozen=True, slots=True)
class Parent:
    """The topic to split, in some documents of a local step."""

    prior: float  # x_k = alpha beta_k
    topic: Array  # (n_words,) S_k of the words that have been seen
    words: Ints  # (nnz,) which of these words each count is of
    rows: Ints  # (nnz,) document of each count
    mass: Array  # (nnz,) n_jw r_jwk
    tokens: Array  # (n_docs,) N_jk
    scale: float  # documents of the corpus over these
    n_unseen: int = 0  # other words of the vocabulary

    @classmethod
    def among(
        cls,
        parts: Parts,
        prior: float,
        topic: Array,
        n_docs: tuple[int, float],
        n_unseen: int = 0,
    ) -> "Parent":
        """Return the topic in documents; `n_docs` here, and in the corpus."""
        tokens = np.bincount(parts.rows, parts.mass, n_docs[0])
        return cls(
            prior=prior,
            topic=topic,
            words=parts.words,
            rows=parts.rows,
            mass=parts.mass,
            tokens=tokens.astype(np.float64),
            scale=n_docs[1] / n_docs[0],
            n_unseen=n_unseen,
        )


@dataclass(frozen=True, slots=True)
class Children:
    """Two topics that replace one."""

    topics: Array  # (2, n_words) S', S''
    shares: Array  # (2,) of the parent's weight


def start(parent: Parent, share: float, step: float) -> Children | None:
    """Initialise the children as section 3.1 of the paper: as before and after a step.

    S' = (1 - rho) S, with a `share` of the weight, and S'' = rho S^, with the documents
    of the step. They differ by noise alone if learning has converged. None if the
    documents have no tokens of the topic.
    """
    if not parent.mass.sum() > 0.0:
        return None
    added = step * parent.scale * _sums(parent, parent.mass)
    topics = np.stack([np.maximum(parent.topic - added, 0.0), added])
    first = float(np.clip(share, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE))
    return Children(topics, np.array([first, 1.0 - first]))


def _sums(parent: Parent, mass: Array) -> Array:
    return np.bincount(parent.words, mass, len(parent.topic)).astype(np.float64)


def fit_children(parent: Parent, children: Children, eta: float) -> Children:
    """Fit children by coordinate ascent with the parent's r fixed: r' + r'' = r."""
    for _ in range(N_OUTER):
        share, _, shares = _assign(parent, children, eta, _shares_of_tables)
        sums = [parent.scale * _sums(parent, parent.mass * part) for part in share]
        children = Children(np.stack(sums), shares)
    return children


def _assign(
    parent: Parent,
    children: Children,
    eta: float,
    suit: Callable[[Array, Array], Array] | None = None,
) -> tuple[Array, Array, Array]:
    """Divide the parent's responsibilities between two children.

    Returns shares of each count, (2, nnz), expected tokens, (2, n_docs), and shares of
    the topic weight, (2,). The last are fixed unless `suit` computes them from prior
    and tokens of the children. Tokens of each child are summed separately: a difference
    would lose the digits that decide about an empty child.
    """
    log_phi = _log_phi(children.topics, parent, eta)
    shares, n_docs = children.shares, len(parent.tokens)
    tokens = np.tile(parent.tokens / 2.0, (2, 1))
    for _ in range(N_INNER):
        x = parent.prior * shares
        log_pi = psi(x[:, None] + tokens)
        odds = (log_phi[0] - log_phi[1]) + (log_pi[0] - log_pi[1])[parent.rows]
        share = np.stack([expit(odds), expit(-odds)])
        tokens = np.stack(
            [np.bincount(parent.rows, parent.mass * part, n_docs) for part in share]
        )
        if suit is not None:
            shares = suit(x, tokens)
    return share, tokens, shares


def _shares_of_tables(x: Array, tokens: Array) -> Array:
    """Shares of the topic weight by the expected tables of each child, (2,)."""
    tables = (x[:, None] * (psi(x[:, None] + tokens) - psi(x)[:, None])).sum(1)
    first = tables[0] / tables.sum() if tables.sum() > 0.0 else 0.5
    first = float(np.clip(first, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE))
    return np.array([first, 1.0 - first])


def gain(parent: Parent, children: Children, eta: float) -> float:
    """Exact difference of the bound on the parent's documents, in nats of the corpus.

    The assignments of documents to the children are fitted again, the children's topics
    are not. Minus infinity if a child has fewer than `LEAST_TOKENS` tokens.
    """
    share, tokens, _ = _assign(parent, children, eta)
    in_use = parent.scale * (share * parent.mass).sum(axis=1)
    if in_use.min() < LEAST_TOKENS:
        return -np.inf
    per_token = (share * _log_phi(children.topics, parent, eta)).sum(axis=0)
    per_token -= _log_phi(parent.topic[None], parent, eta)[0]
    per_token -= xlogy(share, share).sum(axis=0)
    mass = parent.mass * per_token
    each = np.bincount(parent.rows, mass, len(parent.tokens)).astype(np.float64)
    x = parent.prior * children.shares
    each += log_growth(x[:, None], tokens).sum(axis=0)
    each -= log_growth(parent.prior, tokens.sum(axis=0))

    nothing = np.zeros((1, len(parent.topic)))
    fixed = words_term(eta, children.topics, nothing, parent.n_unseen).sum()
    fixed -= words_term(eta, parent.topic[None], nothing, parent.n_unseen).sum()
    return float(parent.scale * each.sum() + fixed)


def _log_phi(topics: Array, parent: Parent, eta: float) -> Array:
    """E[log phi_kw] of the words of a parent's counts, (n_topics, nnz)."""
    n_words = topics.shape[1] + parent.n_unseen
    total = n_words * eta + topics.sum(axis=1)
    if len(parent.words) > topics.shape[1]:  # digammas of words, or of counts
        return psi(eta + topics)[:, parent.words] - psi(total)[:, None]
    return psi(eta + topics[:, parent.words]) - psi(total)[:, None]


def words_term(eta: float, topics: Array, sums: Array, n_unseen: int = 0) -> Array:
    """E[log p(words)] - KL(q(phi) || p(phi)) of topics eta + S for other sums, nats.

    logB(lambda) - logB(eta) + sum_w (eta + S_w - lambda_w) E[log phi_w]. Words that are
    not seen have lambda_w = eta: only the sums of topics contain them.
    """
    n_words, lam = topics.shape[1], eta + topics
    total = lam.sum(axis=1) + n_unseen * eta
    log_phi = psi(lam) - psi(total)[:, None]
    gained = gammaln(lam).sum(axis=1) - gammaln(total)
    gained -= n_words * gammaln(eta) - gammaln((n_words + n_unseen) * eta)
    return gained + ((sums - topics) * log_phi).sum(axis=1)
