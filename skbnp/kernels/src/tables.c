#include "tables.h"

#include <math.h>

#include "clones.h"
#include "lanes.h"
#include "special.h"

/* No table sits where the last vector is filled up. */
#define NOWHERE -1e30f
/* What the first topics of the tables count for at the start, the rest for the others. */
#define FAITH 0.95f
/* Topics that a table serves less, beside the one that it serves most, are left out until
   the next look at all topics, but for those that would explain so many tokens of the
   document by themselves (RARE, or more of a document with many). */
#define ACTIVE 1e-4f
#define RARE 0.1f
#define RARE_SHARE 2e-3f
/* So often, at the most, all topics are looked at. */
#define MAX_ROUNDS 4
/* Iterations between looks at the order of the tables; so often, at the most, a new order
   asks for more of them. */
#define SORT_EVERY 8
#define MAX_SORTS 4

SKBNP_INLINE ptrdiff_t padded(ptrdiff_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

/* phi of the topics in use and of all, their weights by word, zeta; by topic two weights
   and two numbers, by table four. */
size_t skbnp_seat_work(size_t n, size_t n_seats, size_t n_topics)
{
    size_t wide = (n_seats + LANES - 1) / LANES * LANES;
    size_t topics = (n_topics + LANES - 1) / LANES * LANES, words = n + LANES;
    return 2 * topics * wide + words * topics + words * wide + 4 * topics + 6 * wide;
}

void skbnp_log_sticks(ptrdiff_t n_used, ptrdiff_t n_tables, const float *tokens,
                      double scale, double concentration, double *log_pi)
{
    double left = 0.0, behind = 0.0; /* E log of what is left; tokens of later tables */
    for (ptrdiff_t t = 0; t < n_used; t++)
        behind += (double)tokens[t] / scale;
    for (ptrdiff_t t = 0; t < n_used; t++) {
        double x[3], psi[3], here = (double)tokens[t] / scale;
        behind -= here;
        if (t == n_tables - 1) { /* the last takes what is left */
            log_pi[t] = left;
            return;
        }
        x[0] = 1.0 + here;
        x[1] = concentration + (behind > 0.0 ? behind : 0.0);
        x[2] = x[0] + x[1];
        for (int i = 0; i < 3; i++)
            psi[i] = fast_log(x[i] + 8.0) + digamma_exponent(x[i]);
        log_pi[t] = left + psi[0] - psi[2];
        left += psi[1] - psi[2];
    }
}

/* The same in single precision, and nowhere behind the tables in use. */
SKBNP_INLINE void log_sticks(ptrdiff_t n_used, ptrdiff_t wide, const float *tokens,
                             double concentration, ptrdiff_t n_tables, double *exact,
                             float *log_pi)
{
    skbnp_log_sticks(n_used, n_tables, tokens, 1.0, concentration, exact);
    for (ptrdiff_t t = 0; t < wide; t++)
        log_pi[t] = t < n_used ? (float)exact[t] : NOWHERE;
}

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
            Lanes s0 = lanes_load(log_pi + t), s1 = s0, s2 = s0, s3 = s0;
            Lanes s4 = s0, s5 = s0, s6 = s0, s7 = s0;
            for (ptrdiff_t a = 0; a < n_used; a++) {
                Lanes p = lanes_load(phi + a * wide + t);
                s0 = lanes_add(s0, lanes_mul(p, lanes_of(r[0][a])));
                s1 = lanes_add(s1, lanes_mul(p, lanes_of(r[1][a])));
                s2 = lanes_add(s2, lanes_mul(p, lanes_of(r[2][a])));
                s3 = lanes_add(s3, lanes_mul(p, lanes_of(r[3][a])));
                s4 = lanes_add(s4, lanes_mul(p, lanes_of(r[4][a])));
                s5 = lanes_add(s5, lanes_mul(p, lanes_of(r[5][a])));
                s6 = lanes_add(s6, lanes_mul(p, lanes_of(r[6][a])));
                s7 = lanes_add(s7, lanes_mul(p, lanes_of(r[7][a])));
            }
            lanes_store(out + t, s0);
            lanes_store(out + wide + t, s1);
            lanes_store(out + 2 * wide + t, s2);
            lanes_store(out + 3 * wide + t, s3);
            lanes_store(out + 4 * wide + t, s4);
            lanes_store(out + 5 * wide + t, s5);
            lanes_store(out + 6 * wide + t, s6);
            lanes_store(out + 7 * wide + t, s7);
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
            Lanes s0 = lanes_of(log_beta[at[0]]), s1 = lanes_of(log_beta[at[1]]);
            Lanes s2 = lanes_of(log_beta[at[2]]), s3 = lanes_of(log_beta[at[3]]);
            Lanes s4 = lanes_of(log_beta[at[4]]), s5 = lanes_of(log_beta[at[5]]);
            Lanes s6 = lanes_of(log_beta[at[6]]), s7 = lanes_of(log_beta[at[7]]);
            for (ptrdiff_t i = 0; i < n; i++) {
                Lanes z = lanes_load(seats + i * wide + t);
                const float *r = tile + (rows ? (ptrdiff_t)rows[i] : i) * tile_stride;
                s0 = lanes_add(s0, lanes_mul(z, lanes_of(r[at[0]])));
                s1 = lanes_add(s1, lanes_mul(z, lanes_of(r[at[1]])));
                s2 = lanes_add(s2, lanes_mul(z, lanes_of(r[at[2]])));
                s3 = lanes_add(s3, lanes_mul(z, lanes_of(r[at[3]])));
                s4 = lanes_add(s4, lanes_mul(z, lanes_of(r[at[4]])));
                s5 = lanes_add(s5, lanes_mul(z, lanes_of(r[at[5]])));
                s6 = lanes_add(s6, lanes_mul(z, lanes_of(r[at[6]])));
                s7 = lanes_add(s7, lanes_mul(z, lanes_of(r[at[7]])));
            }
            float *out = logits + a * wide + t;
            lanes_store(out, s0);
            if (m > 1)
                lanes_store(out + wide, s1);
            if (m > 2)
                lanes_store(out + 2 * wide, s2);
            if (m > 3)
                lanes_store(out + 3 * wide, s3);
            if (m > 4)
                lanes_store(out + 4 * wide, s4);
            if (m > 5)
                lanes_store(out + 5 * wide, s5);
            if (m > 6)
                lanes_store(out + 6 * wide, s6);
            if (m > 7)
                lanes_store(out + 7 * wide, s7);
        }
    }
}

