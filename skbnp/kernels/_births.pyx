"""Births of nodes from rows of others, see `moves.py` of dependent trees.

Nodes go by position in the tree with the new one. Vectors stand on the words of the
rows and on two more dimensions: what else there is of the two that they begin from, the
natural parameter of the target and its mean, is in a plane. So products and lengths are
what they are in all dimensions.
"""

import numpy as np

from libc.math cimport INFINITY, exp, fabs, log, sqrt
from libc.stdint cimport int32_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset

from skbnp.kernels._directions cimport best_length, row_gain, worth_of
from skbnp.kernels._interrupts cimport count_work
from skbnp.kernels._normaliser cimport (
    Sphere,
    bessel_slope,
    log_constant,
    read_sphere,
)
from skbnp.kernels._sticks cimport put_log_weights, put_parameters
from skbnp.kernels._vectors cimport add_scaled, dot, put_both, put_scaled, row_product

from skbnp.kernels._sphere import NEGLIGIBLE

cdef extern from "src/arrays.h" nogil:
    void all_log_gamma(
        Py_ssize_t n, const double* x, double* log_gammas, double* digammas
    )

cdef:
    double NATS = NEGLIGIBLE
    # Rounds end when the mass of a new node changes by less, relatively.
    double TOL = 1e-3
    double LEAST = 1e-300

cdef enum:
    # Multiplications that the normalisers of a row cost, about.
    COST = 256


# Where rows are, q(z), and what follows of it.
cdef struct Assignments:
    double* masses              # (n_nodes,)
    double* on_target           # (n_rows,) shares
    double* on_new              # (n_rows,) shares
    double entropy
    double fit                  # sum of q(z) E'x over all nodes but the two


# A row by how near it is to another.
cdef struct Near:
    double cosine
    Py_ssize_t row


# A new node below a target, for some rows; both follow the rows, all else stays.
cdef struct Trial:
    Sphere sphere
    Py_ssize_t n_rows, n_best, n_words, n_nodes
    Py_ssize_t place, target    # of the new node, and of the one above
    const int32_t* indptr
    const int32_t* columns      # (nnz,) words, numbered as they come
    const float* values
    double strength             # beta
    double pull                 # kappa0 k1
    double share, spread        # of the target, see `row_gain`
    const Py_ssize_t* parent    # (n_nodes,)
    const double* masses        # (n_nodes,) zero of the new one
    const double* history       # (n_nodes,) zero of the new one
    double stop, child          # concentrations of the sticks
    Py_ssize_t n_below          # children of the target, the new node aside
    double* below               # (n_below + 1,) lengths of their means
    # Of nodes that rows were at, (n_rows, n_best); there is none without a share.
    const Py_ssize_t* places
    double* shares              # q(z), adding up to one
    double* products            # E'x
    double* gains               # of a row to a node, but for the target
    double* scores
    # By row.
    double* taken               # q(z = new)
    double* fresh               # scores of the new node
    Near* near
    # Vectors, (n_words + 2,).
    double* natural             # of the target, before
    double* mean_before
    double* mean                # of the target
    double* moved               # natural parameter of the target
    double* rows                # sum of its parts of the rows, times beta
    double* own                 # natural parameter of the new node
    # By node.
    double* logs                # E log pi
    double* given               # masses, history included
    double* sticks              # (18, n_nodes) work
    Assignments before, after
    double evidence             # of the sticks, before
    double worth                # of the directions, before
    double* best                # (n_best + 1,) work
    Py_ssize_t* order           # (n_best + 1,) work
    Py_ssize_t* found           # (n_rows, n_best) nodes of rows, -1: none
    float* weights              # (n_rows, n_best)
    Py_ssize_t done             # for `count_work`


cdef inline double product_of(
    const Trial* t, Py_ssize_t row, const double* vector
) noexcept nogil:
    """x'y of a row and a vector on the words of the rows."""
    return row_product(t.indptr, t.columns, t.values, row, vector)


