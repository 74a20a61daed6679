"""Documents whose topics are held fixed: expected counts, and mixed probabilities.

By the zero-order collapsed step (CVB0) of Asuncion et al. (2009),

    r_jwk ~ (alpha beta_k + [N_jk - min(n_jw, 1) r_jwk]_+) phi_kw,
    N_jk = sum_w n_jw r_jwk,

over the topics that a document uses, and for a few iterations, as in learning, or as
long as is requested; counts are extrapolated between iterations (see the kernel). It is
mostly nearer to posterior means than mean field, where exp(psi(a)) ~ exp(-1 / a) of a
topic of small prior a is next to nothing; not where topics share most words, or
documents repeat few words, where more iterations are needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.known_topics import KnownWordTopics
from skbnp.components.topics import word_norm
from skbnp.components.word_topics import Weighting, WordTopics
from skbnp.inference.executor import Executor
from skbnp.inference.local import LocalStop
from skbnp.inference.posterior import Posterior
from skbnp.kernels._collapsed import infer_zero_order
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.collapsed_local import (
    MAX_ITER,
    TOL,
    DocumentTopics,
    doc_topic_matrix,
    mean_weights,
)
from skbnp.models.hdp.local import DocumentStep, expected_counts
from skbnp.rows.batch import Batch, Block
from skbnp.rows.word_sums import rows_of
from skbnp.utils.sparse import csr

__all__ = [
    "PART_SIZE",
    "MeanTopics",
    "first_uses",
    "fold_in",
    "fold_in_by_mean_field",
    "fold_in_posterior",
    "fold_in_tables",
    "mix",
    "score_documents",
]

Array = NDArray[np.float64]

#: Tokens of a topic in use: a few more topics than learning needs.
ACTIVE = 0.1
#: When the iteration of a document ends: as in learning, but it is extrapolated here.
SHORT_STOP = LocalStop(MAX_ITER, TOL)
#: A fold-in by mean field ends at this mean change per token, or after so many steps.
MEAN_FIELD_TOL, MEAN_FIELD_MAX_ITER = 1e-3, 100
#: Iterations before, with mean weights of topics: no word would ever find those of
#: small priors otherwise.
N_MEAN = 5
#: Numbers, of words or stored counts by topics, that are looked at together.
PART_SIZE = 1 << 17


@dataclass(frozen=True, slots=True)
class MeanTopics:
    """Mean topics (eta + S_kw) / (V eta + S_k), made for the words that are requested.

    `MeanTopics[words]` is (n, K); as an array it would take as much as the counts.
    """

    counts: WordTopics  # S, which share the table of a posterior as long as that stays
    eta: float | Array  # or of each topic, (K,)
    norm: Array  # (K,)

    @classmethod
    def of(cls, topic_words: WordTopics, eta: float) -> "MeanTopics":
        """Return the mean topics of a posterior."""
        norm = word_norm(topic_words, eta, Weighting.MEAN)
        return cls(topic_words.frozen(), eta, norm)

    @classmethod
    def given(cls, word_topic: "Array | MeanTopics") -> "MeanTopics":
        """Return topics that may be an array, (V, K)."""
        if isinstance(word_topic, MeanTopics):
            return word_topic
        counts = WordTopics(np.asarray(word_topic, np.float64))
        return cls(counts, 0.0, np.ones(word_topic.shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of words, number of topics."""
        return self.counts.shape

    def under(self, eta: float) -> "MeanTopics":
        """Return the mean topics under another prior."""
        new: float | Array = eta
        if isinstance(self.counts, KnownWordTopics):
            new = np.where(self.counts.follows_prior, eta, self.eta)
        more = self.shape[0] * (new - self.eta)
        return replace(self, eta=new, norm=self.norm + more)

    def weights(self, words: NDArray[np.intp]) -> tuple[NDArray[np.float32], Array]:
        """Table of some words, the largest weight of each one, and these largest."""
        if not isinstance(self.eta, float):
            raise TypeError("topics of priors of their own are not folded in")
        return self.counts.mean_weights(words, self.norm, self.eta)

    def mixed(self, shares: Array, X: sp.csr_array) -> Array:
        """sum_k theta_jk phi_kw of each stored entry (j, w)."""
        return self.counts.mixed(shares, X, self.eta, self.norm)

    def mixture(self, weights: Array, words: NDArray[np.integer]) -> Array:
        """sum_k weight_k phi_kw of some words, (n_words,)."""
        limits, shape = np.array([0, len(words)]), (1, self.shape[0])
        once = csr(np.ones(len(words)), words, limits, shape)
        return self.mixed(weights[None], once)

    def parts(self, size: int) -> Iterator[Array]:
        """Yield the topics of the words that have been seen, some at a time."""
        return (self._of(counts) for counts in self.counts.parts(size))

    def __getitem__(self, words: NDArray[np.intp] | slice) -> Array:
        return self._of(self.counts.rows(words))

    def _of(self, topics: Array) -> Array:
        topics += self.eta
        topics /= self.norm
        return topics


