#include "document.h"

#include <math.h>

#include "clones.h"
#include "lanes.h"
#include "passes.h"
#include "special.h"

#define SMALLEST_WEIGHT 1e-150
/* Prior of what fills the last vector: its exponent is never the largest. */
#define NOTHING 1e-18f
/* A document goes on with the topics in use once they are this part of all... */
#define NARROW 4
/* ...and leaves out more of them once one in so many has become idle... */
#define DROP 5
/* ...for so many rounds, between passes over all topics. */
#define MAX_ROUNDS 3
/* Topics of a document that have room beside its words in double precision. */
#define MANY 64

/* e, totals, prior and counts of the topics in use, their numbers; lanes of their sums,
   and the tile. */
size_t skbnp_document_work(size_t n, size_t stride)
{
    size_t wide = (n + LANES - 1) / LANES * LANES, most = stride / NARROW;
    return 5 * stride + LANES * (most + LANES) + wide * most;
}

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
        Lanes s0 = lanes_of(0.0f), s1 = s0, s2 = s0, s3 = s0;
        for (a = 0; a < n_used; a++) {
            const float *t = tile + a * wide + i;
            Lanes w = lanes_of(e[a]);
            s0 = lanes_add(s0, lanes_mul(w, lanes_load(t)));
            s1 = lanes_add(s1, lanes_mul(w, lanes_load(t + LANES)));
            s2 = lanes_add(s2, lanes_mul(w, lanes_load(t + 2 * LANES)));
            s3 = lanes_add(s3, lanes_mul(w, lanes_load(t + 3 * LANES)));
        }
        s0 = lanes_div(lanes_load(counts + i), s0);
        s1 = lanes_div(lanes_load(counts + i + LANES), s1);
        s2 = lanes_div(lanes_load(counts + i + 2 * LANES), s2);
        s3 = lanes_div(lanes_load(counts + i + 3 * LANES), s3);
        for (a = 0; a < n_used; a++) {
            const float *t = tile + a * wide + i;
            Lanes low = lanes_add(lanes_mul(s0, lanes_load(t)),
                                  lanes_mul(s1, lanes_load(t + LANES)));
            Lanes high = lanes_add(lanes_mul(s2, lanes_load(t + 2 * LANES)),
                                   lanes_mul(s3, lanes_load(t + 3 * LANES)));
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
        const float *t = sums + a * LANES;
        lanes_store(total + a,
                    lanes_fold(lanes_load(t), lanes_load(t + LANES),
                               lanes_load(t + 2 * LANES), lanes_load(t + 3 * LANES),
                               lanes_load(t + 4 * LANES), lanes_load(t + 5 * LANES),
                               lanes_load(t + 6 * LANES), lanes_load(t + 7 * LANES)));
    }
}

SKBNP_CLONES
void skbnp_iterate(ptrdiff_t n, const int32_t *words, const float *counts,
                   ptrdiff_t n_topics, ptrdiff_t stride, const float *weights,
                   const float *prior, float *doc_topic, float *work, ptrdiff_t n_mean,
                   ptrdiff_t max_iter, float tol, float active)
{
    ptrdiff_t iteration = 0, wide = padded(n), n_used, n_left, a, k;
    float *e = work, *total = e + stride, *used_prior = total + stride;
    float *used = used_prior + stride;
    int32_t *topics = (int32_t *)(used + stride), *kept = (int32_t *)total;
    float *sums = (float *)(topics + stride);
    float *tile = sums + LANES * (stride / NARROW + LANES);
    float change;
    int rounds = 0;

    for (; n_mean > 0; n_mean--) {
        weigh_mean(stride, prior, doc_topic, e);
        sum_words(n, words, counts, stride, weights, e, total);
        settle(stride, e, total, doc_topic);
    }
    while (iteration < max_iter) {
        weigh(stride, prior, doc_topic, e);
        sum_words(n, words, counts, stride, weights, e, total);
        change = settle(stride, e, total, doc_topic);
        iteration++;
        if (change < tol)
            return;
        if (iteration < 2 || rounds == MAX_ROUNDS)
            continue;
        n_used = count_active(n_topics, doc_topic, active);
        if (n_used == 0 || NARROW * n_used > n_topics)
            continue;
        /* Few topics are in use: iterate over them alone, then look at all again. */
        rounds++;
        choose(n_topics, doc_topic, active, topics);
        narrow(n, words, stride, weights, n_used, topics, tile);
        for (a = 0; a < padded(n_used); a++) {
            used_prior[a] = a < n_used ? prior[topics[a]] : NOTHING;
            used[a] = a < n_used ? doc_topic[topics[a]] : 0.0f;
        }
        while (iteration < max_iter) {
            weigh(padded(n_used), used_prior, used, e);
            sum_tile(n, counts, n_used, tile, e, sums, total);
            change = settle(padded(n_used), e, total, used);
            iteration++;
            if (change < tol)
                break;
            n_left = count_active(n_used, used, active);
            if (n_left == 0 || n_left > n_used - n_used / DROP - 1)
                continue;
            choose(n_used, used, active, kept);
            for (a = 0; a < padded(n_left); a++) {
                ptrdiff_t from = a < n_left ? kept[a] : 0;
                topics[a] = topics[from];
                used_prior[a] = a < n_left ? used_prior[from] : NOTHING;
                used[a] = a < n_left ? used[from] : 0.0f;
                if (a < n_left && a != from)
                    memcpy(tile + a * wide, tile + from * wide,
                           (size_t)wide * sizeof(float));
            }
            n_used = n_left;
        }
        for (k = 0; k < stride; k++)
            doc_topic[k] = 0.0f;
        for (a = 0; a < n_used; a++)
            doc_topic[topics[a]] = used[a];
    }
}

