"""Laws of the ordered parallel map."""

import signal
import sys
import threading
import time
from concurrent.futures import _base, thread
from functools import partial

import numpy as np
import pytest
from joblib import parallel_config

from kernels.test_interrupts import infer_one
from skbnp.inference import executor as executors
from skbnp.inference.executor import Executor, commit

jobs = pytest.mark.parametrize("n_jobs", [1, 2, 3])
threads = pytest.mark.parametrize("n_jobs", [2, 3])


# Order --------------------------------------------------------------------------------


def check_order(map_items):
    """Early items take longest, so that later ones finish before them."""
    rng = np.random.default_rng(0)
    delays = np.sort(rng.uniform(0, 0.02, size=12))[::-1] * rng.choice(
        [0.2, 1], size=12
    )

    def wait(item):
        time.sleep(delays[item])
        return item

    assert list(map_items(wait, range(12))) == list(range(12))


@jobs
@pytest.mark.parametrize("method", ["map", "map_all"])
def test_results_come_in_the_order_of_the_items(n_jobs, method):
    with Executor(n_jobs) as executor:
        check_order(getattr(executor, method))


@threads
def test_work_runs_on_as_many_threads_at_once(n_jobs):
    """The barrier opens only once `n_jobs` items are in work together."""
    barrier = threading.Barrier(n_jobs)
    with Executor(n_jobs) as executor:
        places = executor.map(lambda item: barrier.wait(timeout=10), range(n_jobs))
        assert sorted(places) == list(range(n_jobs))


def test_one_job_runs_in_the_calling_thread():
    with Executor(1) as executor:
        (name,) = executor.map(lambda item: threading.current_thread(), [0])
    assert name is threading.current_thread()


# Outstanding items --------------------------------------------------------------------


def check_bounded(map_items, n_workers):
    """So many items of each worker are in work or wait."""
    n_drawn = 0

    def items():
        nonlocal n_drawn
        for item in range(50):
            n_drawn += 1
            yield item

    for n_consumed, _ in enumerate(map_items(abs, items())):
        assert n_drawn - n_consumed <= executors.AHEAD * n_workers


@jobs
def test_number_of_outstanding_items_is_bounded(n_jobs):
    with Executor(n_jobs) as executor:
        check_bounded(executor.map, n_jobs)


# Exceptions ---------------------------------------------------------------------------


class OddError(Exception):
    pass


def raise_at_three(item):
    if item == 3:
        raise OddError(item)
    return item


@jobs
def test_exception_is_raised_in_its_turn(n_jobs):
    with Executor(n_jobs) as executor, pytest.raises(OddError, match="3"):
        list(executor.map(raise_at_three, range(20)))


# Tasks --------------------------------------------------------------------------------


@jobs
def test_every_task_runs_once(n_jobs):
    done = []
    with Executor(n_jobs) as executor:
        for n_tasks in (0, 1, 2, 30):
            done.clear()
            executor.run([partial(done.append, task) for task in range(n_tasks)])
            assert sorted(done) == list(range(n_tasks))


def test_tasks_run_in_order_without_threads():
    done, tasks = [], []
    tasks += [partial(done.append, task) for task in range(5)]
    executor = Executor(2)
    executor.run(tasks)  # it has no threads yet
    with executor:
        pass
    executor.run(tasks)  # and none any more
    with Executor(1) as other, parallel_config("loky", n_jobs=2):
        other.run(tasks)
    assert done == 3 * list(range(5))


@jobs
def test_a_task_may_run_tasks(n_jobs):
    done = []

    def work(task):
        executor.run([partial(done.append, (task, inner)) for inner in range(3)])
        assert {inner for outer, inner in done if outer == task} == {0, 1, 2}
        return executor.map_all(abs, [-task, task])

    with Executor(n_jobs) as executor:
        assert executor.map_here(work, range(5)) == [[n, n] for n in range(5)]
    assert len(done) == 15


@jobs
def test_an_error_ends_tasks_and_is_raised(n_jobs):
    """Where two fail, it is that of the first task, though the other fails before."""
    gate, done = threading.Event(), []

    def work(task):
        done.append(task)
        if task == 3:
            gate.wait(timeout=10 if n_jobs > 1 else 0)
            raise OddError(task)
        if task == 4:
            gate.set()
            raise OddError(task)
        if task > 4:
            gate.wait(timeout=10)
            time.sleep(0.01)

    with Executor(n_jobs) as executor:
        with pytest.raises(OddError, match="3"):
            executor.run([partial(work, task) for task in range(40)])
        assert max(done) < 20
        executor.run([partial(done.append, "after")] * 2)
    assert done[-2:] == ["after", "after"]