class Seated(NamedTuple):
    """Documents whose words have tables, topics held fixed."""

    doc_topic: sp.csr_array  # (n_docs, K) expected tables of each topic
    tables: Array  # (nnz,) expected tables of each stored count
    base: Array  # (nnz,) probability of its word under the topics of all others


@dataclass(frozen=True, slots=True)
class _ZeroOrderStep:
    """What every document sees, and when its iteration stops."""

    weights: NDArray[np.float32]  # (n_words, stride) of the batch, relative
    prior: Array  # (K,)
    stop: LocalStop
    restaurant: tuple[Any, ...] = ()  # scale of weights, rest, V, grid, d and c

    def expected_counts(self, batch: Batch, executor: Executor) -> sp.csr_array:
        """Infer the expected tokens, or tables, of topics in documents, (n, K)."""
        return self._doc_topic(batch, list(executor.map(self._run, batch.blocks)))

    def seat(self, batch: Batch, executor: Executor) -> Seated:
        """Infer the same, and tables and base probabilities of stored counts."""
        result = list(executor.map(self._run, batch.blocks))
        tables, base = (
            np.concatenate([np.zeros(0), *(one[at] for one in result)]) for at in (3, 4)
        )
        return Seated(self._doc_topic(batch, result), tables, base)

    def _doc_topic(self, batch: Batch, result: list[tuple]) -> sp.csr_array:
        doc_topics = [DocumentTopics(*one[:3]) for one in result]
        return doc_topic_matrix(doc_topics, (batch.n_docs, len(self.prior)))

    def _run(self, block: Block) -> tuple[Any, ...]:
        return infer_zero_order(
            block.indptr,
            block.indices,
            block.counts,
            self.weights,
            self.prior,
            ACTIVE,
            self.stop.max_iter,
            self.stop.tol,
            *self.restaurant,
        )


def fold_in(
    word_topic: Array | MeanTopics,
    prior: Array,
    X: sp.csr_array,
    executor: Executor,
    stop: LocalStop = SHORT_STOP,
) -> sp.csr_array:
    """Infer the expected tokens N of each topic in each document, (n_docs, K).

    Topics (V, K) are held fixed; words that have none say nothing about proportions.
    """
    batch, table, _ = _weighed(word_topic, len(prior), X)
    return _ZeroOrderStep(table, prior, stop).expected_counts(batch, executor)


def fold_in_tables(
    word_topic: Array | MeanTopics,
    prior: Array,
    rest: float,
    X: sp.csr_array,
    burstiness: Burstiness,
    executor: Executor,
    n_features: int,
    stop: LocalStop = SHORT_STOP,
) -> Seated:
    """Infer the same of the tables of words, and the expected tables of each word.

    `rest` is the prior of all other topics together, which predict each of `n_features`
    words alike.
    """
    batch, weights, tops = _weighed(word_topic, len(prior), X)
    words = burstiness.arguments(n_features, X.data.max(initial=1.0))
    words = tops, rest, *words
    seated = _ZeroOrderStep(weights, prior, stop, words).seat(batch, executor)
    if len(batch.counts) == X.nnz:
        return seated
    # Words that no topic has come from the others alone, a table for each.
    tables = np.minimum(X.data, 1.0)
    base = np.full(X.nnz, rest / n_features / (prior.sum() + rest))
    is_in = np.isin(X.indices, batch.words)
    tables[is_in], base[is_in] = seated.tables, seated.base
    return Seated(seated.doc_topic, tables, base)


def fold_in_posterior(
    posterior: Posterior, X: sp.csr_array, executor: Executor
) -> sp.csr_array:
    """Infer the expected counts N under the mean topics of a posterior, (n_docs, K).

    Of tokens, or where documents repeat words of tables, which are first uses.
    """
    step, batch = _posterior_step(posterior, X, executor)
    return step.expected_counts(batch, executor)


