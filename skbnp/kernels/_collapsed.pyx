"""The collapsed local step (CVB0) of documents with a Dirichlet prior over topics.

Tables of word weights b_wk are as in _hdp_local, with b_wk = phi_wk / unit_w,
phi_wk = (eta + S_wk) / (V eta + S_k) the mean topics. Passes over words are in
src/collapsed.h.
"""

import numpy as np

from libc.math cimport fmax, fmin, log
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from skbnp.kernels._interrupts cimport count_work
from skbnp.kernels._math cimport fast_log
from skbnp.kernels._restaurant cimport (
    Restaurant,
    expected_tables,
    log_repeating,
    read_grid,
)
from skbnp.kernels._sparse cimport (
    Entries,
    Sums,
    arrays_of,
    end_word,
    grown,
    longest_of,
    mark,
    open_sums,
    release,
    reserve,
)

cdef extern from "src/collapsed.h" nogil:
    """
    struct skbnp_topics;
    struct skbnp_document;
    struct skbnp_space;
    SKBNP_CLONES static Py_ssize_t skbnp_choose_topics(
        const struct skbnp_topics *, const struct skbnp_document *, float *, float *,
        int32_t *);
    SKBNP_CLONES static Py_ssize_t skbnp_iterate(
        const struct skbnp_topics *, const struct skbnp_document *,
        struct skbnp_space *, const float *, int32_t *, Py_ssize_t);
    SKBNP_CLONES static Py_ssize_t skbnp_iterate_fixed(
        const struct skbnp_topics *, const struct skbnp_document *,
        struct skbnp_space *, const float *, int32_t *, Py_ssize_t);
    SKBNP_CLONES static Py_ssize_t skbnp_finish(
        const struct skbnp_topics *, const struct skbnp_document *,
        const struct skbnp_space *, const int32_t *, Py_ssize_t, int32_t *, int32_t *,
        double *, double *, double *, double *);
    """
    void prefetch "SKBNP_PREFETCH"(const void* address)
    Py_ssize_t padded(Py_ssize_t n)
    void weigh_mean(Py_ssize_t n, const float* prior, const float* doc_topic, float* e)
    float set_tokens(Py_ssize_t n, const float* e, const float* total, float* doc_topic)
    void sum_words(
        Py_ssize_t n, const int32_t* words, const float* counts, Py_ssize_t stride,
        const float* weights, const float* e, float* total,
    )
    Py_ssize_t choose(
        Py_ssize_t n, const float* doc_topic, float active, int32_t* chosen
    )
    Py_ssize_t count_active(Py_ssize_t n, const float* doc_topic, float active)
    void set_rates(
        Py_ssize_t n_used, const float* prior, const float* tokens, float scale,
        float* rates,
    )
    float fold_sums(Py_ssize_t n_used, const float* lanes, float* tokens)
    void extrapolate(
        Py_ssize_t n_used, const float* first, const float* second, float* tokens
    )
    void start_chunk(
        Py_ssize_t n_used, const float* prior, const float* tokens,
        const float* tile, float* shares, float* sums,
    )
    void normalise(
        Py_ssize_t n_used, const float* counts, const float* sums,
        float* shares, float* lanes,
    )
    void update_chunk(
        Py_ssize_t n_used, const float* counts, const float* own,
        const float* low, const float* prior, const float* inverse,
        const float* tokens, const float* rates, const float* tile, float* shares,
        float* sums,
    )
    void update_fixed_chunk(
        Py_ssize_t n_used, const float* taken, const float* prior,
        const float* tokens, const float* tile, float* shares, float* scales,
    )
    void sum_fixed_chunk(
        Py_ssize_t n_used, const float* counts, const float* shares,
        const float* scales, float* lanes,
    )
    void predict_words(
        Py_ssize_t n_used, const float* counts, const float* own,
        const float* low, const float* tokens, const float* prior, const float* inverse,
        const int32_t* topics, const float* tile, const float* shares, float* masses,
    )

    enum:
        LANES
        CHUNK

#: Iterations over all topics before those in use are chosen: those with so many
#: expected tokens, or with this share of the document's where it is short.
N_START, ACTIVE, ACTIVE_SHARE = 3, 0.5, 0.02
#: Of these tokens, the share below which they leave again.
IDLE = 0.1
#: Responsibilities below are zero.
LEAST = 1e-3

cdef double SHARE_IN_USE = ACTIVE_SHARE
cdef float SMALLEST_SHARE = LEAST, IDLE_SHARE = IDLE

cdef enum:
    # Topics leave a document once one in so many has become idle.
    DROP = 5
    # Documents ahead whose sums are fetched.
    AHEAD = 8


