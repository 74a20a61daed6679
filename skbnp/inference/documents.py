"""The document step over a batch: blocks in, expected counts and statistics out."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.batch import Batch, Block
from skbnp.inference.executor import Executor
from skbnp.kernels._hdp_local import infer_documents

__all__ = ["DocumentStep", "expected_counts", "visit_blocks"]

Array = NDArray[np.float64]

#: A topic with fewer expected tokens than this (times the document's, if less than one)
#: is outside the support of a document: its count is exactly zero. What dropping it can
#: cost is about 1e-9 times a log ratio, in nats.
SUPPORT = 1e-9


@dataclass(frozen=True, slots=True)
class DocumentStep:
    """What every document of a visit sees, and when its iteration stops."""

    weights: Array  # (n_words, K) of the batch's words, see `infer_documents`
    prior: Array  # (K,)
    share: Array | None  # (K,) of a cold start: expected counts are tokens * share
    remembered: sp.csr_array | None  # (n_docs, K) expected counts to start from
    max_iter: int
    tol: float

    def run(self, block: Block, collect: bool) -> tuple[Array, Array, Array]:
        """Expected counts (n_docs, K), sums by word (n_words, K), entropy (K,)."""
        n_topics = len(self.prior)
        tile = self.weights[block.slots]
        if self.remembered is None:
            doc_topic = np.empty((len(block.n_tokens), n_topics))
        else:
            doc_topic = self.remembered[block.rows].toarray()
        word_topic = np.zeros((len(tile) if collect else 0, n_topics))
        entropy = np.zeros(n_topics)
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
            np.empty((3, n_topics)),
            self.max_iter,
            self.tol,
            SUPPORT,
        )
        if collect:
            entropy -= np.einsum("wk,wk->k", word_topic, np.log(tile))
        return doc_topic, word_topic, entropy


def visit_blocks(
    step: DocumentStep, batch: Batch, executor: Executor
) -> Iterator[tuple[Block, Array, Array, Array]]:
    """Yield each block with its expected counts, sums by word and entropy, in order."""
    run = partial(step.run, collect=True)
    results = executor.map(run, batch.blocks)
    for block, result in zip(batch.blocks, results, strict=True):
        yield block, *result


def expected_counts(step: DocumentStep, batch: Batch, executor: Executor) -> Array:
    """Expected tokens of each topic in each document of a batch, (n_docs, K)."""
    counts = np.empty((batch.n_docs, len(step.prior)))
    results = executor.map(partial(step.run, collect=False), batch.blocks)
    for block, (doc_topic, _, _) in zip(batch.blocks, results, strict=True):
        counts[block.rows] = doc_topic
    return counts
