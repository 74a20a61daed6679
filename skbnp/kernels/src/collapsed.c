#include "collapsed.h"

#include <math.h>

#include "clones.h"
#include "lanes.h"
#include "passes.h"
#include "special.h"

/* Of the two factors of a responsibility, so that their product stays normal. */
#define SMALLEST_WORD_WEIGHT 1e-20f
/* Tokens of a topic less rounding: where one word holds them all, none must be left. */
#define CERTAIN (1.0f - 4e-7f)
/* Topics leave a document once one in so many has become idle. */
#define DROP 5
/* Words at a time in a tile. */
#define CHUNK (4 * LANES)

SKBNP_CLONES
ptrdiff_t skbnp_collapsed_start(const Document *document, ptrdiff_t n_topics,
                                ptrdiff_t stride, const float *weights,
                                const float *prior, float *doc_topic, float *work,
                                ptrdiff_t n_iter, float tol, float active,
                                int32_t *topics)
{
    float *e = work, *total = e + stride;
    ptrdiff_t n_used, most = 0;
    for (; n_iter > 0; n_iter--) {
        weigh_mean(stride, prior, doc_topic, e);
        sum_words(document->n, document->words, document->counts, stride, weights, e,
                  total);
        if (settle(stride, e, total, doc_topic) < tol)
            break;
    }
    n_used = count_active(n_topics, doc_topic, active);
    if (n_used > 0)
        return choose(n_topics, doc_topic, active, topics);
    for (ptrdiff_t k = 1; k < n_topics; k++)
        most = doc_topic[k] > doc_topic[most] ? k : most;
    topics[0] = (int32_t)most;
    return 1;
}

size_t skbnp_collapsed_tile(ptrdiff_t n, ptrdiff_t n_used)
{
    return (size_t)((n + CHUNK - 1) / CHUNK * CHUNK) * (size_t)n_used;
}

/* Lanes of the sums of topics; their N, rate, prior and inverse; two by chunk. */
size_t skbnp_collapsed_work(ptrdiff_t n_used)
{
    return (size_t)(LANES + 4) * (size_t)(n_used + LANES) + 2 * CHUNK;
}

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

typedef struct {
    float *lanes, *tokens, *rates, *prior, *inverse, *chunk;
} Space;