# Topics during a visit, and when to stop.
cdef struct Topics "skbnp_topics":
    Py_ssize_t n_topics, stride, max_iter
    Py_ssize_t n_start          # iterations over all topics
    const float* weights        # (n_words, stride) b
    const double* exact         # (n_topics,) prior
    const double* share         # (n_topics,) of the start
    float* prior                # (stride,) of the document in hand
    float* inverse              # (stride,) largest norm, relative to that of a topic
    double heaviest             # the largest norm
    double whole                # prior of all topics together
    double tol, eta
    double active               # tokens of a topic in use
    Py_ssize_t* done            # work, for `count_work`
    const double* tops          # (n_words,) scale of the weights, if there are tables
    double rest                 # probability of a word under all other topics, likewise
    Restaurant restaurant       # of no rows: a token opens a table each


# Arrays by word hold zeros up to a multiple of CHUNK.
cdef struct Document "skbnp_document":
    Py_ssize_t n
    const int32_t* words        # (n,) rows of the table
    const double* exact         # (n,) counts
    float* counts               # (n,) n_w, or expected tables t_w, scaled
    float* own                  # (n,) n_w / unit_w times what the totals hold of it
    float* low                  # (n,) eta / unit_w: no weight is less, times inverse
    float* taken                # (n,) tokens taken out of those of fixed topics
    float* scales               # (n,) of responsibilities
    double* units               # (n,) scale of the weights, if there are tables
    float* each                 # (n,) `own` of one table
    int32_t* again              # (n_again,) words of more than a token, likewise
    Py_ssize_t n_again
    double n_tokens
    double n_tables             # T, of the iteration before
    double seen                 # scale of the prior
    double prior_seen           # that of the prior by lane
    float scale                 # the same
    bint repeats                # whether its words have tables
    float tol, active, idle     # in tokens


# Topics in use of a document: its words in chunks, each by topic; and by topic.
cdef struct Space "skbnp_space":
    Py_ssize_t wide             # words, a multiple of CHUNK
    Py_ssize_t room             # floats of `tile` and what follows; memory grows
    float* tile
    float* shares               # r_wk
    float* lanes                # (n_used, LANES) lanes of the sums of topics
    float* tokens               # (n_used,), and what follows
    float* rates
    float* prior
    float* inverse
    float* first                # (n_used,) tokens two iterations ago, and one
    float* second


cdef float _lane(double value) noexcept nogil:
    """Clip a factor to the range of single precision."""
    return <float>fmin(fmax(value, 1e-30), 1e30)


cdef Py_ssize_t _tile(Py_ssize_t n, Py_ssize_t n_used) noexcept nogil:
    """Floats of a tile of n words."""
    return (n + CHUNK - 1) // CHUNK * CHUNK * n_used


cdef inline Py_ssize_t _place(Py_ssize_t i, Py_ssize_t n_used) noexcept nogil:
    """Where word i has its first topic; that of the next is CHUNK further."""
    return i // CHUNK * CHUNK * n_used + i % CHUNK


cdef Py_ssize_t _work(Py_ssize_t n, Py_ssize_t n_used) noexcept nogil:
    return 2 * _tile(n, n_used) + (LANES + 6) * (n_used + LANES)


cdef int _divide(Space* s, Py_ssize_t n, Py_ssize_t n_used) except -1 nogil:
    """Allocate and divide memory for n words."""
    cdef Py_ssize_t most = padded(n_used), work = _work(n, n_used)
    if work > s.room:
        s.tile, s.room = <float*>grown(s.tile, work * sizeof(float)), work
    s.wide = _tile(n, 1)
    s.shares = s.tile + _tile(n, n_used)
    s.lanes = s.shares + _tile(n, n_used)
    s.tokens = s.lanes + most * LANES
    s.rates = s.tokens + most
    s.prior = s.rates + most
    s.inverse = s.prior + most
    s.first = s.inverse + most
    s.second = s.first + most
    memset(s.first, 0, 2 * most * sizeof(float))
    return 0


# -- a document -----------------------------------------------------------------------

cdef Py_ssize_t _choose_topics "skbnp_choose_topics"(
    const Topics* m, const Document* d, float* doc_topic, float* work, int32_t* topics
) except -1 nogil:
    """Iterate N_k = e_k sum_w n_w b_wk / s_w with e = prior + N over all topics.

    Puts the topics with enough tokens, or else the one with the most; how many.
    """
    cdef float* e = work
    cdef float* total = e + m.stride
    cdef Py_ssize_t k, most = 0
    for _ in range(m.n_start):
        weigh_mean(m.stride, m.prior, doc_topic, e)
        sum_words(d.n, d.words, d.counts, m.stride, m.weights, e, total)
        count_work(d.n * m.stride, m.done)
        if set_tokens(m.stride, e, total, doc_topic) < d.tol:
            break
    if count_active(m.n_topics, doc_topic, d.active) > 0:
        return choose(m.n_topics, doc_topic, d.active, topics)
    for k in range(1, m.n_topics):
        most = k if doc_topic[k] > doc_topic[most] else most
    topics[0] = <int32_t>most
    return 1


