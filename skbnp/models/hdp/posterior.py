"""The posterior of an HDP with the records of its trials between updates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.statistics import WordStats
from skbnp.components.word_topics import WordRows, WordTopics, remaining
from skbnp.inference.engine import DocumentWeights, blend, learn_priors
from skbnp.inference.executor import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import Collected, Part, Round, StatisticsCache
from skbnp.models.hdp.groups import Groups
from skbnp.models.hdp.held_out import HeldOut, n_judges, split
from skbnp.models.hdp.model import CollapsedStats, HDPModel, HDPState, HDPStats
from skbnp.utils.arrays import with_columns
from skbnp.utils.matching import most_similar
from skbnp.utils.random import splitmix64
from skbnp.utils.ranges import LARGE, Amount, Count, In, Number, Sized
from skbnp.utils.typing import Array, Flags, Ints, Ints32

# Caches of the statistics of parts of a corpus, for both families of the HDP.


Pairs = Sequence[tuple[int, int]]

#: Updates of the weights after a pass, each with fresh tangents.
N_REFRESHES = 3


@dataclass(frozen=True, slots=True)
class PartMemo:
    """Cached statistics of one batch, and the expected counts of its documents.

    Exact zeros are not stored: memory is proportional to the pairs in use. A memo is
    replaced, never changed, so that a copy of a list of memos is a copy of the state.
    """

    stats: WordStats[WordRows]
    doc_topic: sp.csr_array | None = None  # (n_docs, K) N; None if collapsed
    n_tokens: Array = field(default_factory=lambda: np.zeros(0))  # (n_docs,)

    def merged(self, pairs: Pairs, losses: Array) -> "PartMemo":
        """Add topics of pairs (source, target); subtract their `losses` of entropy."""
        sources, targets = np.transpose(pairs)
        stats: Any = self.stats
        entropy = stats.entropy.copy()
        entropy[targets] += entropy[sources] - losses
        joint = replace(self, stats=replace(stats, entropy=entropy))
        return joint.without(sources, pairs)

    def without(self, gone: Sequence[int], pairs: Pairs = ()) -> "PartMemo":
        """Remove topics; those of `pairs` (source, target) take what others had."""
        rows, doc_topic = self.stats.topic_words, self.doc_topic
        order = remaining(rows.values.shape[1], gone)
        moved = sp.eye_array(rows.values.shape[1], format="lil")
        for source, target in pairs:
            moved[source, target] = 1.0
        moved = sp.csr_array(moved.tocsc()[:, order])  # (K, K')
        words = WordRows(rows.words, sp.csr_array(rows.values @ moved))
        columns = self.stats.with_columns(itemgetter(order))
        if doc_topic is not None:
            doc_topic = sp.csr_array(doc_topic @ moved)
        return PartMemo(replace(columns, topic_words=words), doc_topic, self.n_tokens)


def refreshed(
    posterior: Posterior, memos: Iterable[PartMemo]
) -> tuple[HDPStats, list[PartMemo]]:
    """Return totals and memos with tangents at present weights: an exact bound."""
    new = []
    for memo in memos:
        stats: Any = memo.stats
        stats = posterior.model.statistics(
            posterior.state,
            stats.topic_words,
            stats.entropy,
            memo.doc_topic,
            memo.n_tokens,
        )
        new.append(replace(memo, stats=stats))
    global_stats = posterior.global_stats
    return _with_sums(
        global_stats, [memo.stats for memo in new], global_stats.topic_words
    ), new


def _with_sums(global_stats: Any, parts: list[WordStats], words: WordTopics) -> Any:
    """Return totals of given words, all other statistics summed over parts."""
    sums = {name: sum(part.sums[name] for part in parts) for name in global_stats.sums}
    return replace(global_stats, topic_words=words, **sums)


def resummed(parts: Iterable[WordStats], global_stats: WordTopics) -> WordTopics:
    """Sum the words of topics over parts again, which removes rounding errors."""
    words = global_stats.emptied()
    for stats in parts:
        words.add(stats.topic_words)
    return words


@dataclass(eq=False, repr=False)
class PartCache(StatisticsCache):
    """Cache of the statistics of parts: new ones of a part replace its old ones.

    Passes before any statistics are cached are those of online learning. The exact
    bound needs such a cache; with one part this is the batch algorithm.

    Parameters
    ----------
    n_forgetful : int
        Passes that begin without cached statistics, at least one.
    n_passes : int
        Passes made.
    memos : list of PartMemo
        One of each part; replaced, never changed in place.
    document_weights : DocumentWeights or None
        How often totals count the documents before the first pass, for the collapsed
        family, which has no bound; None for mean field.
    """

    n_forgetful: int = 1
    n_passes: int = 0
    memos: list[PartMemo] = field(default_factory=list)
    document_weights: DocumentWeights | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the statistics of every part are cached."""
        return self.n_passes >= self.n_forgetful

    def initial_local(self, part: Part) -> sp.csr_array | Array | None:
        """Return the expected counts of the documents of a part, or their weights."""
        if self.document_weights is None:
            return self.memos[part.number].doc_topic if self.is_complete else None
        if self.is_complete:
            return np.ones(len(part.rows))
        return self.document_weights.initial_local(part)

    def stochastic_update(
        self, posterior: Posterior, round: Round, change: Sequence[Collected]
    ) -> None:
        """Replace statistics of parts in the totals and the cache in place.

        In the first passes, before all parts are cached, take a stochastic step
        instead.
        """
        if not self.is_complete:
            blend(posterior, round, change)
        for part, result in zip(round.parts, change, strict=True):
            memo = PartMemo(result.stats)
            if self.document_weights is None:
                memo = PartMemo(result.stats, result.doc_topic, result.n_tokens)
            if self.is_complete:
                given = posterior.global_stats, self.memos[part.number].stats
                update = posterior.model.incremental_update
                new = update(posterior.state, *given, result.stats)
                posterior.replace_globals(*new)
                self.memos[part.number] = memo
            elif self.n_passes + 1 == self.n_forgetful:
                self.memos.append(memo)

    def end_pass(self, posterior: Posterior) -> None:
        """Recompute the totals once all parts are cached, and learn priors."""
        self.n_passes += 1
        if self.is_complete:
            self._recompute_sums(posterior)
            posterior.init_fraction = 0.0  # nothing is left of the start
            learn_priors(posterior)

    def _recompute_sums(self, posterior: Posterior) -> None:
        """Set totals to the sum of cached statistics, free of rounding errors."""
        global_stats = posterior.global_stats
        stats = [memo.stats for memo in self.memos]
        words = resummed(stats, global_stats.topic_words)
        with commit():
            if self.document_weights is None:
                posterior.global_stats = replace(global_stats, topic_words=words)
            else:
                posterior.global_stats = _with_sums(global_stats, stats, words)
                posterior.state = posterior.model.update(
                    posterior.state, posterior.global_stats
                )
        self.refresh(posterior)

    def refresh(self, posterior: Posterior) -> None:
        """Update the weights and the tangent points: the bound is exact then.

        Statistics of the collapsed family do not depend on the weights.
        """
        if self.document_weights is not None:
            return
        for _ in range(N_REFRESHES):
            global_stats, self.memos = refreshed(posterior, self.memos)
            state = posterior.model.update(posterior.state, global_stats)
            with commit():
                posterior.state, posterior.global_stats = state, global_stats
        posterior.global_stats, self.memos = refreshed(posterior, self.memos)

    def drop(self, columns: Sequence[int]) -> None:
        """Remove topics; documents lose these shares until the next local step."""
        self.memos = [memo.without(columns) for memo in self.memos]


