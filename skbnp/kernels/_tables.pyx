"""The local step of an HDP with sticks in each document.

A document has T tables; table t serves topic k with probability phi_tk, and a token of
word w sits at table t with probability zeta_wt. Log weights E_wk are (n_words, stride)
floats, up to a constant per word; stride is a multiple of 8, and what stands behind the
K-th column is not read. Passes over words and topics are in src/seats.h.
"""

import numpy as np

from libc.math cimport INFINITY, exp, fmin, log
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from skbnp.kernels._interrupts cimport count_work
from skbnp.kernels._math cimport digamma_exponent, fast_log, log_gamma
from skbnp.kernels._sparse cimport (
    Entries,
    Sums,
    arrays_of,
    check_rows,
    end_word,
    longest_of,
    mark,
    open_sums,
    release,
    reserve,
)

cdef extern from "src/seats.h" nogil:
    """
    struct skbnp_model;
    struct skbnp_seats;
    struct skbnp_tables;
    SKBNP_CLONES static int skbnp_seat(
        const struct skbnp_model *, struct skbnp_seats *, Py_ssize_t, float, float);
    SKBNP_CLONES static double skbnp_settle(
        const struct skbnp_model *, const struct skbnp_seats *, const double *, double,
        struct skbnp_tables *);
    SKBNP_ONE_VERSION static void skbnp_log_sticks(
        Py_ssize_t, Py_ssize_t, const float *, double, double, double *);
    """
    enum:
        LANES
    Py_ssize_t padded(Py_ssize_t n)
    float seat_words(
        Py_ssize_t n, const float* counts, Py_ssize_t n_used, const float* tile,
        Py_ssize_t tile_stride, const float* phi, const float* log_pi,
        Py_ssize_t wide, float* seats, float* tokens, float* before,
    )
    void weigh_topics(
        Py_ssize_t n, Py_ssize_t n_used, const float* tile, Py_ssize_t tile_stride,
        const int32_t* rows, const float* log_beta, Py_ssize_t wide,
        const float* seats, float* logits,
    )
    void share_topics(Py_ssize_t n_used, Py_ssize_t wide, float* phi)
    void weigh_alone(
        Py_ssize_t n, const int32_t* words, const float* counts, Py_ssize_t n_topics,
        Py_ssize_t stride, const float* logs, const float* log_beta, float* weight,
        float* share,
    )
    void exp_below(Py_ssize_t n, double top, double* x)
    void log_rows(
        const double* sums, Py_ssize_t sums_stride, const Py_ssize_t* words,
        Py_ssize_t n_words, double scale, const double* norm, Py_ssize_t n_topics,
        double eta, int mean, double* work, float* table, Py_ssize_t stride,
    )

#: A table with fewer tokens (times the document's, if less than one) is empty, unless
#: it is remembered: then it stays as long as that is more than rounding.
EMPTY, SUPPORT = 1e-2, 1e-9
#: Nats per token by which another start must be better, as for other documents.
MARGIN = 2e-6

cdef double EMPTY_TOKENS = EMPTY, LEAST_SHARE = SUPPORT, NATS = MARGIN
# No table sits where the last vector is filled up.
cdef float NOWHERE = -1e30
# What the first topics of the tables count for at the start, the rest for the others.
cdef float FAITH = 0.95
# Topics that a table serves less, beside the one that it serves most, are left out
# until the next look at all topics, but for those that would explain so many tokens of
# the document by themselves (RARE, or more of a document with many).
cdef float ACTIVE = 1e-4, RARE = 0.1, RARE_SHARE = 2e-3

cdef enum:
    # So often, at the most, all topics are looked at.
    MAX_ROUNDS = 4
    # Iterations between looks at the order of the tables; so often, at the most, a new
    # order asks for more of them.
    SORT_EVERY = 8
    MAX_SORTS = 4


# Topics, which are fixed, and when to stop.
cdef struct Model "skbnp_model":
    Py_ssize_t n_topics, stride, n_tables
    Py_ssize_t n_seats          # tables that can be in use
    const float* logs           # (n_words, stride) E
    const double* log_beta      # (n_topics,)
    const float* beta           # the same
    double concentration, tol
    Py_ssize_t max_iter
    Py_ssize_t* done            # work, for `count_work`


