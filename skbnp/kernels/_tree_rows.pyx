"""Gibbs moves of rows of dependent trees between nodes, directions integrated out.

A node whose direction has the natural parameter g, its rows included, gives a row x

    log p(x | its other rows) = log C(|g'|) - log C(|g' + beta x|) + log C(beta),

g' without the row; one whose direction theta is drawn, beta theta'x + log C(beta). The
normaliser is that of `distributions.py`, less its value at zero.
"""

from libc.math cimport INFINITY, exp, log, log1p
from libc.stdint cimport int8_t, int32_t, uint8_t
from libc.string cimport memset

from numpy.random cimport bitgen_t

from skbnp.kernels._normaliser cimport Sphere, log_constant, read_sphere
from skbnp.kernels._rng cimport borrow, uniform
from skbnp.kernels._vectors cimport add_scaled, put_scaled, row_product
from skbnp.kernels._vectors cimport dot as dot_of_vectors


# Sparse rows.
cdef struct Rows:
    const int32_t* indptr
    const int32_t* words
    const float* values
    double strength             # beta


# Nodes that rows may be at: natural parameters, or directions that are drawn.
cdef struct Nodes:
    Py_ssize_t n_words
    double* table               # (n_rows, n_words)
    double* squares             # (n_nodes,) |g|^2
    double* own                 # (n_nodes,) log C(|g|)
    # Those from `n_filled` on have no row in the table until rows come to them: they
    # have the direction of the node whose row is their `source`, times `pull`.
    int32_t* source             # (n_nodes,) row of each in the table
    Py_ssize_t n_filled
    Py_ssize_t free             # next row of the table that is free
    double pull


cdef inline double dot(
    const Rows* rows, Py_ssize_t row, const double* direction
) noexcept nogil:
    """x'g of a row."""
    return row_product(rows.indptr, rows.words, rows.values, row, direction)


cdef inline double square_of(const Rows* rows, Py_ssize_t row) noexcept nogil:
    cdef double total = 0.0
    cdef int32_t i
    for i in range(rows.indptr[row], rows.indptr[row + 1]):
        total += <double>rows.values[i] * <double>rows.values[i]
    return total


cdef inline bint is_shared(const Nodes* nodes, Py_ssize_t at) noexcept nogil:
    """Whether a node has no row of the table for itself yet."""
    return at >= nodes.n_filled and nodes.source[at] < nodes.n_filled


cdef inline double product_of(
    const Rows* rows, Py_ssize_t row, const Nodes* nodes, Py_ssize_t at
) noexcept nogil:
    """x'g of a row and a node."""
    cdef double found
    found = dot(rows, row, nodes.table + nodes.source[at] * nodes.n_words)
    return nodes.pull * found if is_shared(nodes, at) else found


cdef inline void add_row(
    const Rows* rows, Py_ssize_t row, double gain, double* direction
) noexcept nogil:
    cdef int32_t i
    for i in range(rows.indptr[row], rows.indptr[row + 1]):
        direction[rows.words[i]] += gain * <double>rows.values[i]


cdef inline void put(
    const Rows* rows, Py_ssize_t row, double sign, double product, double size,
    Py_ssize_t at, Nodes* nodes, const Sphere* sphere,
) noexcept nogil:
    """Add a row, x'g = product and |x|^2 = size, to a node, or subtract it."""
    cdef double b = sign * rows.strength
    cdef Py_ssize_t n = nodes.n_words
    cdef double* table = nodes.table
    if is_shared(nodes, at):
        put_scaled(n, nodes.pull, table + nodes.source[at] * n, table + nodes.free * n)
        nodes.source[at] = <int32_t>nodes.free
        nodes.free += 1
    nodes.squares[at] += 2.0 * b * product + b * b * size
    nodes.own[at] = log_constant(sphere, nodes.squares[at])
    add_row(rows, row, b, table + nodes.source[at] * n)


