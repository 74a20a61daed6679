"""Seatings of the Chinese restaurant franchise: counts, rates, order and lists."""

import numpy as np

from libc.stdint cimport int32_t, int64_t

#: Tokens of a long table that propose its dish, at the most.
MEAL_PART = PART_TOKENS


cdef class Workspace:
    """Work space of sweeps, for a number of dishes and the longest document."""

    def __init__(self, Py_ssize_t n_places, Py_ssize_t longest):
        self.n_places, self.longest = n_places, longest
        self.by_place = np.zeros((6, n_places + 1), dtype=np.int32)
        self.rates = np.zeros((2, n_places + 1), dtype=np.float32)
        self.weights = np.ones((2, n_places + 1))
        self.by_token = np.zeros((5, longest + 2), dtype=np.int32)
        self.part = np.zeros((3, PART_TOKENS), dtype=np.int32)


cdef int32_t* _ints(object array, Py_ssize_t least) except? NULL:
    cdef int32_t[::1] view = array
    if view.shape[0] < least:
        raise ValueError(f"{view.shape[0]} entries where {least} are needed")
    return &view[0] if view.shape[0] else NULL


cdef float* _floats(object array, Py_ssize_t least) except? NULL:
    cdef float[::1] view = array
    if view.shape[0] < least:
        raise ValueError(f"{view.shape[0]} entries where {least} are needed")
    return &view[0] if view.shape[0] else NULL


cdef const int64_t* _limits(object array) except NULL:
    cdef const int64_t[::1] view = array
    if view.shape[0] < 1:
        raise ValueError("limits must have an entry")
    return &view[0]


cdef int open_seating(Franchise* f, object s, Workspace work) except -1:
    """Point at the arrays of a seating."""
    cdef const int32_t[::1] words = s.words
    cdef double[::1] weights = s.corpus_weights
    cdef Py_ssize_t n_places = len(s.dish_tables)
    f.begin, f.n_docs = _limits(s.begin), len(s.begin) - 1
    if words.shape[0] < f.begin[f.n_docs]:
        raise ValueError("begin and words disagree")
    f.words = &words[0] if words.shape[0] else NULL
    f.table = _ints(s.table, words.shape[0])
    f.size, f.dish = _ints(s.size, words.shape[0]), _ints(s.dish, words.shape[0])
    f.word_size = NULL
    if s.word_size is not None:
        f.word_size = _ints(s.word_size, words.shape[0])
    f.n_tables = _ints(s.n_tables, f.n_docs)
    f.room, f.n_words = _limits(s.room), len(s.room) - 1
    f.n_entries = _ints(s.n_entries, f.n_words)
    f.entry_dish = _ints(s.entry_dish, f.room[f.n_words])
    f.entry_count = _ints(s.entry_count, f.room[f.n_words])
    f.n_places, f.n_served, f.n_free = n_places, s.n_served, s.n_free
    f.dish_tokens = _ints(s.dish_tokens, n_places)
    f.dish_tables = _ints(s.dish_tables, n_places)
    f.inverse, f.rate = _floats(s.inverse, n_places), _floats(s.rate, n_places)
    f.is_new = _ints(s.is_new, n_places)
    f.free_places = _ints(s.free_places, n_places)
    f.n_all_tables, f.rate_sum = s.n_all_tables, s.rate_sum
    f.corpus_concentration = s.corpus_concentration
    f.doc_concentration = s.doc_concentration
    f.eta = s.topic_word_prior
    f.word_discount, f.word_concentration = s.word_discount, s.word_concentration
    f.corpus_weights, f.scale, f.own_tables = NULL, 1.0, f.dish_tables
    f.n_own_tables, f.is_counted = 0, False
    if s.has_groups:
        f.corpus_weights, f.scale = &weights[0], s.scale
        f.own_tables, f.n_own_tables = _ints(s.own_tables, n_places), s.n_own_tables
        f.is_counted = s.is_counted
    set_rest(f, s.rest)
    if s.has_groups and weights.shape[0] < n_places:
        raise ValueError("corpus_weights must have an entry per place")
    if work.n_places < n_places or work.longest < s.longest:
        raise ValueError("the workspace is too small")
    f.doc_tokens, f.doc_tables = &work.by_place[0, 0], &work.by_place[1, 0]
    f.doc_table, f.is_listed = &work.by_place[2, 0], &work.by_place[3, 0]
    f.doc_dishes, f.touched = &work.by_place[4, 0], &work.by_place[5, 0]
    f.doc_rate, f.masses = &work.rates[0, 0], &work.rates[1, 0]
    f.ratio, f.weights = &work.weights[0, 0], &work.weights[1, 0]
    f.empty, f.order = &work.by_token[0, 0], &work.by_token[1, 0]
    f.start, f.distinct = &work.by_token[2, 0], &work.by_token[3, 0]
    f.times = &work.by_token[4, 0]
    f.part, f.part_times = &work.part[0, 0], &work.part[1, 0]
    f.part_own = &work.part[2, 0]
    return 0


