"""The local step of the variational nested CRP: paths of documents, levels of words.

A *stub* is a node of the tree, and stands for the path to it if that is a leaf, for all
paths that leave the tree below it otherwise. A path is n_levels rows of a table with a
row for each node, and for each level one of topics that are not in the tree.
"""

import numpy as np

from libc.math cimport INFINITY, exp, fabs, fmax, fmin, log
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from skbnp.kernels._interrupts cimport count_work
from skbnp.kernels._math cimport (
    digamma_exponent,
    digamma_factor,
    fast_exp,
    fast_log,
    log_gamma,
)
from skbnp.kernels._sparse cimport longest_of

cdef extern from "src/paths.h" nogil:
    """
    struct skbnp_document;
    SKBNP_CLONES static void skbnp_list_nodes(
        const struct skbnp_document *, const double *, Py_ssize_t, const double *);
    SKBNP_CLONES static void skbnp_share_weights(const struct skbnp_document *);
    SKBNP_CLONES static void skbnp_list_stubs(
        const struct skbnp_document *, const double *, Py_ssize_t, const double *,
        Py_ssize_t, const int32_t *, const int32_t *);
    SKBNP_CLONES static double skbnp_walk(
        const struct skbnp_document *, const double *, const double *, const int32_t *,
        double *, double *, Py_ssize_t, double);
    SKBNP_CLONES static void skbnp_mix_paths(
        const struct skbnp_document *, Py_ssize_t, const int32_t *, const double *,
        double *);
    SKBNP_CLONES static void skbnp_node_terms(
        const struct skbnp_document *, const int32_t *, const double *, double *);
    SKBNP_CLONES static double skbnp_share_path(
        const struct skbnp_document *, const double *, const int32_t *, const double *,
        double *);
    """
    void exponentiate(Py_ssize_t wide, const double* row, const double* top, double* to)
    void raise_row(Py_ssize_t wide, const double* row, double* most)
    double least_of(Py_ssize_t wide, const double* row)
    void put_scaled(Py_ssize_t wide, double w, const double* row, double* to)
    void add_scaled(Py_ssize_t wide, double w, const double* row, double* to)
    void divide_row(Py_ssize_t wide, const double* counts, double* s)
    double dot(Py_ssize_t wide, const double* a, const double* b)
    double log_dot(Py_ssize_t wide, const double* counts, const double* s)
    double share_dot(
        Py_ssize_t wide, const double* counts, const double* own, const double* s,
        const double* row,
    )
    double relative_dot(
        Py_ssize_t wide, const double* s, const double* row, const double* own,
        const double* top,
    )

cdef enum:
    CHEAP = 3

#: Iterations by which all stubs are scored before most of them are left out.
CHEAP_ITERATIONS = CHEAP
#: Nats below the best at which a stub is left out in any case: a share of zero.
MOST_NATS = 700.0


# A document; its words come `wide` to a row, a multiple of 8, the last ones with count
# zero.
cdef struct Document "skbnp_document":
    Py_ssize_t n, wide, n_levels, n_rows
    const int32_t* words        # (n,)
    double* counts              # (wide,)
    double n_tokens
    const double* prior         # (n_levels,) alpha
    double* logs                # (n_rows, wide) E log W of the nodes and levels
    double* shared              # (n_rows + 1, wide) see `_share_weights`
    uint8_t* needed             # (n_rows,) those rows that are wanted of it
    double* tile                # (n_levels, wide) weights of a path,
    double* top                 # (wide,) relative to these logarithms;
    double* norms               # (wide,) s,
    double* sums                # (n_levels,)
    double* exponents           # (n_levels,)
    Py_ssize_t* done            # work, for `count_work`


cdef size_t _path_work(size_t wide, size_t n_levels):
    return (n_levels + 2) * wide + 2 * n_levels


cdef void _open(
    Document* d, const int32_t* words, const double* counts, Py_ssize_t n, double* work
) noexcept nogil:
    """Open the next document; `work` has the size of `_path_work`."""
    cdef Py_ssize_t i
    d.n, d.wide, d.words = n, (n + 7) // 8 * 8, words
    d.n_tokens = 0.0
    for i in range(d.wide):
        d.counts[i] = counts[i] if i < n else 0.0
        d.n_tokens += d.counts[i]
    d.tile = work
    d.top = d.tile + d.n_levels * d.wide
    d.norms = d.top + d.wide
    d.sums = d.norms + d.wide
    d.exponents = d.sums + d.n_levels


# -- rows of words --------------------------------------------------------------------

cdef void _list_nodes "skbnp_list_nodes"(
    const Document* d, const double* log_weights, Py_ssize_t n_nodes,
    const double* off_tree,
) noexcept nogil:
    """Rows of the nodes, from a table with a row for each word, and of the levels."""
    cdef const double* source[8]
    cdef Py_ssize_t at = 0, i, node, level
    while at < d.wide:  # eight words at a time: rows are written by cache lines
        for i in range(8):
            node = d.words[at + i if at + i < d.n else 0]
            source[i] = log_weights + node * n_nodes
        for node in range(n_nodes):
            for i in range(8):
                d.logs[node * d.wide + at + i] = source[i][node]
        at += 8
    for level in range(d.n_levels):
        for i in range(d.wide):
            d.logs[(n_nodes + level) * d.wide + i] = off_tree[level]


