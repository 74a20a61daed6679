"""The document step of the variational nested CRP: paths, levels and topics of words.

The loops over words are in src/ncrp_local.c, in versions for several instruction sets.
A *stub* is a node of the tree, and stands for the path to it if that is a leaf, for all
paths that leave the tree below it otherwise.
"""

import numpy as np

from libc.math cimport INFINITY, exp, fabs, fmax, fmin, log
from libc.stdint cimport int32_t, int64_t

cdef extern from "src/ncrp_local.h" nogil:
    size_t skbnp_path_work(size_t wide, size_t n_levels)
    void skbnp_path_logs(
        ptrdiff_t n, ptrdiff_t wide, const int32_t *words, ptrdiff_t n_nodes,
        ptrdiff_t n_levels, const double *log_weights, const double *off_tree,
        double *logs,
    )
    void skbnp_stub_logs(
        ptrdiff_t n, ptrdiff_t wide, const int32_t *words, ptrdiff_t n_nodes,
        ptrdiff_t n_levels, const double *log_weights, const double *off_tree,
        ptrdiff_t n_stubs, const int32_t *stubs, const int32_t *stub_nodes,
        double *logs,
    )
    void skbnp_shared_weights(
        ptrdiff_t wide, ptrdiff_t n_rows, const double *logs, double *shared
    )
    double skbnp_level_norm(
        ptrdiff_t n_levels, const double *prior, double n_tokens,
    )
    double skbnp_walk(
        ptrdiff_t wide, ptrdiff_t n_levels, const double *counts, const double *logs,
        ptrdiff_t n_rows, const double *shared, const int32_t *path,
        const double *prior, double *levels, double *weights, double *work,
        ptrdiff_t max_iter, double tol,
    )
    void skbnp_mix_paths(
        ptrdiff_t wide, ptrdiff_t n_levels, const double *logs, ptrdiff_t n_paths,
        const int32_t *paths, const double *shares, double *mixed,
    )
    void skbnp_path_terms(
        ptrdiff_t wide, ptrdiff_t n_levels, const double *counts, const double *logs,
        ptrdiff_t n_rows, const int32_t *node_level, const double *weights,
        const double *work, double *terms,
    )
    double skbnp_path_tokens(
        ptrdiff_t n, ptrdiff_t wide, ptrdiff_t n_levels, const double *counts,
        const double *logs, const int32_t *path, const double *prior,
        const double *weights, double *tokens, double *work,
    )

cdef enum:
    CHEAP = 3

#: Iterations by which all stubs are scored before most of them are left out.
CHEAP_ITERATIONS = CHEAP
#: Nats below the best at which a stub is left out in any case: a share of zero.
MOST_NATS = 700.0


cdef inline bint _is_in(
    double score, double best, int32_t known, double prune, double enter
) noexcept nogil:
    """Whether a stub is near enough to the best; those known before, more easily."""
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


cdef double _walk_each(
    Py_ssize_t wide, Py_ssize_t n_levels, Py_ssize_t n_stubs, const double *counts,
    const double *logs, Py_ssize_t n_rows, const double *shared, const int32_t *paths,
    const double *log_prior, const double *prior, const double *cold,
    const int32_t *known, const double *remembered, double *scores, double *levels,
    double *weights, double *shares, double *work, double *start, Py_ssize_t max_iter,
    double tol, double prune, double enter,
) noexcept nogil:
    """Levels for each stub on its own; returns the bound without their norm."""
    cdef Py_ssize_t k, level
    cdef Py_ssize_t first = min(max_iter, <Py_ssize_t>CHEAP)
    cdef double best = -INFINITY, score
    cdef double *own
    for k in range(n_stubs):
        own = &levels[k * n_levels]
        for level in range(n_levels):
            own[level] = cold[level]
        scores[k] = log_prior[k] + skbnp_walk(
            wide, n_levels, counts, logs, n_rows, shared, &paths[k * n_levels], prior,
            own, &weights[k * n_levels], work, first, tol,
        )
        if known[k] >= 0:
            for level in range(n_levels):
                start[level] = remembered[known[k] * n_levels + level]
            score = log_prior[k] + skbnp_walk(
                wide, n_levels, counts, logs, n_rows, shared, &paths[k * n_levels],
                prior, start, &start[n_levels], work, first, tol,
            )
            if score >= scores[k]:
                scores[k] = score
                for level in range(n_levels):
                    own[level] = start[level]
                    weights[k * n_levels + level] = start[n_levels + level]
        best = fmax(best, scores[k])
    if max_iter > first:
        for k in range(n_stubs):
            if _is_in(scores[k], best, known[k], prune, enter):
                scores[k] = log_prior[k] + skbnp_walk(
                    wide, n_levels, counts, logs, n_rows, shared, &paths[k * n_levels],
                    prior, &levels[k * n_levels], &weights[k * n_levels], work,
                    max_iter - first, tol,
                )
    return _shares(n_stubs, scores, known, prune, enter, shares)


