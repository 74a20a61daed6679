"""Documents of a stream that are predicted badly, and topics proposed for them."""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.utils.sparse import with_columns

__all__ = ["Proposal", "Surprises"]

Array = NDArray[np.float64]

#: Documents that are kept, at most.
MOST_DOCS = 150
#: New documents that are predicted badly before topics are proposed for them; twice as
#: many after each proposal in vain, up to a limit.
FIRST_WAIT, MOST_WAIT = 50, 400
#: Those that are enough where scores of calls have fallen.
WAIT_OF_SURPRISE = 15


@dataclass(frozen=True, slots=True)
class Proposal:
    """Topics on trial, and what documents have gained by each so far."""

    topics: sp.csr_array  # (T, V) expected counts
    n_judges: int
    gains: Array  # (T,) sum over documents, nats
    squares: Array  # (T,) sum of squares
    shares: Array  # (T,) sum of the shares of documents

    @classmethod
    def of(cls, topics: sp.csr_array) -> "Proposal":
        """Return topics that no document has judged."""
        zeros = np.zeros(topics.shape[0])
        return cls(topics, 0, zeros, zeros, zeros)

    def judged(self, gains: Array, shares: Array) -> "Proposal":
        """Return one that further documents have judged, both (n_docs, T)."""
        return replace(
            self,
            n_judges=self.n_judges + len(gains),
            gains=self.gains + gains.sum(axis=0),
            squares=self.squares + np.square(gains).sum(axis=0),
            shares=self.shares + shares.sum(axis=0),
        )

    def without(self, chosen: NDArray[np.intp]) -> "Proposal":
        """Return one of the other topics."""
        left = np.delete(np.arange(len(self.gains)), chosen)
        parts = self.gains[left], self.squares[left], self.shares[left]
        return Proposal(self.topics[left], self.n_judges, *parts)


@dataclass(frozen=True, slots=True)
class Surprises:
    """The latest documents that were predicted badly."""

    counts: sp.csr_array  # (n, V)
    n_new: int = 0  # since topics were last proposed
    n_wait: int = FIRST_WAIT  # new ones that make a proposal due
    proposal: Proposal | None = None
    born: tuple[int, ...] = ()  # ids of topics that began so, in order

    @classmethod
    def empty(cls, n_words: int) -> "Surprises":
        """Return none."""
        return cls(sp.csr_array((0, n_words)))

    def with_documents(self, X: sp.csr_array) -> "Surprises":
        """Return one with further documents, without the earliest if too many."""
        if X.shape[0] == 0:
            return self
        counts = sp.vstack([self.counts, X], format="csr")[-MOST_DOCS:]
        return replace(self, counts=counts, n_new=self.n_new + X.shape[0])

    def is_due(self, is_surprised: bool) -> bool:
        """Whether to propose topics; soon where scores have fallen."""
        n_wait = WAIT_OF_SURPRISE if is_surprised else self.n_wait
        return self.proposal is None and self.n_new >= n_wait

    def proposed(self, proposal: Proposal | None) -> "Surprises":
        """Return one with topics on trial, or without if there were none to propose."""
        tried = replace(self, proposal=proposal, n_new=0)
        return tried if proposal is not None else tried.rejected()

    def rejected(self) -> "Surprises":
        """Return one that waits for longer."""
        n_wait = min(2 * self.n_wait, MOST_WAIT)
        return replace(self, proposal=None, n_wait=n_wait)

    def accepted(self, ids: NDArray[np.intp]) -> "Surprises":
        """Return one without documents, which topics that were born explain."""
        empty = replace(self.empty(self.counts.shape[1]), proposal=self.proposal)
        return replace(empty, born=(*self.born, *ids.tolist()))

    def widened(self, n_words: int) -> "Surprises":
        """Return the same with further words, which no document has."""
        wide = replace(self, counts=with_columns(self.counts, n_words))
        if self.proposal is None:
            return wide
        topics = with_columns(self.proposal.topics, n_words)
        return replace(wide, proposal=replace(self.proposal, topics=topics))
