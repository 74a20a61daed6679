"""Gibbs sampler of the Chinese restaurant franchise."""

from libc.math cimport expm1, log1p
from libc.stdint cimport int32_t, int64_t

from numpy.random cimport bitgen_t

from skbnp.kernels._math cimport fast_exp, fast_log
from skbnp.kernels._rng cimport below, borrow, uniform
from skbnp.kernels._seating cimport (
    PART_TOKENS,
    Franchise,
    Workspace,
    add_table,
    close_seating,
    count_of,
    find,
    mass_of,
    mass_of_all,
    mass_of_others,
    note_dish,
    open_seating,
    put_words,
    remove_table,
    set_rest,
    sum_rates,
    take_entry,
    take_place,
    take_words,
)

cdef extern from "src/entries.h" nogil:
    """
    #include <numpy/random/bitgen.h>
    struct skbnp_franchise;
    SKBNP_CLONES static Py_ssize_t skbnp_sweep_documents(
        struct skbnp_franchise *, Py_ssize_t, Py_ssize_t, int, bitgen_t *);
    """
    void prefetch "SKBNP_PREFETCH"(const void* address)
    void weigh_many(
        Py_ssize_t n, const int32_t* dishes, const int32_t* counts,
        const float* doc_rate, const float* rate, float* masses, float* here,
        float* anywhere,
    )
    Py_ssize_t touch_entries(
        Py_ssize_t n, const int32_t* dishes, const int32_t* counts, int32_t times,
        int32_t old, double eta, double per_eta, double* ratio, int32_t* touched,
        Py_ssize_t n_touched, int32_t* own,
    )
    double weigh_listed(
        Py_ssize_t n, const int32_t* dishes, const int32_t* tokens,
        const int32_t* tables, const double* base, double base_scale,
        const double* ratio, int32_t length, double v_eta, double scale,
        double* weights,
    )

cdef enum:
    # Entries of a word that are summed in whole vectors.
    MANY = 48
    # Tokens ahead whose entries are fetched.
    AHEAD = 6
    # Entries of a line of the cache.
    LINE = 16


# -- tokens ---------------------------------------------------------------------------

cdef struct Document:
    int64_t n_tokens
    const int32_t* words
    int32_t* table
    int32_t* size
    int32_t* dish
    int32_t n_tables
    int64_t n_seated        # tokens at tables
    Py_ssize_t n_dishes, n_empty
    double rate_sum         # of doc_rate


# What the places for a token of some word weigh.
cdef struct Masses:
    int64_t first           # entries of the word
    Py_ssize_t n
    double held             # of tables whose dish holds the word
    double old              # of all tables
    double anywhere         # of dishes that hold the word, for a new table
    double per_table
    double total            # old, and that of a new table


# Where a token sat, and the rates of its dish before it stood up.
cdef struct Seat:
    int32_t table, dish     # -1: nowhere
    int64_t entry           # -1: it was the last of its word
    float inverse, rate, doc_rate
    double rate_sum, doc_rate_sum


cdef inline void note_doc_dish(Franchise* f, Document* d, int32_t k) noexcept nogil:
    """Update the rates after a change of the tokens of a dish in the document."""
    cdef double before = f.doc_rate[k]
    f.doc_rate[k] = <float>f.doc_tokens[k] * f.inverse[k]
    d.rate_sum += <double>f.doc_rate[k] - before
    if not f.is_listed[k]:
        f.is_listed[k] = 1
        f.doc_dishes[d.n_dishes] = k
        d.n_dishes += 1


cdef inline void open_document(
    Franchise* f, Document* d, Py_ssize_t doc
) noexcept nogil:
    cdef int64_t begin = f.begin[doc]
    cdef int32_t t, k
    d.n_tokens = f.begin[doc + 1] - begin
    d.words = f.words + begin
    d.table, d.size, d.dish = f.table + begin, f.size + begin, f.dish + begin
    d.n_tables = f.n_tables[doc]
    d.n_dishes = d.n_empty = d.n_seated = 0
    d.rate_sum = 0.0
    for t in range(d.n_tables):
        k = d.dish[t]
        f.doc_tokens[k] += d.size[t]
        d.n_seated += d.size[t]
        f.doc_tables[k] += 1
        f.doc_table[k] = t
        note_doc_dish(f, d, k)


