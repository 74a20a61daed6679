/* The document step of a topic model with a Dirichlet prior over topics: hot loops. */

#ifndef SKBNP_DOCUMENT_H
#define SKBNP_DOCUMENT_H

#include <stddef.h>
#include <stdint.h>

/* Doubles of work space for documents of at most `n` distinct words and K topics. */
size_t skbnp_document_work(size_t n, size_t n_topics);

/* Iterate N_k = e_k sum_w n_w b_wk / sum_l e_l b_wl, e = exp(psi(prior + N)), until
   sum |change| < tol or max_iter times. `words` and `counts` hold the n words of the
   document, `weights` is (n_words, K). */
void skbnp_iterate(ptrdiff_t n, const int32_t *words, const double *counts,
                   ptrdiff_t n_topics, const double *weights, const double *prior,
                   double *doc_topic, double *work, ptrdiff_t max_iter, double tol,
                   double active);

/* Responsibilities over the topics with N_k >= support: their expected counts replace
   doc_topic, exact zeros elsewhere. Leaves the topics, their e_k, the tile of b_wk and
   the norms s_w in `work` for skbnp_collect. Returns sum_w n_w log s_w - sum_k N_k log
   e_k + sum_k [lnG(prior_k + N_k) - lnG(prior_k)]. */
double skbnp_finish(ptrdiff_t n, const int32_t *words, const double *counts,
                    ptrdiff_t n_topics, const double *weights, const double *prior,
                    double *doc_topic, double *work, double support, int with_bound);

/* Add the responsibilities of the last skbnp_finish to sums by word (n_words, K), and
   their entropy to entropy (K,); put e_k to doc_weights (K,) and s_w to norms (n,),
   each unless NULL. */
void skbnp_collect(ptrdiff_t n, const int32_t *words, const double *counts,
                   ptrdiff_t n_topics, const double *work, double *word_topic,
                   double *entropy, double *doc_weights, double *norms);

/* Replace counts S in the table (n_words, K) by exp(psi(eta + S) - norm_k), or by means
   (eta + S) / norm_k, relative to the largest of each word, at least `smallest`. `work`
   holds 2 K doubles. */
void skbnp_word_weights(ptrdiff_t n_words, ptrdiff_t n_topics, double *table,
                        const double *norm, double eta, double smallest, double *work,
                        int mean);

/* out_i = exp(psi(x_i)). */
void skbnp_exp_digamma(ptrdiff_t n, const double *x, double *out);

#endif
