"""Split-merge proposals of the Chinese restaurant franchise."""

import numpy as np

from libc.stdint cimport int8_t, int32_t, int64_t
from libc.string cimport memset

from numpy.random cimport bitgen_t

from skbnp.kernels._math cimport fast_exp, fast_log, log_gamma, log_rising
from skbnp.kernels._rng cimport below, borrow, uniform
from skbnp.kernels._seating cimport (
    Franchise,
    Workspace,
    add_table,
    close_seating,
    note_dish,
    open_seating,
    put_words,
    remove_table,
    take_place,
    take_words,
)

cdef extern from "src/clones.h":
    """
    #include <numpy/random/bitgen.h>
    struct skbnp_franchise;
    struct skbnp_proposal;
    SKBNP_CLONES static int skbnp_propose(
        struct skbnp_franchise *, struct skbnp_proposal *, bitgen_t *);
    """

cdef enum Outcome:
    REJECTED, SPLITTING, MERGING

#: Outcomes of a proposal; 0 is none.
SPLIT, MERGED = SPLITTING, MERGING


# Two tables that are drawn, their dishes, and how the other tables of these are shared
# between two dishes: as drawn in a split, as they are in a merge.
cdef struct Proposal "skbnp_proposal":
    # Words of the documents by table, and where each table begins in its document.
    const int32_t* words
    const int32_t* begin
    # All tables that may move, dish by dish; limits of the dishes.
    int64_t n_tables
    const int32_t* doc
    const int32_t* table
    const int64_t* first
    # The tables drawn, and the dishes that stays and that comes or goes.
    int64_t a, b
    int32_t one, other
    # The other tables, and whether each goes to the second dish.
    int64_t n_queue
    int32_t* queue
    int8_t* is_other
    # Counts of words (zero between calls), tables and tokens of the two, so far.
    int32_t* counts_one
    int32_t* counts_other
    double tokens_one, tokens_other
    # Tables are those of each group of documents, and at last those of documents
    # without a group; without groups all count for one.
    const int32_t* group    # (n_docs,); NULL: there are no groups
    int64_t n_groups
    double* tables_one
    double* tables_other
    double share            # of the first dish in the corpus weight of both
    double mass             # of both, their corpus weight times the scale; 0: no groups
    # Intermediate restricted Gibbs scans; without any, tables are allocated in turn.
    int64_t n_scans


cdef inline const int32_t* words_of(
    const Franchise* f, const Proposal* p, int64_t at, int32_t* n
) noexcept nogil:
    """The words of a table, equal ones side by side."""
    cdef int64_t begin = f.begin[p.doc[at]], table = begin + p.table[at]
    n[0] = f.size[table]
    return p.words + begin + p.begin[table]


cdef inline int32_t dish_of(
    const Franchise* f, const Proposal* p, int64_t at
) noexcept nogil:
    return f.dish[f.begin[p.doc[at]] + p.table[at]]


cdef inline int64_t group_of(const Proposal* p, int64_t at) noexcept nogil:
    return 0 if p.group == NULL else p.group[p.doc[at]]


cdef inline void begin_tables(const Proposal* p) noexcept nogil:
    memset(p.tables_one, 0, (p.n_groups + 1) * sizeof(double))
    memset(p.tables_other, 0, (p.n_groups + 1) * sizeof(double))


cdef inline int32_t add_words(
    const Franchise* f, const Proposal* p, int64_t at, int32_t* counts
) noexcept nogil:
    """Count the words of a table; how many."""
    cdef int32_t i, n
    cdef const int32_t* words = words_of(f, p, at, &n)
    for i in range(n):
        counts[words[i]] += 1
    return n


