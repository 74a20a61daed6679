/* What the evidence for groups of topics sums over documents, in whole vectors. */

#ifndef SKBNP_GROUPS_H
#define SKBNP_GROUPS_H

#include <stddef.h>

#include "special.h"

/* The probability that a Poisson count of mean n is not zero. */
SKBNP_INLINE double any_of(double n)
{
    double some = 1.0 - fast_exp(-n);
    return n > 1e-4 ? some : n * (1.0 - n * (0.5 - n * (1.0 / 6.0)));
}

/* r(base, n) where `nothing` is lnG(base). */
SKBNP_INLINE double rising(double base, double n, double some, double nothing)
{
    double digamma;
    return some * (log_gamma(base + n / some, &digamma) - nothing);
}

/* Adds sum_i some_i [lnG(base + mean_i) - lnG(base)] for each base. */
SKBNP_CLONES
static void add_rising(ptrdiff_t n, const double *mean, const double *some,
                       ptrdiff_t n_bases, const double *bases, double *sums)
{
    for (ptrdiff_t j = 0; j < n_bases; j++) {
        double unused, nothing = log_gamma(bases[j], &unused), total = 0.0;
        SKBNP_PRAGMA(omp simd reduction(+ : total))
        for (ptrdiff_t i = 0; i < n; i++) {
            double digamma;
            total += some[i] * (log_gamma(bases[j] + mean[i], &digamma) - nothing);
        }
        sums[j] += total;
    }
}

/* Adds d(base) - d(inner) to gains of groups, of at most 64 pairs, with d(x) =
   r(x, s + t) - r(x, s) - r(x, t); `none` is lnG(inner). */
SKBNP_CLONES
static void add_differences(ptrdiff_t n, const double *one, const double *other,
                            const double *base, const int32_t *group, double inner,
                            double none, double *gains)
{
    double difference[64];
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++) {
        double s = one[i], t = other[i], u = s + t, digamma;
        double p = any_of(s), q = any_of(t), o = any_of(u);
        double nothing = log_gamma(base[i], &digamma);
        double outside = rising(base[i], u, o, nothing);
        double inside = rising(inner, u, o, none);
        outside -= rising(base[i], s, p, nothing) + rising(base[i], t, q, nothing);
        inside -= rising(inner, s, p, none) + rising(inner, t, q, none);
        difference[i] = outside - inside;
    }
    for (ptrdiff_t i = 0; i < n; i++)
        gains[group[i]] += difference[i];
}

/* The polynomial that has the values f + g at the nodes, by its barycentric form. */
SKBNP_CLONES
static double interpolate(ptrdiff_t n, const double *node, const double *factor,
                                const double *f, const double *g, double x)
{
    double total = 0.0, norm = 0.0;
    SKBNP_PRAGMA(omp simd reduction(+ : total, norm))
    for (ptrdiff_t i = 0; i < n; i++) {
        double distance = x - node[i], weight;
        distance = distance == 0.0 ? 1e-290 : distance;
        weight = factor[i] / distance;
        norm += weight;
        total += weight * (f[i] + g[i]);
    }
    return total / norm;
}

/* Growths g(s) = lnG(eta + s) - lnG(eta) of counts, in whole vectors. `nothing` is
   lnG(eta). */

/* Adds g(S_k) to growth, S_k psi(eta + S_k) to moment, over words. */
SKBNP_CLONES
static void add_growth(const double *table, ptrdiff_t n_words, ptrdiff_t n_topics,
                       ptrdiff_t stride, double scale, double eta,
                       double *restrict growth, double *restrict moment)
{
    double unused, nothing = log_gamma(eta, &unused);
    for (ptrdiff_t word = 0; word < n_words; word++) {
        const double *restrict counts = table + word * stride;
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t k = 0; k < n_topics; k++) {
            double count = scale * counts[k], digamma;
            growth[k] += log_gamma(eta + count, &digamma) - nothing;
            moment[k] += count * digamma;
        }
    }
}

/* Of a binomial number of a given mean and variance: the probability that it is not zero,
   its mean and variance then. */
SKBNP_INLINE double where_some(double mean, double variance, double *others,
                               double *spread)
{
    double none, log_none, some;
    double ratio = variance / mean;
    ratio = ratio < 1e-300 ? 1e-300 : ratio;
    ratio = ratio > 1.0 - 1e-12 ? 1.0 - 1e-12 : ratio;
    log_none = mean * fast_log(ratio) / (1.0 - ratio);
    none = fast_exp(log_none);
    some = 1.0 - none;
    some = log_none > -1e-4
               ? -log_none * (1.0 + log_none * (0.5 + log_none * (1.0 / 6.0)))
               : some;
    some = variance > 0.0 ? some : 1.0; /* all is known of n */
    *others = mean / some;
    *spread = (variance + mean * mean) / some - *others * *others;
    *spread = *spread > 0.0 ? *spread : 0.0; /* there may be less than one trial */
    return some;
}

/* Sum of E g(n) for such numbers n, to second order where they are not zero. Where eta is
   large the difference of log gammas would be of rounding. */
SKBNP_CLONES
static double sum_expected(const double *means, const double *variances,
                           ptrdiff_t n_words, double eta)
{
    enum { CHUNK = 64 };
    double unused, nothing = log_gamma(eta, &unused), total = 0.0;
    double mean[CHUNK], variance[CHUNK], growth[CHUNK];
    ptrdiff_t n = 0;
    for (ptrdiff_t word = 0; word < n_words; word++) {
        mean[n] = means[word];
        variance[n] = variances[word];
        n += !(mean[n] <= 1e-30); /* what is not a number is not lost */
        if (n < CHUNK && word < n_words - 1)
            continue;
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t i = 0; i < n; i++) {
            double digamma, others, spread;
            double some = where_some(mean[i], variance[i], &others, &spread);
            double rise = log_gamma(eta + others, &digamma) - nothing;
            growth[i] = some * (rise + 0.5 * spread * trigamma(eta + others));
        }
        for (ptrdiff_t i = 0; i < (eta < 1e3 ? 0 : n); i++) {
            double others, spread;
            double some = where_some(mean[i], variance[i], &others, &spread);
            double rise = log_rising(eta, others);
            growth[i] = some * (rise + 0.5 * spread * trigamma(eta + others));
        }
        for (ptrdiff_t i = 0; i < n; i++)
            total += growth[i];
        n = 0;
    }
    return total;
}

#endif
