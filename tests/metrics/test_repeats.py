"""Held-out tokens that documents repeat, beside those that topics tell."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from reference import hdp_collapsed as reference
from reference import restaurant
from reference.held_out import SCORE
from skbnp.inference.executor import Executor
from skbnp.metrics import held_out_log_likelihood, split_tokens
from skbnp.models.hdp.burstiness import (
    MOST_CONCENTRATION,
    Burstiness,
    maximise_burstiness,
)
from skbnp.models.hdp.fold_in import fold_in_tables

#: Expected tables are read from a grid in single precision.
GRID = 0.004


def draw(n_docs, discount, concentration, seed, n_words=300, length=80):
    """Documents of Pitman-Yor processes over mixtures of topics; topics, and prior.

    Without a concentration tokens are of the mixture.
    """
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.1), size=6)
    prior = np.full(6, 0.4)
    counts = np.zeros((n_docs, n_words))
    for row in counts:
        mixture = rng.dirichlet(prior) @ topics
        sizes, words = [], []
        for n in range(length):
            weights = [*(np.array(sizes) - discount), 0.0]
            weights[-1] = (concentration or np.inf) + discount * len(sizes)
            opens = concentration is None
            table = (
                len(sizes)
                if opens
                else rng.choice(len(weights), p=np.array(weights) / (n + concentration))
            )
            if table == len(sizes):
                sizes.append(0)
                words.append(rng.choice(n_words, p=mixture))
            sizes[table] += 1
            row[words[table]] += 1
    return sp.csr_array(counts), topics, prior


@pytest.mark.parametrize(("discount", "concentration"), [(0.0, 30.0), (0.5, 10.0)])
def test_repeats_are_predicted_where_documents_repeat(discount, concentration, seed):
    X, topics, prior = draw(150, discount, concentration, seed)
    parts = split_tokens(X)
    alone = held_out_log_likelihood(topics, prior, *parts, repeats=False)
    repeats = held_out_log_likelihood(topics, prior, *parts, repeats=True)
    assert repeats > alone + 0.3


def test_nothing_changes_where_documents_do_not_repeat(seed):
    X, topics, prior = draw(150, 0.0, None, seed)
    parts = split_tokens(X)
    alone = held_out_log_likelihood(topics, prior, *parts, repeats=False)
    assert held_out_log_likelihood(topics, prior, *parts, repeats=True) == alone


@pytest.mark.parametrize("discount", [0.0, 0.6])
def test_probabilities_are_those_of_the_formula(discount, seed):
    X, topics, prior = draw(5, 0.5, 10.0, seed, n_words=40, length=30)
    word_topic, burstiness, rest = np.ascontiguousarray(topics.T), None, 0.2
    burstiness = Burstiness(discount, 12.0)
    every = sp.csr_array(np.ones((5, 40)))
    with Executor(None) as executor:
        seated = fold_in_tables(word_topic, prior, rest, X, burstiness, executor, 40)
    theta = seated.doc_topic.toarray() + prior
    mixed = theta @ topics + rest / 40
    mixed /= (theta.sum(axis=1) + rest)[:, None]
    repeated, fresh = burstiness.repeats(X, seated.tables, every)
    result = (repeated + np.repeat(fresh, 40) * mixed.ravel()).reshape(5, 40)
    repeats = reference.Repeats(discount, 12.0, rest)
    for doc, counts in enumerate(X.toarray()):
        tokens, margin, t, _ = reference.zero_order_step(
            counts, word_topic, prior, 3, 0.1, **SCORE, repeats=repeats
        )
        if margin < 0.05:
            continue
        shares = (tokens + prior) @ topics + rest / 40
        shares /= tokens.sum() + prior.sum() + rest
        want = np.maximum(counts - discount * t, 0.0)
        want += (12.0 + discount * t.sum()) * shares
        want /= 12.0 + counts.sum()
        assert_allclose(result[doc], want, rtol=5 * GRID)
        assert_allclose(want.sum(), 1.0, rtol=1e-12)
    assert_allclose(result.sum(axis=1), 1.0, rtol=1e-6)


def test_words_that_no_topic_has_have_a_table_each():
    topics = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
    X = sp.csr_array([[4.0, 1.0, 3.0], [0.0, 2.0, 0.0]])
    with Executor(None) as executor:
        seated = fold_in_tables(
            topics.T.copy(), np.ones(2), 0.5, X, Burstiness(0.3, 5.0), executor, 3
        )
    assert seated.tables[2] == 1.0
    assert_allclose(seated.base[2], 0.5 / 3 / 2.5)
    assert (seated.tables <= X.data).all()


def seated(X, topics, prior, burstiness):
    """Tables and base probabilities of stored counts."""
    word_topic, n_words = np.ascontiguousarray(topics.T), X.shape[1]
    with Executor(None) as executor:
        given = word_topic, prior, 0.0, X, burstiness, executor, n_words
        return fold_in_tables(*given)[1:]


@pytest.mark.long
def test_the_search_maximises_the_probability_of_each_token_given_the_others(seed):
    """By the reference, word by word; from present values as from afar."""
    X, topics, prior = draw(60, 0.5, 10.0, seed)
    tables, base = seated(X, topics, prior, Burstiness(0.5, 10.0))

    def log_probability(discount, concentration):
        parts = [slice(*X.indptr[doc : doc + 2]) for doc in range(X.shape[0])]
        return sum(
            restaurant.leave_one_out(
                X.data[at], tables[at], base[at], discount, concentration
            ).sum()
            for at in parts
        )

    far = maximise_burstiness(X, tables, base)
    for start in (far, Burstiness(0.3, 30.0), Burstiness(0.0, MOST_CONCENTRATION)):
        best = maximise_burstiness(X, tables, base, start)
        value = log_probability(best.discount, best.concentration)
        for more in ((0.05, 1.0), (-0.05, 1.0), (0.0, 1.3), (0.0, 0.75)):
            other = log_probability(
                best.discount + more[0], best.concentration * more[1]
            )
            assert value > other - 1e-4 * X.sum()
        assert value > log_probability(0.3, 30.0) + 1e-3 * X.sum()
    assert maximise_burstiness(X, tables, base, far) == far
