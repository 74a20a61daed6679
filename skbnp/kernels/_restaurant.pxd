"""Expected tables of words in the restaurant of a document, see src/restaurant.h."""

from libc.math cimport fmax, fmin

from skbnp.kernels._math cimport fast_log

cdef extern from "src/restaurant.h" nogil:
    cdef struct Restaurant "skbnp_restaurant":
        const float* expected
        Py_ssize_t n_rows
        float discount, concentration
    float expected_tables(const Restaurant* r, float n, float mass)
    enum:
        GRID_EXACT
        GRID_PER_OCTAVE
        GRID_COLUMNS
    float GRID_FIRST
    float GRID_PER_UNIT


cdef inline int read_grid(
    Restaurant* r, const float[:, ::1] grid, double discount, double concentration
) except -1:
    """Read the grid of a restaurant; None for one of no rows."""
    r.expected, r.n_rows = NULL, 0
    if grid is None:
        return 0
    if grid.shape[1] != GRID_COLUMNS:
        raise ValueError("grid and GRID_COLUMNS disagree")
    r.expected, r.n_rows = &grid[0, 0], grid.shape[0]
    r.discount, r.concentration = <float>discount, <float>concentration
    return 0


cdef inline double log_repeating(
    const Restaurant* r, double d, double c, double n, double others, double n_tokens,
    double p,
) noexcept nogil:
    """Log probability of one of the `n` tokens of a word given all others.

    `others` are the tables of all other words of the document, `n_tokens` its tokens, d
    and c discount and concentration, p the probability of the word under the topics.
    """
    cdef double before = 0.0, share = 0.0, rest = n - 1.0, opens = (c + d * others) * p
    if rest > 0.0:
        before = expected_tables(r, <float>fmin(rest, 1e30), <float>opens)
        share = fmax(rest - d * before, 0.0)
    share += (c + d * (others + before)) * p
    return fast_log(fmax(share / (c + fmax(n_tokens - 1.0, 0.0)), 1e-300))
