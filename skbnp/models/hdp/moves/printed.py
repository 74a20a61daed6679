"""Moves of the HDP by Algorithm 2 of Bryant and Sudderth (2012), as it is printed.

A minibatch is visited once. Before its update all pairs of topics of positive
covariance are compared, after it all topics are tried for a split, with the
responsibilities of that visit. What is no difference of the bound as it is printed is
corrected: see the derivations.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from skbnp.components.word_topics import WordRows, WordTopics
from skbnp.inference.engine import Learner
from skbnp.inference.posterior import Merge, Split, apply
from skbnp.inference.protocols import Collected, LocalResults, Moves
from skbnp.inference.schedules import Round
from skbnp.kernels._special import log_gamma
from skbnp.models.hdp.local import BlockVisit
from skbnp.models.hdp.memory import Memo, refreshed
from skbnp.models.hdp.moves import merge as hdp_merge
from skbnp.models.hdp.moves import split as hdp_split
from skbnp.models.hdp.moves.settings import SplitMerge
from skbnp.models.hdp.posterior import HDPPosterior
from skbnp.utils.matching import best_disjoint
from skbnp.utils.typing import Array, Ints32


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
        comparison = hdp_merge.MergeComparison(pairs)
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
        apply(Merge(names), posterior)
        for source, target in names:
            self._columns[target] += self._columns.pop(source)
        memo = Memo(result.stats, result.doc_topic, result.n_tokens)
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
            block_hook = hdp_split.Collection(self._columns[name])
            parts = [part for block in result.seen for part in block_hook(block)]
            joined = hdp_split.Parts.joined(parts)
            seen = words.seen
            parent = hdp_split.Parent.among(
                hdp_split.Parts(seen.rows_of(joined.words), joined.rows, joined.mass),
                float(state.doc_prior[column]),
                words.column(column),
                (n_here, n_docs),
                seen.n_unseen,
            )
            share = (1.0 - step) * self._weights[name] / state.topic_weights[column]
            children = hdp_split.start(parent, share, step)
            n_accepted += split_topic(posterior, name, parent, children)


def split_topic(
    posterior: HDPPosterior,
    name: int,
    parent: hdp_split.Parent,
    children: hdp_split.Children | None,
) -> bool:
    """Split a topic in place if fitted children raise the bound of its documents."""
    if children is None:
        return False
    eta = posterior.state.topic_word_prior
    children = hdp_split.fit_children(parent, children, eta)
    if not hdp_split.gain(parent, children, eta) > 0.0:
        return False
    apply(Split(name, posterior.n_named, children.topics, children.shares), posterior)
    return True


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
    topics: WordTopics,
    results: WordRows,
    scale: float,
    eta: float,
    pairs: Ints32,
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
    alone = [
        _words_term(*topic, eta, n_unseen)
        for topic in zip(topic_counts, sums, strict=True)
    ]
    gains = np.empty(len(pairs))
    for index, (one, other) in enumerate(pairs.tolist()):
        both = topic_counts[one] + topic_counts[other], sums[one] + sums[other]
        gains[index] = _words_term(*both, eta, n_unseen) - alone[one] - alone[other]
    return gains


def _words_term(topic: Array, sums: Array, eta: float, n_unseen: int) -> float:
    """E[log p(words)] - KL(q || p) of one topic eta + T for other sums, nats.

    As `words_term` of splits, with a faster log Gamma function for many pairs.
    """
    lam, logs, digammas = eta + topic, np.empty_like(topic), np.empty_like(topic)
    log_gamma(lam, logs, digammas)
    prior = (len(topic) + n_unseen) * eta
    total = np.array([prior + topic.sum()])
    log_total, digamma = np.empty(1), np.empty(1)
    log_gamma(total, log_total, digamma)
    gained = logs.sum() - len(topic) * gammaln(eta) - log_total[0] + gammaln(prior)
    missing = sums - topic
    return float(gained + missing @ digammas - digamma[0] * missing.sum())
