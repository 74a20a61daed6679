/* Passes over the words of a document in chunks, for the collapsed step. */

#ifndef SKBNP_COLLAPSED_H
#define SKBNP_COLLAPSED_H

#include <math.h>

#include "lanes.h"
#include "special.h"

/* Of the two factors of a responsibility, so that their product stays normal. */
#define SMALLEST_WORD_WEIGHT 1e-20f
/* Tokens of a topic less rounding: where one word holds them all, none must be left. */
#define CERTAIN (1.0f - 4e-7f)
/* Words at a time. A tile holds chunk by chunk, and topic by topic in each: what one
   pass reads is in one place. */
#define CHUNK (4 * LANES)
/* Longest extrapolation, in iterations. */
#define FURTHEST 8.0f

/* (G - a) / N, with G the geometric mean of a + n for n ~ Poisson(N), taking n for its
   mean where it is not zero: with q = 1 - exp(-N), G = a exp(q log(1 + N / (q a))). */
SKBNP_INLINE float growth_rate(float a, float mean)
{
    float some = mean < 0.03f ? mean * (1.0f - mean * (0.5f - mean * (1.0f / 6.0f)))
                              : 1.0f - fast_expf(-mean);
    float ratio = mean / (some * a), log_ratio, x, rise;
    log_ratio = ratio < 1e-3f ? ratio * (1.0f - 0.5f * ratio) : fast_logf(1.0f + ratio);
    x = some * log_ratio;
    rise = x < 0.03f ? x * (1.0f + x * (0.5f + x * (1.0f / 6.0f))) : fast_expf(x) - 1.0f;
    return a * rise / mean;
}

SKBNP_INLINE float at_least(float least, float x)
{
    return x > least ? x : least;
}

/* Of topics whose counts are scaled; those of no tokens have the limit. */
SKBNP_INLINE void set_rates(ptrdiff_t n_used, const float *prior, const float *tokens,
                            float scale, float *rates)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t a = 0; a < n_used; a++) {
        float mean = tokens[a] / scale, rate;
        mean = mean < 1e-20f ? 1e-20f : mean;
        mean = mean > 1e20f ? 1e20f : mean;
        rate = growth_rate(prior[a] / scale, mean);
        rates[a] = rate < 1.0f ? rate : 1.0f;
    }
}

/* Totals of the topics from the lanes of their sums; the sum of their changes. */
SKBNP_INLINE float fold_sums(ptrdiff_t n_used, const float *lanes, float *tokens)
{
    float change = 0.0f;
    for (ptrdiff_t a = 0; a < n_used; a++) {
        float sum = lanes_sum(lanes_load(lanes + a * LANES));
        change += fabsf(sum - tokens[a]);
        tokens[a] = sum;
    }
    return change;
}

/* Tokens after two iterations, carried on by scheme S3 of Varadhan and Roland (2008),
   "Simple and globally convergent methods for accelerating the convergence of any EM
   algorithm": with r and v the first and second differences, x + 2 a r + a^2 v where
   a = |r| / |v|, if that is further, and at most FURTHEST. No topic loses more than
   three quarters of its tokens, and their sum stays. */
SKBNP_INLINE void extrapolate(ptrdiff_t n_used, const float *first, const float *second,
                              float *tokens)
{
    double steps = 0.0, turns = 0.0, before = 0.0, after = 0.0;
    float far = FURTHEST;
    for (ptrdiff_t a = 0; a < n_used; a++) {
        double r = second[a] - first[a], v = (tokens[a] - second[a]) - r;
        steps += r * r;
        turns += v * v;
        before += tokens[a];
    }
    if (steps <= turns)
        return;
    if (steps < FURTHEST * FURTHEST * turns)
        far = (float)sqrt(steps / turns);
    for (ptrdiff_t a = 0; a < n_used; a++) {
        float r = second[a] - first[a], v = (tokens[a] - second[a]) - r;
        tokens[a] = at_least(0.25f * tokens[a], first[a] + far * (2.0f * r + far * v));
        after += tokens[a];
    }
    for (ptrdiff_t a = 0; a < n_used; a++)
        tokens[a] *= (float)(before / after);
}