# A document in single precision; rows by table have `wide` entries, a multiple of 8.
cdef struct Seats "skbnp_seats":
    Py_ssize_t n
    const int32_t* words        # (n,)
    float* counts               # (n,)
    float* served               # (n_seats, n_topics) phi, before and after
    float* seated               # (n_seats,) n_t, before and after
    Py_ssize_t n_left           # tables in use
    Py_ssize_t wide
    Py_ssize_t n_used           # topics in use
    Py_ssize_t iteration
    float* phi                  # (n_used, wide)
    float* all                  # (n_topics, wide) phi of all topics
    float* tile                 # (n, n_used) E of the topics in use
    float* zeta                 # (n, wide) n_w zeta_wt
    float* weight               # (n_topics,) tokens if there were no tables
    float* beta                 # (n_used,)
    float* log_pi               # (wide,), and the next three
    float* before
    float* tokens
    float* row
    int32_t* topics             # (n_used,)
    int32_t* order              # (2 wide,)
    double* exact               # (n_seats,) E log pi


# Tables of a document in double precision.
cdef struct Tables "skbnp_tables":
    Py_ssize_t n_used
    Py_ssize_t* limits          # (n_used + 1,) of the tables in the next two
    int32_t* topics
    double* phi
    double* tokens              # (n_used,)
    double* zeta                # (n, n_used)


cdef Py_ssize_t _seat_work(Py_ssize_t n, Py_ssize_t n_seats, Py_ssize_t n_topics):
    """Floats of work space for documents of at most n distinct words."""
    cdef Py_ssize_t wide = padded(n_seats), topics = padded(n_topics)
    cdef Py_ssize_t words = n + LANES
    return 2 * topics * wide + words * topics + words * wide + 4 * topics + 6 * wide


cdef void _divide(const Model* m, Seats* s, float* work) noexcept nogil:
    """Give a document of s.n words its parts of the work space."""
    cdef Py_ssize_t full = padded(m.n_topics), most = padded(m.n_seats)
    s.phi = work
    s.all = s.phi + full * most
    s.tile = s.all + full * most
    s.zeta = s.tile + (s.n + LANES) * full
    s.weight = s.zeta + (s.n + LANES) * most
    s.beta = s.weight + full
    s.log_pi = s.beta + full
    s.before = s.log_pi + most
    s.tokens = s.before + most
    s.row = s.tokens + most
    s.topics = <int32_t*>(s.row + most)
    s.order = s.topics + full


# -- single precision -----------------------------------------------------------------

cdef void _log_sticks "skbnp_log_sticks"(
    Py_ssize_t n_used, Py_ssize_t n_tables, const float* tokens, double scale,
    double concentration, double* log_pi,
) noexcept nogil:
    """E log pi_t of the sticks of tables with tokens[t] / scale tokens."""
    cdef double left = 0.0, behind = 0.0  # E log of what is left; tokens behind
    cdef double[3] x, psi
    cdef double here
    cdef Py_ssize_t t
    cdef int i
    for t in range(n_used):
        behind += <double>tokens[t] / scale
    for t in range(n_used):
        here = <double>tokens[t] / scale
        behind -= here
        if t == n_tables - 1:  # the last takes what is left
            log_pi[t] = left
            return
        x[0] = 1.0 + here
        x[1] = concentration + (behind if behind > 0.0 else 0.0)
        x[2] = x[0] + x[1]
        for i in range(3):
            psi[i] = fast_log(x[i] + 8.0) + digamma_exponent(x[i])
        log_pi[t] = left + psi[0] - psi[2]
        left += psi[1] - psi[2]


cdef inline void update_sticks(const Model* m, Seats* s) noexcept nogil:
    """E log pi of the tables in use, no others."""
    cdef Py_ssize_t t
    _log_sticks(s.n_left, m.n_tables, s.tokens, 1.0, m.concentration, s.exact)
    for t in range(s.wide):
        s.log_pi[t] = <float>s.exact[t] if t < s.n_left else NOWHERE


cdef inline float update_seats(Seats* s) noexcept nogil:
    """zeta from phi and the sticks; returns sum_t |change of n_t|."""
    return seat_words(
        s.n, s.counts, s.n_used, s.tile, s.n_used, s.phi, s.log_pi, s.wide, s.zeta,
        s.tokens, s.before,
    )


cdef inline Py_ssize_t largest(
    Py_ssize_t n, const float* value, Py_ssize_t most, int32_t* chosen
) noexcept nogil:
    """Positions of the `most` largest of n values, falling; of equal ones the first."""
    cdef Py_ssize_t k, place, found = 0
    for k in range(n):
        place = found if found < most else most - 1
        if found == most and not value[k] > value[chosen[place]]:
            continue
        while place > 0 and value[k] > value[chosen[place - 1]]:
            chosen[place] = chosen[place - 1]
            place -= 1
        chosen[place] = <int32_t>k
        found += found < most
    return found