cdef inline int fill_tile(
    const Topics* m, const Document* d, Space* s, const int32_t* topics,
    Py_ssize_t n_used,
) except -1 nogil:
    """Word weights of the topics in use; lanes after the last word are padding."""
    cdef const float* rows[CHUNK]
    cdef float* tile = s.tile
    cdef Py_ssize_t i = 0, j, a
    while i < s.wide:
        for j in range(CHUNK):
            a = d.words[i + j if i + j < d.n else i]
            rows[j] = m.weights + a * m.stride
        for a in range(n_used):
            for j in range(CHUNK):
                tile[j] = rows[j][topics[a]]
            tile += CHUNK
        count_work(CHUNK * n_used, m.done)
        i += CHUNK
    return 0


cdef inline Py_ssize_t drop_idle(
    Space* s, float idle, int32_t* topics, Py_ssize_t n_used
) noexcept nogil:
    """Drop topics of fewer tokens, once these are many; returns how many stay."""
    cdef Py_ssize_t left = count_active(n_used, s.tokens, idle), i = 0, put, a
    cdef int32_t* kept = <int32_t*>s.rates  # which are set before their use
    cdef size_t size = CHUNK * sizeof(float)
    if left == 0 or left > n_used - n_used // DROP - 1:
        return n_used
    choose(n_used, s.tokens, idle, kept)
    while i < s.wide:
        for put in range(left):
            a = i * n_used + kept[put] * CHUNK
            if a > i * left + put * CHUNK:
                memcpy(s.tile + i * left + put * CHUNK, s.tile + a, size)
                memcpy(s.shares + i * left + put * CHUNK, s.shares + a, size)
        i += CHUNK
    for put in range(left):
        a = kept[put]
        s.tokens[put], s.prior[put] = s.tokens[a], s.prior[a]
        s.inverse[put], topics[put] = s.inverse[a], topics[a]
        s.first[put], s.second[put] = s.first[a], s.second[a]
    return left


cdef inline int start(
    const Topics* m, const Document* d, Space* s, const float* doc_topic,
    const int32_t* topics, Py_ssize_t n_used,
) except -1 nogil:
    """First responsibilities of the topics in use, nothing taken out."""
    cdef Py_ssize_t i = 0, at, a
    cdef float[CHUNK] sums
    for a in range(n_used):
        s.tokens[a] = doc_topic[topics[a]]
        s.prior[a], s.inverse[a] = m.prior[topics[a]], m.inverse[topics[a]]
    fill_tile(m, d, s, topics, n_used)
    memset(s.lanes, 0, n_used * LANES * sizeof(float))
    while i < s.wide:
        at = i * n_used
        start_chunk(n_used, s.prior, s.tokens, s.tile + at, s.shares + at, sums)
        normalise(n_used, d.counts + i, sums, s.shares + at, s.lanes)
        count_work(CHUNK * n_used, m.done)
        i += CHUNK
    fold_sums(n_used, s.lanes, s.tokens)
    return 0


cdef inline double tables_of(const Document* d, Py_ssize_t i) noexcept nogil:
    """Tables of a word; its tokens, if each opens one."""
    return <double>d.counts[i] if d.repeats and d.exact[i] > 1.0 else d.exact[i]


cdef inline double base_probability(
    const Topics* m, const Document* d, Py_ssize_t i, double mass
) noexcept nogil:
    """p, the probability of a word under the topics of the tables of all others.

    `mass` is sum_k (prior_k + N_k - ..) b_wk.
    """
    cdef double others = fmax(d.n_tables - tables_of(d, i), 0.0)
    return (mass * d.units[i] + m.rest) / (others + m.whole)


cdef inline void seat(
    const Topics* m, const Document* d, Py_ssize_t i, double mass
) noexcept nogil:
    """Expected tables of a word, `mass` as in `base_probability`."""
    cdef const Restaurant* r = &m.restaurant
    cdef double opens = fmax(d.n_tables - <double>d.counts[i], 0.0)
    opens = r.concentration + r.discount * opens
    opens *= base_probability(m, d, i, mass)
    d.counts[i] = expected_tables(r, <float>d.exact[i], <float>opens)


cdef inline Py_ssize_t seat_learned_chunk(
    const Topics* m, const Document* d, Py_ssize_t begin, const float* sums,
    Py_ssize_t at,
) noexcept nogil:
    """Expected tables of words of a chunk, from place `at` of `again`; the next one."""
    cdef Py_ssize_t i
    while at < d.n_again and d.again[at] < begin + CHUNK:
        i = d.again[at]
        seat(m, d, i, sums[i - begin])
        d.own[i] = d.each[i] * d.counts[i]
        at += 1
    return at


cdef inline Py_ssize_t seat_fixed_chunk(
    const Topics* m, const Document* d, Py_ssize_t begin, Py_ssize_t at
) noexcept nogil:
    """Expected tables of words of a chunk, from place `at` of `again`; the next one."""
    cdef Py_ssize_t i
    while at < d.n_again and d.again[at] < begin + CHUNK:
        i = d.again[at]
        seat(m, d, i, 1.0 / d.scales[i])
        at += 1
    return at


cdef inline void count_tables(Document* d) noexcept nogil:
    cdef Py_ssize_t i
    d.n_tables = 0.0
    for i in range(d.n):
        d.n_tables += d.counts[i]


