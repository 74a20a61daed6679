"""Tasks of an HDP on shards of documents, their broadcasts, arguments and replies.

A local step is a function of the documents of a block, of the globals and of the
effective counts of documents: shards keep nothing of documents between passes.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from skbnp.components.word_topics import Weighting, WordRows, WordTopics
from skbnp.inference.executor import Executor, Run, S, T
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import LocalStop, Step, StepInput, Visit
from skbnp.inference.schedules import even_limits
from skbnp.inference.shards import Broadcast, Shard
from skbnp.models.hdp.held_out import n_judges
from skbnp.models.hdp.model import HDPModel, HDPState
from skbnp.rows.batch import Batch, densest
from skbnp.rows.scales import Scales
from skbnp.rows.survey import CountSurvey, WordUses
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Array, Ints


@dataclass(frozen=True, slots=True)
class Cut:
    """Random division of shards into blocks."""

    seed_entropy: int
    n_blocks: int  # of a shard

    def limits(self, n_docs: int) -> Ints:
        """Limits of the blocks in a shard of `n_docs` documents, (n_blocks + 1,)."""
        return even_limits(n_docs, self.n_blocks)

    def order(self, shard: int, n_docs: int) -> Ints:
        """Documents of a shard in the random order of its blocks."""
        rng = stream(self.seed_entropy, Purpose.BLOCKS, shard)
        return rng.permutation(n_docs)


class Candidates(NamedTuple):
    """Reply: documents of a shard that may be held out, by random keys."""

    keys: Array
    rows: Ints
    lengths: Array  # tokens


class Drawn(NamedTuple):
    """Reply: documents that are sent from their shard."""

    counts: sp.csr_array
    by_block: Ints  # (n_blocks,) how many are of each


def documents(shard: Shard) -> sp.csr_array:
    """Return the documents of a shard that have tokens."""
    if "documents" not in shard.cache:
        is_used = np.diff(shard.X.indptr) > 0
        shard.cache["documents"] = shard.X if is_used.all() else shard.X[is_used]
    return shard.cache["documents"]


def order_of(shard: Shard, cut: Cut) -> Ints:
    """Row numbers of a shard in the random order of its blocks, kept in its cache."""
    seed_entropy, order = shard.cache.get("order", (None, None))
    if seed_entropy != cut.seed_entropy:
        order = cut.order(shard.number, documents(shard).shape[0])
        shard.cache["order"] = cut.seed_entropy, order
    return order


def measure(
    shard: Shard, broadcast: None, argument: None
) -> tuple[CountSurvey, Scales]:
    """Task: survey the documents of a shard."""
    return CountSurvey.of(documents(shard)), Scales.of(documents(shard))


def count_words(shard: Shard, broadcast: None, argument: None) -> WordUses:
    """Task: sum the uses of words in a shard."""
    return WordUses.of(documents(shard))


def find_candidates(
    shard: Shard, broadcast: Broadcast, place: tuple[int, ...]
) -> Candidates:
    """Task: draw keys; return the documents of the smallest, to be held out."""
    X, cut = documents(shard), broadcast.content
    rng = stream(cut.seed_entropy, Purpose.SPLIT_TOKENS, *place, shard.number)
    keys = rng.random(X.shape[0])
    order = np.argsort(keys, kind="stable")
    lengths = np.asarray(X.sum(axis=1), dtype=np.float64).ravel()[order]
    n_kept = n_judges(lengths)
    return Candidates(keys[order[:n_kept]], order[:n_kept], lengths[:n_kept])


class SeedSets(NamedTuple):
    """Broadcast: sets of words, and rows of shards that are left out."""

    words: Array  # (n_features, n_sets)
    n_docs: int
    left_out: tuple[Ints, ...]


def find_densest(
    shard: Shard, broadcast: Broadcast, argument: None
) -> list[tuple[Array, Ints]]:
    """Task: find documents, but those left out, where sets of words are densest."""
    sets: SeedSets = broadcast.content
    X = documents(shard)
    is_kept = np.ones(X.shape[0], bool)
    is_kept[sets.left_out[shard.number]] = False
    return densest(X[is_kept], sets.words, sets.n_docs)


def draw(shard: Shard, broadcast: Broadcast, rows: dict[int, Ints]) -> Drawn:
    """Task: return the documents of some rows of each shard."""
    X, cut, chosen = documents(shard), broadcast.content, rows[shard.number]
    place = np.empty(X.shape[0], np.intp)
    place[order_of(shard, cut)] = np.arange(X.shape[0])
    blocks = np.searchsorted(cut.limits(X.shape[0]), place[chosen], side="right") - 1
    return Drawn(X[chosen], np.bincount(blocks, minlength=cut.n_blocks))


@dataclass(frozen=True, slots=True)
class WholeWords:
    """Broadcast: the words of topics, sent whole."""

    words: WordTopics

    def made(self, name: str | None, words_before: WordTopics | None) -> WordTopics:
        """Return the words of topics; words of the process are ignored."""
        return self.words


@dataclass(frozen=True, slots=True)
class ChangedWords:
    """Broadcast: changes of the words of topics by an update and by ends of topics.

    Much smaller than the words of topics if rounds are small: only the pairs of words
    and topics that documents of a round use.
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
        """Return the words with the bits of whole ones, or None without the base."""
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
    """Broadcast: what the local step reads of the posterior."""

    cut: Cut
    model: HDPModel
    state: HDPState
    words: WholeWords | ChangedWords
    step: type[Step]
    stop: LocalStop
    weighting: Weighting


class ShardStats(NamedTuple):
    """Reply: statistics of documents; None if the process lacks the topics' words."""

    stats: Any

    def plus(self, other: "ShardStats") -> "ShardStats":
        """Add the statistics of two shards."""
        if self.stats is None or other.stats is None:
            return ShardStats(None)
        return ShardStats(self.stats.plus(other.stats))


class BlockWeights(NamedTuple):
    """Effective counts of the documents of a block in the totals."""

    times: float
    newcomers: Ints  # of the shard, that were not learned from before
    times_of_newcomers: float


class Order(NamedTuple):
    """Argument of the local step: blocks of a shard, and weights of documents."""

    left_out: Ints  # of the shard
    blocks: list[tuple[int, BlockWeights | None]]  # places, and what is held of each


def update_local(
    shard: Shard, broadcast: Broadcast, orders: dict[int, Order]
) -> ShardStats:
    """Task: run the local step of blocks of shards; return their statistics."""
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
    remembered = None if order.blocks[0][1] is None else times[chosen]
    visit = Visit(given.weighting, remembered)
    work = StepInput(seen, batch, given.stop, executor, visit)
    return ShardStats(given.step.prepare(work).collect(work).stats)


class _Runner(Executor):
    """Executor that runs blocks one after another in this process."""

    shares_memory = True
    n_workers = 1

    def __init__(self, run: Run):
        self._run = run

    def map(
        self, function: Callable[[S], T], items: Iterable[S], ahead: int = 0
    ) -> Iterator[T]:
        """Yield `function(item)` for each item, in order."""
        return iter(self._run(function, items))
