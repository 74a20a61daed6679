"""Documents in shards: the tasks that read them, and what passes are made of.

A visit is a function of the documents of a block, of globals and of how often these
hold the documents: no document is remembered from visit to visit. A block is a random
part of a shard, drawn once by the entropy of the fit; a round visits a block of each of
some shards. How many there are follows from the data and from parameters, never from
where the shards are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.word_topics import Weighting, WordRows, WordTopics, remaining
from skbnp.inference.executor import Executor, Run, S, T
from skbnp.inference.local import (
    BlockHook,
    Collected,
    DocumentLocalStep,
    LocalStop,
    Step,
)
from skbnp.inference.memory import DocumentCache
from skbnp.inference.posterior import Posterior
from skbnp.inference.schedules import OnlineSchedule, Part, Round, Schedule, even_limits
from skbnp.inference.shards import Broadcast, Shard, Shards
from skbnp.models.hdp.held_out import HeldOut, deal, n_held_out, n_judges
from skbnp.models.hdp.memory import DocumentWeights
from skbnp.models.hdp.model import HDPModel, HDPState
from skbnp.rows.batch import Batch
from skbnp.rows.survey import CountSurvey
from skbnp.rows.word_sums import densest
from skbnp.utils.random import Purpose, stream

__all__ = [
    "Block",
    "BlockDocumentWeights",
    "BlockSchedule",
    "ChangedWords",
    "ShardCorpus",
    "Survey",
    "WholeSchedule",
    "n_blocks",
]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Rounds of a pass at the most, unless minibatches are asked for: totals travel to the
#: shards and back in each.
MOST_ROUNDS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(Part):
    """Documents of a shard that are visited together; the number is of all blocks."""

    shard: int
    place: int  # in the shard
    size: int

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return self.size


@dataclass(frozen=True, slots=True)
class Cut:
    """How shards are cut into blocks."""

    seed_entropy: int
    n_blocks: int  # of a shard

    def limits(self, n_docs: int) -> Rows:
        """Limits of the blocks of a shard of so many documents, (n_blocks + 1,)."""
        return even_limits(n_docs, self.n_blocks)

    def order(self, shard: int, n_docs: int) -> Rows:
        """Documents of a shard in the order of its blocks."""
        rng = stream(self.seed_entropy, Purpose.BLOCKS, shard)
        return rng.permutation(n_docs)


def n_blocks(n_docs: int, batch_size: int | None, least: int, n_groups: int) -> int:
    """Blocks of each shard.

    Parameters
    ----------
    n_docs : int
        Documents of all shards.
    batch_size : int or None
        Documents of a round; None: as many as leave `MOST_ROUNDS` in a pass, but
        `least`.
    n_groups : int
        Rounds that it takes to visit a block of each shard.
    """
    n_rounds = -(-n_docs // (least if batch_size is None else batch_size))
    if batch_size is None:
        n_rounds = min(n_rounds, MOST_ROUNDS)
    return max(-(-n_rounds // n_groups), 1)


# What is asked of a shard -----------------------------------------------------------


class WordCounts(NamedTuple):
    """Counts by word, which add up."""

    counts: Array  # (n_features,)

    def plus(self, other: "WordCounts") -> "WordCounts":
        """Return those of both."""
        return WordCounts(self.counts + other.counts)


class Candidates(NamedTuple):
    """Documents of a shard that may be held out, by random keys."""

    keys: Array
    rows: Rows
    lengths: Array  # tokens


class Drawn(NamedTuple):
    """Documents that leave their shard."""

    counts: sp.csr_array
    by_block: Rows  # (n_blocks,) how many are of each


def documents(shard: Shard) -> sp.csr_array:
    """Return the documents of a shard that have tokens."""
    if "documents" not in shard.cache:
        is_used = np.diff(shard.X.indptr) > 0
        shard.cache["documents"] = shard.X if is_used.all() else shard.X[is_used]
    return shard.cache["documents"]


def order_of(shard: Shard, cut: Cut) -> Rows:
    """Return the documents of a shard in the order of its blocks."""
    seed_entropy, order = shard.cache.get("order", (None, None))
    if seed_entropy != cut.seed_entropy:
        order = cut.order(shard.number, documents(shard).shape[0])
        shard.cache["order"] = cut.seed_entropy, order
    return order


def measure(shard: Shard, broadcast: None, argument: None) -> CountSurvey:
    """Survey the documents of a shard."""
    return CountSurvey.of(documents(shard))


def count_words(shard: Shard, broadcast: None, argument: None) -> WordCounts:
    """Count tokens by word."""
    return WordCounts(np.asarray(shard.X.sum(axis=0), dtype=np.float64).ravel())


def find_candidates(
    shard: Shard, broadcast: Broadcast, place: tuple[int, ...]
) -> Candidates:
    """Draw keys; return documents of the smallest, as many as could be needed."""
    X, cut = documents(shard), broadcast.content
    rng = stream(cut.seed_entropy, Purpose.SPLIT_TOKENS, *place, shard.number)
    keys = rng.random(X.shape[0])
    order = np.argsort(keys, kind="stable")
    lengths = np.asarray(X.sum(axis=1), dtype=np.float64).ravel()[order]
    n_kept = n_judges(lengths)
    return Candidates(keys[order[:n_kept]], order[:n_kept], lengths[:n_kept])


class SeedSets(NamedTuple):
    """Sets of words, and documents that are left out, by shard."""

    words: Array  # (n_features, n_sets)
    n_docs: int
    left_out: tuple[Rows, ...]


def find_densest(
    shard: Shard, broadcast: Broadcast, argument: None
) -> list[tuple[Array, Rows]]:
    """Find the documents of a shard in which sets of words are densest.

    Rows are those without the documents left out.
    """
    sets: SeedSets = broadcast.content
    X = documents(shard)
    is_kept = np.ones(X.shape[0], bool)
    is_kept[sets.left_out[shard.number]] = False
    return densest(X[is_kept], sets.words, sets.n_docs)


def draw(shard: Shard, broadcast: Broadcast, rows: dict[int, Rows]) -> Drawn:
    """Return the documents of some rows of each shard."""
    X, cut, chosen = documents(shard), broadcast.content, rows[shard.number]
    place = np.empty(X.shape[0], np.intp)
    place[order_of(shard, cut)] = np.arange(X.shape[0])
    blocks = np.searchsorted(cut.limits(X.shape[0]), place[chosen], side="right") - 1
    return Drawn(X[chosen], np.bincount(blocks, minlength=cut.n_blocks))


@dataclass(frozen=True, slots=True)
class WholeWords:
    """The words of topics, sent whole."""

    words: WordTopics

    def made(self, name: str | None, words_before: WordTopics | None) -> WordTopics:
        """Return them, whatever a process holds."""
        return self.words


@dataclass(frozen=True, slots=True)
class ChangedWords:
    """What an update and the end of topics have changed in the words of topics.

    Many fewer numbers than these, as long as rounds are small: the pairs of words and
    topics that documents of a round use.
    """

    base: str  # the world in which they were known
    rows: WordRows
    keep: float
    gain: float
    gone: list[int]  # columns
    total: Array  # (K,) afterwards
    scale: float  # afterwards

    def made(
        self, name: str | None, words_before: WordTopics | None
    ) -> WordTopics | None:
        """Change what a process holds, if it is the base; the same bits come out."""
        if words_before is None or name != self.base:
            return None
        words_before.decay(self.keep)
        words_before.add(self.rows, self.gain)
        if self.gone:
            words_before.drop(self.gone)
        is_same = words_before.scale == self.scale and np.array_equal(
            words_before.total, self.total
        )
        return words_before if is_same else None


@dataclass(frozen=True, slots=True)
class Globals:
    """What a visit reads."""

    cut: Cut
    model: HDPModel
    state: HDPState
    words: WholeWords | ChangedWords
    step: type[Step]
    stop: LocalStop
    weighting: Weighting


class ShardStats(NamedTuple):
    """What documents say; None if some process has not the words of topics."""

    stats: Any

    def plus(self, other: "ShardStats") -> "ShardStats":
        """Return what both say."""
        if self.stats is None or other.stats is None:
            return ShardStats(None)
        return ShardStats(self.stats.plus(other.stats))


class BlockWeights(NamedTuple):
    """How often totals hold the documents of a block."""

    times: float
    newcomers: Rows  # of the shard, that were not learned from before
    times_of_newcomers: float


class Order(NamedTuple):
    """Which documents of a shard are visited, and how often totals hold them."""

    left_out: Rows  # of the shard
    blocks: list[tuple[int, BlockWeights | None]]  # places, and what is held of each


def update_local(
    shard: Shard, broadcast: Broadcast, orders: dict[int, Order]
) -> ShardStats:
    """Visit some blocks of each shard; return the statistics of their documents."""
    given: Globals = broadcast.content
    words = shard.process.follow("words", broadcast, given.words.made)
    if words is None:
        return ShardStats(None)
    X, order = documents(shard), orders[shard.number]
    n_docs, times = X.shape[0], np.zeros(X.shape[0])
    limits, rows = given.cut.limits(n_docs), order_of(shard, given.cut)
    is_visited = np.zeros(n_docs, bool)
    for place, weights_of_block in order.blocks:
        here = rows[limits[place] : limits[place + 1]]
        is_visited[here] = True
        if weights_of_block is not None:
            are_new = np.isin(here, weights_of_block.newcomers)
            times[here] = np.where(
                are_new, weights_of_block.times_of_newcomers, weights_of_block.times
            )
    is_visited[order.left_out] = False
    chosen = np.flatnonzero(is_visited)
    global_stats = given.model.start(given.state, words)
    seen = Posterior(given.model, given.state, global_stats, np.empty(0, np.intp), [])
    batch = Batch.from_counts(X[chosen], given.state.n_components)
    executor = _Runner(shard.run)
    step = given.step.prepare(
        seen,
        batch,
        given.stop,
        executor,
        weighting=given.weighting,
        remembered=None if order.blocks[0][1] is None else times[chosen],
    )
    return ShardStats(step.collect(seen, batch, executor, None).stats)


class _Runner(Executor):
    """Runs blocks in this process."""

    shares_memory = True

    def __init__(self, run: Run):
        self._run = run

    def map(
        self, function: Callable[[S], T], items: Iterable[S], ahead: int = 0
    ) -> Iterator[T]:
        """Yield `function(item)` for each item, in order."""
        return iter(self._run(function, items))


# What learning asks for --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Survey:
    """What shards hold, as far as it matters where learning begins."""

    shards: Shards
    n_docs: NDArray[np.intp]  # (n_shards,) with tokens
    counts: CountSurvey  # of all shards
    words: Array  # (n_features,) counts

    @classmethod
    def of(cls, shards: Shards) -> "Survey":
        """Ask all shards."""
        numbers, words = range(len(shards.n_rows)), np.zeros(shards.n_features)
        surveys = shards.map(measure, numbers)
        if surveys:
            words = shards.total(count_words, numbers).counts
        return cls(
            shards,
            np.array([survey.n_docs for survey in surveys], dtype=np.intp),
            reduce(CountSurvey.plus, surveys, CountSurvey.of(sp.csr_array((0, 1)))),
            words,
        )

    @property
    def n_tokens(self) -> float:
        """Number of tokens."""
        return self.counts.n_tokens

    @property
    def shape(self) -> tuple[int, int]:
        """Documents with tokens, and words of the vocabulary."""
        return int(self.n_docs.sum()), len(self.words)


class LastBroadcast(NamedTuple):
    """What the processes of shards know of the words of topics, and what they said."""

    broadcast: str
    shards: set[int]
    words: WordTopics
    table_prior: float | None
    ids: NDArray[np.intp]
    rows: WordRows
    keep: float
    gain: float

    def change(self, posterior: Posterior, shards: set[int]) -> ChangedWords | None:
        """Return what has changed since; None if that is not known, or not there."""
        words, old, new = posterior.global_stats.topic_words, self.ids, posterior.ids
        if words is not self.words or not shards <= self.shards:
            return None
        if words.table_prior != self.table_prior:
            return None
        gone = np.flatnonzero(~np.isin(old, new)).tolist()
        if not np.array_equal(old[remaining(len(old), gone)], new):
            return None
        total, scale = words.total.copy(), words.scale
        return ChangedWords(
            self.broadcast, self.rows, self.keep, self.gain, gone, total, scale
        )


class Sent:
    """What was sent at the last visit; nothing of it is saved."""

    def __init__(self) -> None:
        self.last: LastBroadcast | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Sent, ()


@dataclass(frozen=True, slots=True)
class ShardCorpus:
    """Documents by shard, all or all but some; in place of a `Corpus`.

    Documents have the number that they would have if all shards stood below each
    other, without those left out.
    """

    shards: Shards
    cut: Cut
    sizes: NDArray[np.intp]  # (n_shards, n_blocks) documents
    words: Array  # (n_features,) counts
    n_tokens: float
    left_out: tuple[Rows, ...]  # of each shard
    sent: Sent = field(default_factory=Sent)

    @classmethod
    def of(cls, results: Survey, seed_entropy: int, n_blocks: int) -> "ShardCorpus":
        """Cut shards into so many blocks each, drawn by the entropy of a fit."""
        cut, nothing = Cut(seed_entropy, n_blocks), np.zeros(0, np.intp)
        sizes = [np.diff(cut.limits(n_docs)) for n_docs in results.n_docs.tolist()]
        return cls(
            results.shards,
            cut,
            np.array(sizes, dtype=np.intp).reshape(-1, cut.n_blocks),
            results.words,
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

    def fetch(self, numbers: NDArray[np.intp]) -> sp.csr_array:
        """Return some documents, by their numbers from 0."""
        numbers = np.asarray(numbers)
        ends = np.cumsum(self.sizes.sum(axis=1))
        shard = np.searchsorted(ends, numbers, side="right")
        wanted = dict[int, Rows]()
        for at in np.unique(shard).tolist():
            here = numbers[shard == at] - (ends[at] - self.sizes[at].sum())
            left_out = self.left_out[at]  # each is passed by who stands behind it
            before = left_out - np.arange(len(left_out))
            wanted[at] = here + np.searchsorted(before, here, side="right")
        order = np.concatenate([np.flatnonzero(shard == at) for at in wanted])
        back = np.empty(len(numbers), np.intp)
        back[order] = np.arange(len(numbers))
        return self._draw(wanted).counts[back]

    def densest(self, words: Array, n_docs: int) -> list[Rows]:
        """Numbers of the documents in which sets of words are densest, see `Corpus`."""
        numbers, sets = range(len(self.sizes)), SeedSets(words, n_docs, self.left_out)
        replies = self.shards.map(find_densest, numbers, Broadcast(sets))
        sizes = self.sizes.sum(axis=1)
        before = np.cumsum(sizes) - sizes
        result = list[Rows]()
        for one in range(words.shape[1]):
            density = np.concatenate([reply[one][0] for reply in replies])
            rows = [n + reply[one][1] for n, reply in zip(before, replies, strict=True)]
            order = np.argsort(-density, kind="stable")[:n_docs]
            result.append(np.concatenate(rows)[order])
        return result

    def _draw(self, wanted: dict[int, Rows]) -> Drawn:
        """Return documents of shards, and how many are of each block of each."""
        numbers = sorted(wanted)
        result = self.shards.map(draw, numbers, Broadcast(self.cut), wanted)
        by_block = np.zeros_like(self.sizes)
        by_block[numbers] = [one.by_block for one in result]
        counts = sp.vstack([one.counts for one in result], format="csr")
        return Drawn(sp.csr_array(counts), by_block)

    def hold_out(self, *place: int) -> HeldOut | None:
        """Hold out documents as `held_out.hold_out` does; `place` names the draw."""
        if self.n_docs == 0:
            return None
        numbers, seed_entropy = range(len(self.sizes)), self.cut.seed_entropy
        result = self.shards.map(find_candidates, numbers, Broadcast(self.cut), place)
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
        *,
        weighting: Weighting,
        remembered: Sequence[BlockWeights | None],
        block_hook: BlockHook | None,
    ) -> list[Collected]:
        """Visit blocks where they are: one reply, the sum of all.

        Processes that follow the words of topics are sent what has changed; if any
        other is asked, all are sent the whole.
        """
        if block_hook is not None:
            raise ValueError("No move looks at documents in shards.")
        orders, parts = dict[int, Order](), cast(tuple[Block, ...], round.parts)
        for part, weights_of_block in zip(parts, remembered, strict=True):
            order = orders.setdefault(part.shard, Order(self.left_out[part.shard], []))
            order.blocks.append((part.place, weights_of_block))
        words, local_stats = posterior.global_stats.topic_words, ShardStats(None)
        given = Globals(
            self.cut,
            posterior.model,
            posterior.state,
            WholeWords(words),
            local_step.step,
            local_step.stop,
            weighting,
        )
        change, last = None, self.sent.last
        self.sent.last = None  # whatever happens now
        if last is not None:
            change = last.change(posterior, set(orders))
        if change is not None:
            broadcast = Broadcast(replace(given, words=change))
            local_stats = self.shards.total(
                update_local, sorted(orders), broadcast, orders
            )
        if local_stats.stats is None:
            broadcast = Broadcast(given)
            local_stats = self.shards.total(
                update_local, sorted(orders), broadcast, orders
            )
        if not self.shards.is_lasting:
            self.sent.last = LastBroadcast(
                broadcast.name,
                set(orders),
                words,
                words.table_prior,
                posterior.ids.copy(),
                local_stats.stats.topic_words,
                1.0 - round.step,
                round.step * round.scale,
            )
        return [Collected(local_stats.stats, np.zeros(0), [])]


class BlockDocumentWeights(DocumentCache):
    """How often totals count the documents of each block; see `DocumentWeights`.

    Documents of a block are visited together, so that totals hold them alike, but for
    those that were held out at first.
    """

    _times: DocumentWeights
    _times_of_newcomers: DocumentWeights
    _n_blocks: int
    _newcomers: tuple[Rows, ...]

    def __init__(
        self, n_blocks: int, start: float = 0.0, newcomers: Sequence[Rows] = ()
    ):
        self._times = DocumentWeights(n_blocks, start)
        self._times_of_newcomers = DocumentWeights(n_blocks)
        self._n_blocks, self._newcomers = n_blocks, tuple(newcomers)

    def empty(self) -> "BlockDocumentWeights":
        """Return those of totals that hold none of the documents."""
        return BlockDocumentWeights(self._n_blocks, newcomers=self._newcomers)

    def spread(self, newcomers: Sequence[Rows], n_docs: int) -> "BlockDocumentWeights":
        """Return those of a corpus with documents that were left out, by shard."""
        del n_docs
        other = BlockDocumentWeights(self._n_blocks, newcomers=newcomers)
        other._times = self._times.copy()
        return other

    def initial_local(self, part: Part) -> BlockWeights:
        """Return how often totals hold the documents of a block."""
        place, shard = np.array([part.number]), cast(Block, part).shard
        some = self._newcomers[shard] if self._newcomers else np.zeros(0, np.intp)
        of_newcomers = float(self._times_of_newcomers.of(place)[0])
        return BlockWeights(float(self._times.of(place)[0]), some, of_newcomers)

    def keep(self, round: Round, results: Sequence[object]) -> None:
        """Follow the totals through a round."""
        del results
        places = np.array([part.number for part in round.parts])
        for times in (self._times, self._times_of_newcomers):
            times.decay_and_add(
                places, keep=1.0 - round.step, gain=round.step * round.scale
            )


@dataclass(frozen=True, slots=True)
class BlockSchedule(Schedule):
    """Rounds over a block of each shard, or of each of some shards at a time.

    Groups of shards, and which blocks of theirs go together, are drawn anew for each
    pass.

    Parameters
    ----------
    sizes : ndarray of shape (n_shards, n_blocks)
        Documents of each block.
    n_groups : int
        Groups of shards.
    steps : OnlineSchedule
        Sizes of steps; its rows are rounds, its entropy names the order.
    """

    sizes: NDArray[np.intp]
    n_groups: int
    steps: OnlineSchedule

    def one_pass(self, number: int) -> Iterator[Round]:
        """Yield the rounds of one pass over the data."""
        n_shards, n_blocks = self.sizes.shape
        rng = stream(self.steps.seed_entropy or 0, Purpose.ORDER, number)
        shards = rng.permutation(n_shards)
        blocks = rng.permuted(np.tile(np.arange(n_blocks), (n_shards, 1)), axis=1)
        groups = [
            shards[begin:end]
            for begin, end in pairwise(even_limits(n_shards, self.n_groups))
        ]
        rounds = [(group, place) for place in range(n_blocks) for group in groups]
        first = self.steps.n_updates(number)
        for position, at in enumerate(rng.permutation(len(rounds)).tolist()):
            group, place = rounds[at]
            chosen = [(shard, blocks[shard, place]) for shard in sorted(group.tolist())]
            parts = parts_of(self.sizes, chosen)
            if parts:
                n_docs = sum(part.n_docs for part in parts)
                yield Round(
                    parts,
                    step=self.steps.step_size(first + position + 1),
                    scale=int(self.sizes.sum()) / n_docs,
                )

    def n_updates(self, n_passes: int) -> int:
        """Updates by which steps have decreased after so many passes."""
        return self.steps.n_updates(n_passes)

    def remembering(self, share: float) -> "BlockSchedule":
        """Return the same with steps as after more updates, see `OnlineSchedule`."""
        return replace(self, steps=self.steps.remembering(share))

    def reset(self) -> "BlockSchedule":
        """Return the same for a posterior that has made no updates."""
        return replace(self, steps=self.steps.reset())


@dataclass(frozen=True, slots=True)
class WholeSchedule(Schedule):
    """All blocks of all shards, then one update, as by a `BatchSchedule`.

    Parameters
    ----------
    sizes : ndarray of shape (n_shards, n_blocks)
        Documents of each block.
    """

    sizes: NDArray[np.intp]

    def one_pass(self, number: int) -> Iterator[Round]:
        """Yield the round of one pass over the data."""
        parts = parts_of(self.sizes, np.ndindex(*self.sizes.shape))
        if parts:
            yield Round(parts, step=1.0, scale=1.0)


def parts_of(
    sizes: NDArray[np.intp], chosen: Iterable[tuple[int, ...]]
) -> tuple[Block, ...]:
    """Return those of some blocks (shard, place) that hold documents."""
    n_blocks = sizes.shape[1]
    return tuple(
        Block(int(shard * n_blocks + place), shard=shard, place=place, size=size)
        for shard, place in chosen
        if (size := int(sizes[shard, place]))
    )