cdef Py_ssize_t _iterate "skbnp_iterate"(
    const Topics* m, const Document* d, Space* s, const float* doc_topic,
    int32_t* topics, Py_ssize_t n_used,
) except -1 nogil:
    """Responsibilities of the topics in use, all words at once; how many stay in use.

    rate_k N_k + prior_k is the geometric mean of prior_k + n for a Poisson number n,
    zero treated apart.
    """
    cdef Py_ssize_t i, at, again
    cdef float[CHUNK] sums
    start(m, d, s, doc_topic, topics, n_used)
    for _ in range(m.max_iter):
        set_rates(n_used, s.prior, s.tokens, d.scale, s.rates)
        memset(s.lanes, 0, n_used * LANES * sizeof(float))
        i = again = 0
        while i < s.wide:
            at = i * n_used
            update_chunk(
                n_used, d.counts + i, d.own + i, d.low + i, s.prior, s.inverse,
                s.tokens, s.rates, s.tile + at, s.shares + at, sums,
            )
            again = seat_learned_chunk(m, d, i, sums, again)
            normalise(n_used, d.counts + i, sums, s.shares + at, s.lanes)
            count_work(CHUNK * n_used, m.done)
            i += CHUNK
        if d.repeats:
            count_tables(d)
        if fold_sums(n_used, s.lanes, s.tokens) < d.tol:
            break
        n_used = drop_idle(s, d.idle, topics, n_used)
    return n_used


cdef Py_ssize_t _iterate_fixed "skbnp_iterate_fixed"(
    const Topics* m, const Document* d, Space* s, const float* doc_topic,
    int32_t* topics, Py_ssize_t n_used,
) except -1 nogil:
    """Tokens of fixed topics, to zero order; return the number still in use.

    After every second iteration, but the last, tokens are extrapolated.
    """
    cdef Py_ssize_t i, at, again, n_made
    cdef bint is_second
    start(m, d, s, doc_topic, topics, n_used)
    for i in range(s.wide):
        d.scales[i] = 1.0
    for n_made in range(m.max_iter):
        is_second = n_made % 2 == 1
        memcpy(s.second if is_second else s.first, s.tokens, n_used * sizeof(float))
        memset(s.lanes, 0, n_used * LANES * sizeof(float))
        i = again = 0
        while i < s.wide:
            at = i * n_used
            update_fixed_chunk(
                n_used, d.taken + i, s.prior, s.tokens, s.tile + at, s.shares + at,
                d.scales + i,
            )
            again = seat_fixed_chunk(m, d, i, again)
            sum_fixed_chunk(
                n_used, d.counts + i, s.shares + at, d.scales + i, s.lanes
            )
            count_work(CHUNK * n_used, m.done)
            i += CHUNK
        if d.repeats:
            count_tables(d)
        if fold_sums(n_used, s.lanes, s.tokens) < d.tol:
            break
        if is_second and n_made + 1 < m.max_iter:
            extrapolate(n_used, s.first, s.second, s.tokens)
        n_used = drop_idle(s, d.idle, topics, n_used)
    return n_used


cdef inline Py_ssize_t keep_shares(
    const Topics* m, const Document* d, const Space* s, const int32_t* topics,
    Py_ssize_t n_used, int32_t* lengths, int32_t* places, double* sums, double* tokens,
) except -1 nogil:
    """Write n_w r_wk, word by word, unless r_wk is tiny; they sum to n_w."""
    cdef Py_ssize_t put = 0, begin, i, a
    cdef const float* shares
    cdef double total
    cdef float share, least = SMALLEST_SHARE
    # As many topics as there are may share a word evenly.
    if least * <float>n_used > <float>0.5:
        least = <float>0.5 / <float>n_used
    for a in range(n_used):
        tokens[a] = 0.0
    for i in range(d.n):
        begin, total, shares = put, 0.0, s.shares + _place(i, n_used)
        for a in range(n_used):
            share = shares[a * CHUNK]
            places[put] = <int32_t>a
            sums[put] = <double>share
            put += share >= least
        for a in range(begin, put):
            total += sums[a]
        total = tables_of(d, i) / total
        for a in range(begin, put):
            sums[a] *= total
            tokens[places[a]] += sums[a]
            places[a] = topics[places[a]]
        lengths[i] = <int32_t>(put - begin)
        count_work(n_used, m.done)
    return put


