/* Gibbs sweeps of the collapsed nested Chinese restaurant process. */

#include "nested_crp.h"

#include <math.h>

#include "clones.h"
#include "special.h"

SKBNP_INLINE double log_held(const NestedCRP *s, ptrdiff_t l, int32_t n)
{
    return n < s->n_logs ? (double)s->log_counts[l * s->n_logs + n]
                         : fast_log((double)n + s->topic_prior[l]);
}

/* A column of a level that has no documents; -1: there is none. */
SKBNP_INLINE int32_t free_column(const NestedCRP *s, ptrdiff_t l)
{
    int64_t end = s->first[l] + s->n_nodes[l];
    for (int64_t i = s->first[l]; i < end; i++)
        if (s->docs[i] == 0)
            return (int32_t)i;
    return end < s->first[l + 1] ? (int32_t)end : -1;
}

/* The words of a document at each level: `unique` and `times`, from[l] to from[l + 1]. */
SKBNP_INLINE void list_words(NestedCRP *s, ptrdiff_t doc)
{
    int64_t begin = s->begin[doc], end = s->begin[doc + 1];
    int32_t n = 0;
    for (ptrdiff_t l = 0; l < s->n_levels; l++) {
        s->from[l] = n;
        for (int64_t i = begin; i < end; i++) {
            if (s->level[i] != l)
                continue;
            if (n > s->from[l] && s->unique[n - 1] == s->words[i])
                s->times[n - 1]++;
            else {
                s->unique[n] = s->words[i];
                s->times[n++] = 1;
            }
        }
    }
    s->from[s->n_levels] = n;
}

SKBNP_INLINE void move_document(NestedCRP *s, ptrdiff_t doc, int32_t sign)
{
    const int32_t *path = s->path + doc * s->n_levels;
    for (ptrdiff_t l = 0; l < s->n_levels; l++) {
        int32_t node = path[l];
        s->docs[node] += sign;
        for (int32_t i = s->from[l]; i < s->from[l + 1]; i++) {
            s->counts[(ptrdiff_t)s->unique[i] * s->stride + node] += sign * s->times[i];
            s->totals[node] += sign * s->times[i];
        }
        if (s->docs[node] == 0)
            s->parent[node] = -1;
    }
}

/* log p(words of the document at level l | node), for all nodes of the level; returns
   that of a new node. */
SKBNP_INLINE double score_level(NestedCRP *s, ptrdiff_t l)
{
    int64_t first = s->first[l];
    ptrdiff_t n = s->n_nodes[l];
    double eta = s->topic_prior[l], v_eta = (double)s->n_words * eta, fresh = 0.0;
    double *score = s->score + first;
    int32_t n_tokens = 0;
    for (ptrdiff_t k = 0; k < n; k++)
        score[k] = 0.0;
    for (int32_t i = s->from[l]; i < s->from[l + 1]; i++) {
        const int32_t *row = s->counts + (ptrdiff_t)s->unique[i] * s->stride + first;
        for (int32_t r = 0; r < s->times[i]; r++) {
            for (ptrdiff_t k = 0; k < n; k++)
                score[k] += log_held(s, l, row[k] + r);
            fresh += log_held(s, l, r);
        }
        n_tokens += s->times[i];
    }
    for (ptrdiff_t k = 0; k < n; k++)
        score[k] -= log_rising(v_eta + (double)s->totals[first + k], n_tokens);
    return fresh - log_rising(v_eta, n_tokens);
}

