/* Inner products of a sparse row with some directions at a time. */

#ifndef SKBNP_SPHERE_H
#define SKBNP_SPHERE_H

#include <stddef.h>
#include <stdint.h>

#include "clones.h"
#include "lanes.h"

/* Directions of a tile: the part of a word is two cache lines, and sums of two words at
   a time stay in registers. */
#define TILE 32
#define TILE_LANES (TILE / LANES)

/* Fetch the part of a word, as it is read soon. */
SKBNP_INLINE void fetch_word(const float *part)
{
    SKBNP_PREFETCH(part);
    SKBNP_PREFETCH(part + TILE / 2);
}

/* score_k = prior_k + strength sum_w x_w tile_wk, odd and even words apart, each in order;
   the largest. What the next row, which begins behind this one, reads of the tile is
   fetched meanwhile. */
SKBNP_CLONES
static double score_row(ptrdiff_t n, ptrdiff_t n_next, const int32_t *words,
                        const float *values, const float *tile, const double *prior,
                        double strength, double *score)
{
    double most = -HUGE_VAL;
    float dot[TILE];
    const int32_t *next = words + n;
    Lanes even[TILE_LANES], odd[TILE_LANES];
    ptrdiff_t i = 0;
    for (int j = 0; j < TILE_LANES; j++)
        even[j] = odd[j] = lanes_of(0.0f);
    for (; i + 2 <= n; i += 2) {
        const float *one = tile + words[i] * (ptrdiff_t)TILE;
        const float *two = tile + words[i + 1] * (ptrdiff_t)TILE;
        Lanes x = lanes_of(values[i]), y = lanes_of(values[i + 1]);
        if (i + 2 <= n_next) {
            fetch_word(tile + next[i] * (ptrdiff_t)TILE);
            fetch_word(tile + next[i + 1] * (ptrdiff_t)TILE);
        }
        for (int j = 0; j < TILE_LANES; j++) {
            even[j] = lanes_add(even[j], lanes_mul(x, lanes_load(one + j * LANES)));
            odd[j] = lanes_add(odd[j], lanes_mul(y, lanes_load(two + j * LANES)));
        }
    }
    if (i < n) {
        const float *one = tile + words[i] * (ptrdiff_t)TILE;
        Lanes x = lanes_of(values[i]);
        for (int j = 0; j < TILE_LANES; j++)
            even[j] = lanes_add(even[j], lanes_mul(x, lanes_load(one + j * LANES)));
    }
    for (int j = 0; j < TILE_LANES; j++)
        lanes_store(dot + j * LANES, lanes_add(even[j], odd[j]));
    SKBNP_PRAGMA(omp simd reduction(max : most))
    for (int k = 0; k < TILE; k++) {
        score[k] = prior[k] + strength * (double)dot[k];
        most = score[k] > most ? score[k] : most;
    }
    return most;
}

#endif
