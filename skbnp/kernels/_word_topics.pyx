"""Sparse rows into the table of topic counts."""

from libc.stdint cimport int32_t


def add_rows(
    double[:, ::1] table,           # INOUT (all words, n_topics or more)
    const Py_ssize_t[::1] words,    # IN    (n_words,) rows of it
    const int32_t[::1] limits,      # IN    (n_words + 1,) of each word's entries
    const int32_t[::1] topics,      # IN    (n,) columns
    const double[::1] values,       # IN    (n,)
    double factor,
    double lowest,                  # IN    that entries may reach
    double[::1] total,              # INOUT (n_topics,) sums of values are added
):
    """Add `factor` times the values to their places; entries do not fall below a limit.

    Time O(n); no allocation.
    """
    cdef Py_ssize_t row, at, word
    cdef double entry
    if limits.shape[0] != words.shape[0] + 1 or topics.shape[0] != values.shape[0]:
        raise ValueError("words, limits, topics and values disagree")
    if limits[words.shape[0]] > values.shape[0] or table.shape[1] < total.shape[0]:
        raise ValueError("limits or total do not fit")
    with nogil:
        for row in range(words.shape[0]):
            word = words[row]
            for at in range(limits[row], limits[row + 1]):
                entry = table[word, topics[at]] + factor * values[at]
                table[word, topics[at]] = entry if entry > lowest else lowest
                total[topics[at]] += values[at]