# Reservoir sample of a stream's documents, on which an HDP tries numbers of topics.


#: Share of the documents that are held out, as long as these are few: what is held out
#: of a stream is never learned from.
SHARE = 0.1
#: Documents of a stream by which topics start again first...
FIRST_RESTART = 250
#: ...and times as many before each next time.
GROWTH = 2.0
#: Documents that choose a number before the first restart, at least, and those that
#: suffice.
FEWEST_CHOOSING, ENOUGH_CHOOSING = 20, 100
#: Growth between two choices of priors by held-out documents, from that number on.
GROWTH_OF_PRIORS = 1.25
#: Times as many documents as fit are kept, so that few calls make a choice.
MARGIN = 1.1
#: Documents that are kept at least, however long.
FEWEST_DOCS = 1000
#: Documents of a part of a call whose scores are recorded, at most, and those that a
#: record needs before it tells what is usual.
SCORED, FEWEST_SCORED = 100, 100
#: Standard errors that a call may score below the record each time, and those beyond
#: these that in all make a restart due.
CUSUM_SLACK, CUSUM_LIMIT = 0.5, 4.0
#: Standard deviations below the mean at which a document is predicted badly.
OUTLIER = 2.0
#: Growth of the stream before a restart for this reason.
GROWTH_BEFORE_EARLY_RESTART = 1.05
#: Largest key.
LAST_KEY = 2**64 - 1


