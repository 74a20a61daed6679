"""Normalisers of von Mises-Fisher distributions of one dimension, less those at zero.

By the expansion of `distributions.py`.
"""

from libc.math cimport log, log1p, sqrt


cdef enum:
    # Terms of the expansion, and coefficients of each.
    TERMS = 12
    WIDTH = 13


# Logarithms of normalisers of one dimension, by the expansion of a larger order.
cdef struct Sphere:
    double order
    Py_ssize_t n_steps          # orders down to that of the dimension
    double dimension            # V: vectors may leave out columns of zeros
    double zero                 # see `at_zero`
    const double* values        # (TERMS, WIDTH)
    const double* slopes        # (TERMS, WIDTH)


cdef inline double at_zero(const Sphere* s) noexcept nogil:
    """Log of one plus the tail of the expansion at zero, where p = 1."""
    cdef double tail = 0.0, power = 1.0 / s.order
    cdef Py_ssize_t j, i
    cdef double value
    for j in range(TERMS):
        value = 0.0
        for i in range(j + 1, -1, -1):
            value += s.values[j * WIDTH + i]
        tail += power * value
        power /= s.order
    return log1p(tail)


cdef inline Py_ssize_t n_terms(const Sphere* s) noexcept nogil:
    """Terms of the expansion that count for some concentration."""
    cdef double power = 1.0 / s.order
    cdef Py_ssize_t n = 0
    while n < TERMS and power >= 1e-19:
        power /= s.order
        n += 1
    return n


cdef inline double polynomial(
    const double* coefficients, Py_ssize_t degree, double x
) noexcept nogil:
    cdef double value = 0.0
    cdef Py_ssize_t i
    for i in range(degree, -1, -1):
        value = value * x + coefficients[i]
    return value


cdef inline double expand(
    const Sphere* s, double square, bint with_ratio, double* tail
) noexcept nogil:
    """Put the tail of the expansion at k^2; A_v(k) / k of its order, if asked for."""
    cdef double v = s.order, z2 = square / (v * v), slope = 0.0
    cdef double root = sqrt(1.0 + z2), p2 = 1.0 / (1.0 + z2)
    cdef double scaled = 1.0 / (v * root), power = scaled
    cdef Py_ssize_t j
    tail[0] = 0.0
    for j in range(TERMS):
        tail[0] += power * polynomial(s.values + j * WIDTH, j + 1, p2)
        if with_ratio:
            slope += power * polynomial(s.slopes + j * WIDTH, j + 1, p2)
        power *= scaled
        if power < 1e-19:
            break
    power = (1.0 / (1.0 + root) - 0.5 / (v * root * root)) / v
    return power - p2 / (v * v) * slope / (1.0 + tail[0])


cdef inline double log_constant(const Sphere* s, double square) noexcept nogil:
    """Log C(k) - log C(0) of one k, given k^2; rounding may have made it negative."""
    square = max(square, 0.0)
    cdef double v = s.order, z2 = square / (v * v), tail, value
    cdef double rise = z2 / (1.0 + sqrt(1.0 + z2))  # sqrt(1 + z2) - 1
    cdef double ratio = expand(s, square, s.n_steps > 0, &tail)
    value = v * (log1p(0.5 * rise) - rise) + 0.5 * log1p(rise)
    value += s.zero - log1p(tail)
    for _ in range(s.n_steps):
        ratio = 1.0 / (square * ratio + 2.0 * v)
        value += log(2.0 * v * ratio)
        v -= 1.0
    return value


cdef inline double bessel_slope(const Sphere* s, double square) noexcept nogil:
    """A_V(k) / k of one k, given k^2: minus the slope of log C in k^2 / 2."""
    square = max(square, 0.0)
    cdef double v = s.order, tail, ratio = expand(s, square, True, &tail)
    for _ in range(s.n_steps):
        ratio = 1.0 / (square * ratio + 2.0 * v)
        v -= 1.0
    return ratio


cdef inline Sphere read_sphere(object expansion) except *:
    """Read what `expansion` of `von_mises_fisher.py` returns, which must live on."""
    cdef Sphere s
    cdef const double[:, :, ::1] terms = expansion[2]
    s.order, s.n_steps = expansion[0], expansion[1]
    s.values, s.slopes = &terms[0, 0, 0], &terms[1, 0, 0]
    s.dimension, s.zero = 2.0 * (s.order - s.n_steps) + 2.0, at_zero(&s)
    return s
