/* Inner products and sums of long vectors. */

#ifndef SKBNP_VECTORS_H
#define SKBNP_VECTORS_H

#include <stddef.h>

#include "clones.h"

/* x'y. */
SKBNP_CLONES static double dot(ptrdiff_t n, const double *x, const double *y)
{
    double sum = 0.0;
    SKBNP_PRAGMA(omp simd reduction(+ : sum))
    for (ptrdiff_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* y += a x. */
SKBNP_CLONES static void add_scaled(ptrdiff_t n, double a, const double *x, double *y)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* y = a x. */
SKBNP_CLONES static void put_scaled(ptrdiff_t n, double a, const double *x, double *y)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        y[i] = a * x[i];
}

#endif
