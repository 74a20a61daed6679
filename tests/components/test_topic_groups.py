"""Groups of topics and paths of merges: evidence, moves, and what they find."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.cluster.hierarchy import fcluster, is_valid_linkage
from sklearn.metrics import adjusted_rand_score

from reference import topic_path as slow
from reference.topic_groups import evidence, partitions
from skbnp.components.topic_groups import (
    Counts,
    Evidence,
    Groups,
    TopicCounts,
    exchanged,
    group_topics,
    merge_path,
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


# Paths of merges ----------------------------------------------------------------------


def table(n_topics, n_words, seed, n_kinds=4):
    """Counts of topics that are variations of a few kinds, many of them zero."""
    rng = np.random.default_rng(seed)
    kinds = rng.dirichlet(np.full(n_words, 0.3), n_kinds)
    topics = [rng.dirichlet(20.0 * kinds[k % n_kinds] + 0.01) for k in range(n_topics)]
    lengths = rng.gamma(1.0, 300.0, n_topics) + 5.0
    counts = lengths[:, None] * np.array(topics)
    counts[counts < 0.05] = 0.0
    return counts


def none_of(counts):
    return np.zeros(len(counts), dtype=bool)


@pytest.mark.parametrize(
    ("n_topics", "n_known"), [(2, 0), (7, 3), (16, 0), (26, 0), (26, 3)]
)
def test_the_path_is_that_of_the_twin(n_topics, n_known, seed):
    """All pairs of few topics are compared, and of many the nearest."""
    counts = table(n_topics, 12, seed)
    is_known = np.arange(n_topics) < min(n_known, n_topics)
    path = merge_path(counts, is_known)
    expected = slow.path(counts, is_known)
    assert path.pairs.tolist() == [list(step[:2]) for step in expected]
    assert_allclose(path.losses, [step[2] for step in expected], atol=1e-8)


def test_losses_sum_to_the_mutual_information_of_words_and_topics():
    counts = table(60, 30, 0)
    path = merge_path(counts, none_of(counts))
    joint = counts / counts.sum()
    independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    some = joint > 0.0
    information = (joint[some] * np.log(joint[some] / independent[some])).sum()
    assert_allclose(path.losses.sum() / counts.sum(), information, rtol=1e-10)


def test_copies_of_topics_merge_first_at_no_loss():
    counts = np.repeat(table(12, 40, 1, n_kinds=12), 3, axis=0)
    path = merge_path(counts * np.linspace(0.5, 2.0, 36)[:, None], none_of(counts))
    assert_array_equal(path.pairs[:24, 0] // 3, path.pairs[:24, 1] // 3)
    assert_allclose(path.losses[:24], 0.0, atol=1e-8)
    assert (path.losses[24:] > 1.0).all()


def test_the_heavier_topic_goes_on_and_the_first_of_equals():
    counts = np.array([[1.0, 9.0], [10.0, 90.0], [5.0, 0.0], [5.0, 0.0]])
    pairs = merge_path(counts, none_of(counts)).pairs.tolist()
    assert [0, 1] in pairs
    assert [3, 2] in pairs


@pytest.mark.parametrize("n_topics", [1, 25])
def test_topics_without_tokens_merge_at_no_loss(n_topics):
    counts = np.zeros((n_topics, 4))
    path = merge_path(counts, none_of(counts))
    assert len(path.pairs) == n_topics - 1
    assert not path.losses.any()


def test_counts_that_were_added_and_subtracted_leave_no_negative_ones():
    counts = table(20, 50, 4)
    changed = Counts(counts)
    changed.add(3, counts[0])
    changed.add(3, -counts[0])
    assert (changed.values >= 0.0).all()
    assert_allclose(changed.values, counts, atol=1e-10)
    assert_allclose(changed.growths, Counts(counts).growths, atol=1e-8)


def test_exchanges_undo_wrong_groups():
    """Groups of copies of four topics, a fifth of which begin in another group."""
    counts = np.repeat(table(4, 60, 5), 10, axis=0)
    kinds = np.repeat(np.arange(4), 10)
    groups = kinds.copy()
    groups[::5] = (kinds[::5] + 1) % 4
    result = exchanged(counts, groups, none_of(counts))
    assert_array_equal(result, kinds)
    fixed = exchanged(counts, groups, np.ones(40, dtype=bool))
    assert_array_equal(fixed, groups)


def test_exchanges_raise_the_evidence_of_groups():
    counts = table(200, 40, 6, n_kinds=60)
    groups = np.arange(200) % 20
    result = exchanged(counts, groups, none_of(counts))

    def total(labels):
        parts = [counts[labels == group] for group in range(20)]
        return sum(slow.evidence(part.sum(axis=0)) for part in parts)

    assert total(result) > total(groups) + 100.0


def test_the_counts_are_not_changed():
    counts = table(30, 10, 7)
    before = counts.copy()
    merge_path(counts, none_of(counts))
    assert_array_equal(counts, before)