/* Sums over words for up to MANY topics, eight at a time. */
SKBNP_INLINE void finish_few(ptrdiff_t n, const int32_t *words, const double *counts,
                             ptrdiff_t stride, const float *weights,
                             ptrdiff_t n_support, const int32_t *topics,
                             const double *doc_weights, double *doc_topic, double *norms)
{
    double e[MANY], tokens[MANY], part[MANY];
    int32_t column[MANY];
    ptrdiff_t wide = padded(n_support), a;
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
        doc_topic[a] = tokens[a];
}

SKBNP_CLONES
double skbnp_finish(ptrdiff_t n, const int32_t *words, const double *counts,
                    ptrdiff_t stride, const float *weights, const double *prior,
                    ptrdiff_t n_support, const int32_t *topics, const float *start,
                    double scale, double *doc_weights, double *doc_topic, double *norms,
                    int with_bound)
{
    double bound = 0.0, top = -HUGE_VAL;
    ptrdiff_t a, i;

    for (a = 0; a < n_support; a++)
        doc_weights[a] = prior[topics[a]] + (double)start[topics[a]] / scale;
    SKBNP_PRAGMA(omp simd reduction(max : top))
    for (a = 0; a < n_support; a++) {
        doc_topic[a] = digamma_exponent(doc_weights[a]);
        top = doc_topic[a] > top ? doc_topic[a] : top;
    }
    SKBNP_PRAGMA(omp simd)
    for (a = 0; a < n_support; a++) {
        double factor = digamma_factor(doc_weights[a]);
        double weight = factor * fast_exp(doc_topic[a] - top);
        doc_weights[a] = weight < SMALLEST_WEIGHT ? SMALLEST_WEIGHT : weight;
        doc_topic[a] = 0.0;
    }
    if (n_support <= MANY)
        finish_few(n, words, counts, stride, weights, n_support, topics, doc_weights,
                   doc_topic, norms);
    else
        for (i = 0; i < n; i++) {
            const float *row = weights + words[i] * stride;
            double s = 0.0, f;
            for (a = 0; a < n_support; a++)
                s += doc_weights[a] * (double)row[topics[a]];
            norms[i] = s;
            f = counts[i] / s;
            for (a = 0; a < n_support; a++)
                doc_topic[a] += f * doc_weights[a] * (double)row[topics[a]];
        }
    if (!with_bound)
        return 0.0;
    for (i = 0; i < n; i++)
        bound += counts[i] * log(norms[i]);
    for (a = 0; a < n_support; a++) {
        double x = prior[topics[a]];
        bound += lgamma(x + doc_topic[a]) - lgamma(x);
        bound -= doc_topic[a] * log(doc_weights[a]);
    }
    return bound;
}

