"""Sparse rows: which indices a row has, and lists of indices and values that grow."""

from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from skbnp.kernels._interrupts cimport EVERY, look

cdef extern from "src/clones.h" nogil:
    int lowest_bit(uint64_t bits)


# Indices and values, one after another; memory grows.
cdef struct Entries:
    int32_t* indices
    double* values
    Py_ssize_t n, room


cdef inline bint reserve(Entries* e, Py_ssize_t n) noexcept nogil:
    """Make room for n more entries; whether there is."""
    cdef void* more
    if e.n + n <= e.room:
        return True
    e.room = 2 * (e.n + n)
    more = realloc(e.values, e.room * sizeof(double))
    if more == NULL:
        return False
    e.values = <double*>more
    more = realloc(e.indices, e.room * sizeof(int32_t))
    if more == NULL:
        return False
    e.indices = <int32_t*>more
    return True


cdef inline int copy_entries(
    const Entries* e, int32_t[::1] indices, double[::1] values
) except -1:
    cdef Py_ssize_t at = 0, n
    while at < e.n:
        n = min(<Py_ssize_t>EVERY, e.n - at)
        memcpy(&indices[at], e.indices + at, n * sizeof(int32_t))
        memcpy(&values[at], e.values + at, n * sizeof(double))
        at += n
        look()
    return 0


cdef inline void release(Entries* e) noexcept:
    free(e.indices)
    free(e.values)


cdef inline void mark(uint64_t* marks, int32_t k) noexcept nogil:
    marks[k >> 6] |= <uint64_t>1 << (k & 63)


cdef inline Py_ssize_t take_marked(
    Py_ssize_t n, uint64_t* marks, double* sums, int32_t* indices, double* values
) noexcept nogil:
    """List the indices below n that are marked, rising, and their sums; how many.

    Leaves no marks, and sums of zero.
    """
    cdef Py_ssize_t part, put = 0
    cdef uint64_t bits
    cdef int32_t k
    for part in range((n + 63) >> 6):
        bits = marks[part]
        marks[part] = 0
        while bits:
            k = <int32_t>(part << 6) + lowest_bit(bits)
            indices[put], values[put] = k, sums[k]
            put += 1
            sums[k] = 0.0
            bits &= bits - 1
    return put