/* Make the responsibilities of a chunk sum to one, and add n_w r_wk to the topics. */
SKBNP_INLINE void normalise(ptrdiff_t n_used, const float *counts,
                            const float *norms, float *shares, float *lanes)
{
    Lanes inverse[4], n[4];
    for (int j = 0; j < 4; j++) {
        inverse[j] = lanes_div(lanes_of(1.0f), lanes_load(norms + j * LANES));
        n[j] = lanes_load(counts + j * LANES);
    }
    for (ptrdiff_t a = 0; a < n_used; a++) {
        float *r = shares + a * CHUNK;
        Lanes sum = lanes_load(lanes + a * LANES);
        for (int j = 0; j < 4; j++) {
            Lanes share = lanes_mul(lanes_load(r + j * LANES), inverse[j]);
            lanes_store(r + j * LANES, share);
            sum = lanes_add(sum, lanes_mul(n[j], share));
        }
        lanes_store(lanes + a * LANES, sum);
    }
}

SKBNP_INLINE Lanes word_weight(Lanes b, Lanes own, Lanes low, Lanes inverse, Lanes share)
{
    Lanes weight = lanes_sub(b, lanes_mul(own, lanes_mul(inverse, share)));
    weight = lanes_max(weight, lanes_mul(low, inverse));
    return lanes_max(weight, lanes_of(SMALLEST_WORD_WEIGHT));
}

/* (prior_k + N_k) b_wk for a chunk of words, and the sums over topics. */
SKBNP_INLINE void start_chunk(ptrdiff_t n_used, const float *prior,
                              const float *tokens, const float *tile, float *shares,
                              float *sums)
{
    Lanes norms[4] = {lanes_of(0.0f), lanes_of(0.0f), lanes_of(0.0f), lanes_of(0.0f)};
    for (ptrdiff_t a = 0; a < n_used; a++) {
        float e = prior[a] + tokens[a];
        Lanes mass = lanes_of(e < SMALLEST_FLOAT_WEIGHT ? SMALLEST_FLOAT_WEIGHT : e);
        for (int j = 0; j < 4; j++) {
            ptrdiff_t at = a * CHUNK + j * LANES;
            Lanes share = lanes_mul(mass, lanes_load(tile + at));
            lanes_store(shares + at, share);
            norms[j] = lanes_add(norms[j], share);
        }
    }
    for (int j = 0; j < 4; j++)
        lanes_store(sums + j * LANES, norms[j]);
}

/* (prior_k + rate_k [N_k - n_w r_wk]_+) max(b_wk - own_w inverse_k r_wk, ..), and the
   sums over topics. */
SKBNP_INLINE void update_chunk(ptrdiff_t n_used, const float *counts,
                               const float *own, const float *low, const float *prior,
                               const float *inverse, const float *all_tokens,
                               const float *rates, const float *tile, float *shares,
                               float *sums)
{
    Lanes norms[4] = {lanes_of(0.0f), lanes_of(0.0f), lanes_of(0.0f), lanes_of(0.0f)};
    Lanes count[4], mine[4], least[4];
    for (int j = 0; j < 4; j++) {
        count[j] = lanes_load(counts + j * LANES);
        mine[j] = lanes_load(own + j * LANES);
        least[j] = lanes_load(low + j * LANES);
    }
    for (ptrdiff_t a = 0; a < n_used; a++) {
        Lanes tokens = lanes_of(CERTAIN * all_tokens[a]), rate = lanes_of(rates[a]);
        Lanes start = lanes_of(at_least(SMALLEST_FLOAT_WEIGHT, prior[a]));
        Lanes factor = lanes_of(inverse[a]);
        for (int j = 0; j < 4; j++) {
            ptrdiff_t at = a * CHUNK + j * LANES;
            Lanes share = lanes_load(shares + at), others, weight;
            others = lanes_sub(tokens, lanes_mul(count[j], share));
            others = lanes_max(others, lanes_of(0.0f));
            others = lanes_add(lanes_mul(others, rate), start);
            weight = word_weight(lanes_load(tile + at), mine[j], least[j], factor, share);
            share = lanes_mul(others, weight);
            lanes_store(shares + at, share);
            norms[j] = lanes_add(norms[j], share);
        }
    }
    for (int j = 0; j < 4; j++)
        lanes_store(sums + j * LANES, norms[j]);
}

