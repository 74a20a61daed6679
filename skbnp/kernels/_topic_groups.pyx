"""Gains of merges of groups of topics, by the evidence of documents' counts.

The evidence is that of `skbnp.components.topic_groups`, which defines the symbols.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t

from skbnp.kernels._math cimport log_gamma

cdef extern from "src/groups.h" nogil:
    void add_rising(
        Py_ssize_t n, const double* mean, const double* some, Py_ssize_t n_bases,
        const double* bases, double* sums,
    )
    void add_differences(
        Py_ssize_t n, const double* one, const double* other, const double* base,
        const int32_t* group, double inner, double none, double* gains,
    )
    double interpolate(
        Py_ssize_t n, const double* node, const double* factor, const double* f,
        const double* g, double x,
    )

# Pairs of counts at a time.
cdef enum:
    CHUNK = 64


def rising_sums(
    const double[::1] means,            # IN    (n,) N / P > 0
    const double[::1] some,             # IN    (n,) P
    const double[::1] bases,            # IN    (n_bases,) > 0
    double[::1] sums,                   # INOUT (n_bases,)
):
    """Add sum_i P_i [lnG(x + N_i / P_i) - lnG(x)] to the place of each base x.

    Time O(n * n_bases); no allocation.
    """
    if sums.shape[0] != bases.shape[0] or means.shape[0] != some.shape[0]:
        raise ValueError("means and some, or bases and sums, disagree on their length")
    if means.shape[0] and bases.shape[0]:
        with nogil:
            add_rising(
                means.shape[0], &means[0], &some[0], bases.shape[0], &bases[0], &sums[0]
            )


def merge_gains(
    const int32_t[::1] docs,            # IN    (n,) documents with tokens of a group
    const double[::1] tokens,           # IN    (n,) N_jg > 0
    const int32_t[::1] indptr,          # IN    (n_docs + 1,)
    const int32_t[::1] topics,          # IN    (nnz,)
    const double[::1] counts,           # IN    (nnz,) N_jk > 0
    const int32_t[::1] labels,          # IN    (n_topics,) group of each topic
    Py_ssize_t own,                     # IN    the group
    double outer,                       # IN    A0
    double inner,                       # IN    A1
    const double[::1] weights,          # IN    (n_groups,) b_g, zero: not compared
    const double[:, ::1] tables,        # IN    (n_groups, n_nodes)
    const double[::1] offsets,          # IN    (n_groups,) added to values of tables
    const double[::1] nodes,            # IN    (n_nodes,) log b
    const double[::1] factors,          # IN    (n_nodes,) of the interpolation
    double[::1] sums,                   # WORK  (n_groups,) zeros, and again at the end
    int32_t[::1] seen,                  # WORK  (n_groups,)
    double[::1] gains,                  # OUT   (n_groups,) -inf where none is compared
):
    """Gain of merging the group with each other one, in nats.

    With b = b_g + b_h, the tables of both at b, their offsets, and a sum over documents
    that have tokens of both, of

        d(A0 b) - d(A1),  d(x) = r(x, N_jg + N_jh) - r(x, N_jg) - r(x, N_jh).

    Time O(topics in the documents of the group + n_groups * n_nodes); no allocation.
    """
    cdef Py_ssize_t n_groups = gains.shape[0], n = 0, row, at, i, n_seen
    cdef double unused, none = log_gamma(inner, &unused), b
    cdef double[CHUNK] one, other, base  # pairs that are not added yet
    cdef int32_t[CHUNK] of
    cdef int32_t group
    if docs.shape[0] != tokens.shape[0] or topics.shape[0] != counts.shape[0]:
        raise ValueError("docs and tokens, or topics and counts, disagree")
    if not n_groups == weights.shape[0] == tables.shape[0] == offsets.shape[0]:
        raise ValueError("weights, tables, offsets and gains disagree on the groups")
    if not n_groups == sums.shape[0] == seen.shape[0] or not 0 <= own < n_groups:
        raise ValueError("sums, seen and own must fit the groups")
    if not 0 < tables.shape[1] == nodes.shape[0] == factors.shape[0]:
        raise ValueError("tables, nodes and factors disagree on the nodes")
    with nogil:
        for group in range(n_groups):
            gains[group] = -INFINITY
            if group != own and weights[group] > 0.0:
                b = weights[own] + weights[group]
                gains[group] = offsets[own] + offsets[group] + interpolate(
                    nodes.shape[0], &nodes[0], &factors[0], &tables[own, 0],
                    &tables[group, 0], log(b if b < 1.0 else 1.0),
                )
        for row in range(docs.shape[0]):
            n_seen = 0
            for at in range(indptr[docs[row]], indptr[docs[row] + 1]):
                group = labels[topics[at]]
                if group == own or weights[group] == 0.0:
                    continue
                if sums[group] == 0.0:
                    seen[n_seen] = group
                    n_seen += 1
                sums[group] += counts[at]
            for i in range(n_seen):
                group = seen[i]
                one[n], other[n], of[n] = tokens[row], sums[group], group
                base[n] = outer * (weights[own] + weights[group])
                sums[group] = 0.0
                n += 1
                if n == CHUNK:
                    add_differences(n, one, other, base, of, inner, none, &gains[0])
                    n = 0
        add_differences(n, one, other, base, of, inner, none, &gains[0])
