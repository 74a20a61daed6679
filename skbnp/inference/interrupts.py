"""Deferred interrupts: Ctrl-C takes effect between commits, never inside."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def commit() -> Iterator[None]:
    """Defer an interrupt until the lines inside have run (milliseconds).

    Only the main thread receives signals; in others nothing is deferred.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[tuple[int, FrameType | None]] = []
    previous = signal.getsignal(signal.SIGINT)
    if not callable(previous):
        yield
        return
    signal.signal(signal.SIGINT, lambda *args: pending.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if pending:
            previous(*pending[0])
