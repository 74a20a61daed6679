/* Passes over a chunk of the words of a document, for the collapsed step on a tree. */

#ifndef SKBNP_NESTED_H
#define SKBNP_NESTED_H

#include <stddef.h>
#include <stdint.h>

#define VECTOR_FUNCTION SKBNP_INLINE
#include "vectors.h"

/* Words at a time. */
#define WORDS 16

/* Expected tokens of each word at a node and below, from the last node to the first. */
SKBNP_INLINE void sum_below(ptrdiff_t n_used, ptrdiff_t wide, const int32_t *parent,
                            const double *taken, const double *shares, double *below)
{
    for (ptrdiff_t a = 0; a < n_used; a++) {
        const double *r = shares + a * wide;
        double *own = below + a * WORDS;
        SKBNP_PRAGMA(omp simd)
        for (int i = 0; i < WORDS; i++)
            own[i] = taken[i] * r[i];
    }
    for (ptrdiff_t a = n_used - 1; a > 0; a--) {
        const double *own = below + a * WORDS;
        double *above = below + parent[a] * WORDS;
        SKBNP_PRAGMA(omp simd)
        for (int i = 0; i < WORDS; i++)
            above[i] += own[i];
    }
}

/* Probability of each node and word given all other tokens of the document, which takes
   the place of `shares`; by node what goes on to its children, per unit of theirs. */
SKBNP_INLINE void weigh_nodes(ptrdiff_t n_used, ptrdiff_t wide, const int32_t *parent,
                              const double *prior, const double *total,
                              const double *rest, double stop, double go,
                              const double *tokens, const double *subtree,
                              const double *taken, const double *own,
                              const double *inverse, double eta, const double *tile,
                              const double *below, double *onward, double *shares,
                              double *sums, double *left)
{
    SKBNP_PRAGMA(omp simd)
    for (int i = 0; i < WORDS; i++)
        sums[i] = left[i] = 0.0;
    for (ptrdiff_t a = 0; a < n_used; a++) {
        double *r = shares + a * wide, *on = onward + a * WORDS;
        const double *phi = tile + a * wide, *under = below + a * WORDS;
        const double *from = onward + (a > 0 ? parent[a] : 0) * WORDS;
        double low = eta * inverse[a], weight[WORDS];
        SKBNP_PRAGMA(omp simd)
        for (int i = 0; i < WORDS; i++) {
            double others = subtree[a] - under[i];
            others = others > 0.0 ? others : 0.0;
            weight[i] = a > 0 ? from[i] * (others + prior[a]) : 1.0;
        }
        if (total[a] > 0.0) {
            SKBNP_PRAGMA(omp simd)
            for (int i = 0; i < WORDS; i++) {
                double here = tokens[a] - taken[i] * r[i], all = subtree[a] - under[i];
                double further, share;
                here = here > 0.0 ? here : 0.0;
                further = all > here ? all - here : 0.0;
                share = weight[i] / (here + further + stop + go);
                on[i] = share * (further + go) / (further + total[a]);
                left[i] += on[i] * rest[a];
                weight[i] = share * (here + stop);
            }
        }
        SKBNP_PRAGMA(omp simd)
        for (int i = 0; i < WORDS; i++) {
            double p = phi[i] - own[i] * inverse[a] * r[i];
            p = p > low ? p : low;
            r[i] = weight[i] * p;
            sums[i] += r[i];
        }
    }
}

/* Make responsibilities sum to one, and add n_w r_wu to the tokens of nodes. */
SKBNP_INLINE void share_out(ptrdiff_t n_used, ptrdiff_t wide, const double *counts,
                            const double *sums, double *shares, double *tokens)
{
    double inverse[WORDS];
    SKBNP_PRAGMA(omp simd)
    for (int i = 0; i < WORDS; i++)
        inverse[i] = 1.0 / sums[i];
    for (ptrdiff_t a = 0; a < n_used; a++) {
        double *r = shares + a * wide, total = 0.0;
        SKBNP_PRAGMA(omp simd reduction(+ : total))
        for (int i = 0; i < WORDS; i++) {
            r[i] *= inverse[i];
            total += counts[i] * r[i];
        }
        tokens[a] += total;
    }
}

#endif
