#include "word_topics.h"

#include "special.h"

/* Words at a time. */
#define CHUNK 64

SKBNP_CLONES
void skbnp_growth(ptrdiff_t n_words, ptrdiff_t n_topics, ptrdiff_t stride,
                  const double *held, double scale, double eta, double *restrict growth,
                  double *restrict moment)
{
    double unused, nothing = log_gamma(eta, &unused);
    for (ptrdiff_t w = 0; w < n_words; w++) {
        const double *restrict counts = held + w * stride;
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t k = 0; k < n_topics; k++) {
            double count = scale * counts[k], digamma;
            growth[k] += log_gamma(eta + count, &digamma) - nothing;
            moment[k] += count * digamma;
        }
    }
}

SKBNP_CLONES
double skbnp_joint_growth(ptrdiff_t n_words, ptrdiff_t stride, const double *held,
                          double scale, double eta, ptrdiff_t a, ptrdiff_t b)
{
    double unused, nothing = log_gamma(eta, &unused), total = 0.0;
    double one[CHUNK], other[CHUNK], gain[CHUNK];
    ptrdiff_t n = 0;
    for (ptrdiff_t w = 0; w < n_words; w++) {
        /* A word that only one of them holds gains nothing. */
        one[n] = scale * held[w * stride + a];
        other[n] = scale * held[w * stride + b];
        n += one[n] > 0.0 && other[n] > 0.0;
        if (n < CHUNK && w < n_words - 1)
            continue;
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t i = 0; i < n; i++) {
            double digamma;
            gain[i] = log_gamma(eta + (one[i] + other[i]), &digamma) + nothing;
            gain[i] -= log_gamma(eta + one[i], &digamma);
            gain[i] -= log_gamma(eta + other[i], &digamma);
        }
        for (ptrdiff_t i = 0; i < n; i++)
            total += gain[i];
        n = 0;
    }
    return total;
}
