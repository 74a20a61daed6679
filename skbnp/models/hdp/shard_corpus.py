"""Corpus of an HDP with documents in shards, and their weights in the totals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from skbnp.components.word_topics import WordTopics, remaining
from skbnp.inference.memory import DocumentCache, DocumentWeights
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Collected, DocumentLocalStep, Visit
from skbnp.inference.schedules import Part, Round
from skbnp.inference.shards import Broadcast, Shards
from skbnp.models.hdp import shard_tasks as tasks
from skbnp.models.hdp.held_out import HeldOut, deal, n_held_out
from skbnp.models.hdp.shard_schedules import Block
from skbnp.rows.scales import Scales
from skbnp.rows.survey import CountSurvey, WordUses
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Array, Ints


@dataclass(frozen=True, slots=True)
class Survey:
    """Numbers of documents and tokens of all shards, before learning begins."""

    shards: Shards
    n_docs: Ints  # (n_shards,) with tokens
    counts: CountSurvey  # of all shards
    scales: Scales  # rows are numbered as if all shards were stacked
    words: WordUses

    @classmethod
    def of(cls, shards: Shards) -> "Survey":
        """Survey the documents of all shards."""
        numbers = range(len(shards.n_rows))
        nothing = sp.csr_array((0, shards.n_features))
        results = shards.map(tasks.measure, numbers)
        surveys = [survey for survey, _ in results]
        words = WordUses.of(nothing)
        if surveys:
            words = shards.total(tasks.count_words, numbers)
        return cls(
            shards,
            np.array([survey.n_docs for survey in surveys], dtype=np.intp),
            reduce(CountSurvey.plus, surveys, CountSurvey.of(nothing)),
            reduce(Scales.plus, (scales for _, scales in results), Scales.of(nothing)),
            words,
        )

    @property
    def n_tokens(self) -> float:
        """Number of tokens."""
        return self.counts.n_tokens

    @property
    def shape(self) -> tuple[int, int]:
        """Documents with tokens, and words of the vocabulary."""
        return int(self.n_docs.sum()), len(self.words.counts)


class LastBroadcast(NamedTuple):
    """Topics' words that were sent last, and the shards that have them."""

    shards: set[int]
    words: WordTopics
    table_prior: float | None
    ids: Ints
    changed: Callable[..., tasks.ChangedWords]  # given ends, sums and scale of topics

    def change(
        self, posterior: Posterior, shards: set[int]
    ) -> tasks.ChangedWords | None:
        """Return the change since the last one; None if one of `shards` lacks that."""
        words, old, new = posterior.global_stats.topic_words, self.ids, posterior.ids
        if words is not self.words or not shards <= self.shards:
            return None
        if words.table_prior != self.table_prior:
            return None
        gone = np.flatnonzero(~np.isin(old, new)).tolist()
        if not np.array_equal(old[remaining(len(old), gone)], new):
            return None
        return self.changed(gone, words.total.copy(), words.scale)


class Sent:
    """What was sent to shards at the last local step; not saved."""

    def __init__(self) -> None:
        self.last: LastBroadcast | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Sent, ()


