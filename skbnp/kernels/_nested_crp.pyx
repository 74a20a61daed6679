"""Gibbs sampler of the collapsed nested Chinese restaurant process.

Each document walks down one path of a tree of topics, and each of its tokens is drawn
at one level of the path.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t

from numpy.random cimport bitgen_t

from skbnp.kernels._math cimport fast_exp, fast_log, log_rising
from skbnp.kernels._rng cimport borrow, uniform

cdef extern from "src/clones.h":
    """
    #include <numpy/random/bitgen.h>
    struct skbnp_tree;
    SKBNP_CLONES static Py_ssize_t skbnp_sweep_tree(
        struct skbnp_tree *, Py_ssize_t, Py_ssize_t, int, double *, Py_ssize_t,
        bitgen_t *);
    """

cdef enum:
    MOST_LEVELS = 255
    # What is done with a document: its levels are drawn given its path; its path given
    # its levels, then these; both together, then its levels; its log probability given
    # all others is estimated, and nothing drawn.
    DRAW_LEVELS, DRAW_PATH, DRAW_BOTH, SCORE

#: Levels that a path has at the most.
MAX_LEVELS = MOST_LEVELS
#: Kinds of a sweep.
LEVELS, PATHS, TOGETHER, SCORES = DRAW_LEVELS, DRAW_PATH, DRAW_BOTH, SCORE


cdef struct Tree "skbnp_tree":
    # Corpus: the tokens of document j are words[begin[j]] to words[begin[j + 1] - 1],
    # equal words side by side.
    Py_ssize_t n_docs, n_words, n_levels
    const int64_t* begin
    const int32_t* words
    uint8_t* level              # of each token
    int32_t* path               # (n_docs, n_levels) nodes; -1: not seated yet
    # Nodes of a level are columns first[level] to first[level] + n_nodes[level] - 1;
    # one without documents is free. A node is named by its column.
    const int64_t* first        # (n_levels + 1,)
    int32_t* n_nodes            # (n_levels,) columns that have been taken
    Py_ssize_t stride           # first[n_levels], or more
    int32_t* counts             # (n_words, stride) tokens of a word at a node
    int32_t* totals             # (stride,)
    int32_t* docs               # (stride,) documents through a node
    int32_t* parent             # (stride,) -1: the root, or free
    int32_t* is_new             # (stride,) whether it was taken since this was set to 0
    double concentration        # gamma
    const double* level_prior   # (n_levels,) alpha
    const double* topic_prior   # (n_levels,) eta
    const float* log_counts     # (n_levels, n_logs) log(n + eta) for small n
    Py_ssize_t n_logs
    # Workspace.
    double* score               # (stride,)
    double* weight              # (stride,)
    int32_t* unique             # (longest document,), and the next
    int32_t* times
    int32_t* limits             # (n_levels + 1,) of the levels in these
    int32_t* at_level           # (n_levels,) tokens of the document
    uint8_t* drawn              # (longest document,) levels that a path would give
    uint8_t* kept               # the same of the path that has been drawn so far


cdef inline double log_held(const Tree* s, Py_ssize_t level, int32_t n) noexcept nogil:
    """log(n + eta)."""
    if n < s.n_logs:
        return <double>s.log_counts[level * s.n_logs + n]
    return fast_log(<double>n + s.topic_prior[level])


cdef inline int64_t end_of(const Tree* s, Py_ssize_t level) noexcept nogil:
    """End of the columns of a level that are in use."""
    return s.first[level] + s.n_nodes[level]


cdef inline int32_t free_column(const Tree* s, Py_ssize_t level) noexcept nogil:
    """A column of a level without documents; -1 if there is none."""
    cdef int64_t i, end = end_of(s, level)
    for i in range(s.first[level], end):
        if s.docs[i] == 0:
            return <int32_t>i
    return <int32_t>end if end < s.first[level + 1] else -1


cdef inline bint has_room(const Tree* s) noexcept nogil:
    """Whether each level below the root has a free column."""
    cdef Py_ssize_t level
    for level in range(1, s.n_levels):
        if free_column(s, level) < 0:
            return False
    return True


cdef inline void list_words(Tree* s, Py_ssize_t doc) noexcept nogil:
    """List the words of a document at each level, each once."""
    cdef Py_ssize_t level
    cdef int64_t i
    cdef int32_t n = 0
    for level in range(s.n_levels):
        s.limits[level] = n
        for i in range(s.begin[doc], s.begin[doc + 1]):
            if s.level[i] != level:
                continue
            if n > s.limits[level] and s.unique[n - 1] == s.words[i]:
                s.times[n - 1] += 1
            else:
                s.unique[n] = s.words[i]
                s.times[n] = 1
                n += 1
    s.limits[s.n_levels] = n


cdef inline void move_document(Tree* s, Py_ssize_t doc, int32_t sign) noexcept nogil:
    """Add a document to the counts of its path, or take it out."""
    cdef const int32_t* path = s.path + doc * s.n_levels
    cdef Py_ssize_t level
    cdef int32_t i, node
    for level in range(s.n_levels):
        node = path[level]
        s.docs[node] += sign
        for i in range(s.limits[level], s.limits[level + 1]):
            s.counts[<Py_ssize_t>s.unique[i] * s.stride + node] += sign * s.times[i]
            s.totals[node] += sign * s.times[i]
        if s.docs[node] == 0:
            s.parent[node] = -1


cdef inline double score_level(Tree* s, Py_ssize_t level) noexcept nogil:
    """log p(words of the document at a level | node), for all nodes of the level.

    Returns that of a new node.
    """
    cdef int64_t first = s.first[level]
    cdef Py_ssize_t k, n = s.n_nodes[level]
    cdef double v_eta = <double>s.n_words * s.topic_prior[level], fresh = 0.0
    cdef double* score = s.score + first
    cdef const int32_t* row
    cdef int32_t i, r, n_tokens = 0
    for k in range(n):
        score[k] = 0.0
    for i in range(s.limits[level], s.limits[level + 1]):
        row = s.counts + <Py_ssize_t>s.unique[i] * s.stride + first
        for r in range(s.times[i]):
            for k in range(n):
                score[k] += log_held(s, level, row[k] + r)
            fresh += log_held(s, level, r)
        n_tokens += s.times[i]
    for k in range(n):
        score[k] -= log_rising(v_eta + <double>s.totals[first + k], n_tokens)
    return fresh - log_rising(v_eta, n_tokens)


cdef inline double score_paths(Tree* s) noexcept nogil:
    """log p(path) p(words | path) of old paths and new branches; the largest.

    A leaf is a path; an inner node stands for a new branch below it.
    """
    cdef Py_ssize_t level, last = s.n_levels - 1
    cdef double[MOST_LEVELS + 1] fresh
    cdef double below = 0.0, most = -INFINITY
    cdef int64_t i
    cdef int32_t up
    for level in range(s.n_levels):
        fresh[level] = score_level(s, level)
    # Down the tree: score_l + log(d / (d_parent + gamma)) along the path.
    for level in range(1, s.n_levels):
        for i in range(s.first[level], end_of(s, level)):
            if s.docs[i] > 0:
                up = s.parent[i]
                s.score[i] += s.score[up] + fast_log(<double>s.docs[i]) - (
                    fast_log(<double>s.docs[up] + s.concentration)
                )
    for level in range(last, -1, -1):
        for i in range(s.first[level], end_of(s, level)):
            s.weight[i] = -INFINITY
            if s.docs[i] <= 0:
                continue
            s.weight[i] = s.score[i]
            if level < last:
                s.weight[i] += below + fast_log(s.concentration) - (
                    fast_log(<double>s.docs[i] + s.concentration)
                )
            most = s.weight[i] if s.weight[i] > most else most
        below += fresh[level]
    return most


cdef inline int32_t draw_node(Tree* s, double most, bitgen_t* rng) noexcept nogil:
    """Draw a leaf, or a node to branch off below, by the weights of `score_paths`."""
    cdef double total = 0.0, x
    cdef Py_ssize_t level
    cdef int64_t i
    cdef int32_t kept = -1
    for level in range(s.n_levels):
        for i in range(s.first[level], end_of(s, level)):
            s.weight[i] = fast_exp(s.weight[i] - most) if s.docs[i] > 0 else 0.0
            total += s.weight[i]
    x = uniform(rng) * total
    for level in range(s.n_levels):
        for i in range(s.first[level], end_of(s, level)):
            if s.weight[i] <= 0.0:
                continue
            kept = <int32_t>i
            if x < s.weight[i]:
                return kept
            x -= s.weight[i]
    return kept


cdef inline bint take_path(
    Tree* s, Py_ssize_t doc, int32_t node, Py_ssize_t level
) noexcept nogil:
    """Walk to a node, and below it on new ones; level -1: all are new.

    Returns whether there was a way: there is one root.
    """
    cdef int32_t* path = s.path + doc * s.n_levels
    cdef bint stays
    cdef Py_ssize_t up
    if level < 0 and free_column(s, 0) != s.first[0]:
        return False
    # Up from the node, then new ones below it; all are new for the first document.
    stays = level < 0 or path[level] == node
    for up in range(level, -1, -1):
        path[up] = node
        node = s.parent[node]
    for level in range(level + 1, s.n_levels):
        node = free_column(s, level)
        if node == end_of(s, level):
            s.n_nodes[level] += 1
        s.parent[node] = path[level - 1] if level > 0 else -1
        # One that the document has just left alone keeps its name, where its parent
        # does.
        stays = stays and path[level] == node
        if not stays:
            s.is_new[node] = 1
        path[level] = node
        s.docs[node] = 0
    return True


cdef inline bint draw_path(Tree* s, Py_ssize_t doc, bitgen_t* rng) noexcept nogil:
    """Draw a path given the levels of the tokens: an old one, or a new branch.

    Returns whether there was one: no path has weight where counts are none.
    """
    cdef double most = score_paths(s)
    cdef int32_t node = -1
    cdef Py_ssize_t level = -1
    if most > -INFINITY:
        node = draw_node(s, most, rng)
        level = s.n_levels - 1 if node >= 0 else -1
        while level > 0 and node < s.first[level]:
            level -= 1
    return take_path(s, doc, node, level)


cdef inline void draw_levels(Tree* s, Py_ssize_t doc, bitgen_t* rng) noexcept nogil:
    """Draw the level of each token given the path."""
    cdef const int32_t* path = s.path + doc * s.n_levels
    cdef double[MOST_LEVELS + 1] mass
    cdef double eta, total, x
    cdef int32_t* row
    cdef Py_ssize_t level
    cdef int64_t i
    for level in range(s.n_levels):
        s.at_level[level] = 0
    for i in range(s.begin[doc], s.begin[doc + 1]):
        s.at_level[s.level[i]] += 1
    for i in range(s.begin[doc], s.begin[doc + 1]):
        row = s.counts + <Py_ssize_t>s.words[i] * s.stride
        level = s.level[i]
        row[path[level]] -= 1
        s.totals[path[level]] -= 1
        s.at_level[level] -= 1
        total = 0.0
        for level in range(s.n_levels):
            eta = s.topic_prior[level]
            mass[level] = (
                (s.level_prior[level] + s.at_level[level]) * (row[path[level]] + eta)
                / (s.totals[path[level]] + <double>s.n_words * eta)
            )
            total += mass[level]
        x = uniform(rng) * total
        level = 0
        while level < s.n_levels - 1 and x >= mass[level]:
            x -= mass[level]
            level += 1
        row[path[level]] += 1
        s.totals[path[level]] += 1
        s.at_level[level] += 1
        s.level[i] = <uint8_t>level


cdef inline double try_path(
    Tree* s, Py_ssize_t doc, const int32_t* path, bint is_present, bitgen_t* rng
) noexcept nogil:
    """Draw the levels of a document token by token on a path; they go to `drawn`.

    -1 is a new node. The levels of a present path stay. The document is not in the
    counts. Returns log p(words | path, levels of the tokens before each), without the
    normaliser of the level prior.
    """
    cdef double[MOST_LEVELS + 1] mass, count, total, inverse, at_level
    cdef double sum, x, log_p = 0.0, product = 1.0
    cdef Py_ssize_t level
    cdef int64_t i, begin = s.begin[doc]
    cdef const int32_t* row
    for level in range(s.n_levels):
        total[level] = <double>s.n_words * s.topic_prior[level]
        if path[level] >= 0:
            total[level] += s.totals[path[level]]
        inverse[level] = 1.0 / total[level]
        at_level[level] = s.level_prior[level]
    for i in range(begin, s.begin[doc + 1]):
        if i == begin or s.words[i] != s.words[i - 1]:
            row = s.counts + <Py_ssize_t>s.words[i] * s.stride
            for level in range(s.n_levels):
                count[level] = s.topic_prior[level]
                if path[level] >= 0:
                    count[level] += row[path[level]]
        sum = 0.0
        for level in range(s.n_levels):
            mass[level] = at_level[level] * count[level] * inverse[level]
            sum += mass[level]
        product *= sum
        if not 1e-50 < product < 1e50:  # a logarithm of many tokens; none overflows
            log_p += fast_log(product)
            product = 1.0
        if is_present:
            level = s.level[i]
        else:
            x = uniform(rng) * sum
            level = 0
            while level < s.n_levels - 1 and x >= mass[level]:
                x -= mass[level]
                level += 1
        s.drawn[i - begin] = <uint8_t>level
        count[level] += 1.0
        total[level] += 1.0
        inverse[level] = 1.0 / total[level]
        at_level[level] += 1.0
    return log_p + fast_log(product)


cdef inline Py_ssize_t present_level(Tree* s, Py_ssize_t doc) noexcept nogil:
    """Level at which the path of a document, now taken out, leaves the tree; or -1."""
    cdef const int32_t* path = s.path + doc * s.n_levels
    cdef Py_ssize_t level = 0
    while level < s.n_levels and s.docs[path[level]] > 0:
        level += 1
    return level - 1


cdef inline bint draw_both(
    Tree* s, Py_ssize_t doc, bint is_seated, bitgen_t* rng
) noexcept nogil:
    """Draw a path, and the levels that tokens draw on it.

    Each path gets levels by `try_path`, the present one keeps its own; one of them is
    drawn by the probabilities of the paths times those of the words. Returns whether
    there was one.
    """
    cdef int32_t[MOST_LEVELS + 1] path
    cdef int32_t* own = s.path + doc * s.n_levels
    cdef Py_ssize_t level, up, last = s.n_levels - 1, kept_level = -1
    cdef Py_ssize_t present = present_level(s, doc) if is_seated else -1
    cdef int64_t i, n_tokens = s.begin[doc + 1] - s.begin[doc]
    cdef int32_t node, kept = -1
    cdef double weight, most = -INFINITY, total = 0.0
    cdef uint8_t* drawn
    for level in range(s.n_levels):
        for i in range(s.first[level], end_of(s, level)):
            if s.docs[i] <= 0:
                continue
            s.score[i] = 0.0
            if level > 0:
                node = s.parent[i]
                s.score[i] = s.score[node] + fast_log(<double>s.docs[i]) - (
                    fast_log(<double>s.docs[node] + s.concentration)
                )
            weight = s.score[i]
            if level < last:
                weight += fast_log(s.concentration) - (
                    fast_log(<double>s.docs[i] + s.concentration)
                )
            for up in range(level + 1, s.n_levels):
                path[up] = -1
            node = <int32_t>i
            for up in range(level, -1, -1):
                path[up] = node
                node = s.parent[node]
            weight += try_path(
                s, doc, path, level == present and own[level] == i, rng
            )
            # One of those so far, by their weights: rescaled where a larger one comes.
            if weight > most:
                total *= fast_exp(most - weight) if total > 0.0 else 0.0
                most = weight
            weight = fast_exp(weight - most)
            total += weight
            if uniform(rng) * total < weight:
                kept, kept_level = <int32_t>i, level
                drawn = s.drawn
                s.drawn = s.kept
                s.kept = drawn
    if kept >= 0:
        for i in range(n_tokens):
            s.level[s.begin[doc] + i] = s.kept[i]
    return take_path(s, doc, kept, kept_level)


cdef inline double score_document(
    Tree* s, Py_ssize_t doc, Py_ssize_t n_tries, bitgen_t* rng
) noexcept nogil:
    """Estimate log p(path, words | all other documents) by the mean of some tries.

    The document is not in the counts.
    """
    cdef int32_t[MOST_LEVELS + 1] path
    cdef const int32_t* own = s.path + doc * s.n_levels
    cdef Py_ssize_t level, present = present_level(s, doc), _k
    cdef double log_p, most = -INFINITY, total = 0.0, alpha = 0.0
    for level in range(s.n_levels):
        path[level] = own[level] if level <= present else -1
        alpha += s.level_prior[level]
    for _k in range(n_tries):
        log_p = try_path(s, doc, path, False, rng)
        if log_p > most:
            total *= fast_exp(most - log_p) if total > 0.0 else 0.0
            most = log_p
        total += fast_exp(log_p - most)
    log_p = most + fast_log(total / n_tries)
    log_p -= log_rising(alpha, <double>(s.begin[doc + 1] - s.begin[doc]))
    for level in range(1, present + 1):
        log_p += fast_log(<double>s.docs[own[level]]) - (
            fast_log(<double>s.docs[own[level - 1]] + s.concentration)
        )
    if 0 <= present < s.n_levels - 1:
        log_p += fast_log(s.concentration) - (
            fast_log(<double>s.docs[own[present]] + s.concentration)
        )
    return log_p


cdef Py_ssize_t sweep_tree "skbnp_sweep_tree"(
    Tree* s,
    Py_ssize_t doc,
    Py_ssize_t stop,
    int kind,
    double* scores,
    Py_ssize_t n_tries,
    bitgen_t* rng,
) noexcept nogil:
    cdef bint is_seated, is_drawn
    cdef Py_ssize_t level
    cdef int32_t* path
    while doc < stop:
        path = s.path + doc * s.n_levels
        is_seated = path[0] >= 0
        if kind == SCORE:
            list_words(s, doc)
            move_document(s, doc, -1)
            scores[doc] = score_document(s, doc, n_tries, rng)
            for level in range(1, s.n_levels):
                s.parent[path[level]] = path[level - 1]
            move_document(s, doc, 1)
            doc += 1
            continue
        if kind != DRAW_LEVELS or not is_seated:
            if not has_room(s):
                break
            list_words(s, doc)
            if is_seated:
                move_document(s, doc, -1)
            if kind == DRAW_BOTH:
                is_drawn = draw_both(s, doc, is_seated, rng)
                list_words(s, doc)
            else:
                is_drawn = draw_path(s, doc, rng)
            if not is_drawn:
                return -1
            move_document(s, doc, 1)
        draw_levels(s, doc, rng)
        doc += 1
    return doc


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
    Py_ssize_t n_unseen,                # words beyond the rows of counts
    const float[:, ::1] log_counts,     # IN    (n_levels, n) log(n + eta)
    Py_ssize_t doc,
    Py_ssize_t stop,
    int kind,                           # LEVELS, PATHS, TOGETHER or SCORES
    bit_generator: BitGenerator,
    double[::1] scores=None,            # OUT   (n_docs,) of SCORES
    Py_ssize_t n_tries=1,               # of SCORES
) -> int:
    """Resample paths and levels of the documents from `doc` to `stop`.

    Eqs. of section 5 of [1]: a path given the levels of the document's tokens, by the
    marginal likelihood of its words; then each level given the path. With TOGETHER both
    are drawn first, from one proposal of levels for each path, as iterated sampling
    importance resampling does; with SCORES documents, all of which must be seated, stay
    where they are, and get log p(path, words | all others), up to the error of
    `n_tries` proposals. Time of these two: O(tokens of a document times nodes).

    Returns the document before which a level had no free column, or `stop`. Time
    O(words of a document times nodes); no allocation inside.

    References
    ----------
    .. [1] Blei, Griffiths and Jordan, "The Nested Chinese Restaurant Process and
       Bayesian Nonparametric Inference of Topic Hierarchies", Journal of the ACM 57,
       2010.
    """
    cdef Tree s
    cdef Py_ssize_t longest = 1, j
    cdef bitgen_t* rng = borrow(bit_generator)
    s.n_docs, s.n_levels = path.shape[0], path.shape[1]
    s.n_words = counts.shape[0] + n_unseen
    s.stride = counts.shape[1]
    if not 1 <= s.n_levels <= MOST_LEVELS or counts.shape[0] < 1 or n_unseen < 0:
        raise ValueError("there must be a word, and 1 to 255 levels")
    if begin.shape[0] != s.n_docs + 1 or not (
        begin[s.n_docs] <= words.shape[0] <= level.shape[0]
    ):
        raise ValueError("begin, words, level and path disagree")
    if not first.shape[0] - 1 == n_nodes.shape[0] == log_counts.shape[0] == s.n_levels:
        raise ValueError("first, n_nodes, log_counts and path disagree on the levels")
    if not level_prior.shape[0] == topic_prior.shape[0] == s.n_levels:
        raise ValueError("priors must have an entry per level")
    if not totals.shape[0] == docs.shape[0] == parent.shape[0] == is_new.shape[0]:
        raise ValueError("totals, docs, parent and is_new disagree")
    if not first[s.n_levels] <= totals.shape[0] == s.stride:
        raise ValueError("first, totals and counts disagree on the columns")
    if not 0 <= doc <= stop <= s.n_docs or not 0 <= kind <= SCORE:
        raise ValueError("doc, stop or kind out of range")
    if kind == SCORE and (
        scores is None or scores.shape[0] < s.n_docs or n_tries < 1
    ):
        raise ValueError("scores must have an entry per document, n_tries be positive")
    if words.shape[0] == 0:
        return stop
    if kind == SCORE and np.asarray(path).min() < 0:
        raise ValueError("documents that are scored must have a path")
    for j in range(s.n_docs):
        longest = max(longest, begin[j + 1] - begin[j])
    cdef double[::1] room = np.empty(2 * s.stride)
    cdef int32_t[::1] space = np.empty(2 * longest + 2 * s.n_levels + 1, dtype=np.int32)
    cdef uint8_t[::1] tries = np.empty(2 * longest, dtype=np.uint8)
    cdef double* results = &scores[0] if kind == SCORE else NULL
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
    s.limits = &space[2 * longest + s.n_levels]
    s.drawn, s.kept = &tries[0], &tries[longest]
    with bit_generator.lock, nogil:
        doc = sweep_tree(&s, doc, stop, kind, results, n_tries, rng)
    if doc < 0:
        raise ValueError("no path has weight: counts or priors are out of range")
    return doc
