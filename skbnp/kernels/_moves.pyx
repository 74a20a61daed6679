"""Moves of topics of the HDP: gains of merges, losses of reductions."""

import numpy as np

from libc.math cimport lgamma
from libc.stdint cimport int32_t, int64_t

from skbnp.kernels._interrupts cimport count_work

cdef extern from "src/moves.h" nogil:
    double joint_entropy(
        Py_ssize_t n, const double* a, const double* b, const double* factor
    )
    double share_out(
        Py_ssize_t n, const double* theta, const double* topics, double* shares,
        double rest,
    )
    void add_ends(
        Py_ssize_t n, const double* theta, const double* shares, double mixed,
        double repeated, double fresh, double elsewhere, double corpus, double count,
        double* ends, double* tokens,
    )
    void add_merges(
        Py_ssize_t n, const int64_t* one, const int64_t* other, const double* of_one,
        const double* of_other, const double* less, const double* theta,
        const double* topics, const double* shares, double mixed, double repeated,
        double fresh, double count, double* merges,
    )

# Words at a time.
cdef enum:
    CHUNK = 64


def compare_merges(
    const int32_t[::1] indptr,          # IN    (n_docs + 1,)
    const int32_t[::1] words,           # IN    (nnz,) rows of `word_weights`
    const double[::1] counts,           # IN    (nnz,) n > 0
    const float[:, :] word_weights,  # IN    (n_words, n_topics) b
    const double[:, ::1] doc_weights,   # IN    (n_docs, n_topics) e, zero: not used
    const double[::1] norms,            # IN    (nnz,) s; r = e b / s
    const double[:, ::1] doc_topic,     # IN    (n_docs, n_topics) N
    const double[:, ::1] growth,        # IN    (n_docs, n_topics) f(x_k, N_jk)
    const double[::1] prior,            # IN    (n_topics,) x
    const int32_t[:, ::1] pairs,        # IN    (n_pairs, 2) topics
    double[:, ::1] sums,                # INOUT (n_pairs, 2), see below
):
    """Sum, for each pair (a, b), the gains of documents if its topics merge.

    The gain of a document is

        f(x_a + x_b, N_a + N_b) - f(x_a, N_a) - f(x_b, N_b) - loss,
        loss = sum_w n_w [(r_a + r_b) log(r_a + r_b) - r_a log r_a - r_b log r_b] >= 0,

    with f(x, N) = lnG(x + N) - lnG(x). Added to `sums` are the loss and the gain. A
    document that uses one of the two topics loses nothing.

    Time O(n_docs * n_pairs + tokens of documents that use both); no allocation.
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1, n_pairs = pairs.shape[0]
    cdef Py_ssize_t doc, pair, a, b
    cdef double loss, gain
    if doc_topic.shape[0] != n_docs or doc_weights.shape[0] != n_docs:
        raise ValueError("indptr, doc_topic and doc_weights disagree on the documents")
    if sums.shape[0] != n_pairs or sums.shape[1] != 2:
        raise ValueError("sums must have two columns and a row per pair")
    cdef double[::1] both = np.empty(n_pairs)
    with nogil:
        for pair in range(n_pairs):
            both[pair] = lgamma(prior[pairs[pair, 0]] + prior[pairs[pair, 1]])
        for doc in range(n_docs):  # its weights stay in the cache
            for pair in range(n_pairs):
                a, b = pairs[pair, 0], pairs[pair, 1]
                if doc_topic[doc, a] == 0.0 and doc_topic[doc, b] == 0.0:
                    continue
                gain = prior[a] + prior[b] + doc_topic[doc, a] + doc_topic[doc, b]
                gain = lgamma(gain) - both[pair]
                gain -= growth[doc, a] + growth[doc, b]
                loss = 0.0
                if doc_topic[doc, a] > 0.0 and doc_topic[doc, b] > 0.0:
                    loss = _loss(
                        words[indptr[doc] : indptr[doc + 1]],
                        counts[indptr[doc] : indptr[doc + 1]],
                        norms[indptr[doc] : indptr[doc + 1]],
                        word_weights, a, b, doc_weights[doc, a], doc_weights[doc, b],
                    )
                gain -= loss
                sums[pair, 0] += loss
                sums[pair, 1] += gain


cdef double _loss(
    const int32_t[::1] words,
    const double[::1] counts,
    const double[::1] norms,
    const float[:, :] word_weights,
    Py_ssize_t a,
    Py_ssize_t b,
    double first,
    double second,
) noexcept nogil:
    """Loss of a document with these weights of the two topics."""
    cdef double[CHUNK] one, other, ratio
    cdef Py_ssize_t i, n = 0
    cdef double loss = 0.0
    for i in range(words.shape[0]):
        one[n] = first * word_weights[words[i], a]
        other[n] = second * word_weights[words[i], b]
        ratio[n] = counts[i] / norms[i]
        n += one[n] > 0.0 and other[n] > 0.0
        if n == CHUNK:
            loss += joint_entropy(n, one, other, ratio)
            n = 0
    return loss + joint_entropy(n, one, other, ratio)


def add_losses(
    const double[::1] counts,       # IN    (n,) held-out tokens of entries
    const int64_t[::1] rows,        # IN    (n,) rows of `theta`
    const double[:, ::1] theta,     # IN    (n_docs, n_topics) proportions
    const double[:, ::1] topics,    # IN    (n, n_topics) phi_kw of the words of entries
    const double[::1] rest,         # IN    (n,) what all other topics add to a mixture
    const double[::1] repeated,     # IN    (n,) probability of repeats, and...
    const double[::1] fresh,        # IN    (n,) ...of first uses
    const double[::1] corpus,       # IN    (n,) probability of the word in the corpus
    double elsewhere,               # IN    share of a proportion that goes there
    const int64_t[::1] one,         # IN    (n_pairs,) topics that merge
    const int64_t[::1] other,
    const double[::1] of_one,       # IN    (n_pairs,) their shares in the words of both
    const double[::1] of_other,
    const double[::1] less,         # IN    (n_pairs,) what both have of a prior
    double[::1] ends,               # INOUT (n_topics,) nats
    double[::1] tokens,             # INOUT (n_topics,) of each topic
    double[::1] merges,             # INOUT (n_pairs,) nats
):
    """Add the losses of tokens if topics end or merge.

    An entry has the probability repeated + fresh q, q = sum_k theta_k phi_k + rest.
    Where topic k ends, q becomes

        (q - theta_k phi_k + e theta_k corpus) / (1 - (1 - e) theta_k)

    with e = `elsewhere`; where a and b merge, their terms become

        (theta_a + theta_b) (of_one phi_a + of_other phi_b - less).

    Time O(n * (n_topics + n_pairs)).
    """
    cdef Py_ssize_t i, n = counts.shape[0], n_docs = theta.shape[0], done = 0
    cdef Py_ssize_t n_topics = theta.shape[1], n_pairs = one.shape[0]
    cdef double mixed
    cdef const double* of_doc
    if not rows.shape[0] == topics.shape[0] == rest.shape[0] == repeated.shape[0] == n:
        raise ValueError("arrays of entries disagree")
    if not fresh.shape[0] == corpus.shape[0] == n:
        raise ValueError("arrays of entries disagree")
    if not other.shape[0] == of_one.shape[0] == of_other.shape[0] == n_pairs:
        raise ValueError("arrays of pairs disagree")
    if not less.shape[0] == merges.shape[0] == n_pairs:
        raise ValueError("arrays of pairs disagree")
    if not n_topics == topics.shape[1] == ends.shape[0] == tokens.shape[0]:
        raise ValueError("arrays of topics disagree")
    for i in range(n):
        if not 0 <= rows[i] < n_docs:
            raise ValueError("rows must be of theta")
    for i in range(n_pairs):
        if not (0 <= one[i] < n_topics and 0 <= other[i] < n_topics):
            raise ValueError("pairs must be of topics")
    if n == 0 or n_topics == 0:
        return
    cdef double[::1] shares = np.empty(n_topics)
    with nogil:
        for i in range(n):
            of_doc = &theta[rows[i], 0]
            mixed = share_out(n_topics, of_doc, &topics[i, 0], &shares[0], rest[i])
            add_ends(
                n_topics, of_doc, &shares[0], mixed, repeated[i], fresh[i], elsewhere,
                corpus[i], counts[i], &ends[0], &tokens[0],
            )
            if n_pairs:
                add_merges(
                    n_pairs, &one[0], &other[0], &of_one[0], &of_other[0], &less[0],
                    of_doc, &topics[i, 0], &shares[0], mixed, repeated[i], fresh[i],
                    counts[i], &merges[0],
                )
            count_work(8 * (n_topics + n_pairs), &done)
