/* Gibbs sweeps over tables and dishes, and split-merge proposals. */

#include "franchise.h"

#include <math.h>
#include <string.h>

#include "clones.h"
#include "special.h"

/* Dishes whose weights are computed side by side. */
#define LANES 8
/* Entries of a word that are summed in whole vectors. */
#define MANY 48
/* Tokens ahead whose entries are fetched. */
#define AHEAD 4

#if defined(__GNUC__)
#define SKBNP_PREFETCH(address) __builtin_prefetch(address)
#else
#define SKBNP_PREFETCH(address)
#endif

/* -- bookkeeping ------------------------------------------------------------------ */

/* Take note of new numbers of tokens and tables of a dish. */
SKBNP_INLINE void note_dish(Franchise *f, int32_t k)
{
    double before = f->rate[k];
    if (f->dish_tables[k] > 0) {
        double total = (double)f->dish_tokens[k] + (double)f->n_words * f->eta;
        f->inverse[k] = 1.0f / (float)total;
        f->rate[k] = (float)f->dish_tables[k] * f->inverse[k];
    }
    else
        f->inverse[k] = f->rate[k] = 0.0f;
    f->rate_sum += (double)f->rate[k] - before;
}

/* Sum the rates, free of what rounding has left behind. */
SKBNP_INLINE void sum_rates(Franchise *f)
{
    f->rate_sum = 0.0;
    for (ptrdiff_t k = 0; k < f->n_served; k++)
        f->rate_sum += (double)f->rate[k];
}

/* Take a place for a new dish. One that `old` has just given up keeps its name: a dish
   of one table may be served anew. */
SKBNP_INLINE int32_t take_place(Franchise *f, int32_t old)
{
    int32_t k = (int32_t)f->n_served;
    if (f->n_free > 0)
        k = f->free_places[--f->n_free];
    else
        f->n_served++;
    if (k != old)
        f->is_new[k] = 1;
    return k;
}

SKBNP_INLINE void remove_table(Franchise *f, int32_t k)
{
    f->n_all_tables--;
    if (--f->dish_tables[k] == 0)
        f->free_places[f->n_free++] = k;
}

SKBNP_INLINE void add_table(Franchise *f, int32_t k)
{
    f->n_all_tables++;
    f->dish_tables[k]++;
}

SKBNP_INLINE ptrdiff_t find(const int32_t *dishes, ptrdiff_t n, int32_t k)
{
    ptrdiff_t e = 0;
    while (e < n && dishes[e] != k)
        e++;
    return e;
}

SKBNP_INLINE int32_t count_of(const Franchise *f, int32_t word, int32_t k)
{
    int64_t first = f->room[word];
    ptrdiff_t n = f->n_entries[word], e = find(f->entry_dish + first, n, k);
    return e < n ? f->entry_count[first + e] : 0;
}

SKBNP_INLINE void take_entry(Franchise *f, int32_t word, ptrdiff_t e, int32_t times)
{
    int64_t first = f->room[word];
    f->entry_count[first + e] -= times;
    if (f->entry_count[first + e] == 0) {
        ptrdiff_t last = --f->n_entries[word];
        f->entry_dish[first + e] = f->entry_dish[first + last];
        f->entry_count[first + e] = f->entry_count[first + last];
    }
}

SKBNP_INLINE void take_words(Franchise *f, int32_t word, int32_t k, int32_t times)
{
    ptrdiff_t n = f->n_entries[word];
    take_entry(f, word, find(f->entry_dish + f->room[word], n, k), times);
}

SKBNP_INLINE void put_words(Franchise *f, int32_t word, int32_t k, int32_t times)
{
    int64_t first = f->room[word];
    ptrdiff_t n = f->n_entries[word], e = find(f->entry_dish + first, n, k);
    if (e == n) {
        f->n_entries[word]++;
        f->entry_dish[first + e] = k;
        f->entry_count[first + e] = 0;
    }
    f->entry_count[first + e] += times;
}

/* -- tokens ----------------------------------------------------------------------- */

/* The document in hand. */
typedef struct {
    int64_t n_tokens;
    const int32_t *words;
    int32_t *table, *size, *dish;
    int32_t n_tables;
    ptrdiff_t n_dishes, n_empty;
    double rate_sum; /* sum of doc_rate */
} Document;

SKBNP_INLINE void note_doc_dish(Franchise *f, Document *d, int32_t k)
{
    double before = f->doc_rate[k];
    f->doc_rate[k] = (float)f->doc_tokens[k] * f->inverse[k];
    d->rate_sum += (double)f->doc_rate[k] - before;
    if (!f->is_listed[k]) {
        f->is_listed[k] = 1;
        f->doc_dishes[d->n_dishes++] = k;
    }
}

