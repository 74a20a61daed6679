"""Seatings of the Chinese restaurant franchise, and how their counts are kept.

Tokens sit at tables of their document; tables serve dishes (topics) that all documents
share. Where documents repeat words for reasons of their own, some tokens repeat another
one of their word: only the others, which open a table of the word, are seated.
"""

from libc.stdint cimport int32_t, int64_t

cdef enum:
    # Tokens of a long table that propose its dish, at the most.
    PART_TOKENS = 8


cdef struct Franchise "skbnp_franchise":
    # Corpus: the tokens of document j are words[begin[j]] to words[begin[j + 1] - 1],
    # equal words side by side.
    Py_ssize_t n_docs, n_words
    const int64_t* begin
    const int32_t* words
    # Seating. Table t of document j is entry begin[j] + t of `size` and `dish`.
    int32_t* table          # of each token; -1: a repeat, or not seated yet
    # Tokens at the table of the word that a token opened, 0: a repeat; NULL: none.
    int32_t* word_size
    int32_t* size           # tokens of each table
    int32_t* dish           # of each table
    int32_t* n_tables       # (n_docs,)
    # Counts n_kw > 0 of word w: n_entries[w] entries from room[w] on.
    const int64_t* room     # (n_words + 1,)
    int32_t* n_entries      # (n_words,)
    int32_t* entry_dish
    int32_t* entry_count
    # Dishes by place. A place without tables is free; none from `n_served` on has ever
    # been taken.
    Py_ssize_t n_places, n_served, n_free
    int32_t* dish_tokens    # n_k
    int32_t* dish_tables    # m_k
    float* inverse          # 1 / (n_k + V eta); 0: free
    float* rate             # m_k / (n_k + V eta)
    int32_t* is_new         # whether the place was taken since this was set to 0
    int32_t* free_places    # those free below `n_served`, a stack
    int64_t n_all_tables
    double rate_sum
    double corpus_concentration, doc_concentration, eta
    double word_discount, word_concentration
    # Base of a new table. Without groups of documents a dish weighs m_k, and all others
    # gamma. In a group g they weigh m_gk + a beta_k and a beta_u, with a the scale and
    # beta_u the rest; in a document without a group, beta_k and beta_u.
    double* corpus_weights  # beta_k; NULL: there are no groups
    double scale, rest
    int32_t* own_tables     # m_gk of the group at hand, or m_k
    int64_t n_own_tables
    bint is_counted         # whether tables count for the group at hand
    double per_word         # mass of all others, divided by V
    # Workspace by place; zero, one in `ratio`, between calls.
    int32_t* doc_tokens     # n_jk
    int32_t* doc_tables     # m_jk
    int32_t* doc_table      # one of these tables
    int32_t* is_listed      # in `doc_dishes`
    float* doc_rate         # n_jk / (n_k + V eta)
    double* ratio
    # Workspace of any content; as many as places, and as tokens of a document.
    int32_t* doc_dishes
    int32_t* touched
    float* masses
    double* weights
    int32_t* empty
    int32_t* order
    int32_t* start
    int32_t* distinct
    int32_t* times
    int32_t* part           # (PART_TOKENS,), and the next two
    int32_t* part_times
    int32_t* part_own


cdef class Workspace:
    cdef Py_ssize_t n_places, longest
    cdef int32_t[:, ::1] by_place
    cdef float[:, ::1] rates
    cdef double[:, ::1] weights
    cdef int32_t[:, ::1] by_token
    cdef int32_t[:, ::1] part

cdef int open_seating(Franchise* f, object s, Workspace work) except -1
cdef int close_seating(Franchise* f, object s) except -1


cdef inline double mass_of(const Franchise* f, int32_t k) noexcept nogil:
    """Mass of a dish for a new table of the group at hand."""
    cdef double mass = <double>f.own_tables[k]
    return mass if f.corpus_weights == NULL else mass + f.scale * f.corpus_weights[k]


cdef inline double mass_of_others(const Franchise* f) noexcept nogil:
    """Mass of a new dish."""
    return f.corpus_concentration if f.corpus_weights == NULL else f.scale * f.rest


cdef inline double mass_of_all(const Franchise* f) noexcept nogil:
    if f.corpus_weights == NULL:
        return <double>f.n_all_tables + f.corpus_concentration
    return <double>f.n_own_tables + f.scale