cdef inline void add_row(
    const Trial* t, Py_ssize_t row, double a, double* vector
) noexcept nogil:
    """y += a x of a row."""
    cdef int32_t i
    if a != 0.0:
        for i in range(t.indptr[row], t.indptr[row + 1]):
            vector[t.columns[i]] += a * <double>t.values[i]


cdef inline double spread_below(const Trial* t, double length) noexcept nogil:
    """Return v of children of a node with a mean of a length."""
    return t.pull * t.pull * max((1.0 - length) * (1.0 + length), 0.0)


cdef inline double length_of(Py_ssize_t n, const double* vector) noexcept nogil:
    return sqrt(dot(n, vector, vector))


# What there is before ----------------------------------------------------------------


cdef Py_ssize_t number_words(
    const int32_t* words, Py_ssize_t n, int32_t* column, int32_t* columns
) noexcept nogil:
    """Number the words of rows as they come; `column` is -1 of all others."""
    cdef int32_t n_found = 0
    cdef Py_ssize_t i
    for i in range(n):
        if column[words[i]] < 0:
            column[words[i]] = n_found
            n_found += 1
        columns[i] = column[words[i]]
    return n_found


cdef void put_coordinates(
    Py_ssize_t n_features, const int32_t* column, Py_ssize_t n_words,
    const double* natural, const double* mean, double* first, double* second,
) noexcept nogil:
    """Project two vectors on some words and a basis of their remainders."""
    cdef double square = 0.0, along = 0.0, rest = 0.0, scale, left
    cdef Py_ssize_t i
    for i in range(n_features):
        if column[i] >= 0:
            first[column[i]], second[column[i]] = natural[i], mean[i]
        else:
            square += natural[i] * natural[i]
            along += natural[i] * mean[i]
    scale = along / max(square, LEAST)
    for i in range(n_features):
        if column[i] < 0:
            left = mean[i] - scale * natural[i]
            rest += left * left
    first[n_words], first[n_words + 1] = sqrt(square), 0.0
    second[n_words] = along / max(sqrt(square), LEAST)
    second[n_words + 1] = sqrt(rest)


cdef int measure_rows(
    Trial* t, const int32_t* words, Py_ssize_t n_features,
    const double* means, const float* weights,
    const double* lengths, const double* mean_lengths,
    const double* shares, const double* spreads,
) except -1 nogil:
    """Find shares, products, and gains of rows at their nodes."""
    cdef Py_ssize_t row, at, k
    cdef double total, product
    for row in range(t.n_rows):
        total = 0.0
        for at in range(row * t.n_best, (row + 1) * t.n_best):
            total += weights[at]
        for at in range(row * t.n_best, (row + 1) * t.n_best):
            t.shares[at] = weights[at] / total if weights[at] > 0.0 else 0.0
            if t.shares[at] == 0.0:
                continue
            k = t.places[at] - (t.places[at] > t.place)  # before the new node
            product = row_product(
                t.indptr, words, t.values, row, means + k * n_features
            )
            t.products[at] = product
            if k != t.target:
                t.gains[at] = row_gain(
                    &t.sphere, lengths[k] * lengths[k],
                    lengths[k] / max(mean_lengths[k], LEAST) * product, t.shares[at],
                    t.strength, shares[k], spreads[k],
                )
            count_work(t.indptr[row + 1] - t.indptr[row] + COST, &t.done)
    return 0


