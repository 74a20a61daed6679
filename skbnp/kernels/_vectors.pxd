"""Vectors and rows of sparse ones, see src/vectors.h."""

from libc.stdint cimport int32_t

cdef extern from "src/vectors.h" nogil:
    double dot(Py_ssize_t n, const double* x, const double* y)
    void add_scaled(Py_ssize_t n, double a, const double* x, double* y)
    void put_scaled(Py_ssize_t n, double a, const double* x, double* y)
    void put_both(
        Py_ssize_t n, double a, const double* x, double b, const double* y, double* z
    )
    void add_both(
        Py_ssize_t n, double a, const double* x, double b, const double* y, double* z
    )
    void products_of_three(
        Py_ssize_t n, const double* x, const double* y, const double* z, double* found
    )


cdef inline double row_product(
    const int32_t* indptr, const int32_t* words, const float* values,
    Py_ssize_t row, const double* vector,
) noexcept nogil:
    """x'y of a sparse row."""
    cdef double total = 0.0
    cdef int32_t i
    for i in range(indptr[row], indptr[row + 1]):
        total += <double>values[i] * vector[words[i]]
    return total