def has_doubled(n_before: float, n_now: float) -> bool:
    """Whether a stream has passed 125 documents, 250, or any further doubling."""
    limit = FIRST_RESTART / GROWTH
    while limit * GROWTH <= n_now:
        limit *= GROWTH
    return n_before < limit <= n_now


Key = Annotated[int, In(1, LAST_KEY)]


@dataclass(frozen=True, slots=True)
class Reservoir:
    """A random sample of the different documents of a stream, some of them held out.

    A document's key is a random number that its counts and the entropy of the fit
    decide. Those with the smallest keys are kept, and of these those with the smallest
    are held out. So a document that comes again is known.
    """

    keys: Annotated[NDArray[np.uint64], Sized("n_kept", most=2**64)]
    counts: Annotated[sp.csr_array, Sized("n_kept", "n_features", least=0)]
    calls: Annotated[Ints32, Sized("n_kept")]  # of the stream in which they came
    last_key: Key = LAST_KEY  # that is kept
    last_held_key: Key = int(SHARE * LAST_KEY)
    n_before: Amount = 0.0  # documents of the stream before the first one here
    n_next: Amount = FIRST_RESTART  # documents at which topics start again next
    n_last: Amount = 0.0  # documents at which they started last
    n_priors: Amount = 0.0  # documents at which priors were learned last
    n_scored: Amount = 0.0  # documents whose scores were recorded before learning
    mean_score: Annotated[float, In(-LARGE, 0)] = 0.0  # of these, nats per token
    score_spread: Amount = 0.0  # sum of squared differences from it
    cusum: Amount = 0.0  # cumulative sum of standard errors by which calls were worse

    @classmethod
    def empty(cls, n_words: int, n_seen: int) -> "Reservoir":
        """Return a reservoir without documents, for a stream of `n_seen` so far."""
        keys, nothing = np.zeros(0, np.uint64), sp.csr_array((0, n_words))
        n_next = max(FIRST_RESTART, GROWTH * n_seen)
        calls = np.zeros(0, np.int32)
        return cls(keys, nothing, calls, n_before=n_seen, n_next=n_next)

    @property
    def n_docs(self) -> float:
        """Estimated number of different documents of the stream."""
        kept = len(self.keys) * ((LAST_KEY + 1) / (self.last_key + 1))
        return self.n_before + kept

    @property
    def is_due(self) -> bool:
        """Whether enough documents are new to start again with other topics."""
        return self.n_docs >= self.n_next

    @property
    def number_is_due(self) -> bool:
        """Whether documents have doubled since too few of them chose a number.

        Not after a fit, or where topics were given: these stay until a restart.
        """
        n_next = max(GROWTH * self.n_last, FEWEST_CHOOSING)
        is_few = 0.0 < self.n_last < ENOUGH_CHOOSING and self.n_docs < FIRST_RESTART
        return is_few and self.n_docs >= n_next

    @property
    def priors_are_due(self) -> bool:
        """Whether enough documents are new to learn priors by those held out."""
        return self.n_docs >= max(GROWTH_OF_PRIORS * self.n_priors, FIRST_RESTART)

    @property
    def is_due_early(self) -> bool:
        """Whether scores have fallen and documents are new since the last restart."""
        has_grown = self.n_docs >= GROWTH_BEFORE_EARLY_RESTART * self.n_last
        return self.has_drifted and has_grown

    @property
    def has_drifted(self) -> bool:
        """Whether scores of calls have fallen below those before."""
        return self.cusum >= CUSUM_LIMIT

    def are_outliers(self, scores: Array) -> Flags:
        """Whether documents score far below the mean of documents before, (n,)."""
        if self.n_scored < FEWEST_SCORED or self.n_docs < FIRST_RESTART:
            return np.zeros(len(scores), bool)
        deviation = np.sqrt(self.score_spread / (self.n_scored - 1.0))
        return scores < self.mean_score - OUTLIER * deviation

    def keep_number(self) -> "Reservoir":
        """Return the reservoir whose few documents choose no further number."""
        return replace(self, n_last=max(self.n_last, ENOUGH_CHOOSING))

    def begin_restart(self) -> "Reservoir":
        """Record that topics start again at this number of documents."""
        return replace(self, n_last=self.n_docs)

    def end_restart(self, is_better: bool, n_next: float = 0.0) -> "Reservoir":
        """Return the reservoir with the next restart due; topics may be better ones."""
        ended = replace(self, n_next=n_next or GROWTH * self.n_last, cusum=0.0)
        if not is_better:
            return ended
        # Scores of other topics differ.
        return replace(ended, n_scored=0.0, mean_score=0.0, score_spread=0.0)

    def record_scores(self, scores: Array) -> "Reservoir":
        """Return the reservoir with scores of documents before they are learned from.

        A cumulative sum of how far scores of calls are below the mean: topics that
        begin late are tried soon, not when the stream has doubled.
        """
        n, n_all = len(scores), self.n_scored + len(scores)
        if n == 0:
            return self
        cusum, offset = 0.0, scores.mean() - self.mean_score
        if self.n_scored >= FEWEST_SCORED and self.score_spread > 0.0:
            variance = self.score_spread / (self.n_scored - 1.0)
            error = np.sqrt(variance * (1.0 / n + 1.0 / self.n_scored))
            cusum = max(self.cusum - offset / error - CUSUM_SLACK, 0.0)
        spread = ((scores - scores.mean()) ** 2).sum()
        return replace(
            self,
            n_scored=n_all,
            mean_score=float(self.mean_score + offset * n / n_all),
            score_spread=float(
                self.score_spread + spread + offset**2 * self.n_scored * n / n_all
            ),
            cusum=float(cusum),
        )

    def widened(self, n_words: int) -> "Reservoir":
        """Return the reservoir with `n_words` columns; new ones are zero."""
        return replace(self, counts=with_columns(self.counts, n_words))

    def add(
        self, X: sp.csr_array, n_tokens: float, seed_entropy: int, call: int = 0
    ) -> tuple["Reservoir", sp.csr_array]:
        """Return the reservoir with new documents, and those of `X` to learn from.

        They come in the call of this number. About `n_tokens` tokens are kept, and at
        least `FEWEST_DOCS` documents.
        """
        keys = document_keys(X, seed_entropy)
        is_new = (keys <= np.uint64(self.last_key)) & ~np.isin(keys, self.keys)
        new = np.flatnonzero(is_new)
        new = new[np.unique(keys[new], return_index=True)[1]]
        grown = self
        if len(new):
            fresh = X[new]
            fresh.indices = fresh.indices.astype(np.int32, copy=False)
            fresh.indptr = fresh.indptr.astype(np.int32, copy=False)
            grown = replace(
                self,
                keys=np.concatenate([self.keys, keys[new]]),
                counts=sp.vstack([self.counts, fresh], format="csr"),
                calls=np.append(self.calls, np.full(len(new), call, np.int32)),
            )._limited(n_tokens)
        return grown, X[~_are_held_out(keys, X, self.last_held_key)]

    def select_learned(self, X: sp.csr_array, seed_entropy: int) -> sp.csr_array:
        """Return the documents of `X` that are not held out."""
        keys = document_keys(X, seed_entropy)
        return X[~_are_held_out(keys, X, self.last_held_key)]

    def draw(self, n: int, rng: np.random.Generator) -> sp.csr_array:
        """Draw `n` documents that are not held out.

        Each is drawn as often as the others, or once more.
        """
        judges = _are_held_out(self.keys, self.counts, self.last_held_key)
        rows = rng.permutation(np.flatnonzero(~judges))
        return self.counts[np.resize(rows, n if len(rows) else 0)]

    def sample(self) -> sp.csr_array:
        """Return documents with the smallest keys, as many as judge."""
        order = np.argsort(self.keys)
        return self.counts[np.sort(order[: n_judges(_lengths(self.counts)[order])])]

    def _limited(self, n_tokens: float) -> "Reservoir":
        """Return the reservoir with at most about `n_tokens` tokens."""
        order = np.argsort(self.keys)
        keys, counts = self.keys[order], self.counts
        lengths = _lengths(counts)[order]
        n_kept = max(int((np.cumsum(lengths) <= n_tokens).sum()), FEWEST_DOCS)
        most_held, kept = n_judges(lengths), self
        if n_kept * MARGIN < len(order):
            rows = np.sort(order[:n_kept])
            last_key = int(keys[n_kept - 1])
            kept = replace(
                self,
                keys=self.keys[rows],
                counts=counts[rows],
                calls=self.calls[rows],
                last_key=last_key,
            )
            most_held = min(most_held, int(np.ceil(SHARE * n_kept)))
        n_held = np.count_nonzero(keys <= np.uint64(self.last_held_key))
        if most_held < n_held:
            kept = replace(kept, last_held_key=int(keys[most_held - 1]))
        return kept

    def held_out(self, rng: np.random.Generator) -> HeldOut | None:
        """Return documents to learn from and to judge by, or None if too few."""
        judges = _are_held_out(self.keys, self.counts, self.last_held_key)
        return split(self.counts, np.flatnonzero(judges), rng)


