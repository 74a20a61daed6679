"""Laws of the trace of a fit: record, convergence, messages."""

import logging
from types import SimpleNamespace

import pytest

from checks.corpora import topic_counts
from checks.estimators import criterion, each_family
from checks.long import daily
from skbnp import HDP, GibbsHDP, GibbsNestedCRP, NestedCRP
from skbnp.datasets import make_bars
from skbnp.inference import monitor as module
from skbnp.inference.monitor import Monitor, Reporter, new_history

MOVES = {"n_births": 3, "n_splits": 2, "n_merges": 1}


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now


def updated(step):
    """Posterior of 20 topics after `step` updates."""
    state = SimpleNamespace(n_components=20)
    return SimpleNamespace(n_steps=step, state=state, n_moves=MOVES)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


# Record -------------------------------------------------------------------------------


def test_record_adds_one_entry_to_every_list(clock):
    monitor = Monitor(new_history())
    clock.now += 1.5
    monitor.record(updated(1))
    monitor.end_pass(-3.0, is_exact_pass=True)
    assert monitor.history == {
        "step": [1],
        "seconds": [1.5],
        "n_components": [20],
        "elbo": [-3.0],
        "n_births": [3],
        "n_splits": [2],
        "n_merges": [1],
    }


def test_seconds_run_on_from_an_earlier_trace(clock):
    first = Monitor(new_history())
    clock.now += 2.0
    first.record(updated(1))
    clock.now += 50.0  # between two fits
    second = Monitor(first.history)
    clock.now += 1.0
    second.record(updated(2))
    assert first.history["seconds"] == [2.0, 3.0]


# Convergence --------------------------------------------------------------------------


def first_convergence(monitor_type, bounds, tol, n_warm_up=0):
    """Number of the pass that converges, None if none does."""
    monitor = monitor_type(new_history(), tol=tol)
    for number, bound in enumerate(bounds, start=1):
        if monitor.end_pass(bound, is_exact_pass=number > n_warm_up):
            return number
    return None


def test_fit_converges_when_the_relative_change_is_below_tol():
    """The pass that changes the bound by less than tol relatively, never the first."""
    assert first_convergence(Monitor, [-2.0, -1.0, -1.0009], 1e-3) == 3
    assert first_convergence(Monitor, [-2000.0, -1000.0, -1000.9], 1e-3) == 3
    assert first_convergence(Monitor, [-2.0, -1.0, -1.0011], 1e-3) is None
    assert first_convergence(Monitor, [-1.0], 10.0) is None


def test_warm_up_passes_do_not_converge():
    """A warm-up pass neither converges nor is compared with."""
    same = [-1.0] * 6
    assert first_convergence(Monitor, same, 1e-3, n_warm_up=3) == 5
    assert first_convergence(Monitor, same, 1e-3, n_warm_up=6) is None


# Messages -----------------------------------------------------------------------------


@pytest.fixture
def hide_logging(monkeypatch):
    """Take away the handlers of the test runner, which it adds just before the test."""

    def hide():
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        assert not logging.getLogger("skbnp").hasHandlers()

    return hide


def fit(verbose, **changes):
    X = make_bars(30, side=3, n_words=20, random_state=0).data
    settings = {"max_iter": 4, "tol": 0, "verbose": verbose, "random_state": 0}
    return HDP(3, **(settings | changes)).fit(X)


def passes_shown(text):
    first, *lines = text.splitlines() or [""]
    assert first == "" or first.startswith("[skbnp] learns from 30 documents")
    assert all(line.startswith("[skbnp] pass ") for line in lines)
    return [int(line.split()[2].rstrip(":")) for line in lines]


@pytest.mark.parametrize(
    ("verbose", "passes"), [(0, []), (1, [1, 2, 3, 4]), (2, [2, 4]), (3, [3]), (9, [])]
)
def test_every_so_many_passes_are_shown_without_configured_logging(
    verbose, passes, hide_logging, capsys
):
    hide_logging()
    fit(verbose)
    captured = capsys.readouterr()
    assert passes_shown(captured.out) == passes
    assert captured.err == ""


