"""What documents say under one set of globals, kept so that moves can look closer."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import psi

__all__ = ["Visit", "log_or_zero", "x_log_x"]

Array = NDArray[np.float64]

#: A topic's weight in a document is not below this where it is in its support.
SMALLEST_WEIGHT = 1e-150


def log_or_zero(values: Array) -> Array:
    """Natural logarithm; zero where the value is zero."""
    return np.log(values, out=np.zeros_like(values), where=values > 0.0)


def x_log_x(values: Array) -> Array:
    """X log x, zero at zero."""
    return values * log_or_zero(values)


@dataclass(slots=True)
class Visit:
    """Responsibilities r_jwk = e_jk b_wk / s_jw of some documents, in factors.

    Expected counts, sums and entropy are those of exactly these responsibilities.
    """

    counts: sp.csr_array  # (n_docs, n_words) n_jw, columns are positions in `words`
    words: NDArray[np.intp]  # (n_words,) columns of the corpus
    word_weights: Array  # (n_words, K) b
    doc_weights: Array  # (n_docs, K) e, zero off the support
    norms: Array  # (nnz,) s
    doc_topic: Array  # (n_docs, K) N_jk
    sums: Array  # (n_words, K) S_kw
    entropy: Array  # (K,) -sum n r log r

    @classmethod
    def under(
        cls,
        counts: sp.csr_array,
        words: NDArray[np.intp],
        word_weights: Array,
        prior: Array,
        doc_topic: Array,
    ) -> "Visit":
        """One more exact step, Eqs. (3) and (4), from the expected counts given."""
        weights = np.zeros_like(doc_topic)
        used = doc_topic > 0.0
        weights[used] = np.exp(psi((prior + doc_topic)[used]))
        weights[used] = np.maximum(weights[used], SMALLEST_WEIGHT)
        row, column = _rows(counts), counts.indices
        norms = np.einsum("nk,nk->n", weights[row], word_weights[column])
        ratio = _like(counts, counts.data / norms)
        tokens = weights * (ratio @ word_weights)
        sums = word_weights * (ratio.T @ weights)
        logs = _like(counts, ratio.data * np.log(norms))
        entropy = (
            (word_weights * (logs.T @ weights)).sum(axis=0)
            - (tokens * log_or_zero(weights)).sum(axis=0)
            - (sums * np.log(word_weights)).sum(axis=0)
        )
        return cls(counts, words, word_weights, weights, norms, tokens, sums, entropy)

    @property
    def n_tokens(self) -> Array:
        """Tokens of each document, (n_docs,)."""
        return np.asarray(self.counts.sum(axis=1)).ravel()

    @property
    def row(self) -> NDArray[np.intp]:
        """Document of each stored count, (nnz,)."""
        return _rows(self.counts)

    def responsibilities(self, topic: int) -> Array:
        """r_jwk of one topic for each stored count, (nnz,)."""
        column = self.counts.indices
        weights = self.doc_weights[self.row, topic] * self.word_weights[column, topic]
        return weights / self.norms

    def joint_entropy(self, one: int, other: int) -> Array:
        """Entropy of the sum of two topics' responsibilities, nats."""
        joint = self.responsibilities(one) + self.responsibilities(other)
        return -(self.counts.data * x_log_x(joint)).sum()

    def merged(self, source: int, target: int) -> "Visit":
        """Return the visit with the source's part added to the target's."""
        entropy, factors = self.entropy.copy(), []
        entropy[target] = self.joint_entropy(source, target)
        for values in (self.doc_topic, self.sums):
            factors.append(values.copy())
            factors[-1][:, target] += values[:, source]
        return replace(self, doc_topic=factors[0], sums=factors[1], entropy=entropy)

    def without(self, gone: Any) -> "Visit":
        """Return a view of the other topics; documents keep their responsibilities."""
        keep = np.delete(np.arange(self.doc_topic.shape[1]), gone)
        return Visit(
            self.counts,
            self.words,
            self.word_weights[:, keep],
            self.doc_weights[:, keep],
            self.norms,
            self.doc_topic[:, keep],
            self.sums[:, keep],
            self.entropy[keep],
        )


def _rows(counts: sp.csr_array) -> NDArray[np.intp]:
    return np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))


def _like(counts: sp.csr_array, data: Array) -> sp.csr_array:
    return sp.csr_array((data, counts.indices, counts.indptr), shape=counts.shape)