SKBNP_CLONES
ptrdiff_t skbnp_word_sums(ptrdiff_t begin, ptrdiff_t end, const int32_t *columns,
                          const int32_t *docs, const double *ratios,
                          const double *log_ratios, const int32_t *support,
                          const int32_t *doc_topics, const double *doc_weights,
                          ptrdiff_t stride, const float *weights, int32_t *limits,
                          int32_t *topics, double *used_weights, double *sums,
                          double *log_norms, int32_t *marks, double *scratch,
                          int32_t *found)
{
    ptrdiff_t put = 0;
    for (ptrdiff_t word = begin; word < end; word++) {
        const float *row = weights + word * stride;
        ptrdiff_t n_found = 0;
        for (ptrdiff_t at = columns[word]; at < columns[word + 1]; at++) {
            double ratio = ratios[at], log_ratio = log_ratios[at];
            ptrdiff_t last = support[docs[at] + 1];
            for (ptrdiff_t a = support[docs[at]]; a < last; a++) {
                int32_t k = doc_topics[a];
                double e = doc_weights[a];
                if (marks[k] != (int32_t)word) {
                    marks[k] = (int32_t)word;
                    found[n_found++] = k;
                }
                scratch[2 * k] += ratio * e;
                scratch[2 * k + 1] += log_ratio * e;
            }
        }
        /* Few: insertion is fastest; documents list their topics in order. */
        for (ptrdiff_t i = 1; i < n_found; i++) {
            int32_t k = found[i];
            ptrdiff_t j = i;
            for (; j > 0 && found[j - 1] > k; j--)
                found[j] = found[j - 1];
            found[j] = k;
        }
        for (ptrdiff_t i = 0; i < n_found; i++) {
            int32_t k = found[i];
            double b = (double)row[k];
            topics[put] = k;
            used_weights[put] = b;
            sums[put++] = b * scratch[2 * k];
            log_norms[k] += b * scratch[2 * k + 1];
            scratch[2 * k] = scratch[2 * k + 1] = 0.0;
            marks[k] = -1;
        }
        limits[word - begin] = (int32_t)n_found;
    }
    return put;
}

/* Of a word in a topic, within the range of single precision. */
SKBNP_INLINE double parameter(double eta, double scale, double count)
{
    double x = eta + scale * count;
    x = x < 1e-18 ? 1e-18 : x;
    return x > 1e30 ? 1e30 : x;
}

SKBNP_CLONES
void skbnp_word_weights(ptrdiff_t n_words, const ptrdiff_t *words, ptrdiff_t n_topics,
                        ptrdiff_t stride, const double *held, ptrdiff_t held_stride,
                        double scale, const double *norm, double eta, float smallest,
                        double *work, int mean, float *table, double *tops)
{
    float *x = (float *)work, *exponent = x + stride;
    float *shift = exponent + stride; /* of the exponents, by topic */
    double *means = work, *inverse = work + stride;
    double heaviest = -HUGE_VAL;
    ptrdiff_t k;

    for (k = 0; k < n_topics; k++)
        heaviest = norm[k] > heaviest ? norm[k] : heaviest;
    for (k = 0; k < n_topics; k++) {
        if (mean)
            inverse[k] = heaviest / norm[k];
        else
            shift[k] = (float)(norm[k] - heaviest);
    }
    for (ptrdiff_t w = 0; w < n_words; w++) {
        const double *restrict counts = held + words[w] * held_stride;
        float *restrict row = table + w * stride;
        double largest = 0.0;
        float top = -HUGE_VALF, most = 0.0f, first;
        if (mean) {
            SKBNP_PRAGMA(omp simd reduction(max : largest))
            for (k = 0; k < n_topics; k++) {
                means[k] = (eta + scale * counts[k]) * inverse[k];
                largest = means[k] > largest ? means[k] : largest;
            }
            SKBNP_PRAGMA(omp simd)
            for (k = 0; k < n_topics; k++) {
                float weight = (float)(means[k] / largest);
                row[k] = weight < smallest ? smallest : weight;
            }
            if (tops)
                tops[w] = largest;
        } else {
            SKBNP_PRAGMA(omp simd reduction(max : largest))
            for (k = 0; k < n_topics; k++) {
                double count = parameter(eta, scale, counts[k]);
                largest = count > largest ? count : largest;
            }
            first = (float)largest;
            /* Relative to the largest, of which -1/x alone may be out of proportion; and
               then to the largest exponent, for the smallest may leave the range. */
            SKBNP_PRAGMA(omp simd reduction(max : top))
            for (k = 0; k < n_topics; k++) {
                double count = parameter(eta, scale, counts[k]);
                x[k] = (float)count;
                exponent[k] = digamma_restf(x[k]) - shift[k];
                exponent[k] += (float)(count - largest) / (x[k] * first);
                top = exponent[k] > top ? exponent[k] : top;
            }
            SKBNP_PRAGMA(omp simd reduction(max : most))
            for (k = 0; k < n_topics; k++) {
                row[k] = digamma_factorf(x[k]) * fast_expf(exponent[k] - top);
                most = row[k] > most ? row[k] : most;
            }
            SKBNP_PRAGMA(omp simd)
            for (k = 0; k < n_topics; k++) {
                float weight = row[k] / most; /* exactly one for the largest */
                row[k] = weight < smallest ? smallest : weight;
            }
        }
        for (k = n_topics; k < stride; k++)
            row[k] = 0.0f;
    }
}
