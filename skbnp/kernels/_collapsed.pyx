"""The collapsed document step of a topic model with a Dirichlet prior over topics.

The loops are in src/collapsed.c, in versions for several instruction sets.
"""

import numpy as np

from libc.math cimport fmax, fmin, log
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef extern from "src/collapsed.h" nogil:
    ctypedef struct Document:
        ptrdiff_t n
        const int32_t *words
        const float *counts
        const float *own
        const float *low
    ptrdiff_t skbnp_collapsed_start(
        const Document *document, ptrdiff_t n_topics, ptrdiff_t stride,
        const float *weights, const float *prior, float *doc_topic, float *work,
        ptrdiff_t n_iter, float tol, float active, int32_t *topics,
    )
    size_t skbnp_collapsed_tile(ptrdiff_t n, ptrdiff_t n_used)
    size_t skbnp_collapsed_work(ptrdiff_t n_used)
    ptrdiff_t skbnp_collapsed_iterate(
        const Document *document, ptrdiff_t stride, const float *weights,
        const float *prior, const float *inverse, const float *doc_topic,
        ptrdiff_t n_used, int32_t *topics, float *tile, float *shares, float *work,
        ptrdiff_t max_iter, float tol, float idle, float scale,
    )
    ptrdiff_t skbnp_collapsed_finish(
        const Document *document, const double *counts, const float *prior,
        const float *inverse, ptrdiff_t n_used, const int32_t *topics,
        const float *tile, const float *shares, float *work, float least, float scale,
        int32_t *lengths, int32_t *places, double *sums, double *tokens,
        double *log_predictive,
    )
    ptrdiff_t skbnp_collapsed_sums(
        ptrdiff_t begin, ptrdiff_t end, const int32_t *columns,
        const Py_ssize_t *stored, const Py_ssize_t *limits, const int32_t *topics,
        const double *sums, ptrdiff_t n_topics, int32_t *lengths, int32_t *used,
        double *totals, uint64_t *marks, double *scratch,
    )

#: Iterations over all topics before those in use are chosen: those with so many
#: expected tokens, or with this share of the document's where it is short.
N_START, ACTIVE, ACTIVE_SHARE = 3, 0.5, 0.02
#: Of these tokens, the share below which they leave again.
IDLE = 0.1
#: Responsibilities below are zero.
LEAST = 1e-3

cdef double ACTIVE_TOKENS = ACTIVE, SHARE_IN_USE = ACTIVE_SHARE
cdef float SMALLEST_SHARE = LEAST, IDLE_SHARE = IDLE
cdef Py_ssize_t START_ITER = N_START


cdef struct Room:
    # Memory that grows with the longest document.
    float *floats
    size_t n_floats
    int32_t *places
    double *sums
    size_t n_sums
    size_t n_put


cdef bint _reserve(Room *room, size_t n_floats, size_t n_sums) noexcept nogil:
    """Make room for so many floats, and so many more sums; whether there is."""
    cdef size_t n
    cdef float *floats
    cdef int32_t *places
    cdef double *sums
    if n_floats > room.n_floats:
        floats = <float *>malloc(n_floats * sizeof(float))
        if floats == NULL:
            return False
        free(room.floats)
        room.floats, room.n_floats = floats, n_floats
    if room.n_put + n_sums > room.n_sums:
        n = 2 * (room.n_put + n_sums)
        places = <int32_t *>malloc(n * sizeof(int32_t))
        sums = <double *>malloc(n * sizeof(double))
        if places == NULL or sums == NULL:
            free(places)
            free(sums)
            return False
        if room.n_put:
            memcpy(places, room.places, room.n_put * sizeof(int32_t))
            memcpy(sums, room.sums, room.n_put * sizeof(double))
        free(room.places)
        free(room.sums)
        room.places, room.sums, room.n_sums = places, sums, n
    return True


