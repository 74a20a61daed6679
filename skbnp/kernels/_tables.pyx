"""The document step of an HDP with sticks in each document.

The loops are in src/tables.c, in versions for several instruction sets.
"""

import numpy as np

from libc.math cimport INFINITY, exp, fmin, log
from libc.stdint cimport int32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cdef extern from "src/special.h" nogil:
    double log_gamma(double x, double *digamma)

cdef extern from "src/tables.h" nogil:
    void skbnp_log_sticks(
        ptrdiff_t n_used, ptrdiff_t n_tables, const float *tokens, double scale,
        double concentration, double *log_pi,
    )
    size_t skbnp_seat_work(size_t n, size_t n_seats, size_t n_topics)
    ptrdiff_t skbnp_seat(
        ptrdiff_t n, const int32_t *words, const float *counts, ptrdiff_t n_topics,
        ptrdiff_t stride, const float *logs, const float *log_beta,
        double concentration, ptrdiff_t n_tables, ptrdiff_t n_start, float *served,
        float *tokens, float *work, double *exact, ptrdiff_t max_iter, float tol,
        float least,
    )
    double skbnp_settle(
        ptrdiff_t n, const int32_t *words, const double *counts, ptrdiff_t n_topics,
        ptrdiff_t stride, const float *logs, const double *log_beta, ptrdiff_t n_used,
        const float *served, double support, const double *log_pi, Py_ssize_t *limits,
        int32_t *topics, double *phi, double *zeta, double *tokens,
    )
    ptrdiff_t skbnp_table_sums(
        ptrdiff_t begin, ptrdiff_t end, const int32_t *columns, const int32_t *docs,
        const double *counts, const Py_ssize_t *places, const double *zeta,
        const int32_t *tables, const Py_ssize_t *support, const int32_t *table_topics,
        const double *phi, int32_t *lengths, int32_t *topics, double *sums,
        int32_t *marks, double *scratch, int32_t *found,
    )
    void skbnp_log_weights(
        ptrdiff_t n_words, const Py_ssize_t *words, ptrdiff_t n_topics,
        ptrdiff_t stride, const double *held, ptrdiff_t held_stride, double scale,
        const double *norm, double eta, int mean, double *work, float *table,
    )

#: A table with fewer tokens (times the document's, if less than one) is empty, unless
#: it is remembered: then it stays as long as that is more than rounding.
EMPTY, SUPPORT = 1e-2, 1e-9
#: Nats per token by which another start must be better, as for other documents.
MARGIN = 2e-6


cdef double _stick_bound(
    Py_ssize_t n_used, Py_ssize_t n_tables, const double *tokens, double concentration
) noexcept nogil:
    """Sum over the sticks but the last of log alpha + lnB(1 + n_t, alpha + n_>t)."""
    cdef double behind = 0.0, bound = 0.0, a, b, digamma
    cdef Py_ssize_t t
    for t in range(n_used):
        behind += tokens[t]
    for t in range(min(n_used, n_tables - 1)):  # an empty table adds nothing
        behind -= tokens[t]
        a, b = 1.0 + tokens[t], concentration + max(behind, 0.0)
        bound += log(concentration) + log_gamma(a, &digamma)
        bound += log_gamma(b, &digamma) - log_gamma(a + b, &digamma)
    return bound


