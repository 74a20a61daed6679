/* Passes over the words of a document that document steps share. */

#ifndef SKBNP_PASSES_H
#define SKBNP_PASSES_H

#include <stddef.h>
#include <stdint.h>

#include "clones.h"
#include "lanes.h"

/* Topic weights are not smaller. Word weights are at least 1e-20, so that products of
   the two stay normal, and no division is 0/0. */
#define SMALLEST_FLOAT_WEIGHT 1e-17f

/* e_k = prior_k + N_k up to a factor that cancels. */
SKBNP_INLINE void weigh_mean(ptrdiff_t stride, const float *restrict prior,
                             const float *restrict doc_topic, float *restrict e)
{
    float most = 0.0f;
    SKBNP_PRAGMA(omp simd reduction(max : most))
    for (ptrdiff_t k = 0; k < stride; k++) {
        e[k] = prior[k] + doc_topic[k];
        most = e[k] > most ? e[k] : most;
    }
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t k = 0; k < stride; k++) {
        float weight = e[k] / most;
        e[k] = weight < SMALLEST_FLOAT_WEIGHT ? SMALLEST_FLOAT_WEIGHT : weight;
    }
}

/* N_k = e_k total_k; the sum of its changes. */
SKBNP_INLINE float settle(ptrdiff_t stride, const float *e, const float *total,
                          float *doc_topic)
{
    Lanes change = lanes_of(0.0f);
    for (ptrdiff_t k = 0; k < stride; k += LANES) {
        Lanes mass = lanes_mul(lanes_load(e + k), lanes_load(total + k));
        Lanes moved = lanes_sub(mass, lanes_load(doc_topic + k));
        change = lanes_add(change, lanes_abs(moved));
        lanes_store(doc_topic + k, mass);
    }
    return lanes_sum(change);
}

/* total_k = sum_w n_w b_wk / s_w, eight words at a time; s_w = sum_k e_k b_wk. Rows of
   the next eight are fetched meanwhile: they are too short for the processor to notice. */
SKBNP_INLINE void sum_words(ptrdiff_t n, const int32_t *words, const float *counts,
                            ptrdiff_t stride, const float *weights, const float *e,
                            float *total)
{
    for (ptrdiff_t k = 0; k < stride; k += LANES)
        lanes_store(total + k, lanes_of(0.0f));
    for (ptrdiff_t i = 0; i < n; i += 8) {
        const float *r[8];
        for (ptrdiff_t j = 0; j < 8; j++) {
            ptrdiff_t at = i + j < n ? i + j : i; /* its count is zero */
            r[j] = weights + words[at] * stride;
        }
        Lanes sum[8], f;
        for (int j = 0; j < 8; j++)
            sum[j] = lanes_of(0.0f);
        for (ptrdiff_t k = 0; k < stride; k += LANES) {
            Lanes w = lanes_load(e + k);
            for (int j = 0; j < 8; j++)
                sum[j] = lanes_add(sum[j], lanes_mul(w, lanes_load(r[j] + k)));
        }
        f = lanes_div(lanes_load(counts + i), lanes_fold(sum));
        Lanes f0 = lanes_of(lanes_get(f, 0)), f1 = lanes_of(lanes_get(f, 1));
        Lanes f2 = lanes_of(lanes_get(f, 2)), f3 = lanes_of(lanes_get(f, 3));
        Lanes f4 = lanes_of(lanes_get(f, 4)), f5 = lanes_of(lanes_get(f, 5));
        Lanes f6 = lanes_of(lanes_get(f, 6)), f7 = lanes_of(lanes_get(f, 7));
        for (ptrdiff_t k = 0; k < stride; k += LANES) {
            if (i + 16 <= n && k % 16 == 0)
                for (int j = 0; j < 8; j++)
                    SKBNP_PREFETCH(weights + words[i + 8 + j] * stride + k);
            Lanes t01 = lanes_add(lanes_mul(f0, lanes_load(r[0] + k)),
                                  lanes_mul(f1, lanes_load(r[1] + k)));
            Lanes t23 = lanes_add(lanes_mul(f2, lanes_load(r[2] + k)),
                                  lanes_mul(f3, lanes_load(r[3] + k)));
            Lanes t45 = lanes_add(lanes_mul(f4, lanes_load(r[4] + k)),
                                  lanes_mul(f5, lanes_load(r[5] + k)));
            Lanes t67 = lanes_add(lanes_mul(f6, lanes_load(r[6] + k)),
                                  lanes_mul(f7, lanes_load(r[7] + k)));
            Lanes sum = lanes_add(lanes_add(t01, t23), lanes_add(t45, t67));
            lanes_store(total + k, lanes_add(lanes_load(total + k), sum));
        }
    }
}

/* Those of n entries that are at least `active`: their positions; how many. */
SKBNP_INLINE ptrdiff_t choose(ptrdiff_t n, const float *doc_topic, float active,
                              int32_t *chosen)
{
    ptrdiff_t a = 0;
    for (ptrdiff_t k = 0; k < n; k++) {
        chosen[a] = (int32_t)k;
        a += doc_topic[k] >= active;
    }
    return a;
}

SKBNP_INLINE ptrdiff_t count_active(ptrdiff_t n, const float *doc_topic, float active)
{
    int32_t a = 0;
    SKBNP_PRAGMA(omp simd reduction(+ : a))
    for (ptrdiff_t k = 0; k < n; k++)
        a += doc_topic[k] >= active;
    return a;
}

/* Copy the weights of some topics to a tile, topic by topic, words contiguous. */
SKBNP_INLINE void narrow(ptrdiff_t n, const int32_t *words, ptrdiff_t stride,
                         const float *weights, ptrdiff_t n_used, const int32_t *topics,
                         float *tile)
{
    ptrdiff_t wide = padded(n);
    for (ptrdiff_t i = 0; i < n; i++) {
        const float *row = weights + words[i] * stride;
        for (ptrdiff_t a = 0; a < n_used; a++)
            tile[a * wide + i] = row[topics[a]];
    }
    for (ptrdiff_t a = 0; a < n_used; a++)
        for (ptrdiff_t i = n; i < wide; i++)
            tile[a * wide + i] = 1.0f;
}

#endif