/* Softmax over the topics, for each table; in place. */
SKBNP_INLINE void serve(ptrdiff_t n_used, ptrdiff_t wide, float *phi)
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

/* Positions of the `most` largest of n values, falling; of equal ones the first. */
SKBNP_INLINE ptrdiff_t largest(ptrdiff_t n, const float *value, ptrdiff_t most,
                               int32_t *chosen)
{
    ptrdiff_t found = 0;
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t place = found < most ? found : most - 1;
        if (found == most && !(value[k] > value[chosen[place]]))
            continue;
        for (; place > 0 && value[k] > value[chosen[place - 1]]; place--)
            chosen[place] = chosen[place - 1];
        chosen[place] = (int32_t)k;
        found += found < most;
    }
    return found;
}

/* What the order of the tables contributes to the bound of a document whose tables are
   all in use: sum_t<T lnG(1 + n_t) + lnG(alpha + n_>t) - lnG(1 + alpha + n_>=t). */
SKBNP_INLINE double value_of_order(ptrdiff_t n_tables, const float *tokens,
                                   const int32_t *order, double concentration)
{
    double value = 0.0, behind = 0.0, digamma;
    for (ptrdiff_t t = n_tables - 1; t >= 0; t--) {
        double here = (double)tokens[order[t]];
        if (t < n_tables - 1) {
            value += log_gamma(1.0 + here, &digamma);
            value += log_gamma(concentration + behind, &digamma);
            value -= log_gamma(1.0 + concentration + behind + here, &digamma);
        }
        behind += here;
    }
    return value;
}

/* Put tables in the order of their tokens and drop those below `least`: how many stay,
   or minus that if they had not been in order. Columns of phi and seats follow, whose
   stride becomes *wide. That order is best unless the last stick, which takes what is
   left, is in use: then tables move only if it is better. */
