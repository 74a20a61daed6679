"""Moves of the HDP by Algorithm 2 of Bryant and Sudderth (2012), as it is printed.

A minibatch is visited once. Before its update all pairs of topics of positive
covariance are compared, after it all topics are tried for a split, with the
responsibilities of that visit. What is no difference of the bound as it is printed is
corrected: see the derivations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, gammaln, psi, xlogy

from skbnp.components.word_topics import WordRows, WordTopics
from skbnp.distributions import log_growth
from skbnp.inference.engine import Learner
from skbnp.inference.protocols import Collected, LocalResults, Moves, Round
from skbnp.kernels._moves import compare_merges
from skbnp.kernels._special import log_gamma
from skbnp.models.hdp.local import BlockVisit
from skbnp.models.hdp.posterior import HDPPosterior, PartMemo, refreshed
from skbnp.utils.matching import best_disjoint
from skbnp.utils.typing import Array, Ints, Ints32
from skbnp.utils.validation import check_settings, repr_settings

# Merge topics of the HDP (section 3.2 of Bryant and Sudderth 2012).
#
# r_k = r_k' + r_k'', theta, beta and S likewise, so lambda = lambda' + lambda'' - eta
# (the paper's lambda' + lambda'' counts the prior twice). The bound changes by
#
#     sum_j gain_j + logB(eta + S' + S'') - logB(eta + S') - logB(eta + S'') +
#     logB(eta),
#
# gain_j of the document j as in `compare_merges`.


@dataclass(frozen=True, slots=True)
class MergeComparison:
    """Block hook that sums losses and gains of documents for pairs that may merge."""

    pairs: Ints32  # (n_pairs, 2)

    def __call__(self, block_visit: BlockVisit) -> Array:
        """Sums of loss and gain, (n_pairs, 2), in nats."""
        sums, block = np.zeros((len(self.pairs), 2)), block_visit.block
        if len(self.pairs):
            doc_topic = block_visit.doc_topic
            compare_merges(
                *block.arrays,
                block_visit.word_weights,
                block_visit.doc_weights,
                block_visit.documents.norms,
                doc_topic,
                log_growth(block_visit.prior, doc_topic),
                block_visit.prior,
                self.pairs,
                sums,
            )
        return sums


# Split a topic of the HDP in two (section 3.1 of Bryant and Sudderth 2012).
#
# The responsibilities r of the topic stay; the children share them, r' + r'' = r. (The
# paper normalises the children over all topics while the others stay frozen; then
# responsibilities do not sum to one.) The exact difference of the bound judges the
# children on the documents that they are fitted to, which is biased towards splitting.


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
    update: Callable[[Array, Array], Array] | None = None,
) -> tuple[Array, Array, Array]:
    """Divide the parent's responsibilities between two children.

    Returns shares of each count, (2, nnz), expected tokens, (2, n_docs), and shares of
    the topic weight, (2,). The last are fixed unless `update` computes them from prior
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
        if update is not None:
            shares = update(x, tokens)
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
    logs, digammas = np.empty(lam.size), np.empty(lam.size)
    log_gamma(lam.ravel(), logs, digammas)
    total, missing = lam.sum(axis=1) + n_unseen * eta, sums - topics
    gained = logs.reshape(lam.shape).sum(axis=1) - gammaln(total)
    gained -= n_words * gammaln(eta) - gammaln((n_words + n_unseen) * eta)
    gained += (missing * digammas.reshape(lam.shape)).sum(axis=1)
    return gained - psi(total) * missing.sum(axis=1)


# Settings of the moves of an HDP that users may choose.


LEAST = {"births": 0, "trial_passes": 1}
CHOICES = {"algorithm": ("default", "paper")}


