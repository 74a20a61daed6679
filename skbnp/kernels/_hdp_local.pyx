"""The document step of a topic model with a Dirichlet prior over topics."""

from libc.math cimport fabs, fmin, log
from libc.stdint cimport int32_t

from skbnp.kernels._math cimport exp_digamma

# Below this a topic weight is a clamp, not a number: products with the smallest word
# weight (1e-140, set by the caller) stay normal, so that no division is 0/0.
cdef double SMALLEST_WEIGHT = 1e-150


def infer_documents(
    const int32_t[::1] indptr,      # IN    (n_docs + 1,)
    const int32_t[::1] words,       # IN    (nnz,) rows of `weights`
    const double[::1] counts,       # IN    (nnz,) > 0
    const double[:, ::1] weights,   # IN    (n_words, n_topics) in [1e-140, 1]
    const double[::1] prior,        # IN    (n_topics,) > 0
    double[:, ::1] doc_topic,       # INOUT (n_docs, n_topics) counts: start, result
    double[:, ::1] word_topic,      # INOUT (n_words, n_topics) sums, or (0, n_topics)
    double[::1] entropy,            # INOUT (n_topics,) sums, see below
    double[:, ::1] work,            # WORK  (2, n_topics)
    Py_ssize_t max_iter,
    double tol,
    double support,
):
    """Fixed point of Eqs. (3) and (4) of [1] for each document, topics held fixed.

    With theta = prior + doc_topic and e = exp(psi(theta)), iterate

        doc_topic_k = e_k sum_w counts_w weights_wk / sum_l e_l weights_wl

    until sum_k |change of doc_topic_k| < tol times the tokens of the document, or
    `max_iter` times. A last pass over the support, the topics with at least
    `support * min(1, tokens)` expected tokens, leaves exact zeros elsewhere and adds
    the responsibilities r to `word_topic` (where it has rows), and to `entropy`

        sum_w n_w r_wk log(s_w / e_k),   s_w = sum_l e_l weights_wl,

    which is the entropy -sum_w n_w r_wk log r_wk up to sum_w n_w r_wk log weights_wk.

    Time O(iterations * nnz * n_topics); no allocation.

    References
    ----------
    .. [1] Bryant and Sudderth, "Truly Nonparametric Online Variational Inference for
       Hierarchical Dirichlet Processes", NIPS 2012.
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1
    cdef Py_ssize_t n_topics = prior.shape[0]
    cdef Py_ssize_t doc
    if weights.shape[1] != n_topics or doc_topic.shape[1] != n_topics:
        raise ValueError("weights, doc_topic and prior disagree on the topics")
    if doc_topic.shape[0] != n_docs or words.shape[0] != counts.shape[0]:
        raise ValueError("indptr, words, counts and doc_topic disagree on the documents")
    if work.shape[0] < 2 or work.shape[1] < n_topics or entropy.shape[0] < n_topics:
        raise ValueError("work or entropy is too small")
    with nogil:
        for doc in range(n_docs):
            _infer_document(
                indptr[doc], indptr[doc + 1], words, counts, weights, prior,
                doc_topic[doc], word_topic, entropy, work[0], work[1],
                max_iter, tol, support,
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


cdef void _infer_document(
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
    double[::1] total,
    Py_ssize_t max_iter,
    double tol,
    double support,
) noexcept nogil:
    cdef Py_ssize_t n_topics = prior.shape[0]
    cdef Py_ssize_t i, k, word, iteration
    cdef double n_tokens = 0.0, change, norm, ratio, mass
    cdef bint collect = word_topic.shape[0] > 0

    for i in range(begin, end):
        n_tokens += counts[i]
    if n_tokens <= 0.0:
        for k in range(n_topics):
            doc_topic[k] = 0.0
        return

    for iteration in range(max_iter):
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
        if change < tol * n_tokens:
            break

    for k in range(n_topics):
        topic_weight[k] = (
            max(exp_digamma(prior[k] + doc_topic[k]), SMALLEST_WEIGHT)
            if doc_topic[k] >= support * fmin(1.0, n_tokens) else 0.0
        )
        doc_topic[k] = 0.0
    for i in range(begin, end):
        word = words[i]
        norm = _dot(topic_weight, weights[word], n_topics)
        ratio = counts[i] / norm
        for k in range(n_topics):
            mass = ratio * topic_weight[k] * weights[word, k]
            doc_topic[k] += mass
            total[k] = mass
        if collect:
            norm = log(norm)
            for k in range(n_topics):
                word_topic[word, k] += total[k]
                entropy[k] += norm * total[k]
    if collect:
        for k in range(n_topics):
            if doc_topic[k] > 0.0:
                entropy[k] -= doc_topic[k] * log(topic_weight[k])
