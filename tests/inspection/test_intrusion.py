"""Sets of terms with one that does not belong, and terms ranked by relevance."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from checks.estimators import FIRST, fresh, rows_of
from checks.long import daily
from skbnp import HDP, DependentTrees
from skbnp.datasets import make_hdp
from skbnp.inspection import document_intrusion, top_terms, word_intrusion

DRAWN = make_hdp(150, n_features=120, n_components=4, random_state=0)
X = DRAWN.data


def check_sets(sets, phi, numbers, n_terms):
    """Raise unless each set has the leading terms of its topic and one intruder."""
    for result in sets:
        row = list(numbers).index(result.topic)
        columns = [int(term.removeprefix("column ")) for term in result.shown]
        intruder = columns.pop(result.intruder)
        leading = np.argsort(-phi[row], kind="stable")
        assert sorted(columns) == sorted(leading[:n_terms])
        assert intruder in leading[phi.shape[1] // 2 :]  # improbable here
        assert any(
            intruder in np.argsort(-other, kind="stable")[:n_terms]
            for k, other in enumerate(phi)
            if k != row
        )


@pytest.mark.parametrize("n_terms", [3, 5])
def test_sets_have_the_terms_of_a_topic_and_one_of_another(n_terms):
    sets = word_intrusion(DRAWN.topic_word_distr, n_terms=n_terms, random_state=0)
    phi = DRAWN.topic_word_distr
    assert sorted(result.topic for result in sets) == list(range(len(phi)))
    check_sets(sets, phi, range(len(phi)), n_terms)
    assert len({result.intruder for result in sets}) > 1  # shuffled
    wrong = [result._replace(intruder=(result.intruder + 1) % 4) for result in sets]
    with pytest.raises(AssertionError):
        check_sets(wrong, phi, range(len(phi)), n_terms)


@pytest.mark.parametrize("name", ["HDP-online", "GibbsHDP", "NestedCRP-batch"])
def test_sets_are_of_topics_by_their_numbers(name):
    model = fresh(FIRST[name])
    if name == "GibbsHDP":  # few topics of tables are in use
        model.set_params(burstiness=False)
    model.fit(rows_of(FIRST[name], X))
    sets = word_intrusion(model, n_terms=4, random_state=1)
    assert 0 < len(sets) <= model.n_active_components_
    check_sets(sets, model.topic_word_distr_, model._topic_numbers, 4)


def test_the_seed_names_the_sets():
    phi = DRAWN.topic_word_distr
    assert word_intrusion(phi, random_state=3) == word_intrusion(phi, random_state=3)
    assert word_intrusion(phi, random_state=3) != word_intrusion(phi, random_state=4)


def check_documents(sets, shares, numbers, n_documents):
    """Raise unless each set has best documents of its topic, and one without tokens."""
    assert sets
    for result in sets:
        row = list(numbers).index(result.topic)
        shown = list(result.shown)
        intruder = shown.pop(result.intruder)
        assert len(set(shown)) == n_documents
        own = shares[:, row]
        assert own[shown].min() >= np.sort(own)[-n_documents]
        assert own[intruder] < 0.5 * own[shown].min()
        others = np.delete(shares, row, axis=1)
        assert (others[intruder] >= np.sort(others, axis=0)[-n_documents]).any()


@pytest.mark.parametrize("name", ["HDP-online", "GibbsHDP"])
def test_sets_have_documents_of_a_topic_and_one_of_another(name):
    model = fresh(FIRST[name]).fit(X)
    shares, numbers = model.transform(X), model._topic_numbers
    sets = document_intrusion(model, X, n_documents=4, random_state=0)
    check_documents(sets, shares, numbers, 4)
    assert sets == document_intrusion(model, X, n_documents=4, random_state=0)
    wrong = [result._replace(intruder=(result.intruder + 1) % 5) for result in sets]
    with pytest.raises(AssertionError):
        check_documents(wrong, shares, numbers, 4)


def test_a_topic_of_all_documents_has_no_intruder_among_them():
    model = fresh(FIRST["NestedCRP-batch"]).fit(X)
    topics = {result.topic for result in document_intrusion(model, X, n_documents=1)}
    assert topics
    assert 0 not in topics  # the root


# -- relevance -------------------------------------------------------------------------


def relevance_by_hand(phi, weights, r):
    total = weights @ phi
    return r * np.log(phi) + (1.0 - r) * np.log(phi / total)


@pytest.mark.parametrize("relevance", daily(2, [0.6, 0.0, 0.3, 1.0]))
def test_terms_are_ranked_by_relevance(relevance):
    hdp = HDP(random_state=0).fit(X)
    tokens = (hdp.components_ - hdp.topic_word_prior_).sum(axis=1)
    tokens /= tokens.sum()
    expected = relevance_by_hand(hdp.topic_word_distr_, tokens, relevance)
    result = top_terms(hdp, n=6, relevance=relevance)
    for terms, row in zip(result, expected, strict=True):
        columns = [int(term.removeprefix("column ")) for term in terms]
        assert_array_equal(columns, np.argsort(-row, kind="stable")[:6])


def test_rows_of_an_array_are_weighed_by_their_sums():
    counts = np.array([[50.0, 30.0, 20.0], [1.0, 2.0, 3.0]])
    phi, weights = counts / counts.sum(axis=1, keepdims=True), counts.sum(axis=1) / 106
    order = np.argsort(-relevance_by_hand(phi, weights, 0.2), axis=1)
    expected = [[f"column {j}" for j in row] for row in order]
    assert top_terms(counts, relevance=0.2) == expected


def test_directions_have_no_relevance():
    trees = DependentTrees(random_state=0, max_iter=3).fit(X)
    with pytest.raises(TypeError, match=r"must be 1 for directions, got 0\.6"):
        top_terms(trees, relevance=0.6)
    for wrong in (-0.1, 1.1, "all"):
        with pytest.raises(ValueError, match="'relevance' parameter of top_terms"):
            top_terms(np.eye(2), relevance=wrong)
