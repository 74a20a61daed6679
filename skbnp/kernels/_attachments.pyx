"""Gain of the bound by moving nodes of a dependent tree below others.

The terms of a node and its children, with the direction of the node at its best below
the one parent and the other, and those of the sticks: E below is the mean of a
direction, mu a previous one, see `_directions`.
"""

from libc.math cimport sqrt
from libc.string cimport memset

from skbnp.kernels._directions cimport (
    Epoch,
    best_length,
    fill_natural,
    past_of,
    past_slope,
    prior_square,
    read_epoch,
    square_of,
    worth_of,
)
from skbnp.kernels._normaliser cimport log_constant
from skbnp.kernels._sticks cimport log_beta
from skbnp.kernels._vectors cimport add_scaled, dot, put_both


# Sticks of a tree; rows are those of now and before, then those of before alone.
cdef struct Sticks:
    Py_ssize_t n_nodes
    const Py_ssize_t* parent
    const double* masses        # (2, n_nodes) rows at each node
    double* under               # (2, n_nodes) rows below it
    double* behind              # (2, n_nodes) rows from its later siblings down
    double* evidence            # (n_nodes,) of the two sticks of a node
    double* down                # WORK (n_nodes,) how often a subtree comes below
    double* later               # WORK (n_nodes,) and below children that were seen
    double stop                 # alpha
    double child                # gamma


# The direction of a node, without what its parent says.
cdef struct Direction:
    Py_ssize_t node
    double* rest                # (n_words,)
    double* natural             # WORK (n_words,) with a parent
    double* slopes              # (n_below,) of the priors of children, in E'mu
    double* below               # (n_below,) |E| of children
    double* squares             # (n_nodes,) E'E, -1 where not known yet


def attachment_gains(
    const Py_ssize_t[::1] nodes,        # IN (n_pairs,) those that are alike in a row
    const Py_ssize_t[::1] parents,      # IN (n_pairs,) others, none below the node
    const double[:, ::1] masses,        # IN (2, n_nodes) see `Sticks`
    double stop, double child,
    double[::1] squares,                # WORK (n_nodes,) E'E, -1 where not known yet
    double[:, ::1] by_node,             # WORK (9, n_nodes)
    double[:, ::1] by_word,             # WORK (2, n_words)
    double[::1] found,                  # OUT (n_pairs,)
    known: tuple,                       # IN see `read_epoch`
):
    """Gain of the bound if a node becomes the last child of a parent, by pair.

    Time O(n_words) for each pair, for each child of its node with a past, and once for
    other children; and O(n_nodes).
    """
    cdef Epoch epoch = read_epoch(known)
    cdef Sticks sticks
    cdef Direction direction
    cdef double present = 0.0
    cdef Py_ssize_t i
    sticks.n_nodes, sticks.parent = squares.shape[0], epoch.parent
    sticks.masses, sticks.stop, sticks.child = &masses[0, 0], stop, child
    sticks.under, sticks.behind = &by_node[0, 0], &by_node[2, 0]
    sticks.evidence, sticks.down = &by_node[4, 0], &by_node[5, 0]
    sticks.later = &by_node[6, 0]
    direction.node, direction.squares = -1, &squares[0]
    direction.slopes, direction.below = &by_node[7, 0], &by_node[8, 0]
    direction.rest, direction.natural = &by_word[0, 0], &by_word[1, 0]
    with nogil:
        fill_sticks(&sticks)
        for i in range(nodes.shape[0]):
            if nodes[i] != direction.node:
                fill_direction(&epoch, nodes[i], &direction)
                present = worth_below(&epoch, &direction, epoch.parent[nodes[i]])
            found[i] = worth_below(&epoch, &direction, parents[i])
            found[i] += stick_gain(&sticks, nodes[i], parents[i]) - present


cdef void fill_direction(
    const Epoch* e, Py_ssize_t node, Direction* d
) noexcept nogil:
    """Sum the natural parameter of a node from all except its parent."""
    cdef Py_ssize_t n = e.n_words, first = e.limits[node], i
    cdef const double* mu
    d.node = node
    fill_natural(e, node, d.rest)
    add_scaled(n, -e.pull, e.means + e.parent[node] * n, d.rest)
    for i in range(e.limits[node + 1] - first):
        d.below[i] = sqrt(square_of(e, e.children[first + i], d.squares))
        mu = past_of(e, e.children[first + i])
        if mu != NULL:
            d.slopes[i] = past_slope(e, prior_square(e, dot(n, e.means + node * n, mu)))


