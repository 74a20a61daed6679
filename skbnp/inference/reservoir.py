"""Documents of a stream that are kept, to try other numbers of topics on."""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.held_out import (
    FEWEST_DOCS,
    N_TOKENS,
    SHARE,
    HeldOut,
    split_tokens,
)

__all__ = ["LAST_KEY", "Reservoir", "document_keys"]

#: Documents of a stream by which other numbers of topics are tried first...
FIRST_TRIALS = 250
#: ...and times as many before each next time.
GROWTH = 2.0
#: Times as many documents as fit are kept, so that few calls make a choice.
MARGIN = 1.1
#: Largest key.
LAST_KEY = 2**64 - 1
#: Increment and multipliers of SplitMix64.
INCREMENT, FIRST, SECOND = (
    np.uint64(number)
    for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


@dataclass(frozen=True, slots=True)
class Reservoir:
    """A random sample of the different documents of a stream, some tokens held out.

    A document's key is a random number that its counts and the entropy of the fit
    decide. Those with the smallest keys are kept, and tokens are held out of the
    smallest of these. So a document that comes again is known, and learned from without
    what is held out of it.
    """

    keys: NDArray[np.uint64]  # (n,)
    observed: sp.csr_array  # (n, V) counts to learn from
    held: sp.csr_array  # (n, V) counts held out
    last_key: int = LAST_KEY  # that is kept
    last_held_key: int = LAST_KEY  # of a document that tokens are held out of
    n_tried: float = 0.0  # documents of the stream when numbers were tried last

    @classmethod
    def empty(cls, n_words: int, n_seen: int) -> "Reservoir":
        """Return one without documents, of a stream that goes on from `n_seen`."""
        nothing = sp.csr_array((0, n_words))
        return cls(np.zeros(0, np.uint64), nothing, nothing, n_tried=n_seen)

    @property
    def n_docs(self) -> float:
        """Different documents of the stream, as the keys tell."""
        return len(self.keys) * ((LAST_KEY + 1) / (self.last_key + 1))

    @property
    def is_due(self) -> bool:
        """Whether other numbers of topics should be tried."""
        return self.n_docs >= max(FIRST_TRIALS, GROWTH * self.n_tried)

    def tried(self) -> "Reservoir":
        """Return the same after trials."""
        return replace(self, n_tried=self.n_docs)

    def add(
        self, X: sp.csr_array, n_tokens: float, entropy: int, rng: np.random.Generator
    ) -> tuple["Reservoir", sp.csr_array]:
        """Return one with new documents in it, and what may be learned from `X`.

        About `n_tokens` are kept, but `FEWEST_DOCS` documents at the least.
        """
        keys = document_keys(X, entropy)
        is_new = (keys <= np.uint64(self.last_key)) & ~np.isin(keys, self.keys)
        new = np.flatnonzero(is_new)
        new = new[np.unique(keys[new], return_index=True)[1]]
        # A tenth of the tokens, less of long documents: the error of a comparison is
        # that between documents.
        lengths = np.asarray(X[new].sum(axis=1)).ravel()
        share = np.minimum(SHARE, N_TOKENS / FEWEST_DOCS / np.maximum(lengths, 1.0))
        share[keys[new] > np.uint64(self.last_held_key)] = 0.0
        observed, held = split_tokens(X[new], share, rng)
        grown = replace(
            self,
            keys=np.concatenate([self.keys, keys[new]]),
            observed=sp.vstack([self.observed, observed], format="csr"),
            held=sp.vstack([self.held, held], format="csr"),
        )
        place = _places(keys, grown.keys)
        known = np.flatnonzero(place >= 0)
        rows = np.arange(len(keys))
        rows[known] = len(keys) + np.arange(len(known))
        parts = [X, grown.observed[place[known]]]
        return grown._limited(n_tokens), sp.vstack(parts, format="csr")[rows]

    def _limited(self, n_tokens: float) -> "Reservoir":
        """Return one of fewer documents if there are too many."""
        order = np.argsort(self.keys)
        kept = self
        n_kept = _n_within(self.observed, order, n_tokens)
        if n_kept * MARGIN < len(order):
            rows = np.sort(order[:n_kept])
            kept = replace(
                self,
                keys=self.keys[rows],
                observed=self.observed[rows],
                held=self.held[rows],
                last_key=int(self.keys[order[n_kept - 1]]),
            )
            order = np.argsort(kept.keys)
        n_judges = _n_within(kept.held, order, N_TOKENS)
        if n_judges * MARGIN < np.count_nonzero(np.diff(kept.held.indptr)):
            last = kept.keys[order[n_judges - 1]]
            judges = (kept.keys <= last).astype(np.float64)
            held = sp.csr_array(sp.diags_array(judges) @ kept.held)
            held.eliminate_zeros()
            kept = replace(
                kept,
                observed=sp.csr_array(kept.observed + (kept.held - held)),
                held=held,
                last_held_key=int(last),
            )
        return kept

    def held_out(self) -> HeldOut | None:
        """Return what trials are judged by; None if nothing is held out."""
        some = np.flatnonzero(np.diff(self.held.indptr))
        return HeldOut(self.observed, some, self.held[some]) if len(some) else None


def _n_within(X: sp.csr_array, order: NDArray[np.intp], n_tokens: float) -> int:
    """Documents at the head of an order that hold so many tokens, or `FEWEST_DOCS`."""
    lengths = np.asarray(X.sum(axis=1)).ravel()[order]
    return max(int((np.cumsum(lengths) <= n_tokens).sum()), FEWEST_DOCS)


def _places(keys: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Index of each key among the known ones, -1 where it is not."""
    if not len(known):
        return np.full(len(keys), -1, np.intp)
    order = np.argsort(known)
    place = np.searchsorted(known, keys, sorter=order)
    place = order[np.minimum(place, len(known) - 1)]
    return np.where(known[place] == keys, place, -1)


def document_keys(X: sp.csr_array, entropy: int) -> NDArray[np.uint64]:
    """Random numbers that counts decide: equal for equal documents, (n_docs,)."""
    seed = np.uint64(entropy % 2**64)
    entries = _hashed(X.data.astype(np.float64).view(np.uint64) ^ seed)
    entries = _hashed(entries + _hashed(X.indices.astype(np.uint64)))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries)])
    return _hashed(sums[X.indptr[1:]] - sums[X.indptr[:-1]])


def _hashed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One step of SplitMix64."""
    values = values + INCREMENT
    values = (values ^ (values >> np.uint64(30))) * FIRST
    values = (values ^ (values >> np.uint64(27))) * SECOND
    return values ^ (values >> np.uint64(31))
