"""Sticks of a tree with nodes in depth-first order: Beta parameters, expected logs."""

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
    """Write Beta parameters, see `beta_parameters`."""
    # Rows of later siblings are summed in the places of their parent.
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
    """Write E log pi, see `expected_log_weights`."""
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


# Rows of a tree from its nodes down, and whose children they are.
cdef struct Subtrees:
    const Py_ssize_t* children  # (n_nodes - 1,) those of a node side by side
    const Py_ssize_t* limits    # (n_nodes + 1,) where those of a node begin
    double* through             # (n_nodes,) rows from each down, of all epochs
    double* past                # (n_nodes,) those of epochs before
    double child                # gamma

# Rows behind a child: of all epochs, and of those before.
cdef struct Rest:
    double through
    double past


cdef inline double stick_evidence(
    double rows, double past, double rest, double past_rest, double prior
) noexcept nogil:
    """Log evidence of a stick: rows that it took and left, and those before alone.

    What is left may be less than nothing by rounding, and more than the prior.
    """
    rest, past_rest = max(rest, 0.0), max(past_rest, 0.0)
    return log_beta(1.0 + rows, prior + rest) - log_beta(1.0 + past, prior + past_rest)


cdef double list_evidence(
    const Subtrees* s, Py_ssize_t node, Py_ssize_t source, Py_ssize_t target,
    Rest* behind,
) noexcept nogil:
    """Log evidence of the child sticks of a list of siblings, and what it leaves.

    Without the source, whose rows the target has, if it is among them; -1 are none.
    """
    cdef double total = 0.0, through, past
    cdef Py_ssize_t at, child
    for at in range(s.limits[node + 1] - 1, s.limits[node] - 1, -1):
        child = s.children[at]
        if child == source:
            continue
        through, past = s.through[child], s.past[child]
        if child == target:
            through += s.through[source]
            past += s.past[source]
        total += stick_evidence(through, past, behind.through, behind.past, s.child)
        behind.through += through
        behind.past += past
    return total


cdef double merge_gain(
    const Subtrees* s, Py_ssize_t source, Py_ssize_t target, Py_ssize_t above,
    const double* masses, const double* history, double stop,
) noexcept nogil:
    """Rise of the evidence of all sticks when one node is merged into another."""
    cdef Rest behind
    cdef double gain, past, rows, through, past_through
    # Children of the source stand behind those of the target.
    behind.through = behind.past = 0.0
    gain = list_evidence(s, source, -1, -1, &behind)
    gain += list_evidence(s, target, source, -1, &behind)
    behind.through = behind.past = 0.0
    gain -= list_evidence(s, source, -1, -1, &behind)
    behind.through = behind.past = 0.0
    gain -= list_evidence(s, target, -1, -1, &behind)
    through, past_through = s.through[target], s.past[target]
    if above != target:
        behind.through = behind.past = 0.0
        gain += list_evidence(s, above, source, target, &behind)
        behind.through = behind.past = 0.0
        gain -= list_evidence(s, above, -1, -1, &behind)
        through += s.through[source]
        past_through += s.past[source]
    gain -= stop_evidence(s, source, masses, history, stop)
    gain -= stop_evidence(s, target, masses, history, stop)
    past = history[source] + history[target]
    # In the order of `through`: of two leaves there is nothing left, to the last bit.
    rows = (masses[source] + history[source]) + (masses[target] + history[target])
    return gain + stick_evidence(rows, past, through - rows, past_through - past, stop)


cdef double stop_evidence(
    const Subtrees* s, Py_ssize_t node, const double* masses, const double* history,
    double stop,
) noexcept nogil:
    """Log evidence of the stop stick of a node."""
    cdef double past = history[node], rows = masses[node] + past
    return stick_evidence(rows, past, s.through[node] - rows, s.past[node] - past, stop)


def merge_gains(
    const Py_ssize_t[::1] sources,      # IN (n_pairs,) nodes
    const Py_ssize_t[::1] targets,      # IN (n_pairs,) siblings, or parents
    const Py_ssize_t[::1] parent,       # IN (n_nodes,)
    const Py_ssize_t[::1] children,     # IN (n_nodes - 1,) those of a node side by side
    const Py_ssize_t[::1] limits,       # IN (n_nodes + 1,) where those of a node begin
    const double[::1] masses,           # IN (n_nodes,) rows at each node
    const double[::1] history,          # IN (n_nodes,) those of epochs before
    double stop,
    double child,
    double[:, ::1] work,                # WORK (2, n_nodes)
    double[::1] found,                  # OUT (n_pairs,)
):
    """Return by how much the evidence of all sticks rises when two nodes merge."""
    cdef Py_ssize_t n = parent.shape[0], i
    cdef Subtrees s
    s.children = &children[0] if children.shape[0] else NULL
    s.limits, s.child = &limits[0], child
    s.through, s.past = &work[0, 0], &work[1, 0]
    with nogil:
        for i in range(n):
            s.through[i], s.past[i] = masses[i] + history[i], history[i]
        for i in range(n - 1, 0, -1):
            s.through[parent[i]] += s.through[i]
            s.past[parent[i]] += s.past[i]
        for i in range(sources.shape[0]):
            found[i] = merge_gain(
                &s, sources[i], targets[i], parent[sources[i]], &masses[0], &history[0],
                stop,
            )