cdef inline double value_of_order(
    Py_ssize_t n_tables, const float* tokens, const int32_t* order,
    double concentration,
) noexcept nogil:
    """What the order of tables, all in use, contributes to the bound of a document.

    sum_t<T lnG(1 + n_t) + lnG(alpha + n_>t) - lnG(1 + alpha + n_>=t).
    """
    cdef double value = 0.0, behind = 0.0, here, digamma
    cdef Py_ssize_t t
    for t in range(n_tables - 1, -1, -1):
        here = <double>tokens[order[t]]
        if t < n_tables - 1:
            value += log_gamma(1.0 + here, &digamma)
            value += log_gamma(concentration + behind, &digamma)
            value -= log_gamma(1.0 + concentration + behind + here, &digamma)
        behind += here
    return value


cdef inline void permute(
    float* base, Py_ssize_t n_rows, Py_ssize_t old, Py_ssize_t wide, Py_ssize_t kept,
    const int32_t* order, float* row,
) noexcept nogil:
    """Sort the columns of an array in place; its stride becomes `wide`."""
    cdef Py_ssize_t i, t
    for i in range(n_rows):
        for t in range(wide):
            row[t] = base[i * old + order[t]] if t < kept else <float>0.0
        for t in range(wide):
            base[i * wide + t] = row[t]


cdef inline bint arrange(const Model* m, Seats* s, float least) noexcept nogil:
    """Sort tables by their tokens, and drop those with fewer than `least`.

    That order is best unless the last stick, which takes what is left, is in use: then
    tables move only if it is better. Returns whether they have moved.
    """
    cdef Py_ssize_t old = s.wide, before = s.n_left, kept = 0, t
    cdef Py_ssize_t found = largest(before, s.tokens, before, s.order)
    cdef int32_t* same
    cdef double ordered
    cdef bint moved = False
    while kept < found and s.tokens[s.order[kept]] >= least:
        moved |= s.order[kept] != kept
        kept += 1
    kept = kept if kept else 1
    s.n_left = kept
    if moved and kept == m.n_tables and m.concentration > 1.0:
        same = s.order + kept
        for t in range(kept):
            same[t] = <int32_t>t
        ordered = value_of_order(kept, s.tokens, s.order, m.concentration)
        if not ordered > value_of_order(kept, s.tokens, same, m.concentration):
            return False
    s.wide = padded(kept)
    if moved or s.wide != old or kept != before:
        permute(s.tokens, 1, old, s.wide, kept, s.order, s.row)
        permute(s.phi, s.n_used, old, s.wide, kept, s.order, s.row)
        permute(s.zeta, s.n, old, s.wide, kept, s.order, s.row)
    return moved


cdef inline void narrow(
    const Model* m, Seats* s, float rare, float active
) noexcept nogil:
    """Keep the topics that some table serves, or that are not rare."""
    cdef Py_ssize_t n_used = 0, wide = s.wide, a, k, t
    cdef float* least = s.before
    cdef const float* row
    cdef float total
    cdef bint is_used
    for t in range(s.n_left):
        least[t] = 0.0
        for k in range(m.n_topics):
            row = s.all + k * wide
            least[t] = row[t] if row[t] > least[t] else least[t]
        least[t] *= active
    for k in range(m.n_topics):
        row = s.all + k * wide
        is_used = s.weight[k] >= rare
        for t in range(s.n_left):
            is_used |= row[t] > 0.0 and row[t] >= least[t]
        if is_used:
            memcpy(s.phi + n_used * wide, row, wide * sizeof(float))
            s.topics[n_used] = <int32_t>k
            n_used += 1
    for t in range(wide):
        total = 0.0
        for a in range(n_used):
            total += s.phi[a * wide + t]
        for a in range(n_used):
            s.phi[a * wide + t] = (
                s.phi[a * wide + t] / total if total > 0.0 else <float>0.0
            )
    s.n_used = n_used


cdef inline float left_out(const Model* m, const Seats* s) noexcept nogil:
    """Tokens of tables times their shares of topics that are left out."""
    cdef Py_ssize_t k, t, a = 0
    cdef float total = 0.0
    for k in range(m.n_topics):
        if a < s.n_used and s.topics[a] == k:
            a += 1
            continue
        for t in range(s.n_left):
            total += s.tokens[t] * s.all[k * s.wide + t]
    return total


cdef inline void gather(const Model* m, Seats* s) noexcept nogil:
    """E and E log beta of the topics in use."""
    cdef Py_ssize_t i, a
    cdef const float* row
    cdef float* tile = s.tile
    for i in range(s.n):
        row = m.logs + s.words[i] * m.stride
        for a in range(s.n_used):
            tile[i * s.n_used + a] = row[s.topics[a]]
    for a in range(s.n_used):
        s.beta[a] = m.beta[s.topics[a]]


