"""The collapsed local step of the nested HDP: documents mix nodes of a tree.

A document walks down from the root: at an inner node it stops with a probability that
is Beta(s, g), or goes on to a child by a Dirichlet process with base weights beta of
the children and concentration A. If words have tables (see `_restaurant`), tables walk
down in place of tokens. Passes over words are in src/nested.h.
"""

import numpy as np

from libc.math cimport fabs, fmax, fmin
from libc.stdint cimport int32_t
from libc.stdlib cimport free

from skbnp.kernels._interrupts cimport count_work
from skbnp.kernels._math cimport fast_log
from skbnp.kernels._restaurant cimport (
    Restaurant,
    expected_tables,
    log_repeating,
    read_grid,
)
from skbnp.kernels._sparse cimport (
    Entries,
    arrays_of,
    grown,
    longest_of,
    release,
    reserve,
)

cdef extern from "src/nested.h" nogil:
    """
    struct skbnp_tree;
    struct skbnp_walk;
    SKBNP_CLONES static Py_ssize_t skbnp_choose_nodes(
        const struct skbnp_tree *, const struct skbnp_walk *, double *, int32_t *);
    SKBNP_CLONES static double skbnp_walk_down(
        const struct skbnp_tree *, struct skbnp_walk *, Py_ssize_t);
    """
    void sum_below(
        Py_ssize_t n_used, Py_ssize_t wide, const int32_t* parent, const double* taken,
        const double* shares, double* below,
    )
    void weigh_nodes(
        Py_ssize_t n_used, Py_ssize_t wide, const int32_t* parent, const double* prior,
        const double* total, const double* rest, double stop, double go,
        const double* tokens, const double* subtree, const double* taken,
        const double* own, const double* inverse, double eta, const double* tile,
        const double* below, double* onward, double* shares, double* sums,
        double* left,
    )
    void share_out(
        Py_ssize_t n_used, Py_ssize_t wide, const double* counts, const double* sums,
        double* shares, double* tokens,
    )
    double dot(Py_ssize_t n, const double* e, const double* phi)
    void add_scaled(Py_ssize_t n, double scale, const double* phi, double* sum)

    enum:
        WORDS

#: Iterations over all nodes before those in use are chosen, and the share of a short
#: document's tokens that is enough.
N_START, ACTIVE_SHARE = 3, 0.02
#: Responsibilities below are zero.
LEAST = 1e-3

cdef Py_ssize_t START_ITER = N_START
cdef double SHARE_IN_USE = ACTIVE_SHARE, SMALLEST_SHARE = LEAST


# The tree of a visit; parents come before their children.
cdef struct Tree "skbnp_tree":
    Py_ssize_t n_nodes, max_iter
    const double* topics        # (n_words, n_nodes) phi
    const double* norm          # (n_nodes,) V eta + S_u
    const int32_t* parent       # (n_nodes,)
    const double* prior         # (n_nodes,) A beta, of the children of the parent
    const double* total         # (n_nodes,) A of its children; 0 at leaves
    const double* rest          # (n_nodes,) A beta of children that are not in the tree
    double stop, go, eta, tol, n_features
    double active               # tokens of a node in use
    Restaurant restaurant       # of no rows: a token opens a table each
    Py_ssize_t* done            # work, for `count_work`


# A document, and the nodes that it uses: arrays by node, rows of `wide` words.
cdef struct Walk "skbnp_walk":
    Py_ssize_t n, wide, room
    const int32_t* words
    const double* counts
    double* opened              # (n,) tables at the start
    double n_tokens, n_tables
    double* memory              # all that follows; grows
    double* tile
    double* shares
    double* below               # (n_used, WORDS)
    double* onward              # (n_used, WORDS)
    double* tokens              # (n_used,), and the next six
    double* fresh
    double* subtree
    double* prior
    double* total
    double* rest
    double* inverse
    double* n_w                 # (wide,) tables, and the next three
    double* taken
    double* own                 # n_w times what the totals hold of it
    double* base                # probability of a token or table given all others
    int32_t* parent             # (n_used,)
    int32_t* nodes              # (n_used,)
    bint whole                  # whether all tokens of a word are taken out, or one
    bint repeats                # whether its words have tables
    double held