cdef double worth_below(
    const Epoch* e, Direction* d, Py_ssize_t parent
) noexcept nogil:
    """Terms of a node, at its best below a parent, and of its children.

    But for those that are the same below all parents.
    """
    cdef Py_ssize_t n = e.n_words, first = e.limits[d.node], i
    cdef Py_ssize_t n_below = e.limits[d.node + 1] - first
    cdef const double* up = e.means + parent * n
    cdef const double* mu = past_of(e, d.node)
    cdef double spread, natural, length, found, along
    put_both(n, 1.0, d.rest, e.pull, up, d.natural)
    natural = sqrt(dot(n, d.natural, d.natural))
    spread = e.pull * e.pull * max(1.0 - square_of(e, parent, d.squares), 0.0)
    length = best_length(&e.sphere, natural, spread, n_below, d.below, e.pull)
    found = worth_of(&e.sphere, length, natural, spread, n_below, d.below, e.pull)
    if mu != NULL:
        found += log_constant(&e.sphere, prior_square(e, dot(n, up, mu)))
    for i in range(n_below):
        mu = past_of(e, e.children[first + i])
        if mu != NULL:  # its prior itself, and not the slope that stands in `natural`
            along = length * dot(n, d.natural, mu) / max(natural, 1e-300)
            found += log_constant(&e.sphere, prior_square(e, along))
            found -= d.slopes[i] * along
    return found


cdef double evidence_of(
    const Sticks* s, Py_ssize_t i, Py_ssize_t node, double down, double later
) noexcept nogil:
    """Log evidence of the sticks of a node where another goes below a new parent.

    Rows of the other come so often below the node, and behind it; the other itself has
    none behind it. Where they were all, nothing is left, to the last bit: priors may be
    less than what rounding leaves.
    """
    cdef Py_ssize_t k, at, n = s.n_nodes
    cdef double evidence[2]
    cdef double masses, under, behind, moved
    for k in range(2):
        at, moved = k * n + i, s.masses[k * n + node] + s.under[k * n + node]
        masses, under = s.masses[at], max(s.under[at] + down * moved, 0.0)
        behind = max(s.behind[at] + later * moved, 0.0) if i != node else 0.0
        evidence[k] = log_beta(1.0 + masses, s.stop + under)
        if i:
            evidence[k] += log_beta(1.0 + (masses + under), s.child + behind)
    return evidence[0] - evidence[1]


cdef void fill_sticks(Sticks* s) noexcept nogil:
    """Sum rows over the present tree, and compute the evidence of its sticks."""
    cdef Py_ssize_t n = s.n_nodes, k, i, up
    for k in range(2):
        for i in range(n):
            s.under[k * n + i] = 0.0
        for i in range(n - 1, 0, -1):
            up = s.parent[i]
            s.behind[k * n + i] = s.under[k * n + up]
            s.under[k * n + up] += s.masses[k * n + i] + s.under[k * n + i]
        s.behind[k * n] = 0.0
    for i in range(n):
        s.evidence[i] = evidence_of(s, i, 0, 0.0, 0.0)  # the root stays


cdef double stick_gain(Sticks* s, Py_ssize_t node, Py_ssize_t parent) noexcept nogil:
    """Gain of the evidence of sticks if a node becomes the last child of another.

    Those above the old parent lose its rows, those above the new one have them; so do
    their earlier siblings among the rows behind them.
    """
    cdef Py_ssize_t at, up
    cdef double later, gain = 0.0
    memset(s.down, 0, s.n_nodes * sizeof(double))
    memset(s.later, 0, s.n_nodes * sizeof(double))
    at = s.parent[node]
    while at >= 0:
        s.down[at] -= 1.0
        at = s.parent[at]
    at = parent
    while at >= 0:
        s.down[at] += 1.0
        at = s.parent[at]
    s.later[parent] = 1.0
    for at in range(s.n_nodes - 1, 0, -1):
        up = s.parent[at]
        later = s.later[up]
        s.later[up] += s.down[at]
        if at == node:
            s.later[up] -= 1.0
        if at == node or s.down[at] != 0.0 or later != 0.0:
            gain += evidence_of(s, at, node, s.down[at], later) - s.evidence[at]
    return gain