SKBNP_INLINE void open_document(Franchise *f, Document *d, ptrdiff_t doc)
{
    int64_t begin = f->begin[doc];
    d->n_tokens = f->begin[doc + 1] - begin;
    d->words = f->words + begin;
    d->table = f->table + begin;
    d->size = f->size + begin;
    d->dish = f->dish + begin;
    d->n_tables = f->n_tables[doc];
    d->n_dishes = d->n_empty = 0;
    d->rate_sum = 0.0;
    for (int32_t t = 0; t < d->n_tables; t++) {
        int32_t k = d->dish[t];
        f->doc_tokens[k] += d->size[t];
        f->doc_tables[k]++;
        f->doc_table[k] = t;
        note_doc_dish(f, d, k);
    }
}

SKBNP_INLINE void close_document(Franchise *f, Document *d)
{
    for (ptrdiff_t i = 0; i < d->n_dishes; i++) {
        int32_t k = f->doc_dishes[i];
        f->doc_tokens[k] = f->doc_tables[k] = f->doc_table[k] = f->is_listed[k] = 0;
        f->doc_rate[k] = 0.0f;
    }
}

/* Place at which running sums of non-negative masses pass x, which becomes the share of
   the way through it; the last mass if rounding has put x behind all. */
SKBNP_INLINE ptrdiff_t pick(const float *masses, ptrdiff_t n, double *x)
{
    ptrdiff_t last = -1;
    double rest = *x;
    for (ptrdiff_t i = 0; i < n; i++) {
        double mass = masses[i];
        if (mass > 0.0) {
            last = i;
            if (rest < mass) {
                *x = rest / mass;
                return i;
            }
            rest -= mass;
        }
    }
    *x = 0.0;
    return last;
}

/* The dish for a new table of one token, -1: a new one. x is uniform below the sum of
   m_k f_k(word), of which `held` is the part of counts, and gamma / V. */
SKBNP_INLINE int32_t pick_dish(Franchise *f, int32_t word, double x, double held)
{
    int64_t first = f->room[word];
    ptrdiff_t n = f->n_entries[word];
    if (x < held) {
        for (ptrdiff_t e = 0; e < n; e++)
            f->masses[e] = (float)f->entry_count[first + e] *
                           f->rate[f->entry_dish[first + e]];
        return f->entry_dish[first + pick(f->masses, n, &x)];
    }
    x -= held;
    if (x < f->eta * f->rate_sum) {
        x /= f->eta;
        return (int32_t)pick(f->rate, f->n_served, &x);
    }
    return -1;
}

/* One of the tables of a dish in the document, by size; `share` is in [0, 1). */
SKBNP_INLINE int32_t pick_table(Franchise *f, Document *d, int32_t k, double share)
{
    int32_t left, last = f->doc_table[k];
    if (f->doc_tables[k] == 1)
        return last;
    left = (int32_t)(share * f->doc_tokens[k]);
    for (int32_t t = 0; t < d->n_tables; t++) {
        if (d->size[t] > 0 && d->dish[t] == k) {
            last = t;
            left -= d->size[t];
            if (left < 0)
                break;
        }
    }
    return last;
}

/* A dish of the document by doc_rate; as `pick`. -1 if there is none. */
SKBNP_INLINE int32_t pick_doc_dish(Franchise *f, const Document *d, double *x)
{
    ptrdiff_t i;
    for (i = 0; i < d->n_dishes; i++)
        f->masses[i] = f->doc_rate[f->doc_dishes[i]];
    i = pick(f->masses, d->n_dishes, x);
    return i < 0 ? -1 : f->doc_dishes[i];
}

/* Where a token sat, and the rates of its dish before it stood up. */
typedef struct {
    int32_t table, dish; /* -1: nowhere */
    int64_t entry;       /* -1: it was the last of its word */
    float inverse, rate, doc_rate;
    double rate_sum, doc_rate_sum;
} Seat;

SKBNP_INLINE void stand_up(Franchise *f, Document *d, int64_t i, Seat *seat)
{
    int32_t word = d->words[i], t = d->table[i], k = d->dish[t];
    ptrdiff_t n = f->n_entries[word];
    int64_t first = f->room[word];
    seat->table = t;
    seat->dish = k;
    seat->entry = first + find(f->entry_dish + first, n, k);
    seat->inverse = f->inverse[k];
    seat->rate = f->rate[k];
    seat->doc_rate = f->doc_rate[k];
    seat->rate_sum = f->rate_sum;
    seat->doc_rate_sum = d->rate_sum;
    take_entry(f, word, seat->entry - first, 1);
    if (f->n_entries[word] < n)
        seat->entry = -1;
    f->dish_tokens[k]--;
    f->doc_tokens[k]--;
    if (--d->size[t] == 0) {
        f->empty[d->n_empty++] = t;
        remove_table(f, k);
        if (--f->doc_tables[k] > 0 && f->doc_table[k] == t) {
            int32_t other = 0;
            while (d->size[other] == 0 || d->dish[other] != k)
                other++;
            f->doc_table[k] = other;
        }
    }
    note_dish(f, k);
    note_doc_dish(f, d, k);
}