def fill_parameters(
    const int32_t[::1] nodes,           # IN which nodes, by position in the tree
    const uint8_t[::1] is_drawn,        # IN (n_nodes,) whether directions are given
    const double[:, ::1] directions,    # IN (n_directions, n_words)
    const Py_ssize_t[::1] direction,    # IN (n_nodes,) which of them is theirs
    const Py_ssize_t[::1] parent,       # IN (n_nodes,)
    const Py_ssize_t[::1] children,     # IN (n_nodes - 1,) those of a node side by side
    const Py_ssize_t[::1] limits_below,  # IN (n_nodes + 1,) where those of a node begin
    const double[:, ::1] previous,      # IN (n_old, n_words)
    const Py_ssize_t[::1] past,         # IN (n_nodes,) which of them is theirs, -1
    const int32_t[::1] gone_indptr,     # IN sums of rows that are not at hand
    const int32_t[::1] gone_words, const double[::1] gone_values,
    const int32_t[::1] indptr, const int32_t[::1] words, const float[::1] values,
    const int32_t[::1] order_of_rows,   # IN rows, those of a node side by side
    const int32_t[::1] limits,          # IN (n_nodes + 1,) where nodes begin in them
    double strength,                    # beta
    double pull,                        # kappa0 k1
    double pull_of_past,                # kappa0 k2
    double[:, ::1] table,               # OUT (n_nodes, n_words)
    double[::1] squares,                # OUT (n_nodes,) |g|^2
    double[::1] own,                    # OUT (n_nodes,) log C(|g|)
    expansion: tuple[float, int, NDArray[float64]],
):
    """Write natural parameters of nodes to a table, or directions if these are drawn.

    Time O(n_words) for each of them and of their children, and O(stored values).
    """
    cdef Sphere sphere = read_sphere(expansion)
    cdef Rows rows
    cdef double* g
    cdef Py_ssize_t i, at, k, n = table.shape[1]
    rows.indptr = &indptr[0]
    rows.words = &words[0] if words.shape[0] else NULL
    rows.values = &values[0] if values.shape[0] else NULL
    with nogil:
        for i in range(nodes.shape[0]):
            at = nodes[i]
            g = &table[at, 0]
            if is_drawn[at]:
                put_scaled(n, 1.0, &directions[direction[at], 0], g)
                continue
            if at:
                put_scaled(n, pull, &directions[direction[parent[at]], 0], g)
            else:
                memset(g, 0, n * sizeof(double))
            if past[at] >= 0:
                add_scaled(n, pull_of_past, &previous[past[at], 0], g)
            for k in range(limits_below[at], limits_below[at + 1]):
                add_scaled(n, pull, &directions[direction[children[k]], 0], g)
            for k in range(gone_indptr[at], gone_indptr[at + 1]):
                g[gone_words[k]] += strength * gone_values[k]
            for k in range(limits[at], limits[at + 1]):
                add_row(&rows, order_of_rows[k], strength, g)
            squares[at] = dot_of_vectors(n, g, g)
            own[at] = log_constant(&sphere, squares[at])


def move_rows(
    const int32_t[::1] indptr, const int32_t[::1] words, const float[::1] values,
    const int32_t[::1] queue,           # IN rows, in the order of their visits
    const double[::1] log_slices,       # IN (n_rows,)
    int32_t[::1] place,                 # INOUT (n_rows,) the node of each
    const int32_t[::1] group,           # IN (n_nodes,) of nodes
    const int32_t[::1] members,         # IN nodes that rows may be at, group by group
    const int32_t[::1] first_members,   # IN (n_groups + 1,) where groups begin in them
    const double[::1] log_weights,      # IN (n_nodes,)
    const uint8_t[::1] is_drawn,        # IN (n_nodes,) whether directions are given
    const int32_t[::1] keeper,          # IN (n_nodes,) set of nodes, -1: none
    int32_t[::1] kept,                  # INOUT rows of each set, that stay above 0
    int32_t[::1] source,                # INOUT (n_nodes,) row of each in the table
    Py_ssize_t n_filled,                # nodes that have one for themselves
    Py_ssize_t free,                    # first of the rows for others
    double pull,
    double[:, ::1] table,               # INOUT (n_rows, n_words)
    double[::1] squares,                # INOUT (n_nodes,)
    double[::1] own,                    # INOUT (n_nodes,)
    double strength,
    double[::1] scores,                 # WORK (n_members of a group,)
    expansion: tuple[float, int, NDArray[float64]],
    bit_generator: BitGenerator,
) -> int:
    """Draw the node of each row among nodes of its group with weight above its slice.

    Given the nodes of all others, directions integrated out that are not drawn. Nodes
    from `n_filled` on have the natural parameter of another one, times `pull`, until a
    row comes to them. Returns how many rows moved. Time O(stored values * members).
    """
    cdef bitgen_t* rng = borrow(bit_generator)
    cdef Sphere sphere = read_sphere(expansion)
    cdef Rows rows
    cdef Nodes nodes
    cdef double b = strength, size, product, best, total, square
    cdef Py_ssize_t at, i, row, n_moved = 0
    cdef int32_t one, other, first, end
    cdef bint is_last
    if queue.shape[0] == 0 or members.shape[0] == 0 or words.shape[0] == 0:
        return 0
    rows.indptr, rows.words, rows.values = &indptr[0], &words[0], &values[0]
    rows.strength = strength
    nodes.n_words, nodes.table = table.shape[1], &table[0, 0]
    nodes.squares, nodes.own = &squares[0], &own[0]
    nodes.source, nodes.pull, nodes.n_filled = &source[0], pull, n_filled
    nodes.free = free
    with bit_generator.lock, nogil:
        for at in range(queue.shape[0]):
            row = queue[at]
            one = place[row]
            first, end = first_members[group[one]], first_members[group[one] + 1]
            # The last row of a set goes to nodes of this set alone.
            is_last = keeper[one] >= 0 and kept[keeper[one]] == 1
            size = square_of(&rows, row)
            best = -INFINITY
            for i in range(end - first):
                other = members[first + i]
                if other != one and (
                    log_weights[other] <= log_slices[row]
                    or (is_last and keeper[other] != keeper[one])
                ):
                    scores[i] = -INFINITY
                    continue
                product = product_of(&rows, row, &nodes, other)
                if is_drawn[other]:
                    scores[i] = b * product
                elif other == one:
                    square = nodes.squares[one] - 2.0 * b * product + b * b * size
                    scores[i] = log_constant(&sphere, max(square, 0.0))
                    scores[i] -= nodes.own[one]
                else:
                    square = nodes.squares[other] + 2.0 * b * product + b * b * size
                    scores[i] = nodes.own[other] - log_constant(&sphere, square)
                best = max(best, scores[i])
            total = 0.0
            for i in range(end - first):
                scores[i] = exp(scores[i] - best)
                total += scores[i]
            total *= uniform(rng)
            other = one
            for i in range(end - first):
                if scores[i] > 0.0:
                    other = members[first + i]
                    total -= scores[i]
                    if total < 0.0:
                        break
            if other == one:
                continue
            n_moved += 1
            if not is_drawn[one]:
                product = product_of(&rows, row, &nodes, one)
                put(&rows, row, -1.0, product, size, one, &nodes, &sphere)
            if not is_drawn[other]:
                product = product_of(&rows, row, &nodes, other)
                put(&rows, row, 1.0, product, size, other, &nodes, &sphere)
            place[row] = other
            if keeper[one] >= 0:
                kept[keeper[one]] -= 1
            if keeper[other] >= 0:
                kept[keeper[other]] += 1
    return n_moved


