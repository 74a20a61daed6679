"""Checks for interrupts (Ctrl-C) inside long loops of kernels; waits of threads."""

import threading

from cpython.exc cimport PyErr_CheckSignals

cdef extern from "src/pause.h" nogil:
    double seconds()
    void pause_core()

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


cdef class Gate:
    """Count that threads change one at a time, and others wait for awake."""

    cdef volatile Py_ssize_t _count

    def now(self) -> int:
        """Return the count."""
        return self._count

    def move_to(self, Py_ssize_t count):
        """Change the count."""
        self._count = count

    def wait_above(self, Py_ssize_t count, double limit) -> bool:
        """Wait awake until the count is above `count`; return whether it is.

        At most `limit` seconds, without the lock of the interpreter.
        """
        cdef double end
        with nogil:
            end = seconds() + limit
            while self._count <= count and seconds() < end:
                pause_core()
        return self._count > count
