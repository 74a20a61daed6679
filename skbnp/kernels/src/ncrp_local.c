#include "ncrp_local.h"

#include <math.h>

#include "clones.h"
#include "special.h"

/* Word weights, relative to the best of a path, and level weights are not smaller: their
   products stay normal, and a word weight at the clamp never counts. */
#define SMALLEST_LOG -500.0
#define SMALLEST_WEIGHT 1e-80
/* A path takes part in the table that all share if its best word weights, relative to
   those of all nodes, are not smaller. */
#define SMALLEST_SHARED 1e-100

/* The tile of a path, n_levels rows; the largest logarithm and the norm of each word;
   sums and exponents by level. */
size_t skbnp_path_work(size_t wide, size_t n_levels)
{
    return (n_levels + 2) * wide + 2 * n_levels;
}

/* exp(row - top), for each word. */
SKBNP_INLINE void exponentiate(ptrdiff_t wide, const double *row, const double *top,
                               double *restrict to)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t u = 0; u < wide; u++) {
        double x = row[u] - top[u];
        to[u] = fast_exp(x < SMALLEST_LOG ? SMALLEST_LOG : x);
    }
}

SKBNP_CLONES
void skbnp_path_logs(ptrdiff_t n, ptrdiff_t wide, const int32_t *words,
                     ptrdiff_t n_nodes, ptrdiff_t n_levels, const double *log_weights,
                     const double *off_tree, double *logs)
{
    /* Eight words at a time: rows of the result are written by cache lines. */
    for (ptrdiff_t at = 0; at < wide; at += 8) {
        const double *from[8];
        for (ptrdiff_t i = 0; i < 8; i++)
            from[i] = log_weights + (ptrdiff_t)words[at + i < n ? at + i : 0] * n_nodes;
        for (ptrdiff_t node = 0; node < n_nodes; node++)
            for (ptrdiff_t i = 0; i < 8; i++)
                logs[node * wide + at + i] = from[i][node];
    }
    for (ptrdiff_t level = 0; level < n_levels; level++)
        for (ptrdiff_t u = 0; u < wide; u++)
            logs[(n_nodes + level) * wide + u] = off_tree[level];
}

SKBNP_CLONES
void skbnp_shared_weights(ptrdiff_t wide, ptrdiff_t n_rows, const double *logs,
                          double *restrict shared)
{
    double *best = shared + n_rows * wide;
    for (ptrdiff_t u = 0; u < wide; u++)
        best[u] = logs[u];
    for (ptrdiff_t node = 1; node < n_rows; node++) {
        const double *row = logs + node * wide;
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t u = 0; u < wide; u++)
            best[u] = row[u] > best[u] ? row[u] : best[u];
    }
    for (ptrdiff_t node = 0; node < n_rows; node++)
        exponentiate(wide, logs + node * wide, best, shared + node * wide);
}

SKBNP_CLONES
void skbnp_stub_logs(ptrdiff_t n, ptrdiff_t wide, const int32_t *words,
                     ptrdiff_t n_nodes, ptrdiff_t n_levels, const double *log_weights,
                     const double *off_tree, ptrdiff_t n_stubs, const int32_t *stubs,
                     const int32_t *stub_nodes, double *logs)
{
    for (ptrdiff_t k = 0; k < n_stubs; k++)
        for (ptrdiff_t l = 0; l < n_levels; l++) {
            int32_t node = stub_nodes[stubs[k] * n_levels + l];
            double *row = logs + (k * n_levels + l) * wide;
            for (ptrdiff_t u = 0; u < wide; u++)
                row[u] = off_tree[l];
            if (node >= 0)
                for (ptrdiff_t u = 0; u < n; u++)
                    row[u] = log_weights[words[u] * n_nodes + node];
        }
}

/* exp(logs) of a path, relative to the largest of each word. */
SKBNP_INLINE void fill(ptrdiff_t wide, ptrdiff_t n_levels, const double *logs,
                       const int32_t *path, double *restrict tile, double *restrict top)
{
    const double *first = logs + path[0] * wide;
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t u = 0; u < wide; u++)
        top[u] = first[u];
    for (ptrdiff_t l = 1; l < n_levels; l++) {
        const double *row = logs + path[l] * wide;
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t u = 0; u < wide; u++)
            top[u] = row[u] > top[u] ? row[u] : top[u];
    }
    for (ptrdiff_t l = 0; l < n_levels; l++)
        exponentiate(wide, logs + path[l] * wide, top, tile + l * wide);
}

