#include "document.h"

#include <math.h>

#include "clones.h"
#include "special.h"

/* Topic weights are not smaller: products with word weights, which are at least 1e-140,
   stay normal, so that no division is 0/0. */
#define SMALLEST_WEIGHT 1e-150
/* Rounds of packed iteration between passes over all topics. */
#define MAX_ROUNDS 4
/* Packed rows are padded to whole vectors. */
#define PAD 8

SKBNP_INLINE ptrdiff_t padded(ptrdiff_t n)
{
    return (n + PAD - 1) / PAD * PAD;
}

/* Work space: e (K), total (K), prior of packed topics (K), their N (K), numbers of the
   packed topics (K, as doubles hold them exactly), norms (n), counts (n), tile (n K). */
size_t skbnp_document_work(size_t n, size_t n_topics)
{
    size_t wide = (n + PAD - 1) / PAD * PAD;
    return 5 * n_topics + 2 * wide + wide * n_topics;
}

SKBNP_INLINE void weigh(ptrdiff_t size, const double *prior, const double *doc_topic,
                        double *restrict e)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t k = 0; k < size; k++) {
        double weight = exp_digamma(prior[k] + doc_topic[k]);
        e[k] = weight < SMALLEST_WEIGHT ? SMALLEST_WEIGHT : weight;
    }
}

SKBNP_INLINE double settle(ptrdiff_t size, const double *e, const double *total,
                           double *restrict doc_topic)
{
    double change = 0.0;
    SKBNP_PRAGMA(omp simd reduction(+ : change))
    for (ptrdiff_t k = 0; k < size; k++) {
        double mass = e[k] * total[k];
        change += fabs(mass - doc_topic[k]);
        doc_topic[k] = mass;
    }
    return change;
}

/* One iteration over all topics, eight words at a time. */
SKBNP_INLINE double full_pass(ptrdiff_t n, const int32_t *words, const double *counts,
                              ptrdiff_t n_topics, const double *weights,
                              const double *prior, double *restrict doc_topic,
                              double *restrict e, double *restrict total)
{
    ptrdiff_t i = 0, k;
    weigh(n_topics, prior, doc_topic, e);
    for (k = 0; k < n_topics; k++)
        total[k] = 0.0;
    for (; i + 8 <= n; i += 8) {
        const double *r0 = weights + words[i] * n_topics;
        const double *r1 = weights + words[i + 1] * n_topics;
        const double *r2 = weights + words[i + 2] * n_topics;
        const double *r3 = weights + words[i + 3] * n_topics;
        const double *r4 = weights + words[i + 4] * n_topics;
        const double *r5 = weights + words[i + 5] * n_topics;
        const double *r6 = weights + words[i + 6] * n_topics;
        const double *r7 = weights + words[i + 7] * n_topics;
        double s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
        SKBNP_PRAGMA(omp simd reduction(+ : s0, s1, s2, s3, s4, s5, s6, s7))
        for (k = 0; k < n_topics; k++) {
            double w = e[k];
            s0 += w * r0[k];
            s1 += w * r1[k];
            s2 += w * r2[k];
            s3 += w * r3[k];
            s4 += w * r4[k];
            s5 += w * r5[k];
            s6 += w * r6[k];
            s7 += w * r7[k];
        }
        s0 = counts[i] / s0;
        s1 = counts[i + 1] / s1;
        s2 = counts[i + 2] / s2;
        s3 = counts[i + 3] / s3;
        s4 = counts[i + 4] / s4;
        s5 = counts[i + 5] / s5;
        s6 = counts[i + 6] / s6;
        s7 = counts[i + 7] / s7;
        SKBNP_PRAGMA(omp simd)
        for (k = 0; k < n_topics; k++)
            total[k] += (s0 * r0[k] + s1 * r1[k]) + (s2 * r2[k] + s3 * r3[k]) +
                        ((s4 * r4[k] + s5 * r5[k]) + (s6 * r6[k] + s7 * r7[k]));
    }
    for (; i < n; i++) {
        const double *row = weights + words[i] * n_topics;
        double s = 0.0;
        SKBNP_PRAGMA(omp simd reduction(+ : s))
        for (k = 0; k < n_topics; k++)
            s += e[k] * row[k];
        s = counts[i] / s;
        SKBNP_PRAGMA(omp simd)
        for (k = 0; k < n_topics; k++)
            total[k] += s * row[k];
    }
    return settle(n_topics, e, total, doc_topic);
}

