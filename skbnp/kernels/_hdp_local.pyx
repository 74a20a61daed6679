"""The mean-field local step of documents with a Dirichlet prior over topics.

Tables of word weights b_wk are (n_words, stride) floats; stride is a multiple of 8,
columns from K on are zero. Arrays by topic have `stride` entries too, with priors of
next to nothing and counts of zero behind the K-th. Passes over words and topics are in
src/document.h.
"""

import numpy as np

from libc.math cimport INFINITY, fmin, lgamma, log
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from skbnp.kernels._interrupts cimport count_work
from skbnp.kernels._sparse cimport (
    Sums,
    check_rows,
    end_word,
    longest_of,
    mark,
    open_sums,
)

cdef extern from "src/document.h" nogil:
    """
    struct skbnp_topics;
    struct skbnp_document;
    struct skbnp_support;
    SKBNP_CLONES static int skbnp_iterate(
        const struct skbnp_topics *, const struct skbnp_document *, float *, float *,
        Py_ssize_t);
    SKBNP_CLONES static double skbnp_finish(
        const struct skbnp_topics *, const struct skbnp_document *, const float *,
        const struct skbnp_support *, int);
    """
    Py_ssize_t padded(Py_ssize_t n)
    void weigh_mean(Py_ssize_t n, const float* prior, const float* doc_topic, float* e)
    void weigh(Py_ssize_t n, const float* prior, const float* doc_topic, float* e)
    float set_tokens(Py_ssize_t n, const float* e, const float* total, float* doc_topic)
    void sum_words(
        Py_ssize_t n, const int32_t* words, const float* counts, Py_ssize_t stride,
        const float* weights, const float* e, float* total,
    )
    void sum_tile(
        Py_ssize_t n, const float* counts, Py_ssize_t n_used, const float* tile,
        const float* e, float* sums, float* total,
    )
    Py_ssize_t choose(
        Py_ssize_t n, const float* doc_topic, float active, int32_t* chosen
    )
    Py_ssize_t count_active(Py_ssize_t n, const float* doc_topic, float active)
    void narrow(
        Py_ssize_t n, const int32_t* words, Py_ssize_t stride, const float* weights,
        Py_ssize_t n_used, const int32_t* topics, float* tile,
    )
    void weigh_exactly(Py_ssize_t n, double* weights, double* work)
    void finish_words(
        Py_ssize_t n, const int32_t* words, const double* counts, Py_ssize_t stride,
        const float* weights, Py_ssize_t n_support, const int32_t* topics,
        const double* doc_weights, double* doc_topic, double* norms, double* work,
    )
    void weigh_words(
        const double* sums, Py_ssize_t sums_stride, double scale,
        const Py_ssize_t* words, Py_ssize_t n_words, const double* norm,
        Py_ssize_t n_topics, double eta, int mean, float smallest, double* work,
        float* table, Py_ssize_t stride, double* tops,
    )

    enum:
        LANE "LANES"

#: Columns of a table of word weights are a multiple of this.
LANES = LANE
#: Word weights come clamped here, relative to the word's largest; topic weights are
#: clamped below. Products of the two stay normal, so that no division is 0/0.
SMALLEST_WORD_WEIGHT = 1e-20
#: Expected tokens (times the document's, if less than one) below which a topic is left
#: out of an iteration, until the next look at all topics.
ACTIVE = 0.1
#: Nats per token by which another start must be better: more than the rounding of word
#: weights can make of two equals.
MARGIN = 2e-6

cdef float SMALLEST = SMALLEST_WORD_WEIGHT
cdef double NATS = MARGIN, ACTIVE_TOKENS = ACTIVE

cdef enum:
    # A document goes on with the topics in use once they are this part of all...
    NARROW = 4
    # ...and leaves out more of them once one in so many has become idle...
    DROP = 5
    # ...for so many rounds, between passes over all topics.
    MAX_ROUNDS = 3
    # Words between two looks for an interrupt.
    PART = 4096


# Topics, which are fixed, and when to stop.
cdef struct Topics "skbnp_topics":
    Py_ssize_t n_topics, stride
    const float* weights        # (n_words, stride) b
    const double* prior         # (n_topics,)
    const double* share         # (n_topics,) of a cold start
    float* lanes                # (stride,) the prior
    Py_ssize_t max_iter, n_mean
    double tol, support, active
    Py_ssize_t* done            # work, for `count_work`


cdef struct Document "skbnp_document":
    Py_ssize_t n
    const int32_t* words        # (n,)
    const double* counts        # (n,)
    float* scaled               # (n,) times `scale`; zeros up to a multiple of 8
    double n_tokens
    double scale                # into the range of single precision, mostly one
    float tol, least, active    # n_tokens times that of the topics, scaled


