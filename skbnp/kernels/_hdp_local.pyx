"""The document step of a topic model with a Dirichlet prior over topics.

The loops are in src/document.c, in versions for several instruction sets.
"""

import numpy as np

from libc.math cimport INFINITY, fmin
from libc.stdint cimport int32_t

cdef extern from "src/document.h" nogil:
    size_t skbnp_document_work(size_t n, size_t stride)
    void skbnp_iterate(
        ptrdiff_t n, const int32_t *words, const float *counts, ptrdiff_t n_topics,
        ptrdiff_t stride, const float *weights, const float *prior, float *doc_topic,
        float *work, ptrdiff_t n_mean, ptrdiff_t max_iter, float tol, float active,
    )
    double skbnp_finish(
        ptrdiff_t n, const int32_t *words, const double *counts, ptrdiff_t stride,
        const float *weights, const double *prior, ptrdiff_t n_support,
        const int32_t *topics, const float *start, double scale, double *doc_weights,
        double *doc_topic, double *norms, int with_bound,
    )
    ptrdiff_t skbnp_word_sums(
        ptrdiff_t begin, ptrdiff_t end, const int32_t *columns, const int32_t *docs,
        const double *ratios, const double *log_ratios, const int32_t *support,
        const int32_t *doc_topics, const double *doc_weights, ptrdiff_t stride,
        const float *weights, int32_t *limits, int32_t *topics, double *used_weights,
        double *sums, double *log_norms, int32_t *marks, double *scratch,
        int32_t *found,
    )
    void skbnp_word_weights(
        ptrdiff_t n_words, const Py_ssize_t *words, ptrdiff_t n_topics,
        ptrdiff_t stride, const double *held, ptrdiff_t held_stride, double scale,
        const double *norm, double eta, float smallest, double *work, int mean,
        float *table, double *tops,
    )

#: Columns of a table of word weights are a multiple of this.
LANES = 8
#: Word weights come clamped here, relative to the word's largest; topic weights are
#: clamped below. Products of the two stay normal, so that no division is 0/0.
SMALLEST_WORD_WEIGHT = 1e-20
#: Expected tokens (times the document's, if less than one) below which a topic is left
#: out of an iteration, until the next look at all topics.
ACTIVE = 0.1
#: Nats per token by which another start must be better: more than the rounding of word
#: weights can make of two equals.
MARGIN = 2e-6


cdef double _total(Py_ssize_t n, const double *counts) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        total += counts[i]
    return total


cdef double _scale(double n_tokens) noexcept nogil:
    """What brings a document into the range of single precision, mostly one.

    Beyond, the prior is all that counts, or nothing.
    """
    if n_tokens < 1e-20:
        return 1e-20 / n_tokens
    return 1e9 / n_tokens if n_tokens > 1e9 else 1.0


cdef Py_ssize_t _choose(
    Py_ssize_t n, const float *start, float least, int32_t *topics
) noexcept nogil:
    """Positions of the entries that are at least so large."""
    cdef Py_ssize_t k, a = 0
    for k in range(n):
        topics[a] = <int32_t>k
        a += start[k] >= least
    return a