@each_family
def test_message_tells_topics_and_bound(family, hide_logging, capsys):
    hide_logging()
    hdp = fit(4, variational_family=family)
    value = getattr(hdp, f"{criterion(hdp)}_")
    assert f"3 topics, {value:.5f} nats per token" in capsys.readouterr().out


@pytest.mark.parametrize("verbose", [1, 3])
def test_a_pass_of_a_trial_is_shown_as_that(verbose, hide_logging, capsys):
    """The model stays as it is, time does not."""
    hide_logging()
    HDP(5, random_state=0, verbose=verbose, max_iter=30).fit(topic_counts(600, 60))
    passes = [line for line in capsys.readouterr().out.split("\n") if "] pass " in line]
    seconds = [float(line.split()[-2]) for line in passes]
    assert seconds == sorted(seconds)
    are_beside = ["of a trial beside 5 topics" in line for line in passes]
    assert 0 < sum(are_beside) < len(passes)
    shown = [line.split(",")[1] for line in passes if "nats per token" in line]
    assert len(set(shown)) == len(shown)


# Long work ----------------------------------------------------------------------------


def test_a_reminder_is_shown_after_silence_alone(clock, caplog):
    reporter = Reporter(verbose=1)
    with caplog.at_level(logging.INFO, "skbnp"):
        reporter.remind("too early")
        clock.now += module.SILENCE + 0.1
        reporter.remind("in time")
        reporter.remind("too early again")
        clock.now += module.SILENCE + 0.1
        reporter.report("said anyway")
        reporter.remind("too early after that")
    assert caplog.messages == ["in time", "said anyway"]


LONG_WORK = {
    "pass": (HDP(5, max_iter=1, batch_size=10), "update"),
    "sampler": (NestedCRP(init="gibbs", max_iter=1), "start by sampling"),
    "documents": (NestedCRP(init="sequential", max_iter=1), "of 12 documents"),
    "moves": (NestedCRP(init="sequential", max_iter=1), "tries moves"),
    "sweep": (GibbsHDP(max_iter=1), "0 sweeps, and 0% of the next"),
    "chains": (GibbsNestedCRP(max_iter=1, n_chains=2), "starts chain 1"),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("work", daily(2, sorted(LONG_WORK, reverse=True)))
def test_long_work_says_how_far_it_is(work, caplog, monkeypatch):
    monkeypatch.setattr(module, "SILENCE", -1.0)  # all that would be said in time
    model, text = LONG_WORK[work]
    X = make_bars(12, side=3, random_state=0).data
    with caplog.at_level(logging.INFO, "skbnp"):
        model.set_params(verbose=1, random_state=0).fit(X)
    assert any(text in message for message in caplog.messages)
    assert "12 documents" in caplog.messages[0]


# Streams ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [HDP, GibbsHDP])
def test_the_history_of_a_stream_has_a_limit(kind, monkeypatch):
    monkeypatch.setattr(module, "MOST_ENTRIES", 20)
    X = make_bars(8, random_state=0).data
    model = kind(max_iter=1) if kind is GibbsHDP else kind()
    for _ in range(60):
        before = model.history_["step"][-1] if hasattr(model, "history_") else 0
        model.partial_fit(X)
    steps = model.history_["step"]
    assert len(steps) <= 20 + steps[-1] - before  # those of a call are whole
    assert {len(values) for values in model.history_.values()} == {len(steps)}
    assert steps == sorted(steps)
    assert steps[0] == 1
    assert steps[-10:] == list(range(steps[-1] - 9, steps[-1] + 1))


def test_a_long_history_keeps_all_chains():
    history = {"step": sorted([*range(8000)] * 2), "chain": [0, 1] * 8000}
    module.thin(history)
    assert len(history["step"]) == 12000
    assert history["chain"] == [0, 1] * 6000
