"""Laws of dealing the tokens of documents out to parts."""

import numpy as np
import pytest
import scipy.sparse as sp

from skbnp.rows.splits import deal_tokens


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_parts_sum_to_the_documents_and_leave_them(scale):
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.poisson(0.7, (40, 30)) * scale)
    before = [part.copy() for part in (X.data, X.indices, X.indptr)]
    sums = np.zeros(X.shape)
    for rows, part, rest in deal_tokens(X, 3, rng):
        np.testing.assert_allclose((part + rest).toarray(), X[rows].toarray())
        assert part.data.min() > 0.0
        assert (np.diff(part.indptr) > 0).all()
        assert (np.diff(rest.indptr) > 0).all()
        sums[rows] += part.toarray()
    for old, new in zip(before, (X.data, X.indices, X.indptr), strict=True):
        np.testing.assert_array_equal(old, new)
    assert (sums <= X.toarray() + 1e-9).all()
    long = np.asarray(X.sum(axis=1)).ravel() > 12 * scale
    np.testing.assert_allclose(sums[long], X.toarray()[long])


def test_parts_have_equal_shares_of_the_tokens():
    X = sp.csr_array(np.full((200, 5), 6.0))
    rng = np.random.default_rng(1)
    shares = [part.sum() / X.sum() for _, part, _ in deal_tokens(X, 4, rng)]
    np.testing.assert_allclose(shares, 0.25, atol=5 * np.sqrt(0.19 / 6000))
