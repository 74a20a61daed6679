/* Gains and losses of held-out tokens if topics end or merge. */

#ifndef SKBNP_MOVES_H
#define SKBNP_MOVES_H

#include <stddef.h>

#include "special.h"

/* What an entry of a held-out document loses with a topic, or with a merge of two. */

/* Log of repeated + fresh q, finite where a difference has rounded to nothing. */
SKBNP_INLINE double log_mixed(double repeated, double fresh, double q)
{
    double p = repeated + fresh * q;
    return fast_log(p < 1e-300 ? 1e-300 : p);
}

/* theta_k phi_k of the topics; their sum, with that of all others. */
SKBNP_CLONES static double share_out(ptrdiff_t n, const double *theta,
                                     const double *topics, double *shares, double rest)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t k = 0; k < n; k++)
        shares[k] = theta[k] * topics[k];
    for (ptrdiff_t k = 0; k < n; k++)
        rest += shares[k];
    return rest;
}

/* Without topic k, whose proportion goes to all others and in part to the corpus. */
SKBNP_CLONES
static void add_ends(ptrdiff_t n, const double *theta, const double *shares,
                     double mixed, double repeated, double fresh, double elsewhere,
                     double corpus, double count, double *ends, double *tokens)
{
    double now = log_mixed(repeated, fresh, mixed);
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t k = 0; k < n; k++) {
        double left = 1.0 - (1.0 - elsewhere) * theta[k];
        double without = mixed - shares[k] + elsewhere * theta[k] * corpus;
        ends[k] += count * (now - log_mixed(repeated, fresh, without / left));
        tokens[k] += count * theta[k];
    }
}

/* With pairs of topics as one, whose proportions add up. */
SKBNP_CLONES
static void add_merges(ptrdiff_t n, const int64_t *one, const int64_t *other,
                       const double *of_one, const double *of_other, const double *less,
                       const double *theta, const double *topics, const double *shares,
                       double mixed, double repeated, double fresh, double count,
                       double *merges)
{
    double now = log_mixed(repeated, fresh, mixed);
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++) {
        int64_t a = one[i], b = other[i];
        double either = topics[a] * of_one[i] + topics[b] * of_other[i];
        double joined = (theta[a] + theta[b]) * (either - less[i]);
        double q = mixed - (shares[a] + shares[b]) + joined;
        merges[i] += count * (now - log_mixed(repeated, fresh, q));
    }
}

/* Entropies of words shared by two topics. */

/* Returns sum factor_i ((a + b) log(a + b) - a log a - b log b)_i, a and b > 0. */
SKBNP_CLONES
static double joint_entropy(ptrdiff_t n, const double *a, const double *b,
                            const double *factor)
{
    double total = 0.0;
    SKBNP_PRAGMA(omp simd reduction(+ : total))
    for (ptrdiff_t i = 0; i < n; i++) {
        double both = a[i] + b[i];
        double part = a[i] * fast_log(both / a[i]) + b[i] * fast_log(both / b[i]);
        total += factor[i] * part;
    }
    return total;
}

#endif