cdef void _share_weights "skbnp_share_weights"(const Document* d) noexcept nogil:
    """exp(logs), relative to the largest of each word, and those as another row."""
    cdef double* best = d.shared + d.n_rows * d.wide
    cdef Py_ssize_t row
    memcpy(best, d.logs, d.wide * sizeof(double))  # all paths need the root
    for row in range(1, d.n_rows):
        if d.needed[row]:
            raise_row(d.wide, d.logs + row * d.wide, best)
    for row in range(d.n_rows):
        if d.needed[row]:
            exponentiate(d.wide, d.logs + row * d.wide, best, d.shared + row * d.wide)


cdef void _list_stubs "skbnp_list_stubs"(
    const Document* d, const double* log_weights, Py_ssize_t n_nodes,
    const double* off_tree, Py_ssize_t n_stubs, const int32_t* stubs,
    const int32_t* stub_nodes,
) noexcept nogil:
    """Rows of the levels of some stubs, one stub after another; -1 is off the tree."""
    cdef Py_ssize_t k, level, u
    cdef int32_t node
    cdef double* row
    for k in range(n_stubs):
        for level in range(d.n_levels):
            node = stub_nodes[stubs[k] * d.n_levels + level]
            row = d.logs + (k * d.n_levels + level) * d.wide
            for u in range(d.wide):
                row[u] = off_tree[level]
            if node >= 0:
                for u in range(d.n):
                    row[u] = log_weights[d.words[u] * n_nodes + node]


cdef void _mix_paths "skbnp_mix_paths"(
    const Document* d, Py_ssize_t n_paths, const int32_t* paths, const double* shares,
    double* mixed,
) noexcept nogil:
    """Rows of the levels, averaged over the paths with their shares."""
    cdef Py_ssize_t k, level
    for level in range(d.n_levels):
        for k in range(d.wide):
            mixed[level * d.wide + k] = 0.0
    for k in range(n_paths):
        if shares[k] > 0.0:
            for level in range(d.n_levels):
                add_scaled(
                    d.wide, shares[k], d.logs + paths[k * d.n_levels + level] * d.wide,
                    mixed + level * d.wide,
                )


# -- levels of a path -----------------------------------------------------------------

cdef inline void fill(
    const Document* d, const double* logs, const int32_t* path
) noexcept nogil:
    """Fill the tile with exp(logs) of a path, relative to the largest of each word."""
    cdef Py_ssize_t level
    memcpy(d.top, logs + path[0] * d.wide, d.wide * sizeof(double))
    for level in range(1, d.n_levels):
        raise_row(d.wide, logs + path[level] * d.wide, d.top)
    for level in range(d.n_levels):
        exponentiate(
            d.wide, logs + path[level] * d.wide, d.top, d.tile + level * d.wide
        )


cdef inline bint is_shared(
    const Document* d, const double* table, const int32_t* path
) noexcept nogil:
    """Whether each word has a level of a weight that is not too small."""
    cdef Py_ssize_t level, u
    for u in range(d.wide):
        d.norms[u] = 0.0
    for level in range(d.n_levels):
        raise_row(d.wide, table + path[level] * d.wide, d.norms)
    return least_of(d.wide, d.norms) >= 1e-100


cdef inline const double* row_of(
    const Document* d, const double* table, const int32_t* path, Py_ssize_t level
) noexcept nogil:
    """Weights of a level of a path: a row of a table, or without a path of a tile."""
    return table + (path[level] if path != NULL else level) * d.wide


cdef inline void weigh_levels(
    const Document* d, const double* levels, double* weights
) noexcept nogil:
    """exp(psi(a_l)) up to a factor that cancels; products with words' stay normal."""
    cdef double most = -INFINITY, w
    cdef Py_ssize_t level
    for level in range(d.n_levels):
        d.exponents[level] = digamma_exponent(levels[level])
        most = d.exponents[level] if d.exponents[level] > most else most
    for level in range(d.n_levels):
        w = digamma_factor(levels[level]) * fast_exp(d.exponents[level] - most)
        weights[level] = 1e-80 if w < 1e-80 else w


cdef inline void sum_levels(
    const Document* d, const double* table, const int32_t* path, const double* weights
) noexcept nogil:
    """s_u = sum_l w_l b_lu."""
    cdef Py_ssize_t level
    put_scaled(d.wide, weights[0], row_of(d, table, path, 0), d.norms)
    for level in range(1, d.n_levels):
        add_scaled(d.wide, weights[level], row_of(d, table, path, level), d.norms)


cdef inline void share_out(
    const Document* d, const double* table, const int32_t* path, const double* weights
) noexcept nogil:
    """N_l = sum_u x_u w_l b_lu / s_u; s becomes x / s."""
    cdef Py_ssize_t level
    divide_row(d.wide, d.counts, d.norms)
    for level in range(d.n_levels):
        d.sums[level] = weights[level] * dot(
            d.wide, d.norms, row_of(d, table, path, level)
        )


cdef inline double score(const Document* d, const double* weights) noexcept nogil:
    """sum_u x_u log s_u - sum_l N_l log w_l + sum_l lnG(alpha_l + N_l)."""
    cdef double total = log_dot(d.wide, d.counts, d.norms), unused
    cdef Py_ssize_t level
    for level in range(d.n_levels):
        total += log_gamma(d.prior[level] + d.sums[level], &unused) - (
            d.sums[level] * fast_log(weights[level])
        )
    return total


cdef double _level_norm(const Document* d) noexcept nogil:
    """lnG(sum alpha) - sum_l lnG(alpha_l) - lnG(sum alpha + tokens)."""
    cdef double all_levels = 0.0, total = 0.0, unused
    cdef Py_ssize_t level
    for level in range(d.n_levels):
        all_levels += d.prior[level]
        total -= log_gamma(d.prior[level], &unused)
    return total + (
        log_gamma(all_levels, &unused) - log_gamma(all_levels + d.n_tokens, &unused)
    )


