"""Prediction by documents that mix the nodes of a tree, which is held fixed."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.executor import Executor
from skbnp.inference.local import LocalStop
from skbnp.inference.posterior import Posterior
from skbnp.models.hdp.fold_in import MeanTopics, mix
from skbnp.models.nested_hdp.local import NestedStep, node_shares
from skbnp.rows.batch import Batch
from skbnp.rows.word_sums import rows_of

__all__ = ["NestedPredictor"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NestedPredictor:
    """Documents mix the nodes of a tree."""

    posterior: Posterior
    stop: LocalStop

    def counts(self, X: sp.csr_array, executor: Executor) -> sp.csr_array:
        """Infer the expected tokens of nodes in documents, (n_docs, n_nodes)."""
        batch = Batch.from_counts(X, self.posterior.state.n_components)
        step = NestedStep.prepare(
            self.posterior, batch, self.stop, executor, is_fixed=True
        )
        return step.expected_counts(batch, executor)

    def infer(self, X: sp.csr_array, executor: Executor) -> tuple[Array, Array]:
        """Infer the shares of nodes, and of children that are not in the tree."""
        doc_nodes = self.counts(X, executor).toarray()
        return node_shares(self.posterior.state, self.posterior.model, doc_nodes)

    def log_likelihood(
        self, X_observed: sp.csr_array, X_held: sp.csr_array, executor: Executor
    ) -> float:
        """Log probability in nats of all held-out tokens, given the observed ones.

        Children that are not in the tree predict each word alike.
        """
        state, words = self.posterior.state, self.posterior.totals.topic_words
        shares, left = self.infer(X_observed, executor)
        topics = MeanTopics.of(words, state.topic_word_prior)
        mixed = mix(shares, topics, X_held)
        mixed += left[rows_of(X_held.indptr)] / X_held.shape[1]
        with np.errstate(divide="ignore"):
            return float((X_held.data * np.log(np.minimum(mixed, 1.0))).sum())
