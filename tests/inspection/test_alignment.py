"""Topics of two fits: pairs of known permutations, splits and merges that were made."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skbnp.inspection import align_components

PHI = np.random.default_rng(0).dirichlet(np.full(60, 0.1), 5)


def split(phi, row, share):
    """Cut a topic into two, of words of their own; counts keep the weights."""
    first = np.cumsum(phi[row][np.argsort(-phi[row])]) <= share
    mask = np.zeros(phi.shape[1], dtype=bool)
    mask[np.argsort(-phi[row])[first]] = True
    parts = [np.where(mask, phi[row], 0.0), np.where(mask, 0.0, phi[row])]
    return np.vstack([np.delete(phi, row, axis=0), *parts])


@pytest.mark.parametrize("seed", range(3))
def test_permuted_topics_are_matched_with_themselves(seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(5)
    noisy = PHI[order] * rng.uniform(0.9, 1.1, PHI.shape)
    result = align_components(PHI, noisy)
    assert_array_equal(order[result.pairs[:, 1]], result.pairs[:, 0])
    assert len(result.pairs) == 5
    assert result.similarity.min() > 0.98
    assert (np.diff(result.similarity) <= 0.0).all()
    assert result.splits == result.merges == {}
    assert len(result.unmatched_a) == len(result.unmatched_b) == 0


def test_matching_is_optimal_not_greedy():
    a = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0]])
    b = np.array([[0.95, 0.3122, 0.0], [0.99, 0.0, 0.141]])
    result = align_components(a, b)
    total = result.similarity.sum()
    cosine = result.cosines
    assert total == pytest.approx(
        max(cosine[0, 0] + cosine[1, 1], cosine[0, 1] + cosine[1, 0])
    )


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_a_topic_in_two_parts_is_a_split_and_a_merge_the_other_way(share):
    parts = split(PHI, 2, share)
    result = align_components(PHI, parts)
    assert {row: sorted(of) for row, of in result.splits.items()} == {2: [4, 5]}
    assert result.merges == {}
    assert len(result.unmatched_b) == 0
    back = align_components(parts, PHI)
    assert {row: sorted(of) for row, of in back.merges.items()} == {2: [4, 5]}
    assert back.splits == {}


def test_copies_of_a_topic_are_a_split_and_a_new_topic_is_not():
    copies = np.vstack([PHI, 0.5 * PHI[[3]]])
    assert align_components(PHI, copies).splits == {3: [3, 5]}
    rng = np.random.default_rng(1)
    new = np.zeros((1, 60))
    new[0, np.argsort(PHI.sum(axis=0))[:10]] = rng.uniform(1, 2, 10)  # where none is
    result = align_components(PHI, np.vstack([PHI, new]))
    assert result.splits == {}
    assert result.unmatched_b.tolist() == [5]


def test_unlike_topics_are_not_matched():
    a, b = np.eye(4)[:2], np.eye(4)[1:3]
    result = align_components(a, b)
    assert result.pairs.tolist() == [[1, 0]]
    assert result.unmatched_a.tolist() == [0]
    assert result.unmatched_b.tolist() == [1]
    assert len(align_components(a, b, min_similarity=0.0).pairs) == 2


def test_the_frame_lists_every_topic_by_number():
    parts = np.vstack([split(PHI[:4], 2, 0.5), np.eye(60)[[7]]])
    frame = align_components(PHI, parts).to_frame()
    assert sorted(frame["kind"]) == ["match"] * 4 + ["only in a", "only in b", "split"]
    assert frame.loc[frame["kind"] == "only in a", "topic_a"].tolist() == [4]
    assert frame["topic_b"].dropna().is_unique
    assert frame["similarity"].isna().sum() == 2


# -- vocabularies ----------------------------------------------------------------------


def test_columns_are_matched_by_name():
    names = [f"w{j}" for j in range(60)]
    frame = pd.DataFrame(PHI, columns=names)
    shuffled = frame.sample(frac=1.0, axis=1, random_state=0)
    assert_allclose(align_components(frame, shuffled).similarity, 1.0)
    # The same numbers, by their places: negative control.
    by_place = align_components(frame.to_numpy(), shuffled.to_numpy())
    assert len(by_place.similarity) == 0 or by_place.similarity.max() < 0.9
    more = shuffled.assign(other=0.01).drop(columns="w0")
    assert align_components(frame, more).similarity.min() > 0.7


def test_columns_that_cannot_be_matched_are_refused():
    with pytest.raises(ValueError, match=r"Topics have .4, 5. columns, and no names"):
        align_components(np.eye(4), np.eye(5))
    a, b = (pd.DataFrame(np.eye(2), columns=list(names)) for names in ("ab", "cd"))
    with pytest.raises(ValueError, match="terms in common"):
        align_components(a, b)


# -- estimators ------------------------------------------------------------------------