cdef inline double log_odds(
    const Franchise* f, const Proposal* p, int64_t at
) noexcept nogil:
    """log p(words of a table | one) - log p(words | other), by counts so far."""
    cdef double v_eta = <double>f.n_words * f.eta, log_ratio = 0.0, up = 1.0, down = 1.0
    cdef int32_t i, n, word, run = 0
    cdef const int32_t* words = words_of(f, p, at, &n)
    for i in range(n):
        word = words[i]
        run = run + 1 if i > 0 and words[i - 1] == word else 0
        up *= (f.eta + p.counts_one[word] + run) * (v_eta + p.tokens_other + i)
        down *= (f.eta + p.counts_other[word] + run) * (v_eta + p.tokens_one + i)
        if up > 1e100 or up < 1e-100 or down > 1e100 or down < 1e-100:
            log_ratio += fast_log(up) - fast_log(down)
            up = down = 1.0
    return log_ratio + (fast_log(up) - fast_log(down))


cdef inline double word_gain(double eta, int32_t a, int32_t b) noexcept nogil:
    """lnG(eta + a) + lnG(eta + b) - lnG(eta) - lnG(eta + a + b).

    Of a word in two dishes, against both together; zero if it is in one alone.
    """
    if a == 0 or b == 0:
        return 0.0
    return log_rising(eta, a) - log_rising(eta + b, a)


cdef inline double log_odds_of_tables(const Proposal* p, int64_t at) noexcept nogil:
    """Log odds of the first dish for a table, by the tables so far."""
    cdef double one = p.share * p.mass, other = (1.0 - p.share) * p.mass
    cdef int64_t g = group_of(p, at)
    if g < p.n_groups:
        one += p.tables_one[g]
        other += p.tables_other[g]
    return fast_log(one / other)


cdef inline double log_split(
    const Franchise* f, const Proposal* p, double gains, double n1, double n2
) noexcept nogil:
    """log p(split) - log p(merged) of two dishes, words' gains given.

    With groups both have their corpus weights, and the share is a uniform proposal.
    """
    cdef double v_eta = <double>f.n_words * f.eta, digamma, m1, m2
    cdef double one = p.share * p.mass, other = (1.0 - p.share) * p.mass
    cdef int64_t g
    gains += log_rising(v_eta + n1, n2) - log_rising(v_eta, n2)
    gains += fast_log(f.corpus_concentration)
    if p.group == NULL:
        m1, m2 = p.tables_one[0], p.tables_other[0]
        return gains + log_gamma(m1, &digamma) + log_gamma(m2, &digamma) - (
            log_gamma(m1 + m2, &digamma)
        )
    for g in range(p.n_groups):
        m1, m2 = p.tables_one[g], p.tables_other[g]
        gains += log_rising(one, m1) + log_rising(other, m2)
        gains -= log_rising(p.mass, m1 + m2)
    m1, m2 = p.tables_one[p.n_groups], p.tables_other[p.n_groups]
    return gains + (m1 - 1.0) * fast_log(p.share) + (
        (m2 - 1.0) * fast_log(1.0 - p.share)
    )


cdef inline double log_split_present(
    const Franchise* f, const Proposal* p
) noexcept nogil:
    """log p(split) - log p(merged) of two dishes as they are."""
    cdef int32_t one = p.one, other = p.other
    cdef double gains = 0.0
    cdef Py_ssize_t word
    cdef int64_t at
    begin_tables(p)
    for at in range(p.first[one], p.first[one + 1]):
        p.tables_one[group_of(p, at)] += 1.0
    for at in range(p.first[other], p.first[other + 1]):
        p.tables_other[group_of(p, at)] += 1.0
    cdef const int32_t* dish
    cdef const int32_t* count
    cdef int32_t e, first, second
    for word in range(f.n_words):
        first = second = 0
        dish, count = f.entry_dish + f.room[word], f.entry_count + f.room[word]
        for e in range(f.n_entries[word]):
            first = count[e] if dish[e] == one else first
            second = count[e] if dish[e] == other else second
        gains += word_gain(f.eta, first, second)
    return log_split(f, p, gains, f.dish_tokens[one], f.dish_tokens[other])