cdef float _lane(double value) noexcept nogil:
    """Bring a factor into the range of single precision."""
    return <float>fmin(fmax(value, 1e-30), 1e30)


def infer_collapsed(
    const int32_t[::1] indptr,      # IN    (n_docs + 1,)
    const int32_t[::1] words,       # IN    (nnz,) rows of `weights`
    const double[::1] counts,       # IN    (nnz,) > 0
    const float[:, ::1] weights,    # IN    (n_words, stride), a multiple of LANES; b
    const double[::1] tops,         # IN    (n_words,) see below
    const double[::1] norm,         # IN    (n_topics,) V eta + S_k
    double eta,
    const double[::1] prior,        # IN    (n_topics,) > 0; a
    double rest,                    # IN    prior of all other topics together
    const double[::1] share,        # IN    (n_topics,) of the start: N = tokens * share
    const double[::1] held,         # IN    (n_docs,) how often totals hold a document
    Py_ssize_t max_iter,
    double tol,
):
    """Responsibilities of documents, each token's own counts taken out.

    With means phi_wk = (eta + S_wk) / norm_k = b_wk tops_w / max(norm), iterate for all
    words of a document at once

        r_wk ~ (a_k + rate_k [N_k - n_w r_wk]_+)
               max(phi_wk - held n_w r_wk / norm_k, eta / norm_k),
        N_k = sum_w n_w r_wk,

    at most `max_iter` times, until sum_k |change of N_k| < tol times the tokens of the
    document. a + rate N is the geometric mean exp(E[log(a + n)]) for a Poisson number n
    of mean N, where n != 0 is taken for its mean, N / (1 - exp(-N)).

    The topics are those that have 0.5 expected tokens (a share of 0.02 in documents of
    fewer than 25) after three iterations with r_wk ~ (a_k + N_k) phi_wk. Single
    precision; responsibilities below 1e-3 are set to zero, and then those of a token
    sum to one in double precision.

    Time O(iterations * nnz * topics in use + nnz * n_topics).

    Returns
    -------
    limits : (n_docs + 1,)
        Of the topics of documents in the next two.
    topics : int32
        In increasing order; some may have no tokens left.
    doc_topic : float64
        N there.
    ends : intp (nnz + 1,)
        Limits of the stored counts in the next two.
    used : int32
        Topics of each stored count, in increasing order.
    sums : float64
        n_w r_wk.
    log_predictive : float
        Sum over the tokens of the log of

            sum_k (a_k + N_k - n_w r_wk) max(phi_wk - .., ..)

        over sum_k a_k + rest + tokens - n_w: each token predicted from all others, by
        the topics in use.
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1, nnz = counts.shape[0]
    cdef Py_ssize_t n_topics = prior.shape[0], stride = weights.shape[1]
    cdef Py_ssize_t doc, i, k, begin, n, n_used, put, longest = 0
    cdef double n_tokens, scale, seen, heaviest = 0.0, whole = rest, logs = 0.0, found
    cdef float least
    cdef bint failed = False
    cdef Room room
    cdef Document document
    if stride % 8 or not n_topics <= stride < n_topics + 8:
        raise ValueError("weights must have a column per topic, and lanes filled")
    if words.shape[0] != nnz or indptr[n_docs] != nnz or held.shape[0] != n_docs:
        raise ValueError("indptr, words, counts and held disagree on documents")
    if not norm.shape[0] == share.shape[0] == n_topics:
        raise ValueError("prior, norm and share disagree on the topics")
    if tops.shape[0] != weights.shape[0]:
        raise ValueError("tops and weights disagree on the words")
    limits = np.zeros(n_docs + 1, dtype=np.int32)
    ends = np.zeros(nnz + 1, dtype=np.intp)
    for doc in range(n_docs):
        longest = max(longest, indptr[doc + 1] - indptr[doc])
    if longest == 0:
        none, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        return limits, none, nothing, ends, none, nothing, 0.0
    cdef int32_t[::1] doc_limits = limits
    cdef Py_ssize_t[::1] word_ends = ends
    cdef int32_t[::1] chosen = np.empty(n_topics, dtype=np.int32)
    cdef int32_t[::1] lengths = np.empty(longest, dtype=np.int32)
    cdef double[::1] tokens = np.empty(n_topics)
    # Priors and inverse norms by lane, the counts of topics, and what a start needs;
    # counts of words, and what to take out of their weights.
    cdef float[::1] space = np.empty(5 * stride + 3 * (longest + 8), dtype=np.float32)
    cdef float *lanes = &space[0]
    cdef float *inverse = lanes + stride
    cdef float *doc_topic = inverse + stride
    cdef float *work = doc_topic + stride
    cdef float *scaled = work + 2 * stride
    cdef float *own = scaled + longest + 8
    cdef float *low = own + longest + 8
    cdef float *tile
    cdef float *shares
    cdef float *space_left
    # What is put for documents: numbers of topics and of tokens.
    cdef Room kept
    room.floats, room.places, room.sums = NULL, NULL, NULL
    room.n_floats, room.n_sums, room.n_put = 0, 0, 0
    kept.floats, kept.places, kept.sums = NULL, NULL, NULL
    kept.n_floats, kept.n_sums, kept.n_put = 0, 0, 0
    try:
        with nogil:
            for k in range(n_topics):
                heaviest = fmax(heaviest, norm[k])
                whole += prior[k]
            for k in range(stride):
                lanes[k] = _lane(fmin(prior[k], 1e10)) if k < n_topics else 1e-18
                inverse[k] = _lane(heaviest / norm[k]) if k < n_topics else 0.0
            document.counts, document.own, document.low = scaled, own, low
            for doc in range(n_docs):
                begin, n = indptr[doc], indptr[doc + 1] - indptr[doc]
                doc_limits[doc + 1] = doc_limits[doc]
                if n == 0:
                    continue
                n_tokens = 0.0
                for i in range(n):
                    n_tokens += counts[begin + i]
                # Into the range of single precision, mostly one.
                scale = 1.0
                if n_tokens < 1e-20 or n_tokens > 1e9:
                    scale = (1e-20 if n_tokens < 1e-20 else 1e9) / n_tokens
                seen = fmin(scale, 1.0)  # priors go with the counts of large documents
                for k in range(n_topics):
                    lanes[k] = _lane(fmin(prior[k], 1e10) * seen)
                for i in range(n):
                    scaled[i] = <float>(counts[begin + i] * scale)
                    found = tops[words[begin + i]]
                    own[i] = 0.0
                    if held[doc] > 0.0:
                        own[i] = _lane(held[doc] * counts[begin + i] / found)
                    low[i] = _lane(eta / found)
                for i in range(n, n + 8):
                    scaled[i] = own[i] = low[i] = 0.0
                for k in range(stride):
                    doc_topic[k] = 0.0
                for k in range(n_topics):
                    doc_topic[k] = <float>(n_tokens * scale * share[k])
                document.n, document.words = n, &words[begin]
                least = <float>(fmin(ACTIVE_TOKENS, SHARE_IN_USE * n_tokens) * scale)
                n_used = skbnp_collapsed_start(
                    &document, n_topics, stride, &weights[0, 0], lanes, doc_topic, work,
                    START_ITER, <float>(tol * n_tokens * scale), least, &chosen[0],
                )
                if not _reserve(
                    &room,
                    2 * skbnp_collapsed_tile(n, n_used) + skbnp_collapsed_work(n_used),
                    n * n_used,
                ) or not _reserve(&kept, 0, n_used):
                    failed = True
                    break
                tile = room.floats
                shares = tile + skbnp_collapsed_tile(n, n_used)
                space_left = shares + skbnp_collapsed_tile(n, n_used)
                n_used = skbnp_collapsed_iterate(
                    &document, stride, &weights[0, 0], lanes, inverse, doc_topic,
                    n_used, &chosen[0], tile, shares, space_left, max_iter,
                    <float>(tol * n_tokens * scale), IDLE_SHARE * least, <float>seen,
                )
                found = 0.0
                put = skbnp_collapsed_finish(
                    &document, &counts[begin], lanes, inverse, n_used, &chosen[0], tile,
                    shares, space_left, SMALLEST_SHARE, <float>seen, &lengths[0],
                    room.places + room.n_put, room.sums + room.n_put, &tokens[0],
                    &found,
                )
                logs += found
                for i in range(n):
                    word_ends[begin + i + 1] = word_ends[begin + i] + lengths[i]
                    logs += counts[begin + i] * (
                        log(tops[words[begin + i]] / heaviest / seen)
                        - log(whole + (n_tokens - counts[begin + i]))
                    )
                room.n_put += put
                for k in range(n_used):
                    kept.places[kept.n_put] = chosen[k]
                    kept.sums[kept.n_put] = tokens[k]
                    kept.n_put += 1
                doc_limits[doc + 1] = doc_limits[doc] + <int32_t>n_used
        if failed:
            raise MemoryError("no memory for the responsibilities of a document")
        topics, doc_tokens = _copied(&kept)
        used, sums = _copied(&room)
    finally:
        free(room.floats)
        free(room.places)
        free(room.sums)
        free(kept.places)
        free(kept.sums)
    return limits, topics, doc_tokens, ends, used, sums, logs


cdef tuple _copied(const Room *room):
    """Numbers and sums that were put, as arrays."""
    places, sums = np.empty(room.n_put, dtype=np.int32), np.empty(room.n_put)
    cdef int32_t[::1] numbers = places
    cdef double[::1] values = sums
    if room.n_put:
        memcpy(&numbers[0], room.places, room.n_put * sizeof(int32_t))
        memcpy(&values[0], room.sums, room.n_put * sizeof(double))
    return places, sums


def collapsed_sums(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int32_t[::1] columns,      # IN  (n_words + 1,) limits of the words
    const Py_ssize_t[::1] stored,    # IN  (nnz,) stored counts, word by word
    const Py_ssize_t[::1] limits,    # IN  (nnz + 1,) of their sums
    const int32_t[::1] topics,       # IN  topics of the sums
    const double[::1] sums,          # IN  n_w r_wk
    Py_ssize_t n_topics,
):
    """Sum responsibilities over documents for the words from `begin` to `end`.

    Returns
    -------
    n_used : (end - begin,)
        Topics in use, of each word.
    used, totals
        Word by word, topics in increasing order: the topic k and the sum over documents
        of n r_wk.
    """
    cdef Py_ssize_t at, most = 0, put = 0
    if not 0 <= begin <= end < columns.shape[0]:
        raise ValueError("words must lie between 0 and the end of columns")
    if limits.shape[0] != stored.shape[0] + 1 or topics.shape[0] != sums.shape[0]:
        raise ValueError("stored, limits, topics and sums disagree")
    for at in range(columns[begin], columns[end]):
        most += limits[stored[at] + 1] - limits[stored[at]]
    most = min(most, (end - begin) * n_topics) + 1
    n_used = np.zeros(end - begin + 1, dtype=np.int32)
    used, totals = np.empty(most, dtype=np.int32), np.empty(most)
    cdef int32_t[::1] lengths = n_used, numbers = used
    cdef double[::1] values = totals, scratch = np.zeros(n_topics)
    cdef uint64_t[::1] marks = np.zeros(n_topics // 64 + 1, dtype=np.uint64)
    if end > begin and topics.shape[0]:
        with nogil:
            put = skbnp_collapsed_sums(
                begin, end, &columns[0], &stored[0], &limits[0], &topics[0], &sums[0],
                n_topics, &lengths[0], &numbers[0], &values[0], &marks[0], &scratch[0],
            )
    return n_used[: end - begin], used[:put].copy(), totals[:put].copy()