def _are_held_out(
    keys: NDArray[np.uint64], counts: sp.csr_array, last_key: int
) -> Flags:
    """Whether documents have small keys, and tokens enough to predict some, (n,)."""
    return (keys <= np.uint64(last_key)) & (_lengths(counts) >= 2.0)


def _lengths(counts: sp.csr_array) -> Array:
    return np.asarray(counts.sum(axis=1)).ravel()


def document_keys(X: sp.csr_array, seed_entropy: int) -> NDArray[np.uint64]:
    """Random numbers as functions of counts: equal for equal documents, (n_docs,)."""
    seed = np.uint64(seed_entropy % 2**64)
    entries = splitmix64(X.data.astype(np.float64).view(np.uint64) ^ seed)
    entries = splitmix64(entries + splitmix64(X.indices.astype(np.uint64)))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries)])
    return splitmix64(sums[X.indptr[1:]] - sums[X.indptr[:-1]])


# Outliers of a stream, which an HDP predicts badly, and topics proposed for them.


#: Documents that are kept, at most.
MOST_DOCS = 150
#: New documents that are predicted badly before topics are proposed for them; twice as
#: many after each proposal in vain, up to a limit.
FIRST_WAIT, MOST_WAIT = 50, 400
#: Those that are enough where scores of calls have fallen.
WAIT_AFTER_DRIFT = 15