def infer_documents(
    const int32_t[::1] indptr,      # IN    (n_docs + 1,)
    const int32_t[::1] words,       # IN    (nnz,) rows of `weights`
    const double[::1] counts,       # IN    (nnz,) > 0
    const float[:, ::1] weights,    # IN    (n_words, stride), a multiple of LANES; b
    const double[::1] prior,        # IN    (n_topics,) > 0
    const double[::1] share,        # IN    (n_topics,) of a cold start; or (0,)
    float[:, ::1] starts,           # INOUT (n_docs, stride) remembered N, or any; see
    bint remembered,                # IN    whether `starts` holds something
    Py_ssize_t max_iter,
    double tol,
    double support,
    bint plain=False,               # IN    whether to leave no topics out
    Py_ssize_t n_mean=0,            # IN    iterations with e = theta at a cold start
):
    """Fixed point of Eqs. (3) and (4) of [1] for each document, topics held fixed.

    With theta = prior + N and e = exp(psi(theta)), iterate

        N_k = e_k sum_w counts_w b_wk / s_w,    s_w = sum_l e_l b_wl,

    until sum_k |change of N_k| < tol times the tokens of the document, or `max_iter`
    times. Iterations leave out topics of next to no tokens; one over all topics must
    confirm the result. They run in single precision. A last pass, in double precision,
    over the support, the topics with at least `support * min(1, tokens)` expected
    tokens, makes the responsibilities r_wk = e_k b_wk / s_w sum to one.

    The iteration starts from `tokens * share` (cold, and `n_mean` iterations with
    theta itself in place of exp(psi(theta)), which keeps small topics in reach), or
    from `starts` (remembered; as of a document of 1e9 tokens where there are more, and
    of 1e-20 where less). If both are given, the result with the highest bound

        sum_w n_w log s_w + sum_k [lnG(prior_k + N_k) - lnG(prior_k) - N_k log e_k]

    is kept, and what was remembered may stay but for the last pass. So a document can
    take up topics that it did not have, and yet never falls below the bound it had.

    Time O(iterations * nnz * n_topics), less where few topics are in use; allocates the
    results alone.

    Returns
    -------
    limits : (n_docs + 1,)
        Of the documents' supports in the next three.
    topics : int32
        The support, in increasing order.
    doc_topic, doc_weights
        N and e there.
    norms : (nnz,)
        s; one for documents without tokens.

    References
    ----------
    .. [1] Bryant and Sudderth, "Truly Nonparametric Online Variational Inference for
       Hierarchical Dirichlet Processes", NIPS 2012.
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1
    cdef Py_ssize_t n_topics = prior.shape[0], stride = weights.shape[1]
    cdef Py_ssize_t doc, i, k, begin, n, a, longest = 0
    cdef bint cold = share.shape[0] > 0
    cdef double n_tokens, scale, best, bound
    cdef float least, active, low = -1.0 if plain else ACTIVE
    cdef double margin = MARGIN
    if stride % 8 or not n_topics <= stride < n_topics + 8:
        raise ValueError("weights must have a column per topic, and lanes filled")
    if starts.shape[0] != n_docs or starts.shape[1] != stride:
        raise ValueError("indptr, weights and starts disagree")
    if words.shape[0] != counts.shape[0] or indptr[n_docs] != counts.shape[0]:
        raise ValueError("indptr, words and counts disagree on documents")
    if (cold and share.shape[0] != n_topics) or not (cold or remembered):
        raise ValueError("share must have an entry per topic where there is no start")
    limits = np.zeros(n_docs + 1, dtype=np.int32)
    norms = np.ones(counts.shape[0])
    cdef int32_t[::1] ends = limits
    cdef double[::1] s = norms
    for doc in range(n_docs):
        longest = max(longest, indptr[doc + 1] - indptr[doc])
    if longest == 0:
        nothing = np.zeros(0)
        return limits, np.zeros(0, dtype=np.int32), nothing, nothing, norms
    # Priors by lane, the better start, scaled counts, and what the iteration needs.
    cdef float[::1] space = np.empty(
        2 * stride + longest + 8 + skbnp_document_work(longest, stride),
        dtype=np.float32,
    )
    cdef double[::1] room = np.empty(2 * n_topics)
    cdef int32_t[::1] chosen = np.empty(n_topics, dtype=np.int32)
    cdef float *lanes = &space[0]
    cdef float *other = lanes + stride
    cdef float *scaled = other + stride
    cdef float *work = scaled + longest + 8
    cdef float *start
    with nogil:
        for k in range(stride):
            lanes[k] = <float>fmin(prior[k], 1e10) if k < n_topics else 1e-18
        for doc in range(n_docs):
            begin, n = indptr[doc], indptr[doc + 1] - indptr[doc]
            start = &starts[doc, 0]
            ends[doc + 1] = ends[doc]
            if n == 0:
                continue
            n_tokens = _total(n, &counts[begin])
            scale = _scale(n_tokens)
            for i in range(n):
                scaled[i] = <float>(counts[begin + i] * scale)
            for i in range(n, n + 8):
                scaled[i] = 0.0
            least = <float>(support * fmin(1.0, n_tokens) * scale)
            active = <float>(low * fmin(1.0, n_tokens) * scale)
            best = -INFINITY
            if remembered:
                for k in range(n_topics, stride):
                    start[k] = 0.0
            if remembered and cold:
                # A step over the support alone cannot fall below what it was.
                a = _choose(n_topics, start, least, &chosen[0])
                if a:
                    best = margin * n_tokens + skbnp_finish(
                        n, &words[begin], &counts[begin], stride, &weights[0, 0],
                        &prior[0], a, &chosen[0], start, scale, &room[0],
                        &room[n_topics], &s[begin], True,
                    )
                for k in range(stride):
                    other[k] = start[k]
            for i in range(2):
                if (i == 0 and not remembered) or (i == 1 and not cold):
                    continue
                if i == 1:
                    for k in range(n_topics):
                        start[k] = <float>(n_tokens * scale * share[k])
                    for k in range(n_topics, stride):
                        start[k] = 0.0
                skbnp_iterate(
                    n, &words[begin], scaled, n_topics, stride, &weights[0, 0], lanes,
                    start, work, n_mean if i == 1 else 0, max_iter,
                    <float>(tol * n_tokens * scale), active,
                )
                a = _choose(n_topics, start, least, &chosen[0])
                if not (remembered and cold):
                    continue
                bound = skbnp_finish(
                    n, &words[begin], &counts[begin], stride, &weights[0, 0],
                    &prior[0], a, &chosen[0], start, scale, &room[0],
                    &room[n_topics], &s[begin], True,
                )
                if bound > best:
                    best = bound
                    for k in range(stride):
                        other[k] = start[k]
            if remembered and cold:
                for k in range(stride):
                    start[k] = other[k]
                a = _choose(n_topics, start, least, &chosen[0])
            ends[doc + 1] = ends[doc] + <int32_t>a
    topics = np.empty(limits[n_docs], dtype=np.int32)
    doc_topic, doc_weights = np.empty(len(topics)), np.empty(len(topics))
    cdef int32_t[::1] used = topics
    cdef double[::1] tokens = doc_topic, e = doc_weights
    with nogil:
        for doc in range(n_docs):
            begin, n = indptr[doc], indptr[doc + 1] - indptr[doc]
            i, a = ends[doc], ends[doc + 1] - ends[doc]
            if a == 0:
                continue
            start = &starts[doc, 0]
            n_tokens = _total(n, &counts[begin])
            scale = _scale(n_tokens)
            least = <float>(support * fmin(1.0, n_tokens) * scale)
            _choose(n_topics, start, least, &chosen[0])
            for k in range(a):
                used[i + k] = chosen[k]
            skbnp_finish(
                n, &words[begin], &counts[begin], stride, &weights[0, 0], &prior[0], a,
                &used[i], start, scale, &e[i], &tokens[i], &s[begin], False,
            )
    return limits, topics, doc_topic, doc_weights, norms


def word_sums(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int32_t[::1] columns,      # IN  (n_words + 1,) limits of the words
    const int32_t[::1] docs,         # IN  (nnz,) documents, word by word
    const double[::1] ratios,        # IN  (nnz,) n / s, word by word
    const double[::1] log_ratios,    # IN  (nnz,) n log(s) / s, word by word
    const int32_t[::1] limits,       # IN  (n_docs + 1,) of the documents' supports
    const int32_t[::1] doc_topics,   # IN  their topics
    const double[::1] doc_weights,   # IN  and e there
    const float[:, ::1] weights,     # IN  (n_words, stride) b
    Py_ssize_t n_topics,
):
    """Sum responsibilities over documents for the words from `begin` to `end`.

    Returns
    -------
    n_used : (end - begin,)
        Topics in use, of each word.
    topics, used_weights, sums
        Word by word, topics in increasing order: the topic k, b_wk and the sum over
        documents of n r_wk, r_wk = e_k b_wk / s_w.
    log_norms : (n_topics,)
        Sum over these words and the documents of n r_wk log s_w.
    """
    cdef Py_ssize_t at, most = 0, used
    cdef Py_ssize_t n_docs = limits.shape[0] - 1
    if not 0 <= begin <= end <= weights.shape[0] or columns.shape[0] <= end:
        raise ValueError("words must lie between 0 and the rows of weights")
    if not docs.shape[0] == ratios.shape[0] == log_ratios.shape[0]:
        raise ValueError("docs and ratios disagree")
    if n_docs < 0 or not doc_topics.shape[0] == doc_weights.shape[0] == limits[n_docs]:
        raise ValueError("limits, doc_topics and doc_weights disagree")
    if not n_topics <= weights.shape[1]:
        raise ValueError("weights must have a column per topic")
    for at in range(columns[begin], columns[end]):
        most += limits[docs[at] + 1] - limits[docs[at]]
    most = min(most, (end - begin) * n_topics) + 1
    n_used = np.zeros(end - begin + 1, dtype=np.int32)
    topics = np.empty(most, dtype=np.int32)
    used_weights, sums = np.empty(most), np.empty(most)
    log_norms = np.zeros(n_topics)
    cdef int32_t[::1] lengths = n_used, columns_put = topics
    cdef double[::1] b = used_weights, values = sums, logs = log_norms
    cdef int32_t[::1] marks = np.full(n_topics, -1, dtype=np.int32)
    cdef int32_t[::1] found = np.empty(n_topics, dtype=np.int32)
    cdef double[::1] scratch = np.zeros(2 * n_topics)
    used = 0
    if end > begin and doc_topics.shape[0] and docs.shape[0]:
        with nogil:
            used = skbnp_word_sums(
                begin, end, &columns[0], &docs[0], &ratios[0], &log_ratios[0],
                &limits[0], &doc_topics[0], &doc_weights[0], weights.shape[1],
                &weights[0, 0], &lengths[0], &columns_put[0], &b[0], &values[0],
                &logs[0], &marks[0], &scratch[0], &found[0],
            )
    return (
        n_used[: end - begin],
        topics[:used].copy(),
        used_weights[:used].copy(),
        sums[:used].copy(),
        log_norms,
    )


def word_weights(
    const double[:, ::1] held,      # IN    (all words, n_topics or more) counts S
    double scale,                   # IN    multiplies them
    const Py_ssize_t[::1] words,    # IN    (n_words,) rows of it
    const double[::1] norm,         # IN    (n_topics,) see below
    double eta,
    bint mean,
    float[:, ::1] table,            # OUT   (n_words, stride)
    double[::1] tops=None,          # OUT   (n_words,) largest means, or None
):
    """Weights of some words, relative to the largest of each.

    exp(psi(eta + S) - norm), or (eta + S) / norm for the mean; at least 1e-20. Columns
    behind the topics are zero. Single precision: relative error 1e-6. `tops` are the
    largest means of the words, times the largest norm; not for the former weights.
    """
    cdef Py_ssize_t n_topics = norm.shape[0], stride = table.shape[1], i
    if not n_topics <= held.shape[1] or not n_topics <= stride:
        raise ValueError("held, norm and table disagree on the topics")
    if table.shape[0] != words.shape[0]:
        raise ValueError("held, words, norm and table disagree")
    for i in range(words.shape[0]):
        if not 0 <= words[i] < held.shape[0]:
            raise ValueError("words must be rows of held")
    if words.shape[0] == 0 or n_topics == 0:
        return
    if tops is not None and (tops.shape[0] != words.shape[0] or not mean):
        raise ValueError("tops must have an entry per word, and are those of means")
    cdef double[::1] work = np.empty(2 * stride)
    cdef float smallest = SMALLEST_WORD_WEIGHT
    cdef double *largest = NULL
    if tops is not None:
        largest = &tops[0]
    with nogil:
        skbnp_word_weights(
            words.shape[0], &words[0], n_topics, stride, &held[0, 0], held.shape[1],
            scale, &norm[0], eta, smallest, &work[0], mean, &table[0, 0], largest,
        )