cdef int _divide(Walk* d, Py_ssize_t n_used) except -1 nogil:
    """Allocate memory for the nodes in use."""
    cdef Py_ssize_t wide = (d.n + WORDS - 1) // WORDS * WORDS
    cdef Py_ssize_t work = (2 * wide + 2 * WORDS + 7) * n_used + 4 * wide
    if work > d.room:
        d.memory, d.room = <double*>grown(d.memory, work * sizeof(double)), work
    d.wide, d.tile = wide, d.memory
    d.shares = d.tile + wide * n_used
    d.below = d.shares + wide * n_used
    d.onward = d.below + WORDS * n_used
    d.tokens = d.onward + WORDS * n_used
    d.fresh = d.tokens + n_used
    d.subtree = d.fresh + n_used
    d.prior = d.subtree + n_used
    d.total = d.prior + n_used
    d.rest = d.total + n_used
    d.inverse = d.rest + n_used
    d.n_w = d.inverse + n_used
    d.taken = d.n_w + wide
    d.own = d.taken + wide
    d.base = d.own + wide
    return 0


cdef inline void sum_subtrees(
    Py_ssize_t n, const int32_t* parent, const double* tokens, double* subtree
) noexcept nogil:
    """Tokens at nodes and below."""
    cdef Py_ssize_t u
    for u in range(n):
        subtree[u] = tokens[u]
    for u in range(n - 1, 0, -1):
        subtree[parent[u]] += subtree[u]


cdef inline void weigh(
    const Tree* m, const double* tokens, const double* subtree, double* onward,
    double* e,
) noexcept nogil:
    """Probability of each node for the next token of a document."""
    cdef Py_ssize_t u
    cdef double weight, share, further
    for u in range(m.n_nodes):
        weight = 1.0
        if u:
            weight = onward[m.parent[u]] * (subtree[u] + m.prior[u])
        if m.total[u] > 0.0:
            further = fmax(subtree[u] - tokens[u], 0.0)
            share = weight / (tokens[u] + further + m.stop + m.go)
            onward[u] = share * (further + m.go) / (further + m.total[u])
            weight = share * (tokens[u] + m.stop)
        e[u] = weight


cdef Py_ssize_t _choose_nodes "skbnp_choose_nodes"(
    const Tree* m, const Walk* d, double* work, int32_t* chosen
) except -1 nogil:
    """Iterate N_u = e_u sum_w n_w phi_wu / s_w over all nodes, e of the other counts.

    Puts the nodes with enough tokens and all above them, rising; how many. `work` is
    (5, n_nodes), of which the first row gets the tokens.
    """
    cdef double* tokens = work
    cdef double* subtree = tokens + m.n_nodes
    cdef double* onward = subtree + m.n_nodes
    cdef double* e = onward + m.n_nodes
    cdef double* sums = e + m.n_nodes
    cdef const double* phi
    cdef double change, enough = fmin(m.active, SHARE_IN_USE * d.n_tables)
    cdef Py_ssize_t u, i, most = 0, put = 0
    for u in range(m.n_nodes):
        tokens[u] = 0.0
    for _ in range(START_ITER):
        sum_subtrees(m.n_nodes, m.parent, tokens, subtree)
        weigh(m, tokens, subtree, onward, e)
        for u in range(m.n_nodes):
            sums[u] = 0.0
        for i in range(d.n):
            phi = m.topics + d.words[i] * m.n_nodes
            add_scaled(
                m.n_nodes, d.opened[i] / dot(m.n_nodes, e, phi), phi, sums
            )
        count_work(2 * d.n * m.n_nodes, m.done)
        change = 0.0
        for u in range(m.n_nodes):
            sums[u] *= e[u]
            change += fabs(sums[u] - tokens[u])
            tokens[u] = sums[u]
        if change < m.tol * d.n_tables:
            break
    for u in range(m.n_nodes):
        chosen[u] = tokens[u] >= enough
        most = u if tokens[u] > tokens[most] else most
    chosen[most] = chosen[0] = 1
    for u in range(m.n_nodes - 1, 0, -1):
        chosen[m.parent[u]] |= chosen[u]
    for u in range(m.n_nodes):
        if chosen[u]:
            chosen[put] = <int32_t>u
            put += 1
    return put


cdef inline void set_tables(Walk* d, Py_ssize_t i, double tables) noexcept nogil:
    """Set the tables of a word, and what is taken out of all others for it."""
    d.n_w[i] = tables
    d.taken[i] = tables if d.whole else fmin(tables, 1.0)
    d.own[i] = d.held * tables