cdef Py_ssize_t _finish "skbnp_finish"(
    const Topics* m, const Document* d, const Space* s, const int32_t* topics,
    Py_ssize_t n_used, int32_t* lengths, int32_t* places, double* sums, double* tokens,
    double* log_predictive, double* base,
) except -1 nogil:
    """Make responsibilities exact, and predict each token from all others.

    Puts the sum over w of

        n_w log sum_k (prior_k + N_k - n_w r_wk) max(b_wk - .., ..).

    Returns how many sums were put.
    """
    cdef Py_ssize_t put = keep_shares(
        m, d, s, topics, n_used, lengths, places, sums, tokens
    )
    cdef float[LANES] masses
    cdef const Restaurant* r = &m.restaurant
    cdef double total = 0.0, others = fmax(d.n_tables - 1.0, 0.0), p, once, product
    cdef double scale = 1.0 / (others + m.whole) if r.n_rows else 0.0
    cdef Py_ssize_t i = 0, j, at, a
    # Words of one token differ by p alone.
    once = r.concentration + r.discount * others if r.n_rows else 0.0
    once /= (r.concentration if r.n_rows else 1.0) + fmax(d.n_tokens - 1.0, 0.0)
    for a in range(n_used):
        s.tokens[a] = <float>(tokens[a] * <double>d.scale)
    while i < d.n:
        at = _place(i, n_used)
        predict_words(
            n_used, d.counts + i, d.own + i, d.low + i, s.tokens, m.prior, m.inverse,
            topics, s.tile + at, s.shares + at, masses,
        )
        product = 1.0
        for j in range(min(<Py_ssize_t>LANES, d.n - i)):
            if r.n_rows and d.exact[i + j] == 1.0:
                p = (masses[j] * d.units[i + j] + m.rest) * scale
                base[i + j] = p
                product *= fmax(once * p, 1e-36)
            elif r.n_rows:
                base[i + j] = base_probability(m, d, i + j, masses[j])
                total += d.exact[i + j] * log_repeating(
                    r, r.discount, r.concentration, d.exact[i + j],
                    fmax(d.n_tables - tables_of(d, i + j), 0.0), d.n_tokens,
                    base[i + j],
                )
            else:
                total += d.exact[i + j] * fast_log(<double>masses[j])
        if r.n_rows:
            total += fast_log(product)
        count_work(LANES * n_used, m.done)
        i += LANES
    log_predictive[0] = total
    return put


cdef inline void open_restaurant(
    const Topics* m, Document* d, float* doc_topic
) noexcept nogil:
    """Start with one table of each word, or fewer if it has less than a token."""
    cdef Py_ssize_t i, k
    for i in range(d.n):
        if d.exact[i] > 1.0:
            d.counts[i], d.again[d.n_again] = 1.0, <int32_t>i
            d.n_again += 1
    count_tables(d)
    for k in range(m.n_topics):
        doc_topic[k] = <float>(d.n_tables * m.share[k])


cdef void _open(
    const Topics* m, Document* d, const int32_t* words, const double* counts,
    Py_ssize_t n, float* doc_topic,
) noexcept nogil:
    """The next document, and where it starts."""
    cdef double scale = 1.0
    cdef Py_ssize_t i, k
    d.n, d.words, d.exact, d.n_tokens = n, words, counts, 0.0
    for i in range(n):
        d.n_tokens += counts[i]
    # Into the range of single precision, mostly one.
    if d.n_tokens < 1e-20 or d.n_tokens > 1e9:
        scale = (1e-20 if d.n_tokens < 1e-20 else 1e9) / d.n_tokens
    d.seen = fmin(scale, 1.0)  # priors go with the counts of large documents
    for k in range(m.n_topics if d.seen != d.prior_seen else 0):
        m.prior[k] = _lane(fmin(m.exact[k], 1e10) * d.seen)
    d.prior_seen = d.seen
    for k in range(m.n_topics):
        doc_topic[k] = <float>(d.n_tokens * scale * m.share[k])
    for k in range(m.n_topics, m.stride):
        doc_topic[k] = 0.0
    for i in range(n):
        d.counts[i] = <float>(counts[i] * scale)
    for i in range(n, n + CHUNK):
        d.counts[i] = 0.0
    d.scale, d.n_tables = <float>d.seen, d.n_tokens
    # Counts beyond single precision are taken as they are.
    d.repeats, d.n_again = m.restaurant.n_rows > 0 and scale == 1.0, 0
    for i in range(n if m.restaurant.n_rows else 0):
        d.units[i] = m.tops[words[i]] / m.heaviest / d.seen
    if d.repeats:
        open_restaurant(m, d, doc_topic)
    d.tol = <float>(m.tol * d.n_tokens * scale)
    d.active = <float>(fmin(m.active, SHARE_IN_USE * d.n_tokens) * scale)
    d.idle = IDLE_SHARE * d.active


cdef void _set_own(
    const Topics* m, Document* d, const double* tops, double held
) noexcept nogil:
    """Effective counts of a document in the totals, and the least counts left."""
    cdef double unit
    cdef Py_ssize_t i
    for i in range(d.n):
        unit = tops[d.words[i]]
        d.low[i] = _lane(m.eta / unit)
        d.own[i] = <float>0.0
        if held > 0.0:
            d.own[i] = _lane(held * tables_of(d, i) / unit)
        if d.repeats:  # begins with a table
            d.each[i] = d.own[i]
    for i in range(d.n, d.n + CHUNK):
        d.own[i] = d.low[i] = 0.0


