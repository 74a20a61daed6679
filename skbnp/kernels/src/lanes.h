/* Eight floats at a time.

   With gcc and clang a vector of theirs, which they map to the registers there are;
   elsewhere, and with SKBNP_PORTABLE, a struct and plain loops. */

#ifndef SKBNP_LANES_H
#define SKBNP_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "clones.h"

#define LANES 8

SKBNP_INLINE ptrdiff_t padded(ptrdiff_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

#if defined(__GNUC__) && !defined(SKBNP_PORTABLE)

#pragma GCC diagnostic ignored "-Wpsabi" /* everything here is inlined */
typedef float Lanes __attribute__((vector_size(32)));
typedef int32_t LaneBits __attribute__((vector_size(32)));

/* By way of an array: gcc takes vectors of this size apart before it makes the versions
   for wider registers, and would put them together from single entries. */
SKBNP_INLINE Lanes lanes_of(float x)
{
    float all[LANES];
    Lanes a;
    for (int i = 0; i < LANES; i++)
        all[i] = x;
    memcpy(&a, all, sizeof a);
    return a;
}
SKBNP_INLINE Lanes lanes_add(Lanes a, Lanes b) { return a + b; }
SKBNP_INLINE Lanes lanes_sub(Lanes a, Lanes b) { return a - b; }
SKBNP_INLINE Lanes lanes_mul(Lanes a, Lanes b) { return a * b; }
SKBNP_INLINE Lanes lanes_div(Lanes a, Lanes b) { return a / b; }
SKBNP_INLINE Lanes lanes_abs(Lanes a) { return (Lanes)((LaneBits)a & 0x7fffffff); }
/* Without versions for wider registers gcc would compare entry by entry what one register
   does not hold: there the sign of the difference is the mask. */
SKBNP_INLINE Lanes lanes_max(Lanes a, Lanes b)
{
#if defined(SKBNP_HAS_CLONES) || defined(__AVX__) || defined(__clang__)
    LaneBits more = a > b;
#else
    LaneBits more = ~((LaneBits)(a - b) >> 31);
#endif
    return (Lanes)(((LaneBits)a & more) | ((LaneBits)b & ~more));
}
SKBNP_INLINE float lanes_get(Lanes a, int i) { return a[i]; }

#else

typedef struct {
    float x[LANES];
} Lanes;

#define SKBNP_LANEWISE(expression)                                                     \
    Lanes r;                                                                           \
    for (int i = 0; i < LANES; i++)                                                    \
        r.x[i] = (expression);                                                         \
    return r

SKBNP_INLINE Lanes lanes_of(float x) { SKBNP_LANEWISE(x); }
SKBNP_INLINE Lanes lanes_add(Lanes a, Lanes b) { SKBNP_LANEWISE(a.x[i] + b.x[i]); }
SKBNP_INLINE Lanes lanes_sub(Lanes a, Lanes b) { SKBNP_LANEWISE(a.x[i] - b.x[i]); }
SKBNP_INLINE Lanes lanes_mul(Lanes a, Lanes b) { SKBNP_LANEWISE(a.x[i] * b.x[i]); }
SKBNP_INLINE Lanes lanes_div(Lanes a, Lanes b) { SKBNP_LANEWISE(a.x[i] / b.x[i]); }
SKBNP_INLINE Lanes lanes_abs(Lanes a) { SKBNP_LANEWISE(fabsf(a.x[i])); }
SKBNP_INLINE Lanes lanes_max(Lanes a, Lanes b)
{
    SKBNP_LANEWISE(a.x[i] > b.x[i] ? a.x[i] : b.x[i]);
}
SKBNP_INLINE float lanes_get(Lanes a, int i) { return a.x[i]; }

#endif

SKBNP_INLINE Lanes lanes_load(const float *from)
{
    Lanes a;
    memcpy(&a, from, sizeof a);
    return a;
}

SKBNP_INLINE void lanes_store(float *to, Lanes a)
{
    memcpy(to, &a, sizeof a);
}

SKBNP_INLINE float lanes_sum(Lanes a)
{
    float even = lanes_get(a, 0) + lanes_get(a, 2), odd = lanes_get(a, 1) + lanes_get(a, 3);
    even += lanes_get(a, 4) + lanes_get(a, 6);
    odd += lanes_get(a, 5) + lanes_get(a, 7);
    return even + odd;
}

SKBNP_INLINE float lanes_most(Lanes a)
{
    float most = lanes_get(a, 0);
    for (int i = 1; i < LANES; i++)
        most = lanes_get(a, i) > most ? lanes_get(a, i) : most;
    return most;
}

/* Lane i of the result is the sum of the lanes of a[i]: sums of neighbours, three times.
   The order of the additions is the same wherever it is computed. */
#if defined(__GNUC__) && !defined(SKBNP_PORTABLE) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SKBNP_SHUFFLES
#endif
#endif

#ifdef SKBNP_SHUFFLES
SKBNP_INLINE Lanes lanes_pairs(Lanes a, Lanes b)
{
    return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
           __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
}

SKBNP_INLINE Lanes lanes_quads(Lanes a, Lanes b)
{
    return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
           __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}

SKBNP_INLINE Lanes lanes_fold(const Lanes *a)
{
    Lanes low = lanes_quads(lanes_pairs(a[0], a[1]), lanes_pairs(a[2], a[3]));
    Lanes high = lanes_quads(lanes_pairs(a[4], a[5]), lanes_pairs(a[6], a[7]));
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(low, high, 4, 5, 6, 7, 12, 13, 14, 15);
}
#else
SKBNP_INLINE Lanes lanes_fold(const Lanes *a)
{
    float sums[LANES];
    for (int i = 0; i < LANES; i++) {
        float low = (lanes_get(a[i], 0) + lanes_get(a[i], 1)) +
                    (lanes_get(a[i], 2) + lanes_get(a[i], 3));
        float high = (lanes_get(a[i], 4) + lanes_get(a[i], 5)) +
                     (lanes_get(a[i], 6) + lanes_get(a[i], 7));
        sums[i] = low + high;
    }
    return lanes_load(sums);
}
#endif

/* Passes over the words of a document that document steps share. */

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
SKBNP_INLINE float set_tokens(ptrdiff_t stride, const float *e, const float *total,
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