@dataclass(frozen=True, slots=True)
class Proposal:
    """Proposed late topics, with sums of the gains of documents that judged them."""

    # expected counts
    topics: Annotated[sp.csr_array, Sized("n_proposed", "n_features", least=0)]
    n_judges: Annotated[Ints, Sized("n_proposed")]  # documents
    gains: Annotated[Array, Sized("n_proposed")]  # sum over documents, nats
    squares: Annotated[Array, Sized("n_proposed", least=0)]  # sum of squares
    # sum of the shares of documents
    shares: Annotated[Array, Sized("n_proposed", least=0)]

    @classmethod
    def of(cls, topics: sp.csr_array) -> "Proposal":
        """Return a proposal that no document has judged."""
        gains, squares, shares = np.zeros((3, topics.shape[0]))
        return cls(topics, np.zeros(topics.shape[0], np.intp), gains, squares, shares)

    def judged(self, gains: Array, shares: Array) -> "Proposal":
        """Add the gains and shares of further documents, both (n_docs, T)."""
        return replace(
            self,
            n_judges=self.n_judges + len(gains),
            gains=self.gains + gains.sum(axis=0),
            squares=self.squares + np.square(gains).sum(axis=0),
            shares=self.shares + shares.sum(axis=0),
        )

    def take(self, some: Ints | Flags) -> "Proposal":
        """Return the proposal with some of its topics."""
        return Proposal(
            self.topics[some],
            self.n_judges[some],
            self.gains[some],
            self.squares[some],
            self.shares[some],
        )

    def continued_by(self, topics: sp.csr_array, least: float) -> "Proposal":
        """Return a proposal of new topics, with the gains of old ones like them.

        Each old topic is matched to the nearest new one, at a cosine of at least
        `least`.
        """
        cosines = np.asarray((_unit(topics) @ _unit(self.topics).T).todense())
        result = Proposal.of(topics)
        new, old = most_similar(cosines, least)
        result.n_judges[new] = self.n_judges[old]
        result.gains[new] = self.gains[old]
        result.squares[new] = self.squares[old]
        result.shares[new] = self.shares[old]
        return result


