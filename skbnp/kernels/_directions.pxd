"""Mean directions of the nodes of an epoch, and what they are worth."""

from libc.stdint cimport int32_t

from skbnp.kernels._normaliser cimport Sphere


# Nodes of an epoch, by position in its tree, and what is known of them.
cdef struct Epoch:
    Sphere sphere
    Py_ssize_t n_words
    double* means               # (n_nodes, n_words) E
    const double* previous      # (n_before, n_words) mu^(t-1)
    const Py_ssize_t* past      # (n_nodes,) rows there, -1 of new nodes
    const double* above         # (n_words,) mean of the parent of the root
    const double* centroid      # (n_words,) a row more at the root
    const Py_ssize_t* parent    # (n_nodes,)
    const Py_ssize_t* children  # (n_nodes - 1,) those of a node side by side
    const Py_ssize_t* limits    # (n_nodes + 1,) where those of a node begin
    const int32_t* indptr       # sums s of rows
    const int32_t* words
    const double* values
    double strength             # beta
    double pull                 # kappa0 k1
    double pull_of_past         # kappa0 k2


cdef Epoch read_epoch(object known) except *
cdef double square_of(const Epoch* e, Py_ssize_t row, double* squares) noexcept nogil
cdef double prior_square(const Epoch* e, double along) noexcept nogil
cdef double past_slope(const Epoch* e, double square) noexcept nogil
cdef void fill_natural(
    const Epoch* e, Py_ssize_t row, double* natural
) noexcept nogil
cdef double row_gain(
    const Sphere* s, double square, double along, double own, double strength,
    double share, double spread,
) noexcept nogil
cdef double best_length(
    const Sphere* s, double natural, double spread,
    Py_ssize_t n_below, const double* below, double pull,
) noexcept nogil
cdef double worth_of(
    const Sphere* s, double e, double natural, double spread,
    Py_ssize_t n_below, const double* below, double pull,
) noexcept nogil


cdef inline const double* past_of(const Epoch* e, Py_ssize_t row) noexcept nogil:
    """Previous direction of a node; NULL where there is none."""
    if e.past[row] >= 0:
        return e.previous + e.past[row] * e.n_words
    return NULL
