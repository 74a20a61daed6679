"""Gibbs sampler of the collapsed nested Chinese restaurant process."""

import numpy as np

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t

from numpy.random cimport bitgen_t

cdef extern from "src/nested_crp.h" nogil:
    ctypedef struct NestedCRP:
        ptrdiff_t n_docs, n_words, n_levels
        const int64_t *begin
        const int32_t *words
        uint8_t *level
        int32_t *path
        const int64_t *first
        int32_t *n_nodes
        ptrdiff_t stride
        int32_t *counts
        int32_t *totals
        int32_t *docs
        int32_t *parent
        int32_t *is_new
        double concentration
        const double *level_prior
        const double *topic_prior
        const float *log_counts
        ptrdiff_t n_logs
        double *score
        double *weight
        int32_t *unique
        int32_t *times
        int32_t *at_level
        int32_t *from_ "from"

    ptrdiff_t skbnp_nested_crp_sweep(
        NestedCRP *s, ptrdiff_t doc, ptrdiff_t stop, int with_paths, bitgen_t *rng
    )

#: Levels that a path has at the most.
MAX_LEVELS = 255


def sweep(
    const int64_t[::1] begin,           # IN    (n_docs + 1,) limits of the documents
    const int32_t[::1] words,           # IN    (n_tokens,) equal ones side by side
    uint8_t[::1] level,                 # INOUT (n_tokens,)
    int32_t[:, ::1] path,               # INOUT (n_docs, n_levels) -1: not seated
    const int64_t[::1] first,           # IN    (n_levels + 1,) columns of the levels
    int32_t[::1] n_nodes,               # INOUT (n_levels,) columns in use
    int32_t[:, ::1] counts,             # INOUT (n_words, n_columns)
    int32_t[::1] totals,                # INOUT (n_columns,)
    int32_t[::1] docs,                  # INOUT (n_columns,)
    int32_t[::1] parent,                # INOUT (n_columns,)
    int32_t[::1] is_new,                # INOUT (n_columns,) 1: taken here
    double concentration,
    const double[::1] level_prior,      # IN    (n_levels,)
    const double[::1] topic_prior,      # IN    (n_levels,)
    const float[:, ::1] log_counts,     # IN    (n_levels, n) log(n + eta)
    Py_ssize_t doc,
    Py_ssize_t stop,
    bint with_paths,
    object bit_generator,
):
    """Resample paths and levels of the documents from `doc` to `stop`.

    Eqs. of section 5 of [1]: a path given the levels of the document's tokens, by the
    marginal likelihood of its words; then each level given the path.

    Returns the document before which a level had no free column, or `stop`. Time
    O(words of a document times nodes); no allocation inside.

    References
    ----------
    .. [1] Blei, Griffiths and Jordan, "The Nested Chinese Restaurant Process and
       Bayesian Nonparametric Inference of Topic Hierarchies", Journal of the ACM 57,
       2010.
    """
    cdef NestedCRP s
    cdef Py_ssize_t longest = 1, j
    cdef bitgen_t* rng = <bitgen_t*>PyCapsule_GetPointer(
        bit_generator.capsule, "BitGenerator"
    )
    s.n_docs, s.n_levels, s.n_words = path.shape[0], path.shape[1], counts.shape[0]
    s.stride = counts.shape[1]
    if not 1 <= s.n_levels <= 255 or s.n_words < 1:
        raise ValueError("there must be a word, and 1 to 255 levels")
    if begin.shape[0] != s.n_docs + 1 or begin[s.n_docs] > words.shape[0]:
        raise ValueError("begin, words and path disagree")
    if level.shape[0] < words.shape[0] or first.shape[0] != s.n_levels + 1:
        raise ValueError("words, level and first disagree")
    if first[s.n_levels] > s.stride or n_nodes.shape[0] != s.n_levels:
        raise ValueError("first, n_nodes and counts disagree")
    if not totals.shape[0] == docs.shape[0] == parent.shape[0] == s.stride:
        raise ValueError("totals, docs and parent must have an entry per column")
    if is_new.shape[0] != s.stride:
        raise ValueError("is_new must have an entry per column")
    if not level_prior.shape[0] == topic_prior.shape[0] == s.n_levels:
        raise ValueError("priors must have an entry per level")
    if log_counts.shape[0] != s.n_levels or not 0 <= doc <= stop <= s.n_docs:
        raise ValueError("log_counts, doc or stop out of range")
    if words.shape[0] == 0:
        return stop
    for j in range(s.n_docs):
        longest = max(longest, begin[j + 1] - begin[j])
    cdef double[::1] room = np.empty(3 * s.stride)
    cdef int32_t[::1] space = np.empty(2 * longest + 2 * s.n_levels + 1, dtype=np.int32)
    s.begin, s.words, s.level, s.path = &begin[0], &words[0], &level[0], &path[0, 0]
    s.first, s.n_nodes, s.counts = &first[0], &n_nodes[0], &counts[0, 0]
    s.totals, s.docs, s.parent = &totals[0], &docs[0], &parent[0]
    s.is_new = &is_new[0]
    s.concentration = concentration
    s.level_prior, s.topic_prior = &level_prior[0], &topic_prior[0]
    s.log_counts, s.n_logs = &log_counts[0, 0], log_counts.shape[1]
    s.score, s.weight = &room[0], &room[s.stride]
    s.unique, s.times = &space[0], &space[longest]
    s.at_level = &space[2 * longest]
    s.from_ = &space[2 * longest + s.n_levels]
    with bit_generator.lock, nogil:
        doc = skbnp_nested_crp_sweep(&s, doc, stop, with_paths, rng)
    return doc
