"""Laws of the callbacks that look at a model during a fit."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from skbnp import HDP, GibbsHDP, callbacks
from skbnp.callbacks import HeldOutMonitor, TopicTermsMonitor
from skbnp.datasets import make_bars
from skbnp.estimators import SplitMerge

N_PASSES = 6


@pytest.fixture(scope="module")
def bars():
    return make_bars(120, side=3, n_words=30, random_state=0).data


def model(**settings):
    settings = {"max_iter": N_PASSES, "tol": 0, "batch_size": 40, **settings}
    return HDP(4, random_state=0, **settings)


def fit_with(monitor, X, **settings):
    return model(**settings).set_callbacks(monitor).fit(X)


# What is recorded ---------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 2, 3, 4, 6, 7, np.int64(2)])
def test_only_every_so_many_passes_are_scored(bars, every):
    monitor = HeldOutMonitor(bars[80:], every=every)
    fit_with(monitor, bars[:80])
    expected = [2 * n for n in range(1, N_PASSES + 1) if n % every == 0]
    assert monitor.history_["step"] == expected


def test_a_stream_goes_on_with_its_record(bars):
    monitor, hdp, scores = HeldOutMonitor(bars[80:]), model(split_merge=False), []
    hdp.set_callbacks(monitor)
    for chunk in (bars[:40], bars[40:80]):
        scores.append(hdp.partial_fit(chunk).score(bars[80:]))
    assert monitor.history_["score"] == scores
    assert monitor.history_["step"] == [1, 2]
    assert (np.diff([0.0, *monitor.history_["seconds"]]) > 0).all()


def test_a_new_stream_forgets_the_record_of_another(bars):
    monitor = HeldOutMonitor(bars[80:])
    before, short = model(split_merge=False), model(split_merge=False)
    before.set_callbacks(monitor).partial_fit(bars[:80]).partial_fit(bars[:80])
    short.set_callbacks(monitor).partial_fit(bars[:40])
    assert monitor.history_["step"] == [1]
    assert monitor.history_["score"] == [short.score(bars[80:])]


# Its own time -------------------------------------------------------------------------


class Clock:
    """Time passes only when somebody says so."""

    now = 100.0

    def perf_counter(self):
        return self.now


@pytest.mark.parametrize("every", [1, 2])
def test_own_time_is_not_counted(monkeypatch, every):
    """Passes of two seconds, scores of fifty."""
    clock = Clock()

    def slow_score(estimator, X):
        clock.now += 50.0
        return -1.0

    monkeypatch.setattr(callbacks, "time", clock)
    monkeypatch.setattr(callbacks, "_score", slow_score)
    monitor = HeldOutMonitor(None, every=every)
    fitted = SimpleNamespace(history_={"step": [1]}, n_components_=3)
    context = SimpleNamespace(parent=object(), task_name="pass")
    monitor.setup(None, SimpleNamespace(task_name="fit"))
    for _ in range(4):
        monitor.on_fit_task_begin(None, context)
        clock.now += 2.0
        monitor.on_fit_task_end(None, context, fitted_estimator=fitted)
    assert monitor.history_["seconds"] == [2.0 * n for n in range(every, 5, every)]


# Where it can be used -----------------------------------------------------------------


def test_copies_after_a_pass_share_the_tasks_of_callbacks(bars):
    """Fits of a search on threads add to them: to copy them would be a race."""
    hdp, seen = model(), []

    class Look(callbacks._PassMonitor):
        fields = ()

        def _look(self, fitted_estimator):
            same = fitted_estimator._callback_fit_ctx is hdp._callback_fit_ctx
            seen.append((fitted_estimator is hdp, same))

    hdp.set_callbacks(Look(1)).fit(bars)
    assert seen == [(False, True)] * N_PASSES


# Terms --------------------------------------------------------------------------------


def test_terms_are_those_of_the_model_after_the_pass(bars):
    """A fit that has ended numbers its topics."""
    monitor = TopicTermsMonitor(n_terms=3, every=2)
    fit_with(monitor, bars)
    seen, passes = monitor.history_, range(2, N_PASSES + 1, 2)
    for number, (n, terms) in enumerate(zip(passes, seen["terms"], strict=True)):
        hdp = model(max_iter=n).fit(bars)
        assert seen["step"][number] == hdp.history_["step"][-1]
        assert len(seen["component_ids"][number]) == hdp.n_components_
        expected = np.argsort(-hdp.components_, axis=1)[:, :3]
        assert sorted(terms.tolist()) == sorted(expected.tolist())


def test_ids_are_recorded_as_topics_come_and_go(bars):
    monitor = TopicTermsMonitor()
    moves = SplitMerge.paper()
    moving = {"variational_family": "mean_field", "warm_up": 0, "batch_size": 10}
    hdp = fit_with(monitor, bars, split_merge=moves, **moving)
    ids = monitor.history_["component_ids"]
    assert len({len(names) for names in ids}) > 1
    np.testing.assert_array_equal(np.sort(ids[-1]), hdp.component_ids_)


def test_a_stream_is_recorded_on_demand(bars):
    monitor, hdp = TopicTermsMonitor(), model(split_merge=False)
    for chunk in (bars[:40], bars[40:80], bars[80:]):
        monitor.record(hdp.partial_fit(chunk))
    assert monitor.history_["step"] == [1, 2, 3]
    top = np.argmax(hdp.components_, axis=1)
    np.testing.assert_array_equal(monitor.history_["terms"][-1][:, 0], top)


# Samplers -----------------------------------------------------------------------------


def sample(monitor, X, **settings):
    settings = {"max_iter": 12, "thin": 2, "n_chains": 2, **settings}
    return GibbsHDP(4, random_state=0, **settings).set_callbacks(monitor).fit(X)


def test_terms_are_recorded_of_new_samples_chain_by_chain(bars):
    """In each sweep up to the first kept sample; later where samples are kept."""
    monitor = TopicTermsMonitor()
    gibbs = sample(monitor, bars)
    steps = [*range(1, 9), 10, 12]
    assert monitor.history_["step"] == np.repeat(steps, 2).tolist()
    assert monitor.history_["chain"] == [0, 1] * len(steps)
    ids = monitor.history_["component_ids"][-2:]
    for names, kept in zip(ids, gibbs.samples_[-2:], strict=True):
        np.testing.assert_array_equal(names, kept.component_ids)


# Errors -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n_terms", "every"])
@pytest.mark.parametrize("value", [0, 2.0, True, None])
def test_numbers_of_terms_and_passes_are_positive(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a positive integer"):
        TopicTermsMonitor(**{name: value})
    with pytest.raises(ValueError, match="every must be a positive integer"):
        HeldOutMonitor(None, every=value)


# scikit-learn before 1.9 -----------------------------------------------------------


WITHOUT_CALLBACKS = """
import sys
import sklearn.model_selection, sklearn.pipeline
sys.modules["sklearn.callback"] = None
import numpy as np
from sklearn.base import clone
import skbnp
from skbnp.callbacks import Checkpoint, HeldOutMonitor, TopicTermsMonitor
from skbnp.datasets import make_bars
X = make_bars(120, side=3, n_words=30, random_state=0).data
hdp = skbnp.HDP(4, max_iter=3, random_state=0)
try:
    hdp.set_callbacks(Checkpoint("fit.skbnp"), HeldOutMonitor(X))
except ImportError as error:
    assert "need scikit-learn 1.9 or later" in str(error), error
else:
    raise AssertionError
copy = clone(hdp.set_callbacks(Checkpoint("fit.skbnp"))).fit(X)
assert (skbnp.load("fit.skbnp").components_ == copy.components_).all()
monitor = TopicTermsMonitor()
monitor.record(clone(hdp).set_callbacks().fit(X))
assert not hasattr(hdp.set_callbacks(), "_skl_callbacks")
np.save("components.npy", copy.components_)
"""


def test_without_callbacks_fits_and_checkpoints_are_the_same(tmp_path):
    code = [sys.executable, "-P", "-c", WITHOUT_CALLBACKS]
    subprocess.run(code, cwd=tmp_path, check=True)
    X = make_bars(120, side=3, n_words=30, random_state=0).data
    hdp = HDP(4, max_iter=3, random_state=0).fit(X)
    np.testing.assert_array_equal(np.load(tmp_path / "components.npy"), hdp.components_)
