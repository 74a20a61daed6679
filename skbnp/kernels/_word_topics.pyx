"""The table of topic counts: sparse rows into it, sums over it, mixtures of topics.

Of counts S, with g(s) = lnG(eta + s) - lnG(eta).
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t

from numpy.random cimport bitgen_t

from skbnp.kernels._interrupts cimport count_work
from skbnp.kernels._rng cimport borrow, uniform
from skbnp.kernels._vectors cimport dot

cdef extern from "src/groups.h" nogil:
    void add_growth(
        const double* table, Py_ssize_t n_words, Py_ssize_t n_topics, Py_ssize_t stride,
        double scale, double eta, double* growth, double* moment,
    )
    double sum_expected(
        const double* means, const double* variances, Py_ssize_t n_words, double eta
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
    """Add `factor` times values to entries of the table, which stay above a limit.

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


def mix_topics(
    const double[:, ::1] table,     # IN    (all words, n_topics or more) counts S
    double scale,                   # IN    multiplies them
    const double[::1] eta,          # IN    (n_topics,)
    const double[::1] norm,         # IN    (n_topics,) > 0
    const double[:, ::1] shares,    # IN    (n_docs, n_topics)
    const int64_t[::1] limits,      # IN    (n_docs + 1,) of the entries of documents
    const Py_ssize_t[::1] words,    # IN    (n,) rows of the table
    double[::1] mixed,              # OUT   (n,)
):
    """Mix topics by the shares of documents: sum_k theta_jk (eta_k + S_wk) / norm_k.

    Time O((n + n_docs) * n_topics).
    """
    cdef Py_ssize_t n_topics = norm.shape[0], n_docs = shares.shape[0]
    cdef Py_ssize_t doc, at, k, done = 0
    cdef double least
    if not n_topics == eta.shape[0] == shares.shape[1] or n_topics > table.shape[1]:
        raise ValueError("table, eta, norm and shares disagree on the topics")
    if limits.shape[0] != n_docs + 1 or limits[n_docs] != words.shape[0]:
        raise ValueError("shares, limits and words disagree on the documents")
    if mixed.shape[0] != words.shape[0]:
        raise ValueError("words and mixed disagree")
    for at in range(words.shape[0]):
        if not 0 <= words[at] < table.shape[0]:
            raise ValueError("words must be rows of the table")
    if words.shape[0] == 0:
        return
    if n_topics == 0:
        mixed[:] = 0.0
        return
    cdef double[::1] weights = np.empty(n_topics)
    with nogil:
        for doc in range(n_docs):
            for k in range(n_topics):
                weights[k] = shares[doc, k] / norm[k]
            least = dot(n_topics, &weights[0], &eta[0])
            for at in range(limits[doc], limits[doc + 1]):
                mixed[at] = dot(n_topics, &weights[0], &table[words[at], 0])
                mixed[at] = least + scale * mixed[at]
                count_work(n_topics, &done)


def draw_tokens(
    const double[:, ::1] table,     # IN    (all words, n_topics) topics phi, by word
    const double[:, ::1] shares,    # IN    (n_docs, n_topics) theta
    const int64_t[::1] limits,      # IN    (n_docs + 1,) of the entries of documents
    const Py_ssize_t[::1] words,    # IN    (n,) rows of the table
    const int64_t[::1] counts,      # IN    (n,) tokens of each
    double[:, ::1] of_docs,         # INOUT (n_docs, n_topics) tokens are added
    double[:, ::1] of_words,        # INOUT (all words, n_topics) likewise
    bit_generator: BitGenerator,
):
    """Draw the topic of each token, k with probability ~ theta_jk phi_kw.

    Where no topic has a mass, all are as probable. Time O(n * n_topics + tokens *
    log n_topics).
    """
    cdef Py_ssize_t n_topics = table.shape[1], n_docs = shares.shape[0]
    cdef Py_ssize_t doc, at, word, k, low, high, done = 0
    cdef double total, limit
    cdef bitgen_t* rng = borrow(bit_generator)
    if not n_topics == shares.shape[1] == of_docs.shape[1] == of_words.shape[1]:
        raise ValueError("table, shares and sums disagree on the topics")
    if limits.shape[0] != n_docs + 1 or limits[n_docs] != words.shape[0]:
        raise ValueError("shares, limits and words disagree on the documents")
    if counts.shape[0] != words.shape[0] or of_docs.shape[0] != n_docs:
        raise ValueError("words, counts and sums disagree")
    if of_words.shape[0] != table.shape[0] or n_topics == 0:
        raise ValueError("table and sums disagree on the words, or have no topic")
    for at in range(words.shape[0]):
        if not 0 <= words[at] < table.shape[0]:
            raise ValueError("words must be rows of the table")
    cdef double[::1] ends = np.empty(n_topics)
    with bit_generator.lock, nogil:
        for doc in range(n_docs):
            for at in range(limits[doc], limits[doc + 1]):
                word, total = words[at], 0.0
                for k in range(n_topics):
                    total += shares[doc, k] * table[word, k]
                    ends[k] = total
                for k in range(0 if total > 0.0 else n_topics):
                    total = ends[k] = k + 1.0
                for _ in range(counts[at]):
                    limit, low, high = uniform(rng) * total, 0, n_topics - 1
                    while low < high:
                        k = (low + high) // 2
                        if limit < ends[k]:
                            high = k
                        else:
                            low = k + 1
                    of_docs[doc, low] += 1.0
                    of_words[word, low] += 1.0
                count_work(n_topics, &done)


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
            add_growth(
                &table[0, 0], table.shape[0], n_topics, table.shape[1], scale, eta,
                &growths[0], &moments[0],
            )


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
    cdef Py_ssize_t n_rows = means.shape[0], n_words = means.shape[1], row
    if not n_rows == variances.shape[0] == eta.shape[0] == totals.shape[0]:
        raise ValueError("means, variances, eta and totals disagree on the rows")
    if n_words != variances.shape[1]:
        raise ValueError("means and variances disagree on the words")
    if n_rows and n_words:
        with nogil:
            for row in range(n_rows):
                totals[row] = sum_expected(
                    &means[row, 0], &variances[row, 0], n_words, eta[row]
                )