@dataclass(frozen=True, slots=True)
class ShardCorpus:
    """Documents by shard, all or all except held-out ones; replaces a `Corpus`.

    Documents are numbered as if all shards were stacked, without the documents left
    out.
    """

    shards: Shards
    cut: tasks.Cut
    sizes: Ints  # (n_shards, n_blocks) documents
    words: Array  # (n_features,) counts
    n_tokens: float
    left_out: tuple[Ints, ...]  # of each shard
    sent: Sent = field(default_factory=Sent)

    @classmethod
    def of(cls, results: Survey, seed_entropy: int, n_blocks: int) -> "ShardCorpus":
        """Cut each shard into `n_blocks` random blocks, by the entropy of a fit."""
        cut, nothing = tasks.Cut(seed_entropy, n_blocks), np.zeros(0, np.intp)
        sizes = [np.diff(cut.limits(n_docs)) for n_docs in results.n_docs.tolist()]
        return cls(
            results.shards,
            cut,
            np.array(sizes, dtype=np.intp).reshape(-1, cut.n_blocks),
            results.words.counts,
            results.n_tokens,
            tuple(nothing for _ in sizes),
        )

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return int(self.sizes.sum())

    @property
    def n_features(self) -> int:
        """Size of the vocabulary."""
        return len(self.words)

    def word_counts(self) -> Array:
        """Return the counts of all documents by word, (n_features,)."""
        return self.words.copy()

    def fetch(self, numbers: Ints) -> sp.csr_array:
        """Return documents by their numbers over all shards, counted from 0."""
        numbers = np.asarray(numbers)
        ends = np.cumsum(self.sizes.sum(axis=1))
        shard = np.searchsorted(ends, numbers, side="right")
        wanted = dict[int, Ints]()
        for at in np.unique(shard).tolist():
            here = numbers[shard == at] - (ends[at] - self.sizes[at].sum())
            left_out = self.left_out[at]  # each is passed by who stands behind it
            before = left_out - np.arange(len(left_out))
            wanted[at] = here + np.searchsorted(before, here, side="right")
        order = np.concatenate([np.flatnonzero(shard == at) for at in wanted])
        back = np.empty(len(numbers), np.intp)
        back[order] = np.arange(len(numbers))
        return self._draw(wanted).counts[back]

    def densest(self, words: Array, n_docs: int) -> list[Ints]:
        """Numbers of the documents in which sets of words are densest, see `Corpus`."""
        numbers = range(len(self.sizes))
        sets = tasks.SeedSets(words, n_docs, self.left_out)
        replies = self.shards.map(tasks.find_densest, numbers, Broadcast(sets))
        sizes = self.sizes.sum(axis=1)
        before = np.cumsum(sizes) - sizes
        result = list[Ints]()
        for one in range(words.shape[1]):
            density = np.concatenate([reply[one][0] for reply in replies])
            rows = [n + reply[one][1] for n, reply in zip(before, replies, strict=True)]
            order = np.argsort(-density, kind="stable")[:n_docs]
            result.append(np.concatenate(rows)[order])
        return result

    def _draw(self, wanted: dict[int, Ints]) -> tasks.Drawn:
        """Return documents of shards, and how many are of each block."""
        numbers = sorted(wanted)
        result = self.shards.map(tasks.draw, numbers, Broadcast(self.cut), wanted)
        by_block = np.zeros_like(self.sizes)
        by_block[numbers] = [one.by_block for one in result]
        counts = sp.vstack([one.counts for one in result], format="csr")
        return tasks.Drawn(sp.csr_array(counts), by_block)

    def hold_out(self, *place: int) -> HeldOut | None:
        """Hold out documents; `place` names the random stream."""
        if self.n_docs == 0:
            return None
        numbers, seed_entropy = range(len(self.sizes)), self.cut.seed_entropy
        cut = Broadcast(self.cut)
        result = self.shards.map(tasks.find_candidates, numbers, cut, place)
        keys, rows, lengths = (
            np.concatenate(part) for part in zip(*result, strict=True)
        )
        shard = np.repeat(numbers, [len(one.keys) for one in result])
        order = np.lexsort((rows, shard, keys))
        chosen = order[: n_held_out(self.n_docs, lengths[order])]
        left_out = tuple(np.sort(rows[chosen[shard[chosen] == at]]) for at in numbers)
        if len(chosen) == 0:
            return None
        drawn = self._draw({at: some for at, some in enumerate(left_out) if len(some)})
        folds = deal(drawn.counts, stream(seed_entropy, Purpose.SPLIT_TOKENS, *place))
        if folds is None:
            return None
        words = np.asarray(drawn.counts.sum(axis=0)).ravel()
        train = replace(
            self,
            sizes=self.sizes - drawn.by_block,
            words=np.maximum(self.words - words, 0.0),
            n_tokens=self.n_tokens - float(words.sum()),
            left_out=left_out,
        )
        return HeldOut(train, left_out, *folds)

    def update_local(
        self,
        local_step: DocumentLocalStep,
        posterior: Posterior,
        round: Round,
        visits: Sequence[Visit],
    ) -> list[Collected]:
        """Run the local step of blocks on their shards; return the sum of results.

        Processes that have the words of topics receive the changes; if any lacks these,
        all receive the whole.
        """
        if visits[0].block_hook is not None:
            raise ValueError("No move looks at documents in shards.")
        orders, parts = dict[int, tasks.Order](), cast(tuple[Block, ...], round.parts)
        for part, visit in zip(parts, visits, strict=True):
            new = tasks.Order(self.left_out[part.shard], [])
            order = orders.setdefault(part.shard, new)
            order.blocks.append((part.place, visit.remembered))
        words, last = posterior.global_stats.topic_words, self.sent.last
        self.sent.last = None  # until the round has ended
        change = None if last is None else last.change(posterior, set(orders))
        for sent_words in (change, tasks.WholeWords(words)):
            if sent_words is None:
                continue
            broadcast = Broadcast(
                tasks.Globals(
                    self.cut,
                    posterior.model,
                    posterior.state,
                    sent_words,
                    local_step.step,
                    local_step.stop,
                    visits[0].weighting,
                )
            )
            local_stats = self.shards.total(
                tasks.update_local, sorted(orders), broadcast, orders
            )
            if local_stats.stats is not None:
                break
        if not self.shards.is_lasting:
            ids, rows = posterior.ids.copy(), local_stats.stats.topic_words
            step = 1.0 - round.step, round.step * round.scale
            changed = partial(tasks.ChangedWords, broadcast.name, rows, *step)
            self.sent.last = LastBroadcast(
                set(orders), words, words.table_prior, ids, changed
            )
        return [Collected(local_stats.stats, np.zeros(0), [])]