/* Copy the columns of some topics to a tile, topic by topic, words contiguous. */
SKBNP_INLINE void pack(ptrdiff_t n, const int32_t *words, ptrdiff_t n_topics,
                       const double *weights, ptrdiff_t n_packed, const double *topics,
                       double *restrict tile)
{
    ptrdiff_t wide = padded(n);
    for (ptrdiff_t i = 0; i < n; i++) {
        const double *row = weights + words[i] * n_topics;
        for (ptrdiff_t a = 0; a < n_packed; a++)
            tile[a * wide + i] = row[(ptrdiff_t)topics[a]];
    }
    for (ptrdiff_t a = 0; a < n_packed; a++)
        for (ptrdiff_t i = n; i < wide; i++)
            tile[a * wide + i] = 1.0;
}

/* s_w = sum_a e_a b_wa for the packed topics. */
SKBNP_INLINE void packed_norms(ptrdiff_t wide, ptrdiff_t n_packed, const double *e,
                               const double *tile, double *restrict norms)
{
    ptrdiff_t a = 0, i;
    for (i = 0; i < wide; i++)
        norms[i] = 0.0;
    for (; a + 4 <= n_packed; a += 4) {
        const double *t0 = tile + a * wide, *t1 = t0 + wide;
        const double *t2 = t1 + wide, *t3 = t2 + wide;
        double e0 = e[a], e1 = e[a + 1], e2 = e[a + 2], e3 = e[a + 3];
        SKBNP_PRAGMA(omp simd)
        for (i = 0; i < wide; i++)
            norms[i] += (e0 * t0[i] + e1 * t1[i]) + (e2 * t2[i] + e3 * t3[i]);
    }
    for (; a < n_packed; a++) {
        const double *t = tile + a * wide;
        double w = e[a];
        SKBNP_PRAGMA(omp simd)
        for (i = 0; i < wide; i++)
            norms[i] += w * t[i];
    }
}

/* total_a = sum_w f_w b_wa for the packed topics. */
SKBNP_INLINE void packed_totals(ptrdiff_t wide, ptrdiff_t n_packed, const double *f,
                                const double *tile, double *restrict total)
{
    ptrdiff_t a = 0, i;
    for (; a + 4 <= n_packed; a += 4) {
        const double *t0 = tile + a * wide, *t1 = t0 + wide;
        const double *t2 = t1 + wide, *t3 = t2 + wide;
        double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        SKBNP_PRAGMA(omp simd reduction(+ : s0, s1, s2, s3))
        for (i = 0; i < wide; i++) {
            s0 += f[i] * t0[i];
            s1 += f[i] * t1[i];
            s2 += f[i] * t2[i];
            s3 += f[i] * t3[i];
        }
        total[a] = s0;
        total[a + 1] = s1;
        total[a + 2] = s2;
        total[a + 3] = s3;
    }
    for (; a < n_packed; a++) {
        const double *t = tile + a * wide;
        double s = 0.0;
        SKBNP_PRAGMA(omp simd reduction(+ : s))
        for (i = 0; i < wide; i++)
            s += f[i] * t[i];
        total[a] = s;
    }
}