def allocate(
    const int32_t[::1] indptr, const int32_t[::1] words, const float[::1] values,
    const int32_t[::1] queue,           # IN rows, in the order of their allocation
    int8_t[::1] side,                   # INOUT (n_queue,) 0 or 1
    bint is_forced,
    double[:, ::1] table,               # INOUT (2, n_words) natural parameters so far
    double[::1] squares,                # INOUT (2,)
    double[::1] own,                    # INOUT (2,)
    double[::1] counts,                 # INOUT (2,) rows so far
    double strength,
    expansion: tuple[float, int, NDArray[float64]],
    bit_generator: BitGenerator,
) -> float:
    """Allocate rows to two nodes one by one, given the rows allocated before.

    With probabilities in proportion to rows so far times density. If forced, `side`
    has the node of each. Returns the log probability of the result.
    """
    cdef bitgen_t* rng = borrow(bit_generator)
    cdef Sphere sphere = read_sphere(expansion)
    cdef Rows rows
    cdef Nodes nodes
    cdef int32_t[2] itself = [0, 1]
    cdef double b = strength, size, total = 0.0, log_odds, loss
    cdef double[2] products
    cdef double[2] scores
    cdef Py_ssize_t at, row, k
    if queue.shape[0] == 0:
        return 0.0
    rows.indptr, rows.words, rows.values = &indptr[0], &words[0], &values[0]
    rows.strength = strength
    nodes.n_words, nodes.table = table.shape[1], &table[0, 0]
    nodes.squares, nodes.own = &squares[0], &own[0]
    nodes.source, nodes.n_filled = &itself[0], 2
    with bit_generator.lock, nogil:
        for at in range(queue.shape[0]):
            row = queue[at]
            size = square_of(&rows, row)
            for k in range(2):
                products[k] = dot(&rows, row, nodes.table + k * nodes.n_words)
                scores[k] = log(counts[k]) + nodes.own[k] - log_constant(
                    &sphere, nodes.squares[k] + 2.0 * b * products[k] + b * b * size
                )
            log_odds = scores[1] - scores[0]
            if not is_forced:
                # Of the second: 1 / (1 + exp(-log odds)).
                if log_odds > 0.0:
                    side[at] = uniform(rng) * (1.0 + exp(-log_odds)) < 1.0
                else:
                    side[at] = uniform(rng) * (1.0 + exp(log_odds)) < exp(log_odds)
            loss = -log_odds if side[at] else log_odds  # log odds against what was done
            total -= loss + log1p(exp(-loss)) if loss > 0.0 else log1p(exp(loss))
            k = side[at]
            put(&rows, row, 1.0, products[k], size, k, &nodes, &sphere)
            counts[k] += 1.0
    return total
