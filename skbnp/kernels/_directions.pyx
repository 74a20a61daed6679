"""Mean directions of nodes and their natural parameters, see `directions.py`.

With u = y^2 + v, g(u) = A_V(sqrt u) / sqrt u, the mean of natural parameter y and
spread v has the length e = g(u) y. Each element stands by itself, whatever the others
are.
"""

from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, int64_t

from skbnp.kernels._normaliser cimport (
    WIDTH,
    Sphere,
    bessel_slope,
    log_constant,
    n_terms,
    read_sphere,
)
from skbnp.kernels._vectors cimport (
    add_both,
    add_scaled,
    dot,
    products_of_three,
    put_both,
    put_scaled,
)

cdef extern from "src/normaliser.h" nogil:
    void all_log_constants(
        Py_ssize_t n, const double* squares, double order, Py_ssize_t n_terms,
        Py_ssize_t width, const double* terms, double zero, double* out,
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
    const Sphere* s, double length, double spread
) noexcept nogil:
    """Return y with g(y^2 + v) y = e, by Newton's method; this is concave in y."""
    cdef double e = min(length, 1.0 - LEAST_SHORTFALL), dimension = s.dimension
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


cdef inline double conjugate(
    const Sphere* s, double length, double spread
) noexcept nogil:
    """h*(e; v) - log C_V(0)."""
    cdef double e = min(length, 1.0 - LEAST_SHORTFALL)
    cdef double y = natural_length(s, e, spread)
    return y * e + log_constant(s, y * y + spread)


cdef double resisted(
    const Sphere* s, double natural, double spread, double weight
) noexcept nogil:
    """Return y with y (1 + w g(y^2 + v)) = n, by Newton's method from below."""
    cdef double y = natural / (1.0 + weight * bessel_slope(s, spread))
    cdef double u, g, step
    cdef int _
    for _ in range(MAX_STEPS):
        u = y * y + spread
        g = bessel_slope(s, u)
        step = natural - y * (1.0 + weight * g)
        step /= 1.0 + weight * (g + 2.0 * y * y * bend(u, g, s.dimension))
        y += step
        if fabs(step) <= TOL * max(y, LEAST):
            break
    return y


def log_constants(
    const double[::1] squares,          # IN (n,) k^2
    double[::1] found,                  # OUT (n,)
    expansion: tuple[float, int, NDArray[float64]],
):
    """Log C(k) - log C(0), see `expansion` of von_mises_fisher."""
    cdef Sphere sphere = read_sphere(expansion)
    cdef Py_ssize_t n = squares.shape[0], i
    if n == 0:
        return
    with nogil:
        if sphere.n_steps == 0:
            all_log_constants(
                n, &squares[0], sphere.order, n_terms(&sphere), WIDTH, sphere.values,
                sphere.zero, &found[0],
            )
        else:
            for i in range(n):
                found[i] = log_constant(&sphere, squares[i])


def bessel_slopes(
    const double[::1] squares,          # IN (n,) k^2
    double[::1] found,                  # OUT (n,)
    expansion: tuple[float, int, NDArray[float64]],
):
    """A_V(k) / k, the mean length of a direction over its concentration."""
    cdef Sphere sphere = read_sphere(expansion)
    cdef Py_ssize_t i
    with nogil:
        for i in range(squares.shape[0]):
            found[i] = bessel_slope(&sphere, squares[i])


def natural_lengths(
    const double[::1] lengths,          # IN (n,) e
    const double[::1] spreads,          # IN (n,) v
    double[::1] found,                  # OUT (n,) y
    expansion: tuple[float, int, NDArray[float64]],
):
    """Return y with g(y^2 + v) y = e."""
    cdef Sphere sphere = read_sphere(expansion)
    cdef Py_ssize_t i
    with nogil:
        for i in range(lengths.shape[0]):
            found[i] = natural_length(&sphere, lengths[i], spreads[i])


def row_gains(
    const double[::1] squares,          # IN (n,) n'n
    const double[::1] along,            # IN (n,) n'x
    const double[::1] own,              # IN (n,) part that n has of the row
    const double[::1] shares,           # IN (n,) of n, that count
    const double[::1] spreads,          # IN (n,) v
    double strength,                    # beta
    double[::1] found,                  # OUT (n,)
    expansion: tuple[float, int, NDArray[float64]],
):
    """H of natural parameters with a row less h without it, the row integrated out."""
    cdef Sphere sphere = read_sphere(expansion)
    cdef Py_ssize_t i
    with nogil:
        for i in range(squares.shape[0]):
            found[i] = row_gain(
                &sphere, squares[i], along[i], own[i], strength, shares[i], spreads[i]
            )