cdef inline void close_document(Franchise* f, Document* d) noexcept nogil:
    cdef Py_ssize_t i
    cdef int32_t k
    for i in range(d.n_dishes):
        k = f.doc_dishes[i]
        f.doc_tokens[k] = f.doc_tables[k] = f.doc_table[k] = f.is_listed[k] = 0
        f.doc_rate[k] = 0.0


cdef inline Py_ssize_t pick(
    const float* masses, Py_ssize_t n, double* x
) noexcept nogil:
    """Place at which running sums of non-negative masses pass x >= 0.

    x becomes the share of the way through it; the last mass if rounding has put x
    behind all.
    """
    cdef Py_ssize_t i = 0
    cdef double rest = x[0]
    while i < n and rest >= masses[i]:  # never stops at a mass of zero
        rest -= masses[i]
        i += 1
    if i < n:
        x[0] = rest / masses[i]
        return i
    x[0] = 0.0
    while i > 0 and masses[i - 1] == 0.0:
        i -= 1
    return i - 1


cdef inline Py_ssize_t pick_from(
    float* masses, Py_ssize_t n, Py_ssize_t start, double* x
) noexcept nogil:
    """As `pick`, but place `start`, the likeliest, comes first; below 0: none does."""
    cdef Py_ssize_t i
    cdef double mass
    if start < 0:
        return pick(masses, n, x)
    mass = masses[start]
    if x[0] < mass:
        x[0] /= mass
        return start
    x[0] -= mass
    masses[start] = 0.0
    i = pick(masses, n, x)
    return i if i >= 0 else start


cdef inline int32_t pick_dish(
    Franchise* f, int32_t word, double x, double held
) noexcept nogil:
    """The dish for a new table of one token, -1: a new one.

    x is uniform below the sum of m_k f_k(word), of which `held` is the part of counts,
    and gamma / V; in groups, of their masses.
    """
    cdef int64_t first = f.room[word]
    cdef Py_ssize_t e, n = f.n_entries[word]
    if x < held:
        for e in range(n):
            f.masses[e] = (
                <float>f.entry_count[first + e] * f.rate[f.entry_dish[first + e]]
            )
        return f.entry_dish[first + pick(f.masses, n, &x)]
    x -= held
    if x < f.eta * f.rate_sum:
        x /= f.eta
        return <int32_t>pick(f.rate, f.n_served, &x)
    return -1


cdef inline int32_t pick_table(
    Franchise* f, Document* d, int32_t k, double share
) noexcept nogil:
    """One of the tables of a dish in the document, by size; `share` is in [0, 1)."""
    cdef int32_t left = <int32_t>(share * f.doc_tokens[k]), t = 0
    if f.doc_tables[k] == 1:
        return f.doc_table[k]
    while True:  # the sizes sum to more than what is left
        left -= d.size[t] if d.dish[t] == k else 0
        if left < 0:
            return t
        t += 1


cdef inline int32_t pick_doc_dish(
    Franchise* f, const Document* d, double* x
) noexcept nogil:
    """A dish of the document by doc_rate; as `pick`. -1 if there is none."""
    cdef Py_ssize_t i
    for i in range(d.n_dishes):
        f.masses[i] = f.doc_rate[f.doc_dishes[i]]
    i = pick(f.masses, d.n_dishes, x)
    return -1 if i < 0 else f.doc_dishes[i]


cdef inline int32_t take_new_place(
    Franchise* f, int32_t old, bitgen_t* rng
) noexcept nogil:
    """Take a place for a new dish, as `take_place`, and draw its corpus weight.

    A size-biased part of the rest, a share ~ Beta(1, gamma) of it.
    """
    cdef int32_t k = take_place(f, old)
    cdef double log_left
    if f.corpus_weights != NULL:
        log_left = log1p(-uniform(rng)) / f.corpus_concentration
        f.corpus_weights[k] = -f.rest * expm1(log_left)
        set_rest(f, f.rest - f.corpus_weights[k])
    return k


