/* Entries of words, and dishes that hold them: loops without branches on the data. */

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

/* Multiply the ratios of the dishes of a word by (1 + n_kw / eta) ... over its `times`
   tokens, and list the dishes other than `old` that have had none; how many are listed.
   `own` becomes n_kw of `old`, whose ratio is of no use. */
SKBNP_INLINE ptrdiff_t touch_entries(ptrdiff_t n, const int32_t *dishes,
                                     const int32_t *counts, int32_t times, int32_t old,
                                     double eta, double per_eta,
                                     double *restrict ratio, int32_t *restrict touched,
                                     ptrdiff_t n_touched, int32_t *own)
{
    int32_t count_of_old = 0;
    for (ptrdiff_t e = 0; e < n; e++) {
        int32_t k = dishes[e], count = counts[e];
        double before = ratio[k], more = 1.0 + (double)count * per_eta;
        for (int32_t r = 1; r < times; r++)
            more *= 1.0 + (double)count / (eta + r);
        touched[n_touched] = k;
        n_touched += (before == 1.0) & (k != old);
        count_of_old = k == old ? count : count_of_old;
        ratio[k] = before * more;
    }
    *own = count_of_old;
    return n_touched;
}

/* Weights m_k ratio_k / prod_{i < length} (x_k + i) of listed dishes in units of
   scale^length, with x_k = n_k + V eta, and m_k tables and, if there is a base, so much
   of that times its scale; their sum. Factors i and length - 1 - i make
   x (x + length - 1) + i (length - 1 - i) together. */
SKBNP_INLINE double weigh_listed(ptrdiff_t n, const int32_t *dishes,
                                 const int32_t *tokens, const int32_t *tables,
                                 const double *base, double base_scale,
                                 const double *ratio, int32_t length, double v_eta,
                                 double scale, double *restrict weights)
{
    enum { WIDE = 16 };
    double sum = 0.0, last = (length - 1) * scale;
    for (ptrdiff_t start = 0; start < n; start += WIDE) {
        double up[WIDE], down[WIDE], x[WIDE], y[WIDE];
        ptrdiff_t m = n - start < WIDE ? n - start : WIDE;
        for (ptrdiff_t j = 0; j < WIDE; j++) {
            int32_t k = dishes[start + (j < m ? j : 0)];
            x[j] = ((double)tokens[k] + v_eta) * scale;
            double mass = (double)tables[k] + (base ? base_scale * base[k] : 0.0);
            up[j] = mass * ratio[k];
        }
        SKBNP_PRAGMA(omp simd)
        for (int j = 0; j < WIDE; j++) {
            y[j] = x[j] * (x[j] + last);
            down[j] = length & 1 ? x[j] + 0.5 * last : 1.0;
        }
        for (int32_t i = 0; i < length / 2; i++) {
            double more = i * scale * (last - i * scale);
            SKBNP_PRAGMA(omp simd)
            for (int j = 0; j < WIDE; j++)
                down[j] *= y[j] + more;
        }
        SKBNP_PRAGMA(omp simd)
        for (int j = 0; j < WIDE; j++)
            up[j] /= down[j];
        for (ptrdiff_t j = 0; j < m; j++) {
            weights[start + j] = up[j];
            sum += up[j];
        }
    }
    return sum;
}

#endif
