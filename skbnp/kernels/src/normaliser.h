/* Normalisers of von Mises-Fisher distributions, of all entries of an array. */

#ifndef SKBNP_NORMALISER_H
#define SKBNP_NORMALISER_H

#include <math.h>
#include <stddef.h>

#include "clones.h"
#include "special.h"

/* Entries at a time, whose sums stay in registers. */
#define ENTRIES 16

/* log C(k) - log C(0) of a dimension whose order has the expansion itself, as
   `log_constant` of _normaliser.pxd: by n_terms terms, of which the j-th, from 0, has
   j + 2 coefficients, `width` apart. */
SKBNP_CLONES
static void all_log_constants(ptrdiff_t n, const double *squares, double order,
                              ptrdiff_t n_terms, ptrdiff_t width, const double *terms,
                              double zero, double *out)
{
    for (ptrdiff_t begin = 0; begin < n; begin += ENTRIES) {
        ptrdiff_t n_here = n - begin < ENTRIES ? n - begin : ENTRIES;
        double square[ENTRIES] = {0.0}, p2[ENTRIES], scaled[ENTRIES], rise[ENTRIES];
        double tail[ENTRIES], value[ENTRIES];
        for (ptrdiff_t k = 0; k < n_here; k++)
            square[k] = squares[begin + k] < 0.0 ? 0.0 : squares[begin + k];
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t k = 0; k < ENTRIES; k++) {
            double z2 = square[k] / (order * order), root = sqrt(1.0 + z2);
            p2[k] = 1.0 / (1.0 + z2);
            rise[k] = z2 / (1.0 + root); /* root - 1 */
            scaled[k] = 1.0 / (order * root);
            tail[k] = 0.0;
        }
        for (ptrdiff_t j = n_terms - 1; j >= 0; j--) {
            const double *term = terms + j * width;
            SKBNP_PRAGMA(omp simd)
            for (ptrdiff_t k = 0; k < ENTRIES; k++)
                value[k] = term[j + 1];
            for (ptrdiff_t i = j; i >= 0; i--) {
                SKBNP_PRAGMA(omp simd)
                for (ptrdiff_t k = 0; k < ENTRIES; k++)
                    value[k] = value[k] * p2[k] + term[i];
            }
            SKBNP_PRAGMA(omp simd)
            for (ptrdiff_t k = 0; k < ENTRIES; k++)
                tail[k] = (tail[k] + value[k]) * scaled[k];
        }
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t k = 0; k < ENTRIES; k++)
            value[k] = order * (fast_log1p(0.5 * rise[k]) - rise[k]) +
                       0.5 * fast_log1p(rise[k]) + zero - fast_log1p(tail[k]);
        for (ptrdiff_t k = 0; k < n_here; k++)
            out[begin + k] = value[k];
    }
}

#endif
