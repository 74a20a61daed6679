/* Inner products and sums of long vectors. */

#ifndef SKBNP_VECTORS_H
#define SKBNP_VECTORS_H

#include <stddef.h>

#include "clones.h"

/* Functions of their own, unless what includes this compiles them inside of its own. */
#ifndef VECTOR_FUNCTION
#define VECTOR_FUNCTION SKBNP_CLONES static
#endif

/* x'y. */
VECTOR_FUNCTION double dot(ptrdiff_t n, const double *x, const double *y)
{
    double sum = 0.0;
    SKBNP_PRAGMA(omp simd reduction(+ : sum))
    for (ptrdiff_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* x'x, y'y, x'y, z'x and z'y in one pass. */
VECTOR_FUNCTION void products_of_three(
    ptrdiff_t n, const double *x, const double *y, const double *z, double *found)
{
    double xx = 0.0, yy = 0.0, xy = 0.0, zx = 0.0, zy = 0.0;
    SKBNP_PRAGMA(omp simd reduction(+ : xx, yy, xy, zx, zy))
    for (ptrdiff_t i = 0; i < n; i++) {
        xx += x[i] * x[i];
        yy += y[i] * y[i];
        xy += x[i] * y[i];
        zx += z[i] * x[i];
        zy += z[i] * y[i];
    }
    found[0] = xx;
    found[1] = yy;
    found[2] = xy;
    found[3] = zx;
    found[4] = zy;
}

/* y += a x. */
VECTOR_FUNCTION void add_scaled(ptrdiff_t n, double a, const double *x, double *y)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* y = a x. */
VECTOR_FUNCTION void put_scaled(ptrdiff_t n, double a, const double *x, double *y)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        y[i] = a * x[i];
}

/* z = a x + b y. */
VECTOR_FUNCTION void put_both(
    ptrdiff_t n, double a, const double *x, double b, const double *y, double *z)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        z[i] = a * x[i] + b * y[i];
}

/* z += a x + b y. */
VECTOR_FUNCTION void add_both(
    ptrdiff_t n, double a, const double *x, double b, const double *y, double *z)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        z[i] += a * x[i] + b * y[i];
}

#endif