/* Word weights of a level of a path: rows of a table, or without a path of a tile. */
SKBNP_INLINE const double *level_row(const double *table, const int32_t *path,
                                     ptrdiff_t l, ptrdiff_t wide)
{
    return table + (path ? path[l] : l) * wide;
}

/* Whether each word has a level of a weight that is not too small. */
SKBNP_INLINE int is_shared(ptrdiff_t wide, ptrdiff_t n_levels, const double *table,
                           const int32_t *path, double *restrict most)
{
    double least = 1.0;
    for (ptrdiff_t u = 0; u < wide; u++)
        most[u] = 0.0;
    for (ptrdiff_t l = 0; l < n_levels; l++) {
        const double *row = table + path[l] * wide;
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t u = 0; u < wide; u++)
            most[u] = row[u] > most[u] ? row[u] : most[u];
    }
    SKBNP_PRAGMA(omp simd reduction(min : least))
    for (ptrdiff_t u = 0; u < wide; u++)
        least = most[u] < least ? most[u] : least;
    return least >= SMALLEST_SHARED;
}

/* exp(psi(a_l)) up to a factor that cancels. */
SKBNP_INLINE void weigh(ptrdiff_t n_levels, const double *levels, double *restrict weights,
                        double *restrict exponents)
{
    double most = -HUGE_VAL;
    for (ptrdiff_t l = 0; l < n_levels; l++) {
        exponents[l] = digamma_exponent(levels[l]);
        most = exponents[l] > most ? exponents[l] : most;
    }
    for (ptrdiff_t l = 0; l < n_levels; l++) {
        double w = digamma_factor(levels[l]) * fast_exp(exponents[l] - most);
        weights[l] = w < SMALLEST_WEIGHT ? SMALLEST_WEIGHT : w;
    }
}

/* s_u = sum_l w_l b_lu. */
SKBNP_INLINE void norms(ptrdiff_t wide, ptrdiff_t n_levels, const double *table,
                        const int32_t *path, const double *weights, double *restrict s)
{
    const double *first = level_row(table, path, 0, wide);
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t u = 0; u < wide; u++)
        s[u] = weights[0] * first[u];
    for (ptrdiff_t l = 1; l < n_levels; l++) {
        const double *row = level_row(table, path, l, wide);
        const double w = weights[l];
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t u = 0; u < wide; u++)
            s[u] += w * row[u];
    }
}

/* N_l = sum_u x_u w_l b_lu / s_u; s becomes x / s. */
SKBNP_INLINE void share_out(ptrdiff_t wide, ptrdiff_t n_levels, const double *counts,
                            const double *table, const int32_t *path,
                            const double *weights, double *restrict s,
                            double *restrict sums)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t u = 0; u < wide; u++)
        s[u] = counts[u] / s[u];
    for (ptrdiff_t l = 0; l < n_levels; l++) {
        const double *row = level_row(table, path, l, wide);
        double sum = 0.0;
        SKBNP_PRAGMA(omp simd reduction(+ : sum))
        for (ptrdiff_t u = 0; u < wide; u++)
            sum += s[u] * row[u];
        sums[l] = weights[l] * sum;
    }
}

/* lnG(sum alpha) - sum_l lnG(alpha_l) - lnG(sum alpha + tokens). */
double skbnp_level_norm(ptrdiff_t n_levels, const double *prior, double n_tokens)
{
    double all = 0.0, total = 0.0, unused;
    for (ptrdiff_t l = 0; l < n_levels; l++) {
        all += prior[l];
        total -= log_gamma(prior[l], &unused);
    }
    return total + (log_gamma(all, &unused) - log_gamma(all + n_tokens, &unused));
}

/* sum_u x_u log s_u - sum_l N_l log w_l + sum_l lnG(alpha_l + N_l). */
SKBNP_INLINE double score(ptrdiff_t wide, ptrdiff_t n_levels, const double *counts,
                          const double *s, const double *weights, const double *prior,
                          const double *sums)
{
    double total = 0.0, unused;
    SKBNP_PRAGMA(omp simd reduction(+ : total))
    for (ptrdiff_t u = 0; u < wide; u++)
        total += counts[u] * fast_log(s[u]);
    for (ptrdiff_t l = 0; l < n_levels; l++)
        total += log_gamma(prior[l] + sums[l], &unused) - sums[l] * fast_log(weights[l]);
    return total;
}

