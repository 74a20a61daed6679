"""Caches of the statistics of parts of a corpus, for both families of the HDP."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from skbnp.components.statistics import WordStats
from skbnp.components.word_topics import WordRows, WordTopics, remaining
from skbnp.inference.executor import commit
from skbnp.inference.memory import DocumentWeights, Remembered
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Collected
from skbnp.inference.schedules import Part
from skbnp.models.hdp.collapsed_model import CollapsedStats
from skbnp.models.hdp.model import HDPStats, TopicStatsT
from skbnp.utils.typing import Array

Pairs = Sequence[tuple[int, int]]

#: Updates of the weights after a pass, each with fresh tangents.
N_REFRESHES = 3


@dataclass(frozen=True, slots=True)
class Memo:
    """Cached statistics of one batch, and the expected counts of its documents.

    Exact zeros are not stored: memory is proportional to the pairs in use. A memo is
    replaced, never changed, so that a copy of a list of memos is a copy of the state.
    """

    stats: HDPStats[WordRows]
    doc_topic: sp.csr_array  # (n_docs, K) N
    n_tokens: Array  # (n_docs,)

    def merged(self, pairs: Pairs, losses: Array) -> "Memo":
        """Add topics of pairs (source, target); subtract their `losses` of entropy."""
        sources, targets = np.transpose(pairs)
        entropy = self.stats.entropy.copy()
        entropy[targets] += entropy[sources] - losses
        return self._mapped(pairs, sources, entropy)

    def without(self, columns: Sequence[int]) -> "Memo":
        """Remove topics that no document uses."""
        return self._mapped([], columns, self.stats.entropy)

    def _mapped(self, pairs: Pairs, gone: Sequence[int], entropy: Array) -> "Memo":
        """Return the memo with pairs of topics added up, and topics left out."""
        moved = _moved(len(entropy), pairs, gone)
        stats = dropped(replace(self.stats, entropy=entropy), gone, pairs)
        return replace(
            self, stats=stats, doc_topic=sp.csr_array(self.doc_topic @ moved)
        )


def _moved(n_topics: int, pairs: Pairs, gone: Sequence[int]) -> sp.csr_array:
    """Matrix (K, K') that adds sources to targets, and leaves out topics."""
    moved = sp.eye_array(n_topics, format="lil")
    for source, target in pairs:
        moved[source, target] = 1.0
    return sp.csr_array(moved.tocsc()[:, remaining(n_topics, gone)])


def dropped(stats: TopicStatsT, gone: Sequence[int], pairs: Pairs = ()) -> TopicStatsT:
    """Return statistics without topics; in `pairs` their words go to others."""
    rows = stats.topic_words
    n_topics = rows.values.shape[1]
    order, moved = remaining(n_topics, gone), _moved(n_topics, pairs, gone)
    words = WordRows(rows.words, sp.csr_array(rows.values @ moved))
    return replace(stats.with_columns(itemgetter(order)), topic_words=words)


def refreshed(
    posterior: Posterior, memos: Iterable[Memo]
) -> tuple[HDPStats, list[Memo]]:
    """Return totals and memos with tangents at present weights: an exact bound."""
    new = []
    for memo in memos:
        stats = posterior.model.statistics(
            posterior.state,
            memo.stats.topic_words,
            memo.stats.entropy,
            memo.doc_topic,
            memo.n_tokens,
        )
        new.append(replace(memo, stats=stats))
    global_stats = posterior.global_stats
    return _with_sums(
        global_stats, [memo.stats for memo in new], global_stats.topic_words
    ), new


def _with_sums(
    global_stats: TopicStatsT, parts: list[TopicStatsT], words: WordTopics
) -> TopicStatsT:
    """Return totals of given words, all other statistics summed over parts."""
    sums = {
        item.name: sum(getattr(stats, item.name) for stats in parts)
        for item in fields(global_stats)
        if item.name != "topic_words"
    }
    return replace(global_stats, topic_words=words, **sums)


def resummed(parts: Iterable[WordStats], global_stats: WordTopics) -> WordTopics:
    """Sum the words of topics over parts again, which removes rounding errors."""
    words = global_stats.emptied()
    for stats in parts:
        words.add(stats.topic_words)
    return words


class MeanFieldCache(Remembered[Collected, Memo]):
    """Cache that the exact bound needs; with one part this is the batch algorithm."""

    def initial_local(self, part: Part) -> sp.csr_array | None:
        """Return the expected counts of the documents of a part."""
        return self.memos[part.number].doc_topic if self.is_complete else None

    def _memo(self, results: Collected) -> Memo:
        return Memo(results.stats, results.doc_topic, results.n_tokens)

    def _recompute_sums(self, posterior: Posterior) -> None:
        """Sum the statistics of all parts again into the totals."""
        stats = (memo.stats for memo in self.memos)
        words = resummed(stats, posterior.global_stats.topic_words)
        with commit():
            posterior.global_stats = replace(posterior.global_stats, topic_words=words)
        self.refresh(posterior)

    def refresh(self, posterior: Posterior) -> None:
        """Update the weights and the tangent points: the bound is exact then."""
        for _ in range(N_REFRESHES):
            global_stats, self.memos = refreshed(posterior, self.memos)
            state = posterior.model.update(posterior.state, global_stats)
            with commit():
                posterior.state, posterior.global_stats = state, global_stats
        posterior.global_stats, self.memos = refreshed(posterior, self.memos)

    def drop(self, columns: Sequence[int]) -> None:
        """Remove topics; documents lose these shares until the next local step."""
        self.memos = [memo.without(columns) for memo in self.memos]


class Statistics(NamedTuple):
    """Cached statistics of a part."""

    stats: CollapsedStats[WordRows]


@dataclass(eq=False, repr=False)
class CollapsedCache(Remembered[Collected, Statistics]):
    """Cache of the collapsed HDP, without a bound: statistics, document weights."""

    # How often the totals count the documents before the first pass.
    document_weights: DocumentWeights = field(kw_only=True)

    def initial_local(self, part: Part) -> Array:
        """Return the effective counts of the documents of a part."""
        if self.is_complete:
            return np.ones(len(part.rows))
        return self.document_weights.initial_local(part)

    def _memo(self, results: Collected) -> Statistics:
        return Statistics(results.stats)

    def _recompute_sums(self, posterior: Posterior) -> None:
        """Sum the statistics of all parts again into the totals."""
        global_stats = posterior.global_stats
        stats = [memo.stats for memo in self.memos]
        words = resummed(stats, global_stats.topic_words)
        with commit():
            posterior.global_stats = _with_sums(global_stats, stats, words)
            posterior.state = posterior.model.update(
                posterior.state, posterior.global_stats
            )

    def refresh(self, posterior: Posterior) -> None:
        """Do nothing: statistics do not depend on the weights."""

    def drop(self, columns: Sequence[int]) -> None:
        """Remove topics from the statistics of all parts."""
        stats = (dropped(memo.stats, columns) for memo in self.memos)
        self.memos = [Statistics(left) for left in stats]