cdef double _walk_all(
    Py_ssize_t wide, Py_ssize_t n_levels, Py_ssize_t n_stubs, Py_ssize_t n_rows,
    const double *counts, double n_tokens, double *logs, const int32_t *paths,
    const int32_t *node_level, const int32_t *mixture, const int32_t *known,
    const double *log_prior, const double *prior, double *levels, double *weights,
    double *scores,
    double *shares, double *work, double *terms, Py_ssize_t max_iter, double tol,
    double prune,
) noexcept nogil:
    """Levels that all stubs share; returns the bound without their norm.

    Starts from `levels` and `shares`. The last `n_levels` rows of `logs` are for the
    mixture.
    """
    cdef Py_ssize_t iteration = 0, k, level
    cdef double *mixed = &logs[n_rows * wide]
    cdef double moved, turned, bound
    cdef bint converged = False
    while True:
        for level in range(n_levels):
            terms[level] = levels[level]
        skbnp_mix_paths(wide, n_levels, logs, n_stubs, paths, shares, mixed)
        bound = skbnp_walk(
            wide, n_levels, counts, mixed, n_rows, NULL, mixture, prior, levels,
            weights, work, 1, 0.0,
        )
        # What is returned goes with the shares: they never change last.
        if converged or iteration == max_iter:
            break
        moved = turned = 0.0
        for level in range(n_levels):
            moved += fabs(levels[level] - terms[level])
        skbnp_path_terms(
            wide, n_levels, counts, logs, n_rows, node_level, weights, work, terms
        )
        for k in range(n_stubs):
            scores[k] = log_prior[k]
            for level in range(n_levels):
                scores[k] += terms[paths[k * n_levels + level]]
        for k in range(n_stubs):
            terms[k] = shares[k]
        _shares(n_stubs, scores, known, prune, prune, shares)
        for k in range(n_stubs):
            turned += fabs(shares[k] - terms[k])
        converged = moved <= tol * n_tokens and turned <= tol
        iteration += 1
    for k in range(n_stubs):
        if shares[k] > 0.0:
            bound += shares[k] * (log_prior[k] - log(shares[k]))
    return bound