def _unit(rows: sp.csr_array) -> sp.csr_array:
    """Rows of length one."""
    norm = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1.0 / np.maximum(norm, 1e-300)) @ rows)


@dataclass(frozen=True, slots=True)
class Outliers:
    """The latest documents that were predicted badly, and topics proposed for them."""

    counts: Annotated[sp.csr_array, Sized("n_outliers", "n_features", least=0)]
    n_new: int = 0  # since topics were last proposed
    n_wait: int = FIRST_WAIT  # new ones that make a proposal due
    proposal: Proposal | None = None
    born: tuple[int, ...] = ()  # ids of topics that began so, in order
    #: Ids of those that proposals may replace, and documents scored since they began.
    provisional: tuple[tuple[int, int], ...] = ()

    @classmethod
    def empty(cls, n_words: int) -> "Outliers":
        """Return a record without documents."""
        return cls(sp.csr_array((0, n_words)))

    def with_documents(self, X: sp.csr_array) -> "Outliers":
        """Add documents, and drop the earliest if there are too many."""
        if X.shape[0] == 0:
            return self
        counts = sp.vstack([self.counts, X], format="csr")[-MOST_DOCS:]
        return replace(self, counts=counts, n_new=self.n_new + X.shape[0])

    def is_due(self, has_drifted: bool) -> bool:
        """Whether to propose topics, after fewer documents if scores have fallen."""
        return self.n_new >= (WAIT_AFTER_DRIFT if has_drifted else self.n_wait)

    def proposed(self, topics: sp.csr_array | None, least: float) -> "Outliers":
        """Return the record with proposed topics; None waits for longer."""
        tried = replace(self, n_new=0)
        if topics is None:
            return tried.wait_longer()
        if topics.shape[0] == 0:
            return replace(tried, proposal=None)
        if self.proposal is None:
            return replace(tried, proposal=Proposal.of(topics))
        return replace(tried, proposal=self.proposal.continued_by(topics, least))

    def wait_longer(self) -> "Outliers":
        """Return the record without proposal, which waits twice as long."""
        n_wait = min(2 * self.n_wait, MOST_WAIT)
        return replace(self, proposal=None, n_wait=n_wait)

    def with_births(self, ids: Ints) -> "Outliers":
        """Add ids of new topics, all provisional, and wait for few documents."""
        names = tuple(ids.tolist())
        provisional = (*self.provisional, *((name, 0) for name in names))
        born = (*self.born, *names)
        return replace(self, n_wait=FIRST_WAIT, born=born, provisional=provisional)

    def advance_ages(self, n_docs: int, most: int, ids: Ints) -> "Outliers":
        """Add `n_docs` documents to the ages of provisional topics.

        Topics of age `most`, or not among `ids`, are no longer provisional.
        """
        provisional = tuple(
            (name, age + n_docs)
            for name, age in self.provisional
            if age + n_docs < most and name in ids
        )
        return replace(self, provisional=provisional)

    def widened(self, n_words: int) -> "Outliers":
        """Return the record with `n_words` columns; new ones are zero."""
        wide = replace(self, counts=with_columns(self.counts, n_words))
        if self.proposal is None:
            return wide
        topics = with_columns(self.proposal.topics, n_words)
        return replace(wide, proposal=replace(self.proposal, topics=topics))