SKBNP_INLINE ptrdiff_t arrange(ptrdiff_t n, ptrdiff_t n_used, ptrdiff_t n_tables,
                               ptrdiff_t n_all, double concentration, ptrdiff_t *wide,
                               float least, float *tokens, float *phi, float *seats,
                               int32_t *order, float *row)
{
    ptrdiff_t old = *wide, kept = 0, found = largest(n_tables, tokens, n_tables, order);
    int moved = 0;
    while (kept < found && tokens[order[kept]] >= least) {
        moved |= order[kept] != kept;
        kept++;
    }
    kept = kept ? kept : 1;
    if (moved && kept == n_all && concentration > 1.0) {
        double sorted = value_of_order(kept, tokens, order, concentration), present;
        int32_t *same = order + kept;
        for (ptrdiff_t t = 0; t < kept; t++)
            same[t] = (int32_t)t;
        present = value_of_order(kept, tokens, same, concentration);
        if (!(sorted > present))
            return kept;
    }
    *wide = padded(kept);
    if (!moved && *wide == old && kept == n_tables)
        return kept;
    for (int part = 0; part < 3; part++) {
        float *base = part == 0 ? tokens : part == 1 ? phi : seats;
        ptrdiff_t n_rows = part == 0 ? 1 : part == 1 ? n_used : n;
        for (ptrdiff_t i = 0; i < n_rows; i++) {
            for (ptrdiff_t t = 0; t < *wide; t++)
                row[t] = t < kept ? base[i * old + order[t]] : 0.0f;
            for (ptrdiff_t t = 0; t < *wide; t++)
                base[i * *wide + t] = row[t];
        }
    }
    return moved ? -kept : kept;
}

/* The topics that some table serves, or that are not rare in the document, and what the
   tables serve of them. `least`: a float for each table. */
SKBNP_INLINE ptrdiff_t narrow(ptrdiff_t n_topics, ptrdiff_t n_tables, ptrdiff_t wide,
                              const float *all, const float *weight, float rare,
                              float active, float *least, int32_t *topics, float *phi)
{
    ptrdiff_t n_used = 0;
    for (ptrdiff_t t = 0; t < n_tables; t++) {
        least[t] = 0.0f;
        for (ptrdiff_t k = 0; k < n_topics; k++)
            least[t] = all[k * wide + t] > least[t] ? all[k * wide + t] : least[t];
        least[t] *= active;
    }
    for (ptrdiff_t k = 0; k < n_topics; k++) {
        int is_used = weight[k] >= rare;
        for (ptrdiff_t t = 0; t < n_tables; t++)
            is_used |= all[k * wide + t] > 0.0f && all[k * wide + t] >= least[t];
        if (!is_used)
            continue;
        memcpy(phi + n_used * wide, all + k * wide, (size_t)wide * sizeof(float));
        topics[n_used++] = (int32_t)k;
    }
    for (ptrdiff_t t = 0; t < wide; t++) {
        float sum = 0.0f;
        for (ptrdiff_t a = 0; a < n_used; a++)
            sum += phi[a * wide + t];
        for (ptrdiff_t a = 0; a < n_used; a++)
            phi[a * wide + t] = sum > 0.0f ? phi[a * wide + t] / sum : 0.0f;
    }
    return n_used;
}

/* Tokens of tables times what they serve of topics that are left out. */
SKBNP_INLINE float missed(ptrdiff_t n_topics, ptrdiff_t n_tables, ptrdiff_t wide,
                          const float *all, ptrdiff_t n_used, const int32_t *topics,
                          const float *tokens)
{
    float sum = 0.0f;
    for (ptrdiff_t k = 0, a = 0; k < n_topics; k++) {
        if (a < n_used && topics[a] == k) {
            a++;
            continue;
        }
        for (ptrdiff_t t = 0; t < n_tables; t++)
            sum += tokens[t] * all[k * wide + t];
    }
    return sum;
}

SKBNP_INLINE void gather(ptrdiff_t n, const int32_t *words, ptrdiff_t stride,
                         const float *logs, ptrdiff_t n_used, const int32_t *topics,
                         const float *log_beta, float *tile, float *used_beta)
{
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t a = 0; a < n_used; a++)
            tile[i * n_used + a] = logs[words[i] * stride + topics[a]];
    for (ptrdiff_t a = 0; a < n_used; a++)
        used_beta[a] = log_beta[topics[a]];
}