# Topics of a document in double precision.
cdef struct Support "skbnp_support":
    Py_ssize_t n
    int32_t* topics             # (n,)
    double* weights             # (n,) e
    double* tokens              # (n,) N
    double* norms               # (words,) s
    double* work                # (4 stride,)


cdef size_t _work(size_t n, size_t stride):
    """Floats of work space for documents of at most n words."""
    cdef size_t wide = (n + LANE - 1) // LANE * LANE, most = stride // NARROW
    return 5 * stride + LANE * (most + LANE) + wide * most


cdef inline Py_ssize_t drop_idle(
    Py_ssize_t n_used, Py_ssize_t wide, float active, float* used, float* prior,
    int32_t* topics, float* tile, int32_t* kept,
) noexcept nogil:
    """Leave out topics of few tokens, once they are many; how many stay."""
    cdef Py_ssize_t n_left = count_active(n_used, used, active), a, source
    if n_left == 0 or n_left > n_used - n_used // DROP - 1:
        return n_used
    choose(n_used, used, active, kept)
    for a in range(padded(n_left)):
        source = kept[a] if a < n_left else 0
        topics[a] = topics[source]
        prior[a] = prior[source] if a < n_left else <float>1e-18
        used[a] = used[source] if a < n_left else <float>0.0
        if a < n_left and a != source:
            memcpy(tile + a * wide, tile + source * wide, wide * sizeof(float))
    return n_left


