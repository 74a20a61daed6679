"""Merge topics of the HDP (section 3.2 of Bryant and Sudderth 2012).

r_k = r_k' + r_k'', theta, beta and S likewise, so lambda = lambda' + lambda'' - eta
(the paper's lambda' + lambda'' counts the prior twice). The bound changes by

    sum_j gain_j + logB(eta + S' + S'') - logB(eta + S') - logB(eta + S'') + logB(eta),

gain_j of the document j as in `compare_merges`. A corpus, or a long enough stream,
tells the sum over documents; the words' part is that of the totals.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.word_topics import WordTopics
from skbnp.distributions.dirichlet import log_growth
from skbnp.kernels._merge import compare_merges
from skbnp.models.hdp.local import BlockVisit
from skbnp.utils.typing import Array

Pair = tuple[int, int]

#: Pairs looked at per topic.
PAIRS_PER_TOPIC = 3


@dataclass(frozen=True, slots=True)
class MergeComparison:
    """Block hook that sums losses and gains of documents for pairs that may merge."""

    pairs: NDArray[np.int32]  # (n_pairs, 2)

    def __call__(self, block_visit: BlockVisit) -> Array:
        """Sums of loss, gain and squared gain, (n_pairs, 3), in nats."""
        sums, block = np.zeros((len(self.pairs), 3)), block_visit.block
        if len(self.pairs):
            doc_topic = block_visit.doc_topic
            compare_merges(
                block.indptr,
                block.indices,
                block.counts,
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


def comparison(pairs: list[Pair]) -> MergeComparison | None:
    """Return a hook that compares pairs of columns, or None if there are none."""
    return MergeComparison(np.array(pairs, dtype=np.int32)) if pairs else None


def candidates(doc_topic: sp.csr_array, words: sp.csr_array) -> list[Pair]:
    """Pairs of topics that may be merged: at most 3 K, the most similar first.

    Pairs of positively correlated theta_jk alternate with pairs of similar words:
    copies of one topic that share its documents are not correlated. `words` are the
    counts of some words, (n_words, K).
    """
    n_docs, n_topics = doc_topic.shape
    one, other = np.triu_indices(n_topics, 1)
    mean = np.asarray(doc_topic.mean(axis=0)).ravel()
    products = (doc_topic.T @ doc_topic).toarray() - n_docs * np.outer(mean, mean)
    correlation = _scaled(products)[one, other]
    likeness = _scaled((words.T @ words).toarray())[one, other]
    best = np.argsort(-correlation, kind="stable")
    alike = np.argsort(-likeness, kind="stable")
    order = np.column_stack([best, alike]).ravel()
    useful = np.column_stack([correlation[best] > 0.0, likeness[alike] > 0.5]).ravel()
    order = order[useful]
    _, first = np.unique(order, return_index=True)
    order = order[np.sort(first)][: PAIRS_PER_TOPIC * n_topics]
    return list(zip(one[order].tolist(), other[order].tolist(), strict=True))


def sparing(pairs: list[Pair], words: WordTopics) -> list[Pair]:
    """Leave out pairs whose merge would end or change a known topic.

    The second of a pair is merged into the first: known topics come first.
    """
    is_known, is_fixed = words.is_known, words.is_fixed
    if not is_known.any():
        return pairs
    turned = [(n, k) if is_known[n] else (k, n) for k, n in pairs]
    return [(k, n) for k, n in turned if not is_known[n] and not is_fixed[k]]


def _scaled(products: Array) -> Array:
    """Products of columns over their norms; zero for empty columns."""
    length = np.sqrt(np.maximum(np.diag(products), 0.0))
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0.0)
    return scale[:, None] * products * scale


def documents_gain(
    prior: Array, doc_topic: sp.csc_array, one: int, other: int
) -> float:
    """Gain of the bound by merging two topics, of documents but for entropy, nats."""
    start, rows, tokens = doc_topic.indptr, doc_topic.indices, doc_topic.data
    first, second = (slice(start[k], start[k + 1]) for k in (one, other))
    _, shared, shared_too = np.intersect1d(
        rows[first], rows[second], assume_unique=True, return_indices=True
    )
    joint = tokens[first].copy()
    joint[shared] += tokens[second][shared_too]
    alone = np.delete(tokens[second], shared_too)
    gain = log_growth(prior[one] + prior[other], np.concatenate([joint, alone])).sum()
    gain -= log_growth(prior[one], tokens[first]).sum()
    gain -= log_growth(prior[other], tokens[second]).sum()
    return float(gain)


def words_gain(words: WordTopics, eta: float, one: int, other: int) -> float:
    """Gain of the bound by merging two topics, of their words, in nats."""
    total = words.total[[one, other]]
    alone = log_growth(words.shape[0] * eta, total).sum()
    together = log_growth(words.shape[0] * eta, total.sum())
    return float(alone - together) + words.joint_growth(eta, one, other)


def best_disjoint(pairs: list[Pair], gains: Sequence[float] | Array) -> list[int]:
    """Positions of pairs with positive gain, best first, that share no member."""
    chosen: list[int] = []
    taken: set[int] = set()
    for index in np.argsort(-np.asarray(gains), kind="stable").tolist():
        if gains[index] <= 0.0:
            break
        if taken.isdisjoint(pairs[index]):
            taken |= set(pairs[index])
            chosen.append(index)
    return chosen
