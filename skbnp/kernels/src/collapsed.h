/* The collapsed document step of a topic model: hot loops.

   Tables of word weights b_wk are as in document.h, with b_wk = phi_wk / unit_w, phi_wk =
   (eta + S_wk) / (V eta + S_k) the mean topics. A document is handled in three calls:
   `skbnp_collapsed_start` finds the topics in use, `skbnp_collapsed_iterate` their
   responsibilities, and `skbnp_collapsed_finish` makes these exact. */

#ifndef SKBNP_COLLAPSED_H
#define SKBNP_COLLAPSED_H

#include <stddef.h>
#include <stdint.h>

/* A document: its words, and what to take out of their weights. Arrays by word have
   zeros (`low`: any) up to a multiple of LANES. */
typedef struct {
    ptrdiff_t n;
    const int32_t *words;  /* (n,) rows of the table */
    const float *counts;   /* (n,) n_w */
    const float *own;      /* (n,) n_w / unit_w times what the totals hold of it */
    const float *low;      /* (n,) eta / unit_w: what no weight falls below, times inverse */
} Document;

/* Iterate N_k = e_k sum_w n_w b_wk / s_w with e = prior + N up to n_iter times, or until
   sum |change| < tol; N is in doc_topic. The topics with N_k >= active, or else the one
   with the largest, go to `topics`; returns how many. `work` holds 2 stride floats. */
ptrdiff_t skbnp_collapsed_start(const Document *document, ptrdiff_t n_topics,
                                ptrdiff_t stride, const float *weights,
                                const float *prior, float *doc_topic, float *work,
                                ptrdiff_t n_iter, float tol, float active,
                                int32_t *topics);

/* Floats of the tile of a document of n words that uses some topics; of responsibilities
   as many; floats of work space. */
size_t skbnp_collapsed_tile(ptrdiff_t n, ptrdiff_t n_used);
size_t skbnp_collapsed_work(ptrdiff_t n_used);

/* Responsibilities r_wk of the topics in use, by topic in `shares` (n_used, padded n):

       r_wk ~ (prior_k + rate_k [N_k - n_w r_wk]_+) max(b_wk - own_w inverse_k r_wk,
                                                       low_w inverse_k)

   from r_wk ~ (prior_k + N_k) b_wk, all words at once, up to max_iter times or until
   sum |change of N| < tol. On the way topics with N_k < idle are left out; returns how
   many stay in `topics`. rate_k N_k + prior_k is the geometric mean of prior_k + n for
   a Poisson number n, zero treated apart. Counts are multiplied by `scale`. */
ptrdiff_t skbnp_collapsed_iterate(const Document *document, ptrdiff_t stride,
                                  const float *weights, const float *prior,
                                  const float *inverse, const float *doc_topic,
                                  ptrdiff_t n_used, int32_t *topics, float *tile,
                                  float *shares, float *work, ptrdiff_t max_iter,
                                  float tol, float idle, float scale);

/* Keep responsibilities of at least `least`, which then sum to one for each word, in
   double precision. Word by word, n_w r_wk go to `sums` and the topics' numbers to
   `places`, how many to `lengths` (n,); N_k, (n_used,), goes to `tokens`. Adds to
   `log_predictive` the sum over w of

       n_w log sum_k (prior_k + N_k - n_w r_wk) max(b_wk - .., ..)

   over the topics in use. Returns how many were put. */
ptrdiff_t skbnp_collapsed_finish(const Document *document, const double *counts,
                                 const float *prior, const float *inverse,
                                 ptrdiff_t n_used, const int32_t *topics,
                                 const float *tile, const float *shares, float *work,
                                 float least, float scale, int32_t *lengths,
                                 int32_t *places, double *sums, double *tokens,
                                 double *log_predictive);

/* Sums over the documents of a batch for words `begin` to `end` of `columns`, which
   delimits for each word its stored counts, whose sums by topic lie between `limits`.
   Word by word, the topics in use, increasing, go to `used`, the sums to `totals`, their
   number to `lengths`; returns how many were put. `marks` (a bit for each topic) and
   `scratch`: zeros, left so. */
ptrdiff_t skbnp_collapsed_sums(ptrdiff_t begin, ptrdiff_t end, const int32_t *columns,
                               const ptrdiff_t *stored, const ptrdiff_t *limits,
                               const int32_t *topics, const double *sums,
                               ptrdiff_t n_topics, int32_t *lengths, int32_t *used,
                               double *totals, uint64_t *marks, double *scratch);

#endif
