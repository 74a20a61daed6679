/* Masses of a word of many entries, in whole vectors. */

#ifndef SKBNP_ENTRIES_H
#define SKBNP_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

#include "clones.h"

SKBNP_INLINE void weigh_many(ptrdiff_t n, const int32_t *dishes, const int32_t *counts,
                             const float *doc_rate, const float *rate,
                             float *restrict masses, float *here, float *anywhere)
{
    float sum = 0.0f, all = 0.0f;
    SKBNP_PRAGMA(omp simd reduction(+ : sum, all))
    for (ptrdiff_t i = 0; i < n; i++) {
        masses[i] = (float)counts[i] * doc_rate[dishes[i]];
        sum += masses[i];
        all += (float)counts[i] * rate[dishes[i]];
    }
    *here = sum;
    *anywhere = all;
}

#endif
