"""Rows of dependent trees that choose nodes one by one, see `assignments.py`.

Vectors stand on the words of the rows; of natural parameters the squares of all words
are known besides. What a row adds to the nodes that it leaves is taken out of these,
and out of the directions of those above, and of their children: of n, so many times the
row, which are `left_out`.
"""

import numpy as np

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, uint8_t

from skbnp.kernels._directions cimport row_gain
from skbnp.kernels._interrupts cimport count_work
from skbnp.kernels._normaliser cimport (
    Sphere,
    bessel_slope,
    log_constant,
    read_sphere,
)
from skbnp.kernels._vectors cimport add_scaled

cdef enum:
    # Multiplications that a normaliser costs, about.
    COST = 128

cdef:
    # Rows that a node has beside one, at the least, to be there without it.
    double LEAST_REST = 1e-3


# Nodes by position, new ones behind all others.
cdef struct Nodes:
    Sphere sphere
    Py_ssize_t n_nodes, capacity
    double strength             # beta
    double pull                 # kappa0 k1
    double least                # nats by which a new node must be better
    double* naturals            # (n_words, capacity) n
    double* squares             # (capacity,) n'n
    double* shares              # (capacity,) see `row_gain`
    double* spreads             # (capacity,) v
    double* log_weights         # (capacity,)
    double* log_weights_below   # (capacity,) of a new child
    double* masses              # (capacity,) rows, those of the window too
    const uint8_t* lasting      # (capacity,) whether it is there without rows
    Py_ssize_t* parent          # (capacity,)
    double* slopes              # (capacity,) E / n
    double* along               # (capacity,) n'x
    double* left_out            # (capacity,) of E, so many times x
    Py_ssize_t* n_children      # (capacity,)


# Where a row may go, and what that is worth.
cdef struct Choice:
    Py_ssize_t node
    double score


cdef void follow(Nodes* t, Py_ssize_t node) noexcept nogil:
    """Update the mean of a node by its natural parameter."""
    cdef double share = t.shares[node]
    cdef double square = share * share * t.squares[node] + t.spreads[node]
    t.slopes[node] = share * bessel_slope(&t.sphere, square)


cdef void add_row(
    Nodes* t, Py_ssize_t node, const int32_t* words, const float* values,
    Py_ssize_t n, double square, double part,
) noexcept nogil:
    """Add a multiple of a row to the natural parameter of a node."""
    cdef Py_ssize_t i
    cdef double along = 0.0
    cdef double* value
    for i in range(n):
        value = t.naturals + words[i] * t.capacity + node
        along += values[i] * value[0]
        value[0] += part * values[i]
    t.squares[node] += part * (2.0 * along + part * square)
    follow(t, node)


cdef void leave_out(Nodes* t, Py_ssize_t own, double factor) noexcept nogil:
    """Compute the part of a row in the means of its node and of the nodes above."""
    cdef Py_ssize_t node = own
    cdef double part = t.strength
    while node >= 0:
        part *= t.slopes[node]
        t.left_out[node] = part * factor
        part *= t.pull
        node = t.parent[node]


cdef inline double score_of(
    const Nodes* t, Py_ssize_t node, Py_ssize_t own, double square
) noexcept nogil:
    """Score of a row at a node without its own part, node weights left out."""
    cdef double part = t.strength if node == own else 0.0
    if t.parent[node] >= 0:
        part += t.pull * t.left_out[t.parent[node]]
    cdef double rest = t.squares[node] - part * (2.0 * t.along[node] - part * square)
    return row_gain(
        &t.sphere, max(rest, 0.0), t.along[node] - part * square, 0.0, t.strength,
        t.shares[node], t.spreads[node],
    )


cdef inline double product_below(
    const Nodes* t, Py_ssize_t node, double square
) noexcept nogil:
    """E'x of a node without the row's own part."""
    return t.slopes[node] * t.along[node] - t.left_out[node] * square