cdef void _set_taken(Document* d) noexcept nogil:
    """One token of each word, or all of it if these are fewer."""
    cdef Py_ssize_t i
    for i in range(d.n):
        d.taken[i] = d.counts[i]
        if d.exact[i] > 1.0 and not d.repeats:
            d.taken[i] = <float>(<double>d.counts[i] / d.exact[i])
    for i in range(d.n, d.n + CHUNK):
        d.taken[i] = 0.0


cdef Py_ssize_t _infer(
    const Topics* m, Document* d, Space* s, Entries* sums, Entries* kept,
    float* doc_topic, float* work, int32_t* chosen, int32_t* lengths, double* tokens,
    Py_ssize_t* word_ends, double* found, double* base,
) except -1 nogil:
    """Write the sums of a document; return the number of its topics."""
    cdef Py_ssize_t i, k, used = _choose_topics(m, d, doc_topic, work, chosen)
    _divide(s, d.n, used)
    reserve(sums, d.n * used)
    reserve(kept, used)
    used = _iterate(m, d, s, doc_topic, chosen, used)
    sums.n += _finish(
        m, d, s, chosen, used, lengths, sums.indices + sums.n, sums.values + sums.n,
        tokens, found, base,
    )
    for i in range(d.n):
        word_ends[i + 1] = word_ends[i] + lengths[i]
    for k in range(used):
        kept.indices[kept.n], kept.values[kept.n] = chosen[k], tokens[k]
        kept.n += 1
    return used


cdef class _Visits:
    """Documents that are visited one by one, and the memory that this takes."""
    cdef Topics m
    cdef Document d
    cdef Space s
    cdef Entries put, kept      # of stored counts, and of documents: topics, tokens
    cdef Py_ssize_t n_docs, longest, done
    cdef float* doc_topic
    cdef float* work
    cdef object limits, tables, base
    cdef int32_t[::1] chosen, again
    cdef double[::1] units
    cdef float[::1] space

    def __cinit__(
        self, const int32_t[::1] indptr, const int32_t[::1] words,
        const double[::1] counts, const float[:, ::1] weights, const double[::1] prior,
        const double[::1] share, Py_ssize_t n_start, double active, Py_ssize_t max_iter,
        double tol, const float[:, ::1] grid, double discount, double concentration,
    ):
        cdef Py_ssize_t n_topics = prior.shape[0], stride = weights.shape[1], k, wide
        cdef Py_ssize_t n_tables = counts.shape[0] if grid is not None else 0
        cdef Topics* m = &self.m
        cdef Document* d = &self.d
        self.n_docs, self.longest = indptr.shape[0] - 1, longest_of(indptr)
        if stride % 8 or not n_topics <= stride < n_topics + 8:
            raise ValueError("weights must have a column per topic, and lanes filled")
        if not words.shape[0] == counts.shape[0] == indptr[self.n_docs]:
            raise ValueError("indptr, words and counts disagree on documents")
        if share.shape[0] != n_topics:
            raise ValueError("prior and share disagree on the topics")
        read_grid(&m.restaurant, grid, discount, concentration)
        self.limits = np.zeros(self.n_docs + 1, dtype=np.int32)
        self.tables, self.base = np.ones(n_tables), np.empty(n_tables)
        if self.longest == 0:
            return
        self.chosen = np.empty(n_topics, dtype=np.int32)
        self.again = np.empty(self.longest, dtype=np.int32)
        self.units = np.empty(self.longest)
        # Priors and inverse norms by lane, the counts of topics, and what a start
        # needs; counts of words, and what to take out of them or of their weights.
        wide = self.longest + CHUNK
        self.space = np.ones(5 * stride + 4 * wide, dtype=np.float32)
        m.n_topics, m.stride, m.weights = n_topics, stride, &weights[0, 0]
        m.max_iter, m.tol, m.active, m.done = max_iter, tol, active, &self.done
        m.n_start = n_start
        m.exact, m.share, m.prior = &prior[0], &share[0], &self.space[0]
        m.inverse = m.prior + stride
        for k in range(stride):
            m.prior[k] = 1e-18
        self.doc_topic = m.inverse + stride
        self.work = self.doc_topic + stride
        d.counts = self.work + 2 * stride
        d.own = d.taken = d.counts + wide
        d.low = d.scales = d.own + wide
        d.each = d.low + wide
        d.units, d.again = &self.units[0], &self.again[0]

    def __dealloc__(self):
        free(self.s.tile)
        release(&self.kept)
        release(&self.put)


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
    const double[::1] held,         # IN    (n_docs,) how often totals count a document
    Py_ssize_t max_iter,
    double tol,
    double n_features=1.0,
    const float[:, ::1] grid=None,  # IN    of expected tables; none: no word repeats
    double discount=1.0,
    double concentration=0.0,
) -> tuple[
    NDArray[int32], NDArray[int32], NDArray[float64], NDArray[intp], NDArray[int32],
    NDArray[float64], float, NDArray[float64], NDArray[float64],
]:
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
    cdef Py_ssize_t doc, i, k, begin, n, n_used, n_topics = prior.shape[0]
    cdef double logs = 0.0, found
    cdef _Visits v = _Visits(
        indptr, words, counts, weights, prior, share, N_START, ACTIVE, max_iter, tol,
        grid, discount, concentration,
    )
    cdef Topics* m = &v.m
    cdef Document* d = &v.d
    if held.shape[0] != v.n_docs:
        raise ValueError("indptr and held disagree on documents")
    if norm.shape[0] != n_topics:
        raise ValueError("prior and norm disagree on the topics")
    if tops.shape[0] != weights.shape[0]:
        raise ValueError("tops and weights disagree on the words")
    ends = np.zeros(counts.shape[0] + 1, dtype=np.intp)
    if v.longest == 0:
        none, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        return v.limits, none, nothing, ends, none, nothing, 0.0, v.tables, v.base
    cdef double[::1] seated = v.tables, based = v.base
    cdef double* bases = &based[0] if grid is not None else NULL
    cdef int32_t[::1] doc_limits = v.limits
    cdef Py_ssize_t[::1] word_ends = ends
    cdef int32_t[::1] lengths = np.empty(v.longest, dtype=np.int32)
    cdef double[::1] tokens = np.empty(n_topics)
    m.eta, m.tops, m.rest, m.whole = eta, &tops[0], rest / n_features, rest
    with nogil:
        for k in range(n_topics):
            m.heaviest = fmax(m.heaviest, norm[k])
            m.whole += prior[k]
        for k in range(m.stride):
            m.inverse[k] = _lane(m.heaviest / norm[k]) if k < n_topics else 0.0
        for doc in range(v.n_docs):
            begin, n = indptr[doc], indptr[doc + 1] - indptr[doc]
            doc_limits[doc + 1] = doc_limits[doc]
            if n == 0:
                continue
            _open(m, d, &words[begin], &counts[begin], n, v.doc_topic)
            _set_own(m, d, &tops[0], held[doc])
            n_used = _infer(
                m, d, &v.s, &v.put, &v.kept, v.doc_topic, v.work, &v.chosen[0],
                &lengths[0], &tokens[0], &word_ends[begin], &found,
                bases + begin if m.restaurant.n_rows else NULL,
            )
            logs += found
            for i in range(n if m.restaurant.n_rows else 0):
                seated[begin + i] = tables_of(d, i)
            for i in range(0 if m.restaurant.n_rows else n):
                logs += d.exact[i] * (
                    log(tops[d.words[i]] / m.heaviest / d.seen)
                    - log(m.whole + (d.n_tokens - d.exact[i]))
                )
            doc_limits[doc + 1] = doc_limits[doc] + <int32_t>n_used
    topics, doc_tokens = arrays_of(&v.kept)
    used, sums = arrays_of(&v.put)
    return v.limits, topics, doc_tokens, ends, used, sums, logs, v.tables, v.base


