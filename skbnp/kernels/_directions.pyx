"""Lengths of mean directions and of their natural parameters, see `directions.py`.

With u = y^2 + v, g(u) = A_V(sqrt u) / sqrt u, the mean of natural parameter y and spread
v has the length e = g(u) y. Each element stands by itself, whatever the others are.
"""

from libc.math cimport fabs
from libc.stdint cimport uint8_t

from skbnp.kernels._normaliser cimport (
    Sphere,
    at_zero,
    bessel_slope,
    log_constant,
    make_sphere,
)

cdef:
    # Steps of Newton's method at the most, and the relative change that ends it.
    int MAX_STEPS = 60
    double TOL = 1e-10
    # Turns between the length of a node and the pull on it of its children's; the bound
    # is flat there: of an error in a length it loses the square.
    int MAX_TURNS = 50
    double TURN_TOL = 1e-8
    # Lengths of means are below one by so much at the least.
    double LEAST_SHORTFALL = 1e-12
    # Ratio of natural parameter and dimension from which A_V has its expansion.
    double FAR = 1e4
    double LEAST = 1e-300


cdef inline double bend(
    double square, double slope, double dimension
) noexcept nogil:
    """dg / du, by the differential equation of A_V: A' = 1 - A^2 - (V - 1) A / k."""
    cdef double rest = 1.0 - slope * (slope * square + dimension)
    return rest / (2.0 * max(square, LEAST))


cdef double natural_length(
    const Sphere* s, double length, double spread, double dimension
) noexcept nogil:
    """Return y with g(y^2 + v) y = e, by Newton's method; this is concave in y."""
    cdef double e = min(length, 1.0 - LEAST_SHORTFALL)
    # The start of Banerjee et al. (2005) for v = 0, which is off by up to 4 %.
    cdef double y = 0.95 * e * (dimension - e * e) / ((1.0 - e) * (1.0 + e))
    cdef double u, g, slope, k2, step
    cdef int _
    for _ in range(MAX_STEPS):
        u = y * y + spread
        g = bessel_slope(s, u)
        if u > (FAR * dimension) * (FAR * dimension):
            # The difference of ones in A' has no digits: it is (V - 1) / (2 k^2).
            k2 = max(u, LEAST)
            slope = (0.5 * (dimension - 1.0) * y * y / k2 + g * spread) / k2
        else:
            slope = g + 2.0 * y * y * bend(u, g, dimension)
        step = (e - g * y) / slope
        y += step
        if fabs(step) <= TOL * y:
            break
    return y


cdef double resisted(
    const Sphere* s, double natural, double spread, double weight, double dimension
) noexcept nogil:
    """Return y with y (1 + w g(y^2 + v)) = n, by Newton's method from below."""
    cdef double y = natural / (1.0 + weight * bessel_slope(s, spread))
    cdef double u, g, step
    cdef int _
    for _ in range(MAX_STEPS):
        u = y * y + spread
        g = bessel_slope(s, u)
        step = natural - y * (1.0 + weight * g)
        step /= 1.0 + weight * (g + 2.0 * y * y * bend(u, g, dimension))
        y += step
        if fabs(step) <= TOL * max(y, LEAST):
            break
    return y


def log_constants(
    const double[::1] squares,          # IN (n,) k^2
    double[::1] found,                  # OUT (n,)
    double order, Py_ssize_t n_steps,
    const double[:, :, ::1] terms,      # IN (2, TERMS, WIDTH)
):
    """Log C(k) - log C(0), see `expansion` of von_mises_fisher."""
    cdef Sphere sphere = make_sphere(order, n_steps, terms)
    cdef double zero
    cdef Py_ssize_t i
    with nogil:
        zero = at_zero(&sphere)
        for i in range(squares.shape[0]):
            found[i] = log_constant(&sphere, squares[i], zero)