cdef int draw_seeds(
    Trial* t, const int32_t* words, Py_ssize_t n_features, const double* means,
    const double* mean_lengths, const double[::1] uniforms, Py_ssize_t* seeds,
) except -1 nogil:
    """Draw rows that are far from the target and its children."""
    cdef double* cosines = t.fresh
    cdef double length, product, total = 0.0
    cdef const double* mean
    cdef Py_ssize_t node, row, i
    for row in range(t.n_rows):
        cosines[row] = -1.0
    for node in range(t.target, t.place):  # children stand before the new one
        if node != t.target and t.parent[node] != t.target:
            continue
        mean, length = means + node * n_features, max(mean_lengths[node], LEAST)
        for row in range(t.n_rows):
            product = row_product(t.indptr, words, t.values, row, mean)
            cosines[row] = max(cosines[row], product / length)
            count_work(t.indptr[row + 1] - t.indptr[row], &t.done)
    for row in range(t.n_rows):
        total += max(1.0 - cosines[row], 0.0) ** 2 + 1e-12
        cosines[row] = total
    for i in range(uniforms.shape[0]):
        seeds[i] = t.n_rows - 1
        for row in range(t.n_rows):
            if cosines[row] > uniforms[i] * total:
                seeds[i] = row
                break
    return 0


cdef bint is_repeated(const Py_ssize_t* seeds, Py_ssize_t i) noexcept nogil:
    """Whether a seed is equal to an earlier one."""
    cdef Py_ssize_t k
    for k in range(i):
        if seeds[k] == seeds[i]:
            return True
    return False


cdef int is_behind(const void* one, const void* other) noexcept nogil:
    """Compare two rows: the nearer is before, of equal ones the first."""
    cdef const Near* a = <const Near*>one
    cdef const Near* b = <const Near*>other
    if a.cosine != b.cosine:
        return -1 if a.cosine > b.cosine else 1
    return -1 if a.row < b.row else 1


cdef void sort_rows(Trial* t, Py_ssize_t seed) noexcept nogil:
    """Sort rows by their cosine to one of them."""
    cdef Py_ssize_t row
    memset(t.rows, 0, (t.n_words + 2) * sizeof(double))
    add_row(t, seed, 1.0, t.rows)
    for row in range(t.n_rows):
        t.near[row].cosine = product_of(t, row, t.rows)
        t.near[row].row = row
    qsort(t.near, t.n_rows, sizeof(Near), is_behind)


# Rounds ------------------------------------------------------------------------------


cdef double update_new(Trial* t) noexcept nogil:
    """Update the mean of the new node by its rows, given that of the target.

    `rows` is what it has of the rows, `own` becomes the natural parameter; its mean is
    so many times as long.
    """
    cdef Py_ssize_t n = t.n_words + 2
    cdef double spread = spread_below(t, length_of(n, t.mean))
    put_both(n, 1.0, t.rows, t.pull, t.mean, t.own)
    return bessel_slope(&t.sphere, dot(n, t.own, t.own) + spread)


cdef void update_directions(Trial* t) noexcept nogil:
    """Update the mean of the new node by its rows, then that of the target.

    About: the effect of children on the length of this stays a share.
    """
    cdef Py_ssize_t n = t.n_words + 2, row
    cdef double part, square
    memset(t.rows, 0, n * sizeof(double))
    memcpy(t.moved, t.natural, n * sizeof(double))
    for row in range(t.n_rows):
        part = t.strength * t.taken[row]
        add_row(t, row, part, t.rows)
        add_row(t, row, -part * t.before.on_target[row], t.moved)
    add_scaled(n, t.pull * update_new(t), t.own, t.moved)
    square = t.share * t.share * dot(n, t.moved, t.moved) + t.spread
    put_scaled(n, t.share * bessel_slope(&t.sphere, square), t.moved, t.mean)
    put_both(n, 1.0, t.rows, t.pull, t.mean, t.own)


cdef void weigh_nodes(Trial* t) noexcept nogil:
    """Compute E log pi with the new node having its shares of the rows."""
    cdef Py_ssize_t n = t.n_nodes, row, at, i
    memcpy(t.given, t.masses, n * sizeof(double))
    for row in range(t.n_rows):
        t.given[t.place] += t.taken[row]
        for at in range(row * t.n_best, (row + 1) * t.n_best):
            if t.shares[at] > 0.0:
                t.given[t.places[at]] -= t.taken[row] * t.shares[at]
    for i in range(n):
        t.given[i] = t.history[i] + max(t.given[i], 0.0)
    put_parameters(n, t.parent, t.given, t.stop, t.child, t.sticks)
    put_log_weights(n, t.parent, t.sticks, t.sticks + 6 * n, t.logs)


