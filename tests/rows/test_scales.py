"""Units of counts, and rows that hold much of all tokens."""

import numpy as np
import pytest
import scipy.sparse as sp

from checks.corpora import topic_counts
from skbnp.rows.survey import OUTLYING, TWICE, Scales, WordUses, scaled, thinned

COUNTS = topic_counts(60, 40, length=200.0).toarray()
SHARES = COUNTS / COUNTS.sum(axis=1, keepdims=True)
RNG = np.random.default_rng(0)


def matrix(X):
    return sp.csr_array(np.asarray(X, dtype=np.float64))


@pytest.mark.parametrize(
    "scale",
    [
        lambda x: 10.0 * x,
        lambda x: 1e6 * SHARES,
        lambda x: np.rint(1e6 * SHARES),
        lambda x: x * np.linspace(2.0, 9.0, len(x))[:, None],
    ],
)
def test_counts_are_found_again_whatever_their_unit(scale):
    counts, scales = scaled(matrix(scale(COUNTS)))
    np.testing.assert_array_equal(counts.toarray(), COUNTS)
    assert scales.unit > 2.0


@pytest.mark.parametrize(
    "X",
    [
        COUNTS,
        np.round(100.0 * SHARES, 2),
        COUNTS / 4.0,
        RNG.gamma(COUNTS + 1e-9),  # expected counts
        RNG.multinomial(10_000, np.full(20, 0.05), 50),  # rarefied
        RNG.integers(60, 2_000, (100, 2)),  # few columns of large counts
        5.0 * RNG.multinomial(20, np.full(10, 0.1), 50),  # percentages of 20 draws
        10.0 * COUNTS[:15],  # too few rows
    ],
)
def test_values_of_other_scales_stay_as_they_are(X):
    given = matrix(X)
    counts, scales = scaled(given)
    assert counts is given
    assert scales.unit in (None, 1.0)
    assert not scales.row_sum


def test_shares_of_no_unit_are_known_by_their_sum():
    rates = COUNTS * RNG.gamma(2.0, size=COUNTS.shape[1])
    rates /= rates.sum(axis=1, keepdims=True)
    assert scaled(matrix(1e6 * rates))[1].row_sum == pytest.approx(1e6)
    assert scaled(matrix(100.0 * rates))[1].row_sum == 0.0  # percentages
    assert scaled(matrix(3_000.0 * SHARES[:, :20]))[1].row_sum == 0.0  # other sums


def with_long_row(times, n_docs=60):
    lengths = COUNTS[:n_docs].sum(axis=1)
    return np.vstack([np.round(times * lengths.mean() * SHARES[:1]), COUNTS[:n_docs]])


def test_a_row_is_outlying_that_holds_more_than_five_mean_ones():
    for times, expected in ((0.8 * OUTLYING, False), (2 * OUTLYING, True), (1e4, True)):
        outlying = Scales.of(matrix(with_long_row(times))).outlying()
        assert (outlying is not None) == expected
    assert outlying.rows.tolist() == [0]
    assert outlying.shares[0] > 0.99
    assert outlying.length == pytest.approx(TWICE * COUNTS.sum(axis=1).mean())


def test_many_long_rows_are_not_outlying():
    X = COUNTS.copy()
    X[::5] *= 1_000.0
    assert Scales.of(matrix(X)).outlying() is None
    X[1] *= 1e6
    outlying = Scales.of(matrix(X)).outlying()
    assert outlying.rows.tolist() == [1]
    assert outlying.length == pytest.approx(X[::5].sum(axis=1).max(), rel=0.2)
    X = COUNTS.copy()
    X[:3] *= 1_000.0
    assert sorted(Scales.of(matrix(X)).outlying().rows) == [0, 1, 2]


def test_documents_of_a_stream_so_far_count_too():
    scales = Scales.of(matrix(with_long_row(8.0, 30)))
    assert scales.outlying() is not None
    assert scales.outlying(10_000.0) is None
    assert Scales.of(matrix(with_long_row(100.0, 2))).outlying(1_000.0) is None


def test_thinning_keeps_whole_counts_and_shares():
    given = matrix(with_long_row(1e3))
    outlying = Scales.of(given).outlying()
    counts = thinned(given, outlying).toarray()
    np.testing.assert_array_equal(counts[1:], COUNTS)
    np.testing.assert_array_equal(counts[0], np.rint(counts[0]))
    assert counts[0].sum() == pytest.approx(outlying.length, abs=1.0)
    expected = outlying.length * given.toarray()[0] / given[[0]].sum()
    assert np.abs(counts[0] - expected).max() <= 1.0
    assert given[[0]].sum() > 10.0 * outlying.length  # not written to
    halves = thinned(0.5 * given, outlying).toarray()[0]
    np.testing.assert_allclose(halves, expected)


def test_scales_of_parts_combine():
    X = 1e6 * np.vstack([SHARES, SHARES])
    whole, halves = Scales.of(matrix(X)), [Scales.of(matrix(1e6 * SHARES))] * 2
    both = halves[0].plus(halves[1])
    assert both.n_docs == whole.n_docs == 120
    assert both.unit == pytest.approx(whole.unit)
    assert both.longest == whole.longest
    counts = Scales.of(matrix(COUNTS))
    assert counts.plus(halves[0]).unit == 1.0
    long = Scales.of(matrix(with_long_row(100.0)))
    assert counts.plus(long).outlying().rows.tolist() == [60]


def test_words_of_one_document_connect_none():
    own = np.kron(np.eye(25), np.ones((1, 4)))
    shared = np.ones((25, 2))
    assert WordUses.of(matrix(own)).share_alone == 1.0
    mixed = WordUses.of(matrix(np.hstack([own, shared])))
    assert mixed.share_alone == pytest.approx(4 / 6)
    assert WordUses.of(matrix(np.kron(np.eye(5), np.ones((5, 1))))).share_alone == 1.0
    parts = [WordUses.of(matrix(X)) for X in (own[:, :50], own[::-1, :50])]
    assert parts[0].share_alone == parts[1].share_alone == 1.0
    assert parts[0].plus(parts[1]).share_alone == 0.0