/* Sit down where the token sat, with others. */
SKBNP_INLINE void sit_again(Franchise *f, Document *d, int64_t i, const Seat *seat)
{
    int32_t k = seat->dish;
    d->size[seat->table]++;
    f->dish_tokens[k]++;
    f->doc_tokens[k]++;
    if (seat->entry < 0)
        put_words(f, d->words[i], k, 1);
    else
        f->entry_count[seat->entry]++;
    f->inverse[k] = seat->inverse;
    f->rate[k] = seat->rate;
    f->doc_rate[k] = seat->doc_rate;
    f->rate_sum = seat->rate_sum;
    d->rate_sum = seat->doc_rate_sum;
}

/* Sit down at table t, -1: a new one; `entry` is that of the dish, -1: to be found. */
SKBNP_INLINE void sit_down(Franchise *f, Document *d, int64_t i, int32_t t, int32_t k,
                           int64_t entry)
{
    if (t < 0) {
        t = d->n_empty ? f->empty[--d->n_empty] : d->n_tables++;
        d->size[t] = 0;
        d->dish[t] = k;
        add_table(f, k);
        f->doc_tables[k]++;
        f->doc_table[k] = t;
    }
    d->table[i] = t;
    d->size[t]++;
    f->dish_tokens[k]++;
    f->doc_tokens[k]++;
    if (entry < 0)
        put_words(f, d->words[i], k, 1);
    else
        f->entry_count[entry]++;
    note_dish(f, k);
    note_doc_dish(f, d, k);
}

/* Masses n_kw n_jk / (n_k + V eta) of the entries of a word; their sum, and that of
   n_kw m_k / (n_k + V eta). Most words have few: four sums hide what an addition takes. */
SKBNP_INLINE void weigh_entries(const Franchise *f, int64_t first, ptrdiff_t n,
                                float *here, float *anywhere)
{
    const int32_t *dishes = f->entry_dish + first, *counts = f->entry_count + first;
    const float *doc_rate = f->doc_rate, *rate = f->rate;
    float *restrict masses = f->masses;
    float h[4] = {0.0f}, a[4] = {0.0f};
    ptrdiff_t e = 0;
    if (n >= MANY) {
        float sum = 0.0f, all = 0.0f;
        SKBNP_PRAGMA(omp simd reduction(+ : sum, all))
        for (ptrdiff_t i = 0; i < n; i++) {
            masses[i] = (float)counts[i] * doc_rate[dishes[i]];
            sum += masses[i];
            all += (float)counts[i] * rate[dishes[i]];
        }
        *here = sum;
        *anywhere = all;
        return;
    }
    for (; e + 4 <= n; e += 4)
        for (int l = 0; l < 4; l++) {
            float count = (float)counts[e + l];
            masses[e + l] = count * doc_rate[dishes[e + l]];
            h[l] += masses[e + l];
            a[l] += count * rate[dishes[e + l]];
        }
    for (int l = 0; e < n; e++, l++) {
        float count = (float)counts[e];
        masses[e] = count * doc_rate[dishes[e]];
        h[l] += masses[e];
        a[l] += count * rate[dishes[e]];
    }
    *here = (h[0] + h[1]) + (h[2] + h[3]);
    *anywhere = (a[0] + a[1]) + (a[2] + a[3]);
}

/* Draw the table of each token. Masses: n_jk (n_kw + eta) / (n_k + V eta) for the tables
   of a dish together, alpha / (m + gamma) [sum_k m_k f_k(w) + gamma / V] for a new one. */
