"""Expected counts of a mixture of late topics with the topics before them."""

from libc.stdint cimport int32_t


def late_topics_step(
    const int32_t[::1] indptr,        # IN    (n_docs + 1,)
    const int32_t[::1] words,         # IN    (nnz,) rows of `topics`
    const double[::1] counts,         # IN    (nnz,) n > 0
    const double[::1] old,            # IN    (nnz,) p, of all topics before
    const double[:, ::1] shares,      # IN    (n_docs, 1 + T) s, of these and late ones
    const double[:, ::1] topics,      # IN    (n_words, T) b
    double[:, ::1] tokens,            # OUT   (n_docs, 1 + T), see below
    double[:, ::1] sums,              # OUT   (n_words, T), or without rows
):
    """Sum expected counts of components by document and, of late topics, by word.

    Those of late topic t in a document d and of a word w are

        n_dw s_dt b_wt / (s_d0 p_dw + sum_t' s_dt' b_wt'),

    and those of all topics before, together, have p_dw in place of b_wt.

    Time O(nnz * T); no allocation.
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1, n_topics = topics.shape[1]
    cdef Py_ssize_t doc, entry, topic
    cdef double total, ratio, part
    cdef bint by_word = sums.shape[0] > 0
    cdef const double* b
    cdef const double* s
    if n_topics == 0:
        raise ValueError("topics must have at least one column")
    if shares.shape[0] != n_docs or shares.shape[1] != 1 + n_topics:
        raise ValueError("shares must have a row per document and 1 + T columns")
    if tokens.shape[0] != n_docs or tokens.shape[1] != 1 + n_topics:
        raise ValueError("tokens must have the shape of shares")
    if by_word and (sums.shape[0] != topics.shape[0] or sums.shape[1] != n_topics):
        raise ValueError("sums must have the shape of topics")
    if not words.shape[0] == counts.shape[0] == old.shape[0] >= indptr[n_docs]:
        raise ValueError("words, counts and old must have an entry per stored count")
    for entry in range(words.shape[0]):
        if not 0 <= words[entry] < topics.shape[0]:
            raise ValueError("words must be rows of topics")
    tokens[:] = 0.0
    sums[:] = 0.0
    with nogil:
        for doc in range(n_docs):
            s = &shares[doc, 0]
            for entry in range(indptr[doc], indptr[doc + 1]):
                b = &topics[words[entry], 0]
                total = s[0] * old[entry]
                for topic in range(n_topics):
                    total += s[1 + topic] * b[topic]
                ratio = counts[entry] / total
                tokens[doc, 0] += ratio * s[0] * old[entry]
                for topic in range(n_topics):
                    part = ratio * s[1 + topic] * b[topic]
                    tokens[doc, 1 + topic] += part
                    if by_word:
                        sums[words[entry], topic] += part
