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

/* The probability that there are some, their mean and variance. */
SKBNP_INLINE double where_some(double mean, double variance, double *others,
                               double *spread)
{
    double none, log_none, some;
    double ratio = variance / mean;
    ratio = ratio < 1e-300 ? 1e-300 : ratio;
    ratio = ratio > 1.0 - 1e-12 ? 1.0 - 1e-12 : ratio;
    log_none = mean * fast_log(ratio) / (1.0 - ratio);
    none = fast_exp(log_none);
    some = 1.0 - none;
    some = log_none > -1e-4
               ? -log_none * (1.0 + log_none * (0.5 + log_none * (1.0 / 6.0)))
               : some;
    some = variance > 0.0 ? some : 1.0; /* all is known of n */
    *others = mean / some;
    *spread = (variance + mean * mean) / some - *others * *others;
    *spread = *spread > 0.0 ? *spread : 0.0; /* there may be less than one trial */
    return some;
}

SKBNP_CLONES
void skbnp_expected_growth(ptrdiff_t n_rows, ptrdiff_t n_words, const double *means,
                           const double *variances, const double *eta, double *totals)
{
    double mean[CHUNK], variance[CHUNK], growth[CHUNK], unused;
    for (ptrdiff_t row = 0; row < n_rows; row++) {
        double nothing = log_gamma(eta[row], &unused), total = 0.0;
        ptrdiff_t n = 0;
        for (ptrdiff_t w = 0; w < n_words; w++) {
            mean[n] = means[row * n_words + w];
            variance[n] = variances[row * n_words + w];
            n += !(mean[n] <= 1e-30); /* what is not a number is not lost */
            if (n < CHUNK && w < n_words - 1)
                continue;
            if (eta[row] < 1e3) {
                SKBNP_PRAGMA(omp simd)
                for (ptrdiff_t i = 0; i < n; i++) {
                    double digamma, others, spread;
                    double some = where_some(mean[i], variance[i], &others, &spread);
                    double rise = log_gamma(eta[row] + others, &digamma) - nothing;
                    double bend = 0.5 * spread * trigamma(eta[row] + others);
                    growth[i] = some * (rise + bend);
                }
            } else { /* the difference would be of rounding */
                for (ptrdiff_t i = 0; i < n; i++) {
                    double others, spread;
                    double some = where_some(mean[i], variance[i], &others, &spread);
                    double bend = 0.5 * spread * trigamma(eta[row] + others);
                    growth[i] = some * (log_rising(eta[row], others) + bend);
                }
            }
            for (ptrdiff_t i = 0; i < n; i++)
                total += growth[i];
            n = 0;
        }
        totals[row] = total;
    }
}