SKBNP_INLINE void sweep_tokens(Franchise *f, ptrdiff_t doc, bitgen_t *rng)
{
    Document document, *d = &document;
    double base = f->corpus_concentration / (double)f->n_words;
    open_document(f, d, doc);
    for (int64_t i = 0; i < d->n_tokens; i++) {
        int32_t word = d->words[i], k, t = -1;
        int64_t first = f->room[word], entry = -1;
        float here, anywhere;
        double old, fresh, per_table, x;
        ptrdiff_t n;
        Seat seat = {.table = -1, .dish = -1};
        if (i + AHEAD < d->n_tokens) {
            int64_t next = f->room[d->words[i + AHEAD]];
            SKBNP_PREFETCH(f->entry_dish + next);
            SKBNP_PREFETCH(f->entry_count + next);
        }
        if (d->table[i] >= 0)
            stand_up(f, d, i, &seat);
        n = f->n_entries[word];
        weigh_entries(f, first, n, &here, &anywhere);
        old = (double)here + f->eta * d->rate_sum;
        fresh = (double)anywhere + f->eta * f->rate_sum + base;
        per_table =
            f->doc_concentration / ((double)f->n_all_tables + f->corpus_concentration);
        x = rng->next_double(rng->state) * (old + per_table * fresh);
        k = -1;
        if (x < (double)here) {
            entry = first + pick(f->masses, n, &x);
            k = f->entry_dish[entry];
            t = pick_table(f, d, k, x);
        }
        else if (x < old) {
            x = (x - (double)here) / f->eta;
            k = pick_doc_dish(f, d, &x);
            if (k >= 0)
                t = pick_table(f, d, k, x);
        }
        else
            k = pick_dish(f, word, (x - old) / per_table, (double)anywhere);
        if (t >= 0 && t == seat.table) {
            sit_again(f, d, i, &seat);
            continue;
        }
        if (k < 0)
            k = take_place(f, seat.dish >= 0 && f->dish_tables[seat.dish] == 0
                                  ? seat.dish
                                  : -1);
        sit_down(f, d, i, t, k, entry);
    }
    f->n_tables[doc] = d->n_tables;
    close_document(f, d);
}

/* Give the tables of a document consecutive numbers, and list its tokens by table. */
SKBNP_INLINE void group_tokens(Franchise *f, ptrdiff_t doc)
{
    int64_t begin = f->begin[doc], n_tokens = f->begin[doc + 1] - begin;
    int32_t *table = f->table + begin, *size = f->size + begin, *dish = f->dish + begin;
    int32_t *renamed = f->empty, n = 0, n_old = f->n_tables[doc];
    for (int32_t t = 0; t < n_old; t++) {
        renamed[t] = n;
        if (size[t] > 0) {
            size[n] = size[t];
            dish[n++] = dish[t];
        }
    }
    f->n_tables[doc] = n;
    f->start[0] = 0;
    for (int32_t t = 0; t < n; t++)
        f->start[t + 1] = f->start[t] + size[t];
    for (int64_t i = 0; i < n_tokens; i++) {
        table[i] = renamed[table[i]];
        f->order[f->start[table[i]]++] = (int32_t)i;
    }
    for (int32_t t = n; t > 0; t--)
        f->start[t] = f->start[t - 1];
    f->start[0] = 0;
}

/* -- dishes ----------------------------------------------------------------------- */

/* The words of a table, each once; `times` in what is considered, `own` in all. */
typedef struct {
    const int32_t *words, *times, *own;
    ptrdiff_t n;
    int32_t n_tokens;
} Meal;

/* Weights m_k prod_w ratio_k / prod_i (x_k + i) of n touched dishes, x = n_k + V eta, in
   units of prod_w (eta)^(x_w) and scale^L; returns their sum. */
SKBNP_INLINE double weigh(Franchise *f, ptrdiff_t begin, ptrdiff_t n, int32_t length,
                          double scale)
{
    const int32_t *dishes = f->touched + begin;
    double v_eta = (double)f->n_words * f->eta, sum = 0.0;
    for (ptrdiff_t from = 0; from < n; from += LANES) {
        double total[LANES], down[LANES], up[LANES];
        for (int l = 0; l < LANES; l++) {
            int32_t k = dishes[from + l < n ? from + l : from];
            total[l] = ((double)f->dish_tokens[k] + v_eta) * scale;
            up[l] = (double)f->dish_tables[k] * f->ratio[k];
            down[l] = 1.0;
        }
        for (int32_t i = 0; i < length; i++)
            for (int l = 0; l < LANES; l++)
                down[l] *= total[l] + i * scale;
        for (int l = 0; l < LANES; l++)
            up[l] /= down[l];
        for (int l = 0; l < LANES && from + l < n; l++)
            sum += f->weights[begin + from + l] = up[l];
    }
    return sum;
}

SKBNP_INLINE int32_t pick_listed(const int32_t *dishes, const double *weights,
                                 ptrdiff_t n, double x)
{
    int32_t last = -1;
    for (ptrdiff_t i = 0; i < n; i++) {
        if (weights[i] > 0.0) {
            last = dishes[i];
            if (x < weights[i])
                break;
            x -= weights[i];
        }
    }
    return last;
}

