"""The table of topic counts: sparse rows into it, sums over it."""

from libc.stdint cimport int32_t

cdef extern from "src/word_topics.h" nogil:
    void skbnp_growth(
        ptrdiff_t n_words, ptrdiff_t n_topics, ptrdiff_t stride, const double *held,
        double scale, double eta, double *growth, double *moment,
    )
    double skbnp_joint_growth(
        ptrdiff_t n_words, ptrdiff_t stride, const double *held, double scale,
        double eta, ptrdiff_t a, ptrdiff_t b,
    )
    void skbnp_expected_growth(
        ptrdiff_t n_rows, ptrdiff_t n_words, const double *means,
        const double *variances, const double *eta, double *totals,
    )


def add_rows(
    double[:, ::1] table,           # INOUT (all words, n_topics or more)
    const Py_ssize_t[::1] words,    # IN    (n_words,) rows of it
    const int32_t[::1] limits,      # IN    (n_words + 1,) of each word's entries
    const int32_t[::1] topics,      # IN    (n,) columns
    const double[::1] values,       # IN    (n,)
    double factor,
    double lowest,                  # IN    that entries may reach
    double[::1] total,              # INOUT (n_topics,) sums of values are added
):
    """Add `factor` times the values to their places; entries do not fall below a limit.

    Time O(n); no allocation.
    """
    cdef Py_ssize_t row, at, word
    cdef double entry
    if limits.shape[0] != words.shape[0] + 1 or topics.shape[0] != values.shape[0]:
        raise ValueError("words, limits, topics and values disagree")
    if limits[words.shape[0]] > values.shape[0] or table.shape[1] < total.shape[0]:
        raise ValueError("limits or total do not fit")
    with nogil:
        for row in range(words.shape[0]):
            word = words[row]
            for at in range(limits[row], limits[row + 1]):
                entry = table[word, topics[at]] + factor * values[at]
                table[word, topics[at]] = entry if entry > lowest else lowest
                total[topics[at]] += values[at]


def growth(
    const double[:, ::1] table,     # IN    (n_words, n_topics or more) counts S
    double scale,                   # IN    multiplies them
    double eta,
    double[::1] growths,            # INOUT (n_topics,)
    double[::1] moments,            # INOUT (n_topics,)
):
    """Add up lnG(eta + S) - lnG(eta), and S psi(eta + S), over the words.

    Time O(n_words * n_topics); no allocation.
    """
    cdef Py_ssize_t n_topics = growths.shape[0]
    if moments.shape[0] != n_topics or table.shape[1] < n_topics:
        raise ValueError("table, growths and moments disagree on the topics")
    if n_topics and table.shape[0]:
        with nogil:
            skbnp_growth(
                table.shape[0], n_topics, table.shape[1], &table[0, 0], scale, eta,
                &growths[0], &moments[0],
            )


def joint_growth(
    const double[:, ::1] table,     # IN    (n_words, n_topics or more) counts S
    double scale,                   # IN    multiplies them
    double eta,
    Py_ssize_t one,
    Py_ssize_t other,
) -> float:
    """Sum over the words of g(S_a + S_b) - g(S_a) - g(S_b) for two topics.

    g(s) = lnG(eta + s) - lnG(eta). Time O(n_words), of two columns; no allocation.
    """
    cdef double total = 0.0
    if not (0 <= one < table.shape[1] and 0 <= other < table.shape[1]):
        raise ValueError("topics must be columns of the table")
    if table.shape[0]:
        with nogil:
            total = skbnp_joint_growth(
                table.shape[0], table.shape[1], &table[0, 0], scale, eta, one, other
            )
    return total


def expected_growth(
    const double[:, ::1] means,         # IN    (n_rows, n_words) S
    const double[:, ::1] variances,     # IN    (n_rows, n_words) R <= S
    const double[::1] eta,              # IN    (n_rows,)
    double[::1] totals,                 # OUT   (n_rows,)
):
    """Sum E lnG(eta + n) - lnG(eta) over the words of each row, n of given moments.

    Counts n are taken for binomial ones. They are zero with probability
    P0 = (R / S)^(S^2 / (S - R)); of the others, lnG is expanded to second order around
    their mean m = S / (1 - P0):

        (1 - P0) (lnG(eta + m) - lnG(eta) + v / 2 psi'(eta + m)),
        v = max((R + S^2) / (1 - P0) - m^2, 0),

    so that a single trial is exact; n = S where R = 0. Errors of rounding are below
    1e-12 of the larger of the value and S. Time O(n_rows * n_words); no allocation.
    """
    cdef Py_ssize_t n_rows = means.shape[0], n_words = means.shape[1]
    if not n_rows == variances.shape[0] == eta.shape[0] == totals.shape[0]:
        raise ValueError("means, variances, eta and totals disagree on the rows")
    if n_words != variances.shape[1]:
        raise ValueError("means and variances disagree on the words")
    if n_rows and n_words:
        with nogil:
            skbnp_expected_growth(
                n_rows, n_words, &means[0, 0], &variances[0, 0], &eta[0], &totals[0]
            )