def infer_tables(
    const int32_t[::1] indptr,      # IN    (n_docs + 1,)
    const int32_t[::1] words,       # IN    (nnz,) rows of `logs`
    const double[::1] counts,       # IN    (nnz,) > 0
    const float[:, ::1] logs,       # IN    (n_words, stride) E, see `log_weights`
    const double[::1] log_beta,     # IN    (n_topics,) E log beta
    double concentration,           # IN    alpha
    Py_ssize_t n_tables,            # IN    T
    remembered,                     # IN    None, or what this function returned before
    Py_ssize_t max_iter,
    double tol,
):
    """Fixed point of Eqs. (15) to (18) of [1] for each document, topics held fixed.

    With a_t = 1 + n_t, b_t = alpha + n_>t the parameters of the sticks of T tables,
    n_t = sum_w n_w zeta_wt, iterate

        phi_tk ~ exp(E log beta_k + sum_w n_w zeta_wt E_wk),
        zeta_wt ~ exp(E log pi_t + sum_k phi_tk E_wk),

    until sum_t |change of n_t| < tol times the tokens of the document, or `max_iter`
    times; tables are put in the order of their tokens, unless the last stick is in use
    and another order is better. Iterations leave out topics that
    do not matter to the document; one over all topics must confirm the result. They run
    in single precision, the last zeta in double precision. Tables of less than a
    hundredth of a token are empty: none is seated there, and phi is
    softmax(E log beta). Entries of phi below 1e-9 are zero.

    The tables start from the topics that would explain most of the document if it
    chose among topics alone. If there is something remembered, it is iterated too, and
    the result with the higher bound is kept.

    Returns
    -------
    tables : (n_docs + 1,)
        Limits of the documents in the next one: of the tables in use.
    tokens : (n_used,)
        n_t.
    limits : (n_used + 1,)
        Limits of the tables in the next two.
    topics, phi
        The topics that a table serves, increasing, and with which probability.
    zeta
        Word by word of each document, for its tables in use.

    References
    ----------
    .. [1] Wang, Paisley and Blei, "Online Variational Inference for the Hierarchical
       Dirichlet Process", AISTATS 2011.
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1, n_topics = log_beta.shape[0]
    cdef Py_ssize_t stride = logs.shape[1], doc, i, k, t, s, begin, n, n_used, start
    cdef Py_ssize_t longest = 0, put = 0, placed = 0, room = 0, n_start, best_used = 0
    cdef double n_tokens, scale, best, bound, margin = MARGIN
    cdef double top = -INFINITY, rest = 0.0, empty = EMPTY, support = SUPPORT
    cdef Py_ssize_t n_seats = min(n_tables, n_topics)  # that can be in use
    cdef double *held_phi = NULL
    cdef int32_t *held_topics = NULL
    cdef bint failed = False, goes_on = remembered is not None
    if not n_topics <= stride or n_tables < 1:
        raise ValueError("logs must have a column per topic, and there must be tables")
    if words.shape[0] != counts.shape[0] or indptr[n_docs] != counts.shape[0]:
        raise ValueError("indptr, words and counts disagree on documents")
    for doc in range(n_docs):
        longest = max(longest, indptr[doc + 1] - indptr[doc])
    tables = np.zeros(n_docs + 1, dtype=np.int32)
    tokens = np.empty(n_docs * n_seats)
    limits = np.zeros(n_docs * n_seats + 1, dtype=np.intp)
    zeta = np.empty(counts.shape[0] * n_seats)
    if longest == 0:
        nothing = np.zeros(0)
        return (
            tables, nothing, limits[:1], np.zeros(0, dtype=np.int32), nothing, nothing
        )
    cdef int32_t[::1] ends = tables
    cdef double[::1] n_t = tokens, all_zeta = zeta
    cdef Py_ssize_t[::1] edges = limits
    cdef int32_t[::1] topics_out
    cdef double[::1] phi_out
    cdef const int32_t[::1] old_tables, old_topics
    cdef const double[::1] old_tokens, old_phi
    cdef const Py_ssize_t[::1] old_limits
    if goes_on:
        old_tables, old_tokens, old_limits, old_topics, old_phi = remembered[:5]
        _check_remembered(*remembered[:5], n_docs, n_seats, n_topics)
    # In single precision: counts, log beta, the tables of a start and what they need.
    cdef Py_ssize_t size = n_seats * n_topics
    cdef float[::1] space = np.empty(
        longest + n_topics + size + n_seats
        + skbnp_seat_work(longest, n_seats, n_topics), dtype=np.float32,
    )
    cdef float *scaled = &space[0]
    cdef float *beta = scaled + longest
    cdef float *served = beta + n_topics
    cdef float *seated = served + size
    cdef float *work = seated + n_seats
    # Two results: limits, topics; phi, tokens, zeta.
    cdef Py_ssize_t[:, ::1] two_limits = np.empty((2, n_seats + 1), dtype=np.intp)
    cdef int32_t[:, ::1] two_topics = np.empty((2, size), dtype=np.int32)
    cdef double[:, ::1] two = np.empty((2, size + n_seats + longest * n_seats))
    cdef double[::1] sticks = np.empty(n_seats)
    cdef Py_ssize_t now = 0, kept = 1
    cdef double *log_pi = &sticks[0]
    with nogil:
        for k in range(n_topics):
            beta[k] = <float>log_beta[k]
            top = max(top, log_beta[k])
        for k in range(n_topics):
            rest += exp(log_beta[k] - top)
        rest = top + log(rest)
        for doc in range(n_docs):
            begin, n = indptr[doc], indptr[doc + 1] - indptr[doc]
            ends[doc + 1] = ends[doc]
            if n == 0:
                continue
            n_tokens = 0.0
            for i in range(n):
                n_tokens += counts[begin + i]
            # Into the range of single precision, mostly as they are.
            scale = 1e-20 / n_tokens if n_tokens < 1e-20 else 1.0
            scale = 1e9 / n_tokens if n_tokens > 1e9 else scale
            for i in range(n):
                scaled[i] = <float>(counts[begin + i] * scale)
            best = -INFINITY
            for start in range(2):
                n_start = 0
                if start == 1:
                    if not goes_on:
                        continue
                    n_start = old_tables[doc + 1] - old_tables[doc]
                    if n_start == 0:
                        continue
                    for i in range(n_start * n_topics):
                        served[i] = 0.0
                    for t in range(n_start):
                        i = old_tables[doc] + t
                        seated[t] = <float>(old_tokens[i] * scale)
                        for s in range(old_limits[i], old_limits[i + 1]):
                            served[t * n_topics + old_topics[s]] = <float>old_phi[s]
                n_used = skbnp_seat(
                    n, &words[begin], scaled, n_topics, stride, &logs[0, 0], beta,
                    concentration, n_tables, n_start, served, seated, work, log_pi,
                    max_iter,
                    <float>(tol * n_tokens * scale),
                    <float>(
                        (support if start else empty) * fmin(1.0, n_tokens) * scale
                    ),
                )
                skbnp_log_sticks(
                    n_used, n_tables, seated, scale, concentration, log_pi
                )
                bound = skbnp_settle(
                    n, &words[begin], &counts[begin], n_topics, stride, &logs[0, 0],
                    &log_beta[0], n_used, served, support, log_pi, &two_limits[now, 0],
                    &two_topics[now, 0], &two[now, 0], &two[now, size + n_seats],
                    &two[now, size],
                )
                bound += _stick_bound(n_used, n_tables, &two[now, size], concentration)
                # Tables that are not in use are left to the prior.
                bound += (n_tables - n_used) * rest
                bound += margin * n_tokens * start  # what is remembered may stay
                if bound > best:
                    best, best_used = bound, n_used
                    now, kept = kept, now
            n_used = two_limits[kept, best_used]
            if put + n_used > room:
                room = 2 * (room + n_used)
                held_phi = <double *>_grown(held_phi, room * sizeof(double), &failed)
                held_topics = <int32_t *>_grown(
                    held_topics, room * sizeof(int32_t), &failed
                )
                if failed:
                    break
            memcpy(held_phi + put, &two[kept, 0], n_used * sizeof(double))
            memcpy(held_topics + put, &two_topics[kept, 0], n_used * sizeof(int32_t))
            for t in range(best_used):
                n_t[ends[doc] + t] = two[kept, size + t]
                edges[ends[doc] + t + 1] = put + two_limits[kept, t + 1]
            put += n_used
            ends[doc + 1] = ends[doc] + <int32_t>best_used
            memcpy(
                &all_zeta[placed], &two[kept, size + n_seats],
                n * best_used * sizeof(double),
            )
            placed += n * best_used
    try:
        if failed:
            raise MemoryError
        topics, phi = np.empty(put, dtype=np.int32), np.empty(put)
        topics_out, phi_out = topics, phi
        if put:
            memcpy(&topics_out[0], held_topics, put * sizeof(int32_t))
            memcpy(&phi_out[0], held_phi, put * sizeof(double))
    finally:
        free(held_phi)
        free(held_topics)
    used = tables[n_docs]
    return (
        tables, tokens[:used].copy(), limits[: used + 1].copy(), topics, phi,
        zeta[:placed].copy(),
    )


cdef void *_grown(void *held, size_t size, bint *failed) noexcept nogil:
    cdef void *more = realloc(held, size)
    if more == NULL:
        failed[0] = True
        return held
    return more


def _check_remembered(tables, tokens, limits, topics, phi, n_docs, n_seats, n_topics):
    """Raise an error unless these are tables of so many documents."""
    if len(tables) != n_docs + 1 or tables[-1] != len(tokens):
        raise ValueError("remembered must be of the same documents")
    if len(limits) != len(tokens) + 1 or not limits[-1] == len(topics) == len(phi):
        raise ValueError("remembered tables and topics disagree")
    if n_docs and np.diff(tables).max() > n_seats:
        raise ValueError("remembered must not have more tables than there are")
    if len(topics) and not 0 <= topics.min() <= topics.max() < n_topics:
        raise ValueError("remembered topics must be columns of logs")


def table_sums(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int32_t[::1] columns,      # IN  (n_words + 1,) limits of the words
    const int32_t[::1] docs,         # IN  (nnz,) documents, word by word
    const double[::1] counts,        # IN  (nnz,) word by word
    const Py_ssize_t[::1] places,    # IN  (nnz,) first zeta of each, word by word
    const double[::1] zeta,          # IN
    const int32_t[::1] tables,       # IN  (n_docs + 1,)
    const Py_ssize_t[::1] limits,    # IN  (n_tables + 1,)
    const int32_t[::1] table_topics,  # IN
    const double[::1] phi,           # IN
    Py_ssize_t n_topics,
):
    """Sum n zeta_wt phi_tk over documents for the words from `begin` to `end`.

    Returns
    -------
    n_used : (end - begin,)
        Topics in use, of each word.
    topics, sums
        Word by word, topics in increasing order, and their sums.
    """
    cdef Py_ssize_t at, t, most = 0, used = 0
    if not 0 <= begin <= end < columns.shape[0]:
        raise ValueError("words must lie between the limits of columns")
    if not docs.shape[0] == counts.shape[0] == places.shape[0]:
        raise ValueError("docs, counts and places disagree")
    for at in range(columns[begin], columns[end]):
        for t in range(tables[docs[at]], tables[docs[at] + 1]):
            most += limits[t + 1] - limits[t]
    most = min(most, (end - begin) * n_topics) + 1
    n_used, topics = np.zeros(end - begin + 1, np.int32), np.empty(most, np.int32)
    sums = np.empty(most)
    cdef int32_t[::1] lengths = n_used, put = topics
    cdef double[::1] values = sums
    cdef int32_t[::1] marks = np.full(n_topics, -1, dtype=np.int32)
    cdef int32_t[::1] found = np.empty(n_topics, dtype=np.int32)
    cdef double[::1] scratch = np.zeros(n_topics)
    if most > 1:
        with nogil:
            used = skbnp_table_sums(
                begin, end, &columns[0], &docs[0], &counts[0], &places[0], &zeta[0],
                &tables[0], &limits[0], &table_topics[0], &phi[0], &lengths[0], &put[0],
                &values[0], &marks[0], &scratch[0], &found[0],
            )
    return n_used[: end - begin], topics[:used].copy(), sums[:used].copy()


def log_weights(
    const double[:, ::1] held,      # IN    (all words, n_topics or more) counts S
    double scale,                   # IN    multiplies them
    const Py_ssize_t[::1] words,    # IN    (n_words,) rows of it
    const double[::1] norm,         # IN    (n_topics,) see below
    double eta,
    bint mean,
    float[:, ::1] table,            # OUT   (n_words, stride)
):
    """Log weights of some words, minus the largest of each, in single precision.

    psi(eta + S) - norm, or log(eta + S) - norm for the mean, eta at least 1e-18.
    Columns behind the topics are zero.
    """
    cdef Py_ssize_t n_topics = norm.shape[0], i
    if not n_topics <= held.shape[1] or not n_topics <= table.shape[1]:
        raise ValueError("held, norm and table disagree on the topics")
    if table.shape[0] != words.shape[0]:
        raise ValueError("held, words, norm and table disagree")
    for i in range(words.shape[0]):
        if not 0 <= words[i] < held.shape[0]:
            raise ValueError("words must be rows of held")
    if words.shape[0] == 0 or n_topics == 0:
        return
    cdef double[::1] work = np.empty(n_topics)
    with nogil:
        skbnp_log_weights(
            words.shape[0], &words[0], n_topics, table.shape[1], &held[0, 0],
            held.shape[1], scale, &norm[0], eta, mean, &work[0], &table[0, 0],
        )
