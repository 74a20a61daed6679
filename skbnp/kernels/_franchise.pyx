"""Gibbs sampler and split-merge proposals of the Chinese restaurant franchise."""

import numpy as np

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int8_t, int32_t, int64_t

from numpy.random cimport bitgen_t

cdef extern from "src/franchise.h" nogil:
    ctypedef struct Franchise:
        ptrdiff_t n_docs, n_words
        const int64_t *begin
        const int32_t *words
        int32_t *table
        int32_t *size
        int32_t *dish
        int32_t *n_tables
        const int64_t *room
        int32_t *n_entries
        int32_t *entry_dish
        int32_t *entry_count
        ptrdiff_t n_places, n_served, n_free
        int32_t *dish_tokens
        int32_t *dish_tables
        float *inverse
        float *rate
        int32_t *is_new
        int32_t *free_places
        int64_t n_all_tables
        double rate_sum
        double corpus_concentration, doc_concentration, eta
        int32_t *doc_tokens
        int32_t *doc_tables
        int32_t *doc_table
        int32_t *is_listed
        float *doc_rate
        double *ratio
        int32_t *doc_dishes
        int32_t *touched
        float *masses
        double *weights
        int32_t *empty
        int32_t *order
        int32_t *start
        int32_t *distinct
        int32_t *times
        int32_t *part
        int32_t *part_times

    enum:
        SKBNP_SPLIT
        SKBNP_MERGED

    ctypedef struct Proposal:
        const int32_t *words
        const int32_t *begin
        const int32_t *doc
        const int32_t *table
        const int64_t *first
        int32_t *queue
        int8_t *choice
        int32_t *one
        int32_t *other

    ptrdiff_t skbnp_franchise_sweep(
        Franchise *f, ptrdiff_t doc, ptrdiff_t stop, int meal_part, bitgen_t *rng
    )
    void skbnp_franchise_count(Franchise *f)
    void skbnp_franchise_tidy(Franchise *f, const int32_t *renamed)
    void skbnp_franchise_rate(Franchise *f)
    void skbnp_franchise_group(const Franchise *f, int32_t *words, int32_t *first)
    int skbnp_franchise_propose(
        Franchise *f, const Proposal *proposal, bitgen_t *rng, int32_t *stays,
        int32_t *comes,
    )

#: Tokens of a long table that propose its dish, at the most.
MEAL_PART = 16
#: Outcomes of a proposal; 0 is none.
SPLIT, MERGED = SKBNP_SPLIT, SKBNP_MERGED


cdef class Workspace:
    """What sweeps work with besides a seating; for places and documents so large."""

    cdef readonly Py_ssize_t n_places, longest
    cdef int32_t[:, ::1] by_place
    cdef float[:, ::1] rates
    cdef double[:, ::1] weights
    cdef int32_t[:, ::1] by_token
    cdef int32_t[:, ::1] part

    def __init__(self, Py_ssize_t n_places, Py_ssize_t longest):
        self.n_places, self.longest = n_places, longest
        self.by_place = np.zeros((6, n_places + 1), dtype=np.int32)
        self.rates = np.zeros((2, n_places + 1), dtype=np.float32)
        self.weights = np.ones((2, n_places + 1))
        self.by_token = np.zeros((5, longest + 2), dtype=np.int32)
        # Words of a part of a table, and how often in the part and in the table.
        self.part = np.zeros((3, MEAL_PART), dtype=np.int32)


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


cdef int _open(Franchise* f, object s, Workspace work) except -1:
    """Point at the arrays of a seating."""
    cdef const int32_t[::1] words = s.words
    cdef Py_ssize_t n_places = len(s.dish_tables)
    f.begin, f.n_docs = _limits(s.begin), len(s.begin) - 1
    if words.shape[0] < f.begin[f.n_docs]:
        raise ValueError("begin and words disagree")
    f.words = &words[0] if words.shape[0] else NULL
    f.table = _ints(s.table, words.shape[0])
    f.size, f.dish = _ints(s.size, words.shape[0]), _ints(s.dish, words.shape[0])
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
    return 0