cdef inline void open_tables(const Tree* m, Walk* d) noexcept nogil:
    """Start with a table for each token, or for each word if words have tables."""
    cdef Py_ssize_t i
    d.n_tokens = d.n_tables = 0.0
    for i in range(d.n):
        d.n_tokens += d.counts[i]
    # Counts beyond single precision are taken as they are.
    d.repeats = m.restaurant.n_rows > 0 and d.n_tokens <= 1e9
    for i in range(d.n):
        d.opened[i] = fmin(d.counts[i], 1.0) if d.repeats else d.counts[i]
        d.n_tables += d.opened[i]


cdef inline void seat_words(const Tree* m, Walk* d, Py_ssize_t begin) noexcept nogil:
    """Expected tables of the words of a chunk, given those of all other words."""
    cdef const Restaurant* r = &m.restaurant
    cdef double opens
    cdef Py_ssize_t i
    for i in range(begin, min(begin + <Py_ssize_t>WORDS, d.n)):
        if d.counts[i] > 1.0:
            opens = r.concentration + r.discount * fmax(d.n_tables - d.n_w[i], 0.0)
            opens *= d.base[i]
            set_tables(d, i, expected_tables(r, <float>d.counts[i], <float>opens))


cdef inline void count_tables(Walk* d) noexcept nogil:
    cdef Py_ssize_t i
    d.n_tables = 0.0
    for i in range(d.n):
        d.n_tables += d.n_w[i]


cdef inline double log_token(const Tree* m, const Walk* d, Py_ssize_t i) noexcept nogil:
    """Log probability of a token given all others of its document."""
    cdef const Restaurant* r = &m.restaurant
    if r.n_rows == 0:
        return fast_log(fmax(d.base[i], 1e-300))
    return log_repeating(
        r, r.discount, r.concentration, d.counts[i], fmax(d.n_tables - d.n_w[i], 0.0),
        d.n_tokens, d.base[i],
    )


cdef inline int open_walk(
    const Tree* m, Walk* d, const double* tokens, const int32_t* chosen,
    Py_ssize_t n_used, int32_t* place,
) except -1 nogil:
    """Read the counts and priors of the nodes in use, and of words.

    Words behind the last have no tokens. Responsibilities are zero, so that nothing is
    taken out in the first iteration.
    """
    cdef Py_ssize_t i, a, u, w
    for a in range(n_used):
        u = chosen[a]
        place[u] = <int32_t>a
        d.nodes[a] = <int32_t>u
        d.parent[a] = place[m.parent[u]] if a else -1
        d.tokens[a], d.prior[a] = tokens[u], m.prior[u]
        d.total[a], d.rest[a], d.inverse[a] = m.total[u], m.rest[u], 1.0 / m.norm[u]
    for i in range(d.wide):
        w = d.words[min(i, d.n - 1)]
        set_tables(d, i, d.opened[i] if i < d.n else 0.0)
        for a in range(n_used):
            d.tile[a * d.wide + i] = m.topics[w * m.n_nodes + chosen[a]]
            d.shares[a * d.wide + i] = 0.0
    count_work(d.wide * n_used, m.done)
    return 0


cdef double _walk_down "skbnp_walk_down"(
    const Tree* m, Walk* d, Py_ssize_t n_used
) except? -1 nogil:
    """Iterate responsibilities, all words at once; log probability of the tokens.

    Each is that of a token given all others: of the last iteration.
    """
    cdef double[WORDS] sums
    cdef double[WORDS] left
    cdef double change, total = 0.0
    cdef Py_ssize_t i, j, a, n_made
    for n_made in range(m.max_iter):
        sum_subtrees(n_used, d.parent, d.tokens, d.subtree)
        for a in range(n_used):
            d.fresh[a] = 0.0
        i = 0
        while i < d.wide:
            sum_below(
                n_used, d.wide, d.parent, d.taken + i, d.shares + i, d.below
            )
            weigh_nodes(
                n_used, d.wide, d.parent, d.prior, d.total, d.rest, m.stop, m.go,
                d.tokens, d.subtree, d.taken + i, d.own + i, d.inverse, m.eta,
                d.tile + i, d.below, d.onward, d.shares + i, sums, left,
            )
            for j in range(WORDS):
                d.base[i + j] = sums[j] + left[j] / m.n_features
            if d.repeats:
                seat_words(m, d, i)
            share_out(n_used, d.wide, d.n_w + i, sums, d.shares + i, d.fresh)
            count_work(4 * WORDS * n_used, m.done)
            i += WORDS
        change = 0.0
        for a in range(n_used):
            change += fabs(d.fresh[a] - d.tokens[a])
            d.tokens[a] = d.fresh[a]
        if d.repeats:
            count_tables(d)
        if change < m.tol * d.n_tables and n_made > 0:  # nothing is taken out at first
            break
    for i in range(d.n):
        total += d.counts[i] * log_token(m, d, i)
    return total