SKBNP_CLONES
double skbnp_walk(ptrdiff_t wide, ptrdiff_t n_levels, const double *counts,
                  const double *logs, ptrdiff_t n_rows, const double *shared,
                  const int32_t *path, const double *prior, double *levels,
                  double *weights, double *work, ptrdiff_t max_iter, double tol)
{
    double *tile = work, *s = tile + (n_levels + 1) * wide;
    double *sums = s + wide, *exponents = sums + n_levels;
    const double *table = shared, *top = shared ? shared + n_rows * wide : NULL;
    double total = 0.0;
    if (!shared || !is_shared(wide, n_levels, shared, path, s)) {
        fill(wide, n_levels, logs, path, tile, tile + n_levels * wide);
        table = tile;
        top = tile + n_levels * wide;
        path = NULL;
    }
    for (ptrdiff_t iter = 0; iter == 0 || iter < max_iter; iter++) {
        double change = 0.0;
        weigh(n_levels, levels, weights, exponents);
        norms(wide, n_levels, table, path, weights, s);
        share_out(wide, n_levels, counts, table, path, weights, s, sums);
        for (ptrdiff_t l = 0; l < n_levels; l++) {
            double next = prior[l] + sums[l];
            change += fabs(next - levels[l]);
            levels[l] = next;
        }
        if (change <= tol)
            break;
    }
    norms(wide, n_levels, table, path, weights, s);
    SKBNP_PRAGMA(omp simd reduction(+ : total))
    for (ptrdiff_t u = 0; u < wide; u++)
        total += counts[u] * top[u];
    return total + score(wide, n_levels, counts, s, weights, prior, sums);
}

SKBNP_CLONES
void skbnp_mix_paths(ptrdiff_t wide, ptrdiff_t n_levels, const double *logs,
                     ptrdiff_t n_paths, const int32_t *paths, const double *shares,
                     double *mixed)
{
    for (ptrdiff_t i = 0; i < n_levels * wide; i++)
        mixed[i] = 0.0;
    for (ptrdiff_t k = 0; k < n_paths; k++) {
        const double share = shares[k];
        if (share <= 0.0)
            continue;
        for (ptrdiff_t l = 0; l < n_levels; l++) {
            const double *row = logs + paths[k * n_levels + l] * wide;
            double *to = mixed + l * wide;
            SKBNP_PRAGMA(omp simd)
            for (ptrdiff_t u = 0; u < wide; u++)
                to[u] += share * row[u];
        }
    }
}

SKBNP_CLONES
void skbnp_path_terms(ptrdiff_t wide, ptrdiff_t n_levels, const double *counts,
                      const double *logs, ptrdiff_t n_rows, const int32_t *node_level,
                      const double *weights, const double *work, double *terms)
{
    const double *tile = work, *s = tile + (n_levels + 1) * wide;
    for (ptrdiff_t node = 0; node < n_rows; node++) {
        const double *row = logs + node * wide, *own = tile + node_level[node] * wide;
        double sum = 0.0;
        SKBNP_PRAGMA(omp simd reduction(+ : sum))
        for (ptrdiff_t u = 0; u < wide; u++)
            sum += counts[u] * own[u] / s[u] * row[u];
        terms[node] = weights[node_level[node]] * sum;
    }
}

SKBNP_CLONES
double skbnp_path_tokens(ptrdiff_t n, ptrdiff_t wide, ptrdiff_t n_levels,
                         const double *counts, const double *logs,
                         const int32_t *path, const double *prior,
                         const double *weights, double *tokens, double *work)
{
    double *tile = work, *top = tile + n_levels * wide, *s = top + wide;
    double *totals = s + wide, result;
    fill(wide, n_levels, logs, path, tile, top);
    norms(wide, n_levels, tile, NULL, weights, s);
    share_out(wide, n_levels, counts, tile, NULL, weights, s, totals);
    for (ptrdiff_t l = 0; l < n_levels; l++) {
        const double *row = tile + l * wide, *own = logs + path[l] * wide;
        const double w = weights[l];
        double relative = 0.0;
        SKBNP_PRAGMA(omp simd reduction(+ : relative))
        for (ptrdiff_t u = 0; u < wide; u++)
            relative += s[u] * row[u] * (own[u] - top[u]);
        for (ptrdiff_t u = 0; u < n; u++)
            tokens[u * n_levels + l] = w * s[u] * row[u];
        totals[n_levels + l] = w * relative;
    }
    norms(wide, n_levels, tile, NULL, weights, s);
    result = score(wide, n_levels, counts, s, weights, prior, totals);
    for (ptrdiff_t l = 0; l < n_levels; l++)
        result -= totals[n_levels + l];
    return result;
}