SKBNP_CLONES
void skbnp_iterate(ptrdiff_t n, const int32_t *words, const double *counts,
                   ptrdiff_t n_topics, const double *weights, const double *prior,
                   double *doc_topic, double *work, ptrdiff_t max_iter, double tol,
                   double active)
{
    ptrdiff_t wide = padded(n), iteration = 0, i, k, a;
    double *e = work, *total = e + n_topics, *packed_prior = total + n_topics;
    double *packed_topic = packed_prior + n_topics, *topics = packed_topic + n_topics;
    double *f = topics + n_topics, *packed_counts = f + wide;
    double *tile = packed_counts + wide;
    double change;
    int rounds = 0;

    while (iteration < max_iter) {
        change = full_pass(n, words, counts, n_topics, weights, prior, doc_topic, e,
                           total);
        iteration++;
        if (change < tol)
            return;
        if (iteration < 2 || rounds == MAX_ROUNDS)
            continue;
        a = 0;
        for (k = 0; k < n_topics; k++)
            if (doc_topic[k] >= active) {
                topics[a] = (double)k;
                packed_prior[a] = prior[k];
                packed_topic[a] = doc_topic[k];
                a++;
            }
        if (a == 0 || 2 * a > n_topics)
            continue;
        /* Few topics are left: iterate over them alone, then look at all again. */
        rounds++;
        pack(n, words, n_topics, weights, a, topics, tile);
        for (i = 0; i < n; i++)
            packed_counts[i] = counts[i];
        for (; i < wide; i++)
            packed_counts[i] = 0.0;
        while (iteration < max_iter) {
            weigh(a, packed_prior, packed_topic, e);
            packed_norms(wide, a, e, tile, f);
            SKBNP_PRAGMA(omp simd)
            for (i = 0; i < wide; i++)
                f[i] = packed_counts[i] / f[i];
            packed_totals(wide, a, f, tile, total);
            change = settle(a, e, total, packed_topic);
            iteration++;
            if (change < tol)
                break;
        }
        for (k = 0; k < n_topics; k++)
            doc_topic[k] = 0.0;
        for (i = 0; i < a; i++)
            doc_topic[(ptrdiff_t)topics[i]] = packed_topic[i];
    }
}

SKBNP_INLINE ptrdiff_t assign(ptrdiff_t n, const int32_t *words, const double *counts,
                              ptrdiff_t n_topics, const double *weights,
                              const double *prior, double *doc_topic, double *work,
                              double support)
{
    ptrdiff_t wide = padded(n), a = 0, i, k;
    double *e = work, *total = e + n_topics, *packed_prior = total + n_topics;
    double *packed_topic = packed_prior + n_topics, *topics = packed_topic + n_topics;
    double *norms = topics + n_topics, *f = norms + wide, *tile = f + wide;

    for (k = 0; k < n_topics; k++) {
        if (doc_topic[k] >= support) {
            topics[a] = (double)k;
            packed_prior[a] = prior[k];
            packed_topic[a] = doc_topic[k];
            a++;
        }
        doc_topic[k] = 0.0;
    }
    weigh(a, packed_prior, packed_topic, e);
    pack(n, words, n_topics, weights, a, topics, tile);
    packed_norms(wide, a, e, tile, norms);
    for (i = 0; i < n; i++)
        f[i] = counts[i] / norms[i];
    for (; i < wide; i++) {
        f[i] = 0.0;
        norms[i] = 1.0;
    }
    packed_totals(wide, a, f, tile, total);
    for (k = 0; k < a; k++) {
        packed_topic[k] = e[k] * total[k];
        doc_topic[(ptrdiff_t)topics[k]] = packed_topic[k];
    }
    return a;
}

