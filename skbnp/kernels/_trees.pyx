"""Parents of nodes in depth-first order, and sums along the tree."""

ctypedef fused Number:
    Py_ssize_t
    double


def find_parents(
    const Py_ssize_t[::1] depth,        # IN (n_nodes,) of a tree
    Py_ssize_t[::1] last,               # WORK (n_nodes,)
    Py_ssize_t[::1] parent,             # OUT (n_nodes,) -1 of the root
):
    """Find the parent of each node: the last one before, one level up."""
    cdef Py_ssize_t i, n = depth.shape[0]
    with nogil:
        for i in range(n):
            parent[i] = last[depth[i] - 1] if i else -1
            last[depth[i]] = i


def add_up(
    const Py_ssize_t[::1] parent,       # IN (n_nodes,) each before its children
    Number[::1] totals,                 # INOUT (n_nodes,) of each, then from it down
):
    """Sum values up the tree, the last node first."""
    cdef Py_ssize_t i, n = parent.shape[0]
    with nogil:
        for i in range(n - 1, 0, -1):
            totals[parent[i]] += totals[i]