/* Draw a dish k with probability ~ m_k f_k(meal), -1: a new one, ~ gamma f_new(meal).
   The meal's tokens count for dish `old` among the entries, but nowhere else. */
SKBNP_INLINE int32_t draw_dish(Franchise *f, const Meal *meal, int32_t old, bitgen_t *rng)
{
    double v_eta = (double)f->n_words * f->eta, per_eta = 1.0 / f->eta;
    double seated = 0.0, scale, known, fresh, bound, u, x;
    ptrdiff_t n = 0, n_others = 0;
    int32_t k;
    for (ptrdiff_t i = 0; i < meal->n; i++) {
        int64_t first = f->room[meal->words[i]], n_held = f->n_entries[meal->words[i]];
        for (int64_t e = first; e < first + n_held; e++) {
            int32_t count = f->entry_count[e];
            double ratio;
            k = f->entry_dish[e];
            if (k == old && (count -= meal->own[i]) == 0)
                continue;
            ratio = 1.0 + (double)count * per_eta;
            for (int32_t r = 1; r < meal->times[i]; r++)
                ratio *= 1.0 + (double)count / (f->eta + r);
            if (f->ratio[k] == 1.0)
                f->touched[n++] = k;
            f->ratio[k] *= ratio;
        }
    }
    /* Numbers near one, whatever the unit. */
    for (ptrdiff_t i = 0; i < n; i++)
        seated += (double)f->dish_tokens[f->touched[i]];
    scale = 1.0 / (v_eta + 1.0 + seated / (double)(n > 0 ? n : 1));
    known = weigh(f, 0, n, meal->n_tokens, scale);
    fresh = f->corpus_concentration / (v_eta * scale);
    /* Dishes that hold none of the words; each has a token at least. */
    bound = f->rate_sum / scale;
    for (int32_t i = 1; i < meal->n_tokens; i++) {
        fresh /= (v_eta + i) * scale;
        bound /= (v_eta + 1.0 + i) * scale;
    }
    u = rng->next_double(rng->state);
    x = u * (known + fresh + bound);
    if (x >= known + fresh) {
        double others;
        for (k = 0; k < (int32_t)f->n_served; k++)
            if (f->dish_tables[k] > 0 && f->ratio[k] == 1.0)
                f->touched[n + n_others++] = k;
        others = weigh(f, n, n_others, meal->n_tokens, scale);
        x = u * (known + fresh + others);
        if (x < known + fresh) /* u is near its border: draw anew */
            x = (known + fresh) * rng->next_double(rng->state);
    }
    if (x < known)
        k = pick_listed(f->touched, f->weights, n, x);
    else if (x < known + fresh || n_others == 0)
        k = -1;
    else
        k = pick_listed(f->touched + n, f->weights + n, n_others, x - known - fresh);
    for (ptrdiff_t i = 0; i < n; i++)
        f->ratio[f->touched[i]] = 1.0;
    return k;
}

/* log m_k f_k(meal); k = -1: log gamma f_new(meal). */
SKBNP_INLINE double log_weight(const Franchise *f, const Meal *meal, int32_t k,
                               int32_t old)
{
    double total = (double)f->n_words * f->eta, up = 1.0, down = 1.0;
    double log_w = fast_log(k < 0 ? f->corpus_concentration : (double)f->dish_tables[k]);
    int32_t at = 0;
    if (k >= 0)
        total += (double)f->dish_tokens[k];
    for (ptrdiff_t i = 0; i < meal->n; i++) {
        double held = f->eta;
        if (k >= 0)
            held += count_of(f, meal->words[i], k) - (k == old ? meal->own[i] : 0);
        for (int32_t r = 0; r < meal->times[i]; r++, at++) {
            up *= held + r;
            down *= total + at;
            if (up > 1e140 || up < 1e-140 || down > 1e140 || down < 1e-140) {
                log_w += fast_log(up) - fast_log(down);
                up = down = 1.0;
            }
        }
    }
    return log_w + (fast_log(up) - fast_log(down));
}

/* Resample the dish of a table. Of a long one, some tokens at equal distances propose,
   with a Metropolis-Hastings step for the others. `old` has lost the meal but for its
   entries. */