cdef inline void stand_up(
    Franchise* f, Document* d, int64_t i, Seat* seat
) noexcept nogil:
    """Take a token from its table."""
    cdef int32_t word = d.words[i], t = d.table[i], k = d.dish[t], other = 0
    cdef Py_ssize_t n = f.n_entries[word]
    cdef int64_t first = f.room[word]
    seat.table, seat.dish = t, k
    seat.entry = first + find(f.entry_dish + first, n, k)
    seat.inverse, seat.rate, seat.doc_rate = f.inverse[k], f.rate[k], f.doc_rate[k]
    seat.rate_sum, seat.doc_rate_sum = f.rate_sum, d.rate_sum
    d.n_seated -= 1
    take_entry(f, word, seat.entry - first, 1)
    if f.n_entries[word] < n:
        seat.entry = -1
    f.dish_tokens[k] -= 1
    f.doc_tokens[k] -= 1
    d.size[t] -= 1
    if d.size[t] == 0:
        f.empty[d.n_empty] = t
        d.n_empty += 1
        remove_table(f, k)
        f.doc_tables[k] -= 1
        if f.doc_tables[k] > 0 and f.doc_table[k] == t:
            while d.size[other] == 0 or d.dish[other] != k:
                other += 1
            f.doc_table[k] = other
    note_dish(f, k)
    note_doc_dish(f, d, k)


cdef inline void sit_again(
    Franchise* f, Document* d, int64_t i, const Seat* seat
) noexcept nogil:
    """Sit down where the token sat, with others."""
    cdef int32_t k = seat.dish
    d.size[seat.table] += 1
    d.n_seated += 1
    f.dish_tokens[k] += 1
    f.doc_tokens[k] += 1
    if seat.entry < 0:
        put_words(f, d.words[i], k, 1)
    else:
        f.entry_count[seat.entry] += 1
    f.inverse[k], f.rate[k], f.doc_rate[k] = seat.inverse, seat.rate, seat.doc_rate
    f.rate_sum, d.rate_sum = seat.rate_sum, seat.doc_rate_sum


cdef inline void sit_down(
    Franchise* f, Document* d, int64_t i, int32_t t, int32_t k, int64_t entry
) noexcept nogil:
    """Sit down at table t, -1: a new one; `entry` is the dish's, -1: to be found."""
    if t < 0:
        if d.n_empty:
            d.n_empty -= 1
            t = f.empty[d.n_empty]
        else:
            t = d.n_tables
            d.n_tables += 1
        d.size[t], d.dish[t] = 0, k
        add_table(f, k)
        f.doc_tables[k] += 1
        f.doc_table[k] = t
    d.table[i] = t
    d.size[t] += 1
    d.n_seated += 1
    f.dish_tokens[k] += 1
    f.doc_tokens[k] += 1
    if entry < 0:
        put_words(f, d.words[i], k, 1)
    else:
        f.entry_count[entry] += 1
    note_dish(f, k)
    note_doc_dish(f, d, k)


cdef inline void fetch_entries(const Franchise* f, int32_t word) noexcept nogil:
    """Fetch the first entries of a word, which most have no more of."""
    cdef int64_t first = f.room[word]
    prefetch(f.entry_dish + first)
    prefetch(f.entry_count + first)
    prefetch(f.entry_dish + first + LINE)
    prefetch(f.entry_count + first + LINE)


