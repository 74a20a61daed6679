"""Protocol of prediction with fixed globals: inference in documents, held-out tokens.

A predictor contains what prediction reads of a fitted model, perhaps several samples
of a posterior. Estimators make one; `transform`, `score` and metrics call it.
"""

from typing import Protocol

import scipy.sparse as sp

from skbnp.inference.executor import Executor


class Predictor(Protocol):
    """Protocol: predict tokens of documents from others."""

    @property
    def repeats(self) -> bool:
        """Whether a document predicts its own words; paths of trees never do."""

    @property
    def learns(self) -> bool:
        """Whether how much is learned from documents where the model has not."""

    def log_likelihood(
        self, X_observed: sp.csr_array, X_held: sp.csr_array, executor: Executor
    ) -> float:
        """Log probability in nats of all held-out tokens, given the observed ones."""