cdef double take_rows(Trial* t) except? -1 nogil:
    """Score the new node and the others; set its shares of rows, return their sum.

    Parts that rows have in the two nodes that follow are left out of these.
    """
    cdef Py_ssize_t n = t.n_words + 2, row, at
    cdef double square = dot(n, t.own, t.own), target = dot(n, t.moved, t.moved)
    cdef double spread = spread_below(t, length_of(n, t.mean))
    cdef double total = 0.0, along, part, best, rest
    weigh_nodes(t)
    for row in range(t.n_rows):
        t.fresh[row] = t.logs[t.place] + row_gain(
            &t.sphere, square, product_of(t, row, t.own), t.taken[row], t.strength,
            1.0, spread,
        )
        along, best = product_of(t, row, t.moved), t.fresh[row]
        for at in range(row * t.n_best, (row + 1) * t.n_best):
            t.scores[at] = -INFINITY
            if t.shares[at] == 0.0:
                continue
            t.scores[at] = t.logs[t.places[at]]
            if t.places[at] == t.target:
                part = t.shares[at] * (1.0 - t.taken[row])
                t.scores[at] += row_gain(
                    &t.sphere, target, along, part, t.strength, t.share, t.spread
                )
            else:
                t.scores[at] += t.gains[at]
            best = max(best, t.scores[at])
        rest = 0.0
        for at in range(row * t.n_best, (row + 1) * t.n_best):
            if t.scores[at] > -INFINITY:
                rest += exp(t.scores[at] - best)
        part = exp(t.fresh[row] - best)
        t.taken[row] = part / (part + rest)
        total += t.taken[row]
        count_work(4 * (t.indptr[row + 1] - t.indptr[row]) + COST, &t.done)
    return total


# What a birth is worth ---------------------------------------------------------------


cdef void add_share(
    const Trial* t, Assignments* q, Py_ssize_t row, Py_ssize_t node, double share,
    double product,
) noexcept nogil:
    """Add the share of a row in a node."""
    q.masses[node] += share
    q.entropy -= share * log(share)
    if node == t.place:
        q.on_new[row] = share
    elif node == t.target:
        q.on_target[row] += share
    else:
        q.fit += share * product


cdef void clear(const Trial* t, Assignments* q) noexcept nogil:
    memset(q.masses, 0, t.n_nodes * sizeof(double))
    memset(q.on_target, 0, t.n_rows * sizeof(double))
    memset(q.on_new, 0, t.n_rows * sizeof(double))
    q.entropy = q.fit = 0.0


cdef void choose(Trial* t) noexcept nogil:
    """Assign rows to as many nodes as before, the best by their scores."""
    cdef Py_ssize_t row, first, k, at, n = t.n_best
    cdef double score, total
    cdef Py_ssize_t* nodes
    cdef float* weights
    clear(t, &t.after)
    for row in range(t.n_rows):
        first = row * n
        nodes, weights = t.found + first, t.weights + first
        t.best[0], t.order[0] = t.fresh[row], -1
        for k in range(n):
            # Of equal scores the earlier is the better.
            score, at = t.scores[first + k], k + 1
            while at > 0 and score > t.best[at - 1]:
                t.best[at], t.order[at] = t.best[at - 1], t.order[at - 1]
                at -= 1
            t.best[at], t.order[at] = score, k
        total = 0.0
        for k in range(n - 1, -1, -1):
            score = t.best[k] - t.best[0]
            t.best[k] = exp(score) if score >= -NATS else 0.0
            total += t.best[k]
        score = 0.0
        for k in range(n):
            nodes[k], weights[k] = -1, 0.0
            if t.best[k] > 0.0:
                at = t.order[k]
                nodes[k] = t.place if at < 0 else t.places[first + at]
                weights[k] = <float>(t.best[k] / total)
                score += weights[k]
        for k in range(n):
            if weights[k] > 0.0:
                at = t.order[k]
                add_share(
                    t, &t.after, row, nodes[k], weights[k] / score,
                    0.0 if at < 0 else t.products[first + at],
                )