cdef inline void weigh_entries(
    const Franchise* f, int64_t first, Py_ssize_t n, float* here, float* anywhere
) noexcept nogil:
    """Masses n_kw n_jk / (n_k + V eta) of the entries of a word.

    Puts their sum, and that of n_kw m_k / (n_k + V eta). Most words have few entries:
    four sums hide what an addition takes.
    """
    cdef const int32_t* dishes = f.entry_dish + first
    cdef const int32_t* counts = f.entry_count + first
    cdef float* masses = f.masses
    cdef float[4] mass, h, a
    cdef float count
    cdef Py_ssize_t e = 0
    cdef int j
    if n >= MANY:
        weigh_many(n, dishes, counts, f.doc_rate, f.rate, masses, here, anywhere)
        return
    for j in range(4):
        h[j] = a[j] = 0.0
    while e + 4 <= n:
        for j in range(4):
            count = <float>counts[e + j]
            mass[j] = count * f.doc_rate[dishes[e + j]]
            h[j] += mass[j]
            a[j] += count * f.rate[dishes[e + j]]
        for j in range(4):
            masses[e + j] = mass[j]
        e += 4
    for j in range(n - e):
        count = <float>counts[e + j]
        masses[e + j] = count * f.doc_rate[dishes[e + j]]
        h[j] += masses[e + j]
        a[j] += count * f.rate[dishes[e + j]]
    here[0] = (h[0] + h[1]) + (h[2] + h[3])
    anywhere[0] = (a[0] + a[1]) + (a[2] + a[3])


cdef inline void weigh(
    Franchise* f, const Document* d, int32_t word, Masses* m
) noexcept nogil:
    """Masses of the tables and dishes for a token without a table.

    n_jk (n_kw + eta) / (n_k + V eta) for the tables of a dish together,
    alpha / (m + gamma) [sum_k m_k f_k(w) + gamma / V] for a new one. In groups their
    masses stand for m_k and gamma.
    """
    cdef float here, anywhere
    cdef double fresh
    m.first, m.n = f.room[word], f.n_entries[word]
    weigh_entries(f, m.first, m.n, &here, &anywhere)
    m.held, m.anywhere = here, anywhere
    m.old = m.held + f.eta * d.rate_sum
    fresh = m.anywhere + f.eta * f.rate_sum + f.per_word
    m.per_table = f.doc_concentration / mass_of_all(f)
    m.total = m.old + m.per_table * fresh


cdef inline bint seat_token(
    Franchise* f, Document* d, int64_t i, const Masses* m, const Seat* seat,
    bitgen_t* rng,
) noexcept nogil:
    """Draw the table of a token without one; return whether it has changed."""
    cdef int32_t word = d.words[i], k = -1, t = -1
    cdef int64_t entry = -1
    cdef double x = uniform(rng) * m.total
    if x < m.held:
        entry = m.first + pick_from(f.masses, m.n, seat.entry - m.first, &x)
        k = f.entry_dish[entry]
        t = pick_table(f, d, k, x)
    elif x < m.old:
        x = (x - m.held) / f.eta
        k = pick_doc_dish(f, d, &x)
        if k >= 0:
            t = pick_table(f, d, k, x)
    else:
        k = pick_dish(f, word, (x - m.old) / m.per_table, m.anywhere)
    if t >= 0 and t == seat.table:
        sit_again(f, d, i, seat)
        return False
    if k < 0:
        k = -1
        if seat.dish >= 0 and f.dish_tables[seat.dish] == 0:
            k = seat.dish
        k = take_new_place(f, k, rng)
    sit_down(f, d, i, t, k, entry)
    return True


cdef inline void draw_table(
    Franchise* f, Document* d, int64_t i, bitgen_t* rng
) noexcept nogil:
    """Draw the table of a token."""
    cdef Masses masses
    cdef Seat seat = Seat(-1, -1, -1, 0.0, 0.0, 0.0, 0.0, 0.0)
    if d.table[i] >= 0:
        stand_up(f, d, i, &seat)
    weigh(f, d, d.words[i], &masses)
    seat_token(f, d, i, &masses, &seat, rng)


# -- repeats --------------------------------------------------------------------------

cdef inline int64_t list_openers(
    Franchise* f, const int32_t* size, int64_t n, bitgen_t* rng
) noexcept nogil:
    """Name the tokens of a word in random order, each by the opener of its table.

    Puts also the tokens that have opened none to `start`; returns how many.
    """
    cdef int64_t i, j, at = 0, n_spare = 0
    cdef int32_t kept, _
    for i in range(n):
        if size[i] == 0:
            f.start[n_spare] = <int32_t>i
            n_spare += 1
        for _ in range(size[i]):
            f.order[at] = <int32_t>i
            at += 1
    for i in range(n - 1, 0, -1):
        j = below(i + 1, rng)
        kept = f.order[i]
        f.order[i] = f.order[j]
        f.order[j] = kept
    return n_spare


