"""Checks for interrupts (Ctrl-C) inside long loops of kernels."""

import threading

from cpython.exc cimport PyErr_CheckSignals

_thread = threading.local()


def end_with(event: Event):
    """Make loops of this thread raise InterruptedError once the event is set.

    Signals arrive in the main thread alone, where they raise by themselves.
    """
    _thread.event = event


cdef int look() except -1 nogil:
    with gil:
        PyErr_CheckSignals()
        event = getattr(_thread, "event", None)
        if event is not None and event.is_set():
            raise InterruptedError("The result is no longer waited for.")
    return 0