class BlockDocumentWeights(DocumentCache):
    """Effective counts of the documents of each block in the totals.

    Documents of a block are updated together, so that their weights are equal, except
    those of documents that were held out at first.
    """

    _times: DocumentWeights
    _times_of_newcomers: DocumentWeights
    _n_blocks: int
    _newcomers: tuple[Ints, ...]

    def __init__(
        self, n_blocks: int, start: float = 0.0, newcomers: Sequence[Ints] = ()
    ):
        """Start with the weight `start` for the documents of each block."""
        self._times = DocumentWeights(n_blocks, start)
        self._times_of_newcomers = DocumentWeights(n_blocks)
        self._n_blocks, self._newcomers = n_blocks, tuple(newcomers)

    def empty(self) -> "BlockDocumentWeights":
        """Return weights for totals without any of the documents."""
        return BlockDocumentWeights(self._n_blocks, newcomers=self._newcomers)

    def spread(self, newcomers: Sequence[Ints], n_docs: int) -> "BlockDocumentWeights":
        """Return the weights with those of documents that were left out, by shard."""
        other = BlockDocumentWeights(self._n_blocks, newcomers=newcomers)
        other._times = self._times.copy()
        return other

    def initial_local(self, part: Part) -> tasks.BlockWeights:
        """Return the effective counts of the documents of a block."""
        block, at = cast(Block, part), Part(part.number, np.array([part.number]))
        some = self._newcomers[block.shard] if self._newcomers else np.zeros(0, np.intp)
        old, new = self._times, self._times_of_newcomers
        times, new_times = (float(one.initial_local(at)[0]) for one in (old, new))
        return tasks.BlockWeights(times, some, new_times)

    def keep(self, round: Round, results: Sequence[object]) -> None:
        """Update the effective counts in place after a round."""
        places = np.array([part.number for part in round.parts])
        for times in (self._times, self._times_of_newcomers):
            times.decay_and_add(
                places, keep=1.0 - round.step, gain=round.step * round.scale
            )