cdef inline int32_t pick_opener(
    const Franchise* f, const int32_t* size, int64_t n, int64_t r, bitgen_t* rng
) noexcept nogil:
    """A table of the word, by its tokens less the discount, token r left out."""
    cdef int64_t other
    cdef int32_t opener
    while True:  # at most 1 / (1 - d) times in the mean
        other = below(n - 1, rng)
        other += other >= r
        opener = f.order[other]
        if size[opener] * uniform(rng) >= f.word_discount:
            return opener


cdef inline void draw_repeats(
    Franchise* f, Document* d, int64_t first, int64_t n, bitgen_t* rng
) noexcept nogil:
    """Draw the table of the word of each of its n > 1 tokens, given all others.

    One of s tokens weighs s - d, a new one (c + d T) p(w), where T tokens of the
    document are seated and p(w) is the probability of the word for another; that one
    is seated by the topics.
    """
    cdef int32_t* size = f.word_size + (d.words - f.words) + first
    cdef int32_t opener
    cdef int64_t n_spare = list_openers(f, size, n, rng), r
    cdef double opens, known, share = -1.0  # p(w); below 0: to be computed
    cdef bint was_alone
    cdef Masses masses
    cdef Seat seat
    for r in range(n):
        opener = f.order[r]
        was_alone = size[opener] == 1
        size[opener] -= 1
        if was_alone:
            stand_up(f, d, first + opener, &seat)
            d.table[first + opener] = -1
            f.start[n_spare] = opener
            n_spare += 1
        if was_alone or share < 0.0:
            weigh(f, d, d.words[first], &masses)
            share = masses.total / (<double>d.n_seated + f.doc_concentration)
        known = <double>(n - 1) - f.word_discount * <double>(n - n_spare)
        opens = f.word_concentration + f.word_discount * <double>d.n_seated
        opens *= share
        if uniform(rng) * (known + opens) < known:
            opener = pick_opener(f, size, n, r, rng)
            if was_alone:
                share = -1.0
        else:
            n_spare -= 1
            opener = f.start[n_spare]
            if was_alone:
                d.table[first + opener] = seat.table
                seat_token(f, d, first + opener, &masses, &seat, rng)
            else:
                draw_table(f, d, first + opener, rng)
            share = -1.0
        size[opener] += 1
        f.order[r] = opener


cdef inline void sweep_words(Franchise* f, Document* d, bitgen_t* rng) noexcept nogil:
    """Draw the tables of tokens that open one, and which tokens repeat others."""
    cdef const int32_t* size = f.word_size + (d.words - f.words)
    cdef int64_t first = 0, stop, i
    while first < d.n_tokens:
        stop = first + 1
        while stop < d.n_tokens and d.words[stop] == d.words[first]:
            stop += 1
        if stop < d.n_tokens:
            fetch_entries(f, d.words[stop])
        for i in range(first, stop):
            # One without repeats is drawn below, unless it has no choice.
            if size[i] > 1 or stop == first + 1 or (size[i] == 1 and d.table[i] < 0):
                draw_table(f, d, i, rng)
        if stop > first + 1:
            draw_repeats(f, d, first, stop - first, rng)
        first = stop


cdef inline void sweep_tokens(
    Franchise* f, Py_ssize_t doc, bitgen_t* rng
) noexcept nogil:
    cdef Document document
    cdef int64_t i
    open_document(f, &document, doc)
    if f.word_size != NULL:
        sweep_words(f, &document, rng)
    else:
        for i in range(document.n_tokens):
            if i + AHEAD < document.n_tokens:
                fetch_entries(f, document.words[i + AHEAD])
            draw_table(f, &document, i, rng)
    f.n_tables[doc] = document.n_tables
    close_document(f, &document)


