"""Laws of the section that Ctrl-C cannot break."""

import signal
import threading

import pytest

from skbnp.inference.executor import commit


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