cdef int _close(Franchise* f, object s) except -1:
    s.n_served, s.n_free = f.n_served, f.n_free
    s.n_all_tables, s.rate_sum = f.n_all_tables, f.rate_sum
    return 0


cdef bitgen_t* _borrow(object bit_generator) except NULL:
    return <bitgen_t*>PyCapsule_GetPointer(bit_generator.capsule, "BitGenerator")


def sweep(
    seating,                # INOUT see `Seating`
    Workspace work,
    Py_ssize_t doc,
    Py_ssize_t stop,
    int meal_part,          # IN    0: the dishes of tables stay
    object bit_generator,
):
    """Resample tables, and dishes of tables, of the documents from `doc` to `stop`.

    Eqs. (5) to (9) of [1] and its appendix. A token that is not seated yet is seated
    by the tokens so far. The dish of a table of more than `meal_part` tokens is drawn
    by a Metropolis-Hastings step: some of its tokens propose.

    Returns the document before which there were too few places for new dishes, or
    `stop`. Time O(sum over tokens of the dishes of their words); no allocation.

    References
    ----------
    .. [1] Wang and Blei, "A Split-Merge MCMC Algorithm for the Hierarchical Dirichlet
       Process", 2012.
    """
    cdef Franchise f
    cdef bitgen_t* rng = _borrow(bit_generator)
    _open(&f, seating, work)
    if not 0 <= doc <= stop <= f.n_docs or not 0 <= meal_part <= MEAL_PART:
        raise ValueError("documents or meal_part out of range")
    with bit_generator.lock, nogil:
        doc = skbnp_franchise_sweep(&f, doc, stop, meal_part, rng)
    _close(&f, seating)
    return doc


def tidy(seating, Workspace work, const int32_t[::1] renamed):
    """Move dishes to other places, and sort the dishes of each word by count."""
    cdef Franchise f
    _open(&f, seating, work)
    if renamed.shape[0] < f.n_served:
        raise ValueError("renamed must have an entry per place")
    if renamed.shape[0]:
        with nogil:
            skbnp_franchise_tidy(&f, &renamed[0])


def propose(
    seating,                    # INOUT
    Workspace work,
    const int32_t[::1] words,   # IN    (n_tokens,) by document and table
    const int32_t[::1] begin,   # IN    (n_tokens,) of each table in its document
    const int32_t[::1] doc,     # IN    (n_tables,) of all tables, dish by dish
    const int32_t[::1] table,   # IN    (n_tables,)
    const int64_t[::1] first,   # IN    (n_places + 1,) limits of the dishes
    object bit_generator,
):
    """Propose to split the dish of two random tables, or to merge their dishes.

    By sequential allocation, Algorithm 1 of [1]_; there must be a free place.

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
    """
    cdef Franchise f
    cdef Proposal proposal
    cdef bitgen_t* rng = _borrow(bit_generator)
    cdef int32_t stays = -1, comes = -1
    cdef int outcome
    _open(&f, seating, work)
    if f.n_all_tables < 2 or f.n_free + f.n_places == f.n_served:
        raise ValueError("two tables and a free place are needed")
    if not doc.shape[0] == table.shape[0] == f.n_all_tables:
        raise ValueError("the list must hold all tables")
    if first.shape[0] < f.n_served + 1 or first[f.n_served] != f.n_all_tables:
        raise ValueError("first does not fit")
    if words.shape[0] < f.begin[f.n_docs] or begin.shape[0] < f.begin[f.n_docs]:
        raise ValueError("words and begin must have an entry per token")
    cdef int32_t[::1] queue = np.empty(doc.shape[0], dtype=np.int32)
    cdef int8_t[::1] choice = np.empty(doc.shape[0], dtype=np.int8)
    cdef int32_t[:, ::1] counts = np.zeros((2, f.n_words), dtype=np.int32)
    proposal.words, proposal.begin = &words[0], &begin[0]
    proposal.doc, proposal.table, proposal.first = &doc[0], &table[0], &first[0]
    proposal.queue, proposal.choice = &queue[0], &choice[0]
    proposal.one, proposal.other = &counts[0, 0], &counts[1, 0]
    with bit_generator.lock, nogil:
        outcome = skbnp_franchise_propose(&f, &proposal, rng, &stays, &comes)
    _close(&f, seating)
    return outcome, stays, comes


