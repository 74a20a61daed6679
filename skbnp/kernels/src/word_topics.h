/* Sums over a table of topic counts S, (n_words, stride) doubles to be multiplied by
   `scale`. Behind the words stand terms of the bound, with g(s) = lnG(eta + s) - lnG(eta). */

#ifndef SKBNP_WORD_TOPICS_H
#define SKBNP_WORD_TOPICS_H

#include <stddef.h>

/* Adds sum_w g(S_wk) to growth (K,), sum_w S_wk psi(eta + S_wk) to moment (K,). */
void skbnp_growth(ptrdiff_t n_words, ptrdiff_t n_topics, ptrdiff_t stride,
                  const double *held, double scale, double eta, double *growth,
                  double *moment);

/* Returns sum_w g(S_wa + S_wb) - g(S_wa) - g(S_wb) for two topics a, b. */
double skbnp_joint_growth(ptrdiff_t n_words, ptrdiff_t stride, const double *held,
                          double scale, double eta, ptrdiff_t a, ptrdiff_t b);

/* E lnG(eta + n) - lnG(eta) summed over the words of each row, n binomial of given means
   and variances, to second order where n > 0. */
void skbnp_expected_growth(ptrdiff_t n_rows, ptrdiff_t n_words, const double *means,
                           const double *variances, const double *eta, double *totals);

#endif
