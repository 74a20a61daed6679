"""Topics of two fits, and of a fit and a catalogue, are matched."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls

from skbnp import HDP
from skbnp.inspection import _compared, align_components, match_components
from skbnp.utils.validation import check_counts

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


# Catalogues ---------------------------------------------------------------------------


NAMES = [f"kind {k}" for k in range(24)]


@pytest.fixture(scope="module")
def planted():
    """Five signatures, documents of them, and a catalogue that lacks the last two."""
    rng = np.random.default_rng(0)
    signatures = rng.dirichlet(np.full(24, 0.2), 5)
    shares = rng.dirichlet(np.full(5, 0.3), 120)
    X = np.array([rng.multinomial(200, p) for p in shares @ signatures])
    others = rng.dirichlet(np.full(24, 0.2), 6)
    catalogue = np.vstack([signatures[:3], others])
    rows = [f"S{k}" for k in range(9)]
    return X, signatures, pd.DataFrame(catalogue, index=rows, columns=NAMES)


@pytest.fixture(scope="module")
def fit(planted):
    X = pd.DataFrame(planted[0], columns=NAMES)
    return HDP(5, split_merge=False, random_state=0).fit(X), X


def test_signatures_are_found_and_what_is_new(planted, fit):
    _, signatures, catalogue = planted
    found = match_components(fit[0], catalogue, fit[1], n_draws=20)
    frame = found.to_frame().set_index("topic")
    assert sorted(frame["kind"]) == ["match"] * 3 + ["new"] * 2
    for name, row in zip(["S0", "S1", "S2"], signatures, strict=False):
        (number,) = frame.index[
            (frame["reference"] == name) & (frame["kind"] == "match")
        ]
        topic = fit[0].topic_word_distr_[fit[0].component_ids_ == number][0]
        cosine = topic @ row / np.linalg.norm(topic) / np.linalg.norm(row)
        assert frame.loc[number, "similarity"] == pytest.approx(cosine)
    of_matches = frame[frame["kind"] == "match"]
    assert (of_matches["recurrence"] >= 0.9).all()
    assert (of_matches["low"] < of_matches["similarity"]).all()
    assert (of_matches["low"] > 0.8).all()
    assert repr(found) == "Matches(3 match, 0 combination, 2 new)"


def test_a_catalogue_stands_either_way_round(planted, fit):
    """In any order of rows, with kinds that the model lacks, and without its last."""
    X, _, catalogue = planted
    wanted = match_components(fit[0], catalogue)
    for frame in (catalogue.T, catalogue.T.iloc[::-1], catalogue.assign(more=0.0)):
        found = match_components(fit[0], frame)
        assert_allclose(found.cosines, wanted.cosines)
        assert found.parts == wanted.parts
    short = match_components(fit[0], catalogue.drop(columns=NAMES[-1]))
    assert short.cosines.shape == wanted.cosines.shape
    plain = match_components(fit[0].topic_word_distr_, catalogue.to_numpy())
    assert_allclose(np.sort(plain.similarity), np.sort(wanted.similarity))
    with pytest.raises(ValueError, match="reference must name features"):
        match_components(fit[0], catalogue.set_axis(range(24), axis=1))
    with pytest.raises(ValueError, match="reference must have 24 features, got 5"):
        match_components(fit[0], np.ones((2, 5)))
    with pytest.raises(TypeError, match="X must be None for topics"):
        match_components(catalogue.to_numpy(), catalogue.to_numpy(), X)


@pytest.mark.parametrize("share", [0.5, 0.6, 1.0])
def test_a_topic_of_two_references_is_their_combination(share, planted):
    """Not if it is one of them."""
    _, _, catalogue = planted
    rows = catalogue.to_numpy()
    topics = np.vstack([share * rows[0] + (1 - share) * rows[1], rows[4]])
    found = match_components(topics, rows)
    place = int(np.argmax(found.topics == 0))
    if share == 1.0:
        assert found.kind == ["match", "match"]
        return
    assert found.kind[place] == "combination"
    assert found.parts[place] == [0, 1]
    assert_allclose(found.shares[place], [share, 1 - share])
    assert found.similarity[place] == pytest.approx(1.0)


def test_the_best_pair_is_that_of_all_pairs():
    """Against non-negative least squares of each."""
    rng = np.random.default_rng(0)
    references = rng.dirichlet(np.full(12, 0.5), 7)
    unit = references / np.linalg.norm(references, axis=1, keepdims=True)
    for topic in rng.dirichlet(np.full(12, 0.5), 20):
        topic = topic / np.linalg.norm(topic)
        fits = {
            (i, j): nnls(unit[[i, j]].T, topic)[1] for i in range(7) for j in range(i)
        }
        least = min(fits.values())
        pair = _compared._best_pair(unit @ topic, references)
        assert nnls(unit[list(pair)].T, topic)[1] == pytest.approx(least)
        value, shares = _compared._combined(unit @ topic, references, pair)
        assert value == pytest.approx(np.sqrt(1.0 - least**2))
        mixture = np.array(shares) @ references[list(pair)]
        assert topic @ mixture / np.linalg.norm(mixture) == pytest.approx(value)


def test_bootstrap_of_documents_has_the_spread_of_new_ones(planted):
    """Topics of resampled documents vary about as much as those of new documents do."""
    _, signatures, _ = planted
    rng = np.random.default_rng(0)

    def documents():
        shares = rng.dirichlet(np.full(5, 0.3), 120)
        return [rng.multinomial(200, p) for p in shares @ signatures]

    def fitted(X, n_draws=0):
        counts = check_counts(np.array(X), whom="test")
        given = signatures, counts, 0.01, n_draws, rng
        return np.array(list(_compared._resampled(*given)))

    new = np.array([fitted(documents())[0] for _ in range(40)])
    drawn = fitted(documents(), 40)[1:]
    large = signatures > 0.05
    ratio = drawn.std(axis=0)[large] / new.std(axis=0)[large]
    assert 0.7 < np.median(ratio) < 1.4
    again = fitted(documents(), 0)
    assert_array_equal(again.shape, (1, 5, 24))
