"""Groups of topics: the evidence, moves that raise it, and what is found."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.cluster.hierarchy import fcluster, is_valid_linkage
from sklearn.metrics import adjusted_rand_score

from reference.topic_groups import evidence, partitions
from skbnp.components.topic_evidence import Evidence, TopicCounts
from skbnp.components.topic_groups import (
    Groups,
    cut,
    group_topics,
    linkage_by_presence,
)


def planted(rng, n_groups=5, n_each=4, n_docs=300, length=80, outer=1.0, inner=1.0):
    """Draw counts of topics from the two levels; labels, too."""
    labels = np.repeat(np.arange(n_groups), n_each)
    shares = rng.dirichlet(np.full(n_groups, 5.0))[labels] / n_each
    rows = []
    for _ in range(n_docs):
        of_groups = rng.dirichlet(outer * np.bincount(labels, shares))
        parts = [rng.dirichlet(np.full(n_each, inner / n_each)) for _ in of_groups]
        mixed = np.concatenate([a * b for a, b in zip(of_groups, parts, strict=True)])
        rows.append(rng.multinomial(length, mixed / mixed.sum()))
    rows[0] = np.ones(len(labels), dtype=int)  # no topic is without tokens
    return np.array(rows, dtype=float), labels


def independent(rng, n_topics=20, n_docs=300, length=80):
    """Draw counts from one Dirichlet distribution."""
    weights = rng.dirichlet(np.full(n_topics, 5.0))
    shares = rng.dirichlet(2.0 * weights, size=n_docs)
    tokens = np.array([rng.multinomial(length, row) for row in shares], dtype=float)
    tokens[0] += 1.0
    return tokens


def counts_of(tokens):
    return TopicCounts.of(sp.csr_array(tokens))


def test_evidence_is_that_of_the_twin_at_its_maximum(seed):
    tokens, labels = planted(np.random.default_rng(seed), 2, 3, 30)
    counts = counts_of(tokens)
    result = Evidence.of(counts, labels)

    def value(outer, inner):
        return evidence(tokens, counts.weights, labels, outer, inner)

    assert_allclose(result.value, value(result.outer, result.inner), rtol=1e-10)
    for factor in (0.99, 1.01):
        assert value(result.outer * factor, result.inner) < result.value
        assert value(result.outer, result.inner * factor) < result.value


def test_one_group_and_a_group_for_each_topic_are_the_same_model(seed):
    tokens = independent(np.random.default_rng(seed), 5, 40)
    counts = counts_of(tokens)
    one, each = Evidence.of(counts, np.zeros(5)), Evidence.of(counts, np.arange(5))
    assert_allclose(one.value, each.value, rtol=1e-10)
    assert_allclose(one.inner, each.outer, rtol=1e-4)


def test_weights_have_the_most_evidence_without_groups():
    tokens = independent(np.random.default_rng(1), 5, 200)
    counts = counts_of(tokens)
    best = Evidence.of(counts, np.arange(5))
    shares = tokens.sum(axis=0) / tokens.sum()
    other = evidence(tokens, shares, np.arange(5), best.outer, 1.0)
    assert best.value > other


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (2, 2)])
def test_best_of_all_partitions_is_found(shape):
    tokens, labels = planted(np.random.default_rng(3), *shape, n_docs=100)
    counts = counts_of(tokens)
    values = [Evidence.of(counts, np.array(p)).value for p in partitions(len(labels))]
    flat = Evidence.of(counts, np.arange(len(labels))).value
    result = group_topics(counts)
    assert_allclose(result.gain, max(values) - flat, rtol=1e-6)
    assert result.is_worth_it
    assert adjusted_rand_score(result.labels, labels) == 1.0


@pytest.mark.parametrize("n_groups", [2, 3, 4])
def test_best_partition_of_so_many_groups_is_found(n_groups):
    tokens, _ = planted(np.random.default_rng(5), 3, 2, n_docs=100)
    counts = counts_of(tokens)
    values = [
        Evidence.of(counts, np.array(p)).value
        for p in partitions(6)
        if max(p) + 1 == n_groups
    ]
    flat = Evidence.of(counts, np.arange(6)).value
    result = group_topics(counts, n_groups)
    assert result.labels.max() + 1 == n_groups
    assert_allclose(result.gain, max(values) - flat, rtol=1e-6)


def test_planted_groups_are_found(seed):
    tokens, labels = planted(np.random.default_rng(seed))
    result = group_topics(counts_of(tokens))
    assert result.is_worth_it
    assert adjusted_rand_score(result.labels, labels) >= 0.95


def test_independent_topics_are_not_worth_groups(seed):
    assert not group_topics(
        counts_of(independent(np.random.default_rng(seed)))
    ).is_worth_it


def test_moves_raise_the_evidence_by_what_they_say(seed):
    rng = np.random.default_rng(seed)
    tokens, _ = planted(rng, 3, 3, 60)
    counts = counts_of(tokens)
    groups = Groups(counts, 1.5, 0.7, rng.integers(3, size=9))

    def value():
        return evidence(tokens, counts.weights, groups.labels, 1.5, 0.7)

    n_moves = 0
    for k in [*range(9)] * 3:
        before = value()
        if groups._move(k, keep_number=False):
            n_moves += 1
            assert value() > before
    assert n_moves


def test_merges_are_a_tree_that_cuts_into_the_groups(seed):
    tokens, _ = planted(np.random.default_rng(seed), 4, 3, 120)
    result = group_topics(counts_of(tokens))
    assert is_valid_linkage(result.merges)
    assert (np.diff(result.merges[:, 2]) >= 0.0).all()
    n_groups = int(result.labels.max()) + 1
    leaves = fcluster(result.merges, n_groups, "maxclust")
    assert adjusted_rand_score(leaves, result.labels) == 1.0


def test_order_of_documents_does_not_matter():
    tokens, _ = planted(np.random.default_rng(0), 3, 3, 80)
    one, other = (group_topics(counts_of(t)) for t in (tokens, tokens[::-1]))
    assert_array_equal(one.labels, other.labels)
    assert_allclose(one.gain, other.gain, rtol=1e-9)


def test_evidence_is_above_that_of_groups_by_correlation(seed):
    tokens, _ = planted(np.random.default_rng(seed), outer=2.0, inner=2.0)
    counts = counts_of(tokens)
    flat = Evidence.of(counts, np.arange(counts.n_topics)).value
    by_correlation = Evidence.of(counts, cut(linkage_by_presence(counts), 5))
    assert group_topics(counts, 5).gain >= by_correlation.value - flat - 1e-6


@pytest.mark.parametrize("n_topics", [1, 2])
def test_one_or_two_topics(n_topics):
    result = group_topics(counts_of(independent(np.random.default_rng(0), n_topics)))
    assert result.merges.shape == (n_topics - 1, 4)
    assert not result.is_worth_it


# -- negative control ------------------------------------------------------------------


def test_groups_in_a_wrong_place_are_not_found():
    tokens, labels = planted(np.random.default_rng(0))
    counts, rng = counts_of(tokens), np.random.default_rng(1)
    wrong = Evidence.of(counts, rng.permutation(labels))
    assert wrong.value < Evidence.of(counts, labels).value - 50.0