SKBNP_INLINE int32_t resample_dish(Franchise *f, const Meal *meal, int32_t old,
                                   int meal_part, bitgen_t *rng)
{
    Meal part = {f->part, f->part_times, f->part_times + meal_part, 0, meal_part};
    int32_t *own = f->part_times + meal_part, k, now, at = 0, n = 0;
    double log_ratio;
    if (meal->n_tokens <= meal_part)
        return draw_dish(f, meal, old, rng);
    for (ptrdiff_t i = 0; i < meal->n; i++) {
        int32_t taken = 0;
        for (int32_t r = 0; r < meal->times[i]; r++, at++) {
            if ((int64_t)(at + 1) * meal_part / meal->n_tokens > n) {
                n++;
                taken++;
            }
        }
        if (taken > 0) {
            f->part[part.n] = meal->words[i];
            f->part_times[part.n] = taken;
            own[part.n++] = meal->own[i];
        }
    }
    k = draw_dish(f, &part, old, rng);
    now = f->dish_tables[old] > 0 ? old : -1; /* another new dish is as good */
    if (k == now)
        return k;
    log_ratio = log_weight(f, meal, k, old) - log_weight(f, meal, now, old) -
                (log_weight(f, &part, k, old) - log_weight(f, &part, now, old));
    if (log_ratio >= 0.0 || rng->next_double(rng->state) < fast_exp(log_ratio))
        return k;
    return now;
}

SKBNP_INLINE void sweep_dishes(Franchise *f, ptrdiff_t doc, int meal_part, bitgen_t *rng)
{
    int64_t begin = f->begin[doc];
    const int32_t *words = f->words + begin;
    int32_t *size = f->size + begin, *dish = f->dish + begin;
    for (int32_t t = 0; t < f->n_tables[doc]; t++) {
        Meal meal = {f->distinct, f->times, f->times, 0, size[t]};
        int32_t old = dish[t], k;
        if (size[t] < 2)
            continue; /* its token has drawn the dish with the table */
        for (int32_t i = f->start[t]; i < f->start[t + 1]; i++) {
            int32_t word = words[f->order[i]];
            if (meal.n > 0 && f->distinct[meal.n - 1] == word)
                f->times[meal.n - 1]++;
            else {
                f->distinct[meal.n] = word;
                f->times[meal.n++] = 1;
            }
        }
        f->dish_tokens[old] -= size[t];
        remove_table(f, old);
        note_dish(f, old);
        k = resample_dish(f, &meal, old, meal_part, rng);
        if (k < 0)
            k = take_place(f, f->dish_tables[old] == 0 ? old : -1);
        if (k != old) {
            dish[t] = k;
            for (ptrdiff_t i = 0; i < meal.n; i++) {
                take_words(f, meal.words[i], old, meal.times[i]);
                put_words(f, meal.words[i], k, meal.times[i]);
            }
        }
        f->dish_tokens[k] += size[t];
        add_table(f, k);
        note_dish(f, k);
    }
}

SKBNP_CLONES
ptrdiff_t skbnp_franchise_sweep(Franchise *f, ptrdiff_t doc, ptrdiff_t stop,
                                int meal_part, bitgen_t *rng)
{
    for (; doc < stop; doc++) {
        /* A document has as many new dishes as tokens at the most. */
        if (f->n_free + f->n_places - f->n_served < f->begin[doc + 1] - f->begin[doc])
            return doc;
        if (doc % 16 == 0)
            sum_rates(f);
        sweep_tokens(f, doc, rng);
        group_tokens(f, doc);
        if (meal_part > 0)
            sweep_dishes(f, doc, meal_part, rng);
    }
    return doc;
}

void skbnp_franchise_count(Franchise *f)
{
    for (ptrdiff_t doc = 0; doc < f->n_docs; doc++) {
        int64_t begin = f->begin[doc];
        for (int32_t t = 0; t < f->n_tables[doc]; t++)
            add_table(f, f->dish[begin + t]);
        if (f->n_tables[doc] == 0)
            continue; /* nobody is seated */
        for (int64_t i = begin; i < f->begin[doc + 1]; i++) {
            int32_t k = f->dish[begin + f->table[i]];
            put_words(f, f->words[i], k, 1);
            f->dish_tokens[k]++;
        }
    }
}

void skbnp_franchise_rate(Franchise *f)
{
    for (ptrdiff_t k = 0; k < f->n_served; k++)
        note_dish(f, (int32_t)k);
    sum_rates(f);
}

void skbnp_franchise_group(const Franchise *f, int32_t *words, int32_t *first)
{
    for (ptrdiff_t doc = 0; doc < f->n_docs; doc++) {
        int64_t begin = f->begin[doc], end = f->begin[doc + 1];
        int32_t sum = 0, n = f->n_tables[doc];
        for (int32_t t = 0; t < n; t++) {
            first[begin + t] = sum;
            sum += f->size[begin + t];
        }
        for (int64_t i = begin; i < end; i++)
            words[begin + first[begin + f->table[i]]++] = f->words[i];
        for (int32_t t = 0; t < n; t++)
            first[begin + t] -= f->size[begin + t];
    }
}