Totals = HDPStats[WordTopics] | CollapsedStats[WordTopics]


@dataclass(slots=True)
class HDPPosterior(Posterior[HDPModel, HDPState, Totals]):
    """Globals of an HDP, and records of trials, restarts and documents of a stream."""

    trials_ended: bool = False  # of other numbers of topics
    reservoir: Reservoir | None = None  # documents of a stream that are kept
    #: Smallest and largest number of topics that predict as well as the best.
    equivalent: tuple[Count, Count] | None = None
    is_cross_fitted: bool = False  # whether each document has judged them
    #: Gain over word frequencies by documents that trials held out, nats per token, and
    #: its standard error.
    held_out_gain: tuple[Number, Number] | None = None
    #: Numbers of topics that trials compared, and the gain of each, nats per token.
    gains: tuple[tuple[Count, Number], ...] = ()
    outliers: Outliers | None = None  # documents of a stream predicted badly
    restart: Any = None  # Restart of the topics of a stream, which learns beside it
    groups: Groups | None = None  # of documents, with topic weights of their own

    @property
    def kept(self) -> Reservoir:
        """Documents of a stream that are kept."""
        assert self.reservoir is not None
        return self.reservoir

    def restarted(
        self, topics: WordTopics, weights: Array, kept: NDArray
    ) -> "HDPPosterior":
        """Return a posterior that starts again from some topics and from new ones.

        `topics` begin with those of the columns `kept`; `weights`, (K + 1,).
        """
        names = self.n_named + np.arange(topics.shape[1] - len(kept))
        gone, step = np.delete(self.ids, kept).tolist(), self.n_steps
        log = [Lineage(step, "prune", (name,), ()) for name in gone]
        log += [Lineage(step, "birth", (), (name,)) for name in names.tolist()]
        state = replace(self.state, weights=weights)
        return replace(
            self,
            state=state,
            global_stats=self.model.start(state, topics),
            ids=np.concatenate([self.ids[kept], names]),
            init_fraction=1.0,
            lineage=[*self.lineage, *log],
        )

    def adopt(
        self,
        candidate: "HDPPosterior",
        monitor: Monitor,
        log: list[Lineage] | None = None,
    ) -> None:
        """Replace globals and ids in place by those of a candidate: one update.

        The log continues with `log`, by default with that of the candidate since it was
        a copy; topics that began and ended meanwhile are left out.
        """
        if log is None:
            log = candidate.lineage[len(self.lineage) :]
            born = {entry.children for entry in log if entry.kind == "birth"}
            gone = {entry.parents for entry in log if entry.kind == "prune"}
            merged = [entry.parents for entry in log if entry.kind == "merge"]
            passing = {name for (name,) in born & gone}.difference(*merged)
            log = [e for e in log if passing.isdisjoint(e.parents + e.children)]
        log = [entry._replace(step=self.n_steps + 1) for entry in log]
        with commit():
            self.replace_globals(candidate.state, candidate.global_stats)
            self.ids, self.init_fraction = candidate.ids, candidate.init_fraction
            self.n_steps += 1
            self.lineage = [*self.lineage, *log]
            monitor.record(self)

    def copy(self) -> "HDPPosterior":
        """Return an independent copy."""
        words = self.global_stats.topic_words.copy()
        return replace(self, global_stats=replace(self.global_stats, topic_words=words))