cdef double log_betas(Trial* t, const double* masses) noexcept nogil:
    """Sum log B of all sticks given the rows of nodes; the root has no child stick.

    A node without rows that is the last of its siblings adds the same, whatever they
    have.
    """
    cdef Py_ssize_t n = t.n_nodes, i
    cdef double* found = t.sticks
    cdef double* logs = t.sticks + 6 * n
    cdef double total = 0.0
    put_parameters(n, t.parent, masses, t.stop, t.child, found)
    for i in range(n):
        found[4 * n + i] = found[i] + found[n + i]
        found[5 * n + i] = found[2 * n + i] + found[3 * n + i]
    all_log_gamma(6 * n, found, logs, t.sticks + 12 * n)
    for i in range(n):
        total += logs[i] + logs[n + i] - logs[4 * n + i]
        if i:
            total += logs[2 * n + i] + logs[3 * n + i] - logs[5 * n + i]
    return total


cdef double gain_of(Trial* t, bint is_born) noexcept nogil:
    """Rise of the bound for these assignments; whether the new node is there.

    Sticks are at their optimum, and so is the new node for the mean of the target,
    and then the target for the new node and for the lengths of its children.
    """
    cdef Py_ssize_t n = t.n_words + 2, row, i, n_below = t.n_below
    cdef double gain = t.after.entropy - t.before.entropy
    cdef double slope, change, natural, length
    gain += t.strength * (t.after.fit - t.before.fit)
    for i in range(t.n_nodes):
        change = t.after.masses[i] - t.before.masses[i]
        t.given[i] = t.history[i] + max(t.masses[i] + change, 0.0)
    gain += log_betas(t, t.given) - t.evidence
    memset(t.rows, 0, n * sizeof(double))
    memcpy(t.moved, t.natural, n * sizeof(double))
    for row in range(t.n_rows):
        add_row(t, row, t.strength * t.after.on_new[row], t.rows)
        change = t.after.on_target[row] - t.before.on_target[row]
        add_row(t, row, t.strength * change, t.moved)
    if is_born:
        slope = update_new(t)
        gain += slope * dot(n, t.rows, t.own)
        gain += log_constant(&t.sphere, t.pull * t.pull)
        add_scaled(n, t.pull * slope, t.own, t.moved)
        t.below[n_below] = slope * length_of(n, t.own)
        n_below += 1
    natural = length_of(n, t.moved)
    length = best_length(
        &t.sphere, natural, t.spread, n_below, t.below, t.pull
    )
    return gain - t.worth + worth_of(
        &t.sphere, length, natural, t.spread, n_below, t.below, t.pull
    )


cdef double gain_of_choice(Trial* t) noexcept nogil:
    """What the bound gains if rows are assigned to the old nodes once more."""
    cdef Py_ssize_t row, at
    memset(t.taken, 0, t.n_rows * sizeof(double))
    weigh_nodes(t)
    for row in range(t.n_rows):
        t.fresh[row] = -INFINITY
        for at in range(row * t.n_best, (row + 1) * t.n_best):
            if t.shares[at] > 0.0:
                t.scores[at] = t.logs[t.places[at]] + t.strength * t.products[at]
    choose(t)
    return gain_of(t, False)