/* Draw a path given the levels of the tokens: an old one, or a new branch below a node. */
SKBNP_INLINE void draw_path(NestedCRP *s, ptrdiff_t doc, bitgen_t *rng)
{
    int32_t *path = s->path + doc * s->n_levels;
    ptrdiff_t last = s->n_levels - 1;
    double *total = s->score, *weight = s->weight, most = -INFINITY, sum = 0.0, x;
    double below = 0.0, fresh[256];
    int32_t node = -1;
    ptrdiff_t l;
    for (l = 0; l <= last; l++)
        fresh[l] = score_level(s, l);
    /* Down the tree: score_l + log(d / (d_parent + gamma)) along the path. */
    for (l = 1; l <= last; l++)
        for (int64_t i = s->first[l]; i < s->first[l] + s->n_nodes[l]; i++)
            if (s->docs[i] > 0) {
                int32_t up = s->parent[i];
                total[i] += total[up] + fast_log((double)s->docs[i]) -
                            fast_log((double)s->docs[up] + s->concentration);
            }
    /* A leaf is a path; an inner node stands for a new branch below it. */
    for (l = last; l >= 0; l--) {
        for (int64_t i = s->first[l]; i < s->first[l] + s->n_nodes[l]; i++) {
            weight[i] = -INFINITY;
            if (s->docs[i] == 0)
                continue;
            weight[i] = total[i];
            if (l < last)
                weight[i] += below + fast_log(s->concentration) -
                             fast_log((double)s->docs[i] + s->concentration);
            most = weight[i] > most ? weight[i] : most;
        }
        below += fresh[l];
    }
    if (most > -INFINITY) {
        int32_t kept = -1;
        for (l = 0; l <= last; l++)
            for (int64_t i = s->first[l]; i < s->first[l] + s->n_nodes[l]; i++) {
                weight[i] = s->docs[i] > 0 ? fast_exp(weight[i] - most) : 0.0;
                sum += weight[i];
            }
        x = rng->next_double(rng->state) * sum;
        for (l = 0; l <= last && node < 0; l++)
            for (int64_t i = s->first[l]; i < s->first[l] + s->n_nodes[l]; i++) {
                if (weight[i] <= 0.0)
                    continue;
                kept = (int32_t)i;
                if (x < weight[i]) {
                    node = kept;
                    break;
                }
                x -= weight[i];
            }
        node = node < 0 ? kept : node;
    }
    /* Up from the node, then new ones below it; all are new for the first document. */
    for (l = node < 0 ? -1 : last; l >= 0; l--)
        if (node >= s->first[l])
            break;
    int stays = l < 0 || path[l] == node;
    for (ptrdiff_t up = l; up >= 0; up--, node = s->parent[node])
        path[up] = node;
    for (l = l + 1; l <= last; l++) {
        node = free_column(s, l);
        if (node == s->first[l] + s->n_nodes[l])
            s->n_nodes[l]++;
        s->parent[node] = l > 0 ? path[l - 1] : -1;
        /* One that the document has just left alone keeps its name, where its parent
           does. */
        stays = stays && path[l] == node;
        if (!stays)
            s->is_new[node] = 1;
        path[l] = node;
        s->docs[node] = 0;
    }
}

/* Draw the level of each token given the path. */
SKBNP_INLINE void draw_levels(NestedCRP *s, ptrdiff_t doc, bitgen_t *rng)
{
    const int32_t *path = s->path + doc * s->n_levels;
    double mass[256];
    for (ptrdiff_t l = 0; l < s->n_levels; l++)
        s->at_level[l] = 0;
    for (int64_t i = s->begin[doc]; i < s->begin[doc + 1]; i++)
        s->at_level[s->level[i]]++;
    for (int64_t i = s->begin[doc]; i < s->begin[doc + 1]; i++) {
        int32_t *row = s->counts + (ptrdiff_t)s->words[i] * s->stride;
        ptrdiff_t l = s->level[i];
        double sum = 0.0, x;
        row[path[l]]--;
        s->totals[path[l]]--;
        s->at_level[l]--;
        for (l = 0; l < s->n_levels; l++) {
            double eta = s->topic_prior[l];
            mass[l] = (s->level_prior[l] + s->at_level[l]) * (row[path[l]] + eta) /
                      (s->totals[path[l]] + (double)s->n_words * eta);
            sum += mass[l];
        }
        x = rng->next_double(rng->state) * sum;
        for (l = 0; l < s->n_levels - 1 && x >= mass[l]; l++)
            x -= mass[l];
        row[path[l]]++;
        s->totals[path[l]]++;
        s->at_level[l]++;
        s->level[i] = (uint8_t)l;
    }
}

SKBNP_CLONES
ptrdiff_t skbnp_nested_crp_sweep(NestedCRP *s, ptrdiff_t doc, ptrdiff_t stop,
                                 int with_paths, bitgen_t *rng)
{
    for (; doc < stop; doc++) {
        int is_seated = s->path[doc * s->n_levels] >= 0;
        if (with_paths || !is_seated) {
            for (ptrdiff_t l = 0; l < s->n_levels; l++)
                if (free_column(s, l) < 0 && l > 0)
                    return doc;
            list_words(s, doc);
            if (is_seated)
                move_document(s, doc, -1);
            draw_path(s, doc, rng);
            move_document(s, doc, 1);
        }
        draw_levels(s, doc, rng);
    }
    return doc;
}
