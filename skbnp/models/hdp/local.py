"""The mean-field local step of the HDP: blocks in, expected counts and sums out."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.word_topics import WordRows
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import BlockHook, Collected, LocalStop, StepInput
from skbnp.kernels._hdp_local import infer_documents, word_sums
from skbnp.kernels._special import log
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

    #: (n_words, stride) of the batch, see `infer_documents`.
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
        model, state = posterior.model, posterior.state
        return cls(
            weights=model.word_weights(
                state,
                posterior.global_stats.topic_words,
                given.batch.words,
                given.visit.weighting,
                run=executor.map_all if executor.shares_memory else map,
            ),
            prior=state.doc_prior,
            share=model.cold_share(state),
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
            block.indptr,
            block.indices,
            block.counts,
            self.weights,
            self.prior,
            np.empty(0) if self.share is None else self.share,
            starts,
            self.remembered is not None,
            self.stop.max_iter,
            self.stop.tol,
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


def _sum_range(
    *arguments: Any,
) -> tuple[Ints32, Ints32, Array, Array]:
    """Sum responsibilities over a range of words, see `word_sums`; their entropy."""
    n_used, topics, weights, sums, log_norms = word_sums(*arguments)
    moments = _log_moments(topics, sums, weights, len(log_norms))
    return n_used, topics, sums, log_norms - moments