def infer_zero_order(
    const int32_t[::1] indptr,      # IN    (n_docs + 1,)
    const int32_t[::1] words,       # IN    (nnz,) rows of `weights`
    const double[::1] counts,       # IN    (nnz,) > 0
    const float[:, ::1] weights,    # IN    (n_words, stride), lanes filled; b >= 1e-20
    const double[:, ::1] prior,     # IN    (1 or n_docs, n_topics) > 0; a
    Py_ssize_t n_start,             # IN    iterations over all topics
    double active,                  # IN    tokens of a topic in use
    Py_ssize_t max_iter,
    double tol,
    const double[::1] tops=None,    # IN    (n_words,) max_l phi_wl, where tokens repeat
    const double[::1] rest=None,    # IN    (1 or n_docs,) prior of all other topics
    double n_features=1.0,
    const float[:, ::1] grid=None,  # IN    of expected tables; none: no word repeats
    double discount=1.0,
    double concentration=0.0,
) -> tuple[
    NDArray[int32], NDArray[int32], NDArray[float64], NDArray[float64],
    NDArray[float64],
]:
    """Expected tokens of documents whose topics are fixed: CVB0 of [1].

    One prior serves all documents, or each has its own. With weights
    b_wk = phi_wk / max_l phi_wl, iterate for all words of a document at once

        r_wk ~ (a_k + [N_k - min(n_w, 1) r_wk]_+) b_wk,    N_k = sum_w n_w r_wk,

    which takes one token of a word out of the others; at most `max_iter` times, until
    sum_k |change of N_k| < tol times the tokens of the document. Of every two
    iterations N is extrapolated by scheme S3 of [2], unless they are the last. The
    topics are those that have `active` expected tokens (or a share of 0.02, if that is
    less) after `n_start` iterations with r_wk ~ (a_k + N_k) b_wk. Single precision;
    tokens of a document sum to those that it has in double precision.

    Time O(iterations * nnz * topics in use + nnz * n_topics).

    Returns
    -------
    limits : (n_docs + 1,)
        Of the topics of documents in the next two.
    topics : int32
        In increasing order.
    doc_topic : float64
        N there.

    References
    ----------
    .. [1] Asuncion, Welling, Smyth and Teh, "On Smoothing and Inference for Topic
       Models", UAI 2009.
    .. [2] Varadhan and Roland, "Simple and Globally Convergent Methods for Accelerating
       the Convergence of Any EM Algorithm", Scandinavian Journal of Statistics, 2008.
    """
    cdef Py_ssize_t doc, i, k, begin, n, n_used, at, n_priors = prior.shape[0]
    cdef double total
    sums = np.sum(prior, axis=1)
    cdef const double[::1] whole = sums
    cdef const double[:, ::1] share = np.asarray(prior) / sums[:, None]
    cdef _Visits v = _Visits(
        indptr, words, counts, weights, prior[0], share[0], n_start, active, max_iter,
        tol, grid, discount, concentration,
    )
    cdef Topics* m = &v.m
    cdef Document* d = &v.d
    if n_priors != 1 and n_priors != v.n_docs:
        raise ValueError("indptr and prior disagree on documents")
    if grid is not None:
        if tops.shape[0] != weights.shape[0] or rest.shape[0] != n_priors:
            raise ValueError("grid, tops, weights, prior and rest disagree")
        m.tops, m.heaviest = &tops[0], 1.0
    if v.longest == 0:
        none = np.zeros(0)
        return v.limits, np.zeros(0, dtype=np.int32), none, v.tables, v.base
    cdef double[::1] seated = v.tables, based = v.base
    cdef int32_t[::1] doc_limits = v.limits
    with nogil:
        for doc in range(v.n_docs):
            begin, n = indptr[doc], indptr[doc + 1] - indptr[doc]
            doc_limits[doc + 1] = doc_limits[doc]
            if n == 0:
                continue
            at = doc if n_priors > 1 else 0
            if at > 0 or d.prior_seen == 0.0:
                m.exact, m.share, d.prior_seen = &prior[at, 0], &share[at, 0], 0.0
                if grid is not None:
                    m.rest, m.whole = rest[at] / n_features, rest[at] + whole[at]
            _open(m, d, &words[begin], &counts[begin], n, v.doc_topic)
            _set_taken(d)
            n_used = _choose_topics(m, d, v.doc_topic, v.work, &v.chosen[0])
            _divide(&v.s, n, n_used)
            reserve(&v.kept, n_used)
            n_used = _iterate_fixed(m, d, &v.s, v.doc_topic, &v.chosen[0], n_used)
            total = 0.0
            for k in range(n_used):
                total += <double>v.s.tokens[k]
            total = d.n_tables / total
            for k in range(n_used):
                v.kept.indices[v.kept.n] = v.chosen[k]
                v.kept.values[v.kept.n] = <double>v.s.tokens[k] * total
                v.kept.n += 1
            doc_limits[doc + 1] = doc_limits[doc] + <int32_t>n_used
            if m.restaurant.n_rows:
                for i in range(n):
                    seated[begin + i] = tables_of(d, i)
                    total = 1.0 / d.scales[i]
                    based[begin + i] = base_probability(m, d, i, total)
    return v.limits, *arrays_of(&v.kept), v.tables, v.base