cdef inline void start_tables(
    const Model* m, Seats* s, Py_ssize_t n_start, float rare
) noexcept nogil:
    """Start with tables of the topics that fit best, or with remembered tables."""
    cdef Py_ssize_t a, k, t
    s.wide = padded(m.n_seats)
    for t in range(s.wide):
        s.tokens[t] = s.seated[t] if t < n_start else <float>0.0
    if n_start == 0:
        s.n_left = s.n_used = largest(m.n_topics, s.weight, m.n_seats, s.topics)
        for a in range(s.n_used):
            for t in range(s.wide):
                s.phi[a * s.wide + t] = FAITH if a == t else <float>0.0
        for t in range(s.wide):
            s.log_pi[t] = <float>0.0 if t < s.n_left else NOWHERE
    else:
        s.n_left = n_start
        for k in range(m.n_topics):
            for t in range(s.wide):
                s.all[k * s.wide + t] = (
                    s.served[t * m.n_topics + k] if t < n_start else <float>0.0
                )
        narrow(m, s, rare, 0.0)
        update_sticks(m, s)


cdef inline int weigh_by_parts(
    const Model* m, const Seats* s, Py_ssize_t n_topics, const float* tile,
    Py_ssize_t tile_stride, const int32_t* rows, const float* beta, float* logits,
) except -1 nogil:
    """Eq. (17) but for the softmax, some topics at a time."""
    cdef Py_ssize_t n, a = 0
    while a < n_topics:
        n = min(<Py_ssize_t>LANES, n_topics - a)
        weigh_topics(
            s.n, n, tile + a, tile_stride, rows, beta + a, s.wide, s.zeta,
            logits + a * s.wide,
        )
        count_work(s.n * n * s.wide, m.done)
        a += n
    return 0


cdef inline int iterate_used(
    const Model* m, Seats* s, float tol, float least, int sorts
) except -1 nogil:
    """Iterate over the topics in use; returns how often the order has changed."""
    cdef float change
    cdef bint is_done
    while True:
        change = update_seats(s)
        count_work(s.n * s.n_used * s.wide, m.done)
        s.iteration += 1
        is_done = s.iteration >= m.max_iter or change < tol
        if (is_done or s.iteration % SORT_EVERY == 0) and arrange(m, s, least):
            is_done = s.iteration >= m.max_iter
            if not is_done:
                sorts += 1
                is_done = sorts > MAX_SORTS
        update_sticks(m, s)
        if is_done:
            return sorts
        weigh_by_parts(m, s, s.n_used, s.tile, s.n_used, NULL, s.beta, s.phi)
        share_topics(s.n_used, s.wide, s.phi)


cdef int _seat "skbnp_seat"(
    const Model* m, Seats* s, Py_ssize_t n_start, float tol, float least
) except -1 nogil:
    """Iterate phi, zeta and the sticks of a document in single precision.

    From n_start tables, or with none from the topics that would explain the document
    best by themselves, until sum_t |change of n_t| < tol; then the largest tables come
    first, and a few rounds follow. Leaves tables with n_t >= least, n_t in falling
    order unless the last stick is in use and another is better, and phi_t by Eq. (17)
    over all topics.
    """
    cdef float n_tokens = 0.0, rare
    cdef Py_ssize_t i, k, t
    cdef int rounds = 0, sorts = 0
    s.iteration = 0
    for i in range(s.n):
        n_tokens += s.counts[i]
    rare = RARE * (n_tokens if n_tokens < 1.0 else <float>1.0)
    rare = rare if rare > RARE_SHARE * n_tokens else RARE_SHARE * n_tokens
    weigh_alone(
        s.n, s.words, s.counts, m.n_topics, m.stride, m.logs, m.beta, s.weight, s.all
    )
    count_work(s.n * m.n_topics, m.done)
    start_tables(m, s, n_start, rare)
    gather(m, s)
    count_work(s.n * s.n_used, m.done)
    update_seats(s)
    count_work(s.n * s.n_used * s.wide, m.done)
    arrange(m, s, least)
    update_sticks(m, s)
    while True:
        # Look at all topics...
        weigh_by_parts(m, s, m.n_topics, m.logs, m.stride, s.words, m.beta, s.all)
        share_topics(m.n_topics, s.wide, s.all)
        if s.iteration >= m.max_iter or rounds == MAX_ROUNDS:
            break
        if rounds and left_out(m, s) < tol:
            break
        # ...and go on with those in use.
        narrow(m, s, rare, ACTIVE)
        gather(m, s)
        count_work(s.n * s.n_used, m.done)
        sorts = iterate_used(m, s, tol, least, sorts)
        rounds += 1
    for t in range(s.n_left):
        s.seated[t] = s.tokens[t]
        for k in range(m.n_topics):
            s.served[t * m.n_topics + k] = s.all[k * s.wide + t]
    return 0