cdef double _walk "skbnp_walk"(
    const Document* d, const double* logs, const double* shared, const int32_t* path,
    double* levels, double* weights, Py_ssize_t max_iter, double tol,
) except? -1.0 nogil:
    """Iterate a = alpha + sum_u x_u phi_u, phi_ul ~ exp(psi(a_l)) exp(logs).

    Until sum |change| <= tol, or max_iter (at least one) times. Puts the factors of the
    last phi to `weights`, and returns its bound but for `_level_norm`,

        sum_u x_u sum_l phi_ul (logs - log phi_ul) + sum_l lnG(a_l).

    `shared` saves exponentials; without (NULL) the path's weights stay in the tile.
    """
    cdef const double* table = shared
    cdef const double* top = d.top
    cdef double change, after
    cdef Py_ssize_t level, iteration = 0
    if shared == NULL or not is_shared(d, shared, path):
        fill(d, logs, path)
        table, path = d.tile, NULL
    else:
        top = shared + d.n_rows * d.wide
    while iteration == 0 or iteration < max_iter:
        change = 0.0
        weigh_levels(d, levels, weights)
        sum_levels(d, table, path, weights)
        share_out(d, table, path, weights)
        count_work(d.n_levels * d.wide, d.done)
        for level in range(d.n_levels):
            after = d.prior[level] + d.sums[level]
            change += fabs(after - levels[level])
            levels[level] = after
        if change <= tol:
            break
        iteration += 1
    sum_levels(d, table, path, weights)
    return dot(d.wide, d.counts, top) + score(d, weights)


cdef void _node_terms "skbnp_node_terms"(
    const Document* d, const int32_t* node_level, const double* weights, double* terms
) noexcept nogil:
    """sum_u x_u phi_ul logs for each node, with phi as `_walk` left it in the tile."""
    cdef Py_ssize_t row
    cdef int32_t level
    for row in range(d.n_rows):
        level = node_level[row]
        terms[row] = weights[level] * share_dot(
            d.wide, d.counts, d.tile + level * d.wide, d.norms, d.logs + row * d.wide
        )


cdef double _share_path "skbnp_share_path"(
    const Document* d, const double* logs, const int32_t* path, const double* weights,
    double* tokens,
) noexcept nogil:
    """Write x_u phi_ul to `tokens`, n_levels for each word.

    Returns sum_l lnG(alpha_l + sum_u x_u phi_ul) - sum_u x_u sum_l phi_ul log phi_ul.
    """
    cdef const double* row
    cdef double result
    cdef Py_ssize_t level, u
    fill(d, logs, path)
    sum_levels(d, d.tile, NULL, weights)
    share_out(d, d.tile, NULL, weights)
    for level in range(d.n_levels):
        row = d.tile + level * d.wide
        d.exponents[level] = weights[level] * relative_dot(
            d.wide, d.norms, row, logs + path[level] * d.wide, d.top
        )
        for u in range(d.n):
            tokens[u * d.n_levels + level] = weights[level] * d.norms[u] * row[u]
    sum_levels(d, d.tile, NULL, weights)
    result = score(d, weights)
    for level in range(d.n_levels):
        result -= d.exponents[level]
    return result


# -- stubs ----------------------------------------------------------------------------

# The tree, and when to stop.
cdef struct Tree:
    Py_ssize_t n_nodes, n_stubs, n_levels
    const double* log_weights   # (n_words, n_nodes) E log W
    const double* off_tree      # (n_levels,)
    const int32_t* paths        # (n_stubs, n_levels) rows
    const int32_t* node_level   # (n_rows,)
    const int32_t* mixture      # (n_levels,) rows of the mixture
    const double* log_prior     # (n_stubs,)
    const uint8_t* is_open      # (n_stubs,) or NULL: all are
    Py_ssize_t max_iter
    double tol, prune, enter
    double all_levels           # sum_l alpha_l


# Stubs of a document; `known` are places in what is remembered, or -1.
cdef struct Stubs:
    int32_t* known              # (n_stubs,)
    double* scores              # (n_stubs,)
    double* shares              # (n_stubs,)
    double* levels              # (n_stubs, n_levels) a
    double* weights             # (n_stubs, n_levels)
    double* cold                # (2, n_levels) levels of a start, and their weights
    double* warm                # (2, n_levels)
    double* terms               # (n_stubs or n_rows,)


# An earlier result.
cdef struct Starts:
    const int32_t* limits
    const int32_t* stubs
    const double* shares
    const double* levels


# What `infer_paths` returns; there is room for so many stubs.
cdef struct Supports:
    int32_t* limits
    double* bounds
    int32_t* stubs
    double* shares
    double* levels
    double* weights
    Py_ssize_t n_put, room


cdef inline bint _is_in(
    double score, double best, int32_t known, double prune, double enter
) noexcept nogil:
    """Whether a stub scores near the best one; stubs of the start more easily."""
    return score >= best - (prune if known >= 0 else enter)


cdef double _shares(
    Py_ssize_t n, const double *scores, const int32_t *known, double prune,
    double enter, double *shares
) noexcept nogil:
    """Shares of what is near enough to the best, zero elsewhere; log of the sum.

    The shares sum to one up to rounding.
    """
    cdef double best = -INFINITY, total = 0.0
    cdef Py_ssize_t k
    for k in range(n):
        best = fmax(best, scores[k])
    for k in range(n):
        shares[k] = 0.0
        if _is_in(scores[k], best, known[k], prune, enter):
            shares[k] = exp(scores[k] - best)
        total += shares[k]
    for k in range(n):
        shares[k] /= total
    return best + log(total)