cdef inline double log_split_proposed(
    const Franchise* f, const Proposal* p
) noexcept nogil:
    """log p(split) - log p(merged) of the allocation."""
    cdef double gains = 0.0
    cdef Py_ssize_t word
    for word in range(f.n_words):
        gains += word_gain(f.eta, p.counts_one[word], p.counts_other[word])
    return log_split(f, p, gains, p.tokens_one, p.tokens_other)


cdef inline void fill_queue(Proposal* p, bitgen_t* rng) noexcept nogil:
    """All tables of both dishes but the two drawn, in random order."""
    cdef int64_t n = 0, i, j
    cdef int32_t kept
    for i in range(p.first[p.one], p.first[p.one + 1]):
        if i != p.a and i != p.b:
            p.queue[n] = <int32_t>i
            n += 1
    if p.other != p.one:
        for i in range(p.first[p.other], p.first[p.other + 1]):
            if i != p.b:
                p.queue[n] = <int32_t>i
                n += 1
    p.n_queue = n
    for i in range(n - 1, 0, -1):
        j = below(i + 1, rng)
        kept = p.queue[i]
        p.queue[i] = p.queue[j]
        p.queue[j] = kept


cdef inline void begin_dishes(const Franchise* f, Proposal* p) noexcept nogil:
    """Serve each of the two dishes at one of the tables that were drawn."""
    begin_tables(p)
    p.tables_one[group_of(p, p.a)] += 1.0
    p.tables_other[group_of(p, p.b)] += 1.0
    p.tokens_one = add_words(f, p, p.a, p.counts_one)
    p.tokens_other = add_words(f, p, p.b, p.counts_other)


cdef inline void put_table(
    const Franchise* f, Proposal* p, int64_t i, bint is_other
) noexcept nogil:
    """Serve one of the dishes at a table of the queue."""
    if is_other:
        p.tokens_other += add_words(f, p, p.queue[i], p.counts_other)
        p.tables_other[group_of(p, p.queue[i])] += 1.0
    else:
        p.tokens_one += add_words(f, p, p.queue[i], p.counts_one)
        p.tables_one[group_of(p, p.queue[i])] += 1.0
    p.is_other[i] = is_other


cdef inline void take_table(const Franchise* f, Proposal* p, int64_t i) noexcept nogil:
    """Take the dish from a table of the queue."""
    cdef int32_t j, n
    cdef const int32_t* words = words_of(f, p, p.queue[i], &n)
    cdef int32_t* counts = p.counts_other if p.is_other[i] else p.counts_one
    for j in range(n):
        counts[words[j]] -= 1
    if p.is_other[i]:
        p.tokens_other -= n
        p.tables_other[group_of(p, p.queue[i])] -= 1.0
    else:
        p.tokens_one -= n
        p.tables_one[group_of(p, p.queue[i])] -= 1.0


cdef inline double choose_dish(
    const Franchise* f, Proposal* p, int64_t i, bint is_drawn, bitgen_t* rng
) noexcept nogil:
    """Draw the dish of a table of the queue, or keep the one that is given.

    Returns the log probability of the choice.
    """
    cdef int64_t at = p.queue[i]
    cdef double odds = log_odds(f, p, at) + log_odds_of_tables(p, at)
    cdef bint is_other
    if is_drawn:
        is_other = uniform(rng) >= 1.0 / (1.0 + fast_exp(-odds))
    else:
        is_other = dish_of(f, p, at) == p.other
    if is_other:
        odds = -odds
    put_table(f, p, i, is_other)
    # log p(choice) = -log(1 + exp(-+odds))
    return odds if odds < -36.0 else -fast_log(1.0 + fast_exp(-odds))


cdef inline void launch(const Franchise* f, Proposal* p, bitgen_t* rng) noexcept nogil:
    """Find the launch state: tables divided at random, then scanned.

    It does not depend on how the tables are shared now.
    """
    cdef int64_t i, _scan
    for i in range(p.n_queue):
        put_table(f, p, i, uniform(rng) >= 0.5)
    for _scan in range(p.n_scans):
        for i in range(p.n_queue):
            take_table(f, p, i)
            choose_dish(f, p, i, True, rng)


