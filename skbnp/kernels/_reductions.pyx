"""Losses of held-out tokens if topics of the HDP end or merge, all else fixed."""

import numpy as np

from libc.stdint cimport int64_t

from skbnp.kernels._interrupts cimport count_work

cdef extern from "src/reductions.h" nogil:
    """
    struct skbnp_entries;
    SKBNP_CLONES static Py_ssize_t skbnp_add_losses(const struct skbnp_entries *);
    """
    void share_out(
        Py_ssize_t n, const double* theta, const double* topics, double* shares
    )
    void add_ends(
        Py_ssize_t n, const double* theta, const double* shares, double mixed,
        double shown, double opens, double elsewhere, double corpus, double count,
        double* ends, double* heard,
    )
    void add_merges(
        Py_ssize_t n, const int64_t* one, const int64_t* other, const double* of_one,
        const double* of_other, const double* less, const double* theta,
        const double* topics, const double* shares, double mixed, double shown,
        double opens, double count, double* merges,
    )


cdef struct Held "skbnp_entries":
    Py_ssize_t n, n_topics, n_pairs
    const double* counts
    const int64_t* rows
    const double* theta
    const double* topics
    const double* rest
    const double* shown
    const double* opens
    const double* corpus
    double elsewhere
    const int64_t* one
    const int64_t* other
    const double* of_one
    const double* of_other
    const double* less
    double* shares
    double* ends
    double* heard
    double* merges
    Py_ssize_t* done


cdef Py_ssize_t _add_losses "skbnp_add_losses"(const Held* h) except -1 nogil:
    cdef Py_ssize_t i, k
    cdef double mixed
    cdef const double* theta
    cdef const double* topics
    for i in range(h.n):
        theta = h.theta + h.rows[i] * h.n_topics
        topics = h.topics + i * h.n_topics
        share_out(h.n_topics, theta, topics, h.shares)
        mixed = h.rest[i]
        for k in range(h.n_topics):
            mixed += h.shares[k]
        add_ends(
            h.n_topics, theta, h.shares, mixed, h.shown[i], h.opens[i], h.elsewhere,
            h.corpus[i], h.counts[i], h.ends, h.heard,
        )
        add_merges(
            h.n_pairs, h.one, h.other, h.of_one, h.of_other, h.less, theta, topics,
            h.shares, mixed, h.shown[i], h.opens[i], h.counts[i], h.merges,
        )
        count_work(8 * (h.n_topics + h.n_pairs), h.done)
    return 0


def add_losses(
    const double[::1] counts,       # IN    (n,) held-out tokens of entries
    const int64_t[::1] rows,        # IN    (n,) rows of `theta`
    const double[:, ::1] theta,     # IN    (n_docs, n_topics) proportions
    const double[:, ::1] topics,    # IN    (n, n_topics) phi_kw of the words of entries
    const double[::1] rest,         # IN    (n,) what all other topics add to a mixture
    const double[::1] shown,        # IN    (n,) probability of repeats, and...
    const double[::1] opens,        # IN    (n,) ...of first uses
    const double[::1] corpus,       # IN    (n,) probability of the word in the corpus
    double elsewhere,               # IN    share of a proportion that goes there
    const int64_t[::1] one,         # IN    (n_pairs,) topics that merge
    const int64_t[::1] other,
    const double[::1] of_one,       # IN    (n_pairs,) their shares in the words of both
    const double[::1] of_other,
    const double[::1] less,         # IN    (n_pairs,) what both have of a prior
    double[::1] ends,               # INOUT (n_topics,) nats
    double[::1] heard,              # INOUT (n_topics,) tokens
    double[::1] merges,             # INOUT (n_pairs,) nats
):
    """Add the losses of tokens if topics end or merge.

    An entry has the probability shown + opens q, with q = sum_k theta_k phi_k + rest.
    Where topic k ends, q becomes

        (q - theta_k phi_k + e theta_k corpus) / (1 - (1 - e) theta_k)

    with e = `elsewhere`; where a and b merge, their terms become

        (theta_a + theta_b) (of_one phi_a + of_other phi_b - less).

    Time O(n * (n_topics + n_pairs)).
    """
    cdef Py_ssize_t i, n = counts.shape[0], n_docs = theta.shape[0], done = 0
    cdef Held h
    h.n, h.n_topics, h.n_pairs = n, theta.shape[1], one.shape[0]
    if not rows.shape[0] == topics.shape[0] == rest.shape[0] == shown.shape[0] == n:
        raise ValueError("arrays of entries disagree")
    if not opens.shape[0] == corpus.shape[0] == n:
        raise ValueError("arrays of entries disagree")
    if not other.shape[0] == of_one.shape[0] == of_other.shape[0] == h.n_pairs:
        raise ValueError("arrays of pairs disagree")
    if not less.shape[0] == merges.shape[0] == h.n_pairs:
        raise ValueError("arrays of pairs disagree")
    if not h.n_topics == topics.shape[1] == ends.shape[0] == heard.shape[0]:
        raise ValueError("arrays of topics disagree")
    for i in range(n):
        if not 0 <= rows[i] < n_docs:
            raise ValueError("rows must be of theta")
    for i in range(h.n_pairs):
        if not (0 <= one[i] < h.n_topics and 0 <= other[i] < h.n_topics):
            raise ValueError("pairs must be of topics")
    if n == 0 or h.n_topics == 0:
        return
    cdef double[::1] shares = np.empty(h.n_topics)
    h.counts, h.rows = &counts[0], &rows[0]
    h.theta, h.topics = &theta[0, 0], &topics[0, 0]
    h.rest, h.shown, h.opens, h.corpus = &rest[0], &shown[0], &opens[0], &corpus[0]
    h.elsewhere, h.shares, h.done = elsewhere, &shares[0], &done
    h.ends, h.heard = &ends[0], &heard[0]
    if h.n_pairs:
        h.one, h.other, h.less, h.merges = &one[0], &other[0], &less[0], &merges[0]
        h.of_one, h.of_other = &of_one[0], &of_other[0]
    with nogil:
        _add_losses(&h)