cdef inline double _walk_stub(
    const Tree* t, const Document* d, Py_ssize_t k, double* levels, double* weights,
    Py_ssize_t max_iter,
) except? -1.0 nogil:
    """Score of a stub by its own levels, after further iterations."""
    return t.log_prior[k] + _walk(
        d, d.logs, d.shared, t.paths + k * t.n_levels, levels, weights, max_iter,
        t.tol * d.n_tokens,
    )


cdef inline bint _is_tried(const Tree* t, const Stubs* s, Py_ssize_t k) noexcept nogil:
    """Whether a document may take a stub."""
    return t.is_open == NULL or t.is_open[k] or s.known[k] >= 0


cdef void _need_rows(const Tree* t, Document* d, const Stubs* s) noexcept nogil:
    """Mark the rows of the stubs that a document may take."""
    cdef Py_ssize_t k, level
    memset(d.needed, t.is_open == NULL, d.n_rows)
    if t.is_open != NULL:
        for k in range(t.n_stubs):
            if _is_tried(t, s, k):
                for level in range(t.n_levels):
                    d.needed[t.paths[k * t.n_levels + level]] = 1


cdef int _score_stub(
    const Tree* t, const Document* d, Stubs* s, const Starts* starts, Py_ssize_t k,
    Py_ssize_t max_iter,
) except -1 nogil:
    """Score a stub by a few iterations, from the better of two starts."""
    cdef double* levels = s.levels + k * t.n_levels
    cdef double* weights = s.weights + k * t.n_levels
    cdef double* own_weights = s.warm + t.n_levels
    cdef size_t size = t.n_levels * sizeof(double)
    cdef double remembered
    memcpy(levels, s.cold, size)
    s.scores[k] = _walk_stub(t, d, k, levels, weights, max_iter)
    if s.known[k] < 0:
        return 0
    memcpy(s.warm, starts.levels + s.known[k] * t.n_levels, size)
    remembered = _walk_stub(t, d, k, s.warm, own_weights, max_iter)
    if remembered >= s.scores[k]:
        s.scores[k] = remembered
        memcpy(levels, s.warm, size)
        memcpy(weights, own_weights, size)
    return 0


cdef double _walk_each(
    const Tree* t, const Document* d, Stubs* s, const Starts* starts
) except? -1.0 nogil:
    """Levels for each stub on its own; returns the bound without their norm."""
    cdef Py_ssize_t k, first = min(t.max_iter, <Py_ssize_t>CHEAP)
    cdef double best = -INFINITY
    for k in range(t.n_stubs):
        s.scores[k] = -INFINITY
        if _is_tried(t, s, k):
            _score_stub(t, d, s, starts, k, first)
        best = fmax(best, s.scores[k])
    if t.max_iter > first:
        for k in range(t.n_stubs):
            if _is_in(s.scores[k], best, s.known[k], t.prune, t.enter):
                s.scores[k] = _walk_stub(
                    t, d, k, s.levels + k * t.n_levels, s.weights + k * t.n_levels,
                    t.max_iter - first,
                )
    return _shares(t.n_stubs, s.scores, s.known, t.prune, t.enter, s.shares)


cdef double _update_shares(const Tree* t, const Document* d, Stubs* s) noexcept nogil:
    """q(c = k) given the levels that all stubs share; sum of its changes."""
    cdef Py_ssize_t k, level
    cdef double turned = 0.0
    _node_terms(d, t.node_level, s.cold + t.n_levels, s.terms)
    for k in range(t.n_stubs):
        s.scores[k] = t.log_prior[k]
        for level in range(t.n_levels):
            s.scores[k] += s.terms[t.paths[k * t.n_levels + level]]
    for k in range(t.n_stubs):
        s.terms[k] = s.shares[k]
    _shares(t.n_stubs, s.scores, s.known, t.prune, t.prune, s.shares)
    for k in range(t.n_stubs):
        turned += fabs(s.shares[k] - s.terms[k])
    return turned


cdef double _walk_all(const Tree* t, const Document* d, Stubs* s) except? -1.0 nogil:
    """Levels that all stubs share; returns the bound without their norm.

    Starts from the cold levels and `shares`. Rows of the mixture stand behind those of
    the nodes.
    """
    cdef double* mixed = d.logs + d.n_rows * d.wide
    cdef double moved, turned, bound
    cdef Py_ssize_t iteration = 0, k, level
    cdef bint converged = False
    while True:
        memcpy(s.terms, s.cold, t.n_levels * sizeof(double))
        _mix_paths(d, t.n_stubs, t.paths, s.shares, mixed)
        count_work(d.n_rows * d.wide, d.done)
        bound = _walk(d, mixed, NULL, t.mixture, s.cold, s.cold + t.n_levels, 1, 0.0)
        # What is returned goes with the shares: they never change last.
        if converged or iteration == t.max_iter:
            break
        moved = 0.0
        for level in range(t.n_levels):
            moved += fabs(s.cold[level] - s.terms[level])
        turned = _update_shares(t, d, s)
        converged = moved <= t.tol * d.n_tokens and turned <= t.tol
        iteration += 1
    for k in range(t.n_stubs):
        if s.shares[k] > 0.0:
            bound += s.shares[k] * (t.log_prior[k] - log(s.shares[k]))
    return bound