# -- double precision -----------------------------------------------------------------

cdef double _settle "skbnp_settle"(
    const Model* m, const Seats* s, const double* counts, double support, Tables* found
) except? -1.0 nogil:
    """phi over the topics of at least `support`, zeta and n_t.

    Returns sum_w n_w log sum_t exp(log_pi_t + sum_k phi_tk E_wk) - sum_t n_t log_pi_t
    + sum_tk phi_tk (log_beta_k - log phi_tk).
    """
    cdef double bound = 0.0, total, top, x
    cdef const float* e
    cdef double* share
    cdef Py_ssize_t i, k, t, a, put = 0, n_used = s.n_left
    cdef Py_ssize_t* limits = found.limits
    cdef int32_t* topics = found.topics
    cdef double* phi = found.phi
    found.n_used, limits[0] = n_used, 0
    for t in range(n_used):
        total = 0.0
        for k in range(m.n_topics):
            topics[put] = <int32_t>k
            phi[put] = <double>s.served[t * m.n_topics + k]
            total += phi[put] if phi[put] >= support else 0.0
            put += phi[put] >= support
        limits[t + 1] = put
        for a in range(limits[t], put):
            phi[a] /= total
            bound += phi[a] * (m.log_beta[topics[a]] - fast_log(phi[a]))
        found.tokens[t] = 0.0
    for i in range(s.n):
        e = m.logs + s.words[i] * m.stride
        share, top, total = found.zeta + i * n_used, -INFINITY, 0.0
        for t in range(n_used):
            x = 0.0
            for a in range(limits[t], limits[t + 1]):
                x += phi[a] * <double>e[topics[a]]
            share[t] = s.exact[t] + x
            top = share[t] if share[t] > top else top
        exp_below(n_used, top, share)
        for t in range(n_used):
            total += share[t]
        for t in range(n_used):
            share[t] /= total
            found.tokens[t] += counts[i] * share[t]
        bound += counts[i] * (top + fast_log(total))
        count_work(limits[n_used], m.done)
    for t in range(n_used):
        bound -= found.tokens[t] * s.exact[t]
    return bound


# -- batches --------------------------------------------------------------------------

# What `infer_tables` returned before; `tables` is NULL if there is nothing.
cdef struct Starts:
    const int32_t* tables
    const double* tokens
    const Py_ssize_t* limits
    const int32_t* topics
    const double* phi


# What `infer_tables` returns.
cdef struct Kept:
    int32_t* tables
    double* tokens
    Py_ssize_t* limits
    double* zeta
    Py_ssize_t n_zeta
    Entries served              # topics and phi


cdef int _keep(
    Kept* kept, const Tables* best, Py_ssize_t doc, Py_ssize_t n
) except -1 nogil:
    """Write the tables of a document of n words."""
    cdef Py_ssize_t n_used = best.n_used, n_put = best.limits[n_used], t
    cdef int32_t begin = kept.tables[doc]
    cdef Entries* served = &kept.served
    reserve(served, n_put)
    memcpy(served.values + served.n, best.phi, n_put * sizeof(double))
    memcpy(served.indices + served.n, best.topics, n_put * sizeof(int32_t))
    for t in range(n_used):
        kept.tokens[begin + t] = best.tokens[t]
        kept.limits[begin + t + 1] = served.n + best.limits[t + 1]
    memcpy(kept.zeta + kept.n_zeta, best.zeta, n * n_used * sizeof(double))
    kept.tables[doc + 1] = begin + <int32_t>n_used
    served.n += n_put
    kept.n_zeta += n * n_used
    return 0


cdef Py_ssize_t _recall(
    const Model* m, Seats* s, const Starts* starts, Py_ssize_t doc, double scale
) noexcept nogil:
    """Start from the tables that are remembered; how many there are."""
    cdef Py_ssize_t n_start, at, i, t
    if starts.tables == NULL:
        return 0
    n_start = starts.tables[doc + 1] - starts.tables[doc]
    for i in range(n_start * m.n_topics):
        s.served[i] = 0.0
    for t in range(n_start):
        at = starts.tables[doc] + t
        s.seated[t] = <float>(starts.tokens[at] * scale)
        for i in range(starts.limits[at], starts.limits[at + 1]):
            s.served[t * m.n_topics + starts.topics[i]] = <float>starts.phi[i]
    return n_start