cdef Choice best_parent(
    const Nodes* t, Py_ssize_t own, bint is_alone, double square
) noexcept nogil:
    """Find the node below which a new one would be best.

    Its gain is -log C(k) + log C(kappa0 k1), k^2 = |kappa0 k1 theta + beta x|^2, which
    is concave in theta'x: a tangent is not below.
    """
    cdef Choice best
    cdef Py_ssize_t node
    cdef double base = t.pull * t.pull + t.strength * t.strength * square
    cdef double before = log_constant(&t.sphere, t.pull * t.pull)
    cdef double across = before - log_constant(&t.sphere, base)
    cdef double slope = bessel_slope(&t.sphere, base), product, most
    best.node, best.score = -1, -INFINITY
    for node in range(t.n_nodes):
        if is_alone and (node == own or node == t.parent[own]):
            continue  # that is where it is
        product = t.pull * t.strength * product_below(t, node, square)
        most = t.log_weights_below[node] + across + slope * product
        if most > best.score:
            most = before - log_constant(&t.sphere, base + 2.0 * product)
            most += t.log_weights_below[node]
            if most > best.score:
                best.node, best.score = node, most
    return best


cdef Choice best_node(
    const Nodes* t, Py_ssize_t own, double score_of_own, double square
) noexcept nogil:
    """Find the best node there is, that of the row having its score.

    h is convex, with a curvature of E / n at the most where n'x is not negative: a
    parabola is not below, nor is h with more of the row in it.
    """
    cdef Choice best
    cdef Py_ssize_t node
    cdef double most
    best.node, best.score = own, score_of_own
    for node in range(t.n_nodes):
        if node == own or t.log_weights[node] == -INFINITY:
            continue
        if t.along[node] >= 0.0:
            most = t.along[node] + 0.5 * t.strength * square
            most = t.log_weights[node] + t.strength * t.slopes[node] * most
            if most <= best.score:
                continue
        most = t.log_weights[node] + score_of(t, node, own, square)
        if most > best.score:
            best.node, best.score = node, most
    return best


cdef Py_ssize_t open_node(Nodes* t, Py_ssize_t above) noexcept nogil:
    """Add a new node below another one."""
    cdef Py_ssize_t node = t.n_nodes
    t.n_nodes += 1
    t.parent[node], t.n_children[above] = above, t.n_children[above] + 1
    t.shares[node], t.masses[node], t.n_children[node] = 1.0, 0.0, 0
    t.log_weights[node] = t.log_weights_below[above]
    t.log_weights_below[node] = -INFINITY
    return node


cdef void fill_prior(
    Nodes* t, Py_ssize_t node, Py_ssize_t n_words
) noexcept nogil:
    """Give a new node the natural parameter of its prior, given its parent."""
    cdef Py_ssize_t above = t.parent[node], i
    cdef double part = t.pull * t.slopes[above]
    for i in range(n_words):
        t.naturals[i * t.capacity + node] = part * t.naturals[i * t.capacity + above]
    t.squares[node] = part * part * t.squares[above]
    t.spreads[node] = max(t.pull * t.pull - t.squares[node], 0.0)


cdef void close_node(Nodes* t, Py_ssize_t node) noexcept nogil:
    """Close a node to further rows."""
    t.log_weights[node] = t.log_weights_below[node] = -INFINITY
    t.n_children[t.parent[node]] -= 1


