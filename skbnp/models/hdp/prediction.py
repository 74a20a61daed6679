"""Prediction by an HDP: documents mix fixed topics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.executor import Executor
from skbnp.models.hdp.burstiness import N_DOCS, Burstiness, evenly, learn_burstiness
from skbnp.models.hdp.fold_in import (
    MeanTopics,
    Seated,
    background,
    fold_in,
    fold_in_tables,
    mix,
)
from skbnp.utils.arrays import rows_of
from skbnp.utils.typing import Array, Ints
from skbnp.utils.validation import SMALLEST_PRIOR


@dataclass(frozen=True, slots=True)
class FixedTopics:
    """Fixed topics and the prior of a document, for prediction."""

    topic_word_distr: Array  # (n_components, n_words)
    doc_prior: Array  # (n_components + 1,)

    def word_topic(self, words: NDArray | slice = slice(None)) -> Array:
        """phi_kw of some words, (n_words, K)."""
        return np.ascontiguousarray(self.topic_word_distr[:, words].T)


@dataclass(frozen=True, slots=True)
class OrderedTopics:
    """Mean topics of an HDP in the order of users, computed for words on demand."""

    topics: MeanTopics
    columns: Ints  # (K,)
    doc_prior: Array  # (K + 1,)


class SampledTopics(Protocol):
    """Topics of which the words of some documents are read."""

    @property
    def doc_prior(self) -> Array:
        """Dirichlet of a document's proportions, (K + 1,)."""

    def word_topic(self, words: NDArray) -> Array:
        """phi_kw of some words, (n_words, K)."""


#: Topics of a model, with all that prediction needs.
Sample = OrderedTopics | SampledTopics


