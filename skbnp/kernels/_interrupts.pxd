"""Looks for interrupts in the middle of long work."""

cdef enum:
    # Multiplications between two looks: a hundredth of a second, mostly.
    EVERY = 1 << 23


cdef int look() except -1 nogil


cdef inline int count_work(Py_ssize_t n, Py_ssize_t* done) except -1 nogil:
    """Add to the work done since the last look; raise if there was an interrupt."""
    done[0] += n
    if done[0] < EVERY:
        return 0
    done[0] = 0
    return look()