cdef void measure_target(
    Trial* t, Py_ssize_t n_features, const double* means
) noexcept nogil:
    """Compute the terms of the bound of the target, its children, and the sticks."""
    cdef Py_ssize_t n = t.n_words + 2, node, row, at
    cdef double length = length_of(n, t.mean_before)
    cdef double along = dot(n, t.natural, t.mean_before) / max(length, LEAST)
    t.n_below = 0
    for node in range(t.target + 1, t.place):  # children stand before the new one
        if t.parent[node] == t.target:
            t.below[t.n_below] = length_of(n_features, means + node * n_features)
            t.n_below += 1
    t.worth = worth_of(
        &t.sphere, length, along, t.spread, t.n_below, t.below, t.pull
    )
    put_both(t.n_nodes, 1.0, t.masses, 1.0, t.history, t.given)
    t.evidence = log_betas(t, t.given)
    clear(t, &t.before)
    for row in range(t.n_rows):
        for at in range(row * t.n_best, (row + 1) * t.n_best):
            if t.shares[at] > 0.0:
                add_share(
                    t, &t.before, row, t.places[at], t.shares[at], t.products[at]
                )


cdef double gain_of_seed(
    Trial* t, Py_ssize_t seed, Py_ssize_t n_first, Py_ssize_t n_rounds
) except? -1 nogil:
    """Start the new node with the rows nearest to a seed, and update its shares.

    Return what the bound gains, minus infinity if the node has less than a row.
    """
    cdef Py_ssize_t row
    cdef double mass = <double>n_first, last
    sort_rows(t, seed)
    memset(t.taken, 0, t.n_rows * sizeof(double))
    for row in range(n_first):
        t.taken[t.near[row].row] = 1.0
    memcpy(t.mean, t.mean_before, (t.n_words + 2) * sizeof(double))
    for _ in range(n_rounds):
        if mass < 1.0:
            return -INFINITY
        update_directions(t)
        last, mass = mass, take_rows(t)
        if fabs(mass - last) < TOL * last:
            break
    choose(t)
    return gain_of(t, True) if t.after.masses[t.place] >= 1.0 else -INFINITY