cdef inline double allocate(
    const Franchise* f, Proposal* p, bint is_split, double least, bitgen_t* rng
) noexcept nogil:
    """Share the queue between the two dishes, table by table.

    Returns the log probability of the choices, as drawn or, in a merge, as they are; it
    only falls, and ends in a merge once it is not above `least`.
    """
    cdef double log_probability = 0.0
    cdef int64_t i
    begin_dishes(f, p)
    if p.n_scans > 0:
        launch(f, p, rng)
    for i in range(p.n_queue):
        if p.n_scans > 0:
            take_table(f, p, i)
        log_probability += choose_dish(f, p, i, is_split, rng)
        if not is_split and log_probability <= least:
            break
    return log_probability


cdef inline void move_table(
    Franchise* f, const Proposal* p, int64_t at, int32_t source, int32_t target
) noexcept nogil:
    """Move a table to another dish."""
    cdef int32_t i, n
    cdef const int32_t* words = words_of(f, p, at, &n)
    for i in range(n):
        take_words(f, words[i], source, 1)
        put_words(f, words[i], target, 1)
    f.dish[f.begin[p.doc[at]] + p.table[at]] = target
    f.dish_tokens[source] -= n
    f.dish_tokens[target] += n
    remove_table(f, source)
    add_table(f, target)


cdef inline void split(Franchise* f, Proposal* p) noexcept nogil:
    """Give a new dish to the second table and to tables allocated with it."""
    cdef int64_t i
    p.other = take_place(f, -1)
    f.dish_tokens[p.other] = 0
    if f.corpus_weights != NULL:
        f.corpus_weights[p.other] = (1.0 - p.share) * f.corpus_weights[p.one]
        f.corpus_weights[p.one] *= p.share
    for i in range(p.n_queue):
        if p.is_other[i]:
            move_table(f, p, p.queue[i], p.one, p.other)
    move_table(f, p, p.b, p.one, p.other)


cdef inline void merge(Franchise* f, Proposal* p) noexcept nogil:
    """Serve the first dish at the tables of the second."""
    cdef int64_t i
    if f.corpus_weights != NULL:
        f.corpus_weights[p.one] += f.corpus_weights[p.other]
        f.corpus_weights[p.other] = 0.0
    for i in range(p.first[p.other], p.first[p.other + 1]):
        move_table(f, p, i, p.other, p.one)


cdef inline bint is_accepted(
    const Franchise* f, Proposal* p, bint is_split, bitgen_t* rng
) noexcept nogil:
    """Propose and compare the Metropolis-Hastings ratio with a uniform number."""
    cdef double log_u = fast_log(1.0 - uniform(rng)), log_joint, log_proposal
    if is_split:
        fill_queue(p, rng)
        log_proposal = allocate(f, p, True, 0.0, rng)
        return log_u < log_split_proposed(f, p) - log_proposal
    # The ratio of a merge is at most that of the joint probabilities.
    log_joint = -log_split_present(f, p)
    if log_u >= log_joint:
        return False
    fill_queue(p, rng)
    log_proposal = allocate(f, p, False, log_u - log_joint, rng)
    return log_u < log_proposal + log_joint


cdef int propose_dishes "skbnp_propose"(
    Franchise* f, Proposal* p, bitgen_t* rng
) noexcept nogil:
    cdef bint is_split, is_applied
    p.a = below(p.n_tables, rng)
    p.b = below(p.n_tables - 1, rng)
    p.b += p.b >= p.a  # any two tables, in any order
    p.one, p.other = dish_of(f, p, p.a), dish_of(f, p, p.b)
    is_split = p.one == p.other
    if p.group != NULL:
        p.mass = f.corpus_weights[p.one]
        if is_split:
            p.share = 1.0 - uniform(rng)
        else:
            p.share = p.mass / (p.mass + f.corpus_weights[p.other])
            p.mass += f.corpus_weights[p.other]
        p.mass *= f.scale
        if p.share == 1.0 or p.share == 0.0:
            return REJECTED
    is_applied = is_accepted(f, p, is_split, rng)
    memset(p.counts_one, 0, f.n_words * sizeof(int32_t))
    memset(p.counts_other, 0, f.n_words * sizeof(int32_t))
    if not is_applied:
        return REJECTED
    if is_split:
        split(f, p)
    else:
        merge(f, p)
    note_dish(f, p.one)
    note_dish(f, p.other)
    return SPLITTING if is_split else MERGING


