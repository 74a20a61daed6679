/* The document step of a topic model with a Dirichlet prior over topics: hot loops.

   Tables of word weights b_wk are (n_words, stride) floats; stride is a multiple of
   LANES, columns from K on are zero. Arrays by topic have `stride` entries too, with
   priors of next to nothing and counts of zero behind the K-th. */

#ifndef SKBNP_DOCUMENT_H
#define SKBNP_DOCUMENT_H

#include <stddef.h>
#include <stdint.h>

/* Floats of work space for documents of at most `n` distinct words. */
size_t skbnp_document_work(size_t n, size_t stride);

/* Iterate N_k = e_k sum_w n_w b_wk / sum_l e_l b_wl, e ~ exp(psi(prior + N)), until
   sum |change| < tol or max_iter times. `words` holds the n words of the document,
   `counts` theirs, and zeros up to a multiple of LANES. Topics with N_k < active are
   left out on the way, none if that is -1. Before, n_mean iterations with e ~ prior +
   N. */
void skbnp_iterate(ptrdiff_t n, const int32_t *words, const float *counts,
                   ptrdiff_t n_topics, ptrdiff_t stride, const float *weights,
                   const float *prior, float *doc_topic, float *work, ptrdiff_t n_mean,
                   ptrdiff_t max_iter, float tol, float active);

/* Responsibilities r_wk = e_k b_wk / s_w over some topics, from their counts N (`start`,
   to be divided by `scale`), in double precision: puts e_k, up to a factor that
   cancels, to doc_weights, the new
   counts sum_w n_w r_wk to doc_topic, (n_support,) each, and s_w to norms (n,). Returns
   sum_w n_w log s_w - sum_k N_k log e_k + sum_k [lnG(prior_k + N_k) - lnG(prior_k)], or
   zero without `with_bound`. */
double skbnp_finish(ptrdiff_t n, const int32_t *words, const double *counts,
                    ptrdiff_t stride, const float *weights, const double *prior,
                    ptrdiff_t n_support, const int32_t *topics, const float *start,
                    double scale, double *doc_weights, double *doc_topic, double *norms,
                    int with_bound);

/* Sums over the documents of a batch, word by word, for words `begin` to `end` of
   `columns` (n_words + 1,), which delimits for each word its documents and the ratios
   n_w / s_w there (and n_w log(s_w) / s_w). Documents have topics and weights e between
   the limits in `support`. Word by word, the topics in use, increasing, go to `topics`,
   b_wk and S_wk = sum n r to `used_weights` and `sums`, their number to `limits`; sums
   of n r log s are added to log_norms (K,). Returns how many were put. `marks`: K
   entries of -1, left so; `scratch`: 2 K zeros, left so; `found`: K entries. */
ptrdiff_t skbnp_word_sums(ptrdiff_t begin, ptrdiff_t end, const int32_t *columns,
                          const int32_t *docs, const double *ratios,
                          const double *log_ratios, const int32_t *support,
                          const int32_t *doc_topics, const double *doc_weights,
                          ptrdiff_t stride, const float *weights, int32_t *limits,
                          int32_t *topics, double *used_weights, double *sums,
                          double *log_norms, int32_t *marks, double *scratch,
                          int32_t *found);

/* Weights of some words of a table of counts S (`held`, (all words, held_stride), to be
   multiplied by `scale`): exp(psi(eta + S) - norm_k), or means (eta + S) / norm_k,
   relative to the largest of each word, at least `smallest`. `work` holds 2 stride
   doubles. Largest means, (n_words,), times the heaviest norm, go to `tops` where that
   is given. */
void skbnp_word_weights(ptrdiff_t n_words, const ptrdiff_t *words, ptrdiff_t n_topics,
                        ptrdiff_t stride, const double *held, ptrdiff_t held_stride,
                        double scale, const double *norm, double eta, float smallest,
                        double *work, int mean, float *table, double *tops);

#endif
