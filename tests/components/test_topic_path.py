"""Paths of merges: against a slow twin, what they lose, known topics, ties."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from reference import topic_path as slow
from skbnp.components.topic_groups import Counts, exchanged, merge_path


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


@pytest.mark.parametrize("n_known", [0, 3])
@pytest.mark.parametrize("n_topics", [2, 7, 16, 26])
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
