/* Passes over the words and topics of a document, and over topics of a word. */

#ifndef SKBNP_DOCUMENT_H
#define SKBNP_DOCUMENT_H

#include <math.h>

#include "lanes.h"
#include "special.h"

#define SMALLEST_WEIGHT 1e-150

/* e_k = exp(psi(prior_k + N_k)) up to a factor that cancels: relative to the largest
   exponent, for all of them may leave the range. */
SKBNP_INLINE void weigh(ptrdiff_t stride, const float *restrict prior,
                        const float *restrict doc_topic, float *restrict e)
{
    Lanes most = lanes_of(-HUGE_VALF);
    float top;
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t k = 0; k < stride; k++)
        e[k] = digamma_exponentf(prior[k] + doc_topic[k]);
    for (ptrdiff_t k = 0; k < stride; k += LANES)
        most = lanes_max(most, lanes_load(e + k));
    top = lanes_most(most);
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t k = 0; k < stride; k++) {
        float factor = digamma_factorf(prior[k] + doc_topic[k]);
        float weight = factor * fast_expf(e[k] - top);
        e[k] = weight < SMALLEST_FLOAT_WEIGHT ? SMALLEST_FLOAT_WEIGHT : weight;
    }
}

/* total_a = sum_w n_w b_wa / s_w for the topics in a tile. Some words at a time, so that
   what is read of them stays at hand; `sums` holds the lanes of each total. */
SKBNP_INLINE void sum_tile(ptrdiff_t n, const float *counts, ptrdiff_t n_used,
                           const float *tile, const float *e, float *sums, float *total)
{
    ptrdiff_t wide = padded(n), i = 0, a;
    for (a = 0; a < padded(n_used); a++)
        lanes_store(sums + a * LANES, lanes_of(0.0f));
    for (; i + 4 * LANES <= wide; i += 4 * LANES) {
        Lanes s[4];
        for (int j = 0; j < 4; j++)
            s[j] = lanes_of(0.0f);
        for (a = 0; a < n_used; a++)
            for (int j = 0; j < 4; j++) {
                Lanes b = lanes_load(tile + a * wide + i + j * LANES);
                s[j] = lanes_add(s[j], lanes_mul(lanes_of(e[a]), b));
            }
        for (int j = 0; j < 4; j++)
            s[j] = lanes_div(lanes_load(counts + i + j * LANES), s[j]);
        for (a = 0; a < n_used; a++) {
            const float *t = tile + a * wide + i;
            Lanes low = lanes_add(lanes_mul(s[0], lanes_load(t)),
                                  lanes_mul(s[1], lanes_load(t + LANES)));
            Lanes high = lanes_add(lanes_mul(s[2], lanes_load(t + 2 * LANES)),
                                   lanes_mul(s[3], lanes_load(t + 3 * LANES)));
            Lanes sum = lanes_add(lanes_load(sums + a * LANES), lanes_add(low, high));
            lanes_store(sums + a * LANES, sum);
        }
    }
    for (; i < wide; i += LANES) {
        Lanes s = lanes_of(0.0f);
        for (a = 0; a < n_used; a++)
            s = lanes_add(s, lanes_mul(lanes_of(e[a]), lanes_load(tile + a * wide + i)));
        s = lanes_div(lanes_load(counts + i), s);
        for (a = 0; a < n_used; a++) {
            Lanes part = lanes_mul(s, lanes_load(tile + a * wide + i));
            lanes_store(sums + a * LANES, lanes_add(lanes_load(sums + a * LANES), part));
        }
    }
    for (a = 0; a < n_used; a += 8) {
        Lanes all[8];
        for (int j = 0; j < 8; j++)
            all[j] = lanes_load(sums + (a + j) * LANES);
        lanes_store(total + a, lanes_fold(all));
    }
}

/* Adds sums over words to the tokens of topics, eight at a time. `work` has room for
   four numbers of each, up to a multiple of eight. */
SKBNP_INLINE void finish_words(ptrdiff_t n, const int32_t *words, const double *counts,
                               ptrdiff_t stride, const float *weights,
                               ptrdiff_t n_support, const int32_t *topics,
                               const double *doc_weights, double *doc_topic,
                               double *norms, double *restrict work)
{
    ptrdiff_t wide = padded(n_support), a;
    double *restrict e = work, *restrict tokens = e + wide, *restrict part = tokens + wide;
    int32_t *restrict column = (int32_t *)(part + wide);
    for (a = 0; a < wide; a++) {
        e[a] = a < n_support ? doc_weights[a] : 0.0;
        column[a] = a < n_support ? topics[a] : 0;
        tokens[a] = 0.0;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        const float *row = weights + words[i] * stride;
        double sum[8] = {0.0}, f;
        for (a = 0; a < wide; a += 8)
            for (int j = 0; j < 8; j++) {
                part[a + j] = e[a + j] * (double)row[column[a + j]];
                sum[j] += part[a + j];
            }
        norms[i] = ((sum[0] + sum[4]) + (sum[2] + sum[6])) +
                   ((sum[1] + sum[5]) + (sum[3] + sum[7]));
        f = counts[i] / norms[i];
        for (a = 0; a < wide; a += 8)
            for (int j = 0; j < 8; j++)
                tokens[a + j] += f * part[a + j];
    }
    for (a = 0; a < n_support; a++)
        doc_topic[a] += tokens[a];
}

