"""Prediction by a nested HDP: documents mix the nodes of a fixed tree."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import LocalStop, StepInput
from skbnp.models.hdp.burstiness import N_DOCS, Burstiness, evenly, learn_burstiness
from skbnp.models.hdp.fold_in import MeanTopics, mix
from skbnp.models.nested_hdp.local import NestedStep, node_shares
from skbnp.rows.batch import Batch
from skbnp.utils.arrays import rows_of
from skbnp.utils.typing import Array


@dataclass(frozen=True, slots=True)
class NestedPredictor:
    """Predictor of documents that mix the nodes of a fixed tree."""

    posterior: Posterior
    stop: LocalStop
    repeats: bool = False  # whether a document predicts its own words
    learns: bool = False  # whether how much is learned where the model does not know

    def counts(self, X: sp.csr_array, executor: Executor) -> tuple[sp.csr_array, Array]:
        """Infer the expected uses of nodes in documents, and those of words.

        Uses are tables with burstiness, otherwise tokens; (n_docs, n_nodes), (nnz,).
        """
        burstiness = self.posterior.state.burstiness
        doc_nodes, tables, _ = self._infer(X, burstiness, executor)
        return doc_nodes, X.data if burstiness is None else tables

    def infer(self, X: sp.csr_array, executor: Executor) -> tuple[Array, Array]:
        """Infer the shares of nodes, and of children that are not in the tree."""
        return self._shares(self.counts(X, executor)[0])

    def log_likelihood(
        self, X_observed: sp.csr_array, X_held: sp.csr_array, executor: Executor
    ) -> float:
        """Log probability in nats of all held-out tokens, given the observed ones.

        Children that are not in the tree predict each word with equal probability.
        """
        burstiness = self._burstiness_of(X_observed, executor)
        doc_nodes, tables, _ = self._infer(X_observed, burstiness, executor)
        rows = rows_of(X_held.indptr)
        shares, left = self._shares(doc_nodes)
        state, words = self.posterior.state, self.posterior.global_stats.topic_words
        topics = MeanTopics.of(words, state.topic_word_prior)
        mixed = mix(shares, topics, X_held) + left[rows] / X_held.shape[1]
        if burstiness is not None:
            shown, opens = burstiness.repeats(X_observed, tables, X_held)
            mixed = shown + opens[rows] * mixed
        with np.errstate(divide="ignore"):
            return float((X_held.data * np.log(np.minimum(mixed, 1.0))).sum())

    def _burstiness_of(self, X: sp.csr_array, executor: Executor) -> Burstiness | None:
        """Return the burstiness by which documents predict their own words."""
        if not self.repeats or X.nnz == 0:
            return None
        burstiness = self.posterior.state.burstiness
        if burstiness is not None or not self.learns:
            return burstiness
        some = X[evenly(X.shape[0], N_DOCS)]
        return learn_burstiness(some, lambda b: self._infer(some, b, executor)[1:])

    def _shares(self, doc_nodes: sp.csr_array) -> tuple[Array, Array]:
        posterior = self.posterior
        return node_shares(posterior.state, posterior.model, doc_nodes.toarray())

    def _infer(
        self, X: sp.csr_array, burstiness: Burstiness | None, executor: Executor
    ) -> tuple[sp.csr_array, Array, Array]:
        """Infer expected uses of nodes, tables of words and their probabilities."""
        batch = Batch.from_counts(X, self.posterior.state.n_components)
        given = StepInput(self.posterior, batch, self.stop, executor)
        step = NestedStep.prepare(given, is_fixed=True)
        return step.with_burstiness(burstiness, batch).infer(batch, executor)
