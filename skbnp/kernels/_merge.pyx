"""Gains and losses of documents of the HDP if two topics merge."""

import numpy as np

from cython cimport floating

from libc.math cimport lgamma
from libc.stdint cimport int32_t

cdef extern from "src/entropy.h" nogil:
    double joint_entropy(
        Py_ssize_t n, const double* a, const double* b, const double* factor
    )

# Words at a time.
cdef enum:
    CHUNK = 64


def compare_merges(
    const int32_t[::1] indptr,          # IN    (n_docs + 1,)
    const int32_t[::1] words,           # IN    (nnz,) rows of `word_weights`
    const double[::1] counts,           # IN    (nnz,) n > 0
    const floating[:, :] word_weights,  # IN    (n_words, n_topics) b
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
    const floating[:, :] word_weights,
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
