/* The document step of an HDP with sticks in each document: hot loops.

   A document has T tables; table t serves topic k with probability phi_tk, and a token of
   word w sits at table t with probability zeta_wt. Log weights E_wk are (n_words, stride)
   floats, up to a constant per word; stride is a multiple of LANES, and what stands
   behind the K-th column is not read. */

#ifndef SKBNP_TABLES_H
#define SKBNP_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* E log pi_t of the sticks of n_used tables, of n_tables, with tokens[t] / scale tokens. */
void skbnp_log_sticks(ptrdiff_t n_used, ptrdiff_t n_tables, const float *tokens,
                      double scale, double concentration, double *log_pi);

/* Floats of work space for documents of at most `n` distinct words and `n_seats` tables
   in use, not more than tables or topics. */
size_t skbnp_seat_work(size_t n, size_t n_seats, size_t n_topics);

/* Iterate, for a document of n words with these counts,

       zeta_wt ~ exp(E log pi_t + sum_k phi_tk E_wk),
       phi_tk ~ exp(log_beta_k + sum_w n_w zeta_wt E_wk),

   and the sticks of the tables, until sum_t |change of n_t| < tol, n_t the tokens of a
   table, or max_iter times; then the largest tables come first, and a few rounds follow.
   With n_start = 0 the tables start from the topics that would explain the document best
   by themselves; else from n_start tables: their phi in `served`, (T, K), n_t in `tokens`.

   Leaves tables with n_t >= least, n_t in falling order unless the last stick is in use
   and another is better, phi_t by Eq. (17) over all topics, in the same places; returns
   how many: no more than topics. `exact`: n_tables doubles. */
ptrdiff_t skbnp_seat(ptrdiff_t n, const int32_t *words, const float *counts,
                     ptrdiff_t n_topics, ptrdiff_t stride, const float *logs,
                     const float *log_beta, double concentration, ptrdiff_t n_tables,
                     ptrdiff_t n_start, float *served, float *tokens, float *work,
                     double *exact, ptrdiff_t max_iter, float tol, float least);

/* In double precision, for the n_used tables that skbnp_seat left: the topics of each
   with phi_tk >= support, phi normalised over them, between the limits (n_used + 1,);
   then zeta, (n, n_used), from it and log_pi, and n_t. Returns

       sum_w n_w log sum_t exp(log_pi_t + sum_k phi_tk E_wk) - sum_t n_t log_pi_t
           + sum_tk phi_tk (log_beta_k - log phi_tk). */
double skbnp_settle(ptrdiff_t n, const int32_t *words, const double *counts,
                    ptrdiff_t n_topics, ptrdiff_t stride, const float *logs,
                    const double *log_beta, ptrdiff_t n_used, const float *served,
                    double support, const double *log_pi, ptrdiff_t *limits,
                    int32_t *topics, double *phi, double *zeta, double *tokens);

/* Sums over the documents of a batch, word by word, for the words from `begin` to `end`
   of `columns` (n_words + 1,), which delimits for each word its documents, counts, and
   places of its zeta. Tables of a document lie between the limits in `tables`, topics of
   a table and their phi between those in `support`. Word by word, the topics in use,
   increasing, go to `topics`, S_wk = sum n zeta_wt phi_tk to `sums`, their number to
   `lengths`; returns how many were put. `marks`: K entries of -1, left so; `scratch`: K
   zeros, left so; `found`: K entries. */
ptrdiff_t skbnp_table_sums(ptrdiff_t begin, ptrdiff_t end, const int32_t *columns,
                           const int32_t *docs, const double *counts,
                           const ptrdiff_t *places, const double *zeta,
                           const int32_t *tables, const ptrdiff_t *support,
                           const int32_t *table_topics, const double *phi,
                           int32_t *lengths, int32_t *topics, double *sums,
                           int32_t *marks, double *scratch, int32_t *found);

/* Log weights of some words of a table of counts S (`held`, (all words, held_stride), to
   be multiplied by `scale`): psi(eta + S) - norm_k, or log(eta + S) - norm_k for the
   mean, minus the largest of each word. */
void skbnp_log_weights(ptrdiff_t n_words, const ptrdiff_t *words, ptrdiff_t n_topics,
                       ptrdiff_t stride, const double *held, ptrdiff_t held_stride,
                       double scale, const double *norm, double eta, int mean,
                       double *work, float *table);

#endif