cdef inline void group_tokens(Franchise* f, Py_ssize_t doc) noexcept nogil:
    """Renumber the tables of a document, and list its tokens by table."""
    cdef int64_t begin = f.begin[doc], i
    cdef int32_t* table = f.table + begin
    cdef int32_t* size = f.size + begin
    cdef int32_t* dish = f.dish + begin
    cdef int32_t* renamed = f.empty
    cdef int32_t t, at, n = 0
    for t in range(f.n_tables[doc]):
        renamed[t] = n
        if size[t] > 0:
            size[n], dish[n] = size[t], dish[t]
            n += 1
    f.n_tables[doc] = n
    f.start[0] = 0
    for t in range(n):
        f.start[t + 1] = f.start[t] + size[t]
    for i in range(f.begin[doc + 1] - begin):
        if table[i] < 0:
            continue  # a repeat
        t = renamed[table[i]]
        table[i] = t
        at = f.start[t]
        f.start[t] = at + 1
        f.order[at] = <int32_t>i
    for t in range(n, 0, -1):
        f.start[t] = f.start[t - 1]
    f.start[0] = 0


# -- dishes ---------------------------------------------------------------------------

# The words of a table or a part of it, each once; `times` there, `own` in the table.
cdef struct Block:
    const int32_t* words
    const int32_t* times
    const int32_t* own
    Py_ssize_t n
    int32_t n_tokens


cdef inline double weigh_dishes(
    Franchise* f, Py_ssize_t begin, Py_ssize_t n, int32_t length, double scale
) noexcept nogil:
    """Weights m_k prod_w ratio_k / prod_i (x_k + i) of n touched dishes; their sum.

    x = n_k + V eta; in units of prod_w (eta)^(x_w) and scale^L.
    """
    return weigh_listed(
        n, f.touched + begin, f.dish_tokens, f.own_tables, f.corpus_weights, f.scale,
        f.ratio, length, <double>f.n_words * f.eta, scale, f.weights + begin,
    )


cdef inline int32_t pick_listed(
    const int32_t* dishes, const double* weights, Py_ssize_t n, double x
) noexcept nogil:
    cdef int32_t last = -1
    cdef Py_ssize_t i
    for i in range(n):
        if weights[i] > 0.0:
            last = dishes[i]
            if x < weights[i]:
                break
            x -= weights[i]
    return last


cdef inline Py_ssize_t touch_dishes(
    Franchise* f, const Block* block, int32_t old
) noexcept nogil:
    """Multiply up the ratios of dishes that hold words of the block; how many.

    `old` is the first of them in any case, the one that a table most often keeps.
    """
    cdef double per_eta = 1.0 / f.eta, of_old = 1.0
    cdef Py_ssize_t i, n = 1
    cdef int64_t first
    cdef int32_t word, r, count
    f.touched[0] = old
    for i in range(block.n):
        word = block.words[i]
        first = f.room[word]
        n = touch_entries(
            f.n_entries[word], f.entry_dish + first, f.entry_count + first,
            block.times[i], old, f.eta, per_eta, f.ratio, f.touched, n, &count,
        )
        count -= block.own[i]
        for r in range(block.times[i]):
            of_old *= 1.0 + <double>count / (f.eta + r)
    f.ratio[old] = of_old
    return n


cdef inline int32_t draw_dish(
    Franchise* f, const Block* block, int32_t old, bitgen_t* rng
) noexcept nogil:
    """Draw a dish k with probability ~ m_k f_k(block), -1: a new one, ~ gamma f_new.

    The block's tokens count for dish `old` among the entries, but nowhere else.
    """
    cdef double v_eta = <double>f.n_words * f.eta
    cdef double scale, known, fresh, bound, others, u, x
    cdef Py_ssize_t i, n = touch_dishes(f, block, old), n_others = 0
    cdef int32_t k
    # Numbers near one, whatever the unit.
    scale = 1.0 / (v_eta + 1.0 + <double>f.dish_tokens[old])
    known = weigh_dishes(f, 0, n, block.n_tokens, scale)
    fresh = mass_of_others(f) / (v_eta * scale)
    # Dishes that hold none of the words; each has a token at least.
    bound = f.rate_sum / scale
    for k in range(1, block.n_tokens):
        fresh /= (v_eta + k) * scale
        bound /= (v_eta + 1.0 + k) * scale
    u = uniform(rng)
    x = u * (known + fresh + bound)
    if x >= known + fresh:
        for k in range(<int32_t>f.n_served):
            if f.dish_tables[k] > 0 and f.ratio[k] == 1.0 and k != old:
                f.touched[n + n_others] = k
                n_others += 1
        others = weigh_dishes(f, n, n_others, block.n_tokens, scale)
        x = u * (known + fresh + others)
        if x < known + fresh:  # u is near its border: draw anew
            x = (known + fresh) * uniform(rng)
    if x < known:
        k = pick_listed(f.touched, f.weights, n, x)
    elif x < known + fresh or n_others == 0:
        k = -1
    else:
        k = pick_listed(f.touched + n, f.weights + n, n_others, x - known - fresh)
    for i in range(n):
        f.ratio[f.touched[i]] = 1.0
    return k