@dataclass(frozen=True, slots=True, repr=False)
class SplitMerge:
    """Settings of the moves and trials that choose the number of topics of an HDP.

    Documents that are held out judge numbers of topics by how well they are predicted.
    `SplitMerge.paper()` are the moves of Bryant and Sudderth (2012).

    Parameters
    ----------
    births : bool
        Whether trials add topics.
    trial_passes : int
        Passes of a trial.
    prune_tokens : float
        A topic with fewer expected tokens of the corpus ends (0: none does).
    reservoir_tokens : int
        Tokens of documents that are kept of a stream, to try other numbers of topics
        on, and at least 1,000 documents; 0 keeps none, and tries none.
    algorithm : {"default", "paper"}
        "paper": Algorithm 2 of Bryant and Sudderth (2012) as printed, see `paper`. It
        reads `max_splits` alone.
    max_splits : int
        Splits that a minibatch makes, at most (paper).
    """

    births: bool = True
    trial_passes: int = 4
    prune_tokens: float = 1.0
    reservoir_tokens: int = 1_500_000
    algorithm: Literal["default", "paper"] = "default"
    max_splits: int = 1

    @classmethod
    def paper(cls) -> "SplitMerge":
        """Return the moves of Algorithm 2 of Bryant and Sudderth (2012) [1]_.

        For `HDP` with ``variational_family="mean_field"``, ``learning_method="online"``
        and ``warm_up=0``. A minibatch S of a corpus of D documents is visited once.

        - Merges (section 3.2; lines 9 to 13), before the update: of all pairs of topics
          whose theta_jk have a positive covariance in the minibatch, those that raise
          the bound (2), its documents those of the minibatch, each D / S times for S
          documents, under the topics before the update; the best first, each topic in
          one at most.
        - The update, Eqs. (6) and (7).
        - Splits (section 3.1; lines 15 to 20): all topics in turn, until one split
          (`max_splits`) has raised the bound of the same documents, with the
          responsibilities that they had before the update. Children start with
          (1 - rho) lambda_k and rho lambda^_k, and follow by the restricted iteration.

        No difference needs to be larger than its error, no topic waits, and none ends
        but by a merge.

        Departures that remain, as what is printed is no difference of two bounds:
        children share the responsibilities of their parent, r' + r'' = r, where the
        paper normalises them over all topics while others stay; both lambda^ and
        lambda' + lambda'' count the prior once; the restricted iteration updates the
        children's topics after each sweep over the minibatch, four times, to its own
        sufficient statistics; theta follows the updated beta where splits are judged;
        a child has at least one expected token of the corpus; and a topic that no
        document of the minibatch uses is compared with all others, for a count below
        1e-9 is zero here and has no covariance.

        Returns
        -------
        moves : SplitMerge

        References
        ----------
        .. [1] Michael Bryant and Erik B. Sudderth, "Truly Nonparametric Online
           Variational Inference for Hierarchical Dirichlet Processes", Advances in
           Neural Information Processing Systems 25, 2012.
        """
        return cls(algorithm="paper")

    def __post_init__(self) -> None:
        check_settings(self, CHOICES, LEAST)

    def __repr__(self) -> str:
        return repr_settings(self, self.paper)


