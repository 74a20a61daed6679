/* Special functions of all entries of an array. */

#ifndef SKBNP_ARRAYS_H
#define SKBNP_ARRAYS_H

#include <stddef.h>

#include "special.h"

SKBNP_CLONES
static void all_log(ptrdiff_t n, const double *x, double *out)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = fast_log(x[i]);
}

SKBNP_CLONES
static void all_digamma(ptrdiff_t n, const double *x, double *out)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = fast_log(digamma_factor(x[i])) + digamma_exponent(x[i]);
}

SKBNP_CLONES
static void all_log_gamma(ptrdiff_t n, const double *x, double *log_gammas,
                          double *digammas)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        log_gammas[i] = log_gamma(x[i], &digammas[i]);
}

#endif
