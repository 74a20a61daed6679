"""Sticks of a tree whose nodes stand depth first: sums over rows and expected logs."""

cdef extern from "src/arrays.h" nogil:
    void all_digamma(Py_ssize_t n, const double* x, double* out)


def beta_parameters(
    const Py_ssize_t[::1] parent,       # IN (n_nodes,) -1 of the root
    const double[::1] masses,           # IN (n_nodes,) rows at each node
    double stop,
    double child,
    double[:, ::1] found,               # OUT (4, n_nodes)
):
    """Beta parameters of the stop sticks, (1 + X, stop + Y), and of the child sticks.

    Those are (1 + X + Y, child + rows from later siblings down), X rows being at a node
    and Y below it.
    """
    with nogil:
        put_parameters(
            parent.shape[0], &parent[0], &masses[0], stop, child, &found[0, 0]
        )


def expected_log_weights(
    const Py_ssize_t[::1] parent,       # IN (n_nodes,)
    const double[:, ::1] parameters,    # IN (4, n_nodes), see `beta_parameters`
    double[:, ::1] work,                # WORK (6, n_nodes)
    double[::1] found,                  # OUT (n_nodes,) E log pi
):
    """Expected logarithms of the weights of nodes."""
    with nogil:
        put_log_weights(
            parent.shape[0], &parent[0], &parameters[0, 0], &work[0, 0], &found[0]
        )


cdef void put_parameters(
    Py_ssize_t n, const Py_ssize_t* parent, const double* masses, double stop,
    double child, double* found,
) noexcept nogil:
    """Put Beta parameters, see `beta_parameters`."""
    # Rows from later siblings come to where their parent's own wait to be read.
    cdef double* behind = found + n
    cdef double* through = found + 2 * n
    cdef double* rest = found + 3 * n
    cdef Py_ssize_t i
    for i in range(n):
        through[i], behind[i] = masses[i], 0.0
    for i in range(n - 1, 0, -1):
        rest[i] = child + behind[parent[i]]
        behind[parent[i]] += through[i]
        through[parent[i]] += through[i]
    rest[0] = child
    for i in range(n):
        found[i] = 1.0 + masses[i]
        found[n + i] = stop + (through[i] - masses[i])
        through[i] += 1.0


cdef void put_log_weights(
    Py_ssize_t n, const Py_ssize_t* parent, const double* parameters, double* work,
    double* found,
) noexcept nogil:
    """Put E log pi, see `expected_log_weights`."""
    cdef double* both = work + 4 * n
    # Of a node: what its children so far leave, and the way to it.
    cdef double* skipped = work + 5 * n
    cdef double into
    cdef Py_ssize_t i, above
    all_digamma(4 * n, parameters, work)
    for i in range(n):
        found[i] = parameters[i] + parameters[n + i]
        skipped[i] = parameters[2 * n + i] + parameters[3 * n + i]
    all_digamma(n, found, both)
    all_digamma(n, skipped, found)
    for i in range(n):
        skipped[i] = 0.0
        into = 0.0
        if i:
            above = parent[i]
            into = found[above] + (work[n + above] - both[above])
            into += skipped[above] + (work[2 * n + i] - found[i])
            skipped[above] += work[3 * n + i] - found[i]
        found[i] = into
    for i in range(n):
        found[i] += work[i] - both[i]
