"""Laws of the trace of a fit: record, convergence, messages."""

import io
import logging
import math
from types import SimpleNamespace

import pytest

from checks.estimators import criterion, each_family
from checks.long import daily
from skbnp import HDP, GibbsHDP, GibbsNestedCRP, NestedCRP
from skbnp.datasets import make_bars
from skbnp.inference import monitor as module
from skbnp.inference.monitor import Monitor, Reporter, new_history, shown

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


def test_bound_that_was_not_evaluated_is_nan():
    monitor = Monitor(new_history())
    monitor.record(updated(1))
    assert math.isnan(monitor.history["elbo"][0])


def test_seconds_run_on_from_an_earlier_trace(clock):
    first = Monitor(new_history())
    clock.now += 2.0
    first.record(updated(1))
    clock.now += 50.0  # between two fits
    second = Monitor(first.history)
    clock.now += 1.0
    second.record(updated(2))
    assert first.history["seconds"] == [2.0, 3.0]


def test_histories_are_independent():
    one, other = new_history(), new_history()
    Monitor(one).record(updated(1))
    assert other["step"] == []


# Convergence --------------------------------------------------------------------------


def first_convergence(monitor_type, bounds, tol, n_warm_up=0):
    """Number of the pass that converges, None if none does."""
    monitor = monitor_type(new_history(), tol=tol)
    for number, bound in enumerate(bounds, start=1):
        if monitor.end_pass(bound, is_exact_pass=number > n_warm_up):
            return number
    return None


def check_convergence(monitor_type):
    """The pass that changes the bound by less than tol relatively, never the first."""
    assert first_convergence(monitor_type, [-2.0, -1.0, -1.0009], 1e-3) == 3
    assert first_convergence(monitor_type, [-2000.0, -1000.0, -1000.9], 1e-3) == 3
    assert first_convergence(monitor_type, [-2.0, -1.0, -1.0011], 1e-3) is None
    assert first_convergence(monitor_type, [-1.0], 10.0) is None


def check_warm_up(monitor_type):
    """A warm-up pass neither converges nor is compared with."""
    same = [-1.0] * 6
    assert first_convergence(monitor_type, same, 1e-3, n_warm_up=3) == 5
    assert first_convergence(monitor_type, same, 1e-3, n_warm_up=6) is None


class Absolute(Monitor):
    def end_pass(self, elbo, *, is_exact_pass):
        change, self._last = abs(elbo - self._last), elbo if is_exact_pass else math.nan
        return is_exact_pass and change < self.tol


class ComparesWithWarmUp(Monitor):
    def end_pass(self, elbo, *, is_exact_pass):
        last, self._last = self._last, elbo
        return is_exact_pass and abs(elbo - last) < self.tol * abs(elbo)


def test_fit_converges_when_the_relative_change_is_below_tol():
    check_convergence(Monitor)


def test_convergence_check_rejects_the_absolute_change():
    with pytest.raises(AssertionError):
        check_convergence(Absolute)


def test_warm_up_passes_do_not_converge():
    check_warm_up(Monitor)


def test_warm_up_check_rejects_a_comparison_with_a_warm_up_pass():
    with pytest.raises(AssertionError):
        check_warm_up(ComparesWithWarmUp)


@pytest.mark.parametrize("bound", [-1.0, 0.0])
def test_tolerance_zero_never_converges(bound):
    assert first_convergence(Monitor, [bound] * 4, 0.0) is None


def test_bound_of_zero_converges():
    assert first_convergence(Monitor, [0.0, 0.0], 1e-3) == 2


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_bound_that_is_not_finite_does_not_converge(bad):
    assert first_convergence(Monitor, [bad] * 4, 1e-3) is None


def test_change_of_the_last_pass_is_kept():
    monitor = Monitor(new_history())
    for bound in (-2.0, -1.0):
        monitor.end_pass(bound, is_exact_pass=True)
    assert monitor.change == pytest.approx(1.0)


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


@pytest.mark.parametrize("name", [None, "skbnp", "skbnp.inference"])
def test_configured_logging_receives_the_messages_instead(
    name, hide_logging, capsys, monkeypatch
):
    hide_logging()
    stream, logger = io.StringIO(), logging.getLogger(name)
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(stream)])
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        fit(1)
    finally:
        logger.setLevel(level)
    assert capsys.readouterr().out == ""
    assert len(stream.getvalue().splitlines()) == 5


def test_logging_of_warnings_alone_does_not_hide_messages(
    hide_logging, capsys, monkeypatch
):
    """Messages that were asked for are shown; the handler for warnings gets none."""
    hide_logging()
    stream = io.StringIO()
    monkeypatch.setattr(
        logging.getLogger(), "handlers", [logging.StreamHandler(stream)]
    )
    fit(1)
    assert capsys.readouterr().out.startswith("[skbnp] learns from 30 documents")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_logging_is_left_as_it_was(error, hide_logging):
    hide_logging()
    package = logging.getLogger("skbnp")
    before = (list(package.handlers), package.level)
    try:
        with shown(1):
            assert package.hasHandlers()
            if error is not None:
                raise error
    except KeyboardInterrupt:
        pass
    assert (list(package.handlers), package.level) == before


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


def test_nothing_is_shown_of_a_fit_that_is_not_verbose(clock, caplog):
    reporter = Reporter()
    clock.now += 100.0
    with caplog.at_level(logging.INFO, "skbnp"):
        reporter.remind("unheard")
        reporter.report("unheard")
    assert caplog.messages == []


LONG_WORK = {
    "pass": (HDP(5, max_iter=1, batch_size=10), "update"),
    "clusters": (NestedCRP(init="agglomerative", max_iter=1), "start: "),
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
