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
SKBNP_INLINE Lanes lanes_max(Lanes a, Lanes b)
{
    LaneBits more = a > b;
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

/* Lane i of the result is the sum of the lanes of a_i: sums of neighbours, three times.
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

SKBNP_INLINE Lanes lanes_fold(Lanes a0, Lanes a1, Lanes a2, Lanes a3, Lanes a4, Lanes a5,
                              Lanes a6, Lanes a7)
{
    Lanes low = lanes_quads(lanes_pairs(a0, a1), lanes_pairs(a2, a3));
    Lanes high = lanes_quads(lanes_pairs(a4, a5), lanes_pairs(a6, a7));
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(low, high, 4, 5, 6, 7, 12, 13, 14, 15);
}
#else
SKBNP_INLINE float lanes_fold_one(Lanes a)
{
    float low = (lanes_get(a, 0) + lanes_get(a, 1)) + (lanes_get(a, 2) + lanes_get(a, 3));
    float high = (lanes_get(a, 4) + lanes_get(a, 5)) + (lanes_get(a, 6) + lanes_get(a, 7));
    return low + high;
}

SKBNP_INLINE Lanes lanes_fold(Lanes a0, Lanes a1, Lanes a2, Lanes a3, Lanes a4, Lanes a5,
                              Lanes a6, Lanes a7)
{
    float sums[LANES] = {lanes_fold_one(a0), lanes_fold_one(a1), lanes_fold_one(a2),
                         lanes_fold_one(a3), lanes_fold_one(a4), lanes_fold_one(a5),
                         lanes_fold_one(a6), lanes_fold_one(a7)};
    return lanes_load(sums);
}
#endif

#endif
