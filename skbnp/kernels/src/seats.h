/* Passes over the words, topics and tables of a document, eight floats at a time. */

#ifndef SKBNP_SEATS_H
#define SKBNP_SEATS_H

#include "clones.h"
#include "lanes.h"
#include "special.h"

/* seats_wt = n_w softmax_t(log_pi_t + sum_a phi_at E_wa) over the tables, eight words at
   a time; tokens_t = sum_w seats_wt. Returns sum_t |change of tokens|. */
SKBNP_INLINE float seat_words(ptrdiff_t n, const float *counts, ptrdiff_t n_used,
                              const float *tile, ptrdiff_t tile_stride,
                              const float *phi, const float *log_pi, ptrdiff_t wide,
                              float *seats, float *tokens, float *before)
{
    float change = 0.0f;
    for (ptrdiff_t t = 0; t < wide; t++) {
        before[t] = tokens[t];
        tokens[t] = 0.0f;
    }
    for (ptrdiff_t i = 0; i < n; i += 8) {
        const float *r[8];
        float *out = seats + i * wide;
        ptrdiff_t m = n - i < 8 ? n - i : 8;
        for (ptrdiff_t j = 0; j < 8; j++)
            r[j] = tile + (i + (j < m ? j : 0)) * tile_stride;
        for (ptrdiff_t t = 0; t < wide; t += LANES) {
            Lanes sum[8];
            for (int j = 0; j < 8; j++)
                sum[j] = lanes_load(log_pi + t);
            for (ptrdiff_t a = 0; a < n_used; a++) {
                Lanes p = lanes_load(phi + a * wide + t);
                for (int j = 0; j < 8; j++)
                    sum[j] = lanes_add(sum[j], lanes_mul(p, lanes_of(r[j][a])));
            }
            for (int j = 0; j < 8; j++)
                lanes_store(out + j * wide + t, sum[j]);
        }
        for (ptrdiff_t j = 0; j < m; j++) {
            float *row = out + j * wide, top, sum, factor;
            Lanes most = lanes_load(row), total = lanes_of(0.0f);
            for (ptrdiff_t t = LANES; t < wide; t += LANES)
                most = lanes_max(most, lanes_load(row + t));
            top = lanes_most(most);
            SKBNP_PRAGMA(omp simd)
            for (ptrdiff_t t = 0; t < wide; t++) {
                float x = row[t] - top;
                row[t] = x < -80.0f ? 0.0f : fast_expf(x);
            }
            for (ptrdiff_t t = 0; t < wide; t += LANES)
                total = lanes_add(total, lanes_load(row + t));
            sum = lanes_sum(total);
            factor = counts[i + j] / sum;
            for (ptrdiff_t t = 0; t < wide; t += LANES) {
                Lanes share = lanes_mul(lanes_load(row + t), lanes_of(factor));
                lanes_store(row + t, share);
                lanes_store(tokens + t, lanes_add(lanes_load(tokens + t), share));
            }
        }
    }
    for (ptrdiff_t t = 0; t < wide; t++)
        change += fabsf(tokens[t] - before[t]);
    return change;
}

/* logits_at = log_beta_a + sum_w seats_wt E_wa for some topics, eight at a time. */
SKBNP_INLINE void weigh_topics(ptrdiff_t n, ptrdiff_t n_used, const float *tile,
                               ptrdiff_t tile_stride, const int32_t *rows,
                               const float *log_beta, ptrdiff_t wide,
                               const float *seats, float *logits)
{
    for (ptrdiff_t a = 0; a < n_used; a += 8) {
        ptrdiff_t m = n_used - a < 8 ? n_used - a : 8, at[8];
        for (ptrdiff_t j = 0; j < 8; j++)
            at[j] = a + (j < m ? j : 0);
        for (ptrdiff_t t = 0; t < wide; t += LANES) {
            Lanes sum[8];
            for (int j = 0; j < 8; j++)
                sum[j] = lanes_of(log_beta[at[j]]);
            for (ptrdiff_t i = 0; i < n; i++) {
                Lanes z = lanes_load(seats + i * wide + t);
                const float *r = tile + (rows ? (ptrdiff_t)rows[i] : i) * tile_stride;
                for (int j = 0; j < 8; j++)
                    sum[j] = lanes_add(sum[j], lanes_mul(z, lanes_of(r[at[j]])));
            }
            for (int j = 0; j < 8; j++)
                if (j < m)
                    lanes_store(logits + (a + j) * wide + t, sum[j]);
        }
    }
}