cdef inline Py_ssize_t iterate_used(
    const Topics* m, const Document* d, float* doc_topic, float* work,
    Py_ssize_t n_used, Py_ssize_t iteration,
) except -1 nogil:
    """Iterate over the topics in use; returns the iterations so far."""
    cdef Py_ssize_t wide = padded(d.n), a
    cdef float* e = work
    cdef float* total = e + m.stride
    cdef float* prior = total + m.stride
    cdef float* used = prior + m.stride
    cdef int32_t* topics = <int32_t*>(used + m.stride)
    cdef float* sums = <float*>(topics + m.stride)
    cdef float* tile = sums + LANE * (m.stride // NARROW + LANE)
    cdef float change
    choose(m.n_topics, doc_topic, d.active, topics)
    narrow(d.n, d.words, m.stride, m.weights, n_used, topics, tile)
    for a in range(padded(n_used)):
        # What fills the last vector: its exponent is never the largest.
        prior[a] = m.lanes[topics[a]] if a < n_used else <float>1e-18
        used[a] = doc_topic[topics[a]] if a < n_used else <float>0.0
    while iteration < m.max_iter:
        weigh(padded(n_used), prior, used, e)
        sum_tile(d.n, d.scaled, n_used, tile, e, sums, total)
        count_work(d.n * n_used, m.done)
        change = set_tokens(padded(n_used), e, total, used)
        iteration += 1
        if change < d.tol:
            break
        n_used = drop_idle(
            n_used, wide, d.active, used, prior, topics, tile, <int32_t*>total
        )
    for a in range(m.stride):
        doc_topic[a] = 0.0
    for a in range(n_used):
        doc_topic[topics[a]] = used[a]
    return iteration


cdef int _iterate "skbnp_iterate"(
    const Topics* m, const Document* d, float* doc_topic, float* work,
    Py_ssize_t n_mean,
) except -1 nogil:
    """Iterate N_k = e_k sum_w n_w b_wk / s_w, e ~ exp(psi(prior + N)).

    Until sum |change| < tol or max_iter times; before, n_mean times with
    e ~ prior + N. Topics with N_k < active are left out on the way.
    """
    cdef float* e = work
    cdef float* total = e + m.stride
    cdef Py_ssize_t iteration = 0, n_used, _
    cdef int rounds = 0
    for _ in range(n_mean):
        weigh_mean(m.stride, m.lanes, doc_topic, e)
        sum_words(d.n, d.words, d.scaled, m.stride, m.weights, e, total)
        count_work(d.n * m.stride, m.done)
        set_tokens(m.stride, e, total, doc_topic)
    while iteration < m.max_iter:
        weigh(m.stride, m.lanes, doc_topic, e)
        sum_words(d.n, d.words, d.scaled, m.stride, m.weights, e, total)
        count_work(d.n * m.stride, m.done)
        iteration += 1
        if set_tokens(m.stride, e, total, doc_topic) < d.tol:
            return 0
        if iteration < 2 or rounds == MAX_ROUNDS:
            continue
        n_used = count_active(m.n_topics, doc_topic, d.active)
        if n_used == 0 or NARROW * n_used > m.n_topics:
            continue
        # Few topics are in use: iterate over them alone, then look at all again.
        rounds += 1
        iteration = iterate_used(m, d, doc_topic, work, n_used, iteration)
    return 0


cdef double _finish "skbnp_finish"(
    const Topics* m, const Document* d, const float* start, const Support* s,
    bint with_bound,
) except? -1.0 nogil:
    """e, N and norms over the support from counts N at the start, times `scale`.

    Returns sum_w n_w log s_w - sum_k N_k log e_k
    + sum_k [lnG(prior_k + N_k) - lnG(prior_k)], or zero without `with_bound`.
    """
    cdef double bound = 0.0, x
    cdef Py_ssize_t a, i = 0, n
    for a in range(s.n):
        s.weights[a] = m.prior[s.topics[a]] + <double>start[s.topics[a]] / d.scale
    weigh_exactly(s.n, s.weights, s.tokens)
    while i < d.n:
        n = min(<Py_ssize_t>PART, d.n - i)
        finish_words(
            n, d.words + i, d.counts + i, m.stride, m.weights, s.n, s.topics,
            s.weights, s.tokens, s.norms + i, s.work,
        )
        count_work(n * s.n, m.done)
        i += n
    if not with_bound:
        return 0.0
    for i in range(d.n):
        bound += d.counts[i] * log(s.norms[i])
    for a in range(s.n):
        x = m.prior[s.topics[a]]
        bound += lgamma(x + s.tokens[a]) - lgamma(x)
        bound -= s.tokens[a] * log(s.weights[a])
    return bound


cdef void _open(
    const Topics* m, Document* d, const int32_t* words, const double* counts,
    Py_ssize_t n,
) noexcept nogil:
    """The next document. Beyond single precision, the prior is all, or nothing."""
    cdef Py_ssize_t i
    d.n, d.words, d.counts = n, words, counts
    d.n_tokens = 0.0
    for i in range(n):
        d.n_tokens += counts[i]
    d.scale = 1.0
    if d.n_tokens < 1e-20:
        d.scale = 1e-20 / d.n_tokens
    elif d.n_tokens > 1e9:
        d.scale = 1e9 / d.n_tokens
    for i in range(n):
        d.scaled[i] = <float>(counts[i] * d.scale)
    for i in range(n, n + LANE):
        d.scaled[i] = 0.0
    d.tol = <float>(m.tol * d.n_tokens * d.scale)
    d.least = <float>(m.support * fmin(1.0, d.n_tokens) * d.scale)
    d.active = <float>(m.active * fmin(1.0, d.n_tokens) * d.scale)


cdef void _start_cold(const Topics* m, const Document* d, float* start) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(m.n_topics):
        start[k] = <float>(d.n_tokens * d.scale * m.share[k])
    for k in range(m.n_topics, m.stride):
        start[k] = 0.0


cdef Py_ssize_t _infer_better(
    const Topics* m, const Document* d, float* start, float* other, float* work,
    Support* s,
) except -1 nogil:
    """Iterate from remembered counts and from a cold start; keep the better."""
    cdef double best = -INFINITY, bound
    cdef size_t size = m.stride * sizeof(float)
    cdef int cold
    # A step over the support alone cannot fall below what it was.
    s.n = choose(m.n_topics, start, d.least, s.topics)
    if s.n:
        best = NATS * d.n_tokens + _finish(m, d, start, s, True)
    memcpy(other, start, size)
    for cold in range(2):
        if cold:
            _start_cold(m, d, start)
        _iterate(m, d, start, work, m.n_mean if cold else 0)
        s.n = choose(m.n_topics, start, d.least, s.topics)
        bound = _finish(m, d, start, s, True)
        if bound > best:
            best = bound
            memcpy(other, start, size)
    memcpy(start, other, size)
    return choose(m.n_topics, start, d.least, s.topics)


cdef Py_ssize_t _infer(
    const Topics* m, const Document* d, float* start, float* other, float* work,
    Support* s, bint remembered, bint cold,
) except -1 nogil:
    """Counts of a document, to `start`; how many topics have enough of them."""
    cdef Py_ssize_t k
    if remembered:
        for k in range(m.n_topics, m.stride):
            start[k] = 0.0
        if cold:
            return _infer_better(m, d, start, other, work, s)
    else:
        _start_cold(m, d, start)
    _iterate(m, d, start, work, 0 if remembered else m.n_mean)
    return choose(m.n_topics, start, d.least, s.topics)


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
) -> tuple[
    NDArray[int32], NDArray[int32], NDArray[float64], NDArray[float64],
    NDArray[float64],
]:
    """Fixed point of Eqs. (3) and (4) of [1] for each document, topics fixed.

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
    cdef Py_ssize_t doc, k, longest = longest_of(indptr), done = 0
    cdef bint cold = share.shape[0] > 0
    cdef Topics m
    cdef Document d
    cdef Support s
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
    cdef double[::1] all_norms = norms
    if longest == 0:
        nothing = np.zeros(0)
        return limits, np.zeros(0, dtype=np.int32), nothing, nothing, norms
    # Priors by lane, the better start, scaled counts, and what the iteration needs.
    cdef float[::1] space = np.empty(
        2 * stride + longest + LANE + _work(longest, stride), dtype=np.float32
    )
    cdef double[::1] room = np.empty(2 * n_topics + 4 * stride)
    cdef int32_t[::1] chosen = np.empty(n_topics, dtype=np.int32)
    cdef float* other = &space[stride]
    cdef float* work
    m.n_topics, m.stride, m.weights = n_topics, stride, &weights[0, 0]
    m.prior, m.share, m.lanes = &prior[0], &share[0] if cold else NULL, &space[0]
    m.max_iter, m.n_mean, m.tol, m.support = max_iter, n_mean, tol, support
    m.done = &done
    m.active = -1.0 if plain else <float>ACTIVE_TOKENS
    d.scaled = other + stride
    work = d.scaled + longest + LANE
    s.topics, s.weights, s.tokens = &chosen[0], &room[0], &room[n_topics]
    s.work = s.tokens + n_topics
    with nogil:
        for k in range(stride):
            m.lanes[k] = <float>fmin(prior[k], 1e10) if k < n_topics else 1e-18
        for doc in range(n_docs):
            ends[doc + 1] = ends[doc]
            if indptr[doc + 1] > indptr[doc]:
                k = indptr[doc]
                _open(&m, &d, &words[k], &counts[k], indptr[doc + 1] - k)
                s.norms = &all_norms[k]
                ends[doc + 1] += <int32_t>_infer(
                    &m, &d, &starts[doc, 0], other, work, &s, remembered, cold
                )
    topics = np.empty(limits[n_docs], dtype=np.int32)
    doc_topic, doc_weights = np.empty(len(topics)), np.empty(len(topics))
    cdef int32_t[::1] used = topics
    cdef double[::1] tokens = doc_topic, e = doc_weights
    with nogil:
        for doc in range(n_docs):
            s.n, k = ends[doc + 1] - ends[doc], indptr[doc]
            if s.n == 0:
                continue
            _open(&m, &d, &words[k], &counts[k], indptr[doc + 1] - k)
            choose(n_topics, &starts[doc, 0], d.least, &chosen[0])
            s.topics, s.norms = &used[ends[doc]], &all_norms[k]
            s.weights, s.tokens = &e[ends[doc]], &tokens[ends[doc]]
            memcpy(s.topics, &chosen[0], s.n * sizeof(int32_t))
            _finish(&m, &d, &starts[doc, 0], &s, False)
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
) -> tuple[
    NDArray[int32], NDArray[int32], NDArray[float64], NDArray[float64],
    NDArray[float64],
]:
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
    cdef Py_ssize_t word, at, a, i, first, work, most = 0, n_docs = limits.shape[0] - 1
    cdef int32_t k
    cdef Sums put
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
    n_used, topics, sums, *_ = room = open_sums(&put, end - begin, n_topics, most)
    used_weights, log_norms = np.empty(len(sums)), np.zeros(n_topics)
    cdef double[::1] b = used_weights, logs = log_norms, scratch = np.zeros(n_topics)
    with nogil:
        for word in range(begin, end):
            work = 0
            for at in range(columns[word], columns[word + 1]):
                for a in range(limits[docs[at]], limits[docs[at] + 1]):
                    k = doc_topics[a]
                    mark(put.marks, k)
                    put.scratch[k] += ratios[at] * doc_weights[a]
                    scratch[k] += log_ratios[at] * doc_weights[a]
                work += limits[docs[at] + 1] - limits[docs[at]]
            first = put.put
            end_word(&put, word - begin)
            count_work(work, &put.done)
            for i in range(first, put.put):
                k = put.indices[i]
                b[i] = <double>weights[word, k]
                put.values[i] *= b[i]
                logs[k] += b[i] * scratch[k]
                scratch[k] = 0.0
    return (
        n_used[: end - begin],
        topics[: put.put].copy(),
        used_weights[: put.put].copy(),
        sums[: put.put].copy(),
        log_norms,
    )


def word_weights(
    const double[:, ::1] sums,      # IN    (all words, n_topics or more) counts S
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
    cdef Py_ssize_t n_topics = norm.shape[0], stride = table.shape[1]
    check_rows(sums, words, n_topics, table)
    if words.shape[0] == 0 or n_topics == 0:
        return
    if tops is not None and (tops.shape[0] != words.shape[0] or not mean):
        raise ValueError("tops must have an entry per word, and are those of means")
    cdef double[::1] work = np.empty(2 * stride)
    with nogil:
        weigh_words(
            &sums[0, 0], sums.shape[1], scale, &words[0], words.shape[0], &norm[0],
            n_topics, eta, mean, SMALLEST, &work[0], &table[0, 0], stride,
            &tops[0] if tops is not None else NULL,
        )