def find_birth(
    const int32_t[::1] indptr,          # IN (n_rows + 1,) rows at the target
    const int32_t[::1] words,           # IN (nnz,)
    const float[::1] values,            # IN (nnz,)
    const Py_ssize_t[:, ::1] places,    # IN (n_rows, n_best) where they are
    const float[:, ::1] weights,        # IN (n_rows, n_best) and q(z) up to a factor
    const double[:, ::1] means,         # IN (n_nodes - 1, n_features) E
    const double[::1] natural,          # IN (n_features,) of the target
    const double[::1] lengths,          # IN (n_nodes - 1,), see `Naturals`
    const double[::1] mean_lengths,     # IN (n_nodes - 1,)
    const double[::1] shares,           # IN (n_nodes - 1,)
    const double[::1] spreads,          # IN (n_nodes - 1,)
    const Py_ssize_t[::1] parent,       # IN (n_nodes,) of the tree with the new node
    const double[::1] masses,           # IN (n_nodes,) zero of the new one
    const double[::1] history,          # IN (n_nodes,) zero of the new one
    Py_ssize_t place,                   # of the new node, the last child of its parent
    double strength,                    # beta
    double pull,                        # kappa0 k1
    double stop, double child,          # concentrations of the sticks
    const double[::1] uniforms,         # IN (n_seeds,) what seeds are drawn by
    Py_ssize_t n_first,                 # rows that it begins with
    Py_ssize_t n_rounds,
    Py_ssize_t[:, ::1] nodes,           # OUT (n_rows, n_best) where rows are then
    float[:, ::1] found,                # OUT (n_rows, n_best) and q(z)
    expansion: tuple[float, int, NDArray[float64]],
) -> float:
    """Fit a new node to rows near each seed, a row far from the parent; keep the best.

    Return what the bound gains by the best of the seeds, and put the assignments then;
    minus infinity if the node has less than a row by each. Time O(n_features + nnz) for
    each child of the target, O(nnz n_best) once, and O(nnz + n_nodes + n_rows n_best)
    for each round.
    """
    cdef Py_ssize_t n_features = means.shape[1], target = parent[place], i
    cdef Trial t
    cdef double best = -INFINITY, gain
    t.sphere, t.done = read_sphere(expansion), 0
    t.n_rows, t.n_best, t.n_nodes = places.shape[0], places.shape[1], parent.shape[0]
    t.place, t.target = place, target
    t.indptr, t.values, t.places = &indptr[0], &values[0], &places[0, 0]
    t.strength, t.pull, t.stop, t.child = strength, pull, stop, child
    t.share, t.spread = shares[target], spreads[target]
    t.parent = &parent[0]
    cdef int32_t[::1] column = np.full(n_features, -1, dtype=np.int32)
    cdef int32_t[::1] columns = np.empty(words.shape[0], dtype=np.int32)
    t.columns = &columns[0]
    t.n_words = number_words(&words[0], words.shape[0], &column[0], &columns[0])
    cdef Py_ssize_t n = t.n_words + 2, n_shares = t.n_rows * t.n_best
    cdef double[:, ::1] vectors = np.empty((6, n))
    t.natural, t.mean_before, t.mean = &vectors[0, 0], &vectors[1, 0], &vectors[2, 0]
    t.moved, t.rows, t.own = &vectors[3, 0], &vectors[4, 0], &vectors[5, 0]
    cdef double[:, ::1] of_shares = np.zeros((4, n_shares))
    t.shares, t.products = &of_shares[0, 0], &of_shares[1, 0]
    t.gains, t.scores = &of_shares[2, 0], &of_shares[3, 0]
    cdef double[:, ::1] of_rows = np.empty((6, t.n_rows))
    t.taken, t.fresh = &of_rows[0, 0], &of_rows[1, 0]
    t.before.on_target, t.before.on_new = &of_rows[2, 0], &of_rows[3, 0]
    t.after.on_target, t.after.on_new = &of_rows[4, 0], &of_rows[5, 0]
    cdef double[:, ::1] of_nodes = np.empty((23, t.n_nodes))
    t.logs, t.given, t.below = &of_nodes[0, 0], &of_nodes[1, 0], &of_nodes[2, 0]
    t.before.masses, t.after.masses = &of_nodes[3, 0], &of_nodes[4, 0]
    t.masses, t.history, t.sticks = &masses[0], &history[0], &of_nodes[5, 0]
    cdef double[::1] near = np.empty(2 * t.n_rows), chosen = np.empty(t.n_best + 1)
    cdef Py_ssize_t[::1] seeds = np.empty(uniforms.shape[0], dtype=np.intp)
    cdef Py_ssize_t[::1] order_of = np.empty(t.n_best + 1, dtype=np.intp)
    cdef Py_ssize_t[::1] some_nodes = np.empty(n_shares, dtype=np.intp)
    cdef float[::1] some_weights = np.empty(n_shares, dtype=np.float32)
    t.near, t.best, t.order = <Near*>&near[0], &chosen[0], &order_of[0]
    t.found, t.weights = &some_nodes[0], &some_weights[0]
    with nogil:
        put_coordinates(
            n_features, &column[0], t.n_words, &natural[0], &means[target, 0],
            t.natural, t.mean_before,
        )
        measure_rows(
            &t, &words[0], n_features, &means[0, 0], &weights[0, 0], &lengths[0],
            &mean_lengths[0], &shares[0], &spreads[0],
        )
        measure_target(&t, n_features, &means[0, 0])
        draw_seeds(
            &t, &words[0], n_features, &means[0, 0], &mean_lengths[0], uniforms,
            &seeds[0],
        )
        for i in range(seeds.shape[0]):
            if is_repeated(&seeds[0], i):
                continue
            gain = gain_of_seed(&t, seeds[i], n_first, n_rounds)
            if gain > best:
                best = gain
                memcpy(&nodes[0, 0], t.found, n_shares * sizeof(Py_ssize_t))
                memcpy(&found[0, 0], t.weights, n_shares * sizeof(float))
        if best > -INFINITY:
            best -= gain_of_choice(&t)
    return best