def _rows(const int32_t[:, ::1] stub_nodes, Py_ssize_t n_nodes):
    """Rows of each stub's path, with those of the levels behind the nodes."""
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
    if words.shape[0] and not (
        0 <= np.min(words) and np.max(words) < log_weights.shape[0]
    ):
        raise ValueError("words must be rows of log_weights")


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
    object starts=None,
    double enter=INFINITY,
):
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
    iteration starts from there alone.

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
    cdef Py_ssize_t n_rows = n_nodes + n_levels
    cdef Py_ssize_t doc, done, i, k, level, at, begin, n, wide, longest = 0, used = 0
    cdef double n_tokens, total, all_levels = 0.0
    cdef bint warm = starts is not None
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
    if old_stubs.shape[0] and not (
        0 <= np.min(old_stubs) and np.max(old_stubs) < n_stubs
    ):
        raise ValueError("starts must name stubs")
    for doc in range(n_docs):
        longest = max(longest, indptr[doc + 1] - indptr[doc])
    longest = (longest + 7) // 8 * 8
    cdef Py_ssize_t wider = max(n_stubs, n_rows)
    cdef double[::1] space = np.empty(
        (2 * n_rows + n_levels + 2) * longest
        + skbnp_path_work(longest, n_levels)
        + 2 * n_stubs * (n_levels + 1)
        + 4 * n_levels
        + wider
    )
    cdef double *logs = &space[0]
    cdef const double *table = &log_weights[0, 0] if log_weights.shape[0] else NULL
    cdef double *shared = logs + (n_rows + n_levels) * longest
    cdef double *scaled = shared + (n_rows + 1) * longest
    cdef double *work = scaled + longest
    cdef double *scores = work + skbnp_path_work(longest, n_levels)
    cdef double *q = scores + n_stubs
    cdef double *own = q + n_stubs
    cdef double *factors = own + n_stubs * n_levels
    cdef double *cold = factors + n_stubs * n_levels
    cdef double *start = cold + 2 * n_levels
    cdef double *terms = start + 2 * n_levels
    known_stubs = np.full(n_stubs, -1, dtype=np.int32)
    cdef int32_t[::1] known = known_stubs
    limits, bounds = np.zeros(n_docs + 1, dtype=np.int32), np.empty(n_docs)
    cdef int32_t[::1] ends = limits
    cdef double[::1] values = bounds
    cdef Py_ssize_t room = 2 * n_docs + n_stubs
    stubs, shares = np.empty(room, dtype=np.int32), np.empty(room)
    levels, weights = np.empty((2, room, n_levels))
    cdef int32_t[::1] put_stubs = stubs
    cdef double[::1] put_shares = shares
    cdef double[:, ::1] put_levels = levels, put_weights = weights
    prune = fmin(prune, MOST_NATS)
    enter = fmin(enter, prune)
    for level in range(n_levels):
        all_levels += level_prior[level]
    done = 0
    while done < n_docs:
        with nogil:
            for doc in range(done, n_docs):
                if used + n_stubs > room:
                    break
                begin, n = indptr[doc], indptr[doc + 1] - indptr[doc]
                wide = (n + 7) // 8 * 8
                n_tokens = 0.0
                for i in range(n):
                    scaled[i] = counts[begin + i]
                    n_tokens += scaled[i]
                for i in range(n, wide):
                    scaled[i] = 0.0
                for level in range(n_levels):
                    cold[level] = level_prior[level] * (1.0 + n_tokens / all_levels)
                skbnp_path_logs(
                    n, wide, &words[begin] if n else NULL, n_nodes, n_levels,
                    table, &off_tree[0], logs,
                )
                if factorised:
                    total = 0.0
                    for k in range(n_stubs):
                        q[k] = 0.0
                    for at in range(old_limits[doc], old_limits[doc + 1]):
                        q[old_stubs[at]] = old_shares[at]
                        total += old_shares[at]
                        for level in range(n_levels):
                            cold[level] = old_levels[at, level]
                    if total > 0.0:
                        for k in range(n_stubs):
                            q[k] /= total
                    else:
                        _shares(n_stubs, &log_prior[0], &known[0], prune, prune, q)
                    values[doc] = _walk_all(
                        wide, n_levels, n_stubs, n_rows, scaled, n_tokens, logs,
                        &paths[0, 0], &node_level[0], &mixture[0], &known[0],
                        &log_prior[0],
                        &level_prior[0], cold, &cold[n_levels], scores, q, work, terms,
                        max_iter, tol, prune,
                    )
                    for k in range(n_stubs):
                        for level in range(n_levels):
                            own[k * n_levels + level] = cold[level]
                            factors[k * n_levels + level] = cold[n_levels + level]
                else:
                    skbnp_shared_weights(wide, n_rows, logs, shared)
                    for at in range(old_limits[doc], old_limits[doc + 1]):
                        known[old_stubs[at]] = <int32_t>at
                    values[doc] = _walk_each(
                        wide, n_levels, n_stubs, scaled, logs, n_rows, shared,
                        &paths[0, 0], &log_prior[0], &level_prior[0], cold, &known[0],
                        &old_levels[0, 0] if old_stubs.shape[0] else NULL,
                        scores, own, factors, q, work, start, max_iter, tol * n_tokens,
                        prune, enter,
                    )
                    for at in range(old_limits[doc], old_limits[doc + 1]):
                        known[old_stubs[at]] = -1
                values[doc] += skbnp_level_norm(n_levels, &level_prior[0], n_tokens)
                for k in range(n_stubs):
                    if q[k] > 0.0:
                        put_stubs[used] = <int32_t>k
                        put_shares[used] = q[k]
                        for level in range(n_levels):
                            put_levels[used, level] = own[k * n_levels + level]
                            put_weights[used, level] = factors[k * n_levels + level]
                        used += 1
                ends[doc + 1] = <int32_t>used
                done = doc + 1
        if done < n_docs:  # out of room
            room = 2 * room
            stubs, shares = np.resize(stubs, room), np.resize(shares, room)
            levels = np.resize(levels, (room, n_levels))
            weights = np.resize(weights, (room, n_levels))
            put_stubs, put_shares = stubs, shares
            put_levels, put_weights = levels, weights
    return (
        limits,
        stubs[:used].copy(),
        shares[:used].copy(),
        levels[:used].copy(),
        weights[:used].copy(),
        bounds,
    )


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
):
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
    cdef Py_ssize_t doc, at, i, k, n, wide, begin, longest = 0, width = 0, count
    cdef Py_ssize_t put = 0
    cdef double total, n_tokens, norm
    _check(indptr, words, counts, log_weights)
    if limits.shape[0] != n_docs + 1 or not (
        limits[n_docs] == stubs.shape[0] == shares.shape[0] == weights.shape[0]
    ):
        raise ValueError("limits, stubs, shares and weights disagree")
    if not n_levels == weights.shape[1] == off_tree.shape[0] == level_prior.shape[0]:
        raise ValueError("weights, off_tree and level_prior disagree on levels")
    if stubs.shape[0] and not 0 <= np.min(stubs) <= np.max(stubs) < n_stubs:
        raise ValueError("stubs must be rows of stub_nodes")
    given = np.asarray(stub_nodes)
    if given.size and not -1 <= given.min() <= given.max() < n_nodes:
        raise ValueError("stub_nodes must be columns of log_weights, or -1")
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
        + skbnp_path_work(longest, n_levels)
        + n_levels
    )
    cdef const double *table = &log_weights[0, 0] if log_weights.shape[0] else NULL
    # The levels of a mixture, or those of each stub of a document.
    cdef double *mixed = &space[0]
    cdef double *logs = mixed + n_levels * longest
    cdef double *scaled = logs + width * n_levels * longest
    cdef double *work = scaled + longest
    cdef double *unused = work + skbnp_path_work(longest, n_levels)
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
            wide = (n + 7) // 8 * 8
            n_tokens = 0.0
            for i in range(wide):
                scaled[i] = counts[begin + i] if i < n else 0.0
                n_tokens += scaled[i]
            norm = skbnp_level_norm(n_levels, &level_prior[0], n_tokens)
            skbnp_stub_logs(
                n, wide, &words[begin] if n else NULL, n_nodes, n_levels,
                table, &off_tree[0], count, &stubs[at], &stub_nodes[0, 0],
                logs,
            )
            if factorised:
                skbnp_mix_paths(
                    wide, n_levels, logs, count, &paths[0, 0], &shares[at], mixed
                )
            total = 0.0
            for k in range(at, at + count):
                total += shares[k] * (norm + skbnp_path_tokens(
                    n, wide, n_levels, scaled, mixed if factorised else logs,
                    &paths[0 if factorised else k - at, 0], &level_prior[0],
                    &weights[k, 0], &out[put, 0] if n else unused, work,
                ))
                if shares[k] > 0.0:
                    total -= shares[k] * log(shares[k])
                put += n
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
    """Add up what documents say about nodes, see `share_words`.

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
    given = np.asarray(stub_nodes)
    if stubs.shape[0] and not 0 <= np.min(stubs) <= np.max(stubs) < given.shape[0]:
        raise ValueError("stubs must be rows of stub_nodes")
    if given.size and not -1 <= given.min() <= given.max() < word_sums.shape[0]:
        raise ValueError("stub_nodes must be rows of word_sums, or -1")
    if words.shape[0] and not (
        0 <= np.min(words) and np.max(words) < word_sums.shape[1]
    ):
        raise ValueError("words must be columns of word_sums")
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
