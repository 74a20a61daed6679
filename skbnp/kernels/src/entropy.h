/* Entropies of words shared by two topics. */

#ifndef SKBNP_ENTROPY_H
#define SKBNP_ENTROPY_H

#include <stddef.h>

#include "special.h"

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
