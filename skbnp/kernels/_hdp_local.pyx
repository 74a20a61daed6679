"""The document step of a topic model with a Dirichlet prior over topics."""

from libc.math cimport fabs, fmin, lgamma, log
from libc.stdint cimport int32_t

from skbnp.kernels._math cimport exp_digamma

#: Word weights come clamped here, relative to the word's largest; topic weights are
#: clamped below. Products of the two stay normal, so that no division is 0/0.
SMALLEST_WORD_WEIGHT = 1e-140
cdef double SMALLEST_WEIGHT = 1e-150


def infer_documents(
    const int32_t[::1] indptr,      # IN    (n_docs + 1,)
    const int32_t[::1] words,       # IN    (nnz,) rows of `weights`
    const double[::1] counts,       # IN    (nnz,) > 0
    const double[:, ::1] weights,   # IN    (n_words, n_topics) in [1e-140, 1]
    const double[::1] prior,        # IN    (n_topics,) > 0
    const double[::1] share,        # IN    (n_topics,) of a cold start; or (0,)
    double[:, ::1] doc_topic,       # INOUT (n_docs, n_topics) counts: start, result
    bint remembered,                # IN    whether doc_topic holds a start
    double[:, ::1] word_topic,      # INOUT (n_words, n_topics) sums, or (0, n_topics)
    double[::1] entropy,            # INOUT (n_topics,) sums, see below
    double[:, ::1] work,            # WORK  (3, n_topics)
    Py_ssize_t max_iter,
    double tol,
    double support,
):
    """Fixed point of Eqs. (3) and (4) of [1] for each document, topics held fixed.

    With theta = prior + doc_topic and e = exp(psi(theta)), iterate

        doc_topic_k = e_k sum_w counts_w weights_wk / sum_l e_l weights_wl

    until sum_k |change of doc_topic_k| < tol times the tokens of the document, or
    `max_iter` times. A last pass over the support, the topics with at least
    `support * min(1, tokens)` expected tokens, leaves exact zeros elsewhere.

    The iteration starts from `tokens * share` (cold), or from what `doc_topic` holds
    (remembered), or from both if both are given; the result with the higher bound

        sum_w n_w log s_w + sum_k [lnG(prior_k + N_k) - lnG(prior_k) - N_k log e_k]

    is kept, s_w = sum_l e_l weights_wl, N = doc_topic. So a document can take up topics
    that it did not have, and yet never falls below the bound it had.

    The responsibilities r are added to `word_topic` (where it has rows), and to
    `entropy` sum_w n_w r_wk log(s_w / e_k), which is their entropy
    -sum_w n_w r_wk log r_wk up to sum_w n_w r_wk log weights_wk.

    Time O(iterations * nnz * n_topics); no allocation.

    References
    ----------
    .. [1] Bryant and Sudderth, "Truly Nonparametric Online Variational Inference for
       Hierarchical Dirichlet Processes", NIPS 2012.
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1
    cdef Py_ssize_t n_topics = prior.shape[0]
    cdef Py_ssize_t doc, k
    cdef bint cold = share.shape[0] > 0
    cdef double n_tokens
    if weights.shape[1] != n_topics or doc_topic.shape[1] != n_topics:
        raise ValueError("weights, doc_topic and prior disagree on the topics")
    if doc_topic.shape[0] != n_docs or words.shape[0] != counts.shape[0]:
        raise ValueError("indptr, words, counts and doc_topic disagree on documents")
    if work.shape[0] < 3 or work.shape[1] < n_topics or entropy.shape[0] < n_topics:
        raise ValueError("work or entropy is too small")
    if (cold and share.shape[0] != n_topics) or not (cold or remembered):
        raise ValueError("share must have an entry per topic where there is no start")
    with nogil:
        for doc in range(n_docs):
            n_tokens = 0.0
            for k in range(indptr[doc], indptr[doc + 1]):
                n_tokens += counts[k]
            if n_tokens <= 0.0:
                doc_topic[doc, :] = 0.0
                continue
            if remembered:
                _iterate(
                    indptr[doc], indptr[doc + 1], words, counts, weights, prior,
                    doc_topic[doc], work[0], work[1], max_iter, tol * n_tokens,
                )
            if cold:
                for k in range(n_topics):
                    work[2, k] = n_tokens * share[k]
                _iterate(
                    indptr[doc], indptr[doc + 1], words, counts, weights, prior,
                    work[2], work[0], work[1], max_iter, tol * n_tokens,
                )
                if not remembered or _local_bound(
                    indptr[doc], indptr[doc + 1], words, counts, weights, prior,
                    work[2], work[0], work[1], support * fmin(1.0, n_tokens),
                ) > _local_bound(
                    indptr[doc], indptr[doc + 1], words, counts, weights, prior,
                    doc_topic[doc], work[0], work[1], support * fmin(1.0, n_tokens),
                ):
                    doc_topic[doc, :] = work[2, :n_topics]
            _finish(
                indptr[doc], indptr[doc + 1], words, counts, weights, prior,
                doc_topic[doc], word_topic, entropy, work[0], work[1],
                support * fmin(1.0, n_tokens),
            )


cdef inline double _dot(
    const double[::1] left, const double[::1] right, Py_ssize_t size
) noexcept nogil:
    # Four sums hide the latency of the addition; their order is fixed.
    cdef double a = 0.0, b = 0.0, c = 0.0, d = 0.0
    cdef Py_ssize_t k, whole = size - size % 4
    for k in range(0, whole, 4):
        a += left[k] * right[k]
        b += left[k + 1] * right[k + 1]
        c += left[k + 2] * right[k + 2]
        d += left[k + 3] * right[k + 3]
    for k in range(whole, size):
        a += left[k] * right[k]
    return (a + b) + (c + d)


cdef void _iterate(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int32_t[::1] words,
    const double[::1] counts,
    const double[:, ::1] weights,
    const double[::1] prior,
    double[::1] doc_topic,
    double[::1] topic_weight,
    double[::1] total,
    Py_ssize_t max_iter,
    double tol,
) noexcept nogil:
    """Iterate the expected counts of one document to their fixed point."""
    cdef Py_ssize_t n_topics = prior.shape[0]
    cdef Py_ssize_t i, k, word, _iteration
    cdef double change, ratio, mass
    for _iteration in range(max_iter):
        for k in range(n_topics):
            topic_weight[k] = exp_digamma(prior[k] + doc_topic[k])
            if topic_weight[k] < SMALLEST_WEIGHT:
                topic_weight[k] = SMALLEST_WEIGHT
            total[k] = 0.0
        for i in range(begin, end):
            word = words[i]
            ratio = counts[i] / _dot(topic_weight, weights[word], n_topics)
            for k in range(n_topics):
                total[k] += ratio * weights[word, k]
        change = 0.0
        for k in range(n_topics):
            mass = topic_weight[k] * total[k]
            change += fabs(mass - doc_topic[k])
            doc_topic[k] = mass
        if change < tol:
            break


cdef inline void _weights_on_support(
    const double[::1] prior,
    const double[::1] doc_topic,
    double[::1] topic_weight,
    double support,
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(prior.shape[0]):
        topic_weight[k] = 0.0
        if doc_topic[k] >= support:
            topic_weight[k] = exp_digamma(prior[k] + doc_topic[k])
            if topic_weight[k] < SMALLEST_WEIGHT:
                topic_weight[k] = SMALLEST_WEIGHT


cdef double _local_bound(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int32_t[::1] words,
    const double[::1] counts,
    const double[:, ::1] weights,
    const double[::1] prior,
    const double[::1] doc_topic,
    double[::1] topic_weight,
    double[::1] total,
    double support,
) noexcept nogil:
    """Terms of the bound that depend on one document, up to a constant."""
    cdef Py_ssize_t n_topics = prior.shape[0]
    cdef Py_ssize_t i, k, word
    cdef double bound = 0.0, norm, mass
    _weights_on_support(prior, doc_topic, topic_weight, support)
    for k in range(n_topics):
        total[k] = 0.0
    for i in range(begin, end):
        word = words[i]
        norm = _dot(topic_weight, weights[word], n_topics)
        bound += counts[i] * log(norm)
        for k in range(n_topics):
            total[k] += counts[i] / norm * weights[word, k]
    for k in range(n_topics):
        mass = topic_weight[k] * total[k]
        if mass > 0.0:
            bound += (
                lgamma(prior[k] + mass) - lgamma(prior[k]) - mass * log(topic_weight[k])
            )
    return bound


cdef void _finish(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int32_t[::1] words,
    const double[::1] counts,
    const double[:, ::1] weights,
    const double[::1] prior,
    double[::1] doc_topic,
    double[:, ::1] word_topic,
    double[::1] entropy,
    double[::1] topic_weight,
    double[::1] part,
    double support,
) noexcept nogil:
    """Responsibilities on the support: expected counts, sums by word, entropy."""
    cdef Py_ssize_t n_topics = prior.shape[0]
    cdef Py_ssize_t i, k, word
    cdef double norm, ratio
    cdef bint collect = word_topic.shape[0] > 0
    _weights_on_support(prior, doc_topic, topic_weight, support)
    for k in range(n_topics):
        doc_topic[k] = 0.0
    for i in range(begin, end):
        word = words[i]
        norm = _dot(topic_weight, weights[word], n_topics)
        ratio = counts[i] / norm
        for k in range(n_topics):
            part[k] = ratio * topic_weight[k] * weights[word, k]
            doc_topic[k] += part[k]
        if collect:
            norm = log(norm)
            for k in range(n_topics):
                word_topic[word, k] += part[k]
                entropy[k] += norm * part[k]
    if collect:
        for k in range(n_topics):
            if doc_topic[k] > 0.0:
                entropy[k] -= doc_topic[k] * log(topic_weight[k])
