"""The collapsed local step of the nested HDP: nodes of the documents of a batch."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from skbnp.components.word_topics import WordRows, WordTopics
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import Collected, LocalStop, StepInput
from skbnp.kernels._nested import infer_nested
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.collapsed_local import (
    MAX_ITER,
    TOL,
    BlockResult,
    collect_blocks,
    doc_topic_matrix,
    restaurant_of,
)
from skbnp.models.nested_hdp.model import MixedTree, NestedHDPModel
from skbnp.rows.batch import Batch, Block, joined
from skbnp.utils.typing import Array, Ints

#: Tokens of a node in use: in learning, and where topics are fixed.
ACTIVE, ACTIVE_FIXED = 0.5, 0.1


def mean_topics(
    topic_words: WordTopics, eta: float, words: Ints
) -> tuple[Array, Array]:
    """Mean topics of some words, (n_words, n_nodes), and the divisors of counts."""
    norm = topic_words.shape[0] * eta + topic_words.total
    topics = topic_words.rows(words)
    topics += eta
    topics /= norm
    return topics, norm


@dataclass(frozen=True, slots=True)
class NestedStep:
    """What all documents of a batch read in the local step, and its stopping rule."""

    state: MixedTree
    model: NestedHDPModel
    topics: Array  # (n_words, n_nodes) of the batch
    norm: Array  # (n_nodes,)
    held: Array  # (n_docs,) how often the totals count each document
    whole: bool  # whether all tokens of a word are taken out of the others
    n_features: int  # V
    stop: LocalStop
    restaurant: tuple[Any, ...]  # grid, d and c, if words have tables

    @classmethod
    def prepare(cls, given: StepInput, *, is_fixed: bool = False) -> "NestedStep":
        """Prepare the local step of a batch from the globals of a posterior.

        What is remembered is the effective count of each document in the totals, which
        the step subtracts; None for zero. If topics are fixed, one token of a word is
        subtracted from the document's other tokens, and words have no tables, see
        `with_burstiness`.
        """
        posterior, batch, stop = given.posterior, given.batch, given.stop
        words, state = posterior.global_stats.topic_words, posterior.state
        topics, norm = mean_topics(words, state.topic_word_prior, batch.words)
        held = given.visit.remembered
        held = np.zeros(batch.n_docs) if held is None else held
        stop = LocalStop(min(stop.max_iter, MAX_ITER), max(stop.tol, TOL))
        has_tables = state.by_tables and not is_fixed
        burstiness = state.burstiness if has_tables else None
        return cls(
            state,
            posterior.model,
            topics,
            norm,
            held,
            not is_fixed,
            words.shape[0],
            stop,
            restaurant_of(burstiness, batch, words.shape[0])[1:],
        )

    def collect(self, given: StepInput) -> Collected:
        """Run the local step; return statistics and expected counts of nodes."""
        posterior, batch, executor = given.posterior, given.batch, given.executor
        shape = (len(batch.words), self.state.n_components)
        sums, doc_nodes, logs = collect_blocks(self._run, batch, shape, executor)
        stats = posterior.model.statistics(
            posterior.state,
            WordRows(batch.words, sums),
            doc_nodes,
            float(batch.n_tokens.sum()),
            logs,
        )
        return Collected(stats, batch.n_tokens, [], doc_nodes)

    def infer(
        self, batch: Batch, executor: Executor
    ) -> tuple[sp.csr_array, Array, Array]:
        """Infer the nodes of documents and the tables of their words.

        Returns expected tokens of nodes, or tables, (n_docs, n_nodes), and of each
        stored count the expected tables and the probability under the nodes, (nnz,);
        both empty without burstiness.
        """
        result = executor.map_all(self._run, batch.blocks)
        shape = batch.n_docs, self.state.n_components
        doc_nodes = doc_topic_matrix(result, shape)
        return doc_nodes, joined(result, "tables"), joined(result, "base")

    def with_burstiness(
        self, burstiness: Burstiness | None, batch: Batch
    ) -> "NestedStep":
        """Return the step with tables of words; without any if there is none."""
        words = restaurant_of(burstiness, batch, self.n_features)[1:]
        return replace(self, restaurant=words)

    def _run(self, block: Block) -> BlockResult:
        state, model = self.state, self.model
        return BlockResult(
            *infer_nested(
                block.indptr,
                block.indices,
                block.counts,
                self.topics,
                self.norm,
                state.topic_word_prior,
                state.tree.parent.astype(np.int32),
                state.prior,
                state.totals,
                state.rest,
                model.stop,
                model.go,
                np.ascontiguousarray(self.held[block.rows]),
                self.whole,
                ACTIVE if self.whole else ACTIVE_FIXED,
                self.stop.max_iter,
                self.stop.tol,
                float(self.n_features),
                *self.restaurant,
            )
        )


def node_shares(
    state: MixedTree, model: NestedHDPModel, doc_nodes: Array
) -> tuple[Array, Array]:
    """Probability of each node for one more token of documents, and of no node.

    `doc_nodes`, (n_docs, n_nodes), are expected tokens of documents; the second result
    is the probability of children that are not in the tree, (n_docs,).
    """
    tree, totals, prior, rest = state.tree, state.totals, state.prior, state.rest
    through = np.zeros(doc_nodes.shape[::-1])
    through += doc_nodes.T
    through = tree.accumulate(through)
    shares, onward = np.ones_like(through), np.zeros_like(through)
    left = np.zeros(len(doc_nodes))
    for u, above in enumerate(tree.parent.tolist()):
        if u:
            shares[u] = onward[above] * (through[u] + prior[u])
        if totals[u] > 0.0:
            here = doc_nodes[:, u]
            further = np.maximum(through[u] - here, 0.0)
            share = shares[u] / (here + further + model.stop + model.go)
            onward[u] = share * (further + model.go) / (further + totals[u])
            left += onward[u] * rest[u]
            shares[u] = share * (here + model.stop)
    return np.ascontiguousarray(shares.T), left  # sums of a row in one order
