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
    cdef Py_ssize_t n = parent.shape[0], i
    cdef double* through
    cdef double* behind
    # Rows from later siblings come to where their parent's own wait to be read.
    with nogil:
        through, behind = &found[2, 0], &found[1, 0]
        for i in range(n):
            through[i], behind[i] = masses[i], 0.0
        for i in range(n - 1, 0, -1):
            found[3, i] = child + behind[parent[i]]
            behind[parent[i]] += through[i]
            through[parent[i]] += through[i]
        found[3, 0] = child
        for i in range(n):
            found[0, i] = 1.0 + masses[i]
            found[1, i] = stop + (through[i] - masses[i])
            found[2, i] = 1.0 + through[i]


def expected_log_weights(
    const Py_ssize_t[::1] parent,       # IN (n_nodes,)
    const double[:, ::1] parameters,    # IN (4, n_nodes), see `beta_parameters`
    double[:, ::1] work,                # WORK (6, n_nodes)
    double[::1] found,                  # OUT (n_nodes,) E log pi
):
    """Expected logarithms of the weights of nodes."""
    cdef Py_ssize_t n = parent.shape[0], i, above
    cdef double into, take
    cdef double* skipped
    cdef double* reached
    with nogil:
        all_digamma(4 * n, &parameters[0, 0], &work[0, 0])
        for i in range(n):
            found[i] = parameters[0, i] + parameters[1, i]
            work[5, i] = parameters[2, i] + parameters[3, i]
        all_digamma(n, &found[0], &work[4, 0])
        all_digamma(n, &work[5, 0], &found[0])
        # Of a node: what its children so far leave, and the way to it.
        skipped, reached = &work[5, 0], &found[0]
        for i in range(n):
            skipped[i] = 0.0
            into = 0.0
            if i:
                above = parent[i]
                take = work[2, i] - found[i]
                into = reached[above] + (work[1, above] - work[4, above])
                into += skipped[above] + take
                skipped[above] += work[3, i] - found[i]
            reached[i] = into
        for i in range(n):
            found[i] += work[0, i] - work[4, i]
