"""Sticks of a tree, see `_sticks.pyx`."""

from skbnp.kernels._math cimport log_gamma


cdef void put_parameters(
    Py_ssize_t n, const Py_ssize_t* parent, const double* masses, double stop,
    double child, double* found,
) noexcept nogil
cdef void put_log_weights(
    Py_ssize_t n, const Py_ssize_t* parent, const double* parameters, double* work,
    double* found,
) noexcept nogil


cdef inline double log_beta(double a, double b) noexcept nogil:
    cdef double digamma
    return log_gamma(a, &digamma) + log_gamma(b, &digamma) - log_gamma(a + b, &digamma)
