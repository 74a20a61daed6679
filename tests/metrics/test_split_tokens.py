"""Laws of the token split.

A false alarm of a statistical test has probability 1e-6 over the choice of seeds; the
seeds are fixed.
"""

from fractions import Fraction
from itertools import product
from math import floor

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from skbnp.metrics import split_tokens

FALSE_ALARM = 1e-6


def counts_with_every_kind_of_row():
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.3, 4.0, size=(30, 12)))
    X[3], X[4] = 0, 0
    X[4, 2] = 1
    X[5] = 7
    return X


def expected_n_held(n_tokens, observed):
    """clip(floor(f N + 1/2), 1, N - 1) in rational arithmetic, f = 1 - observed."""
    if n_tokens < 2:
        return 0
    share = 1 - Fraction(str(observed))
    return min(max(floor(share * n_tokens + Fraction(1, 2)), 1), n_tokens - 1)


# The parts add up ---------------------------------------------------------------------


def fractional_counts():
    return np.random.default_rng(0).gamma(1.0, 3.0, size=(500, 20))


@pytest.mark.parametrize(
    "X",
    [
        counts_with_every_kind_of_row(),
        fractional_counts(),
        1e-3 * fractional_counts(),
        np.array([[1e9, 3, 1e9 + 1, 1], [1e15, 3, 0, 1e15 + 2]]),
    ],
    ids=["integers", "fractions", "small fractions", "huge"],
)
def test_parts_sum_to_the_counts_exactly(X):
    X_observed, X_held = split_tokens(X)
    np.testing.assert_array_equal((X_observed + X_held).toarray(), X)
    for part in (X_observed, X_held):
        assert (part.data > 0).all()
        assert part.has_canonical_format


# Sizes --------------------------------------------------------------------------------


@pytest.mark.parametrize("observed", [0.01, 0.5, 0.8, 0.99])
def test_number_of_held_tokens_is_the_rounded_and_clipped_share(observed):
    lengths = np.arange(61)
    X = np.stack([lengths - lengths // 3, lengths // 3], axis=1)
    _, X_held = split_tokens(X, observed=observed)
    expected = [expected_n_held(int(n), observed) for n in lengths]
    np.testing.assert_array_equal(X_held.sum(axis=1), expected)


@pytest.mark.parametrize("row", [[0, 0, 0], [0, 1, 0], [0, 0.4, 0], [1e-9, 0, 0]])
def test_document_of_fewer_than_two_units_is_all_observed(row):
    X_observed, X_held = split_tokens([row])
    np.testing.assert_array_equal(X_observed.toarray(), [row])
    assert X_held.nnz == 0


# Fractions and huge counts ------------------------------------------------------------


@pytest.mark.parametrize("count", [1.5, 2.0, 2.2, 7.9])
def test_fractional_count_splits_into_its_ceiling_of_equal_units(count):
    n_units = int(np.ceil(count))
    _, X_held = split_tokens([[count]])
    expected = expected_n_held(n_units, 0.8) * count / n_units
    np.testing.assert_allclose(X_held.sum(), expected, rtol=1e-15)


# Content alone ------------------------------------------------------------------------


def test_split_of_a_row_does_not_depend_on_other_rows():
    X = counts_with_every_kind_of_row()
    X_held = split_tokens(X)[1].toarray()
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_array_equal(split_tokens(X[order])[1].toarray(), X_held[order])
    np.testing.assert_array_equal(split_tokens(X[7:19:2])[1].toarray(), X_held[7:19:2])
    longer = np.vstack([X[:5] + 1, X])
    np.testing.assert_array_equal(split_tokens(longer)[1].toarray()[5:], X_held)


@pytest.mark.parametrize(
    "convert",
    [
        np.float32,
        np.ndarray.tolist,
        sp.csc_array,
    ],
)
def test_split_does_not_depend_on_the_container(convert):
    X = counts_with_every_kind_of_row()
    X_held = split_tokens(convert(X))[1]
    np.testing.assert_array_equal(X_held.toarray(), split_tokens(X)[1].toarray())


# Distribution -------------------------------------------------------------------------

COUNTS = np.array([5, 3, 2])
N_HELD = 2  # of 10 tokens; the rarest outcome, both tokens of the last word, has 1/45


def test_every_token_is_held_out_with_equal_probability(seed):
    """Chi-square of all outcomes, in documents with these counts of other words."""
    n_docs = 3000
    X = sp.kron(sp.eye_array(n_docs), COUNTS[None], format="csr")
    parts = split_tokens(X, random_state=seed)[1].tocoo()
    held = np.zeros((n_docs, len(COUNTS)))
    held[parts.coords[0], parts.coords[1] % len(COUNTS)] = parts.data
    outcomes = [
        outcome
        for outcome in product(*(range(c + 1) for c in COUNTS))
        if sum(outcome) == N_HELD
    ]
    seen = np.array([(held == outcome).all(axis=1).sum() for outcome in outcomes])
    assert seen.sum() == len(held)
    law = stats.multivariate_hypergeom(COUNTS, N_HELD)
    expected = len(held) * np.array([law.pmf(outcome) for outcome in outcomes])
    assert expected.min() > 50
    chi_square = ((seen - expected) ** 2 / expected).sum()
    assert chi_square < stats.chi2.isf(FALSE_ALARM, len(outcomes) - 1)


# Random states ------------------------------------------------------------------------


def held(random_state):
    return split_tokens(counts_with_every_kind_of_row(), random_state=random_state)[1]


def test_split_is_that_of_its_seed():
    assert (held(5) != held(5)).nnz == 0
    assert (held(5) != held(6)).nnz > 0


# Errors -------------------------------------------------------------------------------


@pytest.mark.parametrize("observed", [0, 1.0, -0.2, np.nan])
def test_share_outside_the_open_unit_interval_is_refused(observed):
    with pytest.raises(ValueError, match="observed must be inside"):
        split_tokens([[3, 4]], observed=observed)
    with pytest.raises(ValueError, match="Negative values"):
        split_tokens([[3, -4]])
