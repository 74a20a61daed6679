"""Saving, copying and going on change nothing that they should not change."""

import copy
import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from checks.estimators import (
    FEW,
    FIRST,
    evaluate,
    every_estimator,
    every_kind,
    is_tree,
    is_variational,
    learns_by_minibatch,
    still,
    takes_warm_start,
)
from checks.states import assert_same, learned, snapshot
from skbnp import HDP, GibbsHDP
from skbnp.callbacks import HeldOutMonitor


@every_estimator(daily=FEW)
def test_pickle_in_the_middle_of_a_stream_goes_on_with_the_same_bits(estimator, rows):
    copied = clone(estimator)
    for chunk in (rows[:20], rows[20:45], rows[45:]):
        estimator.partial_fit(chunk)
        copied = pickle.loads(pickle.dumps(copied.partial_fit(chunk)))
    assert_same(learned(estimator), learned(copied))


@pytest.mark.parametrize("copy_of", [copy.copy, copy.deepcopy])
@every_estimator(among=FIRST)
def test_copy_is_independent_of_the_original(fitted, rows, copy_of):
    before = snapshot(fitted)
    copied = copy_of(fitted)
    assert_same(before, vars(copied), ignore=())
    copied.partial_fit(rows[:30])
    assert_same(before, vars(fitted), ignore=())


@every_kind()
def test_other_version_loads_with_a_warning(fitted, monkeypatch):
    with warnings.catch_warnings(action="error"):
        assert not hasattr(pickle.loads(pickle.dumps(fitted)), "_skbnp_version")
    state = {**fitted.__getstate__(), "_skbnp_version": "0.0.0"}
    monkeypatch.setattr(type(fitted), "__getstate__", lambda self: state)
    saved = pickle.dumps(fitted)
    with pytest.warns(UserWarning, match=r"saved by skbnp 0\.0\.0 and is loaded by"):
        pickle.loads(saved)


@every_estimator(among=FIRST, daily=FEW)
def test_memory_mapped_estimator_has_the_same_bits(fitted, rows, tmp_path):
    joblib.dump(fitted, tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    assert_same(evaluate(fitted, rows), evaluate(mapped, rows))
    fitted.partial_fit(rows)
    mapped.partial_fit(rows)
    assert_same(fitted.components_, mapped.components_)


@every_kind()
def test_clone_learns_the_same_bits(fitted, rows):
    assert_same(learned(fitted), learned(clone(fitted).fit(rows)))


@every_estimator(among=FIRST)
def test_fit_starts_afresh_whatever_was_learned_before(estimator, rows):
    other = clone(estimator).fit(rows[:, :9])
    estimator.fit(rows).partial_fit(rows)
    assert_same(learned(other), learned(estimator.fit(rows[:, :9])))


# -- going on --------------------------------------------------------------------------


@every_estimator(takes_warm_start)
def test_warm_start_continues_the_trace(estimator, rows):
    still(estimator).set_params(warm_start=True).fit(rows)
    n_updates = estimator.history_["step"][-1]
    n_chains = estimator.get_params().get("n_chains", 1)
    seconds = estimator.history_["seconds"][-1]
    estimator.fit(rows)
    steps = np.repeat(range(1, 2 * n_updates + 1), n_chains)
    assert estimator.history_["step"] == steps.tolist()
    assert estimator.history_["seconds"][n_updates * n_chains] >= seconds
    assert len({len(trace) for trace in estimator.history_.values()}) == 1


def topics(estimator):
    """Topics as distributions of words, or directions."""
    return getattr(estimator, "topic_word_distr_", estimator.components_)


def weights(estimator):
    """What share of the data each topic, or each node of a tree, has."""
    has_topics = hasattr(estimator, "topic_weights_")
    return estimator.topic_weights_ if has_topics else estimator.tree_.weight


@every_estimator(lambda e: is_variational(e) and takes_warm_start(e), among=FIRST)
def test_warm_start_keeps_the_topics(estimator, rows):
    # One further pass moves a topic less than it differs from the others.
    estimator.set_params(warm_start=True, max_iter=10).fit(rows)
    before = topics(estimator)
    if is_tree(estimator):
        still(estimator)  # moves would change the rows
    after = topics(estimator.set_params(max_iter=1).fit(rows))
    distance = np.abs(before[:, None] - after[None]).sum(axis=2)
    used = weights(estimator) > 0.1
    assert (distance.argmin(axis=1) == np.arange(len(before)))[used].all()


@every_estimator(learns_by_minibatch, among=FIRST)
def test_partial_fit_goes_on_from_fit(fitted, rows):
    """A chunk of one minibatch is one update where none of it is learned again."""
    n_updates, n_iter = fitted.history_["step"][-1], fitted.n_iter_
    still(fitted).partial_fit(rows[:16])
    assert fitted.history_["step"][-1] == n_updates + 1
    assert fitted.n_iter_ == n_iter + 1


@every_estimator(learns_by_minibatch)
def test_chunks_cut_where_minibatches_end_equal_one_chunk(estimator, rows):
    # The start is drawn from the first call alone, so that it is the same call here.
    # Trees move once for each chunk.
    estimator = still(estimator) if is_tree(estimator) else estimator
    one = clone(estimator).partial_fit(rows).partial_fit(rows)
    estimator.partial_fit(rows).partial_fit(rows[:30]).partial_fit(rows[30:])
    assert one.n_iter_ == estimator.n_iter_ - 1
    one.n_iter_ += 1
    assert_same(learned(one), learned(estimator))


def test_copy_shares_parameters_and_callbacks(counts):
    start, monitor = HDP(3, max_iter=2), HeldOutMonitor(counts)
    fitted = GibbsHDP(max_iter=2, init=start.fit(counts)).set_callbacks(monitor)
    copied = copy.copy(fitted)
    assert copied.init is fitted.init
    copied.fit(counts)
    assert len(monitor.history_["score"]) == 2