cdef inline double log_weight(
    const Franchise* f, const Block* block, int32_t k, int32_t old
) noexcept nogil:
    """log m_k f_k(block); k = -1: log gamma f_new(block)."""
    cdef double total = <double>f.n_words * f.eta, up = 1.0, down = 1.0, held, log_w
    cdef Py_ssize_t i
    cdef int32_t r, count, at = 0
    if k < 0:
        log_w = fast_log(mass_of_others(f))
    else:
        log_w = fast_log(mass_of(f, k))
        total += <double>f.dish_tokens[k]
    for i in range(block.n):
        held = f.eta
        if k >= 0:
            count = count_of(f, block.words[i], k)
            held += count - (block.own[i] if k == old else 0)
        for r in range(block.times[i]):
            up *= held + r
            down *= total + at
            at += 1
            if up > 1e140 or up < 1e-140 or down > 1e140 or down < 1e-140:
                log_w += fast_log(up) - fast_log(down)
                up = down = 1.0
    return log_w + (fast_log(up) - fast_log(down))


cdef inline Block block_of(
    Franchise* f, Py_ssize_t doc, int32_t t
) noexcept nogil:
    """The words of a table, from the order of `group_tokens`."""
    cdef const int32_t* words = f.words + f.begin[doc]
    cdef Block block
    cdef int32_t i, word
    block.words, block.times, block.own = f.distinct, f.times, f.times
    block.n, block.n_tokens = 0, f.size[f.begin[doc] + t]
    for i in range(f.start[t], f.start[t + 1]):
        word = words[f.order[i]]
        if block.n > 0 and f.distinct[block.n - 1] == word:
            f.times[block.n - 1] += 1
        else:
            f.distinct[block.n], f.times[block.n] = word, 1
            block.n += 1
    return block


cdef inline Block part_of(
    Franchise* f, Py_ssize_t doc, int32_t t, int n_tokens
) noexcept nogil:
    """Evenly spaced tokens of a table that has more of them."""
    cdef const int32_t* words = f.words + f.begin[doc]
    cdef const int32_t* order = f.order + f.start[t]
    cdef int64_t size = f.size[f.begin[doc] + t], i, first, stop
    cdef Block part
    cdef int32_t word
    cdef int j
    part.words, part.times, part.own = f.part, f.part_times, f.part_own
    part.n, part.n_tokens = 0, n_tokens
    for j in range(n_tokens):
        i = ((j + 1) * size - 1) // n_tokens
        word = words[order[i]]
        if part.n > 0 and f.part[part.n - 1] == word:
            f.part_times[part.n - 1] += 1
            continue
        first, stop = i, i + 1
        while first > 0 and words[order[first - 1]] == word:
            first -= 1
        while stop < size and words[order[stop]] == word:
            stop += 1
        f.part[part.n], f.part_times[part.n] = word, 1
        f.part_own[part.n] = <int32_t>(stop - first)
        part.n += 1
    return part


