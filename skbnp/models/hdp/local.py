"""The mean-field local step of the HDP: blocks in, expected counts and sums out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.topics import SMALLEST_PRIOR, word_norm
from skbnp.components.word_topics import Weighting, WordRows
from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import BlockHook, Collected, LocalStop, StepInput
from skbnp.kernels._collapsed import collapsed_sums, infer_collapsed
from skbnp.kernels._hdp_local import infer_documents, word_sums
from skbnp.kernels._special import log
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.model import CollapsedStats, tables_and_slope
from skbnp.rows.batch import Batch, Block, joined, joined_limits, sum_word_ranges
from skbnp.utils.arrays import csr, rows_of
from skbnp.utils.typing import Array, Ints, Ints32

#: A topic with fewer expected tokens than this (times the document's, if less than one)
#: is outside the support of a document: its count is exactly zero. What dropping it can
#: cost is about 1e-9 times a log ratio, in nats.
SUPPORT = 1e-9


@dataclass(frozen=True, slots=True)
class Documents:
    """Factors of the responsibilities of documents; zero off the support.

    r_jwk = weights_jk b_wk / norms_jw, b_wk the weights of words.
    """

    limits: Ints32  # (n_docs + 1,) of their supports
    topics: Ints32  # (n_used,)
    tokens: Array  # (n_used,) N_jk
    weights: Array  # (n_used,) e_jk
    norms: Array  # (nnz,) s_jw

    @classmethod
    def joined(cls, parts: list["Documents"]) -> "Documents":
        """Concatenate the documents of the blocks of a batch."""
        return cls(
            joined_limits([part.limits for part in parts]).astype(np.int32),
            joined(parts, "topics", np.int32),
            joined(parts, "tokens"),
            joined(parts, "weights"),
            joined(parts, "norms"),
        )

    def matrix(self, values: Array, n_topics: int) -> sp.csr_array:
        """Values of the support as a matrix, (n_docs, n_topics)."""
        shape = (len(self.limits) - 1, n_topics)
        return csr(values, self.topics, self.limits, shape)


@dataclass(slots=True)
class BlockVisit:
    """A block and the factors of its documents."""

    block: Block
    prior: Array  # (K,) x
    word_weights: NDArray[np.float32]  # (n_words of the batch, K) b
    documents: Documents

    @property
    def row(self) -> Ints:
        """Document of each stored count, (nnz,)."""
        return rows_of(self.block.indptr)

    @property
    def doc_topic(self) -> Array:
        """N_jk, (n_docs, K)."""
        documents = self.documents
        return documents.matrix(documents.tokens, len(self.prior)).toarray()

    @property
    def doc_weights(self) -> Array:
        """e_jk, zero off the support, (n_docs, K)."""
        documents = self.documents
        return documents.matrix(documents.weights, len(self.prior)).toarray()


@dataclass(frozen=True, slots=True)
class DocumentStep:
    """What documents read in the mean-field local step; its stopping rule."""

    #: (n_words, stride) of the batch, up to a factor per word, see `infer_documents`:
    #: exp(E[log phi_kw]), or E[phi_kw] during the warm-up. A word without counts in a
    #: topic weighs exp(psi(eta)), practically nothing, in the former, and eta in the
    #: latter.
    weights: NDArray[np.float32]
    prior: Array  # (K,)
    share: Array | None  # (K,) of a cold start: expected counts are tokens * share
    remembered: sp.csr_array | None  # (n_docs, K) expected counts to start from
    stop: LocalStop
    n_mean: int = 0  # iterations with mean weights of topics before a cold start

    @classmethod
    def prepare(cls, given: StepInput) -> "DocumentStep":
        """Prepare the local step of a batch from the globals of a posterior."""
        posterior, executor = given.posterior, given.executor
        state, weighting = posterior.state, given.visit.weighting
        topic_words = posterior.global_stats.topic_words
        eta = max(state.topic_word_prior, SMALLEST_PRIOR)
        of = given.batch.words, word_norm(topic_words, eta, weighting), eta, weighting
        return cls(
            weights=topic_words.weights(*of, run=executor.map_here),
            prior=state.doc_prior,
            share=posterior.model.initial_shares(state),
            remembered=given.to_start_from,
            stop=given.stop,
        )

    def collect(self, given: StepInput) -> Collected:
        """Run the local step: statistics, expected counts and document lengths."""
        posterior, batch, executor = given.posterior, given.batch, given.executor
        visits = executor.map_all(
            partial(_visit, self, given.visit.block_hook), batch.blocks
        )
        documents = Documents.joined([result for result, _ in visits])
        doc_topic = documents.matrix(documents.tokens, len(self.prior))
        rows, entropy = sum_words(self, batch, documents, executor)
        stats = posterior.model.statistics(
            posterior.state, rows, entropy, doc_topic, batch.n_tokens
        )
        seen = [seen for _, seen in visits]
        return Collected(stats, batch.n_tokens, seen, doc_topic)

    def run(self, block: Block) -> BlockVisit:
        """Run the local step of the documents of one block."""
        n_topics, n_docs = len(self.prior), len(block.n_tokens)
        starts = np.empty((n_docs, self.weights.shape[1]), dtype=np.float32)
        if self.remembered is not None:
            # In the range of single precision, as `infer_documents` has it.
            tokens = np.maximum(block.n_tokens, 1e-300)
            scale = np.clip(tokens, 1e-20, 1e9) / tokens
            remembered_counts = self.remembered[block.rows].toarray()
            starts[:, :n_topics] = remembered_counts * scale[:, None]
        result = infer_documents(
            *block.arrays,
            self.weights,
            self.prior,
            np.empty(0) if self.share is None else self.share,
            starts,
            self.remembered is not None,
            *self.stop,
            SUPPORT,
            n_mean=self.n_mean,
        )
        weights = self.weights[:, :n_topics]
        return BlockVisit(block, self.prior, weights, Documents(*result))


def _visit(
    step: DocumentStep, block_hook: BlockHook | None, block: Block
) -> tuple[Documents, object]:
    """Run the local step on a block; return its documents, and `block_hook` of it."""
    result = step.run(block)
    return result.documents, None if block_hook is None else block_hook(result)


def expected_counts(
    step: DocumentStep, batch: Batch, executor: Executor
) -> sp.csr_array:
    """Expected tokens of each topic in each document of a batch, (n_docs, K)."""
    visits = executor.map(partial(_visit, step, None), batch.blocks)
    result = Documents.joined([documents for documents, _ in visits])
    return result.matrix(result.tokens, len(step.prior))


def sum_words(
    step: DocumentStep, batch: Batch, documents: Documents, executor: Executor
) -> tuple[WordRows, Array]:
    """Sum responsibilities n_jw r_jwk over documents, and their entropy by topic."""
    n_topics, by_word = len(step.prior), batch.by_word()
    logs = np.empty_like(documents.norms)
    log(documents.norms, logs)
    ratios = (batch.counts / documents.norms)[by_word.data]
    sums, result = sum_word_ranges(
        _sum_range,
        by_word,
        by_word.indices.astype(np.int32),
        ratios,
        ratios * logs[by_word.data],
        documents.limits,
        documents.topics,
        documents.weights,
        step.weights,
        n_topics=n_topics,
        n_ranges=len(batch.blocks),
        run=executor.map_all,
    )
    # -log r = log s - log e - log b.
    entropy = sum((part[3] for part in result), np.zeros(n_topics))
    entropy -= _log_moments(
        documents.topics, documents.tokens, documents.weights, n_topics
    )
    return WordRows(batch.words, sums), entropy


def _log_moments(topics: Ints32, tokens: Array, weights: Array, n_topics: int) -> Array:
    """Sum of tokens times log weights, by topic."""
    logs = np.empty_like(weights)
    log(weights, logs)
    return np.bincount(topics, tokens * logs, n_topics).astype(np.float64)


def _sum_range(*arguments: Any) -> tuple[Ints32, Ints32, Array, Array]:
    """Sum responsibilities over a range of words, see `word_sums`; their entropy."""
    n_used, topics, weights, sums, log_norms = word_sums(*arguments)
    moments = _log_moments(topics, sums, weights, len(log_norms))
    return n_used, topics, sums, log_norms - moments


# The local step of the collapsed HDP (CVB0): topics of the documents of a batch.


#: The iteration of a document ends after so many rounds, or earlier: topics will have
#: moved at its next visit...
MAX_ITER = 10
#: ...or when expected counts change by less than this per token.
TOL = 0.01
#: Stored counts whose responsibilities are held at a time.
PART_SIZE = 1 << 18


class BlockResult(NamedTuple):
    """Statistics of the documents of a block, as the collapsed kernels return them."""

    limits: Ints32
    topics: Ints32
    tokens: Array
    ends: Ints
    used: Ints32
    sums: Array
    log_predictive: float
    tables: Array | None = None  # of each stored count, if words have tables...
    base: Array | None = None  # ...and its probability under the topics


@dataclass(frozen=True, slots=True)
class CollapsedStep:
    """What documents of a batch read in the collapsed local step; its stopping rule."""

    weights: NDArray[np.float32]  # (n_words, stride) of the batch, means
    tops: Array  # (n_words,) their scale
    norm: Array  # (K,) V eta + S_k
    topic_prior: float
    prior: Array  # (K,)
    rest: float  # prior of all other topics together
    share: Array  # (K,) of the start
    doc_weights: Array  # (n_docs,) how often the totals count each document
    stop: LocalStop
    n_features: float  # V
    restaurant: tuple[Any, ...]  # V, grid, d and c, if words have tables

    @classmethod
    def prepare(cls, given: StepInput) -> "CollapsedStep":
        """Prepare the local step of a batch from the globals of a posterior.

        What is remembered is the effective count of each document in the totals, which
        the step subtracts; None for zero. Weights are mean ones.
        """
        posterior, batch, stop = given.posterior, given.batch, given.stop
        state, effective_counts = posterior.state, given.visit.remembered
        if effective_counts is None:
            effective_counts = np.zeros(batch.n_docs)
        weights, tops, norm, eta = mean_weights(posterior, batch, given.executor)
        burstiness = state.burstiness if state.by_tables else None
        n_features = float(posterior.global_stats.topic_words.shape[0])
        return cls(
            weights=weights,
            tops=tops,
            norm=norm,
            topic_prior=eta,
            prior=state.doc_prior,
            rest=state.doc_concentration * state.weights[-1],
            share=posterior.model.initial_shares(state),
            doc_weights=effective_counts,
            stop=LocalStop(min(stop.max_iter, MAX_ITER), max(stop.tol, TOL)),
            n_features=n_features,
            restaurant=restaurant_of(burstiness, batch, n_features),
        )

    def collect(self, given: StepInput) -> Collected:
        """Run the local step; return statistics, expected counts and lengths."""
        posterior, batch, executor = given.posterior, given.batch, given.executor
        shape = (len(batch.words), len(self.prior))
        sums, doc_topic, logs = collect_blocks(self._infer, batch, shape, executor)
        lengths = doc_topic.sum(axis=1) if self.restaurant else batch.n_tokens
        counted = tables_and_slope(posterior.state, doc_topic, lengths)
        words, n_tokens = WordRows(batch.words, sums), float(batch.n_tokens.sum())
        stats = CollapsedStats(words, *counted, logs, n_tokens)
        return Collected(stats, batch.n_tokens, [], doc_topic)

    def seat(
        self, burstiness: Burstiness, batch: Batch, executor: Executor
    ) -> tuple[Array, Array]:
        """Infer expected tables and base probabilities of stored counts, (nnz,)."""
        words = restaurant_of(burstiness, batch, self.n_features)
        step = replace(self, restaurant=words)
        result = executor.map_all(step._infer, batch.blocks)
        return joined(result, "tables"), joined(result, "base")

    def _infer(self, block: Block) -> BlockResult:
        result = infer_collapsed(
            *block.arrays,
            self.weights,
            self.tops,
            self.norm,
            self.topic_prior,
            self.prior,
            self.rest,
            self.share,
            np.ascontiguousarray(self.doc_weights[block.rows]),
            *self.stop,
            *self.restaurant,
        )
        return BlockResult(*result)


def restaurant_of(
    burstiness: Burstiness | None, batch: Batch, n_features: float
) -> tuple[Any, ...]:
    """The last arguments of the kernels with burstiness; none if there is none."""
    if burstiness is None:
        return ()
    most = max((block.counts.max(initial=1.0) for block in batch.blocks), default=1.0)
    return burstiness.arguments(n_features, most)


def mean_weights(
    posterior: Posterior, batch: Batch, executor: Executor
) -> tuple[NDArray[np.float32], Array, Array, float]:
    """Mean topics of a posterior at the words of a batch, as the kernel reads them.

    Returns the table of weights, (n_words, stride), its scale by word, sums of topics
    and the topic prior.
    """
    topic_words, tops = posterior.global_stats.topic_words, np.empty(len(batch.words))
    eta = max(posterior.state.topic_word_prior, SMALLEST_PRIOR)
    norm = word_norm(topic_words, eta, Weighting.MEAN)
    table = topic_words.weights(
        batch.words, norm, eta, Weighting.MEAN, run=executor.map_here, tops=tops
    )
    return table, tops, norm, eta


def doc_topic_matrix(
    result: Sequence[Sequence[Any]], shape: tuple[int, int]
) -> sp.csr_array:
    """Expected counts N by limits, topics and tokens of some blocks, (n_docs, K)."""
    limits = joined_limits([block[0] for block in result])
    topics = np.concatenate([np.zeros(0, np.int32), *(block[1] for block in result)])
    tokens = np.concatenate([np.zeros(0), *(block[2] for block in result)])
    return csr(tokens, topics, limits, shape)


def collect_blocks(
    run: Callable[[Block], BlockResult],
    batch: Batch,
    shape: tuple[int, int],
    executor: Executor,
) -> tuple[sp.csr_array, sp.csr_array, float]:
    """Run the local step in groups of blocks, as many at once as memory allows.

    Returns expected counts of words, (n_words, K), and of documents, (n_docs, K), and
    the sum of log probabilities of tokens, each given all others.
    """
    parts, doc_topics, logs = list[sp.csr_array](), list[tuple](), 0.0
    for part in batch.parts(PART_SIZE):
        result = executor.map_all(run, part.blocks)
        parts.append(sum_collapsed_words(part, result, shape[1], executor))
        doc_topics += [block[:3] for block in result]
        logs += sum(block.log_predictive for block in result)
    sums = sum(parts[1:], parts[0]) if parts else sp.csr_array(shape)
    return sums, doc_topic_matrix(doc_topics, (batch.n_docs, shape[1])), logs


def sum_collapsed_words(
    part: Batch, result: Sequence[Any], n_topics: int, executor: Executor
) -> sp.csr_array:
    """Sum responsibilities n_jw r_jwk over documents of some blocks, (n_words, K)."""
    by_word = part.by_word()
    return sum_word_ranges(
        collapsed_sums,
        by_word,
        by_word.data.astype(np.intp, copy=False),
        joined_limits([block.ends for block in result]),
        joined(result, "used", np.int32),
        joined(result, "sums"),
        n_topics=n_topics,
        n_ranges=len(part.blocks) if executor.n_workers > 1 else 1,
        run=executor.map_all,
    )[0]
