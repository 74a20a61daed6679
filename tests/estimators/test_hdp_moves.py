"""HDP with moves: the number of topics is found from any start."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment

from skbnp import HDP
from skbnp.datasets import make_bars
from skbnp.metrics import held_out_log_likelihood, split_tokens

OPTIONS = {
    "split_merge": True,
    "batch_size": 200,
    "learning_offset": 1,
    "learning_decay": 0.5,
    "topic_word_prior": 0.1,
    "learn_priors": False,
    "warm_up": 0,
    "tol": 0,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def bars():
    return make_bars(2200, random_state=0)


@pytest.fixture(scope="module")
def X(bars):
    return sp.csr_array(bars.data[:2000])


def n_found(hdp, bars):
    gap = bars.topic_word_distr[:, None] - hdp.topic_word_distr_[None]
    distance = np.abs(gap).sum(axis=2) / 2
    return int((distance[linear_sum_assignment(distance)] < 0.3).sum())


@pytest.mark.parametrize("n_components", [2, 20, 60])
def test_all_bars_are_found_from_any_start(n_components, bars, X):
    hdp = HDP(n_components, max_iter=10, **OPTIONS).fit(X)
    assert hdp.n_components_ in (20, 21)
    assert n_found(hdp, bars) == 20
    test = bars.data[2000:]
    truth = held_out_log_likelihood(bars.topic_word_distr, 0.1, *split_tokens(test))
    assert abs(hdp.score(test) - truth) < 0.03


def test_without_moves_two_topics_stay_two(bars, X):
    hdp = HDP(2, max_iter=8, **{**OPTIONS, "split_merge": False}).fit(X)
    assert hdp.n_components_ == 2
    assert n_found(hdp, bars) == 0


@pytest.fixture(scope="module")
def grown(X):
    return HDP(3, max_iter=3, **OPTIONS).fit(X)


def test_lineage_tells_where_every_topic_came_from(grown):
    alive = set()
    for entry in grown.lineage_:
        assert set(entry.parents) <= alive
        alive = (alive - set(entry.parents)) | set(entry.children)
    assert alive == set(grown.component_ids_.tolist())
    assert len(set(grown.component_ids_.tolist())) == grown.n_components_


def test_history_counts_accepted_moves(grown):
    kinds = [entry.kind for entry in grown.lineage_]
    history = grown.history_
    # The last splits come after the last record.
    assert 0 <= kinds.count("split") - history["n_splits"][-1] <= 1
    assert history["n_merges"][-1] == kinds.count("merge")
    assert (np.diff(history["n_splits"]) >= 0).all()
    assert history["n_splits"][-1] > 5


def test_weights_and_shapes_stay_consistent(grown, X):
    assert 0.0 < grown.topic_weights_.sum() < 1.0
    assert grown.components_.shape == (grown.n_components_, 100)
    assert (grown.components_ >= grown.topic_word_prior_ * (1 - 1e-9)).all()
    assert_allclose(grown.transform(X[:50]).sum(axis=1), 1.0)
    assert len(grown.topic_weights_) == grown.n_components_


def same(one, other):
    assert_array_equal(one.components_, other.components_)
    assert_array_equal(one.topic_weights_, other.topic_weights_)
    assert one.lineage_ == other.lineage_


def test_moves_do_not_depend_on_the_number_of_threads(grown, X):
    for n_jobs in (2, 3, -1):
        same(grown, HDP(3, max_iter=3, n_jobs=n_jobs, **OPTIONS).fit(X))


def test_another_seed_takes_another_way(grown, X):
    other = HDP(3, max_iter=3, **{**OPTIONS, "random_state": 1}).fit(X)
    assert other.lineage_ != grown.lineage_


def test_pickling_between_chunks_changes_nothing(X):
    one = HDP(3, total_samples=2000, **OPTIONS)
    two = HDP(3, total_samples=2000, **OPTIONS)
    for begin in range(0, 2000, 400):
        one.partial_fit(X[begin : begin + 400])
        two = pickle.loads(pickle.dumps(two)).partial_fit(X[begin : begin + 400])
    same(one, two)
    assert one.n_components_ > 3


def test_there_are_no_moves_during_the_warm_up(X):
    hdp = HDP(3, max_iter=2, **{**OPTIONS, "warm_up": 2}).fit(X)
    assert len(hdp.lineage_) == 1


def test_batch_learning_has_no_moves_of_minibatches(X):
    with pytest.raises(ValueError, match="split_merge needs learning_method='online'"):
        HDP(3, learning_method="batch", split_merge=True).fit(X)


def test_a_stream_keeps_learning_topics(X):
    """Half of the bars first, then all of them."""
    half = X[np.asarray(X[:, :50].sum(axis=1) > 0.9 * X.sum(axis=1)).ravel()]
    hdp = HDP(2, total_samples=2000, **{**OPTIONS, "batch_size": 50})
    hdp.partial_fit(half)
    few = hdp.n_components_
    for _ in range(3):
        hdp.partial_fit(X)
    assert hdp.n_components_ > few