SKBNP_INLINE Space divide(float *work, ptrdiff_t n_used)
{
    ptrdiff_t wide = padded(n_used);
    Space space;
    space.lanes = work;
    space.tokens = space.lanes + wide * LANES;
    space.rates = space.tokens + wide;
    space.prior = space.rates + wide;
    space.inverse = space.prior + wide;
    space.chunk = space.inverse + wide;
    return space;
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

/* Make the responsibilities of a chunk sum to one, and add n_w r_wk to the topics. */
SKBNP_INLINE void normalise(ptrdiff_t n_used, ptrdiff_t wide, const float *counts,
                            const Lanes *norms, float *shares, float *lanes)
{
    Lanes inverse[4], n[4];
    for (int j = 0; j < 4; j++) {
        inverse[j] = lanes_div(lanes_of(1.0f), norms[j]);
        n[j] = lanes_load(counts + j * LANES);
    }
    for (ptrdiff_t a = 0; a < n_used; a++) {
        float *r = shares + a * wide;
        Lanes sum = lanes_load(lanes + a * LANES);
        for (int j = 0; j < 4; j++) {
            Lanes share = lanes_mul(lanes_load(r + j * LANES), inverse[j]);
            lanes_store(r + j * LANES, share);
            sum = lanes_add(sum, lanes_mul(n[j], share));
        }
        lanes_store(lanes + a * LANES, sum);
    }
}

/* Entries of a chunk of an array by word; zeros behind its end. */
SKBNP_INLINE const float *part_of(const float *values, ptrdiff_t begin, ptrdiff_t n,
                                  float *room)
{
    if (begin + CHUNK <= n)
        return values + begin;
    for (ptrdiff_t i = 0; i < CHUNK; i++)
        room[i] = begin + i < n ? values[begin + i] : 0.0f;
    return room;
}

SKBNP_INLINE Lanes word_weight(Lanes b, Lanes own, Lanes low, Lanes inverse, Lanes share)
{
    Lanes weight = lanes_sub(b, lanes_mul(own, lanes_mul(inverse, share)));
    weight = lanes_max(weight, lanes_mul(low, inverse));
    return lanes_max(weight, lanes_of(SMALLEST_WORD_WEIGHT));
}

/* Drop topics of fewer tokens from all arrays, once they are many; how many are left. */
SKBNP_INLINE ptrdiff_t drop_idle(ptrdiff_t n_used, ptrdiff_t wide, float idle,
                                 Space *space, int32_t *topics, float *tile,
                                 float *shares)
{
    ptrdiff_t left = count_active(n_used, space->tokens, idle), put = 0;
    if (left == 0 || left > n_used - n_used / DROP - 1)
        return n_used;
    for (ptrdiff_t a = 0; a < n_used; a++) {
        if (space->tokens[a] < idle)
            continue;
        if (a != put) {
            space->tokens[put] = space->tokens[a];
            space->prior[put] = space->prior[a];
            space->inverse[put] = space->inverse[a];
            topics[put] = topics[a];
            memcpy(tile + put * wide, tile + a * wide, (size_t)wide * sizeof(float));
            memcpy(shares + put * wide, shares + a * wide, (size_t)wide * sizeof(float));
        }
        put++;
    }
    return put;
}

SKBNP_CLONES
ptrdiff_t skbnp_collapsed_iterate(const Document *document, ptrdiff_t stride,
                                  const float *weights, const float *prior,
                                  const float *inverse, const float *doc_topic,
                                  ptrdiff_t n_used, int32_t *topics, float *tile,
                                  float *shares, float *work, ptrdiff_t max_iter,
                                  float tol, float idle, float scale)
{
    ptrdiff_t n = document->n, wide = (n + CHUNK - 1) / CHUNK * CHUNK, i, a;
    Space space = divide(work, n_used);
    float counts_room[CHUNK], own_room[CHUNK], low_room[CHUNK];

    for (a = 0; a < n_used; a++) {
        space.tokens[a] = doc_topic[topics[a]];
        space.prior[a] = prior[topics[a]];
        space.inverse[a] = inverse[topics[a]];
    }
    for (i = 0; i < wide; i += CHUNK) {
        const float *rows[CHUNK];
        for (ptrdiff_t j = 0; j < CHUNK; j++) /* behind the end: any, not counted */
            rows[j] = weights + document->words[i + j < n ? i + j : i] * stride;
        for (a = 0; a < n_used; a++)
            for (ptrdiff_t j = 0; j < CHUNK; j++)
                tile[a * wide + i + j] = rows[j][topics[a]];
    }

    for (a = 0; a < n_used; a++)
        lanes_store(space.lanes + a * LANES, lanes_of(0.0f));
    for (i = 0; i < wide; i += CHUNK) {
        Lanes norms[4] = {lanes_of(0.0f), lanes_of(0.0f), lanes_of(0.0f), lanes_of(0.0f)};
        for (a = 0; a < n_used; a++) {
            float e = space.prior[a] + space.tokens[a];
            Lanes held = lanes_of(e < SMALLEST_FLOAT_WEIGHT ? SMALLEST_FLOAT_WEIGHT : e);
            for (int j = 0; j < 4; j++) {
                ptrdiff_t at = a * wide + i + j * LANES;
                Lanes share = lanes_mul(held, lanes_load(tile + at));
                lanes_store(shares + at, share);
                norms[j] = lanes_add(norms[j], share);
            }
        }
        normalise(n_used, wide, part_of(document->counts, i, n, counts_room), norms,
                  shares + i, space.lanes);
    }
    fold_sums(n_used, space.lanes, space.tokens);

    for (; max_iter > 0; max_iter--) {
        set_rates(n_used, space.prior, space.tokens, scale, space.rates);
        for (a = 0; a < n_used; a++)
            lanes_store(space.lanes + a * LANES, lanes_of(0.0f));
        for (i = 0; i < wide; i += CHUNK) {
            const float *counts = part_of(document->counts, i, n, counts_room);
            const float *own = part_of(document->own, i, n, own_room);
            const float *low = part_of(document->low, i, n, low_room);
            Lanes norms[4] = {lanes_of(0.0f), lanes_of(0.0f), lanes_of(0.0f),
                              lanes_of(0.0f)};
            Lanes count[4], mine[4], least[4];
            for (int j = 0; j < 4; j++) {
                count[j] = lanes_load(counts + j * LANES);
                mine[j] = lanes_load(own + j * LANES);
                least[j] = lanes_load(low + j * LANES);
            }
            for (a = 0; a < n_used; a++) {
                Lanes tokens = lanes_of(CERTAIN * space.tokens[a]);
                Lanes rate = lanes_of(space.rates[a]);
                Lanes start = lanes_of(space.prior[a]);
                Lanes factor = lanes_of(space.inverse[a]);
                for (int j = 0; j < 4; j++) {
                    ptrdiff_t at = a * wide + i + j * LANES;
                    Lanes share = lanes_load(shares + at), others, weight;
                    others = lanes_sub(tokens, lanes_mul(count[j], share));
                    others = lanes_max(others, lanes_of(0.0f));
                    others = lanes_add(lanes_mul(others, rate), start);
                    others = lanes_max(others, lanes_of(SMALLEST_FLOAT_WEIGHT));
                    weight = word_weight(lanes_load(tile + at), mine[j], least[j], factor,
                                         share);
                    share = lanes_mul(others, weight);
                    lanes_store(shares + at, share);
                    norms[j] = lanes_add(norms[j], share);
                }
            }
            normalise(n_used, wide, counts, norms, shares + i, space.lanes);
        }
        if (fold_sums(n_used, space.lanes, space.tokens) < tol)
            break;
        n_used = drop_idle(n_used, wide, idle, &space, topics, tile, shares);
    }
    return n_used;
}

SKBNP_CLONES
ptrdiff_t skbnp_collapsed_finish(const Document *document, const double *counts,
                                 const float *prior, const float *inverse,
                                 ptrdiff_t n_used, const int32_t *topics,
                                 const float *tile, const float *shares, float *work,
                                 float least, float scale, int32_t *lengths,
                                 int32_t *places, double *sums, double *tokens,
                                 double *log_predictive)
{
    ptrdiff_t n = document->n, wide = (n + CHUNK - 1) / CHUNK * CHUNK, put = 0, i, a;
    float *held = divide(work, n_used).tokens, most[LANES];
    double total = 0.0;
    /* As many topics as there are may share a word evenly. */
    if (least * (float)n_used > 0.5f)
        least = 0.5f / (float)n_used;
    for (a = 0; a < n_used; a++)
        tokens[a] = 0.0;
    for (i = 0; i < n; i++) {
        ptrdiff_t begin = put;
        double sum = 0.0, ratio;
        for (a = 0; a < n_used; a++) {
            float share = shares[a * wide + i];
            places[put] = (int32_t)a;
            sums[put] = (double)share;
            put += share >= least;
        }
        for (a = begin; a < put; a++)
            sum += sums[a];
        ratio = counts[i] / sum;
        for (a = begin; a < put; a++) {
            sums[a] *= ratio;
            tokens[places[a]] += sums[a];
            places[a] = topics[places[a]];
        }
        lengths[i] = (int32_t)(put - begin);
    }
    for (a = 0; a < n_used; a++)
        held[a] = (float)(tokens[a] * (double)scale);
    for (i = 0; i < n; i += LANES) {
        Lanes n_here, mine, low, sum = lanes_of(0.0f);
        float room[3][LANES];
        for (ptrdiff_t j = 0; j < LANES; j++) {
            room[0][j] = i + j < n ? document->counts[i + j] : 0.0f;
            room[1][j] = i + j < n ? document->own[i + j] : 0.0f;
            room[2][j] = i + j < n ? document->low[i + j] : 0.0f;
        }
        n_here = lanes_load(room[0]);
        mine = lanes_load(room[1]);
        low = lanes_load(room[2]);
        for (a = 0; a < n_used; a++) {
            ptrdiff_t at = a * wide + i;
            Lanes share = lanes_load(shares + at);
            Lanes others = lanes_of(CERTAIN * held[a]), weight;
            others = lanes_sub(others, lanes_mul(n_here, share));
            others = lanes_max(others, lanes_of(0.0f));
            others = lanes_add(others, lanes_of(prior[topics[a]]));
            others = lanes_max(others, lanes_of(SMALLEST_FLOAT_WEIGHT));
            weight = word_weight(lanes_load(tile + at), mine, low,
                                 lanes_of(inverse[topics[a]]), share);
            sum = lanes_add(sum, lanes_mul(others, weight));
        }
        lanes_store(most, sum);
        for (ptrdiff_t j = 0; j < LANES && i + j < n; j++)
            total += counts[i + j] * fast_log((double)most[j]);
    }
    *log_predictive += total;
    return put;
}

/* Documents ahead whose sums are fetched. */
#define AHEAD 8

/* Position of the lowest bit that is set, if any is. */
SKBNP_INLINE int lowest_bit(uint64_t bits)
{
#if defined(__GNUC__)
    return __builtin_ctzll(bits);
#else
    int at = 0;
    for (; !(bits & 1u); bits >>= 1)
        at++;
    return at;
#endif
}

SKBNP_CLONES
ptrdiff_t skbnp_collapsed_sums(ptrdiff_t begin, ptrdiff_t end, const int32_t *columns,
                               const ptrdiff_t *stored, const ptrdiff_t *limits,
                               const int32_t *topics, const double *sums,
                               ptrdiff_t n_topics, int32_t *lengths, int32_t *used,
                               double *totals, uint64_t *marks, double *scratch)
{
    ptrdiff_t put = 0, last_column = columns[end];
    for (ptrdiff_t word = begin; word < end; word++) {
        ptrdiff_t before = put;
        for (ptrdiff_t at = columns[word]; at < columns[word + 1]; at++) {
            ptrdiff_t last = limits[stored[at] + 1];
            if (at + AHEAD < last_column) {
                ptrdiff_t later = limits[stored[at + AHEAD]];
                SKBNP_PREFETCH(topics + later);
                SKBNP_PREFETCH(sums + later);
            }
            for (ptrdiff_t i = limits[stored[at]]; i < last; i++) {
                int32_t k = topics[i];
                marks[k >> 6] |= (uint64_t)1 << (k & 63);
                scratch[k] += sums[i];
            }
        }
        for (ptrdiff_t part = 0; part < (n_topics + 63) >> 6; part++) {
            uint64_t bits = marks[part];
            marks[part] = 0;
            for (; bits; bits &= bits - 1) {
                int32_t k = (int32_t)(part << 6) + lowest_bit(bits);
                used[put] = k;
                totals[put++] = scratch[k];
                scratch[k] = 0.0;
            }
        }
        lengths[word - begin] = (int32_t)(put - before);
    }
    return put;
}