/* Softmax over the topics, for each table; in place. */
SKBNP_INLINE void share_topics(ptrdiff_t n_used, ptrdiff_t wide, float *phi)
{
    for (ptrdiff_t t = 0; t < wide; t += LANES) {
        Lanes most = lanes_load(phi + t), sum = lanes_of(0.0f);
        for (ptrdiff_t a = 1; a < n_used; a++)
            most = lanes_max(most, lanes_load(phi + a * wide + t));
        for (ptrdiff_t a = 0; a < n_used; a++) {
            float x[LANES];
            lanes_store(x, lanes_sub(lanes_load(phi + a * wide + t), most));
            for (int i = 0; i < LANES; i++)
                x[i] = x[i] < -80.0f ? 0.0f : fast_expf(x[i]);
            lanes_store(phi + a * wide + t, lanes_load(x));
            sum = lanes_add(sum, lanes_load(x));
        }
        sum = lanes_div(lanes_of(1.0f), sum);
        for (ptrdiff_t a = 0; a < n_used; a++)
            lanes_store(phi + a * wide + t,
                        lanes_mul(lanes_load(phi + a * wide + t), sum));
    }
}

/* Tokens of each topic if the document chose among topics alone, log_beta their prior. */
SKBNP_INLINE void weigh_alone(ptrdiff_t n, const int32_t *words, const float *counts,
                              ptrdiff_t n_topics, ptrdiff_t stride, const float *logs,
                              const float *log_beta, float *weight, float *share)
{
    for (ptrdiff_t k = 0; k < n_topics; k++)
        weight[k] = 0.0f;
    for (ptrdiff_t i = 0; i < n; i++) {
        const float *row = logs + words[i] * stride;
        float top = -HUGE_VALF, sum = 0.0f, factor;
        SKBNP_PRAGMA(omp simd reduction(max : top))
        for (ptrdiff_t k = 0; k < n_topics; k++) {
            share[k] = row[k] + log_beta[k];
            top = share[k] > top ? share[k] : top;
        }
        SKBNP_PRAGMA(omp simd reduction(+ : sum))
        for (ptrdiff_t k = 0; k < n_topics; k++) {
            share[k] = fast_expf(share[k] - top);
            sum += share[k];
        }
        factor = counts[i] / sum;
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t k = 0; k < n_topics; k++)
            weight[k] += factor * share[k];
    }
}

/* exp(x - top); in place. */
SKBNP_INLINE void exp_below(ptrdiff_t n, double top, double *x)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t t = 0; t < n; t++)
        x[t] = fast_exp(x[t] - top);
}

/* psi(eta + S_k) - norm_k, or log(eta + S_k) - norm_k for the mean, minus the largest,
   of some words; columns behind the topics are zero. */
SKBNP_CLONES
static void log_rows(const double *sums, ptrdiff_t sums_stride, const ptrdiff_t *words,
                     ptrdiff_t n_words, double scale, const double *norm,
                     ptrdiff_t n_topics, double eta, int mean, double *work,
                     float *table, ptrdiff_t stride)
{
    for (ptrdiff_t i = 0; i < n_words; i++) {
        const double *restrict counts = sums + words[i] * sums_stride;
        float *restrict row = table + i * stride;
        double top = -HUGE_VAL;
        SKBNP_PRAGMA(omp simd reduction(max : top))
        for (ptrdiff_t k = 0; k < n_topics; k++) {
            double x = eta + scale * counts[k];
            work[k] = fast_log(mean ? x : x + 8.0) - norm[k];
            work[k] += mean ? 0.0 : digamma_exponent(x < 1e30 ? x : 1e30);
            top = work[k] > top ? work[k] : top;
        }
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t k = 0; k < n_topics; k++)
            row[k] = (float)(work[k] - top);
        for (ptrdiff_t k = n_topics; k < stride; k++)
            row[k] = 0.0f;
    }
}

#endif
