"""Outliers of a stream, which an HDP predicts badly, and topics proposed for them."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import scipy.sparse as sp

from skbnp.utils.arrays import with_columns
from skbnp.utils.matching import most_similar
from skbnp.utils.ranges import Sized
from skbnp.utils.typing import Array, Flags, Ints

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

    def with_proposal(self, proposal: Proposal) -> "Outliers":
        """Return the record with a proposal, or with none if it has no topics."""
        if len(proposal.gains):
            return replace(self, proposal=proposal)
        return replace(self, proposal=None)

    def widened(self, n_words: int) -> "Outliers":
        """Return the record with `n_words` columns; new ones are zero."""
        wide = replace(self, counts=with_columns(self.counts, n_words))
        if self.proposal is None:
            return wide
        topics = with_columns(self.proposal.topics, n_words)
        return replace(wide, proposal=replace(self.proposal, topics=topics))
