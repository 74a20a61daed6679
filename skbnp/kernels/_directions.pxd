"""What directions of dependent trees are worth, by lengths and natural parameters."""

from skbnp.kernels._normaliser cimport Sphere


cdef double row_gain(
    const Sphere* s, double square, double along, double own, double strength,
    double share, double spread,
) noexcept nogil
cdef double best_length(
    const Sphere* s, double natural, double spread,
    Py_ssize_t n_below, const double* below, double pull,
) noexcept nogil
cdef double worth_of(
    const Sphere* s, double e, double natural, double spread,
    Py_ssize_t n_below, const double* below, double pull,
) noexcept nogil