cdef double row_gain(
    const Sphere* s, double square, double along, double own, double strength,
    double share, double spread,
) noexcept nogil:
    """H of a natural parameter with a row less h without it, see `row_gains`."""
    cdef double part = own * strength
    cdef double left = square - 2.0 * part * along + part * part
    cdef double both = left + 2.0 * strength * (along - part) + strength * strength
    left = max(left, 0.0) * share * share + spread
    both = max(both, 0.0) * share * share + spread
    return (log_constant(s, left) - log_constant(s, both)) / share


def prior_slope(
    double kappa,
    const double[::1] lengths,          # IN (n,) r
    const double[::1] products,         # IN (n,) d
    const double[::1] mean_lengths,     # IN (n,) |E|
    const double[::1] spreads,          # IN (n,) w
    expansion: tuple[float, int, NDArray[float64]],
) -> float:
    """Slope in kappa of sum log C_V(kappa r) + kappa d - h*(|E|; kappa^2 w)."""
    cdef Sphere sphere = read_sphere(expansion)
    cdef double total = 0.0, square = kappa * kappa, v, y
    cdef Py_ssize_t i
    with nogil:
        for i in range(lengths.shape[0]):
            v = square * lengths[i] * lengths[i]
            total += products[i]
            total -= kappa * lengths[i] * lengths[i] * bessel_slope(&sphere, v)
            if spreads[i] > 0.0:
                v = square * spreads[i]
                y = natural_length(&sphere, mean_lengths[i], v)
                total += kappa * spreads[i] * bessel_slope(&sphere, y * y + v)
    return total


def best_worths(
    const double[::1] naturals,         # IN (n,) |n|
    const double[::1] spreads,          # IN (n,) v
    const double[::1] below,            # IN lengths of means of children, list by list
    const int64_t[::1] limits,          # IN (n + 1,) where those of each begin
    double pull,                        # K
    double[::1] lengths,                # OUT (n,) e
    double[::1] found,                  # OUT (n,)
    expansion: tuple[float, int, NDArray[float64]],
):
    """Return n e - h*(e; v) - sum_c h*(e_c; K^2 (1 - e^2)) at the best length e.

    Those of the children are fixed; values of h* are less those at zero.
    """
    cdef Sphere sphere = read_sphere(expansion)
    cdef const double* first = &below[0] if below.shape[0] else NULL
    cdef const double* own
    cdef Py_ssize_t i, n
    with nogil:
        for i in range(naturals.shape[0]):
            own, n = first + limits[i], limits[i + 1] - limits[i]
            lengths[i] = best_length(&sphere, naturals[i], spreads[i], n, own, pull)
            found[i] = worth_of(
                &sphere, lengths[i], naturals[i], spreads[i], n, own, pull
            )


cdef double worth_of(
    const Sphere* s, double e, double natural, double spread,
    Py_ssize_t n_below, const double* below, double pull,
) noexcept nogil:
    """Worth of a direction whose mean has the length e, and of its children's."""
    cdef double spread_below = pull * pull * max((1.0 - e) * (1.0 + e), 0.0)
    cdef double found = natural * e - conjugate(s, e, spread)
    cdef Py_ssize_t i
    for i in range(n_below):
        found -= conjugate(s, below[i], spread_below)
    return found


cdef double best_length(
    const Sphere* s, double natural, double spread,
    Py_ssize_t n_below, const double* below, double pull,
) noexcept nogil:
    """Length e of a mean that is the best for |n|, v, and lengths of children."""
    cdef double e = bessel_slope(s, natural * natural + spread) * natural
    cdef double weight, spread_below, y, last
    cdef Py_ssize_t i
    cdef int _
    if n_below == 0:
        return e
    for _ in range(MAX_TURNS):
        weight, spread_below = 0.0, pull * pull * (1.0 - e) * (1.0 + e)
        for i in range(n_below):
            y = natural_length(s, below[i], spread_below)
            weight += pull * pull * bessel_slope(s, y * y + spread_below)
        y = resisted(s, natural, spread, weight)
        last, e = e, bessel_slope(s, y * y + spread) * y
        if fabs(e - last) <= TURN_TOL * e:
            break
    return e