def first_uses(posterior: Posterior, X: sp.csr_array, executor: Executor) -> Array:
    """Infer the expected tables of each stored count, documents repeating words."""
    step, batch = _posterior_step(posterior, X, executor)
    return step.seat(batch, executor).tables


def _posterior_step(
    posterior: Posterior, X: sp.csr_array, executor: Executor
) -> tuple[_ZeroOrderStep, Batch]:
    state = posterior.state.for_prediction
    batch = Batch.from_counts(X, state.n_components)
    weights, tops, norm, _ = mean_weights(posterior, batch, executor)
    words: tuple[Any, ...] = ()
    if state.burstiness is not None:
        rest = state.doc_concentration * state.weights[-1]
        n_features = posterior.global_stats.topic_words.shape[0]
        words = state.burstiness.arguments(n_features, X.data.max(initial=1.0))
        words = tops / norm.max(), rest, *words
    return _ZeroOrderStep(weights, state.doc_prior, SHORT_STOP, words), batch


def score_documents(
    posterior: Posterior,
    X: sp.csr_array,
    executor: Executor,
    without: Sequence[int] = (),
) -> Array:
    """Log probability of the tokens of documents that have some, nats per token.

    Under their own expected proportions: too good, but alike for all documents that
    nothing was learned from. Topics of the columns `without` are left out.
    """
    mixed = word_probabilities(posterior, posterior.state, X, X, executor, without)
    rows = rows_of(X.indptr)
    logs = X.data * np.log(np.maximum(mixed, 1e-300))
    n_tokens = np.asarray(X.sum(axis=1)).ravel()
    has_tokens = n_tokens > 0.0
    return np.bincount(rows, logs, X.shape[0])[has_tokens] / n_tokens[has_tokens]


def word_probabilities(
    posterior: Posterior,
    state: Any,
    observed: sp.csr_array,
    predicted: sp.csr_array,
    executor: Executor,
    without: Sequence[int] = (),
) -> Array:
    """Predict the words of each entry of `predicted` from `observed` tokens, (nnz,).

    By mean topics and expected proportions under the priors of `state`, without the
    topics of some columns.
    """
    topic_words, prior = posterior.global_stats.topic_words, state.doc_prior
    topics = MeanTopics.of(topic_words, state.topic_word_prior)
    if without:
        prior = prior.copy()
        prior[list(without)] = 0.0
    theta = fold_in(topics, prior, observed, executor).toarray() + prior
    rest = state.doc_concentration * state.weights[-1]
    total, rows = theta.sum(axis=1) + rest, rows_of(predicted.indptr)
    mixed = mix(theta, topics, predicted) + rest / predicted.shape[1]
    return mixed / total[rows]


def fold_in_by_mean_field(
    word_topic: Array | MeanTopics, prior: Array, X: sp.csr_array, executor: Executor
) -> Array:
    """Infer the same by mean field, as what is learned of the topic prior needs it."""
    batch, table, _ = _weighed(word_topic, len(prior), X)
    step = DocumentStep(
        weights=table,
        prior=prior,
        share=prior / prior.sum(),
        remembered=None,
        stop=LocalStop(MEAN_FIELD_MAX_ITER, MEAN_FIELD_TOL),
        n_mean=N_MEAN,
    )
    return expected_counts(step, batch, executor).toarray()


def _weighed(
    word_topic: Array | MeanTopics, n_topics: int, X: sp.csr_array
) -> tuple[Batch, NDArray[np.float32], Array]:
    """Documents of words that any topic has, weights of topics, and their scale."""
    topics, batch = MeanTopics.given(word_topic), Batch.from_counts(X, n_topics)
    table, tops = topics.weights(batch.words)
    possible = tops > 0.0
    if not possible.all():
        holds = np.zeros(X.shape[1])
        holds[batch.words[possible]] = 1.0
        X = X @ sp.diags_array(holds, format="csr")
        X.eliminate_zeros()
        X.sort_indices()
        batch = Batch.from_counts(X, n_topics)
        table, tops = topics.weights(batch.words)
    return batch, table, tops


def mix(theta: Array, word_topic: Array | MeanTopics, X: sp.csr_array) -> Array:
    """sum_k theta_jk phi_kw of each stored entry (j, w)."""
    return MeanTopics.given(word_topic).mixed(np.ascontiguousarray(theta), X)
