"""Topic counts with rows for the words that have been seen alone."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from skbnp.components.topics import divergence, log_marginal, update_topic_prior
from skbnp.components.word_topics import SeenWords, Weighting, WordRows, WordTopics
from skbnp.models.hdp.fold_in import MeanTopics

N_WORDS, N_TOPICS, ETA = 400, 5, 0.07


def rows_of(words, rng):
    values = rng.gamma(0.3, size=(len(words), N_TOPICS)) * rng.integers(0, 2, N_TOPICS)
    return WordRows(np.sort(words), sp.csr_array(values))


def both(seed):
    """A table that words join one after the other, and one of the whole vocabulary."""
    rng = np.random.default_rng(seed)
    some = rng.choice(N_WORDS, 9, replace=False)
    start = rng.gamma(0.5, size=(9, N_TOPICS))
    whole = np.zeros((N_WORDS, N_TOPICS))
    whole[some] = start
    stores = WordTopics(start, SeenWords(some, N_WORDS)), WordTopics(whole)
    for _ in range(6):
        rows = rows_of(rng.choice(N_WORDS, 25, replace=False), rng)
        for store in stores:
            store.decay(0.9)
            store.add(rows, 1.5)
    return stores


@pytest.mark.parametrize("seed", range(3))
def test_words_without_a_row_count_as_words_that_hold_nothing(seed):
    seen, whole = both(seed)
    assert 9 < len(seen.seen) < N_WORDS == seen.shape[0]
    assert_allclose(seen.dense(), whole.dense(), rtol=1e-13)
    assert_allclose(seen.total, whole.total, rtol=1e-13)
    for read in (log_marginal, divergence, update_topic_prior):
        assert_allclose(read(seen, ETA), read(whole, ETA), rtol=1e-12)
    words, norm = np.arange(N_WORDS), ETA * N_WORDS + whole.total
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
        lambda store: store.add(WordRows(np.arange(40), sp.csr_array((40, N_TOPICS)))),
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