cdef inline int32_t resample_dish(
    Franchise* f, Py_ssize_t doc, int32_t t, int32_t old, int meal_part, bitgen_t* rng
) noexcept nogil:
    """Resample the dish of a table.

    Of a long one, a part proposes, with a Metropolis-Hastings step for the others.
    `old` has lost the table but for its entries.
    """
    cdef Block block, part
    cdef int32_t proposed, now
    cdef double log_ratio
    if f.size[f.begin[doc] + t] <= meal_part:
        block = block_of(f, doc, t)
        return draw_dish(f, &block, old, rng)
    part = part_of(f, doc, t, meal_part)
    proposed = draw_dish(f, &part, old, rng)
    now = old if f.dish_tables[old] > 0 else -1  # another new dish is as good
    if proposed == now:
        return now
    block = block_of(f, doc, t)
    log_ratio = (
        log_weight(f, &block, proposed, old) - log_weight(f, &block, now, old)
        - (log_weight(f, &part, proposed, old) - log_weight(f, &part, now, old))
    )
    if log_ratio >= 0.0 or uniform(rng) < fast_exp(log_ratio):
        return proposed
    return now


cdef inline void sweep_dishes(
    Franchise* f, Py_ssize_t doc, int meal_part, bitgen_t* rng
) noexcept nogil:
    """Resample the dishes of tables; a single token has drawn its with the table."""
    cdef int32_t* size = f.size + f.begin[doc]
    cdef int32_t* dish = f.dish + f.begin[doc]
    cdef Block block
    cdef Py_ssize_t i
    cdef int32_t t, k, old
    for t in range(f.n_tables[doc]):
        if size[t] < 2:
            continue
        old = dish[t]
        f.dish_tokens[old] -= size[t]
        remove_table(f, old)
        note_dish(f, old)
        k = resample_dish(f, doc, t, old, meal_part, rng)
        if k < 0:
            k = take_new_place(f, old if f.dish_tables[old] == 0 else -1, rng)
        if k != old:
            dish[t] = k
            block = block_of(f, doc, t)
            for i in range(block.n):
                take_words(f, block.words[i], old, block.times[i])
                put_words(f, block.words[i], k, block.times[i])
        f.dish_tokens[k] += size[t]
        add_table(f, k)
        note_dish(f, k)


# -- sweeps ---------------------------------------------------------------------------

cdef Py_ssize_t sweep_documents "skbnp_sweep_documents"(
    Franchise* f, Py_ssize_t doc, Py_ssize_t stop, int meal_part, bitgen_t* rng
) noexcept nogil:
    while doc < stop:
        # A document has as many new dishes as tokens at the most.
        if f.n_free + f.n_places - f.n_served < f.begin[doc + 1] - f.begin[doc]:
            return doc
        if doc % 16 == 0:
            sum_rates(f)
        sweep_tokens(f, doc, rng)
        group_tokens(f, doc)
        if meal_part > 0:
            sweep_dishes(f, doc, meal_part, rng)
        doc += 1
    return doc


def sweep(
    seating,                # INOUT see `Seating`
    Workspace work,
    Py_ssize_t doc,
    Py_ssize_t stop,
    int meal_part,          # IN    0: the dishes of tables stay
    bit_generator: BitGenerator,
) -> int:
    """Resample tables, and dishes of tables, of the documents from `doc` to `stop`.

    Section 3.1 of [1] and its appendix; and, where a word of a document may be
    repeated, who opens a table of the word (section 3 of [2]). A token that is not
    seated yet is seated by the tokens so far. The dish of a table of more than
    `meal_part` tokens is drawn by a Metropolis-Hastings step: some of its tokens
    propose.

    Returns the document before which there were too few places for new dishes, or
    `stop`. Time O(sum over tokens of the dishes of their words); no allocation.

    References
    ----------
    .. [1] Wang and Blei, "A Split-Merge MCMC Algorithm for the Hierarchical Dirichlet
       Process", 2012.
    .. [2] Buntine and Mishra, "Experiments with Non-parametric Topic Models", KDD 2014.
    """
    cdef Franchise f
    cdef bitgen_t* rng = borrow(bit_generator)
    open_seating(&f, seating, work)
    if not 0 <= doc <= stop <= f.n_docs or not 0 <= meal_part <= PART_TOKENS:
        raise ValueError("documents or meal_part out of range")
    with bit_generator.lock, nogil:
        doc = sweep_documents(&f, doc, stop, meal_part, rng)
    close_seating(&f, seating)
    return doc
