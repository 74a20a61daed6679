"""Merge topics of the HDP (section 3.2 of Bryant and Sudderth 2012).

r_k = r_k' + r_k'', theta, beta and S likewise, so lambda = lambda' + lambda'' - eta
(the paper's lambda' + lambda'' counts the prior twice). The bound changes by

    sum_j gain_j + logB(eta + S' + S'') - logB(eta + S') - logB(eta + S'') + logB(eta),

gain_j of the document j as in `compare_merges`.
"""

from dataclasses import dataclass

import numpy as np

from skbnp.distributions.dirichlet import log_growth
from skbnp.kernels._merge import compare_merges
from skbnp.models.hdp.local import BlockVisit
from skbnp.utils.typing import Array, Ints32


@dataclass(frozen=True, slots=True)
class MergeComparison:
    """Block hook that sums losses and gains of documents for pairs that may merge."""

    pairs: Ints32  # (n_pairs, 2)

    def __call__(self, block_visit: BlockVisit) -> Array:
        """Sums of loss and gain, (n_pairs, 2), in nats."""
        sums, block = np.zeros((len(self.pairs), 2)), block_visit.block
        if len(self.pairs):
            doc_topic = block_visit.doc_topic
            compare_merges(
                block.indptr,
                block.indices,
                block.counts,
                block_visit.word_weights,
                block_visit.doc_weights,
                block_visit.documents.norms,
                doc_topic,
                log_growth(block_visit.prior, doc_topic),
                block_visit.prior,
                self.pairs,
                sums,
            )
        return sums
