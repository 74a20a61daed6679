"""Laws of the additive statistics, their lazy scale, and rows of seen words."""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln, psi

from skbnp.components import word_topics
from skbnp.components.statistics import WordStats
from skbnp.components.topics import divergence, log_marginal, update_topic_prior
from skbnp.components.word_topics import (
    SMALLEST_SCALE,
    SeenWords,
    Weighting,
    WordRows,
    WordTopics,
    remaining,
)
from skbnp.distributions import log_growth
from skbnp.models.hdp.fold_in import MeanTopics

N_WORDS, N_TOPICS = 30, 4
RTOL = 1e-12


def word_rows(words, values):
    return WordRows(np.array(words, dtype=np.intp), sp.csr_array(values))


class Plain:
    """The obvious twin of WordTopics."""

    def __init__(self, values):
        self.values = np.array(values)

    def decay(self, keep):
        self.values = keep * self.values

    def add(self, rows, gain=1.0):
        for word, value in zip(rows.words, rows.values.toarray(), strict=True):
            self.values[word] += gain * value


def random_rows(rng):
    words = np.flatnonzero(rng.random(N_WORDS) < rng.choice([0.0, 0.1, 0.6]))
    values = rng.gamma(0.5, 3.0, size=(len(words), N_TOPICS))
    return word_rows(words, values * (rng.random(values.shape) < 0.7))


# The scale ----------------------------------------------------------------------------


def test_many_decays_keep_digits_and_range():
    """0.5^500 = 3e-151 times a count of 1 added along the way must not distort it."""
    store = WordTopics(np.ones((2, 1)))
    for _ in range(500):
        store.decay(0.5)
        store.add(word_rows([1], np.ones((1, 1))))
        assert store._scale >= SMALLEST_SCALE
    np.testing.assert_allclose(store.dense()[:, 0], [0.5**500, 2.0], rtol=RTOL)


# Reading and copying ------------------------------------------------------------------


@pytest.mark.parametrize("read", [WordTopics.dense, lambda store: store.rows(slice(4))])
def test_writing_to_what_was_read_changes_nothing(read):
    store = WordTopics(np.arange(8.0).reshape(4, 2))
    read(store)[:] = -1
    np.testing.assert_array_equal(store.dense(), np.arange(8.0).reshape(4, 2))


@pytest.mark.parametrize(
    "read",
    [
        WordTopics.dense,
        lambda store: store.column(1),
        lambda store: store.entries(word_rows([1], np.ones((1, 2)))),
        lambda store: store.growth(0.1),
        lambda store: store.weights(np.arange(4), store.total, 0.1, Weighting.MEAN),
        lambda store: store.weights(
            np.arange(4), store.total, 0.1, Weighting.MEAN, stays_shared=True
        ),
    ],
)
def test_a_copy_says_the_same(read):
    store = WordTopics(np.arange(8.0).reshape(4, 2))
    store.decay(0.3)
    other = store.copy()
    other.decay(0.7)
    np.testing.assert_array_equal(read(other), read(WordTopics(0.7 * store.dense())))


# Marginal likelihood ------------------------------------------------------------------


def by_gamma_functions(prior, counts):
    """logB(prior + counts_k) - logB(prior), a topic at a time."""

    def log_beta(parameters):
        return gammaln(parameters).sum() - gammaln(parameters.sum())

    empty = log_beta(np.full(len(counts), float(prior)))
    return np.array([log_beta(prior + column) - empty for column in counts.T])


def by_store(prior, counts):
    """The same by sums over a store whose scale is not one, with stale columns."""
    store = WordTopics(np.column_stack([2.0 * counts, np.ones(len(counts))]))
    store.drop([counts.shape[1]])
    store.decay(0.5)
    growth, moment = store.growth(prior)
    np.testing.assert_allclose(
        moment, (counts * psi(prior + counts)).sum(axis=0), rtol=1e-10, atol=1e-10
    )
    return growth - log_growth(len(counts) * prior, store.total)


@pytest.mark.parametrize("prior", [1e-3, 0.05, 1.0, 20.0])
def test_marginal_gain_equals_brute_force(prior, seed):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.3, 5.0, size=(40, 6))).astype(float)
    counts[:, 2] = 0.0
    counts *= rng.random(counts.shape)
    result = by_store(prior, counts)
    np.testing.assert_allclose(
        result, by_gamma_functions(prior, counts), rtol=1e-10, atol=1e-10
    )


# Absorbing ----------------------------------------------------------------------------


@dataclass(slots=True)
class Stats(WordStats):
    tables: Any = None
    n_tokens: float = 0.0


def random_stats(rng, topic_words):
    return Stats(topic_words, rng.random(N_TOPICS), rng.random())


