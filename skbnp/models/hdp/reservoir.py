"""Reservoir sample of a stream's documents, on which an HDP tries numbers of topics."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.models.hdp.held_out import HeldOut, n_judges, split
from skbnp.utils.arrays import with_columns
from skbnp.utils.ranges import LARGE, Amount, In, Sized
from skbnp.utils.typing import Array, Flags

#: Share of the documents that are held out, as long as these are few: what is held out
#: of a stream is never learned from.
SHARE = 0.1
#: Documents of a stream by which other numbers of topics are tried first...
FIRST_TRIALS = 250
#: ...and times as many before each next time: fewer where trials go on for many calls
#: and end later, more after trials without success.
GROWTH, GROWTH_BY_STEPS, GROWTH_AFTER_REJECTION = 2.0, 1.5, 4.0
#: Times as many documents as fit are kept, so that few calls make a choice.
MARGIN = 1.1
#: Documents that are kept at least, however long.
FEWEST_DOCS = 1000
#: Documents of a part of a call whose scores are recorded, at most, and those that a
#: record needs before it tells what is usual.
SCORED, FEWEST_SCORED = 100, 100
#: Standard errors that a call may score below the record each time, and those beyond
#: these that in all make other numbers of topics due.
CUSUM_SLACK, CUSUM_LIMIT = 0.5, 4.0
#: Standard deviations below the mean at which a document is predicted badly.
OUTLIER = 2.0
#: Growth of the stream before trials for this reason.
GROWTH_BEFORE_EARLY_TRIALS = 1.05
#: Documents of a stream after which numbers are tried a second time, if not before.
SECOND_TRIALS = 500
#: More documents than any stream has.
NEVER = 1e100
#: Largest key.
LAST_KEY = 2**64 - 1
#: Increment and multipliers of SplitMix64.
INCREMENT, FIRST, SECOND = (
    np.uint64(number)
    for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def has_doubled(n_before: float, n_now: float) -> bool:
    """Whether a stream has passed 125 documents, 250, or any further doubling."""
    limit = FIRST_TRIALS / GROWTH
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
    last_key: Key = LAST_KEY  # that is kept
    last_held_key: Key = int(SHARE * LAST_KEY)
    n_before: Amount = 0.0  # documents of the stream before the first one here
    n_next: Amount = FIRST_TRIALS  # documents at which numbers are tried next
    n_last: Amount = 0.0  # documents at which they were tried last
    n_scored: Amount = 0.0  # documents whose scores were recorded before learning
    mean_score: Annotated[float, In(-LARGE, 0)] = 0.0  # of these, nats per token
    score_spread: Amount = 0.0  # sum of squared differences from it
    cusum: Amount = 0.0  # cumulative sum of standard errors by which calls were worse

    @classmethod
    def empty(
        cls, n_words: int, n_seen: int, *, has_trials: bool = True
    ) -> "Reservoir":
        """Return a reservoir without documents, for a stream of `n_seen` so far."""
        keys, nothing = np.zeros(0, np.uint64), sp.csr_array((0, n_words))
        n_next = max(FIRST_TRIALS, GROWTH * n_seen) if has_trials else NEVER
        return cls(keys, nothing, n_before=n_seen, n_next=n_next)

    @property
    def n_docs(self) -> float:
        """Estimated number of different documents of the stream."""
        kept = len(self.keys) * ((LAST_KEY + 1) / (self.last_key + 1))
        return self.n_before + kept

    @property
    def is_due(self) -> bool:
        """Whether enough documents are new to try other numbers of topics."""
        return self.n_docs >= self.n_next

    @property
    def is_due_early(self) -> bool:
        """Whether scores have fallen and the stream has grown since the last trials."""
        has_grown = self.n_docs >= GROWTH_BEFORE_EARLY_TRIALS * self.n_last
        return self.has_drifted and has_grown

    @property
    def has_drifted(self) -> bool:
        """Whether scores of calls have fallen below those before."""
        return self.cusum >= CUSUM_LIMIT

    def reset_cusum(self) -> "Reservoir":
        """Return the reservoir with the cumulative sum of scores at zero."""
        return replace(self, cusum=0.0)

    def are_outliers(self, scores: Array) -> Flags:
        """Whether documents score far below the mean of documents before, (n,)."""
        if self.n_scored < FEWEST_SCORED or self.n_docs < FIRST_TRIALS:
            return np.zeros(len(scores), bool)
        deviation = np.sqrt(self.score_spread / (self.n_scored - 1.0))
        return scores < self.mean_score - OUTLIER * deviation

    def begin_trials(self) -> "Reservoir":
        """Record that trials begin at this number of documents."""
        return replace(self, n_last=self.n_docs)

    def end_trials(self, n_accepted: int, in_passes: bool = True) -> "Reservoir":
        """Return the reservoir with the next trials due, after some were accepted."""
        growth = GROWTH_AFTER_REJECTION
        if n_accepted:
            growth = GROWTH if in_passes else GROWTH_BY_STEPS
        n_next = growth * self.n_last
        if self.n_last < SECOND_TRIALS:
            n_next = min(n_next, SECOND_TRIALS)
        tried = replace(self, n_next=n_next, cusum=0.0)
        return tried.unscored() if n_accepted else tried

    def unscored(self) -> "Reservoir":
        """Return the reservoir without scores: those of other topics differ."""
        return replace(self, n_scored=0.0, mean_score=0.0, score_spread=0.0)

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
        self, X: sp.csr_array, n_tokens: float, seed_entropy: int
    ) -> tuple["Reservoir", sp.csr_array]:
        """Return the reservoir with new documents, and those of `X` to learn from.

        About `n_tokens` tokens are kept, and at least `FEWEST_DOCS` documents.
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
            )._limited(n_tokens)
        return grown, X[~_are_held_out(keys, X, self.last_held_key)]

    def select_learned(self, X: sp.csr_array, seed_entropy: int) -> sp.csr_array:
        """Return the documents of `X` that are not held out."""
        keys = document_keys(X, seed_entropy)
        return X[~_are_held_out(keys, X, self.last_held_key)]

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
                self, keys=self.keys[rows], counts=counts[rows], last_key=last_key
            )
            most_held = min(most_held, int(np.ceil(SHARE * n_kept)))
        if most_held < np.count_nonzero(keys <= np.uint64(self.last_held_key)):
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
    entries = _hashed(X.data.astype(np.float64).view(np.uint64) ^ seed)
    entries = _hashed(entries + _hashed(X.indices.astype(np.uint64)))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries)])
    return _hashed(sums[X.indptr[1:]] - sums[X.indptr[:-1]])


def _hashed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash values by one step of SplitMix64."""
    values = values + INCREMENT
    values = (values ^ (values >> np.uint64(30))) * FIRST
    values = (values ^ (values >> np.uint64(27))) * SECOND
    return values ^ (values >> np.uint64(31))