cdef Py_ssize_t assign_row(
    Nodes* t, Py_ssize_t own, const int32_t* words, const float* values, Py_ssize_t n,
    Py_ssize_t n_words, Py_ssize_t* done,
) except -2 nogil:
    """Move a row to its best node, and update the means concerned."""
    cdef Py_ssize_t m = t.n_nodes, node, i
    cdef double square = 0.0, score = -INFINITY, rest
    cdef bint is_alone = False
    cdef Choice old, new
    for node in range(m):
        t.along[node] = 0.0
    for i in range(n):
        add_scaled(m, values[i], t.naturals + words[i] * t.capacity, t.along)
        square += <double>values[i] * values[i]
    if own >= 0:
        leave_out(t, own, 1.0)
        rest = t.masses[own] - 1.0
        is_alone = rest < LEAST_REST and own > 0 and not t.lasting[own]
        is_alone = is_alone and t.n_children[own] == 0
        score = score_of(t, own, own, square)
        if is_alone:
            score += t.log_weights_below[t.parent[own]] - t.least
        elif rest > LEAST_REST:
            score += t.log_weights[own] + log(rest / t.masses[own])
        else:
            score += t.log_weights[own]
    old = best_node(t, own, score, square)
    if m < t.capacity:
        new = best_parent(t, own, is_alone, square)
        if new.score - t.least > old.score:
            old.node = open_node(t, new.node)
            fill_prior(t, old.node, n_words)
    if own >= 0:
        leave_out(t, own, 0.0)
    count_work((n + 2) * m + 4 * COST, done)
    if old.node == own:
        return own
    if own >= 0:
        add_row(t, own, words, values, n, square, -t.strength)
        t.masses[own] -= 1.0
        if is_alone:
            close_node(t, own)
    add_row(t, old.node, words, values, n, square, t.strength)
    t.masses[old.node] += 1.0
    return old.node


def assign_rows(
    const int32_t[::1] indptr,          # IN (n_rows + 1,)
    const int32_t[::1] words,           # IN (nnz,)
    const float[::1] values,            # IN (nnz,)
    const Py_ssize_t[::1] sequence,     # IN (n_rows,) rows in the order of their turns
    double[:, ::1] naturals,            # INOUT (n_words, capacity)
    double[::1] squares,                # INOUT (capacity,)
    double[::1] shares,                 # INOUT (capacity,)
    double[::1] spreads,                # INOUT (capacity,)
    double[::1] log_weights,            # INOUT (capacity,)
    double[::1] log_weights_below,      # INOUT (capacity,)
    double[::1] masses,                 # INOUT (capacity,)
    const uint8_t[::1] lasting,         # IN (capacity,)
    Py_ssize_t[::1] parent,             # INOUT (capacity,) -1 of the root
    Py_ssize_t[::1] places,             # INOUT (n_rows,) -1: nowhere yet
    Py_ssize_t n_nodes,
    double strength,                    # beta
    double pull,                        # kappa0 k1
    double least,                       # nats by which a new node must be better
    expansion: tuple[float, int, NDArray[float64]],
) -> int:
    """Move rows of length one to their best nodes; return the number of moves.

    Of nodes that are there, the best by log E pi + h(|n + beta x|) - h(|n|), or a new
    child of one; what the row itself adds to n is left out. There are `capacity` at the
    most. Time O(n_nodes) for each entry of a row, and for each row O(n_words) if it
    opens a node.
    """
    cdef Py_ssize_t n_rows = places.shape[0], row, i, begin, done = 0
    cdef Py_ssize_t n_words = naturals.shape[0]
    cdef double[:, ::1] work = np.zeros((3, squares.shape[0]))
    cdef Py_ssize_t[::1] n_children = np.zeros(squares.shape[0], dtype=np.intp)
    cdef Nodes t
    t.sphere = read_sphere(expansion)
    t.n_nodes, t.capacity = n_nodes, squares.shape[0]
    t.strength, t.pull, t.least = strength, pull, least
    t.squares, t.shares, t.spreads = &squares[0], &shares[0], &spreads[0]
    t.log_weights, t.log_weights_below = &log_weights[0], &log_weights_below[0]
    t.masses, t.lasting, t.parent = &masses[0], &lasting[0], &parent[0]
    t.slopes, t.along, t.left_out = &work[0, 0], &work[1, 0], &work[2, 0]
    t.n_children = &n_children[0]
    if n_rows == 0 or n_words == 0:
        return n_nodes
    t.naturals = &naturals[0, 0]
    with nogil:
        for i in range(n_nodes):
            follow(&t, i)
            if i:
                n_children[parent[i]] += 1
        for i in range(n_rows):
            row = sequence[i]
            begin = indptr[row]
            places[row] = assign_row(
                &t, places[row], &words[begin], &values[begin],
                indptr[row + 1] - begin, n_words, &done,
            )
    return t.n_nodes
