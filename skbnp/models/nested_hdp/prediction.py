"""Prediction by a nested HDP: documents mix the nodes of a fixed tree."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import LocalStop
from skbnp.models.hdp.burstiness import (
    N_DOCS,
    Burstiness,
    evenly,
    learn_burstiness,
)
from skbnp.models.hdp.fold_in import MeanTopics, mix
from skbnp.models.nested_hdp.local import NestedStep, node_shares
from skbnp.rows.batch import Batch
from skbnp.utils.arrays import rows_of

__all__ = ["NestedPredictor"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NestedPredictor:
    """Predictor of documents that mix the nodes of a fixed tree."""

    posterior: Posterior
    stop: LocalStop
    repeats: bool = False  # whether a document predicts its own words
    learns: bool = False  # whether how much is learned where the model does not know

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

        Children that are not in the tree predict each word with equal probability.
        """
        shares, left = self.infer(X_observed, executor)
        mixed = self._mix(shares, left, X_held)
        if self.repeats and X_observed.nnz:
            burstiness = self.posterior.state.burstiness
            base = self._mix(shares, left, X_observed)
            if burstiness is None and self.learns:
                burstiness = _learn(X_observed, base)
            if burstiness is not None:
                tables = burstiness.tables(X_observed, base)
                shown, opens = burstiness.repeats(X_observed, tables, X_held)
                mixed = shown + opens[rows_of(X_held.indptr)] * mixed
        with np.errstate(divide="ignore"):
            return float((X_held.data * np.log(np.minimum(mixed, 1.0))).sum())

    def learn_burstiness(
        self, X: sp.csr_array, executor: Executor
    ) -> Burstiness | None:
        """Learn the burstiness of documents; None if they do not repeat words."""
        some = X[evenly(X.shape[0], N_DOCS)]
        return _learn(some, self._mix(*self.infer(some, executor), some))

    def _mix(self, shares: Array, left: Array, X: sp.csr_array) -> Array:
        """Probability of the word of each stored count under the nodes, (nnz,)."""
        state, words = self.posterior.state, self.posterior.global_stats.topic_words
        topics = MeanTopics.of(words, state.topic_word_prior)
        return mix(shares, topics, X) + left[rows_of(X.indptr)] / X.shape[1]


def _learn(X: sp.csr_array, base: Array) -> Burstiness | None:
    return learn_burstiness(X, lambda b: (b.tables(X, base), base))
