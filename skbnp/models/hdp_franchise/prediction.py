"""Prediction by samples of the franchise, each with the burstiness it has learned."""

import scipy.sparse as sp

from skbnp.inference.executor import Executor
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.prediction import Array, MixturePredictor, Sample
from skbnp.models.hdp_franchise.sample import FranchiseSample

__all__ = ["FranchisePredictor"]


class FranchisePredictor(MixturePredictor):
    """Predictor by samples of the franchise: documents mix topics and repeat words."""

    def infer_counts(
        self, sample: Sample, X: sp.csr_array, executor: Executor
    ) -> sp.csr_array:
        """Infer tokens of topics, or first uses if words repeat, (n_docs, K)."""
        return self.infer_uses(sample, X, executor)[0]

    def infer_uses(
        self, sample: Sample, X: sp.csr_array, executor: Executor
    ) -> tuple[sp.csr_array, Array]:
        """Infer tokens of topics, and tokens or first uses of words, (nnz,)."""
        burstiness = self._own(sample, X)
        if burstiness is None:
            return super().infer_counts(sample, X, executor), X.data
        seated = self._seat(sample, X, burstiness, executor)
        return seated.doc_topic, seated.tables

    def _burstiness(
        self, sample: Sample, X: sp.csr_array, executor: Executor
    ) -> Burstiness | None:
        """Return the burstiness of the sample, or learn it if the sample has none."""
        return self._own(sample, X) or super()._burstiness(sample, X, executor)

    def _own(self, sample: Sample, X: sp.csr_array) -> Burstiness | None:
        """Return the burstiness of the sample itself, or None."""
        assert isinstance(sample, FranchiseSample)
        if not self.repeats or not sample.has_repeats or X.nnz == 0:
            return None
        return Burstiness(sample.word_discount, sample.word_concentration)
