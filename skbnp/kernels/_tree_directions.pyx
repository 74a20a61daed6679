"""Products and log densities of the drawn directions of dependent trees.

A direction is a row of an array, `direction` has the row of each node; m are previous
directions. As in `models/dependent_slices/model.py`, given its parent a node has the
prior of natural parameter K theta_parent + P m, K = kappa0 k1 and P = kappa0 k2.
"""

from libc.stdint cimport int32_t
from libc.string cimport memset

from skbnp.kernels._normaliser cimport (
    Sphere,
    bessel_slope,
    log_constant,
    read_sphere,
)
from skbnp.kernels._vectors cimport add_scaled, dot


def prior_products(
    const Py_ssize_t[::1] nodes,        # IN which nodes, by position in the tree
    const double[:, ::1] directions,    # IN (n_directions, n_words)
    const Py_ssize_t[::1] direction,    # IN (n_nodes,) which of them is theirs
    const Py_ssize_t[::1] parent,       # IN (n_nodes,)
    const double[:, ::1] previous,      # IN (n_old, n_words)
    const Py_ssize_t[::1] past,         # IN (n_nodes,) which of them is theirs, -1
    double[:, ::1] found,               # OUT (n_nodes, 4), these rows
):
    """theta_parent'theta, m'theta, theta_parent'm and m'm, zero where there is none."""
    cdef Py_ssize_t i, at, n = directions.shape[1]
    cdef const double* mine
    cdef const double* above
    cdef const double* m
    with nogil:
        for i in range(nodes.shape[0]):
            at = nodes[i]
            mine = &directions[direction[at], 0]
            above = &directions[direction[parent[at]], 0] if at else NULL
            m = &previous[past[at], 0] if past[at] >= 0 else NULL
            found[at, 0] = dot(n, above, mine) if at else 0.0
            found[at, 1] = dot(n, m, mine) if m != NULL else 0.0
            found[at, 2] = dot(n, above, m) if m != NULL and at else 0.0
            found[at, 3] = dot(n, m, m) if m != NULL else 0.0


def integrate_out(
    Py_ssize_t begin, Py_ssize_t end,   # nodes of whole subtrees, or the root alone
    const Py_ssize_t[::1] depth,        # IN (n_nodes,)
    const Py_ssize_t[::1] parent,       # IN (n_nodes,)
    const double[:, ::1] directions,    # IN (n_directions, n_words)
    const Py_ssize_t[::1] direction,    # IN (n_nodes,) which of them is theirs
    const double[:, ::1] previous,      # IN (n_old, n_words)
    const Py_ssize_t[::1] past,         # IN (n_nodes,) which of them is theirs, -1
    const int32_t[::1] indptr, const int32_t[::1] words, const double[::1] values,
    double strength, double pull, double pull_of_past,
    double[:, ::1] below,               # INOUT (n_levels + 1, n_words)
    expansion: tuple[float, int, NDArray[float64]],
) -> float:
    """Log of what directions make of rows, from the last node to the first.

    Each direction is integrated out given its parent, and what comes of it is replaced
    by its tangent at the parent's. Row d of `below` has the sum of the slopes of nodes
    of depth d that have one parent; where their parent is among the nodes, it is zero
    before and after. Time O(n_words) for nodes with children or a past, and O(stored
    values) for others.
    """
    cdef Sphere s = read_sphere(expansion)
    cdef Py_ssize_t n = directions.shape[1], at, i
    cdef bint is_dense
    cdef double* natural  # sum of the slopes of children of a node, zero afterwards
    cdef double* slopes
    cdef const double* above
    cdef const double* m
    cdef double g, square, along, given, along_past, slope, slope_of_past
    cdef double here, total = 0.0
    with nogil:
        for at in range(end - 1, begin - 1, -1):
            slopes, natural = &below[depth[at], 0], &below[depth[at] + 1, 0]
            above = &directions[direction[parent[at]], 0] if at else NULL
            m = &previous[past[at], 0] if past[at] >= 0 else NULL
            is_dense = at + 1 < depth.shape[0] and depth[at + 1] > depth[at]
            is_dense = is_dense or m != NULL
            square = along = given = along_past = 0.0
            if is_dense:
                for i in range(indptr[at], indptr[at + 1]):
                    natural[words[i]] += strength * values[i]
                if m != NULL:
                    add_scaled(n, pull_of_past, m, natural)
                    given = pull_of_past * pull_of_past * dot(n, m, m)
                    if at:
                        along_past = pull * pull_of_past * dot(n, above, m)
                square = dot(n, natural, natural)
                if at:
                    along = pull * dot(n, above, natural)
            else:
                for i in range(indptr[at], indptr[at + 1]):
                    g = strength * values[i]
                    square += g * g
                    if at:
                        along += pull * g * above[words[i]]
            if at:
                # Squares of K theta_parent + P m, and with the rows and children.
                given = max(given + pull * pull + 2.0 * along_past, 0.0)
                square = max(square + pull * pull + 2.0 * along, 0.0)
            here = log_constant(&s, given) - log_constant(&s, square)
            if at:
                slope, slope_of_past = bessel_slope(&s, square), bessel_slope(&s, given)
                here -= slope * along - slope_of_past * along_past
                if is_dense:
                    add_scaled(n, slope * pull, natural, slopes)
                else:
                    for i in range(indptr[at], indptr[at + 1]):
                        g = strength * values[i]
                        slopes[words[i]] += slope * pull * g
                if m != NULL:
                    add_scaled(n, -slope_of_past * pull * pull_of_past, m, slopes)
            total += here
            if is_dense:
                memset(natural, 0, n * sizeof(double))
    return total
