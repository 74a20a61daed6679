"""The document step of a topic model with a Dirichlet prior over topics.

The loops are in src/document.c, in versions for several instruction sets.
"""

from libc.math cimport fmin
from libc.stdint cimport int32_t

cdef extern from "src/document.h" nogil:
    size_t skbnp_document_work(size_t n, size_t n_topics)
    void skbnp_iterate(
        ptrdiff_t n, const int32_t *words, const double *counts, ptrdiff_t n_topics,
        const double *weights, const double *prior, double *doc_topic, double *work,
        ptrdiff_t max_iter, double tol, double active,
    )
    double skbnp_finish(
        ptrdiff_t n, const int32_t *words, const double *counts, ptrdiff_t n_topics,
        const double *weights, const double *prior, double *doc_topic, double *work,
        double support, int with_bound,
    )
    void skbnp_collect(
        ptrdiff_t n, const int32_t *words, const double *counts, ptrdiff_t n_topics,
        const double *work, double *word_topic, double *entropy, double *doc_weights,
        double *norms,
    )
    void skbnp_word_weights(
        ptrdiff_t n_words, ptrdiff_t n_topics, double *table, const double *norm,
        double eta, double smallest, double *work, int mean,
    )
    void skbnp_exp_digamma(ptrdiff_t n, const double *x, double *out)

#: Word weights come clamped here, relative to the word's largest; topic weights are
#: clamped below. Products of the two stay normal, so that no division is 0/0.
SMALLEST_WORD_WEIGHT = 1e-140
#: Expected tokens (times the document's, if less than one) below which a topic is left
#: out of an iteration, until the next look at all topics.
ACTIVE = 0.1