def test_absorbing_is_the_same_formula_for_every_field(seed):
    """Every field of totals = keep totals + gain fresh, over 500 steps."""
    rng = np.random.default_rng(seed)
    start = rng.gamma(1.0, size=(N_WORDS, N_TOPICS))
    global_stats = random_stats(rng, WordTopics(start.copy()))
    words, tables, n_tokens = Plain(start), global_stats.tables, global_stats.n_tokens
    for t in range(1, 501):
        keep, gain = 1 - t**-0.6, 3.0 * rng.random()
        fresh = random_stats(rng, random_rows(rng))
        global_stats.decay(keep)
        global_stats.add(fresh, gain)
        words.decay(keep)
        words.add(fresh.topic_words, gain)
        tables = keep * tables + gain * fresh.tables
        n_tokens = keep * n_tokens + gain * fresh.n_tokens
        np.testing.assert_allclose(
            global_stats.topic_words.dense(), words.values, rtol=RTOL
        )
        total = words.values.sum(axis=0)
        np.testing.assert_allclose(global_stats.topic_words.total, total, rtol=RTOL)
        np.testing.assert_allclose(global_stats.tables, tables, rtol=RTOL)
        np.testing.assert_allclose(global_stats.n_tokens, n_tokens, rtol=RTOL)


# Exchanging ---------------------------------------------------------------------------


def random_memo(rng, words):
    rows = word_rows(words, rng.gamma(0.5, 3.0, size=(len(words), N_TOPICS)))
    return random_stats(rng, rows)


def test_exchanging_keeps_the_sum_of_all_batches(seed):
    """Totals stay the sum of what each batch said last, over 300 visits."""
    rng = np.random.default_rng(seed)
    words = [np.flatnonzero(rng.random(N_WORDS) < 0.5) for _ in range(4)]
    memos = [random_memo(rng, part) for part in words]
    global_stats = Stats(WordTopics(np.zeros((N_WORDS, N_TOPICS))), 0.0, 0.0)
    for memo in memos:
        global_stats.add(memo, 1.0)
    global_stats.topic_words.decay(0.5)
    global_stats.topic_words.decay(2.0)  # a scale of its own
    for _ in range(300):
        index = rng.integers(4)
        fresh = random_memo(rng, words[index])
        old = memos[index]
        global_stats.exchange(old, fresh)
        memos[index] = fresh
        dense = np.zeros((N_WORDS, N_TOPICS))
        for memo in memos:
            dense[memo.topic_words.words] += memo.topic_words.values.toarray()
        near = {"rtol": 1e-10, "atol": 1e-10}
        np.testing.assert_allclose(global_stats.topic_words.dense(), dense, **near)
        np.testing.assert_allclose(
            global_stats.topic_words.total, dense.sum(axis=0), **near
        )
        assert (global_stats.topic_words.dense() >= 0.0).all()
        for name in ("tables", "n_tokens"):
            expected = sum(getattr(memo, name) for memo in memos)
            np.testing.assert_allclose(getattr(global_stats, name), expected, **near)


# Changes of topics --------------------------------------------------------------------


