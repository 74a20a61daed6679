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

#endif