# Nodes of an epoch, by position in its tree, and their statistics.
cdef struct Epoch:
    Sphere sphere
    Py_ssize_t n_words
    double* means               # (n_nodes, n_words) E
    const double* previous      # (n_before, n_words) mu^(t-1)
    const Py_ssize_t* past      # (n_nodes,) rows there, -1 of new nodes
    const double* above         # (n_words,) mean of the parent of the root
    const double* centroid      # (n_words,) a row more at the root
    const Py_ssize_t* parent    # (n_nodes,)
    const Py_ssize_t* children  # (n_nodes - 1,) those of a node side by side
    const Py_ssize_t* limits    # (n_nodes + 1,) where those of a node begin
    const int32_t* indptr       # sums s of rows
    const int32_t* words
    const double* values
    double strength             # beta
    double pull                 # kappa0 k1
    double pull_of_past         # kappa0 k2


cdef inline const double* past_of(const Epoch* e, Py_ssize_t row) noexcept nogil:
    """Previous direction of a node; NULL where there is none."""
    if e.past[row] >= 0:
        return e.previous + e.past[row] * e.n_words
    return NULL


cdef inline const double* parent_of(const Epoch* e, Py_ssize_t row) noexcept nogil:
    """Mean of the parent of a node."""
    if row == 0:
        return e.above
    return e.means + e.parent[row] * e.n_words


cdef void fill_natural(
    const Epoch* e, Py_ssize_t row, double* natural
) noexcept nogil:
    """Natural parameter of a node by priors, rows and children."""
    cdef Py_ssize_t n = e.n_words, at, child
    cdef const double* past
    cdef const double* own = e.means + row * n
    cdef double square, slope
    cdef int32_t i
    past = past_of(e, row)
    if past != NULL:
        put_both(n, e.pull, parent_of(e, row), e.pull_of_past, past, natural)
    else:
        put_scaled(n, e.pull, parent_of(e, row), natural)
    for i in range(e.indptr[row], e.indptr[row + 1]):
        natural[e.words[i]] += e.strength * e.values[i]
    if row == 0:
        add_scaled(n, e.strength, e.centroid, natural)
    for at in range(e.limits[row], e.limits[row + 1]):
        child = e.children[at]
        past = past_of(e, child)
        if past == NULL:
            add_scaled(n, e.pull, e.means + child * n, natural)
        else:
            # Of log C_V(rho) in E'mu: -g(rho^2) kappa0^2 k1 k2.
            square = e.pull * e.pull + e.pull_of_past * e.pull_of_past
            square += 2.0 * e.pull * e.pull_of_past * dot(n, own, past)
            slope = -bessel_slope(&e.sphere, square) * e.pull * e.pull_of_past
            add_both(n, e.pull, e.means + child * n, slope, past, natural)


cdef Epoch read_epoch(object known) except *:
    """Read what `known_to_kernels` returns, which must live on."""
    cdef Epoch e
    cdef const double[:, ::1] means, previous
    cdef const double[::1] above, centroid, values
    cdef const Py_ssize_t[::1] past, parent, children, limits
    cdef const int32_t[::1] indptr, words
    means, previous, past, above, centroid, parent, children, limits = known[:8]
    indptr, words, values, e.strength, e.pull, e.pull_of_past, expansion = known[8:]
    e.sphere = read_sphere(expansion)
    e.n_words, e.means = means.shape[1], <double*>&means[0, 0]
    e.previous = &previous[0, 0] if previous.shape[0] else NULL
    e.past = &past[0]
    e.above, e.centroid = &above[0], &centroid[0]
    e.parent, e.limits = &parent[0], &limits[0]
    e.children = &children[0] if children.shape[0] else NULL
    e.indptr = &indptr[0]
    e.words = &words[0] if words.shape[0] else NULL
    e.values = &values[0] if values.shape[0] else NULL
    return e


def natural_parameter(
    Py_ssize_t row,
    double[::1] natural,                # OUT (n_words,)
    known: tuple,                       # IN see `read_epoch`
):
    """Natural parameter of a node by priors, rows and children, see `Epoch`."""
    cdef Epoch epoch = read_epoch(known)
    with nogil:
        fill_natural(&epoch, row, &natural[0])


