"""Mean directions of the nodes of an epoch, and what they are worth."""

from skbnp.kernels._normaliser cimport Sphere

cdef double row_gain(
    const Sphere* s, double square, double along, double own, double strength,
    double share, double spread, double zero,
) noexcept nogil
cdef double best_length(
    const Sphere* s, double natural, double spread,
    Py_ssize_t n_below, const double* below, double pull, double dimension,
) noexcept nogil
cdef double worth_of(
    const Sphere* s, double e, double natural, double spread,
    Py_ssize_t n_below, const double* below, double pull, double zero, double dimension,
) noexcept nogil
