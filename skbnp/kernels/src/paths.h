/* Passes over the words of a document, which come `wide` to a row. */

#ifndef SKBNP_PATHS_H
#define SKBNP_PATHS_H

#include <stddef.h>

#define VECTOR_FUNCTION SKBNP_INLINE
#include "special.h"
#include "vectors.h"

/* Word weights, relative to the best of a path, and level weights are not smaller: their
   products stay normal, and a word weight at the clamp never counts. */
#define SMALLEST_LOG -500.0

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

/* The larger of the two, for each word. */
SKBNP_INLINE void raise_row(ptrdiff_t wide, const double *row, double *restrict most)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t u = 0; u < wide; u++)
        most[u] = row[u] > most[u] ? row[u] : most[u];
}

/* The smallest entry, one at the most. */
SKBNP_INLINE double least_of(ptrdiff_t wide, const double *row)
{
    double least = 1.0;
    SKBNP_PRAGMA(omp simd reduction(min : least))
    for (ptrdiff_t u = 0; u < wide; u++)
        least = row[u] < least ? row[u] : least;
    return least;
}

/* counts / s; in place. */
SKBNP_INLINE void divide_row(ptrdiff_t wide, const double *counts, double *restrict s)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t u = 0; u < wide; u++)
        s[u] = counts[u] / s[u];
}

/* sum_u x_u log s_u. */
SKBNP_INLINE double log_dot(ptrdiff_t wide, const double *counts, const double *s)
{
    double total = 0.0;
    SKBNP_PRAGMA(omp simd reduction(+ : total))
    for (ptrdiff_t u = 0; u < wide; u++)
        total += counts[u] * fast_log(s[u]);
    return total;
}

/* sum_u x_u b_u / s_u log W_u. */
SKBNP_INLINE double share_dot(ptrdiff_t wide, const double *counts, const double *own,
                              const double *s, const double *row)
{
    double total = 0.0;
    SKBNP_PRAGMA(omp simd reduction(+ : total))
    for (ptrdiff_t u = 0; u < wide; u++)
        total += counts[u] * own[u] / s[u] * row[u];
    return total;
}

/* sum_u s_u b_u (log W_u - top_u). */
SKBNP_INLINE double relative_dot(ptrdiff_t wide, const double *s, const double *row,
                                 const double *own, const double *top)
{
    double total = 0.0;
    SKBNP_PRAGMA(omp simd reduction(+ : total))
    for (ptrdiff_t u = 0; u < wide; u++)
        total += s[u] * row[u] * (own[u] - top[u]);
    return total;
}

#endif