SKBNP_CLONES
ptrdiff_t skbnp_seat(ptrdiff_t n, const int32_t *words, const float *counts,
                     ptrdiff_t n_topics, ptrdiff_t stride, const float *logs,
                     const float *log_beta, double concentration, ptrdiff_t n_tables,
                     ptrdiff_t n_start, float *served, float *tokens, float *work,
                     double *exact, ptrdiff_t max_iter, float tol, float least)
{
    ptrdiff_t seats = n_tables < n_topics ? n_tables : n_topics; /* ever in use */
    ptrdiff_t full = padded(n_topics), most = padded(seats), wide = most, a, t, i, k;
    ptrdiff_t n_used, n_left, iteration = 0;
    float *phi = work, *all = phi + full * most, *tile = all + full * most;
    float *zeta = tile + (n + LANES) * full, *weight = zeta + (n + LANES) * most;
    float *used_beta = weight + full, *log_pi = used_beta + full;
    float *before = log_pi + most, *n_t = before + most, *row = n_t + most;
    int32_t *topics = (int32_t *)(row + most), *order = topics + full;
    int sorts = 0;

    float n_tokens = 0.0f, rare;
    for (i = 0; i < n; i++)
        n_tokens += counts[i];
    rare = RARE * (n_tokens < 1.0f ? n_tokens : 1.0f);
    rare = rare > RARE_SHARE * n_tokens ? rare : RARE_SHARE * n_tokens;
    weigh_alone(n, words, counts, n_topics, stride, logs, log_beta, weight, all);
    /* Seats at the start. */
    for (t = 0; t < most; t++)
        n_t[t] = t < n_start ? tokens[t] : 0.0f;
    if (n_start == 0) {
        n_left = n_used = largest(n_topics, weight, seats, topics);
        for (a = 0; a < n_used; a++)
            for (t = 0; t < wide; t++)
                phi[a * wide + t] = a == t ? FAITH : 0.0f;
        for (t = 0; t < wide; t++)
            log_pi[t] = t < n_left ? 0.0f : NOWHERE;
    } else {
        n_left = n_start;
        for (k = 0; k < n_topics; k++)
            for (t = 0; t < wide; t++)
                all[k * wide + t] = t < n_start ? served[t * n_topics + k] : 0.0f;
        n_used = narrow(n_topics, n_left, wide, all, weight, rare, 0.0f, before, topics,
                        phi);
        log_sticks(n_left, wide, n_t, concentration, n_tables, exact, log_pi);
    }
    gather(n, words, stride, logs, n_used, topics, log_beta, tile, used_beta);
    seat_words(n, counts, n_used, tile, n_used, phi, log_pi, wide, zeta, n_t, before);
    n_left = arrange(n, n_used, n_left, n_tables, concentration, &wide, least, n_t,
                     phi, zeta, order, row);
    n_left = n_left < 0 ? -n_left : n_left;
    log_sticks(n_left, wide, n_t, concentration, n_tables, exact, log_pi);
    for (int round = 0;; round++) {
        /* Look at all topics... */
        weigh_topics(n, n_topics, logs, stride, words, log_beta, wide, zeta, all);
        serve(n_topics, wide, all);
        if (iteration >= max_iter || round == MAX_ROUNDS)
            break;
        if (round && missed(n_topics, n_left, wide, all, n_used, topics, n_t) < tol)
            break;
        /* ...and go on with those in use. */
        n_used = narrow(n_topics, n_left, wide, all, weight, rare, ACTIVE, before,
                        topics, phi);
        gather(n, words, stride, logs, n_used, topics, log_beta, tile, used_beta);
        while (1) {
            float change = seat_words(n, counts, n_used, tile, n_used, phi, log_pi, wide,
                                      zeta, n_t, before);
            int is_done = ++iteration >= max_iter || change < tol;
            if (is_done || iteration % SORT_EVERY == 0) {
                n_left = arrange(n, n_used, n_left, n_tables, concentration, &wide,
                                 least, n_t, phi, zeta, order, row);
                if (n_left < 0) {
                    n_left = -n_left;
                    is_done = iteration >= max_iter || ++sorts > MAX_SORTS;
                }
            }
            log_sticks(n_left, wide, n_t, concentration, n_tables, exact, log_pi);
            if (is_done)
                break;
            weigh_topics(n, n_used, tile, n_used, NULL, used_beta, wide, zeta, phi);
            serve(n_used, wide, phi);
        }
    }
    for (t = 0; t < n_left; t++)
        tokens[t] = n_t[t];
    for (t = 0; t < n_left; t++)
        for (k = 0; k < n_topics; k++)
            served[t * n_topics + k] = all[k * wide + t];
    return n_left;
}