void skbnp_franchise_tidy(Franchise *f, const int32_t *renamed)
{
    for (ptrdiff_t doc = 0; doc < f->n_docs; doc++) {
        int32_t *dish = f->dish + f->begin[doc];
        for (int32_t t = 0; t < f->n_tables[doc]; t++)
            dish[t] = renamed[dish[t]];
    }
    for (ptrdiff_t word = 0; word < f->n_words; word++) {
        int32_t *dish = f->entry_dish + f->room[word], n = f->n_entries[word];
        int32_t *count = f->entry_count + f->room[word];
        for (int32_t e = 0; e < n; e++) {
            /* Most are in order already: insertion. */
            int32_t k = renamed[dish[e]], c = count[e], at = e;
            for (; at > 0 && (count[at - 1] < c || (count[at - 1] == c && dish[at - 1] > k));
                 at--) {
                dish[at] = dish[at - 1];
                count[at] = count[at - 1];
            }
            dish[at] = k;
            count[at] = c;
        }
    }
}

/* -- splits and merges ------------------------------------------------------------ */

/* Number below n, without bias: a product of 53 random bits, n < 2^31. */
SKBNP_INLINE int64_t below(int64_t n, bitgen_t *rng)
{
    return (int64_t)(rng->next_double(rng->state) * (double)n);
}

/* lnG(eta + a) + lnG(eta + b) - lnG(eta) - lnG(eta + a + b): of a word in two dishes,
   against both together. Zero if it is in one alone. */
SKBNP_INLINE double word_gain(double eta, int32_t a, int32_t b)
{
    if (a == 0 || b == 0)
        return 0.0;
    return log_rising(eta, a) - log_rising(eta + b, a);
}

/* log p(split) - log p(merged) of two dishes, words' gains given. */
SKBNP_INLINE double log_split(const Franchise *f, double gains, double m1, double m2,
                              double n1, double n2)
{
    double v_eta = (double)f->n_words * f->eta, digamma;
    gains += log_rising(v_eta + n1, n2) - log_rising(v_eta, n2);
    return gains + fast_log(f->corpus_concentration) + log_gamma(m1, &digamma) +
           log_gamma(m2, &digamma) - log_gamma(m1 + m2, &digamma);
}

/* The words of a table, equal ones side by side. */
SKBNP_INLINE const int32_t *words_of(const Franchise *f, const Proposal *p, int32_t doc,
                                     int32_t t, int32_t *n)
{
    int64_t begin = f->begin[doc];
    *n = f->size[begin + t];
    return p->words + begin + p->begin[begin + t];
}

SKBNP_INLINE void add_words(const int32_t *words, int32_t n, int32_t *counts)
{
    for (int32_t i = 0; i < n; i++)
        counts[words[i]]++;
}

/* log p(words | one) - log p(words | other), by counts so far. */
SKBNP_INLINE double log_odds(const Franchise *f, const Proposal *p, const int32_t *words,
                             int32_t n, double n1, double n2)
{
    double v_eta = (double)f->n_words * f->eta, log_ratio = 0.0, up = 1.0, down = 1.0;
    int32_t run = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t word = words[i];
        run = i > 0 && words[i - 1] == word ? run + 1 : 0;
        up *= (f->eta + p->one[word] + run) * (v_eta + n2 + i);
        down *= (f->eta + p->other[word] + run) * (v_eta + n1 + i);
        if (up > 1e100 || up < 1e-100 || down > 1e100 || down < 1e-100) {
            log_ratio += fast_log(up) - fast_log(down);
            up = down = 1.0;
        }
    }
    return log_ratio + (fast_log(up) - fast_log(down));
}

/* log p(split) - log p(merged) of two dishes as they are. */
SKBNP_INLINE double log_split_of(const Franchise *f, int32_t one, int32_t other)
{
    double gains = 0.0;
    for (ptrdiff_t w = 0; w < f->n_words; w++) {
        int32_t first = 0, second = 0, n = f->n_entries[w];
        const int32_t *dish = f->entry_dish + f->room[w];
        const int32_t *count = f->entry_count + f->room[w];
        for (int32_t e = 0; e < n; e++) {
            first = dish[e] == one ? count[e] : first;
            second = dish[e] == other ? count[e] : second;
        }
        gains += word_gain(f->eta, first, second);
    }
    return log_split(f, gains, f->dish_tables[one], f->dish_tables[other],
                     f->dish_tokens[one], f->dish_tokens[other]);
}