SKBNP_CLONES
double skbnp_finish(ptrdiff_t n, const int32_t *words, const double *counts,
                    ptrdiff_t n_topics, const double *weights, const double *prior,
                    double *doc_topic, double *work, double support, int with_bound)
{
    ptrdiff_t a = assign(n, words, counts, n_topics, weights, prior, doc_topic, work,
                         support);
    double *e = work, *packed_topic = work + 3 * n_topics;
    double *packed_prior = work + 2 * n_topics, *norms = work + 5 * n_topics;
    double bound = 0.0;

    /* What follows the topics in the space of their priors ends them. */
    for (ptrdiff_t k = a; k < n_topics; k++)
        packed_topic[k] = -1.0;
    if (!with_bound)
        return 0.0;
    for (ptrdiff_t i = 0; i < n; i++)
        bound += counts[i] * log(norms[i]);
    for (ptrdiff_t k = 0; k < a; k++)
        if (packed_topic[k] > 0.0)
            bound += lgamma(packed_prior[k] + packed_topic[k]) -
                     lgamma(packed_prior[k]) - packed_topic[k] * log(e[k]);
    return bound;
}

SKBNP_CLONES
void skbnp_collect(ptrdiff_t n, const int32_t *words, const double *counts,
                   ptrdiff_t n_topics, const double *work, double *word_topic,
                   double *entropy, double *doc_weights, double *norms_out)
{
    ptrdiff_t wide = padded(n), n_packed = 0, i, a;
    const double *e = work, *packed_topic = work + 3 * n_topics;
    const double *topics = packed_topic + n_topics, *norms = topics + n_topics;
    const double *f = norms + wide, *tile = f + wide;

    while (n_packed < n_topics && packed_topic[n_packed] >= 0.0)
        n_packed++;
    for (i = 0; i < n; i++) {
        double *sums = word_topic + words[i] * n_topics;
        for (a = 0; a < n_packed; a++) {
            ptrdiff_t k = (ptrdiff_t)topics[a];
            double weight = e[a] * tile[a * wide + i], tokens = f[i] * weight;
            sums[k] += tokens;
            entropy[k] -= tokens * log(weight / norms[i]);
        }
    }
    if (doc_weights != NULL) {
        for (a = 0; a < n_topics; a++)
            doc_weights[a] = 0.0;
        for (a = 0; a < n_packed; a++)
            doc_weights[(ptrdiff_t)topics[a]] = e[a];
    }
    if (norms_out != NULL)
        for (i = 0; i < n; i++)
            norms_out[i] = norms[i];
}

SKBNP_CLONES
void skbnp_word_weights(ptrdiff_t n_words, ptrdiff_t n_topics, double *table,
                        const double *norm, double eta, double smallest, double *work,
                        int mean)
{
    double *factor = work, *exponent = work + n_topics;
    for (ptrdiff_t w = 0; w < n_words; w++) {
        double *restrict row = table + w * n_topics;
        double largest = 0.0, top = -HUGE_VAL;
        if (mean) {
            SKBNP_PRAGMA(omp simd reduction(max : largest))
            for (ptrdiff_t k = 0; k < n_topics; k++) {
                row[k] = (eta + row[k]) / norm[k];
                largest = row[k] > largest ? row[k] : largest;
            }
        } else {
            /* Relative to the largest exponent: the smallest may leave the range. */
            SKBNP_PRAGMA(omp simd reduction(max : top))
            for (ptrdiff_t k = 0; k < n_topics; k++) {
                factor[k] = digamma_factor(eta + row[k]);
                exponent[k] = digamma_exponent(eta + row[k]) - norm[k];
                top = exponent[k] > top ? exponent[k] : top;
            }
            SKBNP_PRAGMA(omp simd reduction(max : largest))
            for (ptrdiff_t k = 0; k < n_topics; k++) {
                row[k] = factor[k] * fast_exp(exponent[k] - top);
                largest = row[k] > largest ? row[k] : largest;
            }
        }
        SKBNP_PRAGMA(omp simd)
        for (ptrdiff_t k = 0; k < n_topics; k++) {
            double weight = row[k] / largest; /* exactly one for the largest */
            row[k] = weight < smallest ? smallest : weight;
        }
    }
}

SKBNP_CLONES
void skbnp_exp_digamma(ptrdiff_t n, const double *x, double *out)
{
    SKBNP_PRAGMA(omp simd)
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = exp_digamma(x[i]);
}