SKBNP_CLONES
double skbnp_settle(ptrdiff_t n, const int32_t *words, const double *counts,
                    ptrdiff_t n_topics, ptrdiff_t stride, const float *logs,
                    const double *log_beta, ptrdiff_t n_used, const float *served,
                    double support, const double *log_pi, ptrdiff_t *limits,
                    int32_t *topics, double *phi, double *zeta, double *tokens)
{
    double bound = 0.0;
    ptrdiff_t i, k, t, s = 0;
    limits[0] = 0;
    for (t = 0; t < n_used; t++) {
        double sum = 0.0;
        for (k = 0; k < n_topics; k++) {
            topics[s] = (int32_t)k;
            phi[s] = (double)served[t * n_topics + k];
            sum += phi[s] >= support ? phi[s] : 0.0;
            s += phi[s] >= support;
        }
        limits[t + 1] = s;
        for (k = limits[t]; k < s; k++) {
            phi[k] /= sum;
            bound += phi[k] * (log_beta[topics[k]] - fast_log(phi[k]));
        }
        tokens[t] = 0.0;
    }
    for (i = 0; i < n; i++) {
        const float *e = logs + words[i] * stride;
        double *share = zeta + i * n_used, top = -HUGE_VAL, sum = 0.0;
        for (t = 0; t < n_used; t++) {
            double x = 0.0;
            for (s = limits[t]; s < limits[t + 1]; s++)
                x += phi[s] * (double)e[topics[s]];
            share[t] = log_pi[t] + x;
            top = share[t] > top ? share[t] : top;
        }
        SKBNP_PRAGMA(omp simd)
        for (t = 0; t < n_used; t++)
            share[t] = fast_exp(share[t] - top);
        for (t = 0; t < n_used; t++)
            sum += share[t];
        for (t = 0; t < n_used; t++) {
            share[t] /= sum;
            tokens[t] += counts[i] * share[t];
        }
        bound += counts[i] * (top + fast_log(sum));
    }
    for (t = 0; t < n_used; t++)
        bound -= tokens[t] * log_pi[t];
    return bound;
}

SKBNP_CLONES
ptrdiff_t skbnp_table_sums(ptrdiff_t begin, ptrdiff_t end, const int32_t *columns,
                           const int32_t *docs, const double *counts,
                           const ptrdiff_t *places, const double *zeta,
                           const int32_t *tables, const ptrdiff_t *support,
                           const int32_t *table_topics, const double *phi,
                           int32_t *lengths, int32_t *topics, double *sums,
                           int32_t *marks, double *scratch, int32_t *found)
{
    ptrdiff_t put = 0;
    for (ptrdiff_t word = begin; word < end; word++) {
        ptrdiff_t n_found = 0;
        for (ptrdiff_t at = columns[word]; at < columns[word + 1]; at++) {
            ptrdiff_t first = tables[docs[at]], last = tables[docs[at] + 1];
            for (ptrdiff_t t = first; t < last; t++) {
                double seats = counts[at] * zeta[places[at] + t - first];
                for (ptrdiff_t s = support[t]; s < support[t + 1]; s++) {
                    int32_t k = table_topics[s];
                    if (marks[k] != (int32_t)word) {
                        marks[k] = (int32_t)word;
                        found[n_found++] = k;
                    }
                    scratch[k] += seats * phi[s];
                }
            }
        }
        for (ptrdiff_t i = 1; i < n_found; i++) { /* few: insertion is fastest */
            int32_t k = found[i];
            ptrdiff_t j = i;
            for (; j > 0 && found[j - 1] > k; j--)
                found[j] = found[j - 1];
            found[j] = k;
        }
        for (ptrdiff_t i = 0; i < n_found; i++) {
            int32_t k = found[i];
            topics[put] = k;
            sums[put++] = scratch[k];
            scratch[k] = 0.0;
            marks[k] = -1;
        }
        lengths[word - begin] = (int32_t)n_found;
    }
    return put;
}

SKBNP_CLONES
void skbnp_log_weights(ptrdiff_t n_words, const ptrdiff_t *words, ptrdiff_t n_topics,
                       ptrdiff_t stride, const double *held, ptrdiff_t held_stride,
                       double scale, const double *norm, double eta, int mean,
                       double *work, float *table)
{
    for (ptrdiff_t w = 0; w < n_words; w++) {
        const double *restrict counts = held + words[w] * held_stride;
        float *restrict row = table + w * stride;
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