cdef int close_seating(Franchise* f, object s) except -1:
    """Write the scalar counts back to the seating."""
    s.n_served, s.n_free = f.n_served, f.n_free
    s.n_all_tables, s.rate_sum = f.n_all_tables, f.rate_sum
    s.rest, s.n_own_tables = f.rest, f.n_own_tables
    return 0


def count(seating, Workspace work):
    """Add the tokens at tables to the counts of dishes, and compute rates."""
    cdef Franchise f
    cdef Py_ssize_t doc
    cdef int64_t begin, i
    cdef int32_t t, k
    open_seating(&f, seating, work)
    with nogil:
        for doc in range(f.n_docs):
            begin = f.begin[doc]
            for t in range(f.n_tables[doc]):
                add_table(&f, f.dish[begin + t])
            if f.n_tables[doc] == 0:
                continue  # no token is seated
            for i in range(begin, f.begin[doc + 1]):
                if f.table[i] < 0:
                    continue  # a repeat
                k = f.dish[begin + f.table[i]]
                put_words(&f, f.words[i], k, 1)
                f.dish_tokens[k] += 1
    close_seating(&f, seating)
    rate(seating, work)


def rate(seating, Workspace work):
    """Compute the rates of all dishes."""
    cdef Franchise f
    cdef Py_ssize_t k
    open_seating(&f, seating, work)
    with nogil:
        for k in range(f.n_served):
            note_dish(&f, <int32_t>k)
        sum_rates(&f)
    close_seating(&f, seating)


def tidy(seating, Workspace work, const int32_t[::1] renamed):
    """Renumber dishes, and sort the dishes of each word by count."""
    cdef Franchise f
    cdef Py_ssize_t doc, word
    cdef int32_t t, e, at, k, c
    cdef int32_t* dish
    cdef int32_t* count
    open_seating(&f, seating, work)
    if renamed.shape[0] < f.n_served:
        raise ValueError("renamed must have an entry per place")
    with nogil:
        for doc in range(f.n_docs):
            dish = f.dish + f.begin[doc]
            for t in range(f.n_tables[doc]):
                dish[t] = renamed[dish[t]]
        for word in range(f.n_words):
            dish, count = f.entry_dish + f.room[word], f.entry_count + f.room[word]
            for e in range(f.n_entries[word]):  # most are in order already: insertion
                k, c, at = renamed[dish[e]], count[e], e
                while at > 0 and (
                    count[at - 1] < c or (count[at - 1] == c and dish[at - 1] > k)
                ):
                    dish[at], count[at] = dish[at - 1], count[at - 1]
                    at -= 1
                dish[at], count[at] = k, c


def group(seating, Workspace work, int32_t[::1] words, int32_t[::1] first):
    """List the words of each document by table, and where each table begins there."""
    cdef Franchise f
    cdef Py_ssize_t doc
    cdef int64_t begin, i, table
    cdef int32_t t, at, n_before
    open_seating(&f, seating, work)
    if words.shape[0] < f.begin[f.n_docs] or first.shape[0] < f.begin[f.n_docs]:
        raise ValueError("words and first must have an entry per token")
    with nogil:
        for doc in range(f.n_docs):
            begin, n_before = f.begin[doc], 0
            for t in range(f.n_tables[doc]):
                first[begin + t] = n_before
                n_before += f.size[begin + t]
            for i in range(begin, f.begin[doc + 1]):
                if f.table[i] < 0:
                    continue
                table = begin + f.table[i]
                at = first[table]
                first[table] = at + 1
                words[begin + at] = f.words[i]
            for t in range(f.n_tables[doc]):
                first[begin + t] -= f.size[begin + t]
