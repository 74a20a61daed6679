"""Scalar mathematics shared by the kernels."""

from libc.math cimport exp


cdef inline double exp_digamma(double x) noexcept nogil:
    """exp(psi(x)) for x > 0, without a logarithm.

    With y = x + 8 and psi(x) = psi(y) - sum_{i<8} 1/(x+i), the asymptotic series of
    psi(y) - log(y) up to y^-14 leaves a relative error below 1e-13. The shifts are
    summed as two rationals: with a = z(z+3),
    sum_{i<4} 1/(z+i) = (2z+3)(2a+2) / (a(a+2)). Below x = 1.33e-3 the result is zero.
    """
    cdef double z = x + 4.0
    cdef double y = x + 8.0
    cdef double a = x * (x + 3.0)
    cdef double b = z * (z + 3.0)
    cdef double shifts = (
        (2.0 * x + 3.0) * (2.0 * a + 2.0) / (a * (a + 2.0))
        + (2.0 * z + 3.0) * (2.0 * b + 2.0) / (b * (b + 2.0))
    )
    cdef double u = 1.0 / (y * y)
    cdef double series = u * (
        1.0 / 12.0 - u * (1.0 / 120.0 - u * (1.0 / 252.0 - u * (1.0 / 240.0 - u * (
            1.0 / 132.0 - u * (691.0 / 32760.0 - u / 12.0)))))
    )
    return y * exp(-(shifts + 0.5 / y + series))
