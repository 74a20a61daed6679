/* Growths g(s) = lnG(eta + s) - lnG(eta) of counts, in whole vectors. `nothing` is
   lnG(eta). */

#ifndef SKBNP_GROWTH_H
#define SKBNP_GROWTH_H

#include <stddef.h>

#include "special.h"

/* Adds g(S_k) to growth, S_k psi(eta + S_k) to moment. */
SKBNP_INLINE void grow_row(ptrdiff_t n, const double *restrict counts, double scale,
                           double eta, double nothing, double *restrict growth,
                           double *restrict moment)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t k = 0; k < n; k++) {
        double count = scale * counts[k], digamma;
        growth[k] += log_gamma(eta + count, &digamma) - nothing;
        moment[k] += count * digamma;
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

/* E g(n) for such numbers n, to second order where they are not zero. */
SKBNP_INLINE void expected_growths(ptrdiff_t n, const double *mean,
                                   const double *variance, double eta, double nothing,
                                   double *growth)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++) {
        double digamma, others, spread;
        double some = where_some(mean[i], variance[i], &others, &spread);
        double rise = log_gamma(eta + others, &digamma) - nothing;
        double bend = 0.5 * spread * trigamma(eta + others);
        growth[i] = some * (rise + bend);
    }
}

#endif
