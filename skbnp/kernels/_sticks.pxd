"""Sticks of a tree, see `_sticks.pyx`."""

cdef void put_parameters(
    Py_ssize_t n, const Py_ssize_t* parent, const double* masses, double stop,
    double child, double* found,
) noexcept nogil
cdef void put_log_weights(
    Py_ssize_t n, const Py_ssize_t* parent, const double* parameters, double* work,
    double* found,
) noexcept nogil