def collapsed_sums(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int32_t[::1] columns,      # IN  (n_words + 1,) limits of the words
    const Py_ssize_t[::1] stored,    # IN  (nnz,) stored counts, word by word
    const Py_ssize_t[::1] limits,    # IN  (nnz + 1,) of their sums
    const int32_t[::1] topics,       # IN  topics of the sums
    const double[::1] sums,          # IN  n_w r_wk
    Py_ssize_t n_topics,
) -> tuple[NDArray[int32], NDArray[int32], NDArray[float64]]:
    """Sum responsibilities over documents for the words from `begin` to `end`.

    Returns
    -------
    n_used : (end - begin,)
        Topics in use, of each word.
    used, totals
        Word by word, topics in increasing order: the topic k and the sum over documents
        of n r_wk.
    """
    cdef Py_ssize_t word, at, i, later, work, most = 0
    cdef Sums put
    if not 0 <= begin <= end < columns.shape[0]:
        raise ValueError("words must lie between 0 and the end of columns")
    if limits.shape[0] != stored.shape[0] + 1 or topics.shape[0] != sums.shape[0]:
        raise ValueError("stored, limits, topics and sums disagree")
    for at in range(columns[begin], columns[end]):
        most += limits[stored[at] + 1] - limits[stored[at]]
    n_used, used, totals, *_ = room = open_sums(&put, end - begin, n_topics, most)
    with nogil:
        for word in range(begin, end):
            work = 0
            for at in range(columns[word], columns[word + 1]):
                if most and at + AHEAD < columns[end]:
                    later = limits[stored[at + AHEAD]]
                    prefetch(&topics[0] + later)
                    prefetch(&sums[0] + later)
                for i in range(limits[stored[at]], limits[stored[at] + 1]):
                    mark(put.marks, topics[i])
                    put.scratch[topics[i]] += sums[i]
                work += limits[stored[at] + 1] - limits[stored[at]]
            end_word(&put, word - begin)
            count_work(work, &put.done)
    return n_used[: end - begin], used[: put.put].copy(), totals[: put.put].copy()