@dataclass(eq=False)
class PrintedMoves(Moves):
    """Moves that one minibatch judges: merges before its update, splits after it."""

    moves: SplitMerge
    _is_looking: bool = False
    # Of each topic, by id: columns in the local step, weight before the update.
    _columns: dict[int, list[int]] = field(default_factory=dict)
    _weights: dict[int, float] = field(default_factory=dict)

    def block_hook(self, learner: Learner) -> Callable[[BlockVisit], BlockVisit]:
        """Return a hook that keeps blocks: pairs to compare depend on all of them."""
        self._is_looking = True
        return _keep

    def end_local_step(
        self, learner: Learner, round: Round, results: LocalResults
    ) -> LocalResults:
        """Merge pairs of topics if the minibatch's bound rises (lines 9 to 13)."""
        if not self._is_looking:
            return results
        (result,), posterior = results, learner.posterior
        self._columns = {name: [column] for name, column in posterior.columns.items()}
        result = self._merge(posterior, result, round.scale)
        weights = posterior.state.topic_weights.tolist()
        self._weights = dict(zip(posterior.ids.tolist(), weights, strict=True))
        return [result]

    def end_round(self, learner: Learner, round: Round, results: LocalResults) -> None:
        """Split topics if that raises the bound of the minibatch (lines 15 to 20)."""
        if self._is_looking:
            self._is_looking = False
            n_docs = round.scale * round.n_docs
            self._split(learner.posterior, results[0], n_docs, round.step)

    def _merge(
        self, posterior: HDPPosterior, result: Collected, scale: float
    ) -> Collected:
        """Merge disjoint pairs in place, best first; return the merged result."""
        pairs, state = covarying_pairs(result.doc_topic), posterior.state
        pairs = pairs[~posterior.global_stats.topic_words.is_known[pairs].any(axis=1)]
        comparison = MergeComparison(pairs)
        sums = sum(map(comparison, result.seen), np.zeros((len(pairs), 2)))
        gains = scale * sums[:, 1] + words_gains(
            posterior.global_stats.topic_words,
            result.stats.topic_words,
            scale,
            state.topic_word_prior,
            pairs,
        )
        chosen = best_disjoint(pairs.tolist(), gains)
        if not len(chosen):
            return result
        places = pairs[chosen, ::-1].tolist()  # the second joins the first
        names = [tuple(posterior.ids[place].tolist()) for place in places]
        posterior.merge(names)
        for source, target in names:
            self._columns[target] += self._columns.pop(source)
        memo = PartMemo(result.stats, result.doc_topic, result.n_tokens)
        _, (memo,) = refreshed(posterior, [memo.merged(places, sums[chosen, 0])])
        return Collected(memo.stats, result.n_tokens, result.seen, memo.doc_topic)

    def _split(
        self, posterior: HDPPosterior, result: Collected, n_docs: float, step: float
    ) -> None:
        """Try to split each topic in turn, until enough splits raised the bound."""
        names, n_accepted = posterior.ids.tolist(), 0
        n_here = len(result.n_tokens)
        for column, name in enumerate(names):
            if posterior.global_stats.topic_words.is_known[column]:
                continue
            is_full = len(posterior.ids) >= posterior.max_components
            if n_accepted == self.moves.max_splits or is_full:
                return
            state, words = posterior.state, posterior.global_stats.topic_words
            collect, seen = Collection(self._columns[name]), words.seen
            joined = Parts.joined(
                [part for one in result.seen for part in collect(one)]
            )
            parent = Parent.among(
                Parts(seen.rows_of(joined.words), joined.rows, joined.mass),
                float(state.doc_prior[column]),
                words.column(column),
                (n_here, n_docs),
                seen.n_unseen,
            )
            share = (1.0 - step) * self._weights[name] / state.topic_weights[column]
            children, eta = start(parent, share, step), state.topic_word_prior
            if children is None:
                continue
            children = fit_children(parent, children, eta)
            if gain(parent, children, eta) > 0.0:
                posterior.split(name, children.topics, children.shares)
                n_accepted += 1


def _keep(block: BlockVisit) -> BlockVisit:
    """Block hook that keeps the whole block with its responsibilities."""
    return block


def covarying_pairs(doc_topic: sp.csr_array) -> Ints32:
    """Pairs of topics whose counts in documents have positive covariance, (n, 2).

    And pairs of which one is used by no document: its counts are too small to be
    stored, so that the sign of the covariance is unknown.
    """
    n_docs, n_topics = doc_topic.shape
    mean = np.asarray(doc_topic.mean(axis=0)).ravel()
    covariance = (doc_topic.T @ doc_topic).toarray() / n_docs - np.outer(mean, mean)
    one, other = np.triu_indices(n_topics, 1)
    chosen = covariance[one, other] > 0.0
    chosen |= (mean[one] == 0.0) | (mean[other] == 0.0)
    return np.column_stack([one[chosen], other[chosen]]).astype(np.int32)


def words_gains(
    topics: WordTopics, results: WordRows, scale: float, eta: float, pairs: Ints32
) -> Array:
    """Gains of the words of pairs of topics that merge, (n_pairs,), nats of the corpus.

    Differences of E[log p(words)] - KL(q(phi) || p(phi)), with the words of a minibatch
    times `scale`, and q(phi) that before its update.
    """
    seen = topics.seen.with_words(results.words)
    topic_counts, n_unseen = topics.rows(seen.words), seen.n_unseen
    sums = np.zeros_like(topic_counts)
    sums[seen.rows_of(results.words)] = scale * results.values.toarray()
    topic_counts = np.ascontiguousarray(topic_counts.T)
    sums = np.ascontiguousarray(sums.T)
    alone = words_term(eta, topic_counts, sums, n_unseen)
    gains = np.empty(len(pairs))
    for index, (one, other) in enumerate(pairs):
        both = topic_counts[[one]] + topic_counts[[other]], sums[[one]] + sums[[other]]
        gains[index] = words_term(eta, *both, n_unseen)[0] - alone[one] - alone[other]
    return gains
