"""What merges of groups of topics gain, against the slow twin."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from reference.topic_groups import evidence, rising
from skbnp.components.topic_groups import Groups, Moments, TopicCounts
from skbnp.kernels._topic_groups import rising_sums


def counts_of(rng, n_docs=40, n_topics=7, *, used=0.4):
    """Expected tokens, of which some are very few and some many; no topic is empty."""
    tokens = rng.gamma(0.5, 8.0, size=(n_docs, n_topics)) + 1e-7
    tokens[rng.random(tokens.shape) > used] = 0.0
    tokens[np.arange(n_topics), np.arange(n_topics)] = 900.0
    tokens[-1] = 0.0
    return tokens


def groups_of(tokens, labels, outer=1.3, inner=0.6):
    counts = TopicCounts.of(sp.csr_array(tokens))
    return Groups(counts, outer, inner, np.array(labels))


def check_gains_are_differences(groups, tokens, gains_of):
    counts = groups.counts

    def value(labels):
        return evidence(tokens, counts.weights, labels, groups.outer, groups.inner)

    before = value(groups.labels)
    for g in groups.present:
        gains = gains_of(g)
        for h in groups.present:
            if h != g:
                merged = np.where(groups.labels == h, g, groups.labels)
                assert_allclose(gains[h], value(merged) - before, rtol=1e-9, atol=1e-8)


LABELS = [range(7), [0, 0, 2, 3, 3, 3, 6], [0, 0, 0, 0, 0, 5, 5]]


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize(("outer", "inner"), [(1.3, 0.6), (0.01, 40.0), (90.0, 0.002)])
def test_gain_of_a_merge_is_the_difference_of_two_evidences(seed, labels, outer, inner):
    tokens = counts_of(np.random.default_rng(seed))
    groups = groups_of(tokens, labels, outer, inner)
    check_gains_are_differences(groups, tokens, groups.gains)


def test_rising_sums_are_those_of_the_twin():
    tokens, bases = np.array([1e-9, 1e-3, 0.7, 45.0, 1e5]), np.array([1e-8, 0.3, 700.0])
    sums = np.ones(3)
    rising_sums(*Moments.of(tokens), bases, sums)
    twin = [1.0 + sum(rising(x, n) for n in tokens) for x in bases]
    assert_allclose(sums, twin, rtol=1e-12)


# -- negative controls -----------------------------------------------------------------


def test_the_check_of_gains_tells_a_wrong_concentration():
    tokens = counts_of(np.random.default_rng(0))
    groups = groups_of(tokens, LABELS[1])
    other = groups_of(tokens, LABELS[1], inner=0.61)
    with pytest.raises(AssertionError):
        check_gains_are_differences(groups, tokens, other.gains)
