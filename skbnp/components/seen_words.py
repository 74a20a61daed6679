"""Words of a vocabulary that documents have shown: those with a row in a table."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
import scipy.sparse as sp

from skbnp.utils.ranges import Sized
from skbnp.utils.typing import Array, Ints, Ints32


@dataclass(frozen=True)
class SeenWords:
    """Words that documents have shown, in the order of their rows.

    All others are alike: no topic holds them, so that a table needs no row for them.
    """

    words: Annotated[Ints, Sized("n_seen")]  # of the vocabulary, one for each row
    n_vocabulary: int  # V

    @classmethod
    def all(cls, n_vocabulary: int) -> "SeenWords":
        """Return all words of a vocabulary, in its order."""
        return cls(np.arange(n_vocabulary), n_vocabulary)

    @classmethod
    def of(cls, counts: Array) -> "SeenWords":
        """Return the words with positive counts, (V,)."""
        return cls(np.flatnonzero(counts), len(counts))

    def __len__(self) -> int:
        return len(self.words)

    @property
    def is_whole(self) -> bool:
        """Whether all words have a row, in their order."""
        return self._rows is None

    @property
    def n_unseen(self) -> int:
        """Number of words without a row."""
        return self.n_vocabulary - len(self.words)

    @cached_property
    def _rows(self) -> Ints32 | None:
        """Row of each word of the vocabulary, (V,); None if it is the word itself."""
        n = len(self.words)
        if not self.n_unseen and np.array_equal(self.words, np.arange(n)):
            return None
        rows = np.full(self.n_vocabulary, n, dtype=np.int32)
        rows[self.words] = np.arange(n, dtype=np.int32)
        return rows

    def rows_of(self, words: Ints) -> Ints:
        """Rows of words; unseen words share the row after the last."""
        return words if self._rows is None else self._rows[words].astype(np.intp)

    def among(self, words: Ints) -> Ints:
        """Return those of some words that are seen."""
        return words[self.rows_of(words) < len(self)] if self.n_unseen else words

    def compact(self, X: sp.csr_array) -> sp.csr_array:
        """Return counts whose columns are rows of the table.

        Unseen words share a last column, if there are any in `X`; a row may have
        several entries there.
        """
        if self._rows is None:
            return X
        rows = self.rows_of(X.indices)
        n_columns = max(len(self), int(rows.max(initial=-1)) + 1)
        parts = X.data.copy(), rows.astype(X.indices.dtype), X.indptr
        compact = sp.csr_array(parts, (X.shape[0], n_columns))
        compact.sort_indices()
        return compact

    def spread(self, rows: sp.csr_array) -> sp.csr_array:
        """Return rows by words of the vocabulary, given by the first words here."""
        if self.is_whole:
            return rows
        words = self.words[rows.indices].astype(rows.indices.dtype)
        shape = rows.shape[0], self.n_vocabulary
        result = sp.csr_array((rows.data, words, rows.indptr), shape)
        result.sort_indices()
        return result

    def with_words(self, words: Ints) -> "SeenWords":
        """Append further words that are not seen yet, in their order."""
        if not self.n_unseen:
            return self
        new = words[self.rows_of(words) == len(self)]
        if len(new) == 0:
            return self
        return SeenWords(np.concatenate([self.words, new]), self.n_vocabulary)