def update_directions(
    const Py_ssize_t[::1] rows,         # IN nodes, in the order of their updates
    double[::1] concentrations,         # INOUT (n_nodes,)
    double[::1] natural,                # WORK (n_words,)
    double[::1] lengths_below,          # WORK (n_nodes,)
    double[::1] squares,                # WORK (n_nodes,) E'E, -1 where not known yet
    known: tuple,                       # INOUT means, see `read_epoch`
):
    """Update q(theta) of some nodes one after the other, see `Epoch`.

    Time O(V) for each of them and of their children.
    """
    cdef Epoch epoch = read_epoch(known)
    cdef double[:, ::1] written = known[0]
    cdef Py_ssize_t i
    epoch.means = &written[0, 0]
    with nogil:
        for i in range(rows.shape[0]):
            concentrations[rows[i]] = update_direction(
                &epoch, rows[i], &natural[0], &lengths_below[0], &squares[0]
            )


cdef double square_of(
    const Epoch* e, Py_ssize_t row, double* squares
) noexcept nogil:
    """E'E of a node."""
    cdef const double* mean = e.means + row * e.n_words
    if squares[row] < 0.0:
        squares[row] = dot(e.n_words, mean, mean)
    return squares[row]


cdef double update_direction(
    const Epoch* e, Py_ssize_t row, double* natural, double* below, double* squares
) noexcept nogil:
    """Set the mean of a node to its maximum; return eta with A_V(eta) = |E|."""
    cdef Py_ssize_t n = e.n_words, first = e.limits[row], at
    cdef Py_ssize_t n_below = e.limits[row + 1] - first
    cdef double square, spread, length, found
    cdef const Sphere* s = &e.sphere
    fill_natural(e, row, natural)
    if row:
        square = square_of(e, e.parent[row], squares)
    else:
        square = dot(n, e.above, e.above)
    # A root without a parent has no spread.
    spread = e.pull * e.pull * max(1.0 - square, 0.0) if row or square > 0.0 else 0.0
    for at in range(n_below):
        below[at] = sqrt(square_of(e, e.children[first + at], squares))
    length = sqrt(dot(n, natural, natural))
    found = best_length(s, length, spread, n_below, below, e.pull)
    put_scaled(n, found / max(length, LEAST), natural, e.means + row * n)
    squares[row] = found * found  # known to those below, whichever thread updates them
    return natural_length(s, found, 0.0)


def inner_products(
    const Py_ssize_t[::1] rows,         # IN nodes
    const double[:, ::1] means,
    const double[:, ::1] previous, const Py_ssize_t[::1] past,
    const double[::1] above,
    const Py_ssize_t[::1] parent,
    double[:, ::1] found,               # OUT (n_rows, 6)
):
    """E'E, E_up'E_up, E_up'E, mu'E, E_up'mu, and one if there is a past mu, else zero.

    Of nodes, E_up being the mean of the parent.
    """
    cdef Epoch e
    cdef const double* own
    cdef const double* up
    cdef const double* mu
    cdef Py_ssize_t i, row, n = means.shape[1]
    e.n_words, e.means, e.above = n, <double*>&means[0, 0], &above[0]
    e.previous = &previous[0, 0] if previous.shape[0] else NULL
    e.parent, e.past = &parent[0], &past[0]
    with nogil:
        for i in range(rows.shape[0]):
            row = rows[i]
            own, up, mu = e.means + row * n, parent_of(&e, row), past_of(&e, row)
            products_of_three(n, own, up, mu if mu != NULL else own, &found[i, 0])
            if mu == NULL:
                found[i, 3] = found[i, 4] = 0.0
            found[i, 5] = mu != NULL


def place_draws(
    const Py_ssize_t[::1] rows,         # IN which rows of the table
    const double[::1] cosines,          # IN (n_rows,) products with mean directions
    double[:, ::1] normals,             # INOUT (n_rows, n_words) normal variables
    double[:, ::1] table,               # INOUT natural parameters become directions
):
    """Draw around the mean directions of natural parameters, of length one.

    The part of the normal variables that is across the mean, of the length that is
    left; the mean of nothing is the first axis.
    """
    cdef Py_ssize_t i, n = table.shape[1]
    cdef double* mean
    cdef double* across
    cdef double length, c, scale
    with nogil:
        for i in range(rows.shape[0]):
            mean, across, c = &table[rows[i], 0], &normals[i, 0], cosines[i]
            length = sqrt(dot(n, mean, mean))
            if length > 0.0:
                put_scaled(n, 1.0 / length, mean, mean)
            else:
                mean[0] = 1.0
            add_scaled(n, -dot(n, mean, across), mean, across)
            scale = sqrt((1.0 - c) * (1.0 + c) / dot(n, across, across))
            put_scaled(n, c, mean, mean)
            add_scaled(n, scale, across, mean)
