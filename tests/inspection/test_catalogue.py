"""Topics are matched with those of a catalogue, pairs of them, or with none."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls

from skbnp import HDP
from skbnp.inspection import _compared, match_components

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
        counts = _compared.check_counts(np.array(X), whom="test")
        given = signatures, counts, 0.01, n_draws, rng
        return np.array(list(_compared._resampled(*given)))

    new = np.array([fitted(documents())[0] for _ in range(40)])
    drawn = fitted(documents(), 40)[1:]
    large = signatures > 0.05
    ratio = drawn.std(axis=0)[large] / new.std(axis=0)[large]
    assert 0.7 < np.median(ratio) < 1.4
    again = fitted(documents(), 0)
    assert_array_equal(again.shape, (1, 5, 24))