def group(seating, Workspace work, int32_t[::1] words, int32_t[::1] begin):
    """List the words of each document by table, and where each table begins there."""
    cdef Franchise f
    _open(&f, seating, work)
    if words.shape[0] < f.begin[f.n_docs] or begin.shape[0] < f.begin[f.n_docs]:
        raise ValueError("words and begin must have an entry per token")
    if words.shape[0]:
        with nogil:
            skbnp_franchise_group(&f, &words[0], &begin[0])


def count(seating, Workspace work):
    """Add what tokens at tables count for to counts, and compute rates."""
    cdef Franchise f
    _open(&f, seating, work)
    with nogil:
        skbnp_franchise_count(&f)
        skbnp_franchise_rate(&f)
    _close(&f, seating)


def rate(seating, Workspace work):
    """Compute the rates of all dishes."""
    cdef Franchise f
    _open(&f, seating, work)
    with nogil:
        skbnp_franchise_rate(&f)
    _close(&f, seating)


def one_table_per_dish(
    const int64_t[::1] begin,   # IN    (n_docs + 1,) limits of the documents
    const int32_t[::1] dish,    # IN    (n_tokens,) 0 <= dish < n_dishes
    Py_ssize_t n_dishes,
    int32_t[::1] table,         # OUT   (n_tokens,) of each token in its document
    int32_t[::1] n_tables,      # OUT   (n_docs,)
    int32_t[::1] size,          # OUT   (n_tokens,) of all tables, by document
    int32_t[::1] dish_of,       # OUT   (n_tokens,) of all tables
):
    """Put the tokens of a document that have one dish at one table.

    Returns the number of tables. Time O(n_tokens).
    """
    cdef Py_ssize_t doc, n_docs = begin.shape[0] - 1
    cdef int64_t i, n = 0, first
    cdef int32_t k
    if begin[n_docs] > dish.shape[0] or begin[n_docs] > table.shape[0]:
        raise ValueError("begin, dish and table disagree")
    if size.shape[0] < dish.shape[0] or dish_of.shape[0] < dish.shape[0]:
        raise ValueError("size and dish_of must have room for a table per token")
    if n_tables.shape[0] < n_docs:
        raise ValueError("n_tables must have an entry per document")
    if dish.shape[0] and not 0 <= np.min(dish) <= np.max(dish) < n_dishes:
        raise ValueError("dishes must be below n_dishes")
    cdef int64_t[::1] at = np.full(n_dishes, -1, dtype=np.int64)
    with nogil:
        for doc in range(n_docs):
            first = n
            for i in range(begin[doc], begin[doc + 1]):
                k = dish[i]
                if at[k] < first:
                    at[k] = n
                    size[n] = 0
                    dish_of[n] = k
                    n += 1
                size[at[k]] += 1
                table[i] = <int32_t>(at[k] - first)
            n_tables[doc] = <int32_t>(n - first)
    return n


def count_of_counts(seating, int32_t[::1] times, int32_t[::1] large):
    """How often each count n_kw > 0 occurs: `times[n]`; those beyond are listed.

    Returns how many were put to `large`.
    """
    cdef const int64_t[::1] room = seating.room
    cdef const int32_t[::1] n_entries = seating.n_entries
    cdef const int32_t[::1] counts = seating.entry_count
    cdef Py_ssize_t word, n = 0, size = times.shape[0]
    cdef int64_t e
    for word in range(n_entries.shape[0]):
        for e in range(room[word], room[word] + n_entries[word]):
            if counts[e] < size:
                times[counts[e]] += 1
            else:
                if n == large.shape[0]:
                    raise ValueError("large is too short")
                large[n] = counts[e]
                n += 1
    return n