cdef Py_ssize_t _keep_shares(
    const Walk* d, Py_ssize_t n_used, int32_t* lengths, int32_t* places, double* sums,
    double* tokens,
) noexcept nogil:
    """Write n_w r_wu, word by word, unless r_wu is tiny; they sum to n_w."""
    cdef Py_ssize_t put = 0, begin, i, a
    cdef double total, share, least = fmin(SMALLEST_SHARE, 0.5 / <double>n_used)
    for a in range(n_used):
        tokens[a] = 0.0
    for i in range(d.n):
        begin, total = put, 0.0
        for a in range(n_used):
            share = d.shares[a * d.wide + i]
            if share >= least:
                places[put], sums[put] = <int32_t>a, share
                total += share
                put += 1
        for a in range(begin, put):
            sums[a] *= d.n_w[i] / total
            tokens[places[a]] += sums[a]
            places[a] = d.nodes[places[a]]
        lengths[i] = <int32_t>(put - begin)
    return put


def infer_nested(
    const int32_t[::1] indptr,      # IN    (n_docs + 1,)
    const int32_t[::1] words,       # IN    (nnz,) rows of `topics`
    const double[::1] counts,       # IN    (nnz,) > 0
    const double[:, ::1] topics,    # IN    (n_words, n_nodes) phi > 0
    const double[::1] norm,         # IN    (n_nodes,) V eta + S_u
    double eta,                     # IN    topic prior
    const int32_t[::1] parent,      # IN    (n_nodes,) before the node; -1 at the root
    const double[::1] prior,        # IN    (n_nodes,) A beta_u; not read at the root
    const double[::1] total,        # IN    (n_nodes,) A of the children; 0 at leaves
    const double[::1] rest,         # IN    (n_nodes,) A beta of all other children
    double stop,                    # IN    s > 0
    double go,                      # IN    g > 0
    const double[::1] held,         # IN    (n_docs,) how often totals count a document
    bint whole,                     # IN    take out all tokens of a word, or one
    double active,                  # IN    tokens of a node in use
    Py_ssize_t max_iter,
    double tol,
    double n_features,              # IN    V
    const float[:, ::1] grid=None,  # IN    of expected tables; none: no word repeats
    double discount=1.0,
    double concentration=0.0,
) -> tuple[
    NDArray[int32], NDArray[int32], NDArray[float64], NDArray[intp], NDArray[int32],
    NDArray[float64], float, NDArray[float64], NDArray[float64],
]:
    """Responsibilities of nodes for the words of documents, all words at once.

    With N_u expected tokens of the document at node u and M_u there and below, without
    those taken out: all n_w r_wu of the word itself, or min(n_w, 1) r_wu,

        w_root = 1,    stop_u = (N_u + s) / (M_u + s + g), 1 at leaves,
        w_c = w_u (1 - stop_u) (M_c + A beta_c) / (M_u - N_u + A),   c below u,
        r_wu ~ w_u stop_u max(phi_wu - h n_w r_wu / norm_u, eta / norm_u),

    at least twice if `max_iter` allows, until sum_u |change of N_u| < tol times the
    tokens, at most `max_iter` times. Nodes are those with `active` expected tokens (or
    a share of `ACTIVE_SHARE`, if that is less) after `N_START` iterations in which
    nothing is taken out, and all above them.

    If there is a `grid`, n_w are expected tables t_w of c_w tokens in each iteration,

        t_w = E[t | c_w, m],   m = (c + d [T - t_w]) p_w,   T = sum_w t_w,

    with p_w the normaliser of r_w, from the T and t_w of the iteration before; they are
    min(c_w, 1) in the first.

    Time O(nnz * n_nodes + iterations * nnz * nodes in use).

    Returns
    -------
    limits : int32 (n_docs + 1,)
        Of the nodes of documents in the next two.
    nodes : int32
        In increasing order.
    tokens : float64
        N_u there.
    ends : intp (nnz + 1,)
        Limits of the stored counts in the next two.
    used : int32
        Nodes of each stored count, in increasing order.
    sums : float64
        n_w r_wu.
    log_predictive : float
        Sum over the tokens of the log probability given all others, of the last
        iteration; children that are not in the tree predict each word equally.
    tables, base : float64
        t_w and p_w of each stored count, (nnz,); (0,) without a `grid`.
    """
    cdef Py_ssize_t n_docs = indptr.shape[0] - 1, nnz = counts.shape[0]
    cdef Py_ssize_t n_nodes = topics.shape[1], longest = longest_of(indptr), done = 0
    cdef Py_ssize_t doc, i, u, begin, n_used, put
    cdef double logs = 0.0
    cdef Tree m
    cdef Walk d
    cdef Entries kept = Entries(NULL, NULL, 0, 0), shared = Entries(NULL, NULL, 0, 0)
    if words.shape[0] != nnz or indptr[n_docs] != nnz or held.shape[0] != n_docs:
        raise ValueError("indptr, words, counts and held disagree on documents")
    if not n_nodes == norm.shape[0] == parent.shape[0] == prior.shape[0]:
        raise ValueError("topics, norm, parent and prior disagree on the nodes")
    if not n_nodes == total.shape[0] == rest.shape[0]:
        raise ValueError("topics, total and rest disagree on the nodes")
    read_grid(&m.restaurant, grid, discount, concentration)
    for u in range(n_nodes):
        if not (parent[u] == -1 if u == 0 else 0 <= parent[u] < u):
            raise ValueError("parents must come before their children")
    limits, ends = np.zeros(n_docs + 1, np.int32), np.zeros(nnz + 1, np.intp)
    put = nnz if grid is not None else 0
    tables, base = np.ones(put), np.ones(put)
    if longest == 0:
        none, nothing = np.zeros(0, np.int32), np.zeros(0)
        return limits, none, nothing, ends, none, nothing, 0.0, tables, base
    cdef double[::1] seated = tables, based = base, opened = np.empty(longest)
    cdef int32_t[::1] doc_limits = limits
    cdef Py_ssize_t[::1] word_ends = ends
    cdef int32_t[:, ::1] numbers = np.empty((4, n_nodes), np.int32)
    cdef int32_t[::1] lengths = np.empty(longest, np.int32)
    cdef double[:, ::1] work = np.empty((5, n_nodes))
    m.n_nodes, m.max_iter, m.topics, m.norm = n_nodes, max_iter, &topics[0, 0], &norm[0]
    m.parent, m.prior, m.total, m.rest = &parent[0], &prior[0], &total[0], &rest[0]
    m.stop, m.go, m.eta, m.tol, m.n_features = stop, go, eta, tol, n_features
    m.active, m.done = active, &done
    d.memory, d.room, d.whole, d.opened = NULL, 0, whole, &opened[0]
    d.parent, d.nodes = &numbers[0, 0], &numbers[1, 0]
    try:
        with nogil:
            for doc in range(n_docs):
                begin, d.n = indptr[doc], indptr[doc + 1] - indptr[doc]
                doc_limits[doc + 1] = doc_limits[doc]
                if d.n == 0:
                    continue
                d.words, d.counts, d.held = &words[begin], &counts[begin], held[doc]
                open_tables(&m, &d)
                n_used = _choose_nodes(&m, &d, &work[0, 0], &numbers[2, 0])
                _divide(&d, n_used)
                reserve(&kept, n_used)
                reserve(&shared, d.n * n_used)
                open_walk(
                    &m, &d, &work[0, 0], &numbers[2, 0], n_used, &numbers[3, 0]
                )
                logs += _walk_down(&m, &d, n_used)
                put = _keep_shares(
                    &d, n_used, &lengths[0], shared.indices + shared.n,
                    shared.values + shared.n, kept.values + kept.n,
                )
                shared.n += put
                for i in range(d.n):
                    word_ends[begin + i + 1] = word_ends[begin + i] + lengths[i]
                for i in range(d.n if m.restaurant.n_rows else 0):
                    seated[begin + i], based[begin + i] = d.n_w[i], d.base[i]
                for u in range(n_used):
                    kept.indices[kept.n + u] = d.nodes[u]
                kept.n += n_used
                doc_limits[doc + 1] += <int32_t>n_used
        nodes, tokens = arrays_of(&kept)
        used, sums = arrays_of(&shared)
    finally:
        free(d.memory)
        release(&kept)
        release(&shared)
    return limits, nodes, tokens, ends, used, sums, logs, tables, base
