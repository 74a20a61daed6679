"""Corpus of an HDP with documents in shards, and their weights in the totals."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from skbnp.components.word_topics import Weighting, WordRows, WordTopics, remaining
from skbnp.inference import protocols
from skbnp.inference.engine import DocumentCache, DocumentWeights
from skbnp.inference.executor import Executor, Run, S, T
from skbnp.inference.posterior import Posterior
from skbnp.inference.shards import Broadcast, Shard, Shards
from skbnp.models.hdp.fold_in import fold_in_posterior
from skbnp.models.hdp.groups import LabelledDocuments
from skbnp.models.hdp.held_out import HeldOut, deal, n_held_out, n_judges
from skbnp.models.hdp.model import HDPModel, HDPState
from skbnp.rows.batch import Batch, densest
from skbnp.rows.survey import CountSurvey, Scales, WordUses
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Array, Ints

# Schedules of an HDP over blocks of documents in shards: rounds of a pass.
#
# A block is a random part of a shard, drawn once by the entropy of the fit; a round
# updates a block of each of some shards. How many there are follows from the data and
# from parameters, never from where the shards are.


#: Rounds of a pass, at most, unless minibatches are asked for: totals travel to the
#: shards and back in each.
MOST_ROUNDS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(protocols.Part):
    """A random part of the documents of a shard; `number` counts all blocks."""

    shard: int
    place: int  # in the shard
    size: int

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return self.size


def n_blocks(n_docs: int, batch_size: int | None, least: int, n_groups: int) -> int:
    """Blocks of each shard, of `n_docs` documents of all.

    A round has `batch_size` documents; if None, as many as leave `MOST_ROUNDS` in a
    pass, but `least`. It takes `n_groups` rounds to visit a block of each shard.
    """
    n_rounds = -(-n_docs // (least if batch_size is None else batch_size))
    if batch_size is None:
        n_rounds = min(n_rounds, MOST_ROUNDS)
    return max(-(-n_rounds // n_groups), 1)


@dataclass(frozen=True, slots=True)
class BlockSchedule(protocols.Schedule):
    """Rounds over a block of each shard, or of each of some shards at a time.

    Groups of shards, and which blocks of theirs go together, are drawn anew for each
    pass.
    """

    sizes: Ints  # (n_shards, n_blocks) documents of each block
    n_groups: int  # of shards
    # whose rows are rounds; its entropy draws the order of blocks
    steps: protocols.OnlineSchedule

    def one_pass(self, number: int) -> Iterator[protocols.Round]:
        """Yield the rounds of one pass over the data."""
        n_shards, n_blocks = self.sizes.shape
        rng = stream(self.steps.seed_entropy or 0, Purpose.ORDER, number)
        shards = rng.permutation(n_shards)
        blocks = rng.permuted(np.tile(np.arange(n_blocks), (n_shards, 1)), axis=1)
        groups = [
            shards[begin:end]
            for begin, end in pairwise(protocols.even_limits(n_shards, self.n_groups))
        ]
        rounds = [(group, place) for place in range(n_blocks) for group in groups]
        first = self.steps.n_updates(number)
        for position, at in enumerate(rng.permutation(len(rounds)).tolist()):
            group, place = rounds[at]
            chosen = [(shard, blocks[shard, place]) for shard in sorted(group.tolist())]
            parts = parts_of(self.sizes, chosen)
            if parts:
                n_docs = sum(part.n_docs for part in parts)
                yield protocols.Round(
                    parts,
                    step=self.steps.step_size(first + position + 1),
                    scale=int(self.sizes.sum()) / n_docs,
                )

    def n_updates(self, n_passes: int) -> int:
        """Updates by which steps have decreased after `n_passes` passes."""
        return self.steps.n_updates(n_passes)

    def remembering(self, share: float) -> "BlockSchedule":
        """Return the schedule after more updates, see `OnlineSchedule`."""
        return replace(self, steps=self.steps.remembering(share))

    def reset(self) -> "BlockSchedule":
        """Return the schedule of a posterior without updates."""
        return replace(self, steps=self.steps.reset())


def parts_of(
    sizes: Ints, chosen: Iterable[tuple[int, ...]] | None = None
) -> tuple[Block, ...]:
    """Return the non-empty blocks among the chosen (shard, place), or of all."""
    n_blocks = sizes.shape[1]
    chosen = np.ndindex(*sizes.shape) if chosen is None else chosen
    return tuple(
        Block(int(shard * n_blocks + place), shard=shard, place=place, size=size)
        for shard, place in chosen
        if (size := int(sizes[shard, place]))
    )


# Tasks of an HDP on shards of documents, their broadcasts, arguments and replies.
#
# A local step is a function of the documents of a block, of the globals and of the
# effective counts of documents: shards keep nothing of documents between passes.


@dataclass(frozen=True, slots=True)
class Cut:
    """Random division of shards into blocks."""

    seed_entropy: int
    n_blocks: int  # of a shard

    def limits(self, n_docs: int) -> Ints:
        """Limits of the blocks in a shard of `n_docs` documents, (n_blocks + 1,)."""
        return protocols.even_limits(n_docs, self.n_blocks)

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

    base: str  # name of the broadcast that they change
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
    step: type[protocols.Step]
    stop: protocols.LocalStop
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
    words = shard.process.follow(broadcast, given.words.made)
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
    visit = protocols.Visit(given.weighting, remembered)
    work = protocols.StepInput(seen, batch, given.stop, executor, visit)
    return ShardStats(given.step.prepare(work).collect(work).stats)


class _Runner(Executor):
    """Executor that runs blocks one after another in this process."""

    shares_memory = True
    n_workers = 1

    def __init__(self, run: Run):
        self._map = run

    def map(self, function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
        """Yield `function(item)` for each item, in order."""
        return iter(self._map(function, items))


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
        results = shards.map(measure, numbers)
        surveys = [survey for survey, _ in results]
        words = WordUses.of(nothing)
        if surveys:
            words = shards.total(count_words, numbers)
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
    changed: Callable[..., ChangedWords]  # given ends, sums and scale of topics

    def change(self, posterior: Posterior, shards: set[int]) -> ChangedWords | None:
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

    last: LastBroadcast | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Sent, ()


@dataclass(frozen=True, slots=True)
class ShardCorpus:
    """Documents by shard, all or all except held-out ones; replaces a `Corpus`.

    Documents are numbered as if all shards were stacked, without the documents left
    out.
    """

    shards: Shards
    cut: Cut
    sizes: Ints  # (n_shards, n_blocks) documents
    words: Array  # (n_features,) counts
    n_tokens: float
    left_out: tuple[Ints, ...]  # of each shard
    sent: Sent = field(default_factory=Sent)

    @classmethod
    def of(cls, results: Survey, seed_entropy: int, n_blocks: int) -> "ShardCorpus":
        """Cut each shard into `n_blocks` random blocks, by the entropy of a fit."""
        cut, nothing = Cut(seed_entropy, n_blocks), np.zeros(0, np.intp)
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
        sets = SeedSets(words, n_docs, self.left_out)
        replies = self.shards.map(find_densest, numbers, Broadcast(sets))
        sizes = self.sizes.sum(axis=1)
        before = np.cumsum(sizes) - sizes
        result = list[Ints]()
        for one in range(words.shape[1]):
            density = np.concatenate([reply[one][0] for reply in replies])
            rows = [n + reply[one][1] for n, reply in zip(before, replies, strict=True)]
            order = np.argsort(-density, kind="stable")[:n_docs]
            result.append(np.concatenate(rows)[order])
        return result

    def _draw(self, wanted: dict[int, Ints]) -> Drawn:
        """Return documents of shards, and how many are of each block."""
        numbers = sorted(wanted)
        result = self.shards.map(draw, numbers, Broadcast(self.cut), wanted)
        by_block = np.zeros_like(self.sizes)
        by_block[numbers] = [one.by_block for one in result]
        counts = sp.vstack([one.counts for one in result], format="csr")
        return Drawn(sp.csr_array(counts), by_block)

    def hold_out(self, *place: int) -> HeldOut | None:
        """Hold out documents; `place` names the random stream."""
        if self.n_docs == 0:
            return None
        numbers, seed_entropy = range(len(self.sizes)), self.cut.seed_entropy
        cut = Broadcast(self.cut)
        result = self.shards.map(find_candidates, numbers, cut, place)
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
        local_step: protocols.DocumentLocalStep,
        posterior: Posterior,
        round: protocols.Round,
        visits: Sequence[protocols.Visit],
    ) -> list[protocols.Collected]:
        """Run the local step of blocks on their shards; return the sum of results.

        Processes that have the words of topics receive the changes; if any lacks these,
        all receive the whole.
        """
        if visits[0].block_hook is not None:
            raise ValueError("No move reads documents in shards.")
        orders, parts = dict[int, Order](), cast(tuple[Block, ...], round.parts)
        for part, visit in zip(parts, visits, strict=True):
            new = Order(self.left_out[part.shard], [])
            order = orders.setdefault(part.shard, new)
            order.blocks.append((part.place, visit.remembered))
        words, last = posterior.global_stats.topic_words, self.sent.last
        self.sent.last = None  # until the round has ended
        change = None if last is None else last.change(posterior, set(orders))
        for sent_words in (change, WholeWords(words)):
            if sent_words is None:
                continue
            broadcast = Broadcast(
                Globals(
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
                update_local, sorted(orders), broadcast, orders
            )
            if local_stats.stats is not None:
                break
        if not self.shards.is_lasting:
            ids, rows = posterior.ids.copy(), local_stats.stats.topic_words
            step = 1.0 - round.step, round.step * round.scale
            changed = partial(ChangedWords, broadcast.name, rows, *step)
            self.sent.last = LastBroadcast(
                set(orders), words, words.table_prior, ids, changed
            )
        return [protocols.Collected(local_stats.stats, np.zeros(0), [])]


class Folded(NamedTuple):
    """Reply: topics of the documents of a shard."""

    rows: Ints  # of the shard, that have tokens
    doc_topic: sp.csr_array
    lengths: Array


def fold_in(shard: Shard, broadcast: Broadcast, argument: None) -> Folded:
    """Task: infer the topics of documents of a shard."""
    X, executor = documents(shard), _Runner(shard.run)
    doc_topic = fold_in_posterior(broadcast.content, X, executor).doc_topic
    rows = np.flatnonzero(np.diff(shard.X.indptr) > 0)
    return Folded(rows, doc_topic, np.asarray(X.sum(axis=1)).ravel())


def fold_in_shards(
    shards: Shards, posterior: Posterior
) -> tuple[LabelledDocuments, list[Ints]]:
    """Infer the topics of documents in shards; return them, and rows of each shard.

    Counts of documents stay where they are, but those that are fetched.
    """
    numbers, p = range(len(shards.n_rows)), posterior
    seen = Posterior(p.model, p.state, p.global_stats, p.ids, [])
    replies = shards.map(fold_in, numbers, Broadcast(seen))
    sizes = np.array([[len(reply.rows)] for reply in replies], dtype=np.intp)
    left_out = tuple(np.zeros(0, np.intp) for _ in numbers)
    whole = ShardCorpus(shards, Cut(0, 1), sizes, np.zeros(0), 0.0, left_out)
    doc_topic = sp.vstack([reply.doc_topic for reply in replies], format="csr")
    lengths = np.concatenate([reply.lengths for reply in replies])
    result = LabelledDocuments(sp.csr_array(doc_topic), lengths, whole.fetch)
    return result, [reply.rows for reply in replies]


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

    def initial_local(self, part: protocols.Part) -> BlockWeights:
        """Return the effective counts of the documents of a block."""
        block, at = (
            cast(Block, part),
            protocols.Part(part.number, np.array([part.number])),
        )
        some = self._newcomers[block.shard] if self._newcomers else np.zeros(0, np.intp)
        old, new = self._times, self._times_of_newcomers
        times, new_times = (float(one.initial_local(at)[0]) for one in (old, new))
        return BlockWeights(times, some, new_times)

    def keep(self, round: protocols.Round, results: Sequence[object]) -> None:
        """Update the effective counts in place after a round."""
        places = np.array([part.number for part in round.parts])
        for times in (self._times, self._times_of_newcomers):
            times.decay_and_add(
                places, keep=1.0 - round.step, gain=round.step * round.scale
            )
