"""Tables, weights and concentrations of the collapsed HDP, and its accuracy."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import psi

from reference import hdp_collapsed as reference
from skbnp.components.word_topics import WordRows, WordTopics
from skbnp.models.hdp.model import (
    CollapsedHDP,
    CollapsedStats,
    HDPState,
    tables_and_slope,
)

#: Digammas are exact to a few 1e-16 of the larger of their value and 8, and enter as
#: differences times a prior of at least 0.01.
NEAR = {"rtol": 1e-12}


def model(*, learn=True, **priors):
    return CollapsedHDP(learn_concentrations=learn, learn_topic_prior=False, **priors)


def random_state(rng, n_topics):
    return HDPState(
        weights=rng.dirichlet(np.full(n_topics + 1, 2.0)),
        doc_concentration=rng.gamma(2.0, 1.0) + 0.1,
        corpus_concentration=rng.gamma(2.0, 1.0) + 0.1,
        topic_word_prior=0.05,
    )


def random_counts(rng, n_docs, n_topics):
    """Expected counts, from far below a token to hundreds, many of them zero."""
    n = 10.0 ** rng.uniform(-8.0, 2.5, size=(n_docs, n_topics))
    return n * (rng.random(n.shape) < 0.6)


def statistics(state, doc_topic, log_predictive=-7.0):
    words = WordRows(np.arange(1), sp.csr_array(doc_topic.sum(axis=0)[None]))
    lengths = doc_topic.sum(axis=1)
    counted = tables_and_slope(state, sp.csr_array(doc_topic), lengths)
    return CollapsedStats(words, *counted, log_predictive, lengths.sum())


def totals_of(rng, n_words, n_topics):
    words = WordTopics(rng.gamma(0.5, 4.0, size=(n_words, n_topics)))
    tables = rng.gamma(1.0, 5.0, size=n_topics)
    return CollapsedStats(words, tables, 7.0, -31.0, words.total.sum())


# Statistics ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_topics", [1, 2, 9])
def test_statistics_are_those_of_the_twin(n_topics, seed):
    rng = np.random.default_rng([seed, n_topics])
    state, n = random_state(rng, n_topics), random_counts(rng, 25, n_topics)
    stats = statistics(state, n)
    want = reference.expected_tables(n, state.doc_prior)
    # The twin's digammas cancel to the table there is for sure.
    assert_allclose(stats.tables, want, rtol=1e-11)
    slope = reference.length_slope(n.sum(axis=1), state.doc_concentration)
    assert_allclose(stats.length_slope, slope, **NEAR)
    assert_allclose(stats.n_tokens, n.sum(), **NEAR)
    assert stats.log_predictive == -7.0


def test_the_twin_tells_tables_without_the_chance_of_none(seed):
    """The control: a [psi(a + N) - psi(a)], as for counts that are certain."""
    rng = np.random.default_rng(seed)
    state, n = random_state(rng, 5), random_counts(rng, 25, 5)
    certain = (state.doc_prior * (psi(state.doc_prior + n) - psi(state.doc_prior))).sum(
        0
    )
    with pytest.raises(AssertionError):
        assert_allclose(statistics(state, n).tables, certain, rtol=1e-3)


# Update -------------------------------------------------------------------------------


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("scale", [1.0, 17.5])
def test_update_is_that_of_the_twin(scale, learn, seed):
    rng = np.random.default_rng(seed)
    state, n = random_state(rng, 6), random_counts(rng, 25, 6)
    stats, priors = statistics(state, n), ((2.0, 0.7), (1.5, 3.0))
    made = model(learn=learn, corpus_prior=priors[0], doc_prior=priors[1])
    new = made.update(state, stats, scale)
    weights, alpha, gamma = reference.update(
        scale * stats.tables,
        scale * stats.length_slope,
        state.doc_concentration,
        state.corpus_concentration,
        priors[1],
        priors[0],
        learns=learn,
    )
    assert_allclose(new.weights, weights, **NEAR)
    assert_allclose(new.doc_concentration, alpha, **NEAR)
    assert_allclose(new.corpus_concentration, gamma, **NEAR)
    assert new.topic_word_prior == state.topic_word_prior


# Changes of topics --------------------------------------------------------------------


def whole(state, global_stats):
    """What no change of topics alters: sums over topics."""
    words = global_stats.topic_words
    return (
        state.weights.sum(),
        global_stats.tables.sum(),
        words.dense().sum(axis=1),
        words.total.sum(),
        global_stats.length_slope,
        global_stats.log_predictive,
        global_stats.n_tokens,
    )


def check_keeps_sums(before, after):
    for one, other in zip(before, after, strict=True):
        assert_allclose(other, one, rtol=1e-13)


def test_merge_keeps_sums(seed):
    rng = np.random.default_rng(seed)
    state, global_stats = random_state(rng, 6), totals_of(rng, 9, 6)
    before, weights, tables = (
        whole(state, global_stats),
        state.weights,
        global_stats.tables,
    )
    words = global_stats.topic_words.dense()
    state, global_stats = model().merge(state, global_stats, [(1, 4), (5, 0)])
    assert state.n_components == 4
    check_keeps_sums(before, whole(state, global_stats))
    assert_allclose(state.weights[0], weights[[0, 5]].sum(), **NEAR)
    assert_allclose(global_stats.tables[0], tables[[0, 5]].sum(), **NEAR)
    assert_allclose(global_stats.topic_words.column(0), words[:, [0, 5]].sum(1), **NEAR)


def test_remove_leaves_weight_to_topics_not_represented(seed):
    rng = np.random.default_rng(seed)
    state, global_stats = random_state(rng, 6), totals_of(rng, 9, 6)
    weights, tables, words = (
        state.weights,
        global_stats.tables,
        global_stats.topic_words.dense(),
    )
    state, global_stats = model().remove(state, global_stats, [1, 4])
    left = [0, 5, 2, 3]  # the last fill the gaps
    assert_array_equal(state.weights[:-1], weights[left])
    assert_allclose(state.weights[-1], weights[[1, 4, 6]].sum(), **NEAR)
    assert_array_equal(global_stats.tables, tables[left])
    assert_array_equal(global_stats.topic_words.dense(), words[:, left])
