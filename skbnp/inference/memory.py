"""What each batch of a corpus said when it was last visited."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.documents import Collected
from skbnp.inference.posterior import Posterior
from skbnp.models.statistics import WordRows, WordTopics, remaining

__all__ = ["Memo", "doc_topic", "dropped", "refreshed", "resummed"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Memo:
    """Statistics of one batch, and the expected counts of its documents.

    Exact zeros are not stored: memory is that of the pairs in use. Never changed, but
    replaced, so that who holds an old list of memos holds an old state.
    """

    stats: Any  # with WordRows
    doc_topic: sp.csr_array  # (n_docs, K) N
    n_tokens: Array  # (n_docs,)
    losses: Array  # (n_pairs,) of entropy if the pairs that were compared merge, nats

    @classmethod
    def of(cls, found: Collected, losses: Array) -> "Memo":
        """Keep what a visit found."""
        return cls(found.stats, found.doc_topic, found.n_tokens, losses)

    def merged(self, pairs: Sequence[tuple[int, int]], losses: Array) -> "Memo":
        """Add sources to targets; `losses` of entropy go with the pairs."""
        sources, targets = np.transpose(pairs)
        entropy = self.stats.entropy.copy()
        entropy[targets] += entropy[sources] - losses
        return self._mapped(pairs, sources, entropy)

    def without(self, columns: Sequence[int]) -> "Memo":
        """Drop topics that no document uses."""
        return self._mapped([], columns, self.stats.entropy)

    def _mapped(self, pairs: Any, gone: Any, entropy: Array) -> "Memo":
        moved = _moved(len(entropy), pairs, gone)
        stats = dropped(replace(self.stats, entropy=entropy), gone, pairs)
        return replace(
            self, stats=stats, doc_topic=sp.csr_array(self.doc_topic @ moved)
        )


def _moved(n_topics: int, pairs: Any, gone: Any) -> sp.csr_array:
    """Matrix that adds sources to targets, and leaves out topics."""
    moved = sp.eye_array(n_topics, format="lil")
    for source, target in pairs:
        moved[source, target] = 1.0
    return sp.csr_array(moved.tocsc()[:, remaining(n_topics, gone)])


def dropped(stats: Any, gone: Any, pairs: Any = ()) -> Any:
    """Statistics of a visit without some topics, whose words may go to others."""
    rows = stats.topic_words
    n_topics = rows.values.shape[1]
    order, moved = remaining(n_topics, gone), _moved(n_topics, pairs, gone)
    small = {name: getattr(stats, name)[order] for name in stats.columns}
    words = WordRows(rows.words, sp.csr_array(rows.values @ moved))
    return replace(stats, topic_words=words, **small)


def doc_topic(memos: Iterable[Memo]) -> sp.csc_array:
    """Expected counts of all documents, (n_docs, K)."""
    return sp.csc_array(sp.vstack([memo.doc_topic for memo in memos]))


def refreshed(posterior: Posterior, memos: Iterable[Memo]) -> tuple[Any, list[Memo]]:
    """Move all tangents to the present weights: totals and memos, the bound exact."""
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
    totals = posterior.totals
    small = {
        item.name: sum(getattr(memo.stats, item.name) for memo in new)
        for item in fields(totals)
        if item.name != "topic_words"
    }
    return replace(totals, **small), new


def resummed(memos: Iterable[Any], n_words: int, n_topics: int) -> WordTopics:
    """Sum of the topics' words of statistics; earlier rounding errors are gone."""
    words = WordTopics(np.zeros((n_words, n_topics)))
    for stats in memos:
        words.add(stats.topic_words)
    return words