@dataclass(frozen=True, slots=True)
class MixturePredictor:
    """Predictor of documents that mix topics, averaged over samples of topics."""

    samples: Sequence[Sample]
    repeats: bool = False  # whether a document predicts its own words
    burstiness: Burstiness | None = None  # of the model
    background_weight: float = 0.0  # of the mean topic, see `background`
    learns: bool = False  # whether it is learned where the model has none

    @classmethod
    def of_topics(
        cls, topics: Array, doc_prior: Array, repeats: bool = False
    ) -> "MixturePredictor":
        """Return a predictor by topics (K, V) and a prior as of `doc_prior_of`."""
        topics = topics / topics.sum(axis=1, keepdims=True)
        return cls(
            [FixedTopics(topics, _with_rest(doc_prior, len(topics)))],
            repeats,
            learns=True,
        )

    @classmethod
    def of_mean_topics(
        cls,
        topics: MeanTopics,
        columns: Ints,
        doc_prior: Array,
        burstiness: Burstiness | None,
        background_weight: float = 0.0,
    ) -> "MixturePredictor":
        """Return a predictor by mean topics of a posterior in the order of users."""
        prior = _with_rest(doc_prior, len(columns))
        samples = [OrderedTopics(topics, columns, prior)]
        return cls(samples, burstiness=burstiness, background_weight=background_weight)

    def infer(self, sample: Sample, X: sp.csr_array, executor: Executor) -> Array:
        """Infer the Dirichlet parameters of the proportions, (n_docs, K)."""
        counts = self.infer_counts(sample, X, executor)
        return counts.toarray() + sample.doc_prior[:-1]

    def infer_counts(
        self, sample: Sample, X: sp.csr_array, executor: Executor
    ) -> sp.csr_array:
        """Infer expected tokens of topics, or first uses, in documents, (n_docs, K).

        First uses if a sample has learned how often documents repeat words.
        """
        return self.infer_uses(sample, X, executor)[0]

    def infer_uses(
        self, sample: Sample, X: sp.csr_array, executor: Executor
    ) -> tuple[sp.csr_array, Array]:
        """Infer tokens of topics, and tokens or first uses of words, (nnz,)."""
        burstiness = getattr(sample, "burstiness", None)
        if burstiness is not None and self.repeats and X.nnz > 0:
            seated = self._seat(sample, X, burstiness, executor)
            return seated.doc_topic, seated.tables
        counts = fold_in(*_given(sample, X), executor)
        if isinstance(sample, OrderedTopics):
            counts = counts[:, sample.columns]
        return counts, X.data

    def log_likelihood(
        self, X_observed: sp.csr_array, X_held: sp.csr_array, executor: Executor
    ) -> float:
        """Log probability in nats of all held-out tokens, given the observed ones.

        Topics that are not represented predict each word alike.
        """
        n_words, rows = X_held.shape[1], rows_of(X_held.indptr)
        probability = np.zeros(X_held.nnz)
        for sample in self.samples:
            burstiness = self._burstiness(sample, X_observed, executor)
            topics, prior, held_out = _given(sample, X_held)
            rest = sample.doc_prior[-1]
            if burstiness is None:
                doc_topic = fold_in(*_given(sample, X_observed), executor)
            else:
                seated = self._seat(sample, X_observed, burstiness, executor)
                doc_topic = seated.doc_topic
            theta = doc_topic.toarray()
            theta += prior
            mixed = mix(theta, topics, held_out) + rest / n_words
            if self.background_weight > 0.0:
                change = background(theta, rest, topics, prior, held_out)
                mixed += self.background_weight * change
            mixed /= (theta.sum(axis=1) + rest)[rows]
            if burstiness is not None:
                shown, opens = burstiness.repeats(X_observed, seated.tables, X_held)
                mixed = shown + opens[rows] * mixed
            probability += mixed
        # Rounding must not make a certain word more than certain.
        probability = np.minimum(probability / len(self.samples), 1.0)
        with np.errstate(divide="ignore"):
            return (X_held.data * np.log(probability)).sum()

    def _seat(
        self,
        sample: Sample,
        X: sp.csr_array,
        burstiness: Burstiness,
        executor: Executor,
    ) -> Seated:
        """Infer expected tables of topics, in model order, and of words."""
        (topics, prior, counts), rest = _given(sample, X), sample.doc_prior[-1]
        return fold_in_tables(
            topics, prior, rest, counts, burstiness, executor, X.shape[1]
        )

    def _burstiness(
        self, sample: Sample, X: sp.csr_array, executor: Executor
    ) -> Burstiness | None:
        """Burstiness of the model, or of observed tokens; None: no repeats."""
        if not self.repeats or X.nnz == 0:
            return None
        burstiness = getattr(sample, "burstiness", self.burstiness)
        if burstiness is not None or not self.learns:
            return burstiness
        some = X[evenly(X.shape[0], N_DOCS)]
        return learn_burstiness(
            some, lambda b: self._seat(sample, some, b, executor)[1:]
        )


def _given(
    sample: Sample, X: sp.csr_array
) -> tuple[Array | MeanTopics, Array, sp.csr_array]:
    """Return topics, their priors (K,) and the counts `X`, with words in one order.

    Topics of a posterior keep all words; of others the words of `X` are read.
    """
    if isinstance(sample, OrderedTopics):
        prior = np.empty(len(sample.columns))
        prior[sample.columns] = sample.doc_prior[:-1]
        return sample.topics, prior, X
    words, at = np.unique(X.indices, return_inverse=True)
    counts = sp.csr_array((X.data, at.ravel(), X.indptr), (X.shape[0], len(words)))
    return sample.word_topic(words), sample.doc_prior[:-1], counts


def _with_rest(doc_prior: Array, n_topics: int) -> Array:
    """Append 0, the prior of all unrepresented topics, if it is missing, (K + 1,)."""
    return np.append(doc_prior, np.zeros(n_topics + 1 - len(doc_prior)))


def doc_prior_of(concentration: float, weights: Array) -> Array:
    """Dirichlet parameters of the topics in a document, given corpus-level weights.

    If weights sum to less than one, a last entry is that of all unrepresented topics.
    """
    rest = max(1.0 - weights.sum(), 0.0)
    shares = np.append(weights, rest) if rest > 0.0 else weights
    # Weights far down the sticks are products of many small numbers.
    return np.maximum(concentration * shares, SMALLEST_PRIOR)