def bessel_slopes(
    const double[::1] squares,          # IN (n,) k^2
    double[::1] found,                  # OUT (n,)
    double order, Py_ssize_t n_steps,
    const double[:, :, ::1] terms,      # IN (2, TERMS, WIDTH)
):
    """A_V(k) / k, the mean length of a direction over its concentration."""
    cdef Sphere sphere = make_sphere(order, n_steps, terms)
    cdef Py_ssize_t i
    with nogil:
        for i in range(squares.shape[0]):
            found[i] = bessel_slope(&sphere, squares[i])


def natural_lengths(
    const double[::1] lengths,          # IN (n,) e
    const double[::1] spreads,          # IN (n,) v
    double[::1] found,                  # OUT (n,) y
    Py_ssize_t dimension,
    double order, Py_ssize_t n_steps,
    const double[:, :, ::1] terms,
):
    """Return y with g(y^2 + v) y = e."""
    cdef Sphere sphere = make_sphere(order, n_steps, terms)
    cdef Py_ssize_t i
    with nogil:
        for i in range(lengths.shape[0]):
            found[i] = natural_length(&sphere, lengths[i], spreads[i], dimension)


def conjugates(
    const double[::1] lengths,          # IN (n,) e
    const double[::1] spreads,          # IN (n,) v
    double[::1] found,                  # OUT (n,)
    Py_ssize_t dimension,
    double order, Py_ssize_t n_steps,
    const double[:, :, ::1] terms,
):
    """h*(e; v) - log C_V(0) = y e + log C_V(sqrt(y^2 + v)) - log C_V(0)."""
    cdef Sphere sphere = make_sphere(order, n_steps, terms)
    cdef double zero, e, y
    cdef Py_ssize_t i
    with nogil:
        zero = at_zero(&sphere)
        for i in range(lengths.shape[0]):
            e = min(lengths[i], 1.0 - LEAST_SHORTFALL)
            y = natural_length(&sphere, e, spreads[i], dimension)
            found[i] = y * e + log_constant(&sphere, y * y + spreads[i], zero)


def optimal_lengths(
    const double[::1] naturals,         # IN (n,) |n|
    const double[::1] spreads,          # IN (n,) v
    const double[::1] lengths_below,    # IN (n_below,) |E| of children
    const Py_ssize_t[::1] above,        # IN (n_below,) their parents
    double pull,                        # K
    double[::1] found,                  # OUT (n,) |E|
    double[::1] weights,                # WORK (n,)
    uint8_t[::1] has_settled,           # WORK (n,)
    Py_ssize_t dimension,
    double order, Py_ssize_t n_steps,
    const double[:, :, ::1] terms,
):
    """Lengths of means that are the best for their natural parameters and children."""
    cdef Sphere sphere = make_sphere(order, n_steps, terms)
    cdef Py_ssize_t n = naturals.shape[0], n_below = above.shape[0]
    cdef Py_ssize_t i, n_open = n
    cdef double y, spread, last
    cdef int _
    with nogil:
        for i in range(n):
            y = naturals[i]
            found[i] = bessel_slope(&sphere, y * y + spreads[i]) * y
            has_settled[i] = 1
        for i in range(n_below):
            has_settled[above[i]] = 0
        for _ in range(MAX_TURNS):
            for i in range(n):
                weights[i] = 0.0
            for i in range(n_below):
                if not has_settled[above[i]]:
                    last = found[above[i]]
                    spread = pull * pull * (1.0 - last) * (1.0 + last)
                    y = natural_length(&sphere, lengths_below[i], spread, dimension)
                    weights[above[i]] += (
                        pull * pull * bessel_slope(&sphere, y * y + spread)
                    )
            n_open = 0
            for i in range(n):
                if has_settled[i]:
                    continue
                y = resisted(&sphere, naturals[i], spreads[i], weights[i], dimension)
                last, found[i] = found[i], (
                    bessel_slope(&sphere, y * y + spreads[i]) * y
                )
                has_settled[i] = fabs(found[i] - last) <= TURN_TOL * found[i]
                n_open += not has_settled[i]
            if n_open == 0:
                break