cdef double _infer_each(
    const Tree* t, Document* d, Stubs* s, const Starts* starts, Py_ssize_t doc
) except? -1.0 nogil:
    """The stubs of a document, each with its own levels."""
    cdef double bound
    cdef Py_ssize_t at
    for at in range(starts.limits[doc], starts.limits[doc + 1]):
        s.known[starts.stubs[at]] = <int32_t>at
    _need_rows(t, d, s)
    _share_weights(d)
    bound = _walk_each(t, d, s, starts)
    for at in range(starts.limits[doc], starts.limits[doc + 1]):
        s.known[starts.stubs[at]] = -1
    return bound


cdef double _infer_all(
    const Tree* t, const Document* d, Stubs* s, const Starts* starts, Py_ssize_t doc
) except? -1.0 nogil:
    """The stubs of a document, with one set of levels."""
    cdef double total = 0.0, bound
    cdef size_t size = t.n_levels * sizeof(double)
    cdef Py_ssize_t at, k
    for k in range(t.n_stubs):
        s.shares[k] = 0.0
    for at in range(starts.limits[doc], starts.limits[doc + 1]):
        s.shares[starts.stubs[at]] = starts.shares[at]
        total += starts.shares[at]
        memcpy(s.cold, starts.levels + at * t.n_levels, size)
    if total > 0.0:
        for k in range(t.n_stubs):
            s.shares[k] /= total
    else:
        _shares(t.n_stubs, t.log_prior, s.known, t.prune, t.prune, s.shares)
    bound = _walk_all(t, d, s)
    for k in range(t.n_stubs):
        memcpy(s.levels + k * t.n_levels, s.cold, size)
        memcpy(s.weights + k * t.n_levels, s.cold + t.n_levels, size)
    return bound


cdef void _keep(const Tree* t, const Stubs* s, Supports* out) noexcept nogil:
    """Write the support of a document."""
    cdef Py_ssize_t k, put, row
    cdef size_t size = t.n_levels * sizeof(double)
    for k in range(t.n_stubs):
        if s.shares[k] > 0.0:
            out.stubs[out.n_put], out.shares[out.n_put] = <int32_t>k, s.shares[k]
            row, put = k * t.n_levels, out.n_put * t.n_levels
            memcpy(out.levels + put, s.levels + row, size)
            memcpy(out.weights + put, s.weights + row, size)
            out.n_put += 1


cdef Py_ssize_t _infer(
    const Tree* t, Document* d, Stubs* s, const Starts* starts, Supports* out,
    const int32_t[::1] indptr, const int32_t[::1] words, const double[::1] counts,
    double* work, bint factorised, Py_ssize_t done,
) except -1 nogil:
    """Infer documents from `done` on; return the first one without room."""
    cdef Py_ssize_t doc, n, level
    for doc in range(done, indptr.shape[0] - 1):
        if out.n_put + t.n_stubs > out.room:
            return doc
        n = indptr[doc + 1] - indptr[doc]
        _open(
            d, &words[indptr[doc]] if n else NULL, &counts[indptr[doc]] if n else NULL,
            n, work,
        )
        for level in range(t.n_levels):
            s.cold[level] = d.prior[level] * (1.0 + d.n_tokens / t.all_levels)
        _list_nodes(d, t.log_weights, t.n_nodes, t.off_tree)
        if factorised:
            out.bounds[doc] = _infer_all(t, d, s, starts, doc)
        else:
            out.bounds[doc] = _infer_each(t, d, s, starts, doc)
        out.bounds[doc] += _level_norm(d)
        _keep(t, s, out)
        out.limits[doc + 1] = <int32_t>out.n_put
    return indptr.shape[0] - 1


def _rows(const int32_t[:, ::1] stub_nodes, Py_ssize_t n_nodes):
    """Rows of each stub's path; rows of levels come after those of nodes."""
    cdef Py_ssize_t n_levels = stub_nodes.shape[1]
    given = np.asarray(stub_nodes)
    if given.size == 0 or given.min() < -1 or given.max() >= n_nodes:
        raise ValueError("stub_nodes must be columns of log_weights, or -1")
    levels = np.arange(n_levels, dtype=np.int32)
    rows = np.where(given < 0, n_nodes + levels, given).astype(np.int32)
    node_level = np.zeros(n_nodes + n_levels, dtype=np.int32)
    node_level[rows] = levels
    return rows, node_level


def _check(
    const int32_t[::1] indptr, const int32_t[::1] words, const double[::1] counts,
    const double[:, ::1] log_weights,
):
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1
    if n_docs < 0 or not words.shape[0] == counts.shape[0] == indptr[n_docs]:
        raise ValueError("indptr, words and counts disagree on documents")
    _check_range(words, 0, log_weights.shape[0], "words must be rows of log_weights")


def _check_range(values, lowest, end, message):
    """Raise an error unless all values are at least `lowest` and below `end`."""
    values = np.asarray(values)
    if values.size and not lowest <= values.min() <= values.max() < end:
        raise ValueError(message)


