"""Documents token by token."""

import numpy as np
import scipy.sparse as sp

from skbnp.rows.batch import Tokens


def test_runs_are_the_stored_counts_of_each_document():
    counts = sp.csr_array(np.array([[0, 2, 1], [0, 0, 0], [0, 0, 3], [1, 0, 0]]))
    starts, n = Tokens.from_counts(counts).runs()
    assert starts.tolist() == [0, 2, 3, 6]
    assert n.tolist() == counts.data.tolist()
    starts, n = Tokens.from_counts(sp.csr_array((2, 3), dtype=float)).runs()
    assert len(starts) == len(n) == 0
