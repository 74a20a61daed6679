"""Order of short lists."""

from libc.stdint cimport int32_t


cdef inline void insertion_sort(Py_ssize_t n, int32_t* values) noexcept nogil:
    """Sort in place; fastest for few values, nearly in order."""
    cdef Py_ssize_t i, j
    cdef int32_t value
    for i in range(1, n):
        value, j = values[i], i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