def infer_paths(
    const int32_t[::1] indptr,          # IN  (n_docs + 1,)
    const int32_t[::1] words,           # IN  (nnz,) rows of `log_weights`
    const double[::1] counts,           # IN  (nnz,) > 0
    const double[:, ::1] log_weights,   # IN  (n_words, n_nodes) E log W; or padded
    const double[::1] off_tree,         # IN  (n_levels,) the same of other topics
    const int32_t[:, ::1] stub_nodes,   # IN  (n_stubs, n_levels) columns; -1: off tree
    const double[::1] log_prior,        # IN  (n_stubs,) E log p(c) - log q(c | stub)
    const double[::1] level_prior,      # IN  (n_levels,) alpha > 0
    Py_ssize_t max_iter,
    double tol,
    double prune=20.0,
    bint factorised=False,
    starts: tuple[
        NDArray[int32], NDArray[int32], NDArray[float64], NDArray[float64],
    ] | None = None,
    double enter=INFINITY,
    const uint8_t[::1] is_open=None,    # IN  (n_stubs,)
) -> tuple[
    NDArray[int32], NDArray[int32], NDArray[float64], NDArray[float64],
    NDArray[float64], NDArray[float64],
]:
    """Posterior over stubs, and over the levels of words, for each document.

    For each stub k the levels of a document with counts x, and responsibilities phi
    that maximise, with E log theta_l = psi(a_kl) - psi(sum a_k),

        phi_kul ~ exp(E log theta_kl + E log W_klu),
        a_kl = alpha_l + sum_u x_u phi_kul,

    are iterated until sum_l |change of a_l| <= tol times the tokens, or `max_iter`
    times. Then q(c = k) ~ exp(log_prior_k + B_k), with the bound

        B_k = sum_u x_u sum_l phi_kul (E log W_klu - log phi_kul)
              + log B(a_k) - log B(alpha),

    valid whether or not the iteration has converged. With `factorised`, there is one
    phi and one a for all stubs, as in [1]:

        phi_ul ~ exp(E log theta_l + sum_k q(c = k) E log W_klu),
        q(c = k) ~ exp(log_prior_k + sum_u x_u sum_l phi_ul E log W_klu).

    All stubs are scored by a few iterations. Those more than `prune` nats below the
    best are left out, then or after the others have been iterated to the end, and in
    any case those 700 nats below. What that costs the bound is about exp(-prune) each,
    unless more iterations would have made up for `prune`. Stubs that `starts` do not
    name are left out `enter` nats below already: supports stay small, and since none
    of them that matters is lost, bounds still rise from visit to visit.

    `starts` are limits, stubs, shares and levels of an earlier result. Then the better
    of two iterations is kept, so that no stub falls below what it had; the factorised
    iteration starts from there alone. Stubs that are not `is_open` are tried by those
    documents alone whose start names them; the factorised iteration tries all.

    Time O(iterations * nnz * n_levels) for each stub, O(nnz * n_nodes) for all.

    Returns
    -------
    limits : (n_docs + 1,)
        Of the documents' supports in the next four.
    stubs : int32
        The support, in increasing order.
    shares
        q(c = k), which sum to one in each document.
    levels : (n_support, n_levels)
        a.
    weights : (n_support, n_levels)
        exp(psi(a)), relative, that made the last phi; for `share_words`.
    bounds : (n_docs,)
        log sum_k exp(log_prior_k + B_k), over the support; or that of `factorised`.

    References
    ----------
    .. [1] Wang and Blei, "Variational Inference for the Nested Chinese Restaurant
       Process", NIPS 2009.
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1, n_nodes = log_weights.shape[1]
    cdef Py_ssize_t n_stubs = stub_nodes.shape[0], n_levels = stub_nodes.shape[1]
    cdef Py_ssize_t n_rows = n_nodes + n_levels, level, longest
    cdef Py_ssize_t doc_done = 0, done = 0
    cdef bint warm = starts is not None
    cdef Tree t
    cdef Document d
    cdef Stubs s
    cdef Starts old
    cdef Supports out
    _check(indptr, words, counts, log_weights)
    if not n_levels == off_tree.shape[0] == level_prior.shape[0]:
        raise ValueError("off_tree and level_prior must have an entry per level")
    if log_prior.shape[0] != n_stubs:
        raise ValueError("log_prior must have an entry per stub")
    if max_iter < 1 or not (prune >= 0.0 and enter >= 0.0):
        raise ValueError("max_iter must be positive, prune and enter not negative")
    cdef const int32_t[:, ::1] paths
    cdef const int32_t[::1] node_level
    paths, node_level = _rows(stub_nodes, n_nodes)
    cdef const int32_t[::1] mixture = np.arange(n_levels, dtype=np.int32)
    cdef const int32_t[::1] old_limits, old_stubs
    cdef const double[::1] old_shares
    cdef const double[:, ::1] old_levels
    nothing = (
        np.zeros(n_docs + 1, dtype=np.int32),
        np.zeros(0, dtype=np.int32),
        np.zeros(0),
        np.zeros((0, n_levels)),
    )
    old_limits, old_stubs, old_shares, old_levels = starts if warm else nothing
    if (
        old_limits.shape[0] != n_docs + 1
        or not old_limits[n_docs] == old_stubs.shape[0] == old_shares.shape[0]
        or old_levels.shape[0] != old_stubs.shape[0]
        or old_levels.shape[1] != n_levels
    ):
        raise ValueError("the arrays of starts disagree")
    _check_range(old_stubs, 0, n_stubs, "starts must name stubs")
    t.is_open = NULL
    if is_open is not None:
        if is_open.shape[0] != n_stubs or not np.any(is_open):
            raise ValueError("is_open must have an entry per stub, and open one")
        t.is_open = &is_open[0]
    longest = (longest_of(indptr) + 7) // 8 * 8
    cdef double[::1] space = np.empty(
        (2 * n_rows + n_levels + 2) * longest
        + _path_work(longest, n_levels)
        + 2 * n_stubs * (n_levels + 1)
        + 4 * n_levels
        + max(n_stubs, n_rows)
    )
    cdef int32_t[::1] known = np.full(n_stubs, -1, dtype=np.int32)
    cdef uint8_t[::1] needed = np.empty(n_rows, dtype=np.uint8)
    d.n_levels, d.n_rows, d.prior, d.done = n_levels, n_rows, &level_prior[0], &done
    d.needed = &needed[0]
    d.logs = &space[0]
    d.shared = d.logs + (n_rows + n_levels) * longest
    d.counts = d.shared + (n_rows + 1) * longest
    cdef double* work = d.counts + longest
    s.known = &known[0]
    s.scores = work + _path_work(longest, n_levels)
    s.shares = s.scores + n_stubs
    s.levels = s.shares + n_stubs
    s.weights = s.levels + n_stubs * n_levels
    s.cold = s.weights + n_stubs * n_levels
    s.warm = s.cold + 2 * n_levels
    s.terms = s.warm + 2 * n_levels
    t.n_nodes, t.n_stubs, t.n_levels = n_nodes, n_stubs, n_levels
    t.log_weights = &log_weights[0, 0] if log_weights.shape[0] else NULL
    t.off_tree, t.log_prior = &off_tree[0], &log_prior[0]
    t.paths, t.node_level, t.mixture = &paths[0, 0], &node_level[0], &mixture[0]
    t.max_iter, t.tol = max_iter, tol
    t.prune = fmin(prune, MOST_NATS)
    t.enter = fmin(enter, t.prune)
    t.all_levels = 0.0
    for level in range(n_levels):
        t.all_levels += level_prior[level]
    old.limits = &old_limits[0]
    old.stubs = &old_stubs[0] if old_stubs.shape[0] else NULL
    old.shares = &old_shares[0] if old_stubs.shape[0] else NULL
    old.levels = &old_levels[0, 0] if old_stubs.shape[0] else NULL
    limits, bounds = np.zeros(n_docs + 1, dtype=np.int32), np.empty(n_docs)
    cdef int32_t[::1] ends = limits
    cdef double[::1] values = bounds
    out.limits, out.bounds = &ends[0], &values[0] if n_docs else NULL
    out.n_put, out.room = 0, 2 * n_docs + n_stubs
    arrays = (
        np.empty(out.room, dtype=np.int32), np.empty(out.room),
        np.empty((out.room, n_levels)), np.empty((out.room, n_levels)),
    )
    while doc_done < n_docs:
        _point(&out, arrays)
        with nogil:
            doc_done = _infer(
                &t, &d, &s, &old, &out, indptr, words, counts, work, factorised,
                doc_done,
            )
        if doc_done < n_docs:  # out of room
            out.room *= 2
            arrays = [np.resize(a, (out.room, *a.shape[1:])) for a in arrays]
    return limits, *(array[: out.n_put].copy() for array in arrays), bounds


cdef int _point(Supports* out, object arrays) except -1:
    """Point at the arrays of supports."""
    cdef int32_t[::1] stubs = arrays[0]
    cdef double[::1] shares = arrays[1]
    cdef double[:, ::1] levels = arrays[2], weights = arrays[3]
    out.stubs, out.shares = &stubs[0], &shares[0]
    out.levels, out.weights = &levels[0, 0], &weights[0, 0]
    return 0


def share_words(
    const int32_t[::1] indptr,          # IN  (n_docs + 1,)
    const int32_t[::1] words,           # IN  (nnz,)
    const double[::1] counts,           # IN  (nnz,)
    const double[:, ::1] log_weights,   # IN  (n_words, n_nodes)
    const double[::1] off_tree,         # IN  (n_levels,)
    const int32_t[:, ::1] stub_nodes,   # IN  (n_stubs, n_levels)
    const double[::1] level_prior,      # IN  (n_levels,)
    const int32_t[::1] limits,          # IN  (n_docs + 1,) of the supports
    const int32_t[::1] stubs,           # IN  (n_support,)
    const double[::1] shares,           # IN  (n_support,)
    const double[:, ::1] weights,       # IN  (n_support, n_levels)
    bint factorised=False,
) -> tuple[NDArray[float64], NDArray[float64]]:
    """Share words among the levels of paths, as `infer_paths` left them.

    Returns
    -------
    tokens : (n_pairs, n_levels)
        x_nu phi_nkul; a pair is a word of a stub of a document's support, pairs stand
        by document, then stub, then word.
    entropies : (n_docs,)
        U_n = sum_k q_nk [log B(a_nk) - log B(alpha)
        - sum_u x_nu sum_l phi_nkul log phi_nkul - log q_nk]. The bound of a document
        is U_n + sum_k q_nk [log_prior_k + sum_ul x_nu phi_nkul E log W_klu].
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1, n_nodes = log_weights.shape[1]
    cdef Py_ssize_t n_levels = stub_nodes.shape[1], n_stubs = stub_nodes.shape[0]
    cdef Py_ssize_t doc, at, k, n, begin, longest = 0, width = 0, count, put = 0
    cdef Py_ssize_t done = 0
    cdef double total, norm
    cdef Document d
    _check(indptr, words, counts, log_weights)
    if limits.shape[0] != n_docs + 1 or not (
        limits[n_docs] == stubs.shape[0] == shares.shape[0] == weights.shape[0]
    ):
        raise ValueError("limits, stubs, shares and weights disagree")
    if not n_levels == weights.shape[1] == off_tree.shape[0] == level_prior.shape[0]:
        raise ValueError("weights, off_tree and level_prior disagree on levels")
    _check_range(stubs, 0, n_stubs, "stubs must be rows of stub_nodes")
    _check_range(
        stub_nodes, -1, n_nodes, "stub_nodes must be columns of log_weights, or -1"
    )
    for doc in range(n_docs):
        n, count = indptr[doc + 1] - indptr[doc], limits[doc + 1] - limits[doc]
        longest, width = max(longest, n), max(width, count)
        put += n * count
    longest = (longest + 7) // 8 * 8
    tokens, entropies = np.empty((put, n_levels)), np.zeros(n_docs)
    cdef double[:, ::1] out = tokens
    cdef double[::1] values = entropies
    cdef double[::1] space = np.empty(
        ((width + 1) * n_levels + 1) * longest
        + _path_work(longest, n_levels)
        + n_levels
    )
    cdef const double *table = &log_weights[0, 0] if log_weights.shape[0] else NULL
    # The levels of a mixture, or those of each stub of a document.
    cdef double* mixed = &space[0]
    d.n_levels, d.prior = n_levels, &level_prior[0]
    d.logs = mixed + n_levels * longest
    d.counts = d.logs + width * n_levels * longest
    cdef double* work = d.counts + longest
    cdef double* unused = work + _path_work(longest, n_levels)
    cdef const int32_t[:, ::1] paths = np.arange(
        (width + 1) * n_levels, dtype=np.int32
    ).reshape(width + 1, n_levels)
    put = 0
    with nogil:
        for doc in range(n_docs):
            begin, n = indptr[doc], indptr[doc + 1] - indptr[doc]
            at, count = limits[doc], limits[doc + 1] - limits[doc]
            if count == 0:
                continue
            _open(
                &d, &words[begin] if n else NULL, &counts[begin] if n else NULL, n, work
            )
            norm = _level_norm(&d)
            _list_stubs(
                &d, table, n_nodes, &off_tree[0], count, &stubs[at], &stub_nodes[0, 0]
            )
            if factorised:
                _mix_paths(&d, count, &paths[0, 0], &shares[at], mixed)
            total = 0.0
            for k in range(at, at + count):
                total += shares[k] * (norm + _share_path(
                    &d, mixed if factorised else d.logs,
                    &paths[0 if factorised else k - at, 0], &weights[k, 0],
                    &out[put, 0] if n else unused,
                ))
                if shares[k] > 0.0:
                    total -= shares[k] * log(shares[k])
                put += n
                count_work(n_levels * n, &done)
            values[doc] = total
    return tokens, entropies


