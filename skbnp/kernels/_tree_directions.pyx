"""Products and log densities of the drawn directions of dependent trees.

A direction is a row of an array, `direction` tells which; m are previous directions. As
in `models/dependent_slices/model.py`, given its parent a node has the prior of natural
parameter K theta_parent + P m, K = kappa0 k1 and P = kappa0 k2.
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


def products(
    const Py_ssize_t[::1] rows,         # IN which directions
    const double[:, ::1] directions,    # IN (n_directions, n_words)
    const double[:, ::1] vectors,       # IN (n_vectors, n_words)
    double[:, ::1] found,               # OUT (n_vectors, n_directions), these columns
):
    """Inner products of directions with some vectors, in one pass over directions."""
    cdef Py_ssize_t i, k, n = directions.shape[1]
    with nogil:
        for i in range(rows.shape[0]):
            for k in range(vectors.shape[0]):
                found[k, rows[i]] = dot(n, &directions[rows[i], 0], &vectors[k, 0])


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


# A tree, its directions, and the sums s of the rows at each node.
cdef struct Nodes:
    Py_ssize_t n_nodes
    Py_ssize_t n_words
    const Py_ssize_t* depth
    const Py_ssize_t* parent
    const double* directions
    const Py_ssize_t* direction
    const double* previous
    const Py_ssize_t* past
    const int32_t* indptr
    const int32_t* words
    const double* values
    double strength             # beta
    double pull                 # K
    double pull_of_past         # P


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
    cdef Sphere sphere = read_sphere(expansion)
    cdef Nodes nodes
    cdef double total = 0.0
    cdef Py_ssize_t at
    nodes.n_nodes, nodes.n_words = depth.shape[0], directions.shape[1]
    nodes.depth, nodes.parent = &depth[0], &parent[0]
    nodes.directions, nodes.direction = &directions[0, 0], &direction[0]
    nodes.previous = &previous[0, 0] if previous.shape[0] else NULL
    nodes.past, nodes.indptr = &past[0], &indptr[0]
    nodes.words = &words[0] if words.shape[0] else NULL
    nodes.values = &values[0] if values.shape[0] else NULL
    nodes.strength, nodes.pull, nodes.pull_of_past = strength, pull, pull_of_past
    with nogil:
        for at in range(end - 1, begin - 1, -1):
            total += _integrate_out(
                &nodes, &sphere, at, &below[depth[at], 0], &below[depth[at] + 1, 0]
            )
    return total


cdef double _integrate_out(
    const Nodes* e, const Sphere* s, Py_ssize_t at,
    double* slopes, double* natural,
) noexcept nogil:
    """Integrate out one direction, and add its slope to those of its siblings.

    `natural` is what its children say, and zero afterwards.
    """
    cdef Py_ssize_t n = e.n_words
    cdef bint has_children = at + 1 < e.n_nodes and e.depth[at + 1] > e.depth[at]
    cdef bint is_dense = has_children or e.past[at] >= 0
    cdef const double* above = NULL
    cdef const double* m = NULL
    cdef double g, square = 0.0, along = 0.0, given = 0.0, along_past = 0.0
    cdef double slope, slope_of_past, total
    cdef int32_t i
    if at:
        above = e.directions + e.direction[e.parent[at]] * n
    if is_dense:
        for i in range(e.indptr[at], e.indptr[at + 1]):
            natural[e.words[i]] += e.strength * e.values[i]
        if e.past[at] >= 0:
            m = e.previous + e.past[at] * n
            add_scaled(n, e.pull_of_past, m, natural)
            given = e.pull_of_past * e.pull_of_past * dot(n, m, m)
            if at:
                along_past = e.pull * e.pull_of_past * dot(n, above, m)
        square = dot(n, natural, natural)
        if at:
            along = e.pull * dot(n, above, natural)
    else:
        for i in range(e.indptr[at], e.indptr[at + 1]):
            g = e.strength * e.values[i]
            square += g * g
            if at:
                along += e.pull * g * above[e.words[i]]
    if at:
        # Squares of K theta_parent + P m, and with the rows and children.
        given = max(given + e.pull * e.pull + 2.0 * along_past, 0.0)
        square = max(square + e.pull * e.pull + 2.0 * along, 0.0)
    total = log_constant(s, given) - log_constant(s, square)
    if at:
        slope, slope_of_past = bessel_slope(s, square), bessel_slope(s, given)
        total -= slope * along - slope_of_past * along_past
        if is_dense:
            add_scaled(n, slope * e.pull, natural, slopes)
        else:
            for i in range(e.indptr[at], e.indptr[at + 1]):
                g = e.strength * e.values[i]
                slopes[e.words[i]] += slope * e.pull * g
        if m != NULL:
            add_scaled(n, -slope_of_past * e.pull * e.pull_of_past, m, slopes)
    if is_dense:
        memset(natural, 0, n * sizeof(double))
    return total