cdef inline void set_rest(Franchise* f, double rest) noexcept nogil:
    """Set the weight of dishes without tables."""
    f.rest = rest
    f.per_word = mass_of_others(f) / <double>f.n_words


cdef inline void note_dish(Franchise* f, int32_t k) noexcept nogil:
    """Update the rate after a change of tokens and tables of a dish."""
    cdef double before = f.rate[k], total
    if f.dish_tables[k] > 0:
        total = <double>f.dish_tokens[k] + <double>f.n_words * f.eta
        f.inverse[k] = <float>1.0 / <float>total
        f.rate[k] = <float>mass_of(f, k) * f.inverse[k]
    else:
        f.inverse[k] = f.rate[k] = 0.0
    f.rate_sum += <double>f.rate[k] - before


cdef inline void sum_rates(Franchise* f) noexcept nogil:
    """Sum the rates again, without rounding errors."""
    cdef Py_ssize_t k
    f.rate_sum = 0.0
    for k in range(f.n_served):
        f.rate_sum += <double>f.rate[k]


cdef inline int32_t take_place(Franchise* f, int32_t old) noexcept nogil:
    """Take a place for a new dish.

    One that `old` has just given up keeps its name: a dish of one table may be served
    anew.
    """
    cdef int32_t k = <int32_t>f.n_served
    if f.n_free > 0:
        f.n_free -= 1
        k = f.free_places[f.n_free]
    else:
        f.n_served += 1
    if k != old:
        f.is_new[k] = 1
    return k


cdef inline void remove_table(Franchise* f, int32_t k) noexcept nogil:
    f.n_all_tables -= 1
    f.dish_tables[k] -= 1
    if f.is_counted:
        f.own_tables[k] -= 1
        f.n_own_tables -= 1
    if f.dish_tables[k] == 0:
        f.free_places[f.n_free] = k
        f.n_free += 1
        if f.corpus_weights != NULL:
            set_rest(f, f.rest + f.corpus_weights[k])
            f.corpus_weights[k] = 0.0


cdef inline void add_table(Franchise* f, int32_t k) noexcept nogil:
    f.n_all_tables += 1
    f.dish_tables[k] += 1
    if f.is_counted:
        f.own_tables[k] += 1
        f.n_own_tables += 1


cdef inline Py_ssize_t find(
    const int32_t* dishes, Py_ssize_t n, int32_t k
) noexcept nogil:
    """Position of a dish among n, or n."""
    cdef Py_ssize_t e = 0
    while e < n and dishes[e] != k:
        e += 1
    return e


cdef inline int32_t count_of(
    const Franchise* f, int32_t word, int32_t k
) noexcept nogil:
    """n_kw."""
    cdef int64_t first = f.room[word]
    cdef Py_ssize_t n = f.n_entries[word], e = find(f.entry_dish + first, n, k)
    return f.entry_count[first + e] if e < n else 0


cdef inline void take_entry(
    Franchise* f, int32_t word, Py_ssize_t e, int32_t times
) noexcept nogil:
    """Take tokens out of an entry of a word; the last fills the place of an empty."""
    cdef int64_t first = f.room[word]
    cdef Py_ssize_t last
    f.entry_count[first + e] -= times
    if f.entry_count[first + e] == 0:
        f.n_entries[word] -= 1
        last = f.n_entries[word]
        f.entry_dish[first + e] = f.entry_dish[first + last]
        f.entry_count[first + e] = f.entry_count[first + last]


cdef inline void take_words(
    Franchise* f, int32_t word, int32_t k, int32_t times
) noexcept nogil:
    cdef Py_ssize_t n = f.n_entries[word]
    take_entry(f, word, find(f.entry_dish + f.room[word], n, k), times)


cdef inline void put_words(
    Franchise* f, int32_t word, int32_t k, int32_t times
) noexcept nogil:
    cdef int64_t first = f.room[word]
    cdef Py_ssize_t n = f.n_entries[word], e = find(f.entry_dish + first, n, k)
    if e == n:
        f.n_entries[word] += 1
        f.entry_dish[first + e] = k
        f.entry_count[first + e] = 0
    f.entry_count[first + e] += times
