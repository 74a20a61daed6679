"""The document step over a batch: blocks in, expected counts and statistics out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.batch import Batch, Block
from skbnp.inference.executor import Executor
from skbnp.kernels._hdp_local import document_work, infer_documents

__all__ = ["BlockVisit", "DocumentStep", "Look", "expected_counts", "visit_blocks"]

Array = NDArray[np.float64]

#: A topic with fewer expected tokens than this (times the document's, if less than one)
#: is outside the support of a document: its count is exactly zero. What dropping it can
#: cost is about 1e-9 times a log ratio, in nats.
SUPPORT = 1e-9


@dataclass(slots=True)
class BlockVisit:
    """What the documents of a block say: responsibilities r_jwk, and their sums.

    Where somebody looks closer, the responsibilities are there in factors,
    r_jwk = doc_weights_jk word_weights_wk / norms_jw; documents have no weights off
    their support.
    """

    block: Block
    prior: Array  # (K,) x
    word_weights: Array  # (n_words, K)
    doc_topic: Array  # (n_docs, K) N_jk
    word_topic: Array  # (n_words, K) S_kw
    entropy: Array  # (K,) -sum n r log r
    doc_weights: Array  # (n_docs, K)
    norms: Array  # (nnz,)

    @property
    def row(self) -> NDArray[np.intp]:
        """Document of each stored count, (nnz,)."""
        return np.repeat(np.arange(len(self.doc_topic)), np.diff(self.block.indptr))


#: Looks at a block while its responsibilities are at hand, on the block's thread.
Look = Callable[[BlockVisit], Any]


@dataclass(frozen=True, slots=True)
class DocumentStep:
    """What every document of a visit sees, and when its iteration stops."""

    weights: Array  # (n_words, K) of the batch's words, see `infer_documents`
    prior: Array  # (K,)
    share: Array | None  # (K,) of a cold start: expected counts are tokens * share
    remembered: sp.csr_array | None  # (n_docs, K) expected counts to start from
    max_iter: int
    tol: float

    def run(self, block: Block, collect: bool, factors: bool = False) -> BlockVisit:
        """Visit one block; `collect` asks for sums, `factors` for those too."""
        n_topics = len(self.prior)
        tile = self.weights[block.slots]
        if self.remembered is None:
            doc_topic = np.empty((len(block.n_tokens), n_topics))
        else:
            doc_topic = self.remembered[block.rows].toarray()
        word_topic = np.zeros((len(tile) if collect else 0, n_topics))
        entropy = np.zeros(n_topics)
        doc_weights = np.empty(doc_topic.shape if factors else (0, 0))
        norms = np.empty(len(block.counts) if factors else 0)
        infer_documents(
            block.indptr,
            block.indices,
            block.counts,
            tile,
            self.prior,
            np.empty(0) if self.share is None else self.share,
            doc_topic,
            self.remembered is not None,
            word_topic,
            entropy,
            doc_weights,
            norms,
            np.empty(document_work(block.indptr, n_topics) + n_topics),
            self.max_iter,
            self.tol,
            SUPPORT,
        )
        return BlockVisit(
            block, self.prior, tile, doc_topic, word_topic, entropy, doc_weights, norms
        )


def visit_blocks(
    step: DocumentStep, batch: Batch, executor: Executor, look: Look | None = None
) -> Iterator[tuple[BlockVisit, Any]]:
    """Yield each visited block, in order, with what `look` saw in it."""
    yield from executor.map(partial(_visit, step, look), batch.blocks)


def _visit(
    step: DocumentStep, look: Look | None, block: Block
) -> tuple[BlockVisit, Any]:
    visit = step.run(block, collect=True, factors=look is not None)
    seen = None if look is None else look(visit)
    visit.doc_weights = visit.norms = np.empty(0)  # as large as the data
    return visit, seen


def expected_counts(step: DocumentStep, batch: Batch, executor: Executor) -> Array:
    """Expected tokens of each topic in each document of a batch, (n_docs, K)."""
    counts = np.empty((batch.n_docs, len(step.prior)))
    results = executor.map(partial(step.run, collect=False), batch.blocks)
    for visit in results:
        counts[visit.block.rows] = visit.doc_topic
    return counts