/* e = exp(psi(theta)) up to a factor that cancels; in place. `work` is left zero. */
SKBNP_INLINE void weigh_exactly(ptrdiff_t n, double *weights, double *work)
{
    double top = -HUGE_VAL;
    SKBNP_PRAGMA(omp simd reduction(max : top))
    for (ptrdiff_t a = 0; a < n; a++) {
        work[a] = digamma_exponent(weights[a]);
        top = work[a] > top ? work[a] : top;
    }
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t a = 0; a < n; a++) {
        double weight = digamma_factor(weights[a]) * fast_exp(work[a] - top);
        weights[a] = weight < SMALLEST_WEIGHT ? SMALLEST_WEIGHT : weight;
        work[a] = 0.0;
    }
}

/* Of a word in a topic, within the range of single precision. */
SKBNP_INLINE double parameter(double eta, double scale, double count)
{
    double x = eta + scale * count;
    x = x < 1e-18 ? 1e-18 : x;
    return x > 1e30 ? 1e30 : x;
}

/* Means (eta + S_k) inverse_k of a word, relative to the largest, which is returned. */
SKBNP_INLINE double mean_row(ptrdiff_t n_topics, const double *restrict counts,
                             double scale, double eta, const double *inverse,
                             float smallest, double *means, float *restrict row)
{
    double largest = 0.0, unit;
    SKBNP_PRAGMA(omp simd reduction(max : largest))
    for (ptrdiff_t k = 0; k < n_topics; k++) {
        means[k] = (eta + scale * counts[k]) * inverse[k];
        largest = means[k] > largest ? means[k] : largest;
    }
    unit = 1.0 / (largest > 1e-300 ? largest : 1e-300);
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t k = 0; k < n_topics; k++) {
        float weight = (float)(means[k] * unit);
        row[k] = weight < smallest ? smallest : weight;
    }
    return largest;
}

/* exp(psi(eta + S_k) - shift_k) of a word, relative to the largest. */
SKBNP_INLINE void digamma_row(ptrdiff_t n_topics, const double *restrict counts,
                              double scale, double eta, const float *shift,
                              float smallest, float *x, float *exponent,
                              float *restrict row)
{
    double largest = 0.0;
    float top = -HUGE_VALF, most = 0.0f, first;
    SKBNP_PRAGMA(omp simd reduction(max : largest))
    for (ptrdiff_t k = 0; k < n_topics; k++) {
        double count = parameter(eta, scale, counts[k]);
        largest = count > largest ? count : largest;
    }
    first = (float)largest;
    /* Relative to the largest, of which -1/x alone may be out of proportion; and then to
       the largest exponent, for the smallest may leave the range. */
    SKBNP_PRAGMA(omp simd reduction(max : top))
    for (ptrdiff_t k = 0; k < n_topics; k++) {
        double count = parameter(eta, scale, counts[k]);
        x[k] = (float)count;
        exponent[k] = digamma_restf(x[k]) - shift[k];
        exponent[k] += (float)(count - largest) / (x[k] * first);
        top = exponent[k] > top ? exponent[k] : top;
    }
    SKBNP_PRAGMA(omp simd reduction(max : most))
    for (ptrdiff_t k = 0; k < n_topics; k++) {
        row[k] = digamma_factorf(x[k]) * fast_expf(exponent[k] - top);
        most = row[k] > most ? row[k] : most;
    }
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t k = 0; k < n_topics; k++) {
        float weight = row[k] / most; /* exactly one for the largest */
        row[k] = weight < smallest ? smallest : weight;
    }
}

/* Weights of words relative to the largest of each, by `mean_row` or `digamma_row`; those
   of means may be asked for. */
SKBNP_CLONES
static void weigh_words(const double *sums, ptrdiff_t sums_stride, double scale,
                        const ptrdiff_t *words, ptrdiff_t n_words, const double *norm,
                        ptrdiff_t n_topics, double eta, int mean, float smallest,
                        double *work, float *table, ptrdiff_t stride, double *tops)
{
    float *x = (float *)work, *exponent = x + stride;
    float *shift = exponent + stride; /* of the exponents, by topic */
    double *inverse = work + stride, heaviest = -HUGE_VAL;
    for (ptrdiff_t k = 0; k < n_topics; k++)
        heaviest = norm[k] > heaviest ? norm[k] : heaviest;
    for (ptrdiff_t k = 0; k < n_topics; k++) {
        if (mean)
            inverse[k] = heaviest / norm[k];
        else
            shift[k] = (float)(norm[k] - heaviest);
    }
    for (ptrdiff_t i = 0; i < n_words; i++) {
        const double *counts = sums + words[i] * sums_stride;
        float *row = table + i * stride;
        if (mean) {
            double largest =
                mean_row(n_topics, counts, scale, eta, inverse, smallest, work, row);
            if (tops)
                tops[i] = largest;
        } else {
            digamma_row(n_topics, counts, scale, eta, shift, smallest, x, exponent, row);
        }
        for (ptrdiff_t k = n_topics; k < stride; k++)
            row[k] = 0.0f;
    }
}

#endif