def document_work(const int32_t[::1] indptr, Py_ssize_t n_topics):
    """Size of the work space that `infer_documents` needs for these documents."""
    cdef Py_ssize_t doc, longest = 0
    for doc in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[doc + 1] - indptr[doc])
    return skbnp_document_work(longest, n_topics)


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
    double[::1] entropy,            # INOUT (n_topics,) sums
    double[:, ::1] doc_weights,     # OUT   (n_docs, n_topics) e, or (0, 0)
    double[::1] norms,              # OUT   (nnz,) s, or (0,)
    double[::1] work,               # WORK  as `document_work` says, and n_topics more
    Py_ssize_t max_iter,
    double tol,
    double support,
    bint prune=True,                # IN    whether to leave topics out on the way
):
    """Fixed point of Eqs. (3) and (4) of [1] for each document, topics held fixed.

    With theta = prior + doc_topic and e = exp(psi(theta)), iterate

        doc_topic_k = e_k sum_w counts_w weights_wk / sum_l e_l weights_wl

    until sum_k |change of doc_topic_k| < tol times the tokens of the document, or
    `max_iter` times. Iterations leave out topics of next to no tokens; one over all
    topics must confirm the result. A last pass over the support, the topics with at
    least `support * min(1, tokens)` expected tokens, leaves exact zeros elsewhere.

    The iteration starts from `tokens * share` (cold), or from what `doc_topic` holds
    (remembered). If both are given, the result with the highest bound

        sum_w n_w log s_w + sum_k [lnG(prior_k + N_k) - lnG(prior_k) - N_k log e_k]

    is kept, s_w = sum_l e_l weights_wl, N = doc_topic, and what was remembered may stay
    but for the last pass. So a document can take up topics that it did not have, and
    yet never falls below the bound it had.

    The responsibilities r_wk = e_k weights_wk / s_w are added to `word_topic` (where it
    has rows), and their entropy -sum_w n_w r_wk log r_wk to `entropy`; their factors e
    (zero off the support) and s go to `doc_weights` and `norms`, if these have rows.

    Time O(iterations * nnz * n_topics), less where few topics are in use; no
    allocation.

    References
    ----------
    .. [1] Bryant and Sudderth, "Truly Nonparametric Online Variational Inference for
       Hierarchical Dirichlet Processes", NIPS 2012.
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1
    cdef Py_ssize_t n_topics = prior.shape[0]
    cdef Py_ssize_t doc, i, k, begin, n
    cdef bint cold = share.shape[0] > 0
    cdef bint collect = word_topic.shape[0] > 0, factors = doc_weights.shape[0] > 0
    cdef double n_tokens, least, active, bound, best
    if n_docs == 0 or counts.shape[0] == 0:
        doc_topic[:, :] = 0.0
        return
    if weights.shape[1] != n_topics or doc_topic.shape[1] != n_topics:
        raise ValueError("weights, doc_topic and prior disagree on the topics")
    if doc_topic.shape[0] != n_docs or words.shape[0] != counts.shape[0]:
        raise ValueError("indptr, words, counts and doc_topic disagree on documents")
    if factors and (
        doc_weights.shape[0] != n_docs
        or doc_weights.shape[1] != n_topics
        or norms.shape[0] != counts.shape[0]
        or not collect
    ):
        raise ValueError("doc_weights and norms must match doc_topic and counts")
    if collect and (
        word_topic.shape[0] != weights.shape[0] or word_topic.shape[1] != n_topics
    ):
        raise ValueError("word_topic must have the shape of weights")
    if <size_t>work.shape[0] < document_work(indptr, n_topics) + n_topics:
        raise ValueError("work is too small")
    if entropy.shape[0] < n_topics:
        raise ValueError("entropy is too small")
    if (cold and share.shape[0] != n_topics) or not (cold or remembered):
        raise ValueError("share must have an entry per topic where there is no start")
    # The first part of the work space holds the best result so far.
    cdef double *other = &work[0]
    cdef double *space = other + n_topics
    cdef double *topic
    cdef double low = ACTIVE if prune else -1.0
    with nogil:
        for doc in range(n_docs):
            begin, n = indptr[doc], indptr[doc + 1] - indptr[doc]
            topic = &doc_topic[doc, 0]
            n_tokens = 0.0
            for i in range(begin, begin + n):
                n_tokens += counts[i]
            if n_tokens <= 0.0:
                doc_topic[doc, :] = 0.0
                if factors:
                    doc_weights[doc, :] = 0.0
                continue
            least, active = support * fmin(1.0, n_tokens), low * fmin(1.0, n_tokens)
            best = 0.0
            if remembered and cold:
                # A step over the support alone cannot fall below what it was.
                best = skbnp_finish(
                    n, &words[begin], &counts[begin], n_topics, &weights[0, 0],
                    &prior[0], topic, space, least, True,
                )
                for k in range(n_topics):
                    other[k] = topic[k]
            if remembered:
                skbnp_iterate(
                    n, &words[begin], &counts[begin], n_topics, &weights[0, 0],
                    &prior[0], topic, space, max_iter, tol * n_tokens, active,
                )
            if remembered and cold:
                bound = skbnp_finish(
                    n, &words[begin], &counts[begin], n_topics, &weights[0, 0],
                    &prior[0], topic, space, least, True,
                )
                if bound > best:
                    best = bound
                    for k in range(n_topics):
                        other[k] = topic[k]
            if cold:
                for k in range(n_topics):
                    topic[k] = n_tokens * share[k]
                skbnp_iterate(
                    n, &words[begin], &counts[begin], n_topics, &weights[0, 0],
                    &prior[0], topic, space, max_iter, tol * n_tokens, active,
                )
            bound = skbnp_finish(
                n, &words[begin], &counts[begin], n_topics, &weights[0, 0],
                &prior[0], topic, space, least, remembered and cold,
            )
            if remembered and cold and bound < best:
                for k in range(n_topics):
                    topic[k] = other[k]
                skbnp_finish(
                    n, &words[begin], &counts[begin], n_topics, &weights[0, 0],
                    &prior[0], topic, space, least, False,
                )
            if collect:
                skbnp_collect(
                    n, &words[begin], &counts[begin], n_topics, space,
                    &word_topic[0, 0], &entropy[0],
                    &doc_weights[doc, 0] if factors else NULL,
                    &norms[begin] if factors else NULL,
                )


def word_weights(
    double[:, ::1] table,           # INOUT (n_words, n_topics) counts S, weights
    const double[::1] norm,         # IN    (n_topics,) see below
    double eta,
    double[::1] work,               # WORK  (2 * n_topics,)
    bint mean,
):
    """Replace counts by weights, relative to the largest of each word.

    exp(psi(eta + S) - norm), or (eta + S) / norm for the mean; at least 1e-140.
    """
    if norm.shape[0] != table.shape[1] or work.shape[0] < 2 * table.shape[1]:
        raise ValueError("table, norm and work disagree on the topics")
    if table.shape[0] == 0 or table.shape[1] == 0:
        return
    cdef double smallest = SMALLEST_WORD_WEIGHT
    with nogil:
        skbnp_word_weights(
            table.shape[0], table.shape[1], &table[0, 0], &norm[0], eta, smallest,
            &work[0], mean,
        )


def exp_digamma(const double[::1] x, double[::1] out):
    """Put exp(psi(x)) of each entry to `out`."""
    if out.shape[0] != x.shape[0]:
        raise ValueError("x and out disagree on their length")
    if x.shape[0]:
        with nogil:
            skbnp_exp_digamma(x.shape[0], &x[0], &out[0])
