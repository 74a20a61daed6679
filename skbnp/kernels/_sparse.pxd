"""Sparse rows: which indices a row has, and lists of indices and values that grow."""

from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from skbnp.kernels._interrupts cimport EVERY, look

cdef extern from "src/clones.h" nogil:
    int lowest_bit(uint64_t bits)


# Indices and values, one after another; memory grows.
cdef struct Entries:
    int32_t* indices
    double* values
    Py_ssize_t n, room


cdef inline void* grown(void* memory, size_t size) except NULL nogil:
    cdef void* more = realloc(memory, size)
    if more == NULL:
        with gil:
            raise MemoryError("no memory for the responsibilities of a document")
    return more


cdef inline int reserve(Entries* e, Py_ssize_t n) except -1 nogil:
    """Make room for n more entries."""
    if e.n + n > e.room:
        e.room = 2 * (e.n + n)
        e.values = <double*>grown(e.values, e.room * sizeof(double))
        e.indices = <int32_t*>grown(e.indices, e.room * sizeof(int32_t))
    return 0


cdef inline tuple arrays_of(const Entries* e):
    """Copy indices and values to arrays."""
    import numpy as np

    cdef Py_ssize_t at = 0, n
    cdef int32_t[::1] indices = np.empty(e.n, dtype=np.int32)
    cdef double[::1] values = np.empty(e.n)
    while at < e.n:
        n = min(<Py_ssize_t>EVERY, e.n - at)
        memcpy(&indices[at], e.indices + at, n * sizeof(int32_t))
        memcpy(&values[at], e.values + at, n * sizeof(double))
        at += n
        look()
    return indices.base, values.base


cdef inline void release(Entries* e) noexcept:
    free(e.indices)
    free(e.values)


cdef inline Py_ssize_t longest_of(const int32_t[::1] indptr):
    """Most entries of a row."""
    cdef Py_ssize_t row, longest = 0
    for row in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    return longest


cdef inline int check_rows(
    const double[:, ::1] sums, const Py_ssize_t[::1] words, Py_ssize_t n_topics,
    const float[:, ::1] table,
) except -1:
    """Raise an error unless a table has a row for each word, all of them of sums."""
    cdef Py_ssize_t i
    if not n_topics <= sums.shape[1] or not n_topics <= table.shape[1]:
        raise ValueError("sums, norm and table disagree on the topics")
    if table.shape[0] != words.shape[0]:
        raise ValueError("sums, words, norm and table disagree")
    for i in range(words.shape[0]):
        if not 0 <= words[i] < sums.shape[0]:
            raise ValueError("words must be rows of sums")
    return 0


cdef inline void mark(uint64_t* marks, int32_t k) noexcept nogil:
    marks[k >> 6] |= <uint64_t>1 << (k & 63)


cdef inline Py_ssize_t take_marked(
    Py_ssize_t n, uint64_t* marks, double* sums, int32_t* indices, double* values
) noexcept nogil:
    """List the indices below n that are marked, rising, and their sums; how many.

    Leaves no marks, and sums of zero.
    """
    cdef Py_ssize_t part, put = 0
    cdef uint64_t bits
    cdef int32_t k
    for part in range((n + 63) >> 6):
        bits = marks[part]
        marks[part] = 0
        while bits:
            k = <int32_t>(part << 6) + lowest_bit(bits)
            indices[put], values[put] = k, sums[k]
            put += 1
            sums[k] = 0.0
            bits &= bits - 1
    return put


# Sums over documents by index, of one word after another.
cdef struct Sums "skbnp_sums":
    Py_ssize_t n, put, done
    int32_t* lengths            # (n_words,) indices of each word
    int32_t* indices            # rising, word by word
    double* values
    uint64_t* marks             # a bit for each index below n, zeros between words
    double* scratch             # (n,) likewise


cdef inline tuple open_sums(
    Sums* s, Py_ssize_t n_words, Py_ssize_t n, Py_ssize_t most
):
    """Allocate for at most so many sums: lengths, indices, values, and work space."""
    import numpy as np

    cdef int32_t[::1] lengths = np.zeros(n_words + 1, dtype=np.int32)
    cdef int32_t[::1] indices = np.empty(min(most, n_words * n) + 1, dtype=np.int32)
    cdef double[::1] values = np.empty(indices.shape[0]), scratch = np.zeros(n + 1)
    cdef uint64_t[::1] marks = np.zeros(n // 64 + 1, dtype=np.uint64)
    s.n, s.put, s.done, s.lengths = n, 0, 0, &lengths[0]
    s.indices, s.values = &indices[0], &values[0]
    s.marks, s.scratch = &marks[0], &scratch[0]
    return lengths.base, indices.base, values.base, marks.base, scratch.base


cdef inline void end_word(Sums* s, Py_ssize_t word) noexcept nogil:
    """Put the sums of a word."""
    cdef Py_ssize_t put = s.put, n_used
    n_used = take_marked(s.n, s.marks, s.scratch, s.indices + put, s.values + put)
    s.put = put + n_used
    s.lengths[word] = <int32_t>n_used
