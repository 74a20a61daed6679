"""Prediction by a nested CRP: documents take paths of a fixed tree."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from skbnp.components.word_topics import SeenWords
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import LocalStop
from skbnp.models.nested_crp import local
from skbnp.models.nested_crp.model import PathGlobals
from skbnp.utils.typing import Ints


@dataclass(frozen=True, slots=True)
class PathPredictor:
    """Predictor of documents that take a path of a tree, under each of some samples."""

    samples: Sequence[PathGlobals]
    stop: LocalStop
    family: local.LocalFamily = "conditional"
    seen: SeenWords | None = None  # words of the columns; None: all
    repeats: bool = False  # not read, and the next: a path has no burstiness
    learns: bool = False

    def infer(
        self, sample: PathGlobals, X: sp.csr_array, executor: Executor
    ) -> local.DocPaths:
        """Infer the paths and levels of documents."""
        return local.update_paths(
            sample, self._columns(X), self.stop, executor, family=self.family
        )

    def order(self, X: sp.csr_array) -> Ints:
        """Order of the stored counts in inference."""
        places = sp.csr_array(
            (np.arange(X.nnz, dtype=float), X.indices, X.indptr), X.shape
        )
        return self._columns(places).data.astype(np.intp)

    def log_likelihood(
        self, X_observed: sp.csr_array, X_held: sp.csr_array, executor: Executor
    ) -> float:
        """Log probability in nats of all held-out tokens, given the observed ones.

        The tokens of a document share its path.
        """
        if X_held.nnz == 0:
            return 0.0
        counts = self._columns(X_held)
        logs = [
            local.log_predictive(one, self.infer(one, X_observed, executor), counts)
            for one in self.samples
        ]
        mean = logsumexp(logs, axis=0) - np.log(len(logs))
        # Documents without tokens add roundings alone.
        return mean[np.diff(X_held.indptr) > 0].sum()

    def _columns(self, X: sp.csr_array) -> sp.csr_array:
        """Counts with the columns of the topics; other words are left out."""
        return X if self.seen is None else self.seen.compact(X)