def propose(
    seating,                    # INOUT
    Workspace work,
    const int32_t[::1] words,   # IN    (n_tokens,) by document and table
    const int32_t[::1] begin,   # IN    (n_tokens,) of each table in its document
    const int32_t[::1] doc,     # IN    (n_tables,) of those that may move, by dish
    const int32_t[::1] table,   # IN    (n_tables,)
    const int64_t[::1] first,   # IN    (n_places + 1,) limits of the dishes
    Py_ssize_t n_scans,         # IN    >= 0
    bit_generator: BitGenerator,
) -> tuple[int, int, int]:
    """Propose to split the dish of two random tables, or to merge their dishes.

    By sequential allocation, Figure 2 of [1]_, or from a launch state after `n_scans`
    intermediate restricted Gibbs scans [2]_; there must be a free place. With groups of
    documents the corpus weight of the dish is split, too, by a uniform share.

    Returns
    -------
    outcome : int
        SPLIT, MERGED, or 0: rejected.
    stays, comes : int
        Places of the dishes: of a merge, the second ends.

    References
    ----------
    .. [1] Wang and Blei, "A Split-Merge MCMC Algorithm for the Hierarchical Dirichlet
       Process", 2012.
    .. [2] Jain and Neal, "A Split-Merge Markov Chain Monte Carlo Procedure for the
       Dirichlet Process Mixture Model", 2004.
    """
    cdef Franchise f
    cdef Proposal p
    cdef bitgen_t* rng = borrow(bit_generator)
    cdef const int32_t[::1] group = seating.group
    cdef int outcome
    open_seating(&f, seating, work)
    if doc.shape[0] < 2 or f.n_free + f.n_places == f.n_served:
        raise ValueError("two tables and a free place are needed")
    if doc.shape[0] != table.shape[0] or doc.shape[0] > f.n_all_tables:
        raise ValueError("the list must hold tables, each once")
    if first.shape[0] < f.n_served + 1 or first[f.n_served] != doc.shape[0]:
        raise ValueError("first does not fit")
    if words.shape[0] < f.begin[f.n_docs] or begin.shape[0] < f.begin[f.n_docs]:
        raise ValueError("words and begin must have an entry per token")
    if seating.has_groups and group.shape[0] < f.n_docs:
        raise ValueError("group must have an entry per document")
    cdef int32_t[::1] queue = np.empty(doc.shape[0], dtype=np.int32)
    cdef int8_t[::1] is_other = np.empty(doc.shape[0], dtype=np.int8)
    cdef int32_t[:, ::1] counts = np.zeros((2, f.n_words), dtype=np.int32)
    p.words, p.begin = &words[0], &begin[0]
    p.doc, p.table, p.first = &doc[0], &table[0], &first[0]
    p.n_scans, p.n_tables = n_scans, doc.shape[0]
    p.group, p.n_groups, p.share, p.mass = NULL, 1, 0.5, 0.0
    if group.shape[0]:
        p.group, p.n_groups = &group[0], seating.n_groups
        f.scale, f.is_counted = seating.group_concentration, False
    cdef double[:, ::1] tables = np.zeros((2, p.n_groups + 1))
    p.tables_one, p.tables_other = &tables[0, 0], &tables[1, 0]
    p.queue, p.is_other = &queue[0], &is_other[0]
    p.counts_one, p.counts_other = &counts[0, 0], &counts[1, 0]
    with bit_generator.lock, nogil:
        outcome = propose_dishes(&f, &p, rng)
    close_seating(&f, seating)
    return outcome, p.one, p.other