def test_the_last_topics_fill_the_gaps(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        n_topics = int(rng.integers(1, 12))
        gone = rng.permutation(n_topics)[: rng.integers(n_topics + 1)].tolist()
        order = remaining(n_topics, gone)
        assert sorted(order.tolist()) == sorted(set(range(n_topics)) - set(gone))
        stay = [k for k in range(len(order)) if k not in gone]
        assert order[stay].tolist() == stay
    assert remaining(5, [1]).tolist() == [0, 4, 2, 3]


def test_topics_change_in_place(seed):
    """Topics that are parted, merged and dropped are those of a plain array."""
    rng = np.random.default_rng(seed)
    plain = rng.gamma(1.0, size=(N_WORDS, N_TOPICS))
    words = WordTopics(plain.copy())
    words.decay(0.5)
    plain *= 0.5
    for _ in range(60):
        n_topics = plain.shape[1]
        one, other = rng.permutation(n_topics)[:2] if n_topics > 1 else (0, 0)
        kind = rng.integers(3) if n_topics > 2 else 0
        if kind == 0:
            first, second = rng.gamma(1.0, size=(2, N_WORDS))
            words.part(one, first, second)
            plain[:, one] = first
            plain = np.column_stack([plain, second])
        elif kind == 1:
            words.merge([(one, other)])
            plain[:, other] += plain[:, one]
            plain = plain[:, remaining(n_topics, [one])]
        else:
            words.drop([one, other])
            plain = plain[:, remaining(n_topics, [one, other])]
        np.testing.assert_allclose(words.dense(), plain, rtol=RTOL)
        np.testing.assert_allclose(words.total, plain.sum(axis=0), rtol=RTOL)
        rows = random_rows(rng)
        values = rng.gamma(1.0, size=(len(rows.words), plain.shape[1]))
        words.add(word_rows(rows.words, values), 2.0)
        plain[rows.words] += 2.0 * values


@pytest.mark.parametrize("is_read", [False, True])
def test_many_ends_give_memory_back(is_read):
    counts = np.random.default_rng(0).gamma(0.3, size=(50, 40))
    words = WordTopics(counts.copy())
    view = words._values[:2] if is_read else None  # which must not lose its memory
    words.drop([0])
    assert words._values.shape[1] == 40
    words.drop(list(range(20)))
    assert words._values.shape[1] == 19
    order = remaining(40, [0])
    order = order[remaining(39, list(range(20)))]
    np.testing.assert_array_equal(words.dense(), counts[:, order])
    assert view is None or np.isfinite(view).all()


def test_splits_and_ends_in_turn_hardly_copy_the_table():
    words, copies = WordTopics(np.ones((3, 80))), 0
    for _ in range(40):
        before = words._values
        words.part(0, np.ones(3), np.ones(3))
        words.drop([0])
        copies += words._values is not before
    assert copies <= 1


def test_weights_do_not_depend_on_the_parts_that_are_filled(monkeypatch):
    words = WordTopics(np.random.default_rng(0).gamma(0.3, 5.0, size=(N_WORDS, 11)))
    norm, some = np.log(words.total), np.array([3, 4, 9, 20])
    whole = words.weights(some, norm, 0.1, Weighting.EXPECTED_LOG)
    monkeypatch.setattr(word_topics, "ENTRIES_PER_PART", 1)
    np.testing.assert_array_equal(
        words.weights(some, norm, 0.1, Weighting.EXPECTED_LOG), whole
    )
    assert whole.shape == (4, 16)
    assert whole.ctypes.data % 64 == 0


# Words that have been seen ------------------------------------------------------------


N_MANY, N_FEW, ETA = 400, 5, 0.07


def rows_of(words, rng):
    values = rng.gamma(0.3, size=(len(words), N_FEW)) * rng.integers(0, 2, N_FEW)
    return WordRows(np.sort(words), sp.csr_array(values))


def both(seed):
    """A table that words join one after the other, and one of the whole vocabulary."""
    rng = np.random.default_rng(seed)
    some = rng.choice(N_MANY, 9, replace=False)
    start = rng.gamma(0.5, size=(9, N_FEW))
    whole = np.zeros((N_MANY, N_FEW))
    whole[some] = start
    stores = WordTopics(start, SeenWords(some, N_MANY)), WordTopics(whole)
    for _ in range(6):
        rows = rows_of(rng.choice(N_MANY, 25, replace=False), rng)
        for store in stores:
            store.decay(0.9)
            store.add(rows, 1.5)
    return stores


@pytest.mark.parametrize("seed", range(3))
def test_words_without_a_row_count_as_words_that_hold_nothing(seed):
    seen, whole = both(seed)
    assert 9 < len(seen.seen) < N_MANY == seen.shape[0]
    assert_allclose(seen.dense(), whole.dense(), rtol=1e-13)
    assert_allclose(seen.total, whole.total, rtol=1e-13)
    for read in (log_marginal, divergence, update_topic_prior):
        assert_allclose(read(seen, ETA), read(whole, ETA), rtol=1e-12)
    words, norm = np.arange(N_MANY), ETA * N_MANY + whole.total
    for weighting in Weighting:
        one, other = (s.weights(words, norm, ETA, weighting) for s in (seen, whole))
        assert_array_equal(one, other)
    one, other = (MeanTopics.of(store, ETA) for store in (seen, whole))
    assert_allclose(one[words], other[words], rtol=1e-12)
    assert_allclose(one.under(0.2)[words].sum(axis=0), 1.0, rtol=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.drop([1]),
        lambda store: store.merge([(0, 3)]),
        lambda store: store.decay(0.0),
        lambda store: store.apply_scale(),
        lambda store: store.add(WordRows(np.arange(40), sp.csr_array((40, N_FEW)))),
    ],
    ids=["drop", "merge", "decay", "apply_scale", "add"],
)
@pytest.mark.parametrize("how", ["frozen", "copy", "pickled", "pickled together"])
def test_changes_leave_copies_alone(change, how):
    seen, whole = both(0)
    if how.startswith("pickled"):
        copy = seen.copy() if how.endswith("together") else seen
        seen, copy = pickle.loads(pickle.dumps([seen, copy.copy()]))
    else:
        copy = getattr(seen, how)()
    change(seen)
    assert_allclose(copy.dense(), whole.dense(), rtol=1e-13)
    change(whole)
    assert_allclose(seen.dense(), whole.dense(), rtol=1e-12)