def sum_words(
    const int64_t[::1] indptr,          # IN    (n_docs + 1,)
    const int32_t[::1] words,           # IN    (nnz,) columns of `word_sums`
    const double[::1] counts,           # IN    (nnz,) x > 0
    const int64_t[::1] limits,          # IN    (n_docs + 1,) of the supports
    const int32_t[::1] stubs,           # IN    (n_support,)
    const double[::1] shares,           # IN    (n_support,)
    const int64_t[::1] pairs,           # IN    (n_docs + 1,) of the pairs
    const double[:, ::1] tokens,        # IN    (n_pairs, n_levels) x phi
    const int32_t[:, ::1] stub_nodes,   # IN    (n_stubs, n_levels) rows; -1: off tree
    double[:, ::1] word_sums,           # INOUT (n_nodes, n_words) S
    double[:, ::1] variances,           # INOUT (n_nodes, n_words) R
    double[::1] masses,                 # INOUT (n_stubs,) m
    double[::1] off_tokens,             # INOUT (n_levels,) O
):
    """Sum the statistics of documents by node, see `share_words`.

    Adds

        S_iu = sum_n sum_k q_nk x_nu phi_nkul           (i: node of stub k at level l)
        R_iu = sum_n sum_k q_nk x_nu phi_nkul (1 - phi_nkul)
        m_k = sum_n q_nk
        O_l = sum_n sum_k q_nk sum_u x_nu phi_nkul      (stubs k that end above l).
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1, n_levels = stub_nodes.shape[1]
    cdef Py_ssize_t doc, k, at, level, n, put = 0
    cdef int32_t node
    cdef double share, held, added
    if n_docs < 0 or not limits.shape[0] == pairs.shape[0] == n_docs + 1:
        raise ValueError("indptr, limits and pairs disagree on documents")
    if not limits[n_docs] == stubs.shape[0] == shares.shape[0]:
        raise ValueError("limits, stubs and shares disagree")
    sizes = np.diff(indptr) * np.diff(limits)
    if (
        pairs[0] != 0
        or not np.array_equal(np.diff(pairs), sizes)
        or pairs[n_docs] != tokens.shape[0]
        or not words.shape[0] == counts.shape[0] == indptr[n_docs]
    ):
        raise ValueError("pairs must be words times stubs of each document")
    _check_range(stubs, 0, stub_nodes.shape[0], "stubs must be rows of stub_nodes")
    _check_range(
        stub_nodes, -1, word_sums.shape[0],
        "stub_nodes must be rows of word_sums, or -1",
    )
    _check_range(words, 0, word_sums.shape[1], "words must be columns of word_sums")
    if (
        tokens.shape[1] != n_levels
        or masses.shape[0] != stub_nodes.shape[0]
        or off_tokens.shape[0] != n_levels
        or word_sums.shape[0] != variances.shape[0]
        or word_sums.shape[1] != variances.shape[1]
    ):
        raise ValueError("sums disagree with stubs or levels")
    with nogil:
        for doc in range(n_docs):
            n = indptr[doc + 1] - indptr[doc]
            for k in range(limits[doc], limits[doc + 1]):
                share = shares[k]
                masses[stubs[k]] += share
                for level in range(n_levels):
                    node = stub_nodes[stubs[k], level]
                    for at in range(n):
                        held = tokens[put + at, level]
                        added = share * held
                        if node >= 0:
                            word_sums[node, words[indptr[doc] + at]] += added
                            variances[node, words[indptr[doc] + at]] += added * (
                                1.0 - held / counts[indptr[doc] + at]
                            )
                        else:
                            off_tokens[level] += added
                put += n