cdef double _stick_bound(
    Py_ssize_t n_used, Py_ssize_t n_tables, const double *tokens, double concentration
) noexcept nogil:
    """Sum over the sticks but the last of log alpha + lnB(1 + n_t, alpha + n_>t)."""
    cdef double behind = 0.0, bound = 0.0, a, b, digamma
    cdef Py_ssize_t t
    for t in range(n_used):
        behind += tokens[t]
    for t in range(min(n_used, n_tables - 1)):  # an empty table adds nothing
        behind -= tokens[t]
        a, b = 1.0 + tokens[t], concentration + max(behind, 0.0)
        bound += log(concentration) + log_gamma(a, &digamma)
        bound += log_gamma(b, &digamma) - log_gamma(a + b, &digamma)
    return bound


cdef double _infer_document(
    const Model* m, Seats* s, const double* counts, double n_tokens, double scale,
    Py_ssize_t n_start, double empty, double rest, Tables* found,
) except? -1.0 nogil:
    """Tables of a document from a start; returns its bound."""
    cdef double bound
    empty = empty * fmin(1.0, n_tokens) * scale
    _seat(m, s, n_start, <float>(m.tol * n_tokens * scale), <float>empty)
    _log_sticks(s.n_left, m.n_tables, s.seated, scale, m.concentration, s.exact)
    bound = _settle(m, s, counts, LEAST_SHARE, found)
    bound += _stick_bound(found.n_used, m.n_tables, found.tokens, m.concentration)
    # Tables that are not in use are left to the prior.
    return bound + (m.n_tables - found.n_used) * rest


cdef double _log_total(Py_ssize_t n, const double* log_beta) noexcept nogil:
    """log sum_k exp(log beta_k)."""
    cdef double top = -INFINITY, total = 0.0
    cdef Py_ssize_t k
    for k in range(n):
        top = max(top, log_beta[k])
    for k in range(n):
        total += exp(log_beta[k] - top)
    return top + log(total)


cdef int _infer(
    const Model* m, Seats* s, float* work, const Starts* starts, Kept* kept,
    Tables* two, Py_ssize_t n_docs, const int32_t* indptr, const int32_t* words,
    const double* counts,
) except -1 nogil:
    """Tables of all documents."""
    cdef double rest = _log_total(m.n_topics, m.log_beta), n_tokens, scale, best, bound
    cdef Py_ssize_t doc, begin, i, n_start
    cdef int now
    for doc in range(n_docs):
        begin, s.n = indptr[doc], indptr[doc + 1] - indptr[doc]
        kept.tables[doc + 1] = kept.tables[doc]
        if s.n == 0:
            continue
        s.words = words + begin
        _divide(m, s, work)
        n_tokens = 0.0
        for i in range(s.n):
            n_tokens += counts[begin + i]
        # Into the range of single precision, mostly as they are.
        scale = 1e-20 / n_tokens if n_tokens < 1e-20 else 1.0
        scale = 1e9 / n_tokens if n_tokens > 1e9 else scale
        for i in range(s.n):
            s.counts[i] = <float>(counts[begin + i] * scale)
        best = _infer_document(
            m, s, counts + begin, n_tokens, scale, 0, EMPTY_TOKENS, rest, &two[0]
        )
        now = 0
        n_start = _recall(m, s, starts, doc, scale)
        if n_start > 0:
            bound = _infer_document(
                m, s, counts + begin, n_tokens, scale, n_start, LEAST_SHARE, rest,
                &two[1],
            )
            # What is remembered may stay.
            now = bound + NATS * n_tokens > best
        _keep(kept, &two[now], doc, s.n)
    return 0


