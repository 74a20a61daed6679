"""Groups of topics: the evidence, moves that raise it, and what is found."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.cluster.hierarchy import fcluster, is_valid_linkage
from sklearn.metrics import adjusted_rand_score

from reference.topic_groups import evidence, partitions
from skbnp.components.topic_groups import Evidence, Groups, TopicCounts, group_topics


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