# The number of workers, and backends of joblib ----------------------------------------


def test_no_jobs_are_refused():
    with pytest.raises(ValueError, match="n_jobs"):
        Executor(0)


def test_none_is_what_joblib_was_told():
    with parallel_config(backend="threading", n_jobs=3):
        assert Executor(None).n_workers == 3


# Interrupts ---------------------------------------------------------------------------


#: Of the executor and of the library's threads and futures.
FILES = {module.__file__ for module in (threading, _base, thread, executors)}


class AtLine:
    """Trace this thread, and interrupt it at a line of `FILES`."""

    def __init__(self, number):
        self.left = number

    def __call__(self, frame, event, value):
        if frame.f_code.co_filename not in FILES:
            return None
        self.left -= event == "line"
        if event == "line" and self.left == 0:
            signal.raise_signal(signal.SIGINT)
        return self


def wait_by_turns(item):
    time.sleep(2e-4 if item % 2 == 0 else 0.0)


RUNS = {
    "map": lambda executor: list(executor.map(wait_by_turns, range(4))),
    "run": lambda executor: executor.run([partial(wait_by_turns, i) for i in range(4)]),
}


@pytest.mark.weekly
@pytest.mark.parametrize("method", RUNS)
def test_an_interrupt_at_any_line_is_what_comes_out(method):
    handler, number, line = signal.getsignal(signal.SIGINT), 0, AtLine(0)
    while line.left <= 0:
        number, is_raised = number + 1, False
        line = AtLine(number)
        try:
            sys.settrace(line)
            with Executor(2) as executor:
                RUNS[method](executor)
        except KeyboardInterrupt:
            is_raised = True
        finally:
            sys.settrace(None)
        assert is_raised == (line.left <= 0)
        assert signal.getsignal(signal.SIGINT) is handler
    assert number > 200


def infer_until_interrupted(item, begun, ended):
    """Work for minutes, but for an interrupt."""
    begun.set()
    try:
        infer_one(max_iter=10**7)
    except InterruptedError:
        ended.append(item)


def test_tasks_of_threads_end_after_an_interrupt():
    """The one task takes minutes; the calling thread is interrupted in another."""
    begun, ended = threading.Event(), []

    def work(task):
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(timeout=10)
            raise KeyboardInterrupt
        infer_until_interrupted(task, begun, ended)

    with pytest.raises(KeyboardInterrupt), Executor(2) as executor:
        executor.run([partial(work, task) for task in range(9)])
    assert len(ended) == 1


@pytest.fixture(autouse=True)
def _python_handler():
    """Python's own handler during a test, the runner's after it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_interrupt_inside_is_delivered_right_after():
    """The body ends, and the interrupt arrives before the next line."""
    lines = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        with commit():
            interrupt()
            lines.append("body")
        lines.append("after")
    assert lines == ["body"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupt_is_delivered_even_if_the_body_fails():
    with pytest.raises(KeyboardInterrupt), commit():  # noqa: PT012
        interrupt()
        raise ZeroDivisionError


def test_handler_of_the_user_receives_the_signal_once():
    received = []

    def handler(number, frame):
        received.append((number, frame is not None))

    signal.signal(signal.SIGINT, handler)
    with commit():
        interrupt()
        interrupt()
        assert received == []
    assert received == [(signal.SIGINT, True)]
    assert signal.getsignal(signal.SIGINT) is handler


def test_interrupt_in_a_nested_section_waits_for_the_outer_one():
    lines = []
    with pytest.raises(KeyboardInterrupt), commit():  # noqa: PT012
        with commit():
            interrupt()
            lines.append("inner")
        lines.append("outer")
    assert lines == ["inner", "outer"]


def test_default_action_of_the_system_is_left_in_place():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with commit():
        inside = signal.getsignal(signal.SIGINT)
    assert inside is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL


def test_worker_threads_run_the_body_and_leave_signals_alone():
    seen = []

    def work():
        with commit():
            seen.append(signal.getsignal(signal.SIGINT))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert seen == [signal.default_int_handler]
