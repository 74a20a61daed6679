"""Tables of words in the Pitman-Yor restaurant of a document.

Of n tokens of a word that sit at t tables, each opened with mass m,

    p(t | n, m) ~ S_d(n, t) m^t,    S_d(n + 1, t) = S_d(n, t - 1) + (n - d t) S_d(n, t),

with S_d the generalised Stirling numbers of discount d [1].

References
----------
.. [1] Buntine and Mishra, "Experiments with Non-parametric Topic Models", KDD 2014.
"""

import numpy as np

from libc.math cimport INFINITY, fmax, lgamma, log

from skbnp.kernels._interrupts cimport count_work
from skbnp.kernels._math cimport fast_exp
from skbnp.kernels._restaurant cimport (
    GRID_COLUMNS,
    GRID_EXACT,
    GRID_FIRST,
    GRID_PER_OCTAVE,
    GRID_PER_UNIT,
    Restaurant,
    expected_tables,
    log_repeating,
    read_grid,
)

#: Most tokens of a row of the grid: the numbers of a row stay in the range of doubles.
MOST_TOKENS = 1024


def n_grid_rows(double most) -> int:
    """Rows of a grid for words of up to `most` tokens in a document, capped."""
    cdef double n = min(most, <double>MOST_TOKENS)
    if n <= GRID_EXACT:
        return max(int(np.ceil(n)), 1) + 1
    return GRID_EXACT + int(np.ceil(GRID_PER_OCTAVE * np.log2(n / GRID_EXACT))) + 1


cdef double _expect(
    const double* log_a, const double* log_factorial, Py_ssize_t n, double log_mass,
) noexcept nogil:
    """Mean of t, 1 <= t <= n, under weights a_t m^t / (t - 1)!."""
    cdef double highest = -INFINITY, total = 0.0, mean = 0.0, weight
    cdef Py_ssize_t t
    for t in range(1, n + 1):
        weight = log_a[t] + t * log_mass - log_factorial[t]
        highest = fmax(highest, weight)
    for t in range(1, n + 1):
        weight = log_a[t] + t * log_mass - log_factorial[t] - highest
        if weight > -60.0:
            weight = fast_exp(weight)
            total += weight
            mean += t * weight
    return mean / total


def expected_tables_grid(double discount, Py_ssize_t n_rows) -> NDArray[float32]:
    """Expected tables on the grid of `src/restaurant.h`, (n_rows, GRID_COLUMNS).

    With a(n, t) = S_d(n, t) (t - 1)! / (n - 1)!, whose range is that of doubles,

        a(n + 1, t) = a(n, t - 1) (t - 1) / n + a(n, t) (n - d t) / n.

    Time O(n^2 + columns * sum of n over the rows).
    """
    if not 0.0 <= discount < 1.0:
        raise ValueError("discount must be in [0, 1)")
    places = np.arange(n_rows, dtype=np.float64)
    above = places > GRID_EXACT
    places[above] = np.rint(
        GRID_EXACT * 2.0 ** ((places[above] - GRID_EXACT) / GRID_PER_OCTAVE)
    )
    cdef Py_ssize_t[::1] tokens = places.astype(np.intp)
    cdef Py_ssize_t most = tokens[n_rows - 1], n = 1, row, column, t, done = 0
    if most > 2 * MOST_TOKENS:
        raise ValueError("n_rows is too large")
    grid = np.zeros((n_rows, GRID_COLUMNS), dtype=np.float32)
    cdef float[:, ::1] expected = grid
    cdef double[::1] a = np.zeros(most + 2)
    cdef double[::1] log_a = np.full(most + 2, -INFINITY)
    cdef double[::1] log_factorial = np.zeros(most + 2)
    with nogil:
        for t in range(1, most + 2):
            log_factorial[t] = lgamma(<double>t)
        a[1] = 1.0
        for row in range(1, n_rows):
            while n < tokens[row]:
                for t in range(n + 1, 0, -1):
                    a[t] *= (n - discount * t) / n
                    a[t] += a[t - 1] * (t - 1) / n
                n += 1
            for t in range(1, n + 1):
                log_a[t] = log(a[t]) if a[t] > 0.0 else -INFINITY
            for column in range(GRID_COLUMNS):
                expected[row, column] = <float>_expect(
                    &log_a[0], &log_factorial[0], n,
                    GRID_FIRST + column / <double>GRID_PER_UNIT,
                )
                count_work(n, &done)
    return grid


def tables_of(
    const double[::1] counts,       # IN    (n,) tokens, > 0
    const double[::1] mass,         # IN    (n,) of a new table, > 0
    const float[:, ::1] grid not None,  # IN    of `discount`
    double discount,
) -> NDArray[float64]:
    """Expected tables of each, (n,), from the grid."""
    cdef Py_ssize_t i, n = counts.shape[0]
    cdef Restaurant r
    if mass.shape[0] != n:
        raise ValueError("counts and mass disagree")
    tables = np.empty(n)
    cdef double[::1] put = tables
    read_grid(&r, grid, discount, 0.0)
    with nogil:
        for i in range(n):
            put[i] = <double>expected_tables(&r, <float>counts[i], <float>mass[i])
    return tables


def leave_one_out(
    const double[::1] counts,       # IN    (n,) tokens of a word in a document
    const double[::1] tables,       # IN    (n,) their expected tables
    const double[::1] base,         # IN    (n,) p, probability under the topics
    const double[::1] doc_tables,   # IN    (n,) tables of the document
    const double[::1] doc_tokens,   # IN    (n,) tokens of the document
    const float[:, ::1] grid not None,  # IN    of `discount`
    double discount,
    double concentration,
) -> NDArray[float64]:
    """Log probability of each token given all others of its document, (n,).

    With t1 = E[t | n - 1, m] and m = (c + d [T - t]) p,

        n log( ([n - 1 - d t1]_+ + (c + d [T - t + t1]) p) / (c + N - 1) ).
    """
    cdef Py_ssize_t i, n = counts.shape[0]
    cdef double others
    cdef Restaurant r
    logs = np.empty(n)
    cdef double[::1] put = logs
    read_grid(&r, grid, discount, concentration)
    with nogil:
        for i in range(n):
            others = fmax(doc_tables[i] - tables[i], 0.0)
            put[i] = counts[i] * log_repeating(
                &r, discount, concentration, counts[i], others, doc_tokens[i], base[i]
            )
    return logs