def infer_tables(
    const int32_t[::1] indptr,      # IN    (n_docs + 1,)
    const int32_t[::1] words,       # IN    (nnz,) rows of `logs`
    const double[::1] counts,       # IN    (nnz,) > 0
    const float[:, ::1] logs,       # IN    (n_words, stride) E, see `log_weights`
    const double[::1] log_beta,     # IN    (n_topics,) E log beta
    double concentration,           # IN    alpha
    Py_ssize_t n_tables,            # IN    T
    remembered,                     # IN    None, or what this function returned before
    Py_ssize_t max_iter,
    double tol,
) -> tuple[
    NDArray[int32], NDArray[float64], NDArray[intp], NDArray[int32], NDArray[float64],
    NDArray[float64],
]:
    """Fixed point of Eqs. (15) to (18) of [1] for each document, topics fixed.

    With a_t = 1 + n_t, b_t = alpha + n_>t the parameters of the sticks of T tables,
    n_t = sum_w n_w zeta_wt, iterate

        phi_tk ~ exp(E log beta_k + sum_w n_w zeta_wt E_wk),
        zeta_wt ~ exp(E log pi_t + sum_k phi_tk E_wk),

    until sum_t |change of n_t| < tol times the tokens of the document, or `max_iter`
    times; tables are put in the order of their tokens, unless the last stick is in use
    and another order is better. Iterations leave out topics that
    do not matter to the document; one over all topics must confirm the result. They run
    in single precision, the last zeta in double precision. Tables of less than a
    hundredth of a token are empty: none is seated there, and phi is
    softmax(E log beta). Entries of phi below 1e-9 are zero.

    The tables start from the topics that would explain most of the document if it
    chose among topics alone. If there is something remembered, it is iterated too, and
    the result with the higher bound is kept.

    Returns
    -------
    tables : (n_docs + 1,)
        Limits of the documents in the next one: of the tables in use.
    tokens : (n_used,)
        n_t.
    limits : (n_used + 1,)
        Limits of the tables in the next two.
    topics, phi
        The topics that a table serves, increasing, and with which probability.
    zeta
        Word by word of each document, for its tables in use.

    References
    ----------
    .. [1] Wang, Paisley and Blei, "Online Variational Inference for the Hierarchical
       Dirichlet Process", AISTATS 2011.
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1, n_topics = log_beta.shape[0]
    cdef Py_ssize_t n_seats = min(n_tables, n_topics), longest = longest_of(indptr)
    cdef Py_ssize_t done = 0
    cdef Model m
    cdef Seats s
    cdef Tables[2] two
    cdef Starts starts
    cdef Kept kept
    if not n_topics <= logs.shape[1] or n_tables < 1:
        raise ValueError("logs must have a column per topic, and there must be tables")
    if words.shape[0] != counts.shape[0] or indptr[n_docs] != counts.shape[0]:
        raise ValueError("indptr, words and counts disagree on documents")
    if remembered is not None:
        _check_remembered(*remembered[:5], n_docs, n_seats, n_topics)
    _open_starts(&starts, remembered)
    tables = np.zeros(n_docs + 1, dtype=np.int32)
    tokens = np.empty(n_docs * n_seats)
    limits = np.zeros(n_docs * n_seats + 1, dtype=np.intp)
    zeta = np.empty(counts.shape[0] * n_seats)
    if longest == 0:
        nothing = np.zeros(0)
        return (
            tables, nothing, limits[:1], np.zeros(0, dtype=np.int32), nothing, nothing
        )
    cdef int32_t[::1] ends = tables
    cdef double[::1] n_t = tokens, all_zeta = zeta
    cdef Py_ssize_t[::1] edges = limits
    # In single precision: counts, log beta, the tables of a start and what they need.
    cdef Py_ssize_t size = n_seats * n_topics
    cdef float[::1] space = np.empty(
        longest + n_topics + size + n_seats + _seat_work(longest, n_seats, n_topics),
        dtype=np.float32,
    )
    cdef float* beta = &space[longest]
    # Two results: limits, topics; phi, tokens, zeta.
    cdef Py_ssize_t[:, ::1] two_limits = np.empty((2, n_seats + 1), dtype=np.intp)
    cdef int32_t[:, ::1] two_topics = np.empty((2, size), dtype=np.int32)
    cdef double[:, ::1] room = np.empty((2, size + n_seats + longest * n_seats))
    cdef double[::1] sticks = np.empty(n_seats)
    for i in range(2):
        two[i].limits, two[i].topics = &two_limits[i, 0], &two_topics[i, 0]
        two[i].phi, two[i].tokens = &room[i, 0], &room[i, size]
        two[i].zeta = &room[i, size + n_seats]
    for k in range(n_topics):
        beta[k] = <float>log_beta[k]
    m.n_topics, m.stride, m.n_tables = n_topics, logs.shape[1], n_tables
    m.n_seats, m.logs, m.beta, m.log_beta = n_seats, &logs[0, 0], beta, &log_beta[0]
    m.concentration, m.tol, m.max_iter = concentration, tol, max_iter
    m.done = &done
    s.counts, s.served = &space[0], beta + n_topics
    s.seated, s.exact = s.served + size, &sticks[0]
    kept.served = Entries(NULL, NULL, 0, 0)
    kept.tables, kept.tokens, kept.limits = &ends[0], &n_t[0], &edges[0]
    kept.zeta, kept.n_zeta = &all_zeta[0], 0
    try:
        with nogil:
            _infer(
                &m, &s, s.seated + n_seats, &starts, &kept, two, n_docs, &indptr[0],
                &words[0], &counts[0],
            )
        topics, phi = arrays_of(&kept.served)
    finally:
        release(&kept.served)
    used = tables[n_docs]
    return (
        tables, tokens[:used].copy(), limits[: used + 1].copy(), topics, phi,
        zeta[: kept.n_zeta].copy(),
    )


cdef int _open_starts(Starts* starts, object remembered) except -1:
    """Point at the arrays of remembered tables."""
    starts.tables = NULL
    if remembered is None or len(remembered[1]) == 0:
        return 0
    cdef const int32_t[::1] tables = remembered[0], topics = remembered[3]
    cdef const double[::1] tokens = remembered[1], phi = remembered[4]
    cdef const Py_ssize_t[::1] limits = remembered[2]
    starts.tables, starts.tokens, starts.limits = &tables[0], &tokens[0], &limits[0]
    starts.topics = &topics[0] if topics.shape[0] else NULL
    starts.phi = &phi[0] if phi.shape[0] else NULL
    return 0


def _check_remembered(tables, tokens, limits, topics, phi, n_docs, n_seats, n_topics):
    """Raise an error unless these are tables of the given number of documents."""
    if len(tables) != n_docs + 1 or tables[n_docs] != len(tokens):
        raise ValueError("remembered must be of the same documents")
    if len(limits) != len(tokens) + 1 or not (
        limits[len(tokens)] == len(topics) == len(phi)
    ):
        raise ValueError("remembered tables and topics disagree")
    if n_docs and np.diff(tables).max() > n_seats:
        raise ValueError("remembered must not have more tables than there are")
    if len(topics) and not 0 <= topics.min() <= topics.max() < n_topics:
        raise ValueError("remembered topics must be columns of logs")


def table_sums(
    Py_ssize_t begin,
    Py_ssize_t end,
    const int32_t[::1] columns,      # IN  (n_words + 1,) limits of the words
    const int32_t[::1] docs,         # IN  (nnz,) documents, word by word
    const double[::1] counts,        # IN  (nnz,) word by word
    const Py_ssize_t[::1] places,    # IN  (nnz,) first zeta of each, word by word
    const double[::1] zeta,          # IN
    const int32_t[::1] tables,       # IN  (n_docs + 1,)
    const Py_ssize_t[::1] limits,    # IN  (n_tables + 1,)
    const int32_t[::1] table_topics,  # IN
    const double[::1] phi,           # IN
    Py_ssize_t n_topics,
) -> tuple[NDArray[int32], NDArray[int32], NDArray[float64]]:
    """Sum n zeta_wt phi_tk over documents for the words from `begin` to `end`.

    Returns
    -------
    n_used : (end - begin,)
        Topics in use, of each word.
    topics, sums
        Word by word, topics in increasing order, and their sums.
    """
    cdef Py_ssize_t word, at, first, t, a, work, most = 0
    cdef double seats
    cdef Sums put
    if not 0 <= begin <= end < columns.shape[0]:
        raise ValueError("words must lie between the limits of columns")
    if not docs.shape[0] == counts.shape[0] == places.shape[0]:
        raise ValueError("docs, counts and places disagree")
    for at in range(columns[begin], columns[end]):
        for t in range(tables[docs[at]], tables[docs[at] + 1]):
            most += limits[t + 1] - limits[t]
    n_used, topics, sums, *_ = room = open_sums(&put, end - begin, n_topics, most)
    with nogil:
        for word in range(begin, end):
            work = 0
            for at in range(columns[word], columns[word + 1]):
                first = tables[docs[at]]
                work += limits[tables[docs[at] + 1]] - limits[first]
                for t in range(first, tables[docs[at] + 1]):
                    seats = counts[at] * zeta[places[at] + t - first]
                    for a in range(limits[t], limits[t + 1]):
                        if put.scratch[table_topics[a]] == 0.0:  # it has a mark else
                            mark(put.marks, table_topics[a])
                        put.scratch[table_topics[a]] += seats * phi[a]
            end_word(&put, word - begin)
            count_work(work, &put.done)
    return n_used[: end - begin], topics[: put.put].copy(), sums[: put.put].copy()


def log_weights(
    const double[:, ::1] sums,      # IN    (all words, n_topics or more) counts S
    double scale,                   # IN    multiplies them
    const Py_ssize_t[::1] words,    # IN    (n_words,) rows of it
    const double[::1] norm,         # IN    (n_topics,) see below
    double eta,
    bint mean,
    float[:, ::1] table,            # OUT   (n_words, stride)
):
    """Log weights of some words, minus the largest of each, in single precision.

    psi(eta + S) - norm, or log(eta + S) - norm for the mean, eta at least 1e-18.
    Columns behind the topics are zero.
    """
    cdef Py_ssize_t n_topics = norm.shape[0]
    check_rows(sums, words, n_topics, table)
    if words.shape[0] == 0 or n_topics == 0:
        return
    cdef double[::1] work = np.empty(n_topics)
    with nogil:
        log_rows(
            &sums[0, 0], sums.shape[1], &words[0], words.shape[0], scale, &norm[0],
            n_topics, eta, mean, &work[0], &table[0, 0], table.shape[1],
        )
