"""Documents as lists of tokens, for samplers."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.utils.arrays import rows_of
from skbnp.utils.typing import Ints, Ints32

#: Largest count of tokens, documents or tables: what 32 bits hold.
MOST_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Tokens:
    """A corpus token by token: the word of each, and the limits of documents."""

    words: Ints32  # (n_tokens,) by document, equal words side by side
    begin: NDArray[np.int64]  # (n_docs + 1,) limits of the documents
    n_words: int

    @classmethod
    def from_counts(cls, counts: sp.csr_array) -> "Tokens":
        """Return the tokens of whole counts in canonical order."""
        times = counts.data.astype(np.int64)
        ends = np.concatenate([[0], np.cumsum(times)])
        words = np.repeat(counts.indices.astype(np.int32), times)
        return cls(words, ends[counts.indptr], counts.shape[1])

    def take(self, docs: Ints) -> "Tokens":
        """Return the tokens of some documents, in increasing order."""
        lengths = np.diff(self.begin)
        is_taken = np.zeros(len(lengths), dtype=bool)
        is_taken[docs] = True
        begin = np.concatenate([[0], np.cumsum(lengths[docs])]).astype(np.int64)
        return Tokens(self.words[is_taken[self.doc]], begin, self.n_words)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def doc(self) -> Ints:
        """Document of each token."""
        return rows_of(self.begin)

    def runs(self) -> tuple[Ints, Ints]:
        """Begins of the runs of equal words in each document, and their lengths."""
        is_first = np.diff(self.words, prepend=-1) != 0
        is_first[self.begin[:-1][np.diff(self.begin) > 0]] = True
        starts = np.flatnonzero(is_first)
        return starts, np.diff(starts, append=len(self))

    def check_after(self, n_before: int) -> None:
        """Raise ValueError if counts overflow when added to `n_before`.

        No document, and no table, is without a token: counts of tokens are largest.
        """
        total = int(n_before) + len(self)
        if total > MOST_COUNT:
            raise ValueError(
                f"X has {len(self)} tokens, earlier calls had {n_before}: a sampler "
                f"counts up to {MOST_COUNT}. Fit a new one."
            )