/* All tables of both dishes but two, in random order; how many. */
SKBNP_INLINE int64_t fill_queue(const Proposal *p, int64_t a, int64_t b, int32_t one,
                                int32_t other, bitgen_t *rng)
{
    int64_t n = 0;
    for (int64_t i = p->first[one]; i < p->first[one + 1]; i++)
        if (i != a && i != b)
            p->queue[n++] = (int32_t)i;
    if (other != one)
        for (int64_t i = p->first[other]; i < p->first[other + 1]; i++)
            if (i != b)
                p->queue[n++] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = below(i + 1, rng);
        int32_t kept = p->queue[i];
        p->queue[i] = p->queue[j];
        p->queue[j] = kept;
    }
    return n;
}

/* Move a table to another dish. */
SKBNP_INLINE void move_table(Franchise *f, const Proposal *p, int32_t at, int32_t from,
                             int32_t to)
{
    int32_t doc = p->doc[at], t = p->table[at], n;
    const int32_t *words = words_of(f, p, doc, t, &n);
    for (int32_t i = 0; i < n; i++) {
        take_words(f, words[i], from, 1);
        put_words(f, words[i], to, 1);
    }
    f->dish[f->begin[doc] + t] = to;
    f->dish_tokens[from] -= n;
    f->dish_tokens[to] += n;
    remove_table(f, from);
    add_table(f, to);
}

SKBNP_CLONES
int skbnp_franchise_propose(Franchise *f, const Proposal *p, bitgen_t *rng,
                            int32_t *stays, int32_t *comes)
{
    int64_t a = below(f->n_all_tables, rng), b = below(f->n_all_tables - 1, rng);
    int64_t n_queue;
    int32_t one, other, n;
    const int32_t *words;
    double u, m1 = 1.0, m2 = 1.0, n1, n2, log_forward = 0.0, whole = 0.0;
    int is_split, is_rejected = 0;
    b += b >= a; /* any two tables, in any order */
    one = *stays = f->dish[f->begin[p->doc[a]] + p->table[a]];
    other = *comes = f->dish[f->begin[p->doc[b]] + p->table[b]];
    is_split = one == other;
    u = fast_log(1.0 - rng->next_double(rng->state));
    if (!is_split) {
        /* The ratio of a merge is at most that of the joint probabilities. */
        whole = log_split_of(f, one, other);
        if (u >= -whole)
            return SKBNP_REJECTED;
    }
    n_queue = fill_queue(p, a, b, one, other, rng);
    words = words_of(f, p, p->doc[a], p->table[a], &n);
    add_words(words, n, p->one);
    n1 = n;
    words = words_of(f, p, p->doc[b], p->table[b], &n);
    add_words(words, n, p->other);
    n2 = n;
    for (int64_t i = 0; i < n_queue && !is_rejected; i++) {
        int32_t doc = p->doc[p->queue[i]], t = p->table[p->queue[i]];
        double odds, of_one;
        int is_other;
        words = words_of(f, p, doc, t, &n);
        odds = log_odds(f, p, words, n, n1, n2) + fast_log(m1 / m2);
        of_one = 1.0 / (1.0 + fast_exp(-odds));
        if (is_split)
            is_other = rng->next_double(rng->state) >= of_one;
        else
            is_other = f->dish[f->begin[doc] + t] == other;
        /* log p(choice) = -log(1 + exp(-+odds)) */
        if (is_other)
            odds = -odds;
        log_forward -= odds < -36.0 ? -odds : fast_log(1.0 + fast_exp(-odds));
        add_words(words, n, is_other ? p->other : p->one);
        *(is_other ? &n2 : &n1) += n;
        *(is_other ? &m2 : &m1) += 1.0;
        p->choice[i] = (int8_t)is_other;
        /* Of a merge it only falls. */
        is_rejected = !is_split && u >= log_forward - whole;
    }
    if (is_split) {
        double gains = 0.0;
        for (ptrdiff_t w = 0; w < f->n_words; w++)
            gains += word_gain(f->eta, p->one[w], p->other[w]);
        is_rejected = u >= log_split(f, gains, m1, m2, n1, n2) - log_forward;
    }
    memset(p->one, 0, (size_t)f->n_words * sizeof *p->one);
    memset(p->other, 0, (size_t)f->n_words * sizeof *p->other);
    if (is_rejected)
        return SKBNP_REJECTED;
    if (is_split) {
        other = *comes = take_place(f, -1);
        f->dish_tokens[other] = 0;
        for (int64_t i = 0; i < n_queue; i++)
            if (p->choice[i])
                move_table(f, p, p->queue[i], one, other);
        move_table(f, p, (int32_t)b, one, other);
    }
    else
        for (int64_t i = p->first[other]; i < p->first[other + 1]; i++)
            move_table(f, p, (int32_t)i, other, one);
    note_dish(f, one);
    note_dish(f, other);
    return is_split ? SKBNP_SPLIT : SKBNP_MERGED;
}