/* r_wk ~ (prior_k + [N_k - taken_w r_wk]_+) b_wk for fixed topics, where r_wk is
   scale_w shares_wk: 1 / scale_w is the sum. */
SKBNP_INLINE void update_fixed_chunk(ptrdiff_t n_used,
                                     const float *taken, const float *prior,
                                     const float *all_tokens, const float *tile,
                                     float *shares, float *scales)
{
    Lanes norms[4] = {lanes_of(0.0f), lanes_of(0.0f), lanes_of(0.0f), lanes_of(0.0f)};
    Lanes own[4]; /* what a share of one takes out */
    for (int j = 0; j < 4; j++)
        own[j] = lanes_mul(lanes_load(taken + j * LANES), lanes_load(scales + j * LANES));
    for (ptrdiff_t a = 0; a < n_used; a++) {
        float least = at_least(SMALLEST_FLOAT_WEIGHT, prior[a]);
        Lanes all = lanes_of(CERTAIN * all_tokens[a] + least), start = lanes_of(least);
        for (int j = 0; j < 4; j++) {
            ptrdiff_t at = a * CHUNK + j * LANES;
            Lanes share = lanes_load(shares + at), weight = lanes_load(tile + at);
            share = lanes_max(lanes_sub(all, lanes_mul(own[j], share)), start);
            share = lanes_mul(share, weight);
            lanes_store(shares + at, share);
            norms[j] = lanes_add(norms[j], share);
        }
    }
    for (int j = 0; j < 4; j++)
        lanes_store(scales + j * LANES, lanes_div(lanes_of(1.0f), norms[j]));
}

/* Add n_w r_wk of a chunk to the topics. */
SKBNP_INLINE void sum_fixed_chunk(ptrdiff_t n_used, const float *counts,
                                  const float *shares, const float *scales,
                                  float *lanes)
{
    Lanes scale[4], n[4]; /* the product of both may leave the range */
    for (int j = 0; j < 4; j++) {
        scale[j] = lanes_load(scales + j * LANES);
        n[j] = lanes_load(counts + j * LANES);
    }
    for (ptrdiff_t a = 0; a < n_used; a++) {
        Lanes sum = lanes_load(lanes + a * LANES);
        for (int j = 0; j < 4; j++) {
            Lanes share = lanes_load(shares + a * CHUNK + j * LANES);
            sum = lanes_add(sum, lanes_mul(n[j], lanes_mul(scale[j], share)));
        }
        lanes_store(lanes + a * LANES, sum);
    }
}

/* sum_k (prior_k + N_k - n_w r_wk) max(b_wk - .., ..) for eight words. */
SKBNP_INLINE void predict_words(ptrdiff_t n_used, const float *counts,
                                const float *own, const float *low, const float *tokens,
                                const float *prior, const float *inverse,
                                const int32_t *topics, const float *tile,
                                const float *shares, float *masses)
{
    Lanes n_here = lanes_load(counts), mine = lanes_load(own), least = lanes_load(low);
    Lanes sum = lanes_of(0.0f);
    for (ptrdiff_t a = 0; a < n_used; a++) {
        ptrdiff_t at = a * CHUNK;
        Lanes share = lanes_load(shares + at);
        Lanes others = lanes_of(CERTAIN * tokens[a]), weight;
        others = lanes_sub(others, lanes_mul(n_here, share));
        others = lanes_max(others, lanes_of(0.0f));
        others = lanes_add(others, lanes_of(prior[topics[a]]));
        others = lanes_max(others, lanes_of(SMALLEST_FLOAT_WEIGHT));
        weight = word_weight(lanes_load(tile + at), mine, least,
                             lanes_of(inverse[topics[a]]), share);
        sum = lanes_add(sum, lanes_mul(others, weight));
    }
    lanes_store(masses, sum);
}

#endif
